"""Faults on real Ray, counted exactly: processes that die, trials that cannot start, nodes that come and go."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from tests.support.builders import tiny_data
from tests.support.toy_trainable import BALLAST, steps_of, toy_search
from tests.support.toys_behind import Behind
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import DataError, Problem, WorkFailed
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.journal import FILE, Event, Journal, read_events
from tune_cl.history.search_folder import stops
from tune_cl.history.state import SearchState, TrialState, replay
from tune_cl.ray import nodes as nodes_module
from tune_cl.ray import shared_materials as elsewhere
from tune_cl.ray import slots as places_module
from tune_cl.ray import tuner as ray_tune
from tune_cl.ray.nodes import NodeCheck
from tune_cl.ray.session import ray_session
from tune_cl.ray.shared_materials import completed, on_cluster, untrained
from tune_cl.ray.slots import Slots
from tune_cl.search.driver import Search

pytestmark = pytest.mark.slow

SPACE = """
data: docstrings
ranker: conv_knrm
curriculum: {pacing: linear, delta: {uniform: [0.1, 0.9]}}
training: {max_iterations: 6}
search: {searcher: random, trials: 7}
"""
FAULTS = {"t0001": "killed", "t0002": "raises", "t0003": "nan"}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    path = tmp_path / "toy.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without trial slots and a worker."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1)
    try:
        yield made
    finally:
        made.shutdown()


def test_trials_go_on_where_processes_and_nodes_die(
    cluster: Cluster, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second node comes while the search runs and gets a trial; the first is lost later."""
    monkeypatch.setattr(places_module, "READ_SECONDS", 0.5)  # so that the new node is seen well before the end
    first = next(node for node in cluster.worker_nodes)
    folder, at_once, lost = tmp_path / "search", [], []

    def watch(state: SearchState) -> None:
        at_once.append(len(state.open_trials()))
        if state.iterations == 2 and len(cluster.worker_nodes) == 1 and not lost:
            cluster.add_node(num_cpus=1)
        if max(at_once) == 2 and state.iterations >= 20 and not lost:
            lost.append(first)
            cluster.remove_node(first, allow_graceful=False)

    with ray_session(cluster.address):
        places = Slots(experiment.search.resources, experiment.search.max_concurrent, cluster=True)
        assert places() == 1
        state = toy_search(experiment, folder, places, {"seconds": 0.1, "faults": FAULTS}, watch)
    assert lost and max(at_once) == 2
    outcomes = {trial.trial: trial.outcome for trial in state.by_number()}
    assert outcomes == {"t0000": "baseline"} | {
        f"t000{n}": "failed" if n in (2, 3) else "completed" for n in range(1, 7)
    }, "\n".join(f"{trial.trial}: {trial.reason}" for trial in state.by_number())
    for trial in state.by_number():
        expected = {"t0002": [], "t0003": [1]}.get(trial.trial, [1, 2, 3, 4, 5, 6])
        assert sorted(trial.results) == expected, trial.trial
    assert steps_of(folder, "t0001") == [1, 2, 3, 3, 4, 5, 6]  # the lost step was made again, and no other
    assert "there is no such model" in str(state.trials["t0002"].reason)
    assert state.trials["t0003"].reason == "the training loss became nan"
    repeated = sum(len(steps_of(folder, trial)) for trial in outcomes if trial not in FAULTS) - 4 * 6
    assert 0 <= repeated <= 2  # by the only trial on the lost node


def test_trials_share_the_gpus_of_a_node(cluster: Cluster, experiment: Experiment, tmp_path: Path) -> None:
    """Ray's own count of GPUs: no real ones are needed. The node has two, and a trial takes half of one."""
    cluster.add_node(num_cpus=4, num_gpus=2)
    resources, folder, at_once = Resources(cpu=1, gpu=0.5), tmp_path / "search", []
    experiment = replace(experiment, search=experiment.search.model_copy(update={"resources": resources}))
    with ray_session(cluster.address):
        state = toy_search(
            experiment,
            folder,
            Slots(resources, None, cluster=True),
            {"seconds": 0.3},
            lambda state: at_once.append(len(state.open_trials())),
        )
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 6]
    assert max(at_once) == 4
    assert sorted(file.read_text() for file in folder.glob("*.gpus")) == ["0", "0", "1", "1"]


TAUGHT = """
data: FOLDER
ranker: {name: knrm, vector_size: 8}
curriculum: {pacing: linear, scoring: {choice: [model_loss, turns]}}
training: {max_iterations: 1, batches_per_iteration: 1, batch_size: 4, pretrain_data: OTHER, pretrain_iterations: 1}
search: {trials: 2, resources: {cpu: 2}}
"""


