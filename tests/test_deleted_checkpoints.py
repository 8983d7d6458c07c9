"""Checkpoints of ended trials are let go of, and nothing that a search may still read is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.toy_search import SPACE, Crew, Killed, summary
from trainables.core import storage
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.history.state import SearchState, TrialState
from tune_cl.ray.tuner import CHECKPOINTS_PER_TRIAL, EndedTrials, last_checkpoints

WAYS = {
    "none": ["search.scheduler=none"],
    "asha": ["search.promotion=false"],
    "promotion": ["search.promotion=true"],
    "hyperband": ["search.scheduler=hyperband"],
    "freeze-thaw": ["search.scheduler=model"],
}


class Tidy(Crew):
    """Lets go of the checkpoints of ended trials at every step."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.ended_trials, self.most = EndedTrials(self.search), 0

    def tick(self) -> None:
        ended, self.search.ended_since = self.search.ended_since, []
        for name in self.ended_trials.unneeded(ended):
            assert self.search.state.trials[name].outcome
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.most = max(self.most, len(self.ended_trials.waiting))
        super().tick()


def toy(tmp_path: Path, *options: str) -> Experiment:
    path = tmp_path / "toy.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path), ["search.trials=16", *options])


def left(crew: Crew) -> list[str]:
    """Trials whose checkpoints are there."""
    return sorted(path.name for path in crew.folder.iterdir() if path.is_dir())


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_search_needs_none_of_the_checkpoints_that_are_let_go_of(
    tmp_path: Path, options: list[str], slots: int
) -> None:
    """The numbers are those of a search that keeps all; in the end the best trial's are there, and no others."""
    experiment = toy(tmp_path, *options)
    whole = Crew(tmp_path / "whole", experiment, slots).work()
    tidy = Tidy(tmp_path / "tidy", experiment, slots)
    tidy.work()
    tidy.tick()
    assert summary(tmp_path / "tidy") == summary(tmp_path / "whole")
    best = tidy.search.state.best()
    assert best and left(tidy) == [best[0].trial] and len(left(whole)) == 16
    assert tidy.most <= 1
    assert all(trial.artifacts for trial in tidy.search.state.by_number())


def test_some_trials_are_ranked_as_among_all(tmp_path: Path) -> None:
    state = Crew(tmp_path, toy(tmp_path)).work().search.state
    names = [trial.trial for trial in state.by_number()][::2]
    assert names
    assert state.ranked(names[::-1]) == [pair for pair in state.ranked() if pair[0].trial in names]


def test_a_search_that_is_killed_lets_go_of_what_the_sessions_before_left(tmp_path: Path) -> None:
    experiment = toy(tmp_path, *WAYS["promotion"])
    Crew(tmp_path / "whole", experiment).work()
    while True:
        try:
            tidy = Tidy(tmp_path / "tidy", experiment, kill_after=13).work()
            break
        except Killed:
            continue
    tidy.tick()
    assert summary(tmp_path / "tidy") == summary(tmp_path / "whole")
    best = tidy.search.state.best()
    assert best and left(tidy) == [best[0].trial]


def test_a_checkpoint_is_let_go_of_though_another_one_of_its_iteration_was_written() -> None:
    """A driver was killed between the last checkpoint of a trial and its end; so was the one after it."""
    root = "/runs/toy/ray"
    first = [storage.joined(root, "session-1", "t1-a", f"checkpoint_{number:06d}") for number in range(8)]
    again = storage.joined(root, "session-2", "t1-b", "checkpoint_000000")
    state = SearchState("toy", {}, "knrm", ["knrm"], "map", 1, "t0", "", 0.0)
    state.trials["t1"] = TrialState("t1", 1, {}, 1, False)
    for iteration, path in [*enumerate(first, 1), (8, again)]:
        state.apply({"event": "checkpoint", "trial": "t1", "iteration": iteration, "path": path, "time": 0.0})
    assert set(last_checkpoints(state.trials["t1"], root)) == {*first[-CHECKPOINTS_PER_TRIAL:], again}


@pytest.mark.parametrize("root", ["/runs/toy/ray", "s3://b/runs/toy/ray?endpoint_override=host:1&scheme=http"])
def test_only_checkpoints_of_the_search_itself_are_taken_from_a_journal(root: str) -> None:
    """A journal may be a copy, or written by others."""
    own = [storage.joined(root, "session-1", "t1-a", f"checkpoint_{number:06d}") for number in range(4)]
    again = storage.joined(root, "session-2", "t1-b", "checkpoint_000000")
    others = [
        "/",
        root,
        storage.joined(root, "session-1"),
        storage.joined(root, "..", "ray", "t1", "checkpoint_000000"),
        storage.joined(root.replace("/toy/", "/toy-2/"), "session-1", "t1-a", "checkpoint_000009"),
    ]
    trial = TrialState("t1", 1, {}, 1, False, checkpoints=dict(enumerate([*own, again, *others])))
    assert last_checkpoints(trial, root) == [*own[-CHECKPOINTS_PER_TRIAL:], again]
    assert last_checkpoints(trial, "/elsewhere") == []
