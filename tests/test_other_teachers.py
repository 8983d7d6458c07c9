"""Orders by what teachers believe in the course of their trainings: known answers, and the trainings themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

from tests.support.builders import tiny_data
from tests.support.scored_data import make_data, scored_of
from trainables.config.keys import TrainingConfig, validated
from trainables.curriculum.scoring import OTHER_TEACHERS, SCORINGS, Scored
from trainables.data.columns import RankingData, required_split
from trainables.data.instances import Instances
from trainables.training import teachers
from trainables.training.device import here
from trainables.training.factory import make_training
from trainables.training.prepared import prepare, prepared_key
from trainables.training.teachers import (
    cross_fitted,
    early_teachers,
    prepare_teacher,
    teacher_course,
    teacher_scores,
    with_teachers,
)
from trainables.training.trainer import Training

ONE = [[("right", 1), ("wrong", 0), ("other", 0)]]
COURSE = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [3.0, -2.0, 0.0]], np.float32)


def value(scoring: str, pairwise: bool, negatives: int | str, scores: np.ndarray = COURSE) -> np.ndarray:
    fields: dict[str, Any] = dict.fromkeys(OTHER_TEACHERS, lambda: scores)
    return SCORINGS[scoring](scored_of(make_data([["query"]], ONE), pairwise, negatives, **fields))


def test_the_error_of_a_list_is_the_norm_of_softmax_minus_one_hot() -> None:
    errors = [np.linalg.norm(softmax(scores) - [1, 0, 0]) for scores in COURSE.astype(float)]
    assert value("el2n", True, 2) == pytest.approx(np.full(2, np.mean(errors)))
    assert errors[0] == pytest.approx(np.sqrt(4 / 9 + 2 / 9))


def test_the_error_of_a_fixed_pair_is_of_its_two_documents() -> None:
    right, *wrong = COURSE.astype(float).T
    expected = [np.mean(np.sqrt(2) * expit(other - right)) for other in wrong]
    assert value("el2n", True, "all") == pytest.approx(expected)


def test_the_error_of_a_document_alone_is_that_of_its_relevance() -> None:
    wrong = np.abs(expit(COURSE.astype(float)) - [1, 0, 0])
    assert value("el2n", False, "all") == pytest.approx(np.sqrt(2) * wrong.mean(0))
    drawn = value("el2n", False, 1)  # the positive, and one of its negatives
    assert drawn == pytest.approx(np.sqrt(2) * np.array([wrong[:, 0].mean(), wrong[:, 1:].mean()]))


def test_confidence_and_variability_are_mean_and_deviation_of_the_label_s_probability() -> None:
    belief = softmax(COURSE.astype(float), axis=1)[:, 0]
    assert value("confidence", True, 1) == pytest.approx([1 - belief.mean()])
    assert value("variability", True, 1) == pytest.approx([np.sqrt(((belief - belief.mean()) ** 2).mean())])


def test_the_loss_of_a_cross_fitted_teacher_is_that_of_the_label() -> None:
    belief = softmax(COURSE[1].astype(float))[0]
    assert value("crossfit_loss", True, 1, COURSE[1]) == pytest.approx([-np.log(belief)])
    impossible = value("crossfit_loss", True, 1, np.array([-4000.0, 4000.0, 0.0]))
    assert np.isfinite(impossible).all() and impossible[0] > 700


def test_of_pairs_to_classify_the_classes_are_told_apart() -> None:
    data = replace(make_data([["query"]], [[("right", 2)]]), task="classification", classes=("a", "b", "c"))
    split = data.splits["train"]
    logits = np.array([[[1.0, 2.0, 3.0]], [[0.0, 0.0, 0.5]]])
    fields: dict[str, Any] = {"teacher_course": lambda: logits, "early_teachers": lambda: logits}
    scored = Scored(data, split, Instances.of_pairs(split), seed=0, **fields)
    errors = [np.linalg.norm(softmax(row) - [0, 0, 1]) for row in logits[:, 0]]
    assert SCORINGS["el2n"](scored) == pytest.approx([np.mean(errors)])
    assert SCORINGS["confidence"](scored) == pytest.approx([1 - softmax(logits[:, 0], axis=1)[:, 2].mean()])


# -- the trainings ---------------------------------------------------------------------------------------------------


def make_run(scoring: str = "el2n", **teacher: Any) -> TrainingConfig:
    return validated(
        {
            "ranker": {"name": "conv_knrm", "vector_size": 16, "filters": 8},
            "training": {"max_iterations": 4, "batches_per_iteration": 3, "batch_size": 8, "lr": 1e-2},
            "curriculum": {"pacing": "root", "scoring": scoring, "delta": 0.3, "teacher": {"seed": 111} | teacher},
        }
    )


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=16, candidates=5, seed=8)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of its own, and few teachers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(teachers, "FOLDS", 2)
    monkeypatch.setattr(teachers, "EARLY_TEACHERS", 2)


def by_hand(data: RankingData, seed: int = 111) -> Iterator[np.ndarray]:
    plain, prepared = prepare_teacher(make_run(), data)
    training = Training(plain.model_copy(update={"seed": seed}), prepared)
    while not training.finished:
        training.iterate()
        yield training.score(required_split(data, "train"))


def test_a_course_has_the_scores_after_each_iteration_of_the_teacher(data: RankingData) -> None:
    train = required_split(data, "train")
    course = teacher_course(make_run(), data, train)
    assert np.array_equal(course, np.stack(list(by_hand(data)))) and course.dtype == np.float32
    best = teacher_scores(make_run(), data, train)
    assert any(np.allclose(best, scores, atol=1e-6) for scores in course), "the teacher is the best of them"


def test_early_teachers_are_the_beginnings_of_whole_trainings_with_seeds_in_a_row(data: RankingData) -> None:
    scores = early_teachers(make_run(seed=7), data, required_split(data, "train"))
    expected = [list(by_hand(data, seed))[1] for seed in (7, 8)]
    assert np.array_equal(scores, np.stack(expected))


def relabelled(data: RankingData, query: int) -> RankingData:
    """The data with the grades of one training query turned round."""
    train = required_split(data, "train")
    grade = np.where(train.owner == query, 1 - train.grade, train.grade).astype(train.grade.dtype)
    return replace(data, splits={**data.splits, "train": replace(train, grade=grade)}, digest=data.digest + "'")


def test_a_cross_fitted_teacher_does_not_know_the_labels_that_it_scores(data: RankingData) -> None:
    run, train = make_run("crossfit_loss"), required_split(data, "train")
    scores = cross_fitted(run, data, train)
    assert scores.dtype == np.float32 and scores.shape == train.document.shape
    other = relabelled(data, 0)
    changed = cross_fitted(run, other, required_split(other, "train")) != scores
    by_query = np.array([changed[train.owner == query].any() for query in range(len(train))])
    assert not by_query[0] and by_query.sum() == len(train) / 2, "the teacher of the other fold learned from it"
    assert (teacher_scores(run, other, required_split(other, "train")) != teacher_scores(run, data, train)).any()


@pytest.mark.parametrize("scoring", ["el2n", "confidence", "variability", "crossfit_loss"])
def test_a_training_follows_its_teachers(scoring: str, data: RankingData) -> None:
    run = make_run(scoring)
    training = make_training(run, prepare(run, data), device="cpu")
    split, instances = required_split(data, "train"), training.batcher.instances
    scores = teachers.OF_NEED[run.teachers[0]](run, data, split, here)
    fields: dict[str, Any] = dict.fromkeys(OTHER_TEACHERS, lambda: scores)
    difficulty = SCORINGS[scoring](Scored(data, split, instances, seed=0, **fields))
    ordered = difficulty[training.curriculum.sampler.order]
    assert (np.diff(ordered) >= 0).all() and ordered[0] < ordered[-1]


def test_the_trials_of_a_search_share_the_teachers_of_its_baseline(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline, trial = make_run(), make_run()
    trial = trial.model_copy(update={"training": trial.training.model_copy(update={"lr": 5e-2})})
    prepared = with_teachers(baseline, {prepared_key(trial): prepare(trial, data)}, trial.teachers)
    monkeypatch.setattr(teachers, "OF_NEED", {})  # no teacher may be trained now
    make_training(trial, prepared[prepared_key(trial)], device="cpu").iterate()
