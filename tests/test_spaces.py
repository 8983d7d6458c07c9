"""Leaves, conditions, sampling and grids of a search space."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.trial import FixedTrial

from trainables.core.errors import ConfigError
from tune_cl.space.parameters import Choice, Integer, LogUniform, Uniform, parse_leaf
from tune_cl.space.space import Flat, Space, identity

PACING = Choice(options=("linear", "root", "step"))
N = Choice(options=(2, 5), when={"pacing": ("root",)})


def paced() -> Space:
    return Space({"n": N, "pacing": PACING, "lr": LogUniform(low=1e-5, high=1e-3)})


@st.composite
def finite_spaces(draw: st.DrawFn) -> Space:
    """Up to five keys, each either conditional on a value of an earlier key or not; written in any order."""
    leaves: dict[str, Any] = {}
    for key in "abcde"[: draw(st.integers(1, 5))]:
        when = {}
        if leaves and draw(st.booleans()):
            when = {draw(st.sampled_from(sorted(leaves))): (draw(st.integers(0, 2)),)}
        leaves[key] = Choice(options=tuple(range(draw(st.integers(1, 3)))), when=when)
    return Space({key: leaves[key] for key in draw(st.permutations(list(leaves)))})


def brute_force(space: Space) -> set[Any]:
    """All assignments of all keys, each reduced to the parameters that exist."""
    keys = list(space.leaves)
    found = set()
    for values in product(*(space.leaves[key].values() or () for key in keys)):
        pick = dict(zip(keys, values, strict=True))
        found.add(identity(space.decide(lambda key, leaf, pick=pick: pick[key])))
    return found


@given(finite_spaces())
def test_grid_is_every_combination_once(space: Space) -> None:
    grid = [identity(point) for point in space.grid()]
    assert len(grid) == len(set(grid)) == space.combinations()
    assert set(grid) == brute_force(space)


@given(finite_spaces(), st.integers(0, 2**32))
def test_samples_lie_in_the_grid(space: Space, seed: int) -> None:
    assert identity(space.sample(np.random.default_rng(seed))) in {identity(point) for point in space.grid()}


def test_conditional_grid_known_answer() -> None:
    space = Space({"n": N, "pacing": PACING})
    assert list(space.grid()) == [
        {"pacing": "linear"},
        {"pacing": "root", "n": 2},
        {"pacing": "root", "n": 5},
        {"pacing": "step"},
    ]


def existing(space: Space, point: Flat) -> set[str]:
    """The parameters that exist under these values."""
    return {key for key in space.leaves if space.exists(key, point)}


def test_condition_moves_behind_its_key_and_the_rest_keep_their_order() -> None:
    assert list(paced().leaves) == ["pacing", "n", "lr"]


@given(st.integers(0, 2**32))
def test_conditional_parameter_exists_exactly_under_its_condition(seed: int) -> None:
    point = paced().sample(np.random.default_rng(seed))
    assert ("n" in point) == (point["pacing"] == "root")
    assert existing(paced(), point) == set(point)


def test_condition_on_a_parameter_that_does_not_exist_does_not_hold() -> None:
    space = Space({"pacing": PACING, "n": N, "x": Integer(low=1, high=2, when={"n": (2, 5)})})
    assert existing(space, {"pacing": "linear"}) == {"pacing"}
    assert existing(space, {"pacing": "root", "n": 5}) == {"pacing", "n", "x"}


def test_condition_on_a_fixed_key() -> None:
    leaves = {"n": N}
    assert Space(leaves, {"pacing": "root"}).combinations() == 2
    assert Space(leaves, {"pacing": "step"}).combinations() == 1
    plain = existing(Space(leaves, {"pacing": "root"}), {"pacing": "step"})
    assert plain == existing(Space(leaves), {}) == set(), "plain training has another pacing"


LEAVES = [
    Uniform(low=-2, high=3),
    LogUniform(low=1e-6, high=10),
    Integer(low=3, high=5),
    Uniform(low=0.2, high=0.6, step=0.1),
    Uniform(low=0.2, high=0.6, step=0.1, prior=0.5),
    Integer(low=2, high=10, step=4),
    PACING,
]


@pytest.mark.parametrize("leaf", LEAVES)
def test_draws_middle_and_suggestions_stay_in_range(leaf: Any) -> None:
    rng = np.random.default_rng(0)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    values = [leaf.middle(), *leaf.samples(), *(leaf.draw(rng) for _ in range(200))]
    values += [leaf.suggest(study.ask(), "key") for _ in range(50)]
    assert all(leaf.allows(value) for value in values)
    if leaf.values() is not None:
        assert set(values) == set(leaf.values())


def test_draws_follow_their_distribution() -> None:
    rng = np.random.default_rng(1)
    uniform = [Uniform(low=0, high=4).draw(rng) for _ in range(4000)]
    logarithmic = np.log10([LogUniform(low=1e-4, high=1).draw(rng) for _ in range(4000)])
    integers = np.bincount([Integer(low=0, high=3).draw(rng) for _ in range(4000)])
    assert np.mean(uniform) == pytest.approx(2, abs=0.1)
    assert np.mean(logarithmic) == pytest.approx(-2, abs=0.1)
    assert integers.min() > 900


def test_a_prior_is_a_normal_distribution_of_a_sixth_of_the_range() -> None:
    rng = np.random.default_rng(1)
    near = [
        value for _ in range(8000) if (value := Uniform(low=0, high=6, prior=3).near_prior(rng, 0, 6, 3)) is not None
    ]
    assert len(near) == pytest.approx(4000, abs=150) and np.std(near) == pytest.approx(0.99, abs=0.04), "cut at 3"


def test_a_step_has_the_part_of_the_prior_that_is_nearest() -> None:
    """Half of the draws are uniform; of the others a share of .156 goes to each neighbour of the prior's value."""
    rng = np.random.default_rng(1)
    drawn = np.bincount([Integer(low=0, high=2, prior=1).draw(rng) for _ in range(8000)]) / 8000
    assert drawn == pytest.approx([1 / 6 + 0.078, 1 / 6 + 0.344, 1 / 6 + 0.078], abs=0.015)


