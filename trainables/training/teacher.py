"""The teacher of scorings model_margin and model_loss: a ranker trained once without a curriculum, and cached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from trainables.config import CurriculumConfig, TrainingRun
from trainables.curriculum.scored import Scored
from trainables.curriculum.scoring import any_needs
from trainables.data.cache import cached, digest_of, load_arrays, save_arrays
from trainables.data.columns import RankingData, Split, Task, required_split
from trainables.data.instances import Instances
from trainables.errors import ConfigError
from trainables.rankers.first_stage import first_stage_for
from trainables.training.device import Compute, best_device, here, release
from trainables.training.materials import Materials, prepare, read_of
from trainables.training.once import trained_once
from trainables.training.precision import choose_precision
from trainables.training.pretraining import with_start
from trainables.training.saved import load_ranker_folder
from trainables.training.scoring import score_candidates

FORMAT = 3  # raise when the same settings train another teacher
RANKER, SCORES = "ranker", "scores"


def teacher_run(run: TrainingRun, task: Task = "ranking") -> TrainingRun:
    """The teacher's training: `run` without a curriculum, under the keys `curriculum.teacher.*`.

    Its loss is pointwise, as in Penha & Hauff: pairwise losses determine only differences of scores, which is too
    little for probabilities. For pairs to classify it is the cross-entropy.
    """
    keys = run.curriculum.teacher
    given = {"lr": keys.lr, "max_iterations": keys.max_iterations}
    loss = "pointwise" if task == "ranking" else "cross_entropy"
    changed = {"loss": loss} | {key: value for key, value in given.items() if value is not None}
    return run.model_copy(
        update={
            "ranker": keys.ranker or run.ranker,
            "curriculum": CurriculumConfig(),
            "training": run.training.model_copy(update=changed),
            "seed": keys.seed,
        }
    )


def prepare_teacher(run: TrainingRun, data: RankingData) -> tuple[TrainingRun, Materials]:
    """The teacher's training and its materials. Problems of a ranker of its own are placed at that ranker's keys."""
    plain = teacher_run(run, data.task)
    try:
        return plain, prepare(plain, data)
    except ConfigError as error:
        own = "curriculum.teacher." if run.curriculum.teacher.ranker else ""
        raise ConfigError(replace(problem, place=own + problem.place) for problem in error.problems) from error


def teacher_scores(run: TrainingRun, data: RankingData, split: Split, compute: Compute = here) -> np.ndarray:
    """The scores of a split's candidates by the teacher of `run`: logits of relevance, float32 [C], or class logits,
    float32 [C, K].

    Teacher and scores come from the cache; what it lacks is trained or scored now, through `compute`.
    """
    plain, materials = prepare_teacher(run, data)
    key = digest_of(FORMAT, read_of(plain, materials), plain.model_dump(exclude={"data"}))

    def build(folder: Path) -> None:
        started = with_start(plain, plain, materials, compute)
        save_arrays(folder, {SCORES: compute(scores_of_teacher, plain, started, split, key)})

    return load_arrays(cached("teacher-scores", digest_of(key, split.query, split.document), build))[SCORES]


def scores_of_teacher(plain: TrainingRun, materials: Materials, split: Split, key: str) -> np.ndarray:
    """The scores of the teacher `key`, which is trained first if this machine's cache lacks it."""
    entry = trained_once(
        "teacher",
        key,
        "training the teacher",
        plain,
        materials,
        lambda training, folder: training.save_ranker(folder / RANKER),
    )
    scores = _score(entry / RANKER, plain, materials, split)
    release()  # for the trials of the search
    return scores


def scored_of(
    run: TrainingRun, data: RankingData, split: Split, instances: Instances, known: np.ndarray | None = None
) -> Scored:
    """What the configured scoring reads. `known`: the teacher's scores of this split, if already computed."""
    teacher = partial(teacher_scores, run, data, split) if known is None else lambda: known
    settings = run.curriculum
    return Scored(
        data,
        split,
        instances,
        seed=run.seed,
        reference=settings.reference,
        relevance_level=run.evaluation.relevance_level,
        vectors=settings.vectors,
        teacher=teacher,
    )


def with_teacher(
    plain: TrainingRun, scorings: Iterable[str], materials: Mapping[str, Materials], compute: Compute = here
) -> dict[str, Materials]:
    """The materials of a search, with the teacher's scores of the training split if a scoring needs them.

    There is one teacher for all trials, that of the search's baseline `plain`, even if trials differ in ranker or
    learning rate: they are compared under an order that all share.
    """
    if not any_needs(scorings, "teacher"):
        return dict(materials)
    data = next(iter(materials.values())).data
    scores = teacher_scores(plain, data, required_split(data, "train"), compute)
    return {key: replace(made, teacher=scores) for key, made in materials.items()}


def _score(ranker: Path, plain: TrainingRun, materials: Materials, split: Split) -> np.ndarray:
    device = best_device()
    module = load_ranker_folder(ranker).module.to(device)
    text = materials.text
    precision = choose_precision(plain.training.precision, device, module)
    queries = split.query[split.owner]
    first_stage = first_stage_for(module, split)
    return score_candidates(
        module, text.queries, text.documents, queries, split.document, device, precision, first_stage
    )
