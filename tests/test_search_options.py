"""Priors and points: what the keys of `search` and `prior` do."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest

from trainables.core.errors import ConfigError
from trainables.core.randomness import generator
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import from_yaml, load_experiment
from tune_cl.samplers import GridSampler, RandomSampler
from tune_cl.space.parameters import Leaf, parse_leaf
from tune_cl.space.space import identity

# -- priors --------------------------------------------------------------------------------------------------------


def draws(leaf: Leaf, count: int = 2000) -> list[float]:
    return [leaf.draw(generator(0, "draws", i)) for i in range(count)]


@pytest.mark.parametrize(
    ("tree", "near"),
    [
        ({"uniform": [0.1, 0.9], "prior": 0.33}, lambda value: abs(value - 0.33) < 0.8 / 6),
        ({"loguniform": [1e-6, 1e-2], "prior": 1e-5}, lambda value: abs(math.log10(value) + 5) < 4 / 6),
        ({"int": [1, 60], "prior": 20}, lambda value: abs(value - 20) < 10),
    ],
)
def test_half_of_the_draws_follow_the_prior(tree: dict, near: Callable[[float], bool]) -> None:
    """Within one standard deviation, a sixth of the range: half of 68 % and half of a third, less at an end."""
    leaf = parse_leaf("key", tree)
    plain = parse_leaf("key", {key: value for key, value in tree.items() if key != "prior"})
    values = draws(leaf)
    assert all(leaf.allows(value) for value in values)
    assert mean(map(near, values)) == pytest.approx(0.68 / 2 + mean(map(near, draws(plain))) / 2, abs=0.06)
    assert leaf.middle() == tree["prior"] and leaf.document() == tree


def test_weights_of_choices() -> None:
    leaf = parse_leaf("key", {"choice": ["a", "b", "c", "d"], "prior": [0, 3, 1, 0]})
    drawn = [leaf.draw(generator(0, "draws", i)) for i in range(4000)]
    shares = [drawn.count(option) / 4000 for option in "abcd"]
    assert shares == pytest.approx([1 / 8, 1 / 8 + 3 / 8, 1 / 8 + 1 / 8, 1 / 8], abs=0.03)
    assert leaf.middle() == "b"
    one = parse_leaf("key", {"choice": ["a", "b"], "prior": "b"})
    assert one.middle() == "b" and one.document() == {"choice": ["a", "b"], "prior": "b"}
    weighted = {"choice": [2, 5, 10], "prior": [3, 1, 0.5]}
    assert repr(parse_leaf("key", weighted).document()) == repr(weighted), "weights as they were written"
    listed = parse_leaf("key", {"choice": [(1, 2), (3, 4)], "prior": [0, 1]})
    assert parse_leaf("key", listed.document()) == listed, "a list after prior is one of weights, not an option"


@pytest.mark.parametrize(
    ("tree", "wrong"),
    [
        ({"uniform": [0, 1], "prior": 2}, r"key.prior: 2 is not in the range; a value in \[0, 1\]"),
        ({"choice": ["a", "b"], "prior": "c"}, r"key.prior: 'c' is not an option"),
        ({"choice": ["a", "b"], "prior": [1]}, r"key.prior: \[1\] are not weights"),
        ({"choice": ["a", "b"], "prior": [0, 0]}, "not weights"),
        ({"int": [1, 5], "prior": 2.5}, "key.prior: 2.5 is not in the range"),
    ],
)
def test_priors_that_do_not_fit(tree: dict, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        parse_leaf("key", tree)


SPACE = """
data: docstrings
ranker: conv_knrm
curriculum:
  pacing: {choice: [linear, root], prior: root}
  n: {choice: [2, 5], when: {curriculum.pacing: root}}
  delta: {uniform: [0.1, 0.9], prior: 0.33}
  T: {uniform: [0.1, 1]}
