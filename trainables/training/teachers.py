"""Teachers' scores of the training candidates, which orders, losses and negatives read: at the end of a teacher's
training, after each of its iterations, and by teachers that were trained without the queries that they score.

Teachers and scores are in the cache; so is the state of a training under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainables.config.keys import CurriculumConfig, TrainingConfig
from trainables.core.cache import cached, digest_of, load_arrays, save_arrays
from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.core.randomness import generator
from trainables.curriculum.scoring import EARLY_ITERATIONS, EARLY_TEACHERS, FOLDS
from trainables.data.columns import RankingData, Split, Task, required_split
from trainables.data.combine import some_queries
from trainables.training.device import Compute, best_device, choose_precision, here, release
from trainables.training.prepared import PreparedData, prepare, read_of
from trainables.training.pretraining import arrays_once, trained_once, with_own_start, with_start
from trainables.training.saved_ranker import SavedRanker, load_ranker_folder
from trainables.training.scoring import Scorer
from trainables.training.trainer import Training

TEACHER_FORMAT = 3  # raise when the same settings train another teacher
COURSE_FORMAT = 1  # raise when the same settings give other scores by iteration
RANKER, SCORES = "ranker", "scores"


def teacher_run(run: TrainingConfig, task: Task = "ranking") -> TrainingConfig:
    """The teacher's training: `run` without a curriculum, under the keys `curriculum.teacher.*`.

    Its loss is pointwise, as in Penha & Hauff: pairwise losses determine only differences of scores, which is too
    little for probabilities. For pairs to classify it is the cross-entropy.
    """
    keys = run.curriculum.teacher
    changed = {
        "loss": "pointwise" if task == "ranking" else "cross_entropy",
        "label_smoothing": 0.0,
        "hard_negatives": "random",
        "negative_ranks": None,
        "lr": run.training.lr if keys.lr is None else keys.lr,
        "max_iterations": keys.max_iterations or run.training.max_iterations,
    }
    return run.model_copy(
        update={
            "ranker": keys.ranker or run.ranker,
            "curriculum": CurriculumConfig(),
            "training": run.training.model_copy(update=changed),
            "seed": teacher_seed(run),
        }
    )


def teacher_seed(run: TrainingConfig, number: int = 0) -> int:
    """The seed of teacher `number` of a training: another one for each seed of the training, unless
    `curriculum.teacher.seed` is a number."""
    fixed = run.curriculum.teacher.seed
    if fixed != "training":
        return fixed + number
    return int(generator(run.seed, "teacher", number).integers(2**31))


def prepare_teacher(run: TrainingConfig, data: RankingData) -> tuple[TrainingConfig, PreparedData]:
    """The teacher's training and its prepared data. Problems of its own ranker are placed at that ranker's keys."""
    plain = teacher_run(run, data.task)
    try:
        return plain, prepare(plain, data)
    except ConfigError as error:
        prefix = "curriculum.teacher." if run.curriculum.teacher.ranker else ""
        raise ConfigError(replace(problem, location=prefix + problem.location) for problem in error.problems) from error


# -- at the end of a training ------------------------------------------------------------------------------------------


def teacher_scores(run: TrainingConfig, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The teacher's scores of a split's candidates: logits of relevance, float32 [C], or class logits, float32 [C, K].

    Those that the data gives come first (NaN where it gives none). Else they are those of the teacher of `run`; teacher
    and scores come from the cache, and what it lacks is trained or scored now, through `compute`.
    """
    if split.teacher is not None:
        return split.teacher
    plain, prepared = prepare_teacher(run, data)
    key = digest_of(TEACHER_FORMAT, read_of(plain, prepared), plain.model_dump(exclude={"data"}))

    def build(folder: Path) -> None:
        started = with_start(plain, plain, prepared, compute)
        save_arrays(folder, {SCORES: compute(scores_of_teacher, plain, started, split, key)})

    return load_arrays(cached("teacher-scores", digest_of(key, split.query, split.document), build))[SCORES]


def scores_of_teacher(plain: TrainingConfig, prepared: PreparedData, split: Split, key: str) -> np.ndarray:
    """The scores of the teacher `key`, which is trained first if this machine's cache lacks it."""

    def leave(training: Training, folder: Path) -> None:
        training.save_ranker(folder / RANKER)

    entry = trained_once("teacher", key, "training the teacher", plain, prepared, leave)
    device = best_device()
    saved = load_ranker_folder(entry / RANKER)
    assert isinstance(saved, SavedRanker), "a teacher reads texts"
    module = saved.module.to(device)
    scorer = Scorer(module, device, choose_precision(plain.training.precision, device, module))
    scores = scorer.candidates(prepared.text, split)
    del module, scorer
    release()  # for the trials of the search
    return scores


# -- after iterations --------------------------------------------------------------------------------------------------


