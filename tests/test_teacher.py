"""The teacher of the scorings model_margin and model_loss: plain, trained once, shared."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from trainables.config.keys import CurriculumConfig, TrainingConfig, validated
from trainables.core.errors import ConfigError, DataError
from trainables.curriculum.scoring import difficulty
from trainables.data.columns import RankingData, required_split
from trainables.data.instances import make_instances
from trainables.training import pretraining as once
from trainables.training.batching import scored_of
from trainables.training.factory import make_training, training_notes
from trainables.training.prepared import prepare, prepared_key
from trainables.training.teachers import completed, teacher_run, teacher_scores, with_teachers
from trainables.training.trainer import Training

RANKER = {"name": "conv_knrm", "vector_size": 16, "filters": 8}


def make_run(seed: int = 1, lr: float = 1e-2, **curriculum: Any) -> TrainingConfig:
    return validated(
        {
            "ranker": RANKER,
            "training": {"max_iterations": 3, "batches_per_iteration": 4, "batch_size": 8, "lr": lr},
            "curriculum": {"pacing": "root", "scoring": "model_margin", "delta": 0.3, "teacher": {"seed": 111}}
            | curriculum,
            "seed": seed,
        }
    )


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=16, candidates=5, seed=8)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[TrainingConfig]:
    """The teachers trained in a test, in order; its cache is empty at first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runs: list[TrainingConfig] = []
    without_data = once.without_data
    monkeypatch.setattr(once, "without_data", lambda run: (runs.append(run), without_data(run))[1])
    return runs


def test_the_teacher_is_the_plain_training_under_its_own_keys() -> None:
    run = make_run(teacher={"lr": 0.5, "max_iterations": 7, "ranker": "conv_knrm", "seed": 5}, weighting="kde")
    plain = teacher_run(run)
    assert plain.curriculum == CurriculumConfig()
    smooth = run.training.model_copy(update={"loss": "cross_entropy", "label_smoothing": 0.1})
    assert teacher_run(run.model_copy(update={"training": smooth})) == plain, "which validated as pointwise, unsmoothed"
    assert (plain.training.loss, plain.training.lr, plain.training.max_iterations) == ("pointwise", 0.5, 7)
    assert (plain.ranker.model_dump()["filters"], plain.seed) == (128, 5)
    same = teacher_run(make_run())
    assert same.ranker == make_run().ranker and same.training.lr == 1e-2 and same.training.batch_size == 8


def test_the_teacher_is_trained_once_for_all_scorings_seeds_and_splits(data, trained) -> None:
    scores = teacher_scores(make_run(seed=1), data, required_split(data, "train"))
    again = teacher_scores(make_run(seed=2, scoring="model_loss", pacing="linear"), data, required_split(data, "train"))
    dev = teacher_scores(make_run(), data, required_split(data, "dev"))
    assert np.array_equal(scores, again) and scores.dtype == np.float32
    assert scores.shape == required_split(data, "train").document.shape and not np.array_equal(scores, dev)
    assert len(trained) == 1


def test_each_seed_of_a_training_has_a_teacher_of_its_own(data, trained) -> None:
    """Unless one is fixed; whichever configuration comes first trains it as the baseline, and all share it."""
    split, baseline = required_split(data, "train"), make_run(seed=9, teacher={})
    prepared = replace(prepare(baseline, data), taught_as=baseline)
    other = make_run(seed=2, lr=5e-3, teacher={})
    one, again, two = (
        completed(run, prepared).teachers["teacher"] for run in (make_run(seed=2, teacher={}), other, baseline)
    )
    assert np.array_equal(one, again) and not np.array_equal(one, two) and len(trained) == 2
    assert np.array_equal(one, teacher_scores(baseline.model_copy(update={"seed": 2}), data, split))
    assert len({run.seed for run in trained} | {2, 9}) == 4, "no training's own seed"


def test_a_training_follows_its_teacher(data) -> None:
    run = make_run()
    training = make_training(run, prepare(run, data), device="cpu")
    split = required_split(data, "train")
    probability = 1 / (1 + np.exp(-teacher_scores(run, data, split)))
    relevant = split.grade >= 1
    sizes = np.maximum(np.bincount(split.owner, relevant), 1), np.maximum(np.bincount(split.owner, ~relevant), 1)
    margin = (
        np.bincount(split.owner, probability * relevant) / sizes[0]
        - np.bincount(split.owner, probability * ~relevant) / sizes[1]
    )
    ordered = margin[training.batcher.instances.query[training.curriculum.sampler.order]]
    assert (np.diff(ordered) <= 1e-6).all() and ordered[0] > ordered[-1], "the largest margin comes first"


def test_a_teacher_that_adds_the_first_stage_scores_with_it(data) -> None:
    run = make_run(teacher={"ranker": {"name": "knrm", "vector_size": 16, "add_first_stage": True}})
    split = required_split(data, "dev")
    without = replace(data, splits=data.splits | {"dev": replace(split, score=np.zeros_like(split.score))}, digest="0")
    found = [teacher_scores(run, one, required_split(one, "dev")) for one in (data, without)]
    assert np.ptp(found[0] - found[1]) > 0


