"""Whether a configuration fits the data's task, to rank or to classify pairs, and the model that it names."""

from __future__ import annotations

from collections.abc import Iterator

from trainables.config.keys import EvaluationConfig, TrainingConfig, TrainingRun, curriculum_misfits
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.curriculum.scoring import NO_RUN, SCORINGS
from trainables.curriculum.weighting import OF_DIFFICULTY, WEIGHTINGS
from trainables.data.columns import RankingData, Task
from trainables.evaluation.metrics import ACCURACY
from trainables.rankers import RANKERS, ranker_settings
from trainables.rankers.hub import require_model
from trainables.rankers.prompt import require_room_for
from trainables.rankers.settings import DecoderSettings
from trainables.training.losses import LOSSES, class_losses


def class_values() -> dict[str, list[str]]:
    """Key -> the values that fit pairs to classify, the default first."""
    return {"metric": [ACCURACY], "training.loss": class_losses()}


def losses_like(run: TrainingRun, task: Task) -> list[str]:
    """The losses of the same kind as a training's that need no teacher and fit task and other keys, its own first: they
    read the same batches."""

    def fits(name: str) -> bool:
        other = run.model_copy(update={"training": run.training.model_copy(update={"loss": name})})
        return not curriculum_misfits(other) and not any(_unfit(other, task))

    own = LOSSES[run.training.loss]
    others = [name for name, loss in LOSSES.items() if loss.kind == own.kind and not loss.reads_teacher and fits(name)]
    return list(dict.fromkeys([run.training.loss, *others]))


def require_fit(run: TrainingRun, task: Task) -> None:
    """Raises ConfigError with every key of a training that does not fit the data's task."""
    if problems := list(_unfit(run, task)):
        raise ConfigError(problems)


def require_usable(run: TrainingRun) -> None:
    """Raises ConfigError for a ranker's model that is neither here nor to be had, or that `training.max_length` is too
    short for; before data is read, and without PyTorch."""
    settings = ranker_settings(run.ranker)
    require_model(settings)
    if isinstance(settings, DecoderSettings):
        require_room_for(settings, run.training.max_length)


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


def _unfit(run: TrainingRun, task: Task) -> Iterator[Problem]:
    loss = run.training.loss
    if task == "classification":
        yield from _unfit_for_classes(run)
    elif not run.grows_trees and LOSSES[loss].kind == "classification":
        right = ", ".join(name for name, entry in LOSSES.items() if entry.kind != "classification")
        yield Problem("training.loss", f"'{loss}' learns classes, and the data is documents to rank", f"one of {right}")


def _unfit_for_classes(run: TrainingRun) -> Iterator[Problem]:
    training, curriculum = run.training, run.curriculum
    if not RANKERS[run.ranker["name"]].settings.classifies:
        able = ", ".join(name for name, kind in RANKERS.items() if kind.settings.classifies and not kind.grows_trees)
        yield Problem("ranker.name", f"{run.ranker['name']} only ranks, and the data is pairs to classify", able)
    if run.metric != ACCURACY:
        yield Problem("metric", f"'{run.metric}' judges rankings, and the data is pairs to classify", ACCURACY)
    if training.loss not in class_losses():
        wrong = f"'{training.loss}' learns to rank, and the data is pairs to classify"
        yield Problem("training.loss", wrong, " or ".join(class_losses()))
    if training.negatives != TrainingConfig().negatives:
        yield Problem("training.negatives", "pairs to classify have no negatives", "leave it out")
    if training.draws_hard_negatives:
        yield Problem("training.hard_negatives", "pairs to classify have no negatives", "leave it out")
    if run.evaluation != EvaluationConfig():
        yield Problem("evaluation.relevance_level", "a class is not more or less relevant", "leave it out")
    if WEIGHTINGS[curriculum.weighting] is not None:
        yield Problem(
            "curriculum.weighting",
            f"'{curriculum.weighting}' {NO_RUN}",
            f"one of none, {', '.join(sorted(OF_DIFFICULTY))}",
        )
    if curriculum.reads_scoring and SCORINGS[curriculum.scoring].unfit:
        yield _unfit_scoring(curriculum.scoring)
    if curriculum.negatives.schedule != "none":
        yield Problem("curriculum.negatives.schedule", "pairs to classify have no negatives", "none")
    if curriculum.objective_switch != "none":
        wrong = f"'{curriculum.objective_switch}' learns to rank, and the data is pairs to classify"
        yield Problem("curriculum.objective_switch", wrong, "none")
