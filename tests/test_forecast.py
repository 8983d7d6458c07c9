"""How long a search will be, before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.journal_events import ARMS
from tests.support.toy_search import ToyTrainer, toy
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import Span, forecast_of, within_budgets
from tune_cl.history.events import Event
from tune_cl.history.state import SearchState, replay
from tune_cl.search.driver import BASELINE_TRIAL
from tune_cl.search.throughput import MEASURED, forecast_event
from tune_cl.space.space import Flat

pytestmark = pytest.mark.usefixtures("every_draw")

SPACE = """
ranker: conv_knrm
training: {lr: {loguniform: [1e-5, 1e-3]}, max_iterations: 9}
search: {searcher: random, scheduler: asha, trials: 21, reduction_factor: 3, grace: none}
"""


def forecast(tmp_path: Path, *options: str) -> dict[str, int]:
    return forecast_of(toy(tmp_path, *options, space=SPACE))


def test_others_than_the_baseline_stop_at_rungs(tmp_path: Path) -> None:
    assert forecast(tmp_path) == {
        "trials": 21,
        "iterations_at_most": 189,
        "iterations_expected": round(9 + 20 * (1 + 2 / 3 + 6 / 9)),
    }


def measured(experiment: Experiment, trials: list[tuple[Flat, float]]) -> SearchState:
    """A search whose trials (without choices: the baseline) have made the iterations that are measured."""
    names = {"name": "s", "data": {}, "ranker": "conv_knrm", "rankers": [], "metric": "map", "seed": 0, "yaml": ""}
    events: list[Event] = [{"event": "search", "baseline": "t0", "time": 0.0, **names, **ARMS}]
    for number, (chosen, seconds) in enumerate(trials):
        trial = {"trial": f"t{number}", "time": 1.0}
        told = {
            "number": number,
            "params": {},
            "chosen": chosen,
            "seed": 0,
            "baseline": not chosen,
            "arm": "curriculum" if chosen else "plain",
        }
        metrics = {"dev_map": 0.5, "seconds": seconds}
        events += [{"event": "trial"} | trial | told]
        events += [
            {"event": "result", "iteration": iteration, "metrics": metrics} | trial
            for iteration in range(1, min(MEASURED, experiment.max_iterations) + 1)
        ]
    return replay(events)


def first_of(experiment: Experiment, trials: list[tuple[Flat, float]], concurrent: int) -> Event:
    """What the first trial's measured iteration forecasts."""
    told = forecast_event(experiment, measured(experiment, trials), "t0", concurrent)
    assert told is not None
    return told


def test_slots_shorten_the_time_and_not_what_is_used(tmp_path: Path) -> None:
    resources = "search.resources={cpu: 2, gpu: 0.5}"
    experiment = toy(tmp_path, resources, "training.max_iterations=1", space=SPACE)
    told = first_of(experiment, [({}, 36.0)], concurrent=4)
    hours = forecast_of(experiment)["iterations_expected"] / 100
    assert told["hours_forecast"] == pytest.approx(hours / 4)
    assert (told["cpu_hours_forecast"], told["gpu_hours_forecast"]) == pytest.approx((2 * hours, hours / 2))


def test_without_a_scheduler_every_trial_makes_all_iterations(tmp_path: Path) -> None:
    told = forecast(tmp_path, "search.scheduler=none")
    assert told["iterations_expected"] == told["iterations_at_most"] == 189


@pytest.mark.parametrize("scheduler", ["none", "asha", "hyperband", "median", "model"])
@pytest.mark.parametrize("iterations", [1, 2, 9])
def test_never_more_than_at_most(tmp_path: Path, scheduler: str, iterations: int) -> None:
    for options in (["search.trials=2"], [], ["search.trials=60"]):
        told = forecast(
            tmp_path,
            f"search.scheduler={scheduler}",
            f"training.max_iterations={iterations}",
            *options,
        )
        assert told["trials"] <= told["iterations_expected"] <= told["iterations_at_most"]


# -- budgets -------------------------------------------------------------------------------------------------------


class LateBaseline(ToyTrainer):
    """The baseline is so slow that it trains only when nothing else does: the worst case for a budget."""

    def work(self) -> ToyTrainer:
        while True:
            self.ask()
            if not self.running:
                self.journal.close()
                return self
            for trial in [trial for trial in self.running if trial != BASELINE_TRIAL] or list(self.running):
                if not next(self.running[trial], False):
                    del self.running[trial]