def teacher_course(run: TrainingConfig, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The scores of the teacher of `run` after each of its iterations."""
    plain, prepared = prepare_teacher(run, data)
    started = with_start(plain, plain, prepared, compute)
    return scores_by_iteration(plain, started, split, plain.training.max_iterations, True, compute)


def early_teachers(run: TrainingConfig, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The scores of EARLY_TEACHERS teachers, with seeds of their own, after their first EARLY_ITERATIONS. Each is the
    beginning of a whole training."""
    plain, prepared = prepare_teacher(run, data)
    started = with_start(plain, plain, prepared, compute)
    last = min(EARLY_ITERATIONS, plain.training.max_iterations)
    seeded = [plain.model_copy(update={"seed": teacher_seed(run, number)}) for number in range(EARLY_TEACHERS)]
    return np.stack([scores_by_iteration(one, started, split, last, False, compute)[0] for one in seeded])


def scores_by_iteration(
    plain: TrainingConfig, prepared: PreparedData, split: Split, last: int, every: bool, compute: Compute = here
) -> np.ndarray:
    """The scores of a split's candidates after each of the first `last` iterations of the training `plain`, or fewer if
    it ends before: float32 [E, C], or class logits, float32 [E, C, K]. `every`: False: after the last of them alone, so
    E is 1."""
    keys = plain.model_dump(exclude={"data"})
    alone = [] if every else ["alone"]
    key = digest_of(COURSE_FORMAT, read_of(plain, prepared), keys, split.query, split.document, last, *alone)
    return arrays_once("teacher-course", key, compute, computed_course, plain, prepared, split, last, every)[SCORES]


def computed_course(
    plain: TrainingConfig, prepared: PreparedData, split: Split, last: int, every: bool, key: str
) -> dict[str, np.ndarray]:
    """What `scores_by_iteration` gives, under its key; trained where this machine's cache lacks it."""

    def build(entry: Path) -> None:
        what = f"{plain.ranker.name}, seed {plain.seed}, at most {last} iterations"
        say(f"training a teacher ({what}, on {best_device()})")
        training, scores = Training(plain, prepared), []
        while training.iteration < last and not training.finished:
            training.iterate()
            for note in training.pop_notes():
                say(f"note: {note}")
            if every or training.iteration == last or training.finished:
                scores.append(training.score(split))
        save_arrays(entry, {SCORES: np.stack(scores)})

    entry = cached("teacher-course", key, build)
    release()  # for the trials of the search
    return load_arrays(entry)


# -- by teachers that have not seen the queries ------------------------------------------------------------------------


def cross_fitted(run: TrainingConfig, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
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
    for number in range(FOLDS):
        say(f"cross-fitting: fold {number + 1} of {FOLDS}")
        rest, left_out = (some_queries(bare, np.flatnonzero(rows)) for rows in (fold != number, fold == number))
        digest = digest_of(data.digest, "without a fold", FOLDS, seed, number)
        without = replace(data, splits={**data.splits, "train": rest}, digest=digest)
        parts.append(teacher_scores(run, without, left_out, compute))
    scores = np.empty((len(train.document), *parts[0].shape[1:]), np.float32)
    for number, part in enumerate(parts):
        scores[fold[train.owner] == number] = part
    return scores


# -- for trainings -----------------------------------------------------------------------------------------------------

Scores = Callable[[TrainingConfig, RankingData, Split, Compute], np.ndarray]
OF_NEED: dict[str, Scores] = {
    "teacher": teacher_scores,
    "teacher_course": teacher_course,
    "early_teachers": early_teachers,
    "cross_fitted": cross_fitted,
}
"""How each of TEACHERS is computed."""


def with_teachers(
    plain: TrainingConfig, prepared: Mapping[str, PreparedData], needs: Iterable[str], compute: Compute = here
) -> dict[str, PreparedData]:
    """The prepared data of a search, with the scores of teachers that its trials need.

    They are those of the search's baseline `plain` for all trials, even if these differ in ranker or learning rate:
    they are compared under an order that all share.
    """
    data = next(iter(prepared.values())).data
    scores = {need: OF_NEED[need](plain, data, required_split(data, "train"), compute) for need in needs}
    return {key: replace(one, teachers={**one.teachers, **scores}) for key, one in prepared.items()}


def completed(run: TrainingConfig, prepared: PreparedData) -> PreparedData:
    """The prepared data with all that a training of `run` reads: its pre-trained start and its teachers' scores,
    trained now if neither the prepared data nor the cache has them."""
    prepared = with_own_start(run, prepared)
    taught = prepared.taught_as.model_copy(update={"seed": run.seed}) if prepared.taught_as else run
    missing = [need for need in run.teachers if need not in prepared.teachers]
    return with_teachers(taught, {"": prepared}, missing)[""]
