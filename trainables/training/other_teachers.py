"""Scores of teachers after each iteration of their trainings, which orders by error, confidence and variability read;
and of teachers that were trained without the queries that they score.

They are in the cache; so is the state of a training under way, so that one that was killed goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainables.config.keys import TrainingRun
from trainables.core.cache import cached, cached_resumable, digest_of, entry_in_cache, load_arrays, save_arrays
from trainables.core.errors import ConfigError, Problem
from trainables.core.files import replacing
from trainables.core.prose import say
from trainables.core.randomness import generator
from trainables.curriculum.scoring import EARLY_ITERATIONS, EARLY_TEACHERS, FOLDS
from trainables.data.columns import RankingData, Split, required_split
from trainables.data.combine import some_queries
from trainables.training.device import Compute, best_device, here, release
from trainables.training.prepared import PreparedData, read_of
from trainables.training.pretrained import (
    plain_training,
    prepare_teacher,
    pretrained_start,
    teacher_scores,
    teacher_seed,
    with_start,
)
from trainables.training.saves import trained
from trainables.training.trainer import Training

FORMAT = 1  # raise when the same settings give other scores
ENTRIES, SCORES = "teacher-course", "scores"


def scores_by_iteration(
    plain: TrainingRun, prepared: PreparedData, split: Split, last: int, every: bool, compute: Compute = here
) -> np.ndarray:
    """The scores of a split's candidates after each of the first `last` iterations of the training `plain`, or fewer if
    it ends before: float32 [E, C], or class logits, float32 [E, C, K]. `every`: False: after the last of them alone, so
    E is 1."""
    keys = plain.model_dump(exclude={"data"})
    alone = [] if every else ["alone"]
    key = digest_of(FORMAT, read_of(plain, prepared), keys, split.query, split.document, last, *alone)
    entry = entry_in_cache(ENTRIES, key)
    if entry is None:  # on the machine that computes it, the scores are in its cache then; here they may not be
        scores = compute(computed_scores, plain, prepared, split, last, every, key)
        entry = cached(ENTRIES, key, lambda folder: save_arrays(folder, {SCORES: scores}))
    return load_arrays(entry)[SCORES]


def computed_scores(
    plain: TrainingRun, prepared: PreparedData, split: Split, last: int, every: bool, key: str
) -> np.ndarray:
    """What `scores_by_iteration` gives, under its key; trained where this machine's cache lacks it."""
    run = plain_training(plain)

    def build(entry: Path, state: Path) -> None:
        """Trains, or goes on from `state`, where the scores of the iterations are too."""
        what = f"{plain.ranker.name}, seed {plain.seed}, at most {last} iterations"
        say(f"training a teacher ({what}, on {best_device()})")

        def score(training: Training) -> None:  # a state may have been saved just before its scores were
            _score(training, split, state)

        training = trained(lambda: Training(run, prepared), state, say, last, score if every else lambda training: None)
        score(training)
        read = range(1, training.iteration + 1) if every else [training.iteration]
        save_arrays(entry, {SCORES: np.stack([np.load(_file(state, iteration)) for iteration in read])})

    entry = cached_resumable(ENTRIES, key, build)
    release()  # for the trials of the search
    return load_arrays(entry)[SCORES]


def _score(training: Training, split: Split, state: Path) -> None:
    """Writes the scores of the present weights, if they are not there yet."""
    path = _file(state, training.iteration)
    if not path.is_file():
        state.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished, unfinished.open("wb") as file:
            np.save(file, training.score(split), allow_pickle=False)


def _file(state: Path, iteration: int) -> Path:
    return state / f"{SCORES}-{iteration:05d}.npy"