def test_what_trials_share_is_trained_where_they_are(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The head, with the driver, trains neither teacher nor pre-training; nodes have neither files nor the cache."""
    folders = (("FOLDER", 5), ("OTHER", 6))
    space = TAUGHT
    for name, queries in folders:
        data = tiny_data(queries=queries, candidates=4, turns=1)
        space = space.replace(name, str(write_trec_folder(data, tmp_path / name)))
    (tmp_path / "toy.yaml").write_text(space)
    experiment = load_experiment(str(tmp_path / "toy.yaml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    cluster.add_node(num_cpus=2)  # the other node has room for one trial
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    known = untrained(experiment)
    [made] = completed(experiment, known, cluster.address).values()
    assert made.teacher is not None and made.start
    told = "scores of teacher: computed on the cluster, which all trials wait for"
    assert capfd.readouterr().err.splitlines().count(told) == 1
    trained = {
        name: sorted(path.name for path in (tmp_path / name / "tune_cl").iterdir()) for name in ("node", "driver")
    }
    assert {"teacher", "pretrained"} <= set(trained["node"]) and "teacher" not in trained["driver"]
    assert {"teacher-scores", "pretrained"} <= set(trained["driver"])
    [again] = completed(experiment, known, "10.0.0.7:6379").values()  # nobody is there: the cache has it all
    assert np.array_equal(again.teacher, made.teacher)
    [here] = completed(experiment, known).values()
    assert here.teacher is not None


def test_an_error_of_a_computation_on_the_cluster_is_the_user_s(cluster: Cluster) -> None:
    compute = on_cluster(cluster.address, Resources(cpu=1))
    with pytest.raises(DataError, match=r"error: x\.txt:3: is no number; a number"):
        compute(refuse)
    with pytest.raises(WorkFailed, match=r"break down: .*ZeroDivisionError"):
        compute(break_down)
    with pytest.raises(WorkFailed, match=r"die: "):
        compute(die)


def test_what_no_node_holds_waits_for_one_and_says_so(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher that needs two CPUs; the worker has one, until the note is seen."""
    said: list[str] = []

    def add_node(line: str) -> None:
        if not line.startswith("note:"):  # what is computed
            return
        said.append(line)
        added.append(cluster.add_node(num_cpus=2))

    added: list[Any] = []
    monkeypatch.setattr(places_module, "READ_SECONDS", 0.5)
    monkeypatch.setattr(elsewhere, "say", add_node)
    resources = Resources(cpu=2)
    assert on_cluster(cluster.address, resources)(os.getpid) != os.getpid()
    cluster.remove_node(added[0])
    assert said == ["note: waiting for a node that holds a trial (2 CPU): none of the cluster does"]


def refuse() -> None:
    raise DataError(Problem("x.txt:3", "is no number", "a number"))


def die() -> None:
    os._exit(3)


def break_down() -> float:
    return 1 / 0


@pytest.fixture(scope="module")
def local_ray() -> Iterator[str]:
    """The address of a Ray on this machine. For tests after those of the cluster: a process has one Ray at a time."""
    with ray_session(None):
        yield ray.get_runtime_context().gcs_address


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
    """One trial has space again when it is retried; another has none until the search ends. A third is killed, as for
    want of memory, once more than it may be retried."""
    folder, faults = tmp_path / "search", {"t0001": "full", "t0002": "stays full", "t0003": "killed twice"}
    monkeypatch.setattr(ray_tune, "RETRIES", 1)
    made = {"faults": faults, "storage": str(small_disk)}
    with pytest.raises(WorkFailed, match=r"^t0002: .*No space left on device") as ended:
        toy_search(experiment, folder, lambda: 1, made)
    assert stops(ended.value)
    state = replay(read_events(folder / FILE))
    assert [trial.outcome for trial in state.by_number()] == ["baseline", "completed", None]
    (small_disk / BALLAST).unlink()
    state = toy_search(experiment, folder, lambda: 1, made | {"faults": faults | {"t0002": ""}})
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 6]
    assert steps_of(folder, "t0001") == [1, 2, 3, 3, 4, 5, 6]
    assert steps_of(folder, "t0002") == [1, 2, 3, 3, 3, 4, 5, 6]
    assert steps_of(folder, "t0003") == [1, 2, 3, 3, 3, 4, 5, 6]
    notes = [event["text"] for event in read_events(folder / FILE) if event["event"] == "note"]
    assert len(notes) == 1 and "tried once more, alone" in notes[0]
    assert (best := state.best())
    for trial in state.by_number():
        assert sorted(trial.results) == [1, 2, 3, 4, 5, 6]
        kept = [iteration for iteration, path in sorted(trial.checkpoints.items()) if Path(path).is_dir()]
        assert kept == ([5, 6] if trial is best[0] else [])


def test_a_trial_whose_reused_process_dies_before_it_begins_is_retried(
    local_ray: str, experiment: Experiment, tmp_path: Path
) -> None:
    state = toy_search(experiment, tmp_path / "search", lambda: 1, {"faults": {"t0002": "killed between"}})
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 6], state.trials["t0002"]
    assert steps_of(tmp_path / "search", "t0002") == [1, 2, 3, 4, 5, 6]


