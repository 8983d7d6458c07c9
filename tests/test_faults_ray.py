"""Faults on real Ray, counted exactly: processes that die, full disks, nodes that cannot run trials."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.support.toy_trainable import BALLAST, SPACE, steps_of, toy_search
from trainables.core.errors import WorkFailed
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import FILE, Event, Journal, read_events
from tune_cl.history.search_folder import stops
from tune_cl.history.state import TrialState, replay
from tune_cl.ray import nodes as nodes_module
from tune_cl.ray import tuner as ray_tune
from tune_cl.ray.nodes import NodeCheck
from tune_cl.search.driver import SearchDriver

pytestmark = pytest.mark.slow


def experiment_of(folder: Path, *options: str) -> Experiment:
    (folder / "toy.yaml").write_text(SPACE)
    return load_experiment(str(folder / "toy.yaml"), options)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return experiment_of(tmp_path, "search.trials=4")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_ends_the_search_and_no_trial(
    local_ray: str, experiment: Experiment, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial whose process is killed is retried by Ray in the same session."""
    folder, faults = tmp_path / "search", {"t0001": "full", "t0003": "killed"}
    monkeypatch.setattr(ray_tune, "RETRIES", 1)
    made = {"faults": faults, "storage": str(small_disk)}
    with pytest.raises(WorkFailed, match=r"^t0001: .*No space left on device") as ended:
        toy_search(experiment, folder, lambda: 1, made)
    assert stops(ended.value)
    state = replay(read_events(folder / FILE))
    assert [trial.outcome for trial in state.by_number()] == ["baseline", None]
    (small_disk / BALLAST).unlink()
    state = toy_search(experiment, folder, lambda: 1, made)
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 3]
    assert steps_of(folder, "t0001") == steps_of(folder, "t0003") == [1, 2, 3, 3, 4, 5, 6]
    best = state.best()
    assert best
    for trial in state.by_number():
        assert sorted(trial.results) == [1, 2, 3, 4, 5, 6]
        kept = [iteration for iteration, path in sorted(trial.checkpoints.items()) if Path(path).is_dir()]
        is_kept = trial.trial in (best[0].trial, best[0].twin)
        assert kept[-2:] == ([5, 6] if is_kept else []), "and the one that a session begins with"


def refusing(patch: pytest.MonkeyPatch, kind: str, of: str) -> None:
    """Has a full disk refuse an event of a trial, or `files`, those that its end names."""
    append = Journal.append

    def full(journal: Journal, event: Event) -> None:
        if event["event"] == kind and event["trial"] == of and event.get("iteration", 2) == 2:
            raise OSError(errno.ENOSPC, "the disk is full")
        append(journal, event)

    def write(search: SearchDriver, trial: TrialState, _: object) -> str:
        raise OSError(errno.ENOSPC, f"no space for the files of {trial.trial}")

    patch.setattr(*((SearchDriver, "from_sound_checkpoint", write) if kind == "files" else (Journal, "append", full)))


def test_an_event_that_cannot_be_taken_in_ends_the_search_and_a_resumed_one_has_it(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would count the error as a failure of the trial, log it or quote it in another error, and go on. Nor
    is a trial lost whose reused process dies before it begins."""
    experiment = experiment_of(tmp_path, "search.trials=4", "training.max_iterations=3")
    folder, made = tmp_path / "search", {"faults": {"t0002": "killed between", "t0003": "raises"}}
    monkeypatch.setattr(ray_tune, "RETRIES", 1)
    for kind, of in {"files": "t0000", "checkpoint": "t0001", "end": "t0003"}.items():
        with monkeypatch.context() as patch, pytest.raises(OSError, match=r"(the disk is full|of t0000)$"):
            refusing(patch, kind, of)
            toy_search(experiment, folder, lambda: 1, made)
        state = replay(read_events(folder / FILE))
        ends = ["baseline", "completed", "completed"]
        assert [trial.outcome for trial in state.by_number()] == [*ends[: int(of[-1])], None], kind
    state = toy_search(experiment, folder, lambda: 1, made)
    assert [trial.outcome for trial in state.by_number()] == [*ends, "failed"]
    told = [(event["trial"], event["iteration"]) for event in read_events(folder / FILE) if event["event"] == "result"]
    assert sorted(told) == [(f"t{number:04d}", iteration) for number in range(3) for iteration in (1, 2, 3)]
    assert steps_of(folder, "t0000") == steps_of(folder, "t0002") == [1, 2, 3]


def answered(check: NodeCheck) -> None:
    """Asks the nodes until all have answered."""
    while not check.asked or any(answer is not None for answer in check.asked.values()):
        check(ray.nodes())
        time.sleep(0.05)


def test_a_node_that_cannot_run_trials_ends_the_search_with_the_reason(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait for ever."""
    said: list[str] = []
    answered(NodeCheck(said.append))
    assert said == []
    check = NodeCheck(said.append)
    check.here["torch"] = "0.1"
    answered(check)
    assert len(said) == 1 and "torch" in said[0] and "(0.1 here)" in said[0]
    # A module that the node lacks.
    (tmp_path / "only_here.py").write_text("def versions_and_problem(packages): return {}, None")
    monkeypatch.syspath_prepend(tmp_path)
    only_here = importlib.import_module("only_here")
    monkeypatch.setattr(nodes_module, "versions_and_problem", only_here.versions_and_problem)
    with pytest.raises(WorkFailed, match="No module named 'only_here'; install tune-cl there"):
        answered(NodeCheck(said.append))


def test_a_local_ray_refuses_those_without_its_token(local_ray: str, tmp_path: Path) -> None:
    """Ray on Linux listens on every interface; the token keeps others out. `ray.init` would retry for 20 seconds."""
    program = "import sys; from ray._raylet import GcsClient; print(len(GcsClient(sys.argv[1]).get_all_node_info()))"
    stranger = os.environ | {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 32}
    refused, answered = (
        subprocess.run(
            [sys.executable, "-c", program, local_ray], env=environment, capture_output=True, text=True, check=False
        )
        for environment in (stranger, os.environ)
    )
    assert refused.returncode != 0 and "AuthenticationError" in refused.stderr, refused.stderr
    assert answered.stdout == "1\n", answered.stderr
