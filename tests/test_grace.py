"""When trials may be judged: a curriculum's end, its scaling with a rung's budget, rungs; and schedulers by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError
from trainables.training.batching import total_steps
from trainables.training.order import schedule_of
from tune_cl.experiment.load import load_experiment
from tune_cl.schedulers import Scheduler
from tune_cl.schedulers.asha import Asha
from tune_cl.schedulers.scheduler import curriculum_grace, scaled_run


def run_of(**curriculum: object) -> TrainingRun:
    return TrainingRun.model_validate({"curriculum": curriculum, "training": {"max_iterations": 20}})


@pytest.mark.parametrize(
    ("curriculum", "grace"),
    [
        ({"T": 0.9, "m": 15}, 0),
        ({"pacing": "linear", "T": 0.9}, 18),
        ({"pacing": "linear", "T": 0.11}, 3),
        ({"pacing": "linear", "T": 0.2, "weighting": "reciprocal_rank", "m": 7}, 7),
        ({"weighting": "reciprocal_rank", "m": 7.5}, 8),
        ({"weighting": "reciprocal_rank", "m": "inf"}, 20),
    ],
)
def test_curriculum_grace(curriculum: dict[str, object], grace: int) -> None:
    assert curriculum_grace(run_of(**curriculum)) == grace


def test_a_scaled_training_has_gone_through_its_curriculum_at_its_end() -> None:
    whole = run_of(pacing="linear", T=0.6, delta=0.2, weighting="reciprocal_rank", m=10)
    scaled = scaled_run(whole, 5)
    assert scaled.training.max_iterations == 5 and scaled.curriculum.m == 2.5
    assert curriculum_grace(whole) == 12 and curriculum_grace(scaled) == 3
    steps = whole.training.batches_per_iteration
    ours, theirs = (schedule_of(run.curriculum, total_steps(run)).share for run in (whole, scaled))
    shares = [(ours(4 * at * steps), theirs(at * steps)) for at in range(5)]
    assert all(one == pytest.approx(other) for one, other in shares)
    assert scaled_run(whole, 20) == whole
    assert scaled_run(run_of(weighting="reciprocal_rank", m=2), 5).curriculum.m == 1
    assert scaled_run(run_of(weighting="reciprocal_rank", m="inf"), 5).curriculum.m == float("inf")


def test_the_end_of_a_curriculum_is_not_rounded_up_for_rounding() -> None:
    """.28 of 50 is 14.000000000000002 in floating point."""
    whole = TrainingRun.model_validate(
        {"curriculum": {"pacing": "linear", "T": 0.28}, "training": {"max_iterations": 50}}
    )
    assert curriculum_grace(whole) == 14


def test_a_scaled_training_ends_neither_before_its_budget_nor_without_a_first_stage() -> None:
    training = {"max_iterations": 20, "patience": 2}
    whole = TrainingRun.model_validate({"curriculum": {"switch": 2}, "training": training})
    assert [scaled_run(whole, budget).training.patience for budget in (5, 20)] == [5, 2]
    assert [scaled_run(whole, budget).curriculum.switch for budget in (2, 10, 20)] == [1, 1, 2]


def test_schedulers_by_name() -> None:
    experiment = load_experiment("quickstart", ["search.scheduler=asha"])
    scheduler = experiment.scheduler()
    assert isinstance(scheduler, Asha)
    assert scheduler.rungs == experiment.rungs == [1, 2, 4, 8]
    assert scheduler.eta == 2
    never = replace(experiment, search=experiment.search.model_copy(update={"scheduler": "none"})).scheduler()
    assert type(never) is Scheduler


def test_grace_of_a_choice() -> None:
    choice = {"curriculum.pacing": "linear", "curriculum.T": 0.4, "curriculum.weighting": "none"}
    assert load_experiment("quickstart", ["search.grace=curriculum"]).grace(choice) == 4
    assert load_experiment("quickstart", ["search.grace=none"]).grace(choice) == 1
    assert load_experiment("quickstart", ["search.grace=scaled"]).curriculum_end(choice) == 4


@pytest.mark.parametrize(("grace", "expected"), [("none", [1, 2, 4, 8]), (3, [3, 6]), ("curriculum", [1, 2, 4, 8])])
def test_rungs_of_an_experiment(grace: object, expected: list[int]) -> None:
    assert load_experiment("quickstart", [f"search.grace={grace}"]).rungs == expected


def test_the_first_rung_is_a_key() -> None:
    assert load_experiment("quickstart", ["search.first_rung=3"]).rungs == [3, 6]


NEED_RUNGS = ["search.grace=scaled", "search.promotion=true", "search.compare=paired"]


@pytest.mark.parametrize(
    ("scheduler", "key"),
    [(scheduler, key) for scheduler in ("none", "median", "model") for key in NEED_RUNGS
     if (scheduler, key) != ("model", "search.promotion=true")],
)  # fmt: skip
def test_keys_that_need_rungs_are_refused_without(scheduler: str, key: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_experiment("quickstart", [f"search.scheduler={scheduler}", "search.searcher=random", key])
    assert [problem.location for problem in error.value.problems] == [key.split("=")[0]]