def test_logarithms_do_not_lead_out_of_the_range() -> None:
    """exp(log(10)) is more than 10 in floating point."""
    last = cast(np.random.Generator, SimpleNamespace(uniform=lambda low, high: high))
    assert math.exp(math.log(10)) > 10 and LogUniform(low=1, high=10).draw(last) == 10


def test_optuna_is_told_of_logarithms() -> None:
    recorded = FixedTrial({"lr": 1e-3})
    assert LogUniform(low=1e-4, high=1e-2).suggest(recorded, "lr") == 1e-3
    assert cast(FloatDistribution, recorded.distributions["lr"]).log


def test_true_is_no_number_of_a_range() -> None:
    assert not [leaf for leaf in (Uniform(low=0, high=2), Integer(low=0, high=2)) if leaf.allows(True)]


def test_steps_are_the_numbers_that_one_writes() -> None:
    leaf = parse_leaf("k", {"uniform": [0.2, 0.6], "step": 0.1})
    assert leaf.values() == [0.2, 0.3, 0.4, 0.5, 0.6] and leaf.middle() == 0.4
    assert [leaf.allows(value) for value in (0.3, 0.35, 0.6, 0.7, True)] == [True, False, True, False, False]
    assert list(parse_leaf("k", {"int": [10, 50], "step": 20}).values() or ()) == [10, 30, 50]
    assert parse_leaf("k", {"uniform": [1e-5, 4e-5], "step": 1e-5}).values() == [1e-5, 2e-5, 3e-5, 4e-5]
    assert list(parse_leaf("k", {"int": [1, 9], "step": 4.0}).values() or ()) == [1, 5, 9]
    assert len(parse_leaf("k", {"int": [0, 10_000], "step": 1}).values() or ()) == 10_001
    with pytest.raises(ConfigError, match=r"k.prior: 0.35 "):
        parse_leaf("k", {"uniform": [0.2, 0.6], "step": 0.1, "prior": 0.35})


