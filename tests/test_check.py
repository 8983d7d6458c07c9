"""What `tune-cl check` forecasts where trials reserve GPUs, or where there are some that they do not reserve."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.test_device_memory import device_state
from tune_cl.cli import DONE, main
from tune_cl.commands.check import _at_a_time, _in_short, _scheduler, _threads, _time, _told
from tune_cl.experiment import load_experiment
from tune_cl.search import places
from tune_cl.search.config import Resources, SearchConfig

__all__ = ["device_state"]  # a fixture


@pytest.mark.parametrize(
    ("cpu", "gpu", "most", "expected"),
    [
        (1, 0, None, 8), (3, 0, None, 2), (1, 0, 3, 3), (1, 0, 30, 8),
        (1, 1, None, 2), (1, 0.4, None, 4), (4, 0.25, None, 2), (0, 0.5, None, 4), (1, 1, 1, 1),
        (1, 3, None, 1), (16, 0, None, 1),  # more than there is: what `run` would refuse
    ],
)  # fmt: skip
def test_trials_at_a_time_are_as_many_as_both_kinds_of_places_hold(
    cpu: float, gpu: float, most: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(places.torch.cuda, "device_count", lambda: 2)
    search = SearchConfig(resources=Resources(cpu=cpu, gpu=gpu), max_concurrent=most)
    assert _at_a_time(search) == expected


def test_a_step_is_measured_where_trials_train(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        "trainables.training.forecast.seconds_per_iteration",
        lambda run, materials, threads, device: seen.append(device) or 3600.0,
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(places, "this_machine", lambda: {"CPU": 8, "GPU": 2})
    told, hours = [], []
    for gpu in (0, 0.5):
        assert main(["check", "quickstart", "--set", f"search.resources.gpu={gpu}", "--json"]) == DONE
        shown = capfd.readouterr()
        told.append(shown.err)
        hours.append(json.loads(shown.out)["hours_forecast"])
    assert seen == ["cpu", "cuda"] and hours[1] == pytest.approx(2 * hours[0]), "8 trials at a time, and 4"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["check", "quickstart", "--set", "search.resources.gpu=1", "--json"]) == DONE
    note = "note: a trial reserves a GPU, but this machine has none: a step is measured on its CPU\n"
    assert seen[2] == "cpu" and capfd.readouterr().err == note and note not in told


@pytest.mark.parametrize(
    ("changed", "judged", "rungs"),
    [
        (["search.scheduler=none"], None, []),
        (["search.scheduler=pbt", "search.searcher=random", "search.interval=3"], "every 3 iterations", []),
        (["search.scheduler=model", "search.promotion=true"], "after every iteration, inside its curriculum too", []),
        (["search.scheduler=asha"], "not before its own curriculum is over", [1, 2, 4, 8]),
        (["search.scheduler=asha", "search.grace=none"], "whether or not its curriculum is over", [1, 2, 4, 8]),
        (["search.scheduler=asha", "search.grace=5"], "not before iteration 5", [5]),
        (["search.grace=scaled"], "after a training planned for its rung, curriculum included", [1, 2, 4, 8]),
    ],
)
def test_check_says_when_a_trial_is_judged(changed: list[str], judged: str | None, rungs: list[int]) -> None:
    told = _in_short(load_experiment("quickstart", changed))
    assert (told["judged"], told["rungs"]) == (judged, rungs)
    assert (f"a trial is judged {judged}" in _scheduler(told)) == (judged is not None)


@pytest.mark.parametrize(
    ("hours", "told"),
    [(2.0, "about 2.0 hours"), (1.99, "about 119 min"), (2 / 60, "about 2 min"), (119 / 3600, "about 119 s")],
)
def test_times_are_told_in_a_unit_of_their_size(hours: float, told: str) -> None:
    assert _time(hours) == told


def test_a_trial_has_the_threads_of_its_cores_as_far_as_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places.os, "cpu_count", lambda: 8)
    assert [_threads(cpu) for cpu in (0, 0.5, 1, 2.9, 8, 64)] == [1, 1, 1, 2, 8, 8]


def test_what_comes_before_the_first_trial_counts_for_time_and_gpus(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """10 s an iteration, two trials at a time on half a GPU each, and pre-training before them, one after the other."""
    monkeypatch.setattr(
        "trainables.training.forecast.seconds_per_iteration", lambda run, materials, threads, device: 10.0
    )
    monkeypatch.setattr("tune_cl.commands.check._at_a_time", lambda search: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    changed = ["search.resources.gpu=0.5", "training.pretrain_data=docstrings", "training.pretrain_iterations=7"]
    arguments = [part for override in changed for part in ("--set", override)]
    assert main(["check", "quickstart", *arguments, "--json"]) == DONE
    found = json.loads(capfd.readouterr().out)
    assert found["pretraining_iterations"] == 7
    searched = found["iterations_expected"] * 10 / 3600
    assert found["hours_forecast"] == pytest.approx(70 / 3600 + searched / 2)
    assert found["gpu_hours_forecast"] == pytest.approx(0.5 * (70 / 3600 + searched))
    told = _told(found)
    assert told["trials"] == "10, the baseline included, of at most 10 iterations"
    assert told["pre-training"] == "at most 7 iterations before the first trial" and told["GPU"].endswith(" hours")
    assert told["iterations"] == f"100 at most, about {found['iterations_expected']} expected"
    assert _told(found | {"iterations_expected": 100})["iterations"] == "100 at most"
