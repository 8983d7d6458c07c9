"""Whether a configuration fits the data's task, to rank or to classify pairs, and the model that it names."""

from __future__ import annotations

from trainables.config.keys import TrainingRun
from trainables.config.rules import scorings_of_classes, task_misfits
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.curriculum.scoring import SCORINGS
from trainables.data.columns import RankingData, Task
from trainables.evaluation.metrics import ACCURACY
from trainables.rankers import ranker_settings
from trainables.rankers.hub import require_model
from trainables.training.losses import class_losses


def class_values() -> dict[str, list[str]]:
    """Key -> the values that fit pairs to classify, the default first."""
    return {"metric": [ACCURACY], "training.loss": class_losses()}


def require_fit(run: TrainingRun, task: Task) -> None:
    """Raises ConfigError with every key of a training that does not fit the data's task."""
    if problems := task_misfits(run, task):
        raise ConfigError(problems)


def require_usable(run: TrainingRun) -> None:
    """Raises ConfigError for a ranker's model that is neither here nor to be had, or that `training.max_length` is too
    short for; before data is read, and without PyTorch."""
    settings = ranker_settings(run.ranker)
    require_model(settings)
    settings.require_length(run.training.max_length)


def require_scoring(name: str, data: RankingData) -> None:
    """Raises ConfigError or DataError if a scoring function does not apply to the data."""
    if data.features is not None and SCORINGS[name].reads_texts:
        wrong = f"'{data.name}' holds features, no texts"
        others = ", ".join(sorted(other for other, scoring in SCORINGS.items() if not scoring.reads_texts))
        raise DataError(Problem("data.source", wrong, f"data with texts, which '{name}' reads, or one of {others}"))
    if data.task == "classification" and SCORINGS[name].unfit:
        wrong = f"'{name}' {SCORINGS[name].unfit}"
        raise ConfigError(Problem(SCORINGS.location, wrong, scorings_of_classes()))


def task_notes(run: TrainingRun, data: RankingData) -> tuple[str, ...]:
    """Notes for the user on what the data's task decided."""
    if data.task == "ranking":
        return ()
    return (f"pairs to classify ({', '.join(data.classes)}): loss {run.training.loss}, metric {run.metric}",)
