"""Shipped spaces for the papers' studies: what they vary and how they train. Numbers are the papers' own."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from trainables.rankers import RANKERS
from tune_cl.experiment.load import load_experiment
from tune_cl.search.phases import phases_of

PENHA = {"loss": "pointwise", "negatives": 1, "lr": 5e-5, "schedule": "linear", "batch_size": 32, "max_length": 128}
MACAVANEY = {"loss": "pairwise", "lr": 2e-5, "clip": math.inf, "batch_size": 16, "batches_per_iteration": 32}
MACAVANEY |= {"max_iterations": 130, "patience": 15}
FERRO = {"lr": 0.05, "max_iterations": 50, "patience": 50}
HEURISTICS = ("reciprocal_rank", "normalized_score", "kde")
SUBSETS = (("none", "mse"), ("label_extremes", None), ("relevant_count", None), ("feature_ndcg", None))


@pytest.mark.parametrize(
    ("space", "training"),
    [
        *((name, PENHA) for name in ("penha2020_pacing", "penha2020_scoring")),
        *((name, MACAVANEY) for name in ("macavaney2020_curricula", "macavaney2020_end")),
        *((name, FERRO) for name in ("ferro2018", "ferro2018_plain")),
    ],
)
def test_trainings_are_those_of_the_papers(space: str, training: dict[str, Any]) -> None:
    """Penha & Hauff 2020, section 4 and scripts; MacAvaney et al. 2020; Ferro et al. 2018: 500 trees of 64 leaves."""
    run: Any = load_experiment(space).base.run
    assert run.training.model_copy(update=training) == run.training
    if training is PENHA:
        assert (run.curriculum.delta, run.curriculum.T, run.ranker.model) == (0.33, 0.9, "bert-base-uncased")
    if training is FERRO:
        assert (run.ranker.leaves, run.training.max_iterations * run.ranker.trees_per_iteration) == (64, 500)


@pytest.mark.parametrize(
    ("space", "keys", "values"),
    [
        ("penha2020_pacing", ("curriculum.pacing", "curriculum.n"),
         {("step", None), ("linear", None), ("geometric", None), *(("root", n) for n in (2, 5, 10, 20, 50))}),
        ("macavaney2020_curricula", ("curriculum.weighting", "curriculum.m", "curriculum.anti"),
         {*product(HEURISTICS, (1, 5, 10, 20, 50, 100, math.inf), (False, True))}),
        ("ferro2018", ("curriculum.subset", "curriculum.objective_switch", "curriculum.switch"),
         {(*first, trees) for first, trees in product(SUBSETS, (100, 200, 300, 400))}),
        ("ferro2018_plain", ("training.lr", "ranker.leaves"), {*product((0.01, 0.05, 0.1, 0.5), (8, 16, 32, 64))}),
    ],
)  # fmt: skip
def test_curricula_are_those_of_the_papers(space: str, keys: tuple[str, ...], values: set[Any]) -> None:
    points = [tuple(point.get(key) for key in keys) for point in load_experiment(space).space.grid()]
    assert len(points) == len(values) and set(points) == values


def test_what_the_papers_found_comes_first() -> None:
    pacing = load_experiment("penha2020_pacing")
    assert pacing.points == ({"curriculum.pacing": "root", "curriculum.n": 2},)
    curricula = load_experiment("macavaney2020_curricula")
    assert [tuple(point.values()) for point in curricula.points] == [(name, 20, False) for name in HEURISTICS]


def test_every_ranker_is_trained_plainly_and_under_each_curriculum() -> None:
    experiment = load_experiment("similarity_learning")
    rankers = set(experiment.values("ranker.name"))
    assert rankers == set(RANKERS) - {"bert", "bi_encoder", "lambdamart"}
    assert phases_of(experiment).trials == 6 * len(rankers)
    assert not any(experiment.config(point).is_plain for point in experiment.space.grid())


def test_the_quickstart_judges_no_trial_inside_its_curriculum() -> None:
    slow = {"curriculum.pacing": "linear", "curriculum.T": 0.4, "curriculum.weighting": "kde", "curriculum.m": 8}
    experiment = load_experiment("quickstart")
    assert experiment.config(slow).grace == 8 and experiment.config(slow | {"curriculum.m": 2}).grace == 4
