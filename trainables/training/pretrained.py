"""What is trained once for many trainings, a teacher or a pre-training: it is in the cache, and while it is trained its
state is too, so that one that was killed goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainables.config.keys import CurriculumConfig, TrainingConfig, TrainingRun
from trainables.core.cache import cached, cached_resumable, digest_of, entry_in_cache, load_arrays, save_arrays
from trainables.core.errors import ConfigError
from trainables.core.prose import say
from trainables.core.randomness import generator
from trainables.data.columns import RankingData, Split, Task
from trainables.data.settings import DataConfig
from trainables.training import checkpoint
from trainables.training.device import Compute, best_device, choose_precision, here, release
from trainables.training.prepared import PreparedData, joint_text, load_pretrain_data, prepare, ranker_of, read_of
from trainables.training.saved_ranker import SavedRanker, load_ranker_folder
from trainables.training.saves import trained
from trainables.training.scoring import Scorer
from trainables.training.trainer import Training


def trained_once(
    kind: str, key: str, doing: str, plain: TrainingRun, prepared: PreparedData, leave: Callable[[Training, Path], None]
) -> Path:
    """The entry `key` of this machine's cache, with what `leave` writes of the training `plain` when it has ended.

    `key` identifies configuration and data. `doing`: what the user is told while it is trained.
    """

    def build(entry: Path, state: Path) -> None:
        what = f"{plain.ranker.name}, at most {plain.training.max_iterations} iterations"
        say(f"{doing} ({what}, on {best_device()})")
        run = plain_training(plain)
        leave(trained(lambda: Training(run, prepared), state, say), entry)

    return cached_resumable(kind, key, build)


def plain_training(run: TrainingRun) -> TrainingRun:
    """The training of an entry whose key fixes the data's content: a state made of the same data under other keys of
    `data` is a state of this one."""
    return run.model_copy(update={"data": DataConfig()})


PRETRAINED_FORMAT = 3  # raise when the same settings train another start
ENTRIES, WEIGHTS = "pretrained", "weights.safetensors"


def pretraining_run(run: TrainingRun) -> TrainingRun:
    """The training on the other data: as `run`, but without a curriculum, and with iterations, learning rate, relevance
    level and seed from the keys `training.pretrain_*`."""
    keys = run.training
    defaults = {key: TrainingConfig.model_fields[key].default for key in keys.pretraining()}
    changed = {"max_iterations": keys.pretrain_iterations, "lr": keys.pretrain_lr or keys.lr}
    return run.model_copy(
        update={
            "data": DataConfig(source=keys.pretrain_data or ""),
            "curriculum": CurriculumConfig(),
            "training": keys.model_copy(update=defaults | changed),
            "evaluation": run.evaluation.model_copy(update={"relevance_level": keys.pretrain_relevance_level}),
            "seed": int(generator(keys.pretrain_seed, "pre-training").integers(2**31)),
        }
    )


def pretrained_start(run: TrainingRun, data: RankingData, compute: Compute = here) -> dict[str, np.ndarray]:
    """The tensors that a training of `run` on `data` starts from, by name; trained now, through `compute`, if the cache
    lacks them."""
    plain = pretraining_run(run)
    other = load_pretrain_data(run, data)
    ranker, settings = ranker_of(run)
    _, text = joint_text(ranker, settings, data, other)
    # The digests identify the content; where the data lies does not matter.
    keys = plain.model_dump(exclude={"data"})
    joint = PreparedData(other, text)
    key = digest_of(PRETRAINED_FORMAT, data.digest, read_of(plain, joint), keys)

    entry = entry_in_cache(ENTRIES, key)
    if entry is None:  # on the machine that computes it, the weights are in its cache then; here they may not be
        weights = compute(pretrained_weights, plain, joint, key)
        entry = cached(ENTRIES, key, lambda folder: checkpoint.save_arrays(weights, folder / WEIGHTS))
    return checkpoint.load_arrays(entry / WEIGHTS)


def with_start(plain: TrainingRun, run: TrainingRun, prepared: PreparedData, compute: Compute = here) -> PreparedData:
    """The prepared data of a search's trials with the ranker of `run`, completed by the start that these trials share.

    The start is trained under the training keys of the search's baseline `plain`, even if trials differ in learning
    rate, loss or the like, so that all trials are compared from a common start.
    """
    if run.training.pretrain_data is None:
        return prepared
    named = {"pretrain_data": run.training.pretrain_data}
    shared = plain.model_copy(update={"ranker": run.ranker, "training": plain.training.model_copy(update=named)})
    return replace(prepared, start=pretrained_start(shared, prepared.data, compute))


def pretrained_weights(plain: TrainingRun, prepared: PreparedData, key: str) -> dict[str, np.ndarray]:
    """The trained tensors of the best iteration of the pre-training `key`, by name; trained where this machine's cache
    lacks it."""
    entry = trained_once(ENTRIES, key, f"pre-training on {prepared.data.name}", plain, prepared, _leave)
    release()  # for the trials of the search
    return checkpoint.load_arrays(entry / WEIGHTS)


def _leave(training: Training, folder: Path) -> None:
    say(f"pre-trained to dev {training.run.metric} {training.best_value:.4f}")
    weights = {name: tensor.cpu().numpy() for name, tensor in training.best_weights.items()}
    checkpoint.save_arrays(weights, folder / WEIGHTS)


TEACHER_FORMAT = 3  # raise when the same settings train another teacher
RANKER, SCORES = "ranker", "scores"


def teacher_run(run: TrainingRun, task: Task = "ranking") -> TrainingRun:
    """The teacher's training: `run` without a curriculum, under the keys `curriculum.teacher.*`.

    Its loss is pointwise, as in Penha & Hauff: pairwise losses determine only differences of scores, which is too
    little for probabilities. For pairs to classify it is the cross-entropy.
    """
    keys = run.curriculum.teacher
    given = {"lr": keys.lr, "max_iterations": keys.max_iterations}
    loss = "pointwise" if task == "ranking" else "cross_entropy"
    changed = {"loss": loss, "label_smoothing": 0.0, "hard_negatives": "random", "negative_ranks": None} | {
        key: value for key, value in given.items() if value is not None
    }
    return run.model_copy(
        update={
            "ranker": keys.ranker or run.ranker,
            "curriculum": CurriculumConfig(),
            "training": run.training.model_copy(update=changed),
            "seed": teacher_seed(run),
        }
    )


def teacher_seed(run: TrainingRun, number: int = 0) -> int:
    """The seed of teacher `number` of a training: another one for each seed of the training, unless
    `curriculum.teacher.seed` is a number."""
    fixed = run.curriculum.teacher.seed
    if fixed != "training":
        return fixed + number
    return int(generator(run.seed, "teacher", number).integers(2**31))


def prepare_teacher(run: TrainingRun, data: RankingData) -> tuple[TrainingRun, PreparedData]:
    """The teacher's training and its prepared data. Problems of its own ranker are placed at that ranker's keys."""
    plain = teacher_run(run, data.task)
    try:
        return plain, prepare(plain, data)
    except ConfigError as error:
        prefix = "curriculum.teacher." if run.curriculum.teacher.ranker else ""
        raise ConfigError(replace(problem, location=prefix + problem.location) for problem in error.problems) from error


def teacher_scores(run: TrainingRun, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
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


def scores_of_teacher(plain: TrainingRun, prepared: PreparedData, split: Split, key: str) -> np.ndarray:
    """The scores of the teacher `key`, which is trained first if this machine's cache lacks it."""
    entry = trained_once(
        "teacher",
        key,
        "training the teacher",
        plain,
        prepared,
        lambda training, folder: training.save_ranker(folder / RANKER),
    )
    device = best_device()
    saved = load_ranker_folder(entry / RANKER)
    assert isinstance(saved, SavedRanker), "a teacher reads texts"
    module = saved.module.to(device)
    scorer = Scorer(module, device, choose_precision(plain.training.precision, device, module))
    scores = scorer.candidates(prepared.text, split)
    del module, scorer
    release()  # for the trials of the search
    return scores
