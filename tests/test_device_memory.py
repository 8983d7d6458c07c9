"""The memory of the device that a trial took, by which users choose `search.resources.gpu`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.test_search import Crew, experiment
from trainables.ranker_trainable import device_memory
from tune_cl.experiment import Experiment
from tune_cl.journal import read_events
from tune_cl.search.search import REPORTED

__all__ = ["experiment"]  # a fixture


def test_the_peak_is_told_where_there_is_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_memory() == {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**20)
    assert device_memory() == {"device_memory_mib": 3.0}


def test_it_is_a_metric_of_the_trial(experiment: Experiment, tmp_path: Path) -> None:
    crew = Crew(tmp_path, experiment)
    crew.search.next_trial()
    metrics = dict.fromkeys(REPORTED, 1.0) | {"dev_map": 0.5, "time_this_iter_s": 2.0}
    crew.search.result("t0000", metrics | {"iteration": 1})
    crew.search.result("t0000", metrics | {"iteration": 2, "device_memory_mib": 812})
    crew.journal.close()
    first, second = [event["metrics"] for event in read_events(crew.journal.path) if event["event"] == "result"]
    assert set(first) == {"dev_map", *REPORTED}
    assert second == first | {"device_memory_mib": 812.0}