def test_a_trial_that_dies_while_its_checkpoint_is_written_goes_on_from_the_one_before(
    local_ray: str, experiment: Experiment, tmp_path: Path
) -> None:
    materials = {"seconds": 0.1, "faults": {"t0001": "killed"}}
    state = toy_search(experiment, tmp_path / "search", lambda: 1, materials, toy=Behind)
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 6]
    assert steps_of(tmp_path / "search", "t0001") == [1, 2, 3, 2, 3, 4, 5, 6]
    assert (best := state.best())
    for trial in state.by_number():
        assert sorted(trial.results) == [1, 2, 3, 4, 5, 6]
        assert {1, 6} < set(trial.checkpoints), "none was written while the trial went on"
        there = {at: Path(path) for at, path in trial.checkpoints.items() if Path(path).is_dir()}
        assert {at: json.loads((path / "done.json").read_text()) for at, path in there.items()} == {
            at: at for at in there
        }
        assert len(there) == (2 if trial is best[0] else 0) and (6 in there or trial is not best[0])


@pytest.mark.parametrize("what", ["result", "checkpoint", "end", "end of a failed one", "files"])
def test_an_event_that_cannot_be_taken_in_ends_the_search_and_a_resumed_one_has_it(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Ray itself would count the error as a failure of the trial, log it or quote it in another error, and go on."""
    (tmp_path / "toy.yaml").write_text(SPACE)
    experiment = load_experiment(str(tmp_path / "toy.yaml"), ["search.trials=3", "training.max_iterations=3"])
    folder, faults = tmp_path / "search", {"t0001": "raises"} if "failed" in what else {}
    monkeypatch.setattr(ray_tune, "RETRIES", 1)
    append = Journal.append

    def full(journal: Journal, event: Event) -> None:
        if event["event"] == what.split()[0] and event["trial"] == "t0001" and event.get("iteration", 2) == 2:
            raise OSError(errno.ENOSPC, "the disk is full")
        append(journal, event)

    def write(search: Search, trial: TrialState, _: object) -> str:
        raise OSError(errno.ENOSPC, f"no space for the files of {trial.trial}")

    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"(the disk is full|of t0000)$"):
        patch.setattr(*((Search, "from_sound_checkpoint", write) if what == "files" else (Journal, "append", full)))
        toy_search(experiment, folder, lambda: 1, {"faults": faults})
    state = replay(read_events(folder / FILE))
    assert list(state.trials) == (["t0000"] if what == "files" else ["t0000", "t0001"])
    assert [trial.outcome for trial in state.trials.values()] == ["baseline", None][-len(state.trials) :]
    state = toy_search(experiment, folder, lambda: 1, {"faults": faults})
    expected = ["baseline", "failed" if faults else "completed", "completed"]
    assert [trial.outcome for trial in state.by_number()] == expected
    told = [(event["trial"], event["iteration"]) for event in read_events(folder / FILE) if event["event"] == "result"]
    every = [(f"t{number:04d}", iteration) for number in range(3) for iteration in (1, 2, 3)]
    assert sorted(told) == [pair for pair in every if pair[0] not in faults]
    if what in ("end", "files"):
        assert {tuple(steps_of(folder, trial)) for trial in state.trials} == {(1, 2, 3)}


def answered(check: NodeCheck) -> None:
    """Asks the nodes until all have answered."""
    while not check.asked or any(answer is not None for _, answer in check.asked.values()):
        check(ray.nodes())
        time.sleep(0.05)


def test_a_node_that_cannot_run_trials_ends_the_search_with_the_reason(
    local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait for ever."""
    said: list[str] = []
    answered(NodeCheck(said.append))
    assert said == []
    monkeypatch.setattr(nodes_module, "SLOW", 0.0)
    check = NodeCheck(said.append)
    for _ in range(3):  # nothing can have answered yet
        check(ray.nodes())
    [told] = said
    assert "has started no process for 0 s" in told and "raylet.err" in told
    said.clear()
    monkeypatch.setattr(nodes_module, "SLOW", 60.0)
    check = NodeCheck(said.append)
    check.here["torch"] = "0.1"
    answered(check)
    assert len(said) == 1 and "torch" in said[0] and "(0.1 here)" in said[0]
    monkeypatch.setattr(nodes_module, "PACKAGES", ("tune-cl", "no-such-package"))
    check = NodeCheck(said.append)
    check.here["no-such-package"] = "1.0"
    with pytest.raises(WorkFailed, match="cannot run trials: it lacks no-such-package; install them, then resume"):
        answered(check)
    # A module that the node lacks.
    (tmp_path / "only_here.py").write_text("def versions_and_problem(packages): return {}, None")
    monkeypatch.syspath_prepend(tmp_path)
    only_here = importlib.import_module("only_here")
    monkeypatch.setattr(nodes_module, "versions_and_problem", only_here.versions_and_problem)
    with pytest.raises(WorkFailed, match="No module named 'only_here'; install tune-cl there, then resume"):
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
