"""Which instances a step sees: draws from the open pool."""

from __future__ import annotations

import numpy as np
from scipy.stats import chisquare

from trainables.curriculum.pacing import Schedule
from trainables.curriculum.sampler import BatchSampler, easy_first


def sampler(
    size: int = 1000, pacing: str = "linear", delta: float = 0.1, horizon: float = 100, seed: int = 3
) -> BatchSampler:
    return BatchSampler(np.arange(size), Schedule(pacing, horizon, delta), seed)


def test_batches_come_from_the_open_pool_without_repeats() -> None:
    drawn = sampler().draw(step=50, batches=4, batch_size=32)
    assert drawn.shape == (4, 32)
    assert drawn.max() < 1000 * 0.55
    assert all(len(set(batch.tolist())) == 32 for batch in drawn)


def test_each_batch_is_uniform_over_the_pool() -> None:
    batches = [sampler(60, "step", 0.5, seed=seed).draw(0, 3, 5)[2] for seed in range(3000)]
    counts = np.bincount(np.concatenate(batches), minlength=60)
    assert (counts[30:] == 0).all()
    assert chisquare(counts[:30]).pvalue > 0.001


def test_independent_batches_repeat_as_often_as_chance_has_it() -> None:
    drawn = sampler(60, "step", 0.5).draw(step=0, batches=3000, batch_size=5)
    both = sum(
        bool(set(one) & set(other)) for one, other in zip(drawn[::2].tolist(), drawn[1::2].tolist(), strict=True)
    )
    disjoint = np.prod([(25 - i) / (30 - i) for i in range(5)])
    assert chisquare([both, 1500 - both], [1500 * (1 - disjoint), 1500 * disjoint]).pvalue > 0.001


def test_the_pool_is_the_open_share_rounded_down() -> None:
    assert [len(sampler(10, horizon=10).pool(step, 1)) for step in (0, 3, 5, 9, 10)] == [1, 3, 5, 9, 10]


def test_independent_draws_depend_on_seed_and_step_alone() -> None:
    one = sampler(pacing="none")
    assert (one.draw(0, 8, 16)[5:] == one.draw(5, 3, 16)).all()
    assert (one.draw(5, 3, 16) != sampler(pacing="none", seed=4).draw(5, 3, 16)).any()


def test_the_order_decides_nothing_once_everything_is_open() -> None:
    backwards, plain = (
        BatchSampler(order, Schedule("step", 10, 0.5), 3) for order in (np.arange(60)[::-1], np.arange(60))
    )
    assert (backwards.draw(0, 1, 8) >= 30).all() and (plain.draw(0, 1, 8) < 30).all()
    assert (backwards.draw(10, 3, 8) == plain.draw(10, 3, 8)).all()


def test_the_pool_is_never_smaller_than_a_batch() -> None:
    assert sampler(40, delta=0.01).pool(0, batch_size=16) == range(16)
    assert sampler(4).draw(0, 2, 16).shape == (2, 16)


def test_order_is_stable_and_anti_turns_it_round() -> None:
    difficulty = np.asarray([2.0, 1, 2, 0])
    assert easy_first(difficulty).tolist() == [3, 1, 0, 2]
    assert easy_first(difficulty, anti=True).tolist() == [0, 2, 1, 3]
    many = np.tile([1.0, 0.0], 100)  # enough values for an unstable sort to show
    assert easy_first(many).tolist() == [*range(1, 200, 2), *range(0, 200, 2)]


def test_one_pass_draws_from_its_stage_alone() -> None:
    one = BatchSampler(np.arange(100), Schedule("one_pass", 50, stages=5), 3)
    drawn = [one.draw(step, 1, 4)[0] for step in range(60)]
    assert all((batch // 20 == step // 10).all() for step, batch in enumerate(drawn[:50]))
    assert min(np.concatenate(drawn[50:])) < 20, "everything is open from T on"
