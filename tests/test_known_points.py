"""Curricula of the literature are tried first, as far as a space holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainables.core.errors import ConfigError
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.known_points import NO_PORTFOLIO, published
from tune_cl.experiment.load import from_yaml, load_experiment

SPACE = """
data: docstrings
ranker: knrm
curriculum:
  pacing: {choice: [none, linear, root]}
  n: {choice: [5, 10], when: {curriculum.pacing: root}}
  delta: {uniform: [0.1, 0.3], when: {curriculum.pacing: [linear, root]}}
  T: 0.5
  scoring: {choice: [turns, bm25_std], when: {curriculum.pacing: [linear, root]}}
  weighting: {choice: [none, kde]}
  m: {choice: [5, 15, inf], when: {curriculum.weighting: kde}}
training.loss: {choice: [pairwise, hinge, cross_entropy]}
search: {searcher: tpe, trials: 24, points: published}
"""


def of(folder: Path, *options: str, space: str = SPACE) -> Experiment:
    (folder / "mine.yaml").write_text(space)
    return load_experiment(str(folder / "mine.yaml"), options)


def test_a_space_gets_what_it_holds_with_its_nearest_numbers(tmp_path: Path) -> None:
    experiment = of(tmp_path)
    kde, order, turns = [dict(point) for point in experiment.search.first]
    losses = [point.pop("training.loss") for point in (kde, order, turns)]
    assert kde == {"curriculum.pacing": "none", "curriculum.weighting": "kde", "curriculum.m": 15}
    assert order == {
        "curriculum.pacing": "root", "curriculum.n": 5, "curriculum.delta": 0.3, "curriculum.scoring": "bm25_std",
        "curriculum.weighting": "none",
    }  # fmt: skip
    assert turns == {**order, "curriculum.scoring": "turns"}
    assert set(losses) == {"pairwise", "hinge", "cross_entropy"}, "losses are those of the pairs, each once"
    assert experiment.sampler().ask(1) == experiment.search.first[0]
    assert from_yaml(experiment.to_yaml()).search.first == experiment.search.first


def test_at_most_half_of_the_curricula_are_published(tmp_path: Path) -> None:
    assert [len(of(tmp_path, f"search.trials={trials}").search.first) for trials in (4, 6, 24)] == [1, 2, 3]
    assert len(load_experiment("penha2020_scoring").search.first) == 7, "a grid has them all anyway"


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["curriculum.weighting=none"], 2),
        (["curriculum.pacing=none"], 1),
        (["curriculum.anti=true"], 0),
        (["curriculum.objective_switch={choice: [none, mse]}", "baseline={curriculum.objective_switch: none}"], 4),
        (["curriculum.objective_switch=mse"], 1),
        (["curriculum.negatives.schedule={choice: [ranks]}", "training.hard_negatives=first_stage"], 0),
    ],
)
def test_what_does_not_fit_is_left_out_and_said_where_nothing_does(
    tmp_path: Path, options: list[str], left: int
) -> None:
    experiment = of(tmp_path, *options)
    assert len(experiment.search.first) == left
    note = "search.points: the space holds none of the published curricula"
    assert (note in experiment.notes) == (not left)


def test_the_portfolio_is_the_published_ones(tmp_path: Path) -> None:
    experiment = of(tmp_path, "search.points=portfolio")
    assert experiment.search.first == of(tmp_path).search.first
    assert NO_PORTFOLIO in experiment.notes


def test_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"search\.points: .*publishd"):
        of(tmp_path, "search.points=publishd")


def test_every_published_curriculum_lies_in_a_space_that_opens_its_keys(tmp_path: Path) -> None:
    for curriculum in published():
        grows = "curriculum.subset" in curriculum
        opened = {key: value for key, value in curriculum.items() if grows or key != "curriculum.switch"}
        keys = [f"{key}={{choice: [{value}]}}" for key, value in opened.items()]
        ranker = ["ranker.name=lambdamart"] if grows else []
        space = "{data: docstrings, ranker: knrm, search: {searcher: grid, points: published}}"
        [point] = of(tmp_path, *keys, *ranker, space=space).search.first
        assert point == opened
