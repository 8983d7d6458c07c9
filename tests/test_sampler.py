"""Which instances a step sees: the open pool, both ways of sampling, warm mixing, resuming."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from trainables.curriculum.pacing import Schedule
from trainables.curriculum.sampler import Sampler, easy_first

WAYS = {"with replacement": True, "without": False}


def sampler(
    size: int = 1000, pacing: str = "linear", delta: float = 0.1, horizon: float = 100, seed: int = 3, **keys
) -> Sampler:
    return Sampler(np.arange(size), Schedule(pacing, horizon, delta), seed, **keys)


@pytest.mark.parametrize("replacement", WAYS.values(), ids=WAYS)
def test_batches_come_from_the_open_pool_without_repeats(replacement: bool) -> None:
    drawn = sampler(replacement=replacement).draw(step=50, batches=4, batch_size=32)
    assert drawn.shape == (4, 32)
    assert drawn.max() < 1000 * 0.55
    assert all(len(set(batch.tolist())) == 32 for batch in drawn)


@pytest.mark.parametrize("replacement", WAYS.values(), ids=WAYS)
def test_each_batch_is_uniform_over_the_pool(replacement: bool) -> None:
    """First batches under many seeds: without replacement, batches of one seed depend on each other."""
    batches = [sampler(60, "step", 0.5, seed=seed, replacement=replacement).draw(0, 3, 5)[2] for seed in range(3000)]
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


@given(size=st.integers(1, 50), batch=st.integers(1, 12), seed=st.integers(0, 99))
def test_each_instance_comes_once_before_any_comes_again(size: int, batch: int, seed: int) -> None:
    drawn = sampler(size, "none", seed=seed, replacement=False).draw(0, 3 * size, batch).ravel()
    for start in range(0, len(drawn) - size, size):
        assert sorted(drawn[start : start + size].tolist()) == list(range(size))


def test_what_opens_in_the_middle_of_a_pass_joins_it() -> None:
    one = sampler(100, delta=0.2, horizon=40, replacement=False)
    drawn = [one.draw(step, 1, 2)[0].tolist() for step in range(50)]
    assert sorted(np.concatenate(drawn).tolist()) == list(range(100))
    assert all(max(batch) in one.pool(step, 2) for step, batch in enumerate(drawn))


@pytest.mark.parametrize("replacement", WAYS.values(), ids=WAYS)
def test_warm_mixing_draws_a_share_from_everything(replacement: bool) -> None:
    """P(instance) = warm / N + (1 - warm) / pool inside the pool, warm / N outside it."""
    one = sampler(40, "step", 0.5, horizon=1e9, replacement=replacement, warm=0.3)
    counts = np.bincount(one.draw(0, 4000, 5).ravel(), minlength=40)
    inside, total = counts[:20].sum(), counts.sum()
    assert total == 20000
    assert chisquare([inside, total - inside], [total * 0.85, total * 0.15]).pvalue > 0.001
    assert chisquare(counts[20:]).pvalue > 0.001


def test_warm_mixing_takes_no_instance_out_of_the_pass() -> None:
    """Of the eight instances in a batch, four come from everything and four from the pass over all 40."""
    one = sampler(40, "none", replacement=False, warm=0.5)
    assert [one.draw(step, 1, 8).size and one.deck.size for step in range(5)] == [36, 32, 28, 24, 20]


def test_independent_draws_depend_on_seed_and_step_alone() -> None:
    one = sampler(pacing="none")
    assert (one.draw(0, 8, 16)[5:] == one.draw(5, 3, 16)).all()
    assert (one.draw(5, 3, 16) != sampler(pacing="none", seed=4).draw(5, 3, 16)).any()


@pytest.mark.parametrize("stop", [0, 1, 7, 20])
def test_a_restored_sampler_goes_on_as_the_other_did(stop: int) -> None:
    unbroken, first, second = (sampler(90, replacement=False, warm=0.2) for _ in range(3))
    all_steps = [unbroken.draw(step, 1, 8) for step in range(40)]
    for step in range(stop):
        first.draw(step, 1, 8)
    second.restore(first.state())
    assert np.array_equal([second.draw(step, 1, 8) for step in range(stop, 40)], all_steps[stop:])


def test_another_order_begins_a_new_pass() -> None:
    one = sampler(30, "none", replacement=False)
    one.draw(0, 2, 5)
    one.reorder(np.arange(30)[::-1])
    assert sorted(one.draw(2, 6, 5).ravel().tolist()) == list(range(30))


def test_another_order_begins_a_new_pass_over_what_is_open() -> None:
    half = sampler(40, "step", 0.5, horizon=1e9, replacement=False)
    half.draw(0, 2, 5)
    half.reorder(np.arange(40)[::-1])
    assert sorted(half.draw(2, 4, 5).ravel().tolist()) == list(range(20, 40))
    opening = sampler(100, delta=0.2, horizon=100, replacement=False)
    opening.draw(0, 1, 5)
    opening.reorder(np.arange(100)[::-1])
    assert set(opening.draw(10, 1, 28)[0].tolist()) == set(range(72, 100))


@pytest.mark.parametrize("replacement", WAYS.values(), ids=WAYS)
def test_the_pool_is_never_smaller_than_a_batch(replacement: bool) -> None:
    assert sampler(40, delta=0.01, replacement=replacement).pool(0, batch_size=16) == range(16)
    assert sampler(4, replacement=replacement).draw(0, 2, 16).shape == (2, 16)


def test_order_is_stable_and_anti_turns_it_round() -> None:
    difficulty = np.asarray([2.0, 1, 2, 0])
    assert easy_first(difficulty).tolist() == [3, 1, 0, 2]
    assert easy_first(difficulty, anti=True).tolist() == [0, 2, 1, 3]
    many = np.tile([1.0, 0.0], 100)  # enough values for an unstable sort to show
    assert easy_first(many).tolist() == [*range(1, 200, 2), *range(0, 200, 2)]


@given(st.lists(st.floats(-100, 100), max_size=20))
def test_anti_twice_is_the_order_itself(values: list[float]) -> None:
    difficulty = np.asarray(values)
    assert easy_first(-difficulty, anti=True).tolist() == easy_first(difficulty).tolist()


@pytest.mark.parametrize("replacement", WAYS.values(), ids=WAYS)
def test_one_pass_draws_from_its_stage_alone(replacement: bool) -> None:
    one = Sampler(np.arange(100), Schedule("one_pass", 50, stages=5), 3, replacement)
    drawn = [one.draw(step, 1, 4)[0] for step in range(60)]
    assert all((batch // 20 == step // 10).all() for step, batch in enumerate(drawn[:50]))
    assert len(set(np.concatenate(drawn[:5]).tolist())) == 20 or replacement, "a stage's part comes once in a pass"
    assert min(np.concatenate(drawn[50:])) < 20, "everything is open from T on"


def test_a_resumed_sampler_goes_on_in_the_middle_of_a_stage() -> None:
    whole, first, second = (
        Sampler(np.arange(100), Schedule("one_pass", 50, stages=5), 3, replacement=False) for _ in range(3)
    )
    expected = [whole.draw(step, 1, 7)[0].tolist() for step in range(60)]
    assert [first.draw(step, 1, 7)[0].tolist() for step in range(23)] == expected[:23]
    second.restore(first.state())
    assert [second.draw(step, 1, 7)[0].tolist() for step in range(23, 60)] == expected[23:]
