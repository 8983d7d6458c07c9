"""What `tune-cl check` forecasts where trials reserve GPUs, or where there are some that they do not reserve."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.test_device_memory import device_state
from tune_cl.cli import DONE, main
from tune_cl.commands.check import _at_a_time
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
