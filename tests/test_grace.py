"""When trials may be judged: a curriculum's end, rungs; and schedulers by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError
from tune_cl.experiment.load import load_experiment
from tune_cl.schedulers import Scheduler
from tune_cl.schedulers.asha import Asha
from tune_cl.schedulers.scheduler import curriculum_grace
from tune_cl.search.phases import new_scheduler, setup_of


def run_of(**curriculum: object) -> TrainingConfig:
    return TrainingConfig.model_validate({"curriculum": curriculum, "training": {"max_iterations": 20}})


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


def test_the_end_of_a_curriculum_is_not_rounded_up_for_rounding() -> None:
    """.28 of 50 is 14.000000000000002 in floating point."""
    whole = TrainingConfig.model_validate(
        {"curriculum": {"pacing": "linear", "T": 0.28}, "training": {"max_iterations": 50}}
    )
    assert curriculum_grace(whole) == 14


def test_schedulers_by_name() -> None:
    experiment = load_experiment("quickstart", ["search.scheduler=asha"])
    scheduler = new_scheduler(experiment)
    assert isinstance(scheduler, Asha)
    assert scheduler.rungs == setup_of(experiment).rungs == [1, 2, 4, 8]
    assert scheduler.eta == 2
    without = replace(experiment, search=experiment.search.model_copy(update={"scheduler": "none"}))
    never = new_scheduler(without)
    assert type(never) is Scheduler


def test_grace_of_a_choice() -> None:
    choice = {"curriculum.pacing": "linear", "curriculum.T": 0.4, "curriculum.weighting": "none"}
    assert load_experiment("quickstart", ["search.grace=curriculum"]).config(choice).grace == 4
    assert load_experiment("quickstart", ["search.grace=none"]).config(choice).grace == 1
    assert load_experiment("quickstart", ["search.grace=none"]).config(choice).curriculum_end == 4


@pytest.mark.parametrize(("grace", "expected"), [("none", [1, 2, 4, 8]), (3, [3, 6]), ("curriculum", [1, 2, 4, 8])])
def test_rungs_of_an_experiment(grace: object, expected: list[int]) -> None:
    assert setup_of(load_experiment("quickstart", [f"search.grace={grace}"])).rungs == expected


def test_the_first_rung_is_a_key() -> None:
    assert setup_of(load_experiment("quickstart", ["search.first_rung=3"])).rungs == [3, 6]


@pytest.mark.parametrize("scheduler", ["none"])
def test_promotion_is_refused_where_no_trial_pauses(scheduler: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_experiment(
            "quickstart", [f"search.scheduler={scheduler}", "search.searcher=random", "search.promotion=true"]
        )
    assert [problem.location for problem in error.value.problems] == ["search.promotion"]
