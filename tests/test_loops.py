"""`Curriculum` for other programs' loops: the numbers of our own training, and what it refuses."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.support.builders import tiny_data
from tests.support.training_runs import make_run
from trainables.core.errors import ConfigError
from trainables.curriculum.pacing import PACINGS
from trainables.data.instances import Batch
from trainables.loops.curriculum import Curriculum
from trainables.training.batching import make_curriculum
from trainables.training.prepared import prepare
from trainables.training.trainer import training_negatives

DIFFICULTY = np.asarray([0.5, 0.1, 0.9, 0.3, 0.7, 0.1, 0.8, 0.2, 0.4, 0.6])


def curriculum(**changes: Any) -> Curriculum:
    return Curriculum(**{"difficulty": DIFFICULTY, "total_steps": 20} | changes)


@pytest.mark.parametrize("anti", [False, True])
@pytest.mark.parametrize("pacing", sorted(set(PACINGS) - {"adaptive"}))
def test_it_draws_and_weighs_as_our_training_does(pacing: str, anti: bool) -> None:
    keys = {"pacing": pacing, "n": 3, "delta": 0.2, "T": 0.8, "weighting": "difficulty", "m": 3, "anti": anti}
    run = make_run(seed=5, curriculum=keys | {"scoring": "random"}, training={"negatives": "all", "loss": "pointwise"})
    prepared = prepare(run, tiny_data())
    split, negatives = training_negatives(run, prepared)
    instances = negatives.instances
    ours = make_curriculum(run, prepared, split, negatives)
    difficulty = np.empty(len(instances))
    difficulty[ours.sampler.order] = np.arange(len(instances)) * (-1.0 if anti else 1.0)
    theirs = Curriculum(difficulty, total_steps=12, seed=5, **keys)
    for step in range(12):
        rows = ours.sampler.draw(step, 1, 2)[0]
        assert theirs.batch(step, 2).tolist() == rows.tolist()
        assert theirs.share(step) == ours.sampler.schedule.share(step)
    everything = np.arange(len(instances))
    for iteration in range(5):
        weights = ours.weigher(Batch(everything, everything, everything), iteration)
        assert theirs.weights(everything, iteration).tolist() == weights.tolist()


def test_a_pacing_by_dev_values_is_refused() -> None:
    with pytest.raises(ConfigError, match="'adaptive' follows dev values"):
        curriculum(pacing="adaptive")


def test_a_final_share_and_stages_are_followed() -> None:
    assert sorted(curriculum(pacing="one_pass", stages=2, T=1).available(10).tolist()) == [0, 2, 4, 6, 9]
    assert 2 not in curriculum(pacing="linear", final_share=0.9).available(19)


def test_the_easiest_share_is_available_and_all_from_T_on() -> None:
    cl = curriculum(pacing="linear", delta=0.2, T=0.5)
    assert cl.available(0).tolist() == [1, 5]  # ties keep their order
    assert cl.available(5).tolist() == [1, 5, 7, 3, 8, 0]
    assert sorted(cl.available(10).tolist()) == list(range(10))
    assert curriculum(pacing="linear", delta=0.2, anti=True).available(0).tolist() == [2, 6]
    assert curriculum(delta=0.01).available(0).tolist() == [1]


def test_weights_follow_the_ease_until_iteration_m() -> None:
    cl = curriculum(weighting="none", ease=DIFFICULTY, m=4)
    assert cl.weights([2, 3], 0).tolist() == [0.9, 0.3]
    assert cl.weights([[3]], 2) == pytest.approx(np.asarray([[0.65]]))
    assert cl.weights(torch.tensor([3]), 4).tolist() == [1]
    assert curriculum(ease=DIFFICULTY, anti=True).weights([2], 0) == pytest.approx([0.1])
    assert curriculum(ease=DIFFICULTY, m="inf").weights([3], 10**9).tolist() == [0.3]
    assert curriculum().weights([0, 1], 0).tolist() == [1, 1]


def test_a_sampler_yields_the_batches_of_all_steps_and_those_of_the_rest_after_a_stop() -> None:
    cl = curriculum()
    whole = list(cl.batch_sampler(4))
    assert len(whole) == len(cl.batch_sampler(4)) == 20
    assert whole == [cl.batch(step, 4).tolist() for step in range(20)]
    rest = cl.batch_sampler(4, start_step=13)
    assert len(rest) == 7 and list(rest) == whole[13:]
    assert list(curriculum(seed=1).batch_sampler(4)) != whole


def test_a_second_epoch_is_plain_training_with_new_draws() -> None:
    sampler = curriculum(total_steps=200, delta=0.1).batch_sampler(4, start_step=150)
    sampler.set_epoch(0)
    assert len(list(sampler)) == 50
    sampler.set_epoch(1)
    later = list(sampler)
    assert len(later) == 200 and {row for batch in later[:20] for row in batch} == set(range(10))
    assert later[:20] != [curriculum().batch(step, 4).tolist() for step in range(20)]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_data_loader_gives_rows_in_the_samplers_order(workers: int) -> None:
    cl = curriculum(total_steps=6)
    loader = DataLoader(cast(Dataset[int], range(10)), batch_sampler=cl.batch_sampler(3), num_workers=workers)
    assert [batch.tolist() for batch in loader] == list(cl.batch_sampler(3))


def test_a_weighted_loss_is_the_mean_of_weight_times_loss() -> None:
    inner = nn.MSELoss(reduction="none")
    loss = curriculum(ease=DIFFICULTY, m=2).weighted(inner, lambda: 1)
    scores = torch.tensor([1.0, 2.0])
    pairs = torch.tensor([[0.0, 0.5], [0.0, 1.0]])
    assert loss(scores, pairs).item() == pytest.approx((0.75 * 1 + 1 * 4) / 2)
    assert loss(scores, list(pairs)).item() == pytest.approx(2.375)
    assert loss(scores, torch.zeros(2)).item() == pytest.approx(2.5)  # dev data
    with pytest.raises(ConfigError, match='reduction="none"'):
        curriculum().weighted(nn.MSELoss(), lambda: 0)(scores, pairs)


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"difficulty": []}, ["difficulty"]),
        ({"difficulty": [[1.0]]}, ["difficulty"]),
        ({"difficulty": [0, np.nan]}, ["difficulty"]),
        ({"difficulty": ["easy"]}, ["difficulty"]),
        ({"pacing": "rot", "total_steps": 0, "T": 2, "ease": [2]}, ["T", "ease", "pacing", "total_steps"]),
        ({"delta": 0, "n": 0, "m": 0, "seed": -1}, ["delta", "m", "n", "seed"]),
        ({"weighting": "kde"}, ["weighting"]),
        ({"weighting": "self_paced_linear"}, ["weighting"]),
        ({"weighting": "difficulty", "ease": DIFFICULTY}, ["ease"]),
        ({"ease": [0.5]}, ["ease"]),
        ({"total_steps": 1.5}, ["total_steps"]),
    ],
)
def test_wrong_arguments_are_refused_all_at_once(changes: dict[str, Any], places: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        curriculum(**changes)
    assert sorted(problem.location for problem in refused.value.problems) == places
