"""Whether a configuration fits the data's task: to rank, or to classify pairs."""

from __future__ import annotations

from collections.abc import Iterator

from trainables.config.keys import EvaluationConfig, TrainingConfig, TrainingRun
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.curriculum.scoring import NO_RUN, SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import RankingData, Task
from trainables.evaluation.metrics import ACCURACY
from trainables.losses import LOSSES

CLASS_LOSSES = tuple(sorted(name for name, loss in LOSSES.items() if loss.classify))
CLASS_VALUES = {"metric": (ACCURACY,), "training.loss": CLASS_LOSSES}  # the first is the default
RUN_HEURISTICS = {name for name, heuristic in WEIGHTINGS.items() if heuristic is not None}


def require_fit(run: TrainingRun, task: Task) -> None:
    """Raises ConfigError with every key of a training that does not fit the data's task. All keys fit ranking."""
    if task == "classification" and (problems := list(_unfit_for_classes(run))):
        raise ConfigError(problems)


def require_scoring(name: str, data: RankingData) -> None:
    """Raises ConfigError or DataError if a scoring function does not apply to the data."""
    if data.features is not None and SCORINGS[name].reads_texts:
        wrong = f"'{data.name}' holds features, no texts"
        others = ", ".join(sorted(other for other, scoring in SCORINGS.items() if not scoring.reads_texts))
        raise DataError(Problem("data.source", wrong, f"data with texts, which '{name}' reads, or one of {others}"))
    if data.task == "classification" and SCORINGS[name].unfit:
        raise ConfigError(_unfit_scoring(name))


def task_notes(run: TrainingRun, data: RankingData) -> tuple[str, ...]:
    """Notes for the user on what the data's task decided."""
    if data.task == "ranking":
        return ()
    return (f"pairs to classify ({', '.join(data.classes)}): loss {run.training.loss}, metric {run.metric}",)


def _unfit_scoring(name: str) -> Problem:
    fitting = [other for other, scoring in SCORINGS.items() if not scoring.unfit]
    return Problem(SCORINGS.location, f"'{name}' {SCORINGS[name].unfit}", f"one of {', '.join(fitting)}")


def _unfit_for_classes(run: TrainingRun) -> Iterator[Problem]:
    training, curriculum = run.training, run.curriculum
    if run.metric != ACCURACY:
        yield Problem("metric", f"'{run.metric}' judges rankings, and the data is pairs to classify", ACCURACY)
    if training.loss not in CLASS_LOSSES:
        wrong = f"'{training.loss}' learns to rank, and the data is pairs to classify"
        yield Problem("training.loss", wrong, " or ".join(CLASS_LOSSES))
    if training.negatives != TrainingConfig().negatives:
        yield Problem("training.negatives", "pairs to classify have no negatives", "leave it out")
    if training.draws_hard_negatives:
        yield Problem("training.hard_negatives", "pairs to classify have no negatives", "leave it out")
    if run.evaluation != EvaluationConfig():
        yield Problem("evaluation.relevance_level", "a class is not more or less relevant", "leave it out")
    if curriculum.weighting in RUN_HEURISTICS:
        yield Problem(
            "curriculum.weighting",
            f"'{curriculum.weighting}' {NO_RUN}",
            "none or difficulty",
        )
    if curriculum.reads_scoring and SCORINGS[curriculum.scoring].unfit:
        yield _unfit_scoring(curriculum.scoring)
    if curriculum.objective_switch != "none":
        wrong = f"'{curriculum.objective_switch}' learns to rank, and the data is pairs to classify"
        yield Problem("curriculum.objective_switch", wrong, "none")
