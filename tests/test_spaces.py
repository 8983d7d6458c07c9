"""Ranges, conditions, sampling and grids of a search space."""

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
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FixedTrial

from trainables.core.errors import ConfigError
from tune_cl.space.parameters import Parameter, choice, parameter_of
from tune_cl.space.space import Space, identity
from tune_cl.space.space_files import as_yaml_reads

PACING = choice("linear", "root", "step")
N = choice(2, 5, when={"pacing": ("root",)})
UNIFORM, LOGUNIFORM = Parameter(FloatDistribution(-2, 3)), Parameter(FloatDistribution(1e-6, 10, log=True))
INTEGER = Parameter(IntDistribution(3, 5))


def paced() -> Space:
    return Space({"n": N, "pacing": PACING, "lr": Parameter(FloatDistribution(1e-5, 1e-3, log=True))})


@st.composite
def finite_spaces(draw: st.DrawFn) -> Space:
    """Up to five keys, each either conditional on a value of an earlier key or not; written in any order."""
    parameters: dict[str, Any] = {}
    for key in "abcde"[: draw(st.integers(1, 5))]:
        when = {}
        if parameters and draw(st.booleans()):
            when = {draw(st.sampled_from(sorted(parameters))): (draw(st.integers(0, 2)),)}
        parameters[key] = choice(*range(draw(st.integers(1, 3))), when=when)
    return Space({key: parameters[key] for key in draw(st.permutations(list(parameters)))})


def brute_force(space: Space) -> set[Any]:
    """All assignments of all keys, each reduced to the parameters that exist."""
    found = set()
    for values in product(*(parameter.ends for parameter in space.parameters.values())):
        pick = dict(zip(space.parameters, values, strict=True))
        found.add(identity(space.fill(lambda key, _, pick=pick: pick[key])))
    return found


@given(finite_spaces(), st.integers(0, 2**32))
def test_a_grid_is_every_combination_once_and_samples_lie_in_it(space: Space, seed: int) -> None:
    points = list(space.grid())
    grid = {identity(point) for point in points}
    assert len(points) == len(grid) == space.combinations() and grid == brute_force(space)
    assert identity(space.sample(np.random.default_rng(seed))) in grid
    assert all(space.within(point) == point for point in points)


def test_the_last_key_of_a_grid_varies_fastest() -> None:
    grid = list(Space({"n": N, "pacing": PACING}).grid())
    assert grid == [{"pacing": "linear"}, {"pacing": "root", "n": 2}, {"pacing": "root", "n": 5}, {"pacing": "step"}]
    assert list(paced().parameters) == ["pacing", "n", "lr"], "a condition moves behind its key"


def test_conditions_on_fixed_keys_and_on_keys_that_do_not_exist() -> None:
    assert Space({"n": N}, {"pacing": "root"}).combinations() == 2
    assert Space({"n": N}, {"pacing": "step"}).combinations() == 1
    space = Space({"pacing": PACING, "n": N, "x": choice(1, 2, when={"n": (2, 5)})})
    assert [key for key in space.parameters if space.exists(key, {"pacing": "linear"})] == ["pacing"]
    assert space.exists("x", {"pacing": "root", "n": 5})


@pytest.mark.parametrize("parameter", [UNIFORM, LOGUNIFORM, INTEGER, PACING])
def test_values_stay_in_range(parameter: Parameter) -> None:
    rng = np.random.default_rng(0)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    values = [parameter.middle(), *parameter.ends, *(parameter.draw(rng) for _ in range(200))]
    values += [parameter.suggest(study.ask(), "key") for _ in range(50)]
    values += [parameter.at(place) for place in (0, 0.3, 0.999)]
    assert all(parameter.allows(value) for value in values) and not parameter.allows(True)
    assert parameter.values() is None or set(values) == set(parameter.values() or ())


def test_draws_follow_their_distribution() -> None:
    rng = np.random.default_rng(1)
    uniform = [UNIFORM.draw(rng) for _ in range(4000)]
    logarithmic = np.log10([Parameter(FloatDistribution(1e-4, 1, log=True)).draw(rng) for _ in range(4000)])
    integers = np.bincount([INTEGER.draw(rng) for _ in range(3000)])
    assert np.mean(uniform) == pytest.approx(0.5, abs=0.1) and np.mean(logarithmic) == pytest.approx(-2, abs=0.1)
    assert integers[3:].min() > 900


def test_logarithms_do_not_lead_out_of_the_range() -> None:
    """exp(log(10)) is more than 10 in floating point."""
    last = cast(np.random.Generator, SimpleNamespace(uniform=lambda low, high: high))
    assert math.exp(math.log(10)) > 10 and LOGUNIFORM.draw(last) == 10


def test_middles_are_halfway_and_those_of_logarithms_in_these() -> None:
    middles = [one.middle() for one in (UNIFORM, INTEGER, Parameter(IntDistribution(1, 4)), PACING)]
    assert middles == [0.5, 4, 2, "linear"]
    assert Parameter(FloatDistribution(1e-4, 1e-2, log=True)).middle() == pytest.approx(1e-3)


def test_optuna_suggests_only_what_exists_by_the_same_distributions() -> None:
    trial = FixedTrial({"pacing": "step", "n": 2, "lr": 1e-4})
    assert paced().suggest(trial) == {"pacing": "step", "lr": 1e-4}
    assert trial.distributions == {key: paced().parameters[key].distribution for key in ("pacing", "lr")}