training: {max_iterations: 9}
search: {searcher: tpe, trials: 20}
"""


def experiment(folder: Path, *overrides: str) -> Experiment:
    path = folder / "toy.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path), overrides)


# -- points --------------------------------------------------------------------------------------------------------

POINTS = "search.points=[{curriculum: {pacing: root, n: 5}, curriculum.delta: 0.2}, {curriculum.pacing: linear}]"


def test_points_are_completed_checked_and_kept(tmp_path: Path) -> None:
    toy = experiment(tmp_path, POINTS)
    whole = {"curriculum.pacing": "root", "curriculum.n": 5, "curriculum.delta": 0.2, "curriculum.T": 0.55}
    linear = {"curriculum.pacing": "linear", "curriculum.delta": 0.33, "curriculum.T": 0.55}
    assert toy.search.points == (whole, linear)
    assert from_yaml(toy.to_yaml()).search.points == (whole, linear)
    sampler = toy.sampler()
    assert [sampler.ask(1), sampler.ask(2)] == [whole, linear]
    assert experiment(tmp_path, "search.points=[{curriculum.delta: '0.2'}]").search.points[0]["curriculum.delta"] == 0.2


@pytest.mark.parametrize(
    ("point", "wrong"),
    [
        ("{curriculum.delta: 0.05}", r"search.points\[1\].curriculum.delta: 0.05 is not in the space"),
        ("{curriculum.delta: none}", r"search.points\[1\].curriculum.delta"),
        ("{curriculum.dleta: 0.5}", r"search.points\[1\].curriculum.dleta: .*did you mean curriculum.delta"),
        ("{curriculum.pacing: linear, curriculum.n: 5}", r"search.points\[1\].curriculum.n: does not exist"),
    ],
)
def test_points_outside_the_space(tmp_path: Path, point: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        experiment(tmp_path, f"search.points=[{{curriculum.T: 0.5}}, {point}]")


def test_a_point_outside_is_told_the_range_as_it_is_written(tmp_path: Path) -> None:
    path, stepped = tmp_path / "stepped.yaml", "{uniform: [0.2, 0.6], step: 0.1}"
    path.write_text(SPACE.replace("{uniform: [0.1, 0.9], prior: 0.33}", stepped))
    with pytest.raises(ConfigError) as refused:
        load_experiment(str(path), ["search.points=[{curriculum: {delta: 0.35, pacing: step}}]"])
    ranges = [stepped, "{choice: [linear, root]}"]
    assert [one in problem.right for one, problem in zip(ranges, refused.value.problems, strict=True)] == [True, True]


def test_points_give_way_to_the_command_line(tmp_path: Path) -> None:
    closed = experiment(tmp_path, POINTS, "curriculum.delta=0.4")
    assert [set(point) for point in closed.search.points] == [
        {"curriculum.pacing", "curriculum.n", "curriculum.T"},
        {"curriculum.pacing", "curriculum.T"},
    ]
    narrowed = experiment(tmp_path, POINTS, "curriculum.delta={uniform: [0.3, 0.4]}")
    assert [point["curriculum.pacing"] for point in narrowed.search.points] == ["linear"]
    assert any(note.startswith("search.points[0] ") for note in narrowed.notes)


def test_a_point_given_twice_is_tried_once(tmp_path: Path) -> None:
    toy = experiment(tmp_path, "search.points=[{curriculum.pacing: linear}, {curriculum: {pacing: linear}}]")
    assert [point["curriculum.pacing"] for point in toy.search.points] == ["linear"]
    assert any(note.startswith("search.points[1] ") for note in toy.notes)


@pytest.mark.parametrize("searcher", ["grid", "random"])
def test_a_search_begins_with_its_points_and_repeats_none(searcher: str) -> None:
    points = "search.points=[{curriculum.pacing: geometric}]"
    sampler = load_experiment("penha2020_pacing", [f"search.searcher={searcher}", points]).sampler()
    assert isinstance(sampler, GridSampler | RandomSampler)
    asked = []
    while (point := sampler.ask(len(asked) + 1)) is not None:
        sampler.replay(len(asked) + 1, point)
        asked.append(identity(point))
    assert asked[0] == identity({"curriculum.pacing": "geometric"}) and len(asked) == len(set(asked)) == 8


def test_parameters_outside_the_space(tmp_path: Path) -> None:
    space = experiment(tmp_path).space
    params = {"curriculum.pacing": "linear", "curriculum.delta": 0.5, "curriculum.T": 0.5, "training.lr": 1e-3}
    assert space.within(params) == {key: params[key] for key in list(params)[:3]}
    assert space.within(params | {"curriculum.delta": 0.05}) is None
    assert space.within(params | {"curriculum.pacing": "root"}) is None, "n is missing"
