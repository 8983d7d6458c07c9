"""Priors, points and warm starts: what the keys of `search` and `prior` do."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from tests.support.report_cases import Case
from trainables.core.errors import ConfigError
from trainables.core.randomness import generator
from tune_cl.check_space import unmeasured
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import from_yaml, load_experiment
from tune_cl.samplers import GridSampler, RandomSampler, tried_first
from tune_cl.search.warm_start import warm_start_event
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


def test_the_most_likely_configuration_is_tried_first_and_shown(tmp_path: Path) -> None:
    toy = experiment(tmp_path)
    first = toy.sampler().ask(1)
    assert first is not None
    assert (first["curriculum.pacing"], first["curriculum.delta"]) == ("root", 0.33)
    assert unmeasured(toy).priors == ["curriculum.pacing: root", "curriculum.delta: 0.33"]
    assert from_yaml(toy.to_yaml()).space == toy.space


def test_values_without_a_prior_are_drawn_and_a_point_of_the_most_likely_is_not_tried_again(tmp_path: Path) -> None:
    toys = [experiment(tmp_path, "search.searcher=random", f"seed={seed}") for seed in (0, 1)]
    by_seed = [tried_first(toy.space, toy.seed, toy.search.points) for toy in toys]
    assert [[point["curriculum.delta"] for point in tried] for tried in by_seed] == [[0.33], [0.33]]
    assert by_seed[0][0]["curriculum.T"] != by_seed[1][0]["curriculum.T"]
    closed = ["curriculum.T=0.5", "curriculum.n=2", "search.points=[{curriculum.pacing: root}]"]
    toy = experiment(tmp_path, "search.searcher=random", *closed)
    assert tried_first(toy.space, toy.seed, toy.search.points) == [
        {"curriculum.pacing": "root", "curriculum.delta": 0.33}
    ]
    assert toy.sampler().ask(1) == tried_first(toy.space, toy.seed, toy.search.points)[0]


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
    third = sampler.ask(3)
    assert third is not None and third["curriculum.delta"] == 0.33, "then the prior's own"


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


# -- warm start ----------------------------------------------------------------------------------------------------


@pytest.fixture
def earlier(tmp_path: Path) -> Case:
    case = Case(tmp_path, "earlier")
    for number, outcome in enumerate(["baseline", "completed", "completed", "stopped_early", "completed", "failed"]):
        case.add([0.3, 0.3 + number / 10], outcome)
    case.write()
    return case


def test_finished_trials_of_an_earlier_search_are_observed(earlier: Case) -> None:
    digest = earlier.events[0]["data"]["digest"]
    new = load_experiment(str(earlier.search_folder.storage.parent / "earlier.yaml"), ["search.warm_start=[earlier]",
                                                                              "search.searcher=tpe"])  # fmt: skip
    event = warm_start_event(new, digest, earlier.search_folder.storage)
    assert event is not None
    told = {"search": "earlier", "seeds": [0], "observations": 3, "dropped": 1}  # the baseline has no pacing
    assert event["sources"] == [told]
    assert [seen["value"] for seen in event["observations"]] == pytest.approx([0.4, 0.5, 0.7])
    assert all(seen["comparable"] for seen in event["observations"])
    other = warm_start_event(new, "other data", earlier.search_folder.storage)
    assert other is not None
    scores = (np.array([0.3, 0.4, 0.5, 0.7]) - 0.475) / np.std([0.3, 0.4, 0.5, 0.7])
    assert [seen["value"] for seen in other["observations"]] == pytest.approx(scores[1:].tolist())
    assert not any(seen["comparable"] for seen in other["observations"])
    assert json.loads(json.dumps(other)) == other, "it goes into the journal, and resuming needs nothing else"


@pytest.mark.parametrize(
    "other", ["evaluation.relevance_level=2", "training.max_iterations=9", "metric=mrr@10", "ranker={name: knrm}"]
)
def test_values_of_another_kind_do_not_compare(other: str, earlier: Case) -> None:
    space = str(earlier.search_folder.storage.parent / "earlier.yaml")
    new = load_experiment(space, ["search.warm_start=[earlier]", "search.searcher=tpe", other])
    event = warm_start_event(new, earlier.events[0]["data"]["digest"], earlier.search_folder.storage)
    assert event is not None and {seen["comparable"] for seen in event["observations"]} == {False}


def test_a_search_to_learn_from_must_be_there(earlier: Case) -> None:
    space = str(earlier.search_folder.storage.parent / "earlier.yaml")
    new = load_experiment(space, ["search.warm_start=[earlyer]", "search.searcher=gp",
                                  "curriculum.delta={uniform: [0.2, 0.4]}"])  # fmt: skip
    with pytest.raises(ConfigError, match=r"search.warm_start\[0\]: .*'earlyer'.* earlier\?"):
        warm_start_event(new, "", earlier.search_folder.storage)
    with pytest.raises(ConfigError, match=r"search.warm_start: .*random"):
        load_experiment(space, ["search.warm_start=[earlier]"])


def test_parameters_outside_the_space(tmp_path: Path) -> None:
    space = experiment(tmp_path).space
    params = {"curriculum.pacing": "linear", "curriculum.delta": 0.5, "curriculum.T": 0.5, "training.lr": 1e-3}
    assert space.within(params) == {key: params[key] for key in list(params)[:3]}
    assert space.within(params | {"curriculum.delta": 0.05}) is None
    assert space.within(params | {"curriculum.pacing": "root"}) is None, "n is missing"