def test_given_values_replace_picks_and_decide_conditions() -> None:
    point = paced().fill(lambda _, parameter: parameter.middle(), given={"pacing": "root", "other": 1})
    assert point == {"other": 1, "pacing": "root", "n": 2, "lr": pytest.approx(1e-4)}


def test_a_grid_names_continuous_keys_and_large_ones_are_counted_without_being_walked() -> None:
    space = Space({"lr": UNIFORM, "pacing": PACING, "d": LOGUNIFORM})
    assert space.combinations() is None
    with pytest.raises(ConfigError) as caught:
        space.grid()
    assert [problem.location for problem in caught.value.problems] == ["lr", "d"]
    many = {f"k{i}": Parameter(IntDistribution(1, 1000)) for i in range(20)}
    assert Space({"pacing": PACING, "n": N, **many}).combinations() == 4 * 1000**20


def test_only_keeps_some_parameters_open() -> None:
    assert list(paced().only({"n", "lr"}).grid()) == [{"pacing": "linear", "lr": pytest.approx(1e-4)}]
    assert ["n" in point for point in paced().only({"pacing"}).grid()] == [False, True, False], "conditions stay"


@pytest.mark.parametrize("keys", ["a", "ab", "abc"])
def test_conditions_in_a_circle(keys: str) -> None:
    with pytest.raises(ConfigError, match="circle"):
        Space({key: choice(1, 2, when={keys[i - 1]: (1,)}) for i, key in enumerate(keys)})


@pytest.mark.parametrize(
    ("tree", "wrong"),
    [
        ({}, "no range given"),
        ({"uniform": [0, 1], "choice": [1]}, "uniform and choice at once"),
        ({"choise": [1]}, "did you mean choice"),
        ({"choice": [1], "wenn": {}}, "did you mean when"),
        ({"choice": []}, "no values"),
        ({"uniform": [1, 0]}, "1 is not below 0"),
        ({"uniform": [1]}, "not a pair of numbers"),
        ({"uniform": [True, 2]}, "not a pair of numbers"),
        ({"uniform": [0, float("inf")]}, "not a pair of numbers"),
        ({"uniform": "ab"}, "not a pair of numbers"),
        ({"loguniform": [0, 1]}, "no logarithm"),
        ({"int": [0.5, 3]}, "not whole numbers"),
        ({"choice": [1], "when": 3}, "not a condition"),
        ({"choice": [1], "when": {"a": {"b": {}}}}, "when.a.b: no values"),
        ({"min": 1e-4, "max": 1e-2}, r"\{uniform: \[0.0001, 0.01\]\}"),
        ({"min": 1, "max": 8}, r"\{int: \[1, 8\]\}"),
        ({"distribution": "log_uniform_values", "min": 1, "max": 8}, r"\{loguniform: \[1, 8\]\}"),
        ({"low": 0.1, "high": 1, "log": True}, r"\{loguniform: \[0.1, 1\]\}"),
        ({"values": [1, 2]}, r"\{choice: \[1, 2\]\}"),
        ({"grid": [1, 2]}, r"\{choice: \[1, 2\]\}"),
        ({"_type": "uniform", "_value": [0, 1]}, r"\{uniform: \[0, 1\]\}"),
        ({"uniform": [0, 1], "step": 0.1}, "'step'"),
    ],
)
def test_wrong_ranges_are_told_with_the_right_form(tree: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as caught:
        parameter_of("some.key", tree)
    assert all(problem.location.startswith("some.key") for problem in caught.value.problems)


def test_all_problems_of_a_range_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parameter_of("k", {"uniform": [1, 0], "choice": [], "wen": 1, "when": []})
    assert len(caught.value.problems) == 5


@pytest.mark.parametrize(
    "tree",
    [
        {"uniform": [0.5, 2.0]},
        {"int": [1, 9], "when": {"a.b": [1]}},
        {"choice": ["x", 2, True], "when": {"a.b": [1, 2], "c": ["y"]}},
    ],
)
def test_a_range_is_written_as_it_is_read(tree: dict[str, Any]) -> None:
    assert parameter_of("k", tree).document() == tree


def test_numbers_in_quotation_marks_and_nested_conditions_are_read() -> None:
    assert parameter_of("k", {"loguniform": ["1e-4", "1e-2"]}).ends == (1e-4, 1e-2)
    nested = parameter_of("k", {"choice": [1], "when": {"a": {"b": 1}}})
    assert nested == parameter_of("k", {"choice": [1], "when": {"a.b": [1]}})


def test_ranges_of_optuna_and_of_ray_tune_are_read() -> None:
    from ray import tune

    theirs = [FloatDistribution(0, 1), FloatDistribution(1e-4, 1, log=True), IntDistribution(1, 4)]
    theirs += [CategoricalDistribution(("a", "b")), tune.uniform(0, 1), tune.loguniform(1e-4, 1), tune.randint(1, 5)]
    theirs += [tune.choice(["a", "b"]), tune.grid_search(["a", "b"])]
    ours = [{"uniform": [0.0, 1.0]}, {"loguniform": [1e-4, 1.0]}, {"int": [1, 4]}, {"choice": ["a", "b"]}]
    assert as_yaml_reads(theirs) == [*ours, *ours, ours[-1]]
    for unlike in (tune.quniform(0, 1, 0.1), tune.randn(0, 1), FloatDistribution(0, 1, step=0.1)):
        with pytest.raises(ConfigError, match="is no range here"):
            as_yaml_reads({"training.lr": unlike})
