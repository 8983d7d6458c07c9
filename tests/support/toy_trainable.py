"""Searches on real Ray whose trainings cost nothing and break on demand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.journal_events import search_event
from tests.support.toys import BALLAST, Toy, steps_of
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState
from tune_cl.ray import tuner as ray_tune
from tune_cl.search.driver import SearchDriver

__all__ = ["BALLAST", "steps_of", "toy_search"]
SPACE = """
data: docstrings
ranker: conv_knrm
curriculum: {pacing: linear, delta: {uniform: [0.1, 0.9]}}
training: {max_iterations: 6}
search: {searcher: random, trials: 7}
"""


def toy_search(
    experiment: Experiment,
    folder: Path,
    places: Callable[[], int],
    prepared: dict[str, Any],
    watch: Callable[[SearchState], None] = lambda state: None,
    toy: type[Toy] = Toy,
) -> SearchState:
    """Runs a search of toys in the Ray that this process is connected to."""
    made = {"folder": str(folder), "seconds": 0.0, "faults": {}, "storage": str(folder / "ray")} | prepared
    with Journal(folder) as journal, pytest.MonkeyPatch.context() as patch:
        if not journal.path.stat().st_size:
            journal.append(search_event(experiment, folder.parent, folder.name, time=time.time()))
        patch.setattr(ray_tune, "RankerTrainable", toy)
        search = SearchDriver(experiment, journal, places(), lambda trial, checkpoint, run: folder / trial, watch)
        resources = experiment.search.resources
        ray_tune.run_trials(search, made, resources, made["storage"], "session-1", places)
        return search.state