def test_draws_of_steps_follow_their_distribution() -> None:
    rng = np.random.default_rng(1)
    even = np.bincount([round(10 * Uniform(low=0, high=0.3, step=0.1).draw(rng)) for _ in range(4000)])
    likely = np.bincount([round(10 * Uniform(low=0, high=0.3, step=0.1, prior=0).draw(rng)) for _ in range(4000)])
    assert even.min() > 900 and likely[0] > 1700 and likely[3] > 400


def test_a_grid_and_samplers_of_optuna_walk_the_steps() -> None:
    space = Space({"delta": Uniform(low=0.2, high=0.6, step=0.2), "x": Integer(low=1, high=5, step=4)})
    assert space.combinations() == 6 and not space.continuous
    assert [point["delta"] for point in space.grid()] == [0.2, 0.2, 0.4, 0.4, 0.6, 0.6]
    recorded = FixedTrial({"delta": 0.4, "x": 5})
    assert space.suggest(recorded) == {"delta": 0.4, "x": 5} and recorded.distributions["delta"].step == 0.2


def test_middles() -> None:
    assert Uniform(low=1, high=4).middle() == 2.5
    assert LogUniform(low=1e-4, high=1e-2).middle() == pytest.approx(1e-3)
    assert Integer(low=1, high=4).middle() == 2
    assert repr(parse_leaf("k", {"int": [1, 4], "prior": 3.0}).middle()) == "3"
    assert PACING.middle() == "linear"


def test_suggest_asks_only_for_what_exists() -> None:
    trial = FixedTrial({"pacing": "step", "n": 2, "lr": 1e-4})
    assert paced().suggest(trial) == {"pacing": "step", "lr": 1e-4}
    assert set(trial.params) == {"pacing", "lr"}


def test_given_values_replace_picks_and_decide_conditions() -> None:
    point = paced().decide(lambda key, leaf: leaf.middle(), given={"pacing": "root", "other": 1})
    assert point == {"other": 1, "pacing": "root", "n": 2, "lr": pytest.approx(1e-4)}


def test_grid_names_continuous_leaves() -> None:
    space = Space({"lr": Uniform(low=0, high=1), "pacing": PACING, "d": Uniform(low=0, high=1)})
    assert space.combinations() is None
    with pytest.raises(ConfigError) as caught:
        space.grid()
    assert [problem.location for problem in caught.value.problems] == ["lr", "d"]


def test_large_spaces_are_counted_without_being_walked() -> None:
    leaves: dict[str, Any] = {f"k{i}": Integer(low=1, high=1000) for i in range(20)}
    assert Space({"pacing": PACING, "n": N, **leaves}).combinations() == 4 * 1000**20


@pytest.mark.parametrize("keys", ["a", "ab", "abc"])
def test_conditions_in_a_circle(keys: str) -> None:
    circle = {key: Choice(options=(1, 2), when={keys[i - 1]: (1,)}) for i, key in enumerate(keys)}
    with pytest.raises(ConfigError, match="circle"):
        Space(circle)


