"""The device that a trial reserved, and its memory that it took, by which users choose `search.resources.gpu`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.builders import tiny_data
from tests.test_search import Crew, experiment
from trainables.errors import WorkFailed
from trainables.ranker_trainable import RankerTrainable, device_memory
from trainables.training.device import take
from trainables.training.materials import NO_TEXTS, Materials
from tune_cl.confirmation.tasks import task
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


def test_a_gpu_that_pytorch_does_not_see_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a training on the CPU, in the trial and in the confirmation."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = r"the trial reserved a GPU, but PyTorch \S+ sees none on \S+: install .* search\.resources\.gpu=0"
    with pytest.raises(WorkFailed, match=message):
        RankerTrainable({"run": {}, "threads": torch.get_num_threads(), "gpu": True})
    why = task({}, Materials(tiny_data(), NO_TEXTS), "", "test", torch.get_num_threads(), gpu=True)
    assert re.fullmatch(message, str(why))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    take(torch.get_num_threads(), gpu=True)


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
