"""Ranges, conditions, sampling and grids of a search space."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import FixedTrial

from trainables.core.errors import ConfigError
from tune_cl.space.parameters import Parameter, choice, parameter_of
from tune_cl.space.space import Space, identity

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


def test_conditions_decide_which_keys_exist_and_in_which_order() -> None:
    grid = list(Space({"n": N, "pacing": PACING}).grid())
    assert grid == [{"pacing": "linear"}, {"pacing": "root", "n": 2}, {"pacing": "root", "n": 5}, {"pacing": "step"}]
    assert Space({"n": N}, {"pacing": "root"}).combinations() == 2
    assert Space({"n": N}, {"pacing": "step"}).combinations() == 1
    trial = FixedTrial({"pacing": "step", "n": 2, "lr": 1e-4})
    assert paced().suggest(trial) == {"pacing": "step", "lr": 1e-4}
    point = paced().fill(lambda _, parameter: parameter.middle(), given={"pacing": "root", "other": 1})
    assert point == {"other": 1, "pacing": "root", "n": 2, "lr": pytest.approx(1e-4)}
    assert ["n" in point for point in paced().only({"pacing"}).grid()] == [False, True, False]
    many = {f"k{i}": Parameter(IntDistribution(1, 1000)) for i in range(20)}
    assert Space({"pacing": PACING, "n": N, **many}).combinations() == 4 * 1000**20


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


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({}, "k: range"),
        ({"uniform": [0, 1], "choice": [1]}, "k: range"),
        ({"min": 1e-4, "max": 1e-2}, "k: {uniform: [a, b]}"),
        ({"choice": [1], "when": []}, "k.when: []"),
        ({"uniform": [1, 0]}, "k.uniform: low"),
        ({"uniform": [True, 2]}, "k.uniform: True"),
        ({"uniform": [0, float("inf")]}, "k.uniform: inf"),
        ({"loguniform": [0, 1]}, "k.loguniform: low"),
        ({"int": [0.5, 3]}, "k.int: whole"),
        ({"choice": []}, "k.choice: values"),
    ],
)
def test_what_is_wrong_in_a_range_is_told_with_the_right_form(tree: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parameter_of("k", tree)
    (problem,) = caught.value.problems
    location, _, words = place.partition(": ")
    assert problem.location == location and all(word in str(problem) for word in words.split())


def test_a_range_is_written_as_it_is_read() -> None:
    for tree in ({"uniform": [0.5, 2.0]}, {"int": [1, 9], "when": {"a.b": [1]}}, {"choice": ["x", 2, True]}):
        assert parameter_of("k", tree).document() == tree
    assert parameter_of("k", {"loguniform": ["1e-4", "1e-2"]}).ends == (1e-4, 1e-2), "numbers in quotation marks"
    assert parameter_of("k", {"choice": [1], "when": {"a": {"b": 1}}}).when == {"a.b": (1,)}