@pytest.mark.parametrize(
    ("tree", "wrong"),
    [
        ({}, "no range given"),
        ({"when": {"a": 1}}, "no range given"),
        ({"uniform": [0, 1], "choice": [1]}, "uniform and choice at once"),
        ({"choise": [1]}, "did you mean choice"),
        ({"choice": [1], "wenn": {}}, "did you mean when"),
        ({"choice": []}, "no values"),
        ({"grid": 3}, "no values"),
        ({"uniform": [1, 0]}, "1 is not below 0"),
        ({"uniform": [1, 1]}, "1 is not below 1"),
        ({"uniform": [1]}, "not a pair of numbers"),
        ({"uniform": [True, 2]}, "not a pair of numbers"),
        ({"uniform": [0, float("inf")]}, "not a pair of numbers"),
        ({"uniform": "ab"}, "not a pair of numbers"),
        ({"loguniform": [0, 1]}, "no logarithm"),
        ({"int": [0.5, 3]}, "not whole numbers"),
        ({"choice": [1], "when": 3}, "not a condition"),
        ({"uniform": [0, 1], "step": 0}, "not a step"),
        ({"uniform": [0, 1], "step": "a"}, "not a step"),
        ({"uniform": [0.2, 0.6], "step": 0.3}, r"steps of 0.3 from 0.2 do not reach 0.6; .*\[0.2, 0.5\]"),
        ({"uniform": [0, 1], "step": 2}, "do not reach 1; a smaller one"),
        ({"uniform": [0, 1], "step": 1e-9}, "more than 10,001 values"),
        ({"int": [1, 4], "step": 0.5}, "not a whole number"),
        ({"int": [1, 4], "step": float("inf")}, "inf is not a whole number"),
        ({"int": [1, 4], "step": float("nan")}, "nan is not a whole number"),
        ({"int": [0, 10_001], "step": 1}, "makes more than 10,001 values; at most 10,000 steps, or none"),
        ({"uniform": [0.0, 1.0], "step": 1e-300}, "makes more than 10,001 values; at most 10,000 steps, or none"),
        ({"int": [0, 10**300], "step": 1}, "makes more than 10,001 values; at most 10,000 steps, or none"),
        ({"choice": [1], "when": {"a": {"b": {}}}}, "when.a.b: no values"),
        ({"int": [1, 4], "step": 2}, "do not reach 4"),
        ({"loguniform": [0.1, 1], "step": 0.1}, "a loguniform has no steps"),
        ({"choice": [1, 2], "step": 1}, "a choice has no steps"),
    ],
)
def test_bad_leaves(tree: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as caught:
        parse_leaf("some.key", tree)
    assert all(problem.location.startswith("some.key") for problem in caught.value.problems)


def test_all_problems_of_a_leaf_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_leaf("k", {"uniform": [1, 0], "choice": [], "wen": 1, "when": []})
    assert len(caught.value.problems) == 5


@pytest.mark.parametrize(
    "tree",
    [
        {"uniform": [0.5, 2.0]},
        {"uniform": [0.5, 2.0], "step": 0.5, "prior": 1.5},
        {"int": [1, 9], "step": 4},
        {"int": [1, 9], "when": {"a.b": [1]}},
        {"choice": ["x", 2, True], "when": {"a.b": [1, 2], "c": ["y"]}},
        {"grid": [1.5]},
    ],
)
def test_leaf_document_round_trip(tree: dict[str, Any]) -> None:
    assert parse_leaf("k", tree).document() == tree


@pytest.mark.parametrize(
    ("tree", "written"),
    [
        ({"choice": ["a", "b"], "prior": [0, 3]}, [0, 3]),
        ({"choice": ["a", "b"], "prior": [0, 1]}, "b"),
        ({"choice": [(1, 2), (3, 4)], "prior": [0, 1]}, [0, 1]),
    ],
)
def test_a_prior_on_one_option_is_written_as_that_where_it_reads_back(tree: dict[str, Any], written: object) -> None:
    """A list under `prior` is one of weights, so an option that is a list cannot stand there."""
    leaf = parse_leaf("k", tree)
    assert leaf.document()["prior"] == written and parse_leaf("k", leaf.document()) == leaf


def test_conditions_nested_or_dotted() -> None:
    nested = parse_leaf("k", {"choice": [1], "when": {"a": {"b": 1}}})
    assert nested == parse_leaf("k", {"choice": [1], "when": {"a.b": [1]}})


def test_the_identity_of_a_choice_knows_no_order() -> None:
    assert identity({"a": 1, "b": 2}) == identity({"b": 2, "a": 1}) != identity({"a": 2, "b": 1})


def test_only_keeps_some_leaves_open() -> None:
    assert list(paced().only({"n", "lr"}).grid()) == [{"pacing": "linear", "lr": pytest.approx(1e-4)}]
    assert paced().only({"n", "pacing"}).combinations() == 4
    assert ["n" in point for point in paced().only({"pacing"}).grid()] == [False, True, False], "conditions stay"
