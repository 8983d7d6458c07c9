"""How long a search will be, before it starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tune_cl.experiment import load_experiment
from tune_cl.search.forecast import GOES_ON, forecast_event

SPACE = """
ranker: conv_knrm
training: {lr: {loguniform: [1e-5, 1e-3]}, max_iterations: 9}
search: {searcher: random, scheduler: asha, trials: 21, reduction_factor: 3, grace: none}
"""


def forecast(tmp_path: Path, *options: str) -> dict[str, int]:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path), options).forecast()


def test_repeats_run_to_their_end_where_others_stop_at_rungs(tmp_path: Path) -> None:
    a_trial, to_the_end = 1 + 2 / 3 + 6 / 9, 1 / 9
    assert forecast(tmp_path) == {
        "trials": 21,
        "iterations_at_most": 189,
        "iterations_expected": round(9 + 20 * a_trial),
    }
    again = to_the_end * (GOES_ON + GOES_ON**2)
    tried = 18 / (1 + again)
    told = forecast(tmp_path, "search.repeats=3")
    assert told["repeats_expected"] == round(2 + tried * again) == 4
    assert told["iterations_expected"] == round(3 * 9 + tried * (a_trial + 9 * again))


def test_slots_shorten_the_time_and_not_what_is_used(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    experiment = load_experiment(str(path), ["search.resources={cpu: 2, gpu: 0.5}", "training.max_iterations=1"])
    state: Any = SimpleNamespace(baseline_trial=lambda: SimpleNamespace(results={1: {"seconds": 36.0}}), forecast={})
    told = forecast_event(experiment, state, slots=4)
    assert told is not None
    hours = experiment.forecast()["iterations_expected"] / 100
    assert told["hours_forecast"] == pytest.approx(hours / 4)
    assert (told["cpu_hours_forecast"], told["gpu_hours_forecast"]) == pytest.approx((2 * hours, hours / 2))


def test_without_a_scheduler_repeats_take_places_and_no_more_iterations(tmp_path: Path) -> None:
    told = forecast(tmp_path, "search.scheduler=none", "search.repeats=2")
    assert told["iterations_expected"] == told["iterations_at_most"] == 189
    assert told["repeats_expected"] == round(1 + 19 * GOES_ON / (1 + GOES_ON))


def test_a_finite_space_is_used_up_before_every_configuration_has_all_seeds() -> None:
    told = load_experiment("penha2020_pacing", ["search.repeats=2"]).forecast()
    assert told["trials"] == 2 * 9 and told["repeats_expected"] == round(1 + 8 * GOES_ON)
    assert told["iterations_expected"] == round(16 * (2 + 8 * (1 + GOES_ON)))


@pytest.mark.parametrize("scheduler", ["none", "asha", "hyperband", "median", "model"])
@pytest.mark.parametrize("iterations", [1, 2, 9])
def test_never_more_than_at_most(tmp_path: Path, scheduler: str, iterations: int) -> None:
    for options in (["search.trials=2"], [], ["search.trials=60"]):
        told = forecast(
            tmp_path,
            f"search.scheduler={scheduler}",
            f"training.max_iterations={iterations}",
            "search.repeats=5",
            *options,
        )
        assert told["trials"] <= told["iterations_expected"] <= told["iterations_at_most"]
        assert 1 <= told["repeats_expected"] < told["trials"]