def test_the_trials_of_a_search_share_the_teacher_of_its_baseline(data, trained) -> None:
    baseline, trial = make_run(lr=2e-2), make_run(lr=3e-2)
    prepared = with_teachers(baseline, {prepared_key(baseline): prepare(baseline, data)}, ["teacher"])
    Training(trial, prepared[prepared_key(trial)], device="cpu")
    assert [run.training.lr for run in trained] == [2e-2]


def test_a_wrong_ranker_of_the_teacher_is_an_error_at_its_key() -> None:
    with pytest.raises(ConfigError, match=r"curriculum.teacher.ranker.name: unknown value 'bort'"):
        make_run(teacher={"ranker": "bort"})
    with pytest.raises(ConfigError, match=r"curriculum.teacher.ranker.filtres: unknown key"):
        make_run(teacher={"ranker": {"name": "conv_knrm", "filtres": 1}})


# -- losses and negatives that read the teacher --------------------------------------------------------------------


def by_teacher(loss: str, **training: Any) -> TrainingConfig:
    run = make_run(pacing="none")
    return run.model_copy(
        update={"training": run.training.model_copy(update={"loss": loss, "negatives": 3, **training})}
    )


def test_hard_negatives_of_the_teacher_are_those_it_scores_highest(data, trained) -> None:
    run = by_teacher("softmax", hard_negatives="teacher", negatives=2)
    training = make_training(run, prepare(run, data), device="cpu")
    scores = training.prepared.teachers["teacher"]
    batch = next(training.batcher.batches(0, 1))
    split = required_split(data, "train")
    for positive, negatives in zip(batch.positive, batch.negative, strict=True):
        own = np.flatnonzero((split.owner == split.owner[positive]) & (split.grade < split.grade[positive]))
        assert set(negatives) == set(own[np.argsort(-scores[own], kind="stable")[:2]])


# -- a teacher's scores that the data gives ------------------------------------------------------------------------


@pytest.fixture
def taught(data) -> RankingData:
    """The data with a teacher's score of every training candidate."""
    train = required_split(data, "train")
    scores = np.random.default_rng(3).normal(size=len(train.document)).astype(np.float32)
    return replace(data, splits=data.splits | {"train": replace(train, teacher=scores)}, digest="taught")


def without_scores(data: RankingData, rows: np.ndarray) -> RankingData:
    train = required_split(data, "train")
    assert train.teacher is not None
    scores = train.teacher.copy()
    scores[rows] = np.nan
    return replace(data, splits=data.splits | {"train": replace(train, teacher=scores)}, digest="fewer")


def test_losses_negatives_and_orders_read_the_scores_of_the_data(taught, trained) -> None:
    train = required_split(taught, "train")
    for run in (by_teacher("margin_mse"), by_teacher("softmax", hard_negatives="teacher"), make_run()):
        training = make_training(run, prepare(run, taught), device="cpu")
        assert isinstance(training, Training) and training.prepared.teachers["teacher"] is train.teacher
        training.iterate()
    assert teacher_scores(make_run(), taught, train) is train.teacher and not trained
    search = with_teachers(make_run(), {"one": prepare(make_run(), taught)}, ["teacher"])
    assert search["one"].teachers["teacher"] is train.teacher and not trained


def test_candidates_without_a_score_are_left_out_of_losses_that_read_it_with_a_note(taught, trained) -> None:
    train = required_split(taught, "train")
    positives = np.flatnonzero(train.grade >= 1)
    missing = np.union1d(positives[:1], np.flatnonzero(train.grade < 1)[::3])
    fewer, run = without_scores(taught, missing), by_teacher("distill_kl")
    prepared = prepare(run, fewer)
    training = make_training(run, prepared, device="cpu")
    assert isinstance(training, Training)
    batches = list(training.batcher.batches(0, 20))
    used = np.concatenate([np.append(batch.negative, batch.positive) for batch in batches])
    assert not np.isin(used, missing).any() and np.isfinite(training.iterate()["train_loss"])
    notes = " | ".join(training_notes(run, prepared))
    assert "no teacher is trained" in notes
    assert f"{len(missing)} training candidates left out: the data gives no teacher's score" in notes
    assert not any("left out: the data" in note for note in training_notes(by_teacher("softmax"), prepared))


def test_an_order_by_the_teacher_leaves_out_what_has_no_score(taught) -> None:
    train = required_split(taught, "train")
    assert train.teacher is not None
    other = np.flatnonzero(train.grade < 1)[:1]

    def values(data: RankingData) -> np.ndarray:
        part = required_split(data, "train")
        teachers = {"teacher": partial(teacher_scores, make_run(), data, part)}
        scored = scored_of(make_run(), data, part, make_instances(part, True, 1, 1), teachers)
        return difficulty("model_loss", scored)[0]

    changed = values(taught) != values(without_scores(taught, other))
    query = train.owner[other]
    assert changed.tolist() == (make_instances(train, True, 1, 1).query == query).tolist()


def test_an_order_by_the_teacher_needs_a_score_of_a_relevant_candidate(taught) -> None:
    train = required_split(taught, "train")
    first = train.owner == 0
    bare = without_scores(taught, np.flatnonzero(first & (train.grade >= 1)))
    name = taught.query_ids[int(train.query[0])]
    wrong = rf"curriculum\.scoring: the data gives no teacher's score for any relevant candidate of query '{name}'"
    with pytest.raises(DataError, match=wrong):
        make_training(make_run(), prepare(make_run(), bare), device="cpu")
