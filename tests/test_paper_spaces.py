"""Shipped spaces of the papers' studies: what they vary, and that every part of them can be trained."""

from __future__ import annotations

from trainables.rankers import RANKERS
from tune_cl.experiment import load_experiment


def test_all_scorings_of_the_paper_at_one_pace() -> None:
    experiment = load_experiment("penha2020_scoring")
    assert experiment.trials == 9 and len(experiment.scorings) == 8
    run = experiment.training_run({"curriculum.scoring": "model_margin"})
    assert (run.curriculum.pacing, run.curriculum.n, run.curriculum.delta, run.curriculum.T) == ("root", 2, 0.33, 0.9)
    assert experiment.base_run().curriculum.pacing == "none" and not run.curriculum.anti


def test_every_heuristic_with_every_end() -> None:
    experiment = load_experiment("macavaney2020_end")
    combinations = {(c["curriculum.weighting"], c["curriculum.m"]) for c in experiment.space.grid()}
    assert {m for _, m in combinations} == {1, 5, 10, 20, 50, 100} and len(combinations) == 18
    assert {name for name, _ in combinations} == {"reciprocal_rank", "normalized_score", "kde"}
    assert experiment.base_run().curriculum.weighting == "none"


def test_every_ranker_is_trained_plainly_first_and_then_under_each_curriculum() -> None:
    experiment = load_experiment("similarity_learning")
    choices = list(experiment.space.grid())
    rankers = {choice["ranker.name"] for choice in choices}
    assert rankers == set(RANKERS) - {"bert", "lambdamart"} and len(choices) == 6 * len(rankers)
    plain = [experiment.training_run(choice) for choice in choices[: len(rankers)]]
    assert {run.ranker["name"] for run in plain} == rankers
    assert {(run.curriculum.pacing, run.curriculum.weighting) for run in plain} == {("none", "none")}
    for choice in choices:
        experiment.training_run(choice)
