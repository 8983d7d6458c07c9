"""Shipped spaces for the papers' studies: what they vary, and that every part of them can be trained."""

from __future__ import annotations

import math
from itertools import product

import pytest

from trainables.rankers import RANKERS
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.readers import scorings_of
from tune_cl.experiment.search_parts import setup_of

PENHA = {"loss": "pointwise", "negatives": 1, "lr": 5e-5, "schedule": "linear", "batch_size": 32, "max_length": 128}
MACAVANEY = {"loss": "pairwise", "lr": 2e-5, "clip": math.inf, "batch_size": 16, "batches_per_iteration": 32}
MACAVANEY |= {"max_iterations": 130, "patience": 15}
STAGES = ("subset", "objective_switch", "switch")


def test_every_ranker_is_trained_plainly_and_under_each_curriculum() -> None:
    experiment = load_experiment("similarity_learning")
    choices = list(experiment.space.grid())
    rankers = {choice["ranker.name"] for choice in choices}
    others = {"bert", "bi_encoder", "decoder", "lambdamart"}
    assert rankers == set(RANKERS) - others and len(choices) == 5 * len(rankers)
    assert {choice["ranker.name"] for choice in experiment.arms.shared_space.grid()} == rankers
    assert experiment.arms.trials == {"plain": len(rankers), "curriculum": len(choices)}
    assert not any(experiment.config(choice).is_plain for choice in choices)


def test_the_pacing_study_is_that_of_the_paper() -> None:
    """Penha & Hauff 2020, section 4 and its scripts: learning rate of the text, 32 instances of 128 tokens a batch, one
    fixed negative, δ .33, T 90 % of the steps; root 2, the pacing of the main table, comes first."""
    for name in ("penha2020_pacing", "penha2020_scoring"):
        experiment = load_experiment(name)
        run = experiment.base.run
        assert run.training.model_copy(update=PENHA) == run.training, name
        assert (run.curriculum.delta, run.curriculum.T) == (0.33, 0.9)
        assert (run.ranker.name, run.ranker.model, run.metric) == ("bert", "bert-base-uncased", "map")
        assert experiment.search.scheduler == "none" and experiment.search.searcher == "grid"
        assert run.training.max_iterations * run.training.batches_per_iteration * 32 / 34_600 == pytest.approx(
            3, abs=0.1
        )
    pacing = load_experiment("penha2020_pacing")
    assert pacing.fixed["curriculum.scoring"] == "context_words"
    choices = [(choice["curriculum.pacing"], choice.get("curriculum.n")) for choice in pacing.space.grid()]
    assert set(choices) == {
        ("step", None),
        ("linear", None),
        ("geometric", None),
        *(("root", n) for n in (2, 5, 10, 20, 50)),
    }
    assert pacing.points == ({"curriculum.pacing": "root", "curriculum.n": 2},)
    scorings = {"random", "turns", "context_words", "response_words", "semantic_std", "bm25_std"}
    assert set(scorings_of(load_experiment("penha2020_scoring"))) == scorings | {"model_margin", "model_loss"}


def test_the_weighting_studies_are_those_of_the_paper() -> None:
    """MacAvaney et al. 2020: up to 130 iterations of 32 batches of 16 pairs, patience 15, no clipping, rate 2e-5; the
    first points are each heuristic with m = 20, as in the authors' code."""
    for name in ("macavaney2020_curricula", "macavaney2020_end"):
        training = load_experiment(name).base.run.training
        assert training.model_copy(update=MACAVANEY) == training, name
    curricula = load_experiment("macavaney2020_curricula")
    heuristics = ("reciprocal_rank", "normalized_score", "kde")
    choices = {tuple(choice.values()) for choice in curricula.space.grid()}
    assert choices == set(product(heuristics, (1, 5, 10, 20, 50, 100, math.inf), (False, True)))
    assert [tuple(point.values()) for point in curricula.points] == [(name, 20, False) for name in heuristics]


def test_the_studies_of_trees_are_those_of_the_paper() -> None:
    """Ferro et al. 2018: 500 trees of 64 leaves, rate .05, switch points 100 to 400, a quarter of the queries."""
    staged = load_experiment("ferro2018")
    choices = [tuple(choice.get(f"curriculum.{key}") for key in STAGES) for choice in staged.space.grid()]
    subsets = (("none", "mse"), ("label_extremes", None), ("relevant_count", None), ("feature_ndcg", None))
    assert (
        set(choices) == {(*first, trees) for first, trees in product(subsets, (100, 200, 300, 400))}
        and len(choices) == 16
    )
    plain = load_experiment("ferro2018_plain")
    rates, leaves = ({choice[key] for choice in plain.space.grid()} for key in ("training.lr", "ranker.leaves"))
    assert (rates, leaves) == ({0.01, 0.05, 0.1, 0.5}, {8, 16, 32, 64}) and plain.arms.total == 17
    for experiment in (staged, plain):
        run = experiment.base.run
        assert (run.training.lr, run.ranker.leaves, run.metric) == (0.05, 64, "ndcg@10")
        assert run.training.max_iterations * run.ranker.trees_per_iteration == 500
        assert run.training.patience == run.training.max_iterations and run.curriculum.subset == "none"
    assert staged.base.run.curriculum.subset_share == 0.25


def test_the_quickstart_judges_no_trial_inside_its_curriculum() -> None:
    """At iterations 1, 2, 4 and 8, but not before the trial's own T and m are over."""
    experiment = load_experiment("quickstart")
    assert setup_of(experiment).rungs == [1, 2, 4, 8] and experiment.search.grace == "curriculum"
    slow = {
        "curriculum.pacing": "linear",
        "curriculum.T": 0.4,
        "curriculum.weighting": "reciprocal_rank",
        "curriculum.m": 8,
    }
    assert experiment.config(slow).grace == 8 and experiment.config(slow | {"curriculum.m": 2}).grace == 4