def teacher_course(run: TrainingRun, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The scores of the teacher of `run` after each of its iterations."""
    plain, prepared = prepare_teacher(run, data)
    started = with_start(plain, plain, prepared, compute)
    return scores_by_iteration(plain, started, split, plain.training.max_iterations, True, compute)


def early_teachers(run: TrainingRun, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The scores of EARLY_TEACHERS teachers, with seeds of their own, after their first EARLY_ITERATIONS. Each is the
    beginning of a whole training."""
    plain, prepared = prepare_teacher(run, data)
    started = with_start(plain, plain, prepared, compute)
    seeded = [plain.model_copy(update={"seed": teacher_seed(run, i)}) for i in range(EARLY_TEACHERS)]
    last = min(EARLY_ITERATIONS, plain.training.max_iterations)
    return np.stack([scores_by_iteration(one, started, split, last, False, compute)[0] for one in seeded])


def cross_fitted(run: TrainingRun, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The scores of a split's candidates, float32 [C] or [C, K], by teachers that have not seen their queries.

    The training queries are divided into FOLDS; the teacher of each fold is trained on the others. Another split is
    scored by the teacher of all training queries. Scores that the data gives are not read. Raises ConfigError for more
    folds than queries.
    """
    train, seed = required_split(data, "train"), teacher_seed(run)
    if split is not train:
        return teacher_scores(run, data, replace(split, teacher=None), compute)
    if len(train) < FOLDS:
        wrong = f"crossfit_loss divides training queries into {FOLDS} parts, and there are {len(train)}"
        raise ConfigError(Problem("curriculum.scoring", wrong, "another scoring, or more training queries"))
    bare = replace(train, teacher=None)
    fold = generator(seed, "folds of a teacher").permutation(len(train)) % FOLDS
    parts = []
    for i in range(FOLDS):
        say(f"cross-fitting: fold {i + 1} of {FOLDS}")
        rest, left_out = (some_queries(bare, np.flatnonzero(rows)) for rows in (fold != i, fold == i))
        digest = digest_of(data.digest, "without a fold", FOLDS, seed, i)
        without = replace(data, splits={**data.splits, "train": rest}, digest=digest)
        parts.append(teacher_scores(run, without, left_out, compute))
    scores = np.empty((len(train.document), *parts[0].shape[1:]), np.float32)
    for i, part in enumerate(parts):
        scores[fold[train.owner] == i] = part
    return scores


Scores = Callable[[TrainingRun, RankingData, Split, Compute], np.ndarray]
OF_NEED: dict[str, Scores] = {
    "teacher": teacher_scores,
    "teacher_course": teacher_course,
    "early_teachers": early_teachers,
    "cross_fitted": cross_fitted,
}
"""How each of TEACHERS is computed."""


def with_teachers(
    plain: TrainingRun, prepared: Mapping[str, PreparedData], needs: Iterable[str], compute: Compute = here
) -> dict[str, PreparedData]:
    """The prepared data of a search, with the scores of teachers that its trials need.

    They are those of the search's baseline `plain` for all trials, even if these differ in ranker or learning rate:
    they are compared under an order that all share.
    """
    data = next(iter(prepared.values())).data
    scores = {need: OF_NEED[need](plain, data, required_split(data, "train"), compute) for need in needs}
    return {key: replace(one, teachers={**one.teachers, **scores}) for key, one in prepared.items()}


def with_pretrained_start(run: TrainingRun, prepared: PreparedData) -> PreparedData:
    """The prepared data with the start of a training that has a pre-training."""
    if run.training.pretrain_data is None or prepared.start is not None:
        return prepared
    return replace(prepared, start=pretrained_start(run, prepared.data))


def completed(run: TrainingRun, prepared: PreparedData) -> PreparedData:
    """The prepared data with all that a training of `run` reads: its pre-trained start and its teachers' scores,
    trained now if neither the prepared data nor the cache has them."""
    prepared = with_pretrained_start(run, prepared)
    taught = prepared.taught_as.model_copy(update={"seed": run.seed}) if prepared.taught_as else run
    missing = [need for need in run.teachers if need not in prepared.teachers]
    return with_teachers(taught, {"": prepared}, missing)[""]
