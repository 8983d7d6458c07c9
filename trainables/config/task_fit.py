"""Whether a configuration fits the data's task, to rank or to classify pairs, and the model that it names."""

from __future__ import annotations

from collections.abc import Iterator

from trainables.config.keys import EvaluationConfig, TrainingConfig, TrainingSettings
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.curriculum.scoring import NO_RUN, SCORINGS
from trainables.curriculum.weighting import OF_DIFFICULTY, WEIGHTINGS
from trainables.data.columns import RankingData, Task
from trainables.evaluation.metrics import ACCURACY
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES, class_losses


def class_values() -> dict[str, list[str]]:
    """Key -> the values that fit pairs to classify, the default first."""
    return {"metric": [ACCURACY], "training.loss": class_losses()}


def task_problems(run: TrainingConfig, task: Task) -> Iterator[Problem]:
    """A Problem for each key that does not fit the data's task."""
    loss = run.training.loss
    if task != "classification":
        if run.reads == "texts" and LOSSES[loss].kind == "classification":
            ranking = ", ".join(name for name, other in LOSSES.items() if other.kind != "classification")
            wrong = f"'{loss}' learns classes, and the data is documents to rank"
            yield Problem("training.loss", wrong, f"one of {ranking}")
        return
    data = "and the data is pairs to classify"
    curriculum = run.curriculum
    if not run.ranker.classifies:
        kinds = RANKERS.items()
        right = ", ".join(name for name, kind in kinds if kind.settings.classifies and kind.reads == "texts")
        yield Problem("ranker.name", f"{run.ranker.name} only ranks, {data}", right)
    if run.metric != ACCURACY:
        yield Problem("metric", f"'{run.metric}' judges rankings, {data}", ACCURACY)
    if loss not in class_losses():
        yield Problem("training.loss", f"'{loss}' learns to rank, {data}", " or ".join(class_losses()))
    of_rankings = {
        "training.negatives": run.training.negatives != TrainingSettings().negatives,
        "training.hard_negatives": run.training.draws_hard_negatives,
        "evaluation.relevance_level": run.evaluation != EvaluationConfig(),
        "curriculum.negatives.schedule": curriculum.negatives.schedule != "none",
        "curriculum.objective_switch": curriculum.objective_switch != "none",
    }
    for key, is_set in of_rankings.items():
        if is_set:
            yield Problem(key, f"only rankings have it, {data}", "leave it out")
    if WEIGHTINGS[curriculum.weighting] is not None:
        right = f"one of none, {', '.join(sorted(OF_DIFFICULTY))}"
        yield Problem("curriculum.weighting", f"'{curriculum.weighting}' {NO_RUN}", right)
    if curriculum.reads_scoring and SCORINGS[curriculum.scoring].unfit:
        yield unfit_scoring(curriculum.scoring)


def unfit_scoring(name: str) -> Problem:
    fitting = ", ".join(other for other, scoring in SCORINGS.items() if not scoring.unfit)
    return Problem("curriculum.scoring", f"'{name}' {SCORINGS[name].unfit}", f"one of {fitting}")


def require_fit(run: TrainingConfig, task: Task) -> None:
    """Raises ConfigError with every key of a training that does not fit the data's task."""
    if problems := list(task_problems(run, task)):
        raise ConfigError(problems)


def require_scoring(name: str, data: RankingData) -> None:
    """Raises ConfigError or DataError if a scoring function does not apply to the data."""
    if data.features is not None and SCORINGS[name].reads_texts:
        wrong = f"'{data.name}' holds features, no texts"
        others = ", ".join(sorted(other for other, scoring in SCORINGS.items() if not scoring.reads_texts))
        raise DataError(Problem("data.source", wrong, f"data with texts, which '{name}' reads, or one of {others}"))
    if data.task == "classification" and SCORINGS[name].unfit:
        raise ConfigError(unfit_scoring(name))


def task_notes(run: TrainingConfig, data: RankingData) -> tuple[str, ...]:
    """Notes for the user on what the data's task decided."""
    if data.task == "ranking":
        return ()
    return (f"pairs to classify ({', '.join(data.classes)}): loss {run.training.loss}, metric {run.metric}",)
