"""Curricula over candidates: windows of ranks that move, sources one after the other, and groups of a ranking."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.scored_data import split_of
from trainables.config.keys import TrainingConfig, validated
from trainables.core.errors import ConfigError
from trainables.curriculum.negatives import MovingRanks, Negatives, Sources
from trainables.curriculum.pacing import Schedule
from trainables.data.columns import RankingData
from trainables.data.instances import HardNegatives, Instances, make_instances
from trainables.training.losses import LOSSES, LossSettings
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training, training_negatives

LONG = Schedule("linear", 100, 1e-9)  # the share of the way is the step in hundredths


def split_with_positives():
    """Two queries, whose first candidate is relevant: with 10 negatives and with 2, the best score first."""
    split = split_of([float(20 - i) for i in range(11)], [3.0, 2.0, 1.0])
    return replace(split, grade=np.array([1, *[0] * 10, 1, 0, 0], np.int16))


def moving(start: tuple[int, int] | None, end: tuple[int, int]) -> MovingRanks:
    split = split_with_positives()

    def instances(first: int, last: int) -> Instances:
        return make_instances(split, True, 1, 1, hard=HardNegatives(split.score, first, last))

    return MovingRanks(instances(*end), LONG, instances(1, 99), start, end)


def windows(negatives: Negatives, step: int) -> list[list[int]]:
    """Ranks, from 1, of the negatives that each instance may draw."""
    at = negatives.at(step)
    begins = [0, 11]
    parts = [at.easier[start : start + below] for start, below in zip(at.start, at.below, strict=True)]
    return [(part - begin).tolist() for part, begin in zip(parts, begins, strict=True)]


def test_a_window_moves_in_a_straight_line_and_changes_its_width() -> None:
    negatives = moving((7, 10), (1, 2))
    assert windows(negatives, 0) == [[7, 8, 9, 10], [2]]
    assert windows(negatives, 50) == [[4, 5, 6], [1, 2]]
    assert windows(negatives, 100) == windows(negatives, 5000) == [[1, 2], [1, 2]]


def test_without_a_start_the_window_comes_from_the_deepest_ranks_of_each_query() -> None:
    negatives = moving(None, (1, 2))
    assert windows(negatives, 0) == [[9, 10], [1, 2]]
    assert windows(negatives, 50) == [[5, 6], [1, 2]]


def test_at_the_end_the_draws_are_those_of_hard_negatives() -> None:
    negatives, rows = moving((7, 10), (1, 3)), np.arange(2).repeat(50)
    ended, plain = (one.draw(rows, np.random.default_rng(1)) for one in (negatives.at(200), negatives.instances))
    assert np.array_equal(ended, plain)


def test_sources_come_one_after_the_other() -> None:
    instances = moving(None, (1, 2)).instances
    sources = tuple(replace(instances, skipped_positives=index) for index in range(3))

    def index(schedule: Schedule, step: int) -> int:
        return Sources(sources[2], schedule, sources).at(step).skipped_positives

    assert [index(LONG, step) for step in (0, 33, 34, 66, 67, 100, 101)] == [0, 0, 1, 1, 2, 2, 2]
    steps = Schedule("step", 100, 0.33)
    assert [index(steps, step) for step in (0, 33, 34, 66, 67)] == [0, 0, 1, 1, 2]
    assert [index(Schedule("baby_steps", 90), step) for step in (0, 29, 30, 59, 60)] == [0, 0, 1, 1, 2]


# -- loss cl_drd -----------------------------------------------------------------------------------------------------


def by_hand(scores: list[float], taught: list[float]) -> float:
    """The mean over ordered pairs, in a loop."""
    rank = 1 + np.argsort(np.argsort(-np.asarray(scores)))
    pairs = [(i, j) for i in range(len(scores)) for j in range(len(scores)) if taught[i] > taught[j]]
    losses = [abs(1 / rank[i] - 1 / rank[j]) * np.log1p(np.exp(scores[j] - scores[i])) for i, j in pairs]
    return float(np.mean(losses))


@pytest.mark.parametrize(
    ("ordered_share", "taught"),
    [
        (1.0, [1 / 2, 1, 1 / 4, 1 / 3, 1 / 5]),
        (0.4, [1 / 2, 1, -0.5, -0.25, -0.5]),
        (0.01, [-0.25, 1, -0.5, -0.25, -0.5]),
    ],
)
def test_cl_drd_learns_the_order_of_groups_and_of_the_head(ordered_share: float, taught: list[float]) -> None:
    scores, teacher = [0.3, -0.2, 1.5, 0.9, -1.0], [2.0, 3.0, 0.0, 1.0, -4.0]
    settings = LossSettings(ordered_share=ordered_share)
    values = LOSSES["cl_drd"].function(torch.tensor([scores] * 2).double(), torch.tensor([teacher] * 2), settings)
    assert values.tolist() == pytest.approx([by_hand(scores, taught)] * 2)


# -- in a training ---------------------------------------------------------------------------------------------------


def make_run(schedule: str, training: dict[str, Any] | None = None, **curriculum: Any) -> TrainingConfig:
    of_negatives = {"schedule": schedule} | curriculum.pop("negatives", {})
    return validated(
        {
            "ranker": {"name": "conv_knrm", "vector_size": 16, "filters": 8},
            "training": {
                "max_iterations": 4,
                "batches_per_iteration": 3,
                "batch_size": 8,
                "loss": "softmax",
                "negatives": 2,
                "hard_negatives": "first_stage",
                "negative_ranks": [1, 3],
            }
            | (training or {}),
            "curriculum": {"negatives": of_negatives, **curriculum},
            "seed": 1,
        }
    )


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=24, candidates=9, seed=5)


def prepared(run: TrainingConfig, data: RankingData) -> PreparedData:
    found = prepare(run, data)
    teacher = np.sin(np.arange(len(data.splits["train"].document))).astype(np.float32)
    return replace(found, teachers={"teacher": teacher})


def finish(training: Training) -> list[tuple[float, float]]:
    while not training.finished:
        training.iterate()
    return [(row["train_loss"], row["dev_map"]) for row in training.history]


BY_TEACHER = {"hard_negatives": "teacher"}


@pytest.mark.parametrize("schedule", ["ranks", "sources"])
def test_with_everything_open_it_is_the_training_without(schedule: str, data: RankingData) -> None:
    found = [
        finish(Training(run, prepared(run, data), "cpu")) for run in (make_run(schedule, delta=1.0), make_run("none"))
    ]
    assert found[0] == found[1]


def test_a_step_draws_from_its_window(data: RankingData) -> None:
    run = make_run("ranks", T=1.0, delta=0.01, negatives={"start": [6, 8]})
    training = Training(run, prepared(run, data), "cpu")
    scores = training.batcher.split.score
    drawn = [next(training.batcher.batches(step, 1)) for step in (0, 1000)]
    deep, shallow = (float((scores[one.negative] - scores[one.positive][:, None]).mean()) for one in drawn)
    assert deep < shallow


def test_sources_take_in_random_first_stage_and_teacher(data: RankingData) -> None:
    run = make_run("sources", BY_TEACHER)
    given = prepared(run, data)
    _, negatives = training_negatives(run, given)
    assert isinstance(negatives, Sources) and len(negatives.sources) == 3
    random, first_stage, teacher = negatives.sources
    assert random.below.max() == 8 and first_stage.below.max() == teacher.below.max() == 3
    split, rows = data.splits["train"], slice(int(first_stage.start[0]), int(first_stage.start[0]) + 3)
    others = np.setdiff1d(random.easier[random.start[0] : random.start[0] + random.below[0]], first_stage.easier[rows])
    assert split.score[first_stage.easier[rows]].min() >= split.score[others].max()


def test_sources_need_a_run_before_the_teacher(data: RankingData) -> None:
    train = data.splits["train"]
    bare = replace(data, splits=data.splits | {"train": replace(train, score=np.full_like(train.score, np.nan))})
    run = make_run("sources", BY_TEACHER)
    with pytest.raises(ConfigError, match=r"curriculum\.negatives\.schedule: .* has no first-stage scores"):
        training_negatives(run, prepared(run, bare))