@pytest.mark.parametrize(
    ("concurrent", "budget", "most"),
    [(1, 4, 9), (1, 30, 30), (1, 400, 90), (2, 8, 8 + 9), (3, 8, 8 + 9 + 1), (3, 1, 1 + 9 + 1), (4, 88, 90)],
)
def test_a_budget_of_iterations_bounds_them_by_what_it_cannot_stop(
    concurrent: int, budget: int, most: int, tmp_path: Path
) -> None:
    experiment = toy(tmp_path, f"search.iterations={budget}", "search.scheduler=none")
    told = forecast_of(experiment, concurrent)
    made = LateBaseline(tmp_path / "a", experiment, concurrent).work().search.state.iterations
    assert made == told["iterations_at_most"] == most
    assert told["iterations_expected"] == min(90, max(9, budget))


@pytest.mark.parametrize("scheduler", ["asha", "hyperband", "median", "model"])
def test_no_scheduler_passes_the_bound(scheduler: str, tmp_path: Path) -> None:
    for budget in (5, 13, 30):
        ways = ["search.searcher=random", f"search.scheduler={scheduler}", f"search.iterations={budget}"]
        experiment = toy(tmp_path, *ways, "search.max_concurrent=3")
        most = forecast_of(experiment)["iterations_at_most"]
        for trainer in (ToyTrainer, LateBaseline):
            made = trainer(tmp_path / f"{budget} {trainer.__name__}", experiment, 3).work().search.state.iterations
            assert made <= most == budget + 9 + 1


@pytest.mark.parametrize(
    ("options", "concurrent", "hours", "training", "ends"),
    [
        ([], 2, 10, 20, None),
        (["search.hours=4"], 2, 4, 8, "search.hours"),
        (["search.hours=10"], 2, 10, 20, None),
        (["search.hours=0.5"], 2, 2, 0.5 * 2 + 1.5, "search.hours"),  # the baseline goes on alone, to hour 2
        (["search.hours=1"], 1, 2, 2, "search.hours"),
    ],
)
def test_hours_cut_the_forecast(
    options: list[str], concurrent: int, hours: float, training: float, ends: str | None, tmp_path: Path
) -> None:
    cut = within_budgets(toy(tmp_path, *options).search, training=20, baseline=2, concurrent=concurrent)
    assert cut == Span(hours, training, ends)


@pytest.mark.parametrize("concurrent", [1, 2, 3, 16])
def test_places_that_no_trial_fills_save_no_time(concurrent: int, tmp_path: Path) -> None:
    experiment = toy(tmp_path, "search.scheduler=none", "search.trials=3")
    told = first_of(experiment, [({}, 400.0)], concurrent)
    assert told["hours_forecast"] == pytest.approx(max(3 / concurrent, 1)) and told["cpu_hours_forecast"] == 3
    short = toy(tmp_path, "search.scheduler=none", "search.trials=3", "search.hours=0.5")
    assert first_of(short, [({}, 400.0)], 16)["hours_forecast"] == 1, "the baseline goes on"


def test_what_the_baseline_forecasts_heeds_the_budgets(tmp_path: Path) -> None:
    options = ["search.hours=0.5", "search.scheduler=none"]
    told = first_of(toy(tmp_path, *options), [({}, 100.0)], concurrent=2)
    assert told["hours_forecast"] == 0.5 and told["cpu_hours_forecast"] == 1.0
    whole = toy(tmp_path)
    assert told["iterations_expected"] == 36 < forecast_of(whole)["iterations_expected"]
    assert (
        first_of(whole, [({}, 100.0)], concurrent=2)["iterations_expected"] == forecast_of(whole)["iterations_expected"]
    )


def test_the_search_forecasts_once_by_the_pace_of_its_default(tmp_path: Path) -> None:
    experiment = toy(tmp_path)
    state = measured(experiment, [({}, 1.0), ({"curriculum.delta": 0.5}, 9.0)])
    assert forecast_event(experiment, state, "t1", 1) is None
    told = forecast_event(experiment, state, "t0", 1)
    assert told is not None and told["hours_forecast"] * 3600 == forecast_of(experiment)["iterations_expected"]


@pytest.mark.parametrize("scheduler", ["asha", "hyperband", "median", "model"])
@pytest.mark.parametrize("promotion", ["true", "false"])
def test_no_trial_is_judged_before_the_iteration_that_grace_names(
    scheduler: str, promotion: str, tmp_path: Path
) -> None:
    for grace, ended in ((6, True), (9, False)):
        ways = [f"search.scheduler={scheduler}", f"search.grace={grace}"]
        ways += [f"search.promotion={promotion}"] if scheduler != "median" else []
        trainer = ToyTrainer(tmp_path / str(grace), toy(tmp_path, *ways, "search.trials=16")).work()
        lengths = [trial.iterations for trial in trainer.search.state.by_number()]
        assert min(lengths) >= grace and (min(lengths) < 9) == ended
