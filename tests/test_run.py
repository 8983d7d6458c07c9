"""Searches as users run them: real Ray, real MLflow on SQLite, stopped by Ctrl-C, by SIGTERM and by SIGKILL."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow import MlflowClient

from tests.support.builders import tiny_data
from tests.support.commands import ROOT, UNHURRIED, finish, on_path, rewrite, start, wait_for_events
from tests.support.faults import flip_the_last_bit
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import main
from tune_cl.history.journal import read_events
from tune_cl.history.state import SearchState, replay

pytestmark = pytest.mark.slow

AT_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from tune_cl.cli import console
console()
"""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a search space."""
    folder = tmp_path_factory.mktemp("run")
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), folder / "data")
    (folder / "toy.yaml").write_text(UNHURRIED)
    return folder


def search(workdir: Path, storage: str, command: str = "run") -> list[str]:
    if command == "resume":
        return ["resume", "toy", "--storage", storage, "--json"]
    return ["run", "toy.yaml", "--data", "data", "--storage", storage, "--json"]


def state(workdir: Path, storage: str) -> SearchState:
    return replay(read_events(workdir / storage / "toy" / "journal.jsonl"))


def checkpoints(workdir: Path, storage: str) -> list[Path]:
    """Those that are there and in the journal: one that is written in the moment of a stop is not."""
    events = read_events(workdir / storage / "toy" / "journal.jsonl")
    told = {event["path"] for event in events if event["event"] == "checkpoint"}
    return [path for path in (workdir / storage).glob("toy/ray/*/*/checkpoint_*") if str(path) in told]


def wait_for_iterations(running: subprocess.Popen[str], workdir: Path, storage: str, session: int, count: int) -> None:
    """Waits until the session (from 1) has reported `count` iterations. Results of earlier sessions do not count: a
    signal sent at once would meet a process that has not yet set its handlers."""
    journal = workdir / storage / "toy" / "journal.jsonl"
    wait_for_events(running, journal, "session", session)
    events = [event["event"] for event in read_events(journal)]
    begin = [at for at, event in enumerate(events) if event == "session"][session - 1]
    wait_for_events(running, journal, "result", events[:begin].count("result") + count)


def assert_stopped(workdir: Path, storage: str, said: tuple[str, str]) -> None:
    """Checks that a search was stopped with its state saved: by its last words, its journal, and MLflow."""
    out, err = said
    assert out == "" and "Traceback" not in err
    last = err.rstrip().splitlines()[-1]
    assert last.startswith("stopped; what is done is saved. Go on with: ") and "tune-cl resume toy --storage" in last
    assert_stopped_in_order(workdir, storage)


def assert_stopped_in_order(workdir: Path, storage: str) -> None:
    events = list(read_events(workdir / storage / "toy" / "journal.jsonl"))
    assert events[-1]["event"] == "interrupted"
    client = MlflowClient(f"sqlite:///{workdir / storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("toy")
    assert experiment is not None
    open_trials = {trial.trial for trial in replay(events).open_trials()}
    for run in client.search_runs([experiment.experiment_id]):
        stopped = run.data.tags.get("tune_cl.trial_id") in {None, *open_trials}
        assert run.info.status == ("KILLED" if stopped else "FINISHED")


def numbers(searched: SearchState) -> dict[str, Any]:
    """All values that must not depend on interruptions."""
    return {trial.trial: (trial.params, trial.outcome, trial.dev("map")) for trial in searched.by_number()}


def as_yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture(scope="module")
def whole(workdir: Path) -> dict[str, Any]:
    """The document of an uninterrupted search."""
    out, _ = finish(start(workdir, *search(workdir, "whole")))
    return json.loads(out)


def test_the_document_names_the_best_trial_and_the_baseline(workdir: Path, whole: dict[str, Any]) -> None:
    searched = state(workdir, "whole")
    assert (whole["search"], whole["ranker"], whole["metric"], whole["trials"]) == ("toy", "conv_knrm", "map", 5)
    assert whole["iterations"] == searched.iterations and whole["errored"] == 0
    assert whole["stopped_early"] == searched.counts()["stopped_early"] > 0
    baseline = searched.trials["t0000"]
    assert baseline.outcome == "baseline" and baseline.iterations == 8
    assert whole["baseline"]["dev"] == max(baseline.dev("map").values())
    assert whole["baseline"]["params"]["curriculum.pacing"] == "none"
    assert whole["best"]["dev"] == max(max(trial.dev("map").values()) for trial in searched.trials.values())


def test_mlflow_has_a_run_a_trial_under_the_search(workdir: Path, whole: dict[str, Any]) -> None:
    client = MlflowClient(whole["tracking_uri"])
    parent = client.get_run(whole["mlflow_run_id"])
    assert parent.data.tags["tune_cl.kind"] == "search" and parent.info.status == "FINISHED"
    children = client.search_runs([parent.info.experiment_id], f"tags.mlflow.parentRunId = '{parent.info.run_id}'")
    left = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert {"report.html", "search.yaml", "best_checkpoint"} <= left
    assert float(parent.data.tags["tune_cl.cost.seconds"]) == pytest.approx(whole["seconds"], abs=0.01)
    searched = state(workdir, "whole")
    assert {run.data.tags["tune_cl.trial_id"] for run in children} == set(searched.trials)
    for run in children:
        trial = searched.trials[run.data.tags["tune_cl.trial_id"]]
        assert run.data.tags["tune_cl.outcome"] == trial.outcome
        assert run.data.params == {key: as_yaml(value) for key, value in trial.params.items()}
        history = client.get_metric_history(run.info.run_id, "dev_map")
        assert {point.step: point.value for point in history} == trial.dev("map") and len(history) == trial.iterations
        files = {Path(file.path).name for file in client.list_artifacts(run.info.run_id)}
        assert {"dev.run.txt", "dev.per_query.tsv", "config.yaml"} <= files


def test_the_best_ranker_ranks(workdir: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workdir)
    ranker = workdir / "whole" / "toy" / "trials" / "best-ranker"
    assert main(["rerank", str(ranker), "--data", "data", "--split", "dev", "--output", "best.txt"]) == 0
    trial = workdir / "whole" / "toy" / "trials" / whole["best"]["trial_id"]
    ranked = [line.split()[:4] for line in Path("best.txt").read_text().splitlines()]
    assert ranked == [line.split()[:4] for line in (trial / "dev.run.txt").read_text().splitlines()]


def test_names_of_folders_may_have_spaces_and_quotes(workdir: Path, whole: dict[str, Any]) -> None:
    """Ray starts workers with a shell line that has Python's path unquoted."""
    folder = workdir / "it's mine $HOME"
    folder.mkdir()
    (folder / "venv").symlink_to(sys.prefix)
    shutil.copytree(workdir / "data", folder / "data")
    shutil.copy(workdir / "toy.yaml", folder)
    short = [*search(folder, "the runs"), "--trials", "1"]
    out, _ = finish(start(folder, *short, python=str(folder / "venv" / "bin" / "python")))
    baseline = json.loads(out)["baseline"] | {"params": ...}  # parameters name the data's folder
    assert baseline == whole["baseline"] | {"params": ...}


def test_resuming_on_changed_data_is_refused(workdir: Path, whole: dict[str, Any]) -> None:
    """Trials before and after the change could not be compared."""
    shutil.copytree(workdir / "whole", workdir / "changed")
    journal = workdir / "changed" / "toy" / "journal.jsonl"
    change_data(workdir, "changed")
    journal.write_text("".join(line for line in journal.read_text().splitlines(True) if '"search_end"' not in line))
    _, err = finish(start(workdir, *search(workdir, "changed", "resume")), status=2)
    assert err.splitlines()[-1].startswith("error: data.source: the data has changed since the search began; ")


def change_data(workdir: Path, storage: str) -> None:
    """Has the journal name other data than there is."""
    rewrite(workdir / storage / "toy" / "journal.jsonl", {state(workdir, storage).data["digest"]: "0" * 64})


def test_a_search_that_is_resumed_on_a_damaged_cache_gives_the_same_numbers(
    workdir: Path, whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    finish(start(workdir, "data", "data"))
    shutil.copytree(workdir / "whole", workdir / "damaged")
    journal = workdir / "damaged" / "toy" / "journal.jsonl"
    lines = journal.read_text().splitlines(True)
    journal.write_text("".join(lines[: len(lines) // 2]))  # as after a kill
    [damaged] = tmp_path.glob("tune_cl/data/*/train.grade.npy")
    flip_the_last_bit(damaged)
    _, err = finish(start(workdir, *search(workdir, "damaged", "resume")))
    assert "(train.grade.npy is not as it was written); it is built again" in err
    assert numbers(state(workdir, "damaged")) == numbers(state(workdir, "whole"))


def test_a_second_search_of_the_name_is_refused(
    workdir: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workdir)
    assert main([*search(workdir, "whole"), "--name", "toy"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: --name: a search 'toy' exists in ") and "tune-cl resume toy" in err


def signal_the_job(running: subprocess.Popen[str], number: int) -> list[psutil.Process]:
    """Sends a signal to the processes of a job, as Slurm does, and lets Ray's hear it before the driver: one whose
    raylet has gone may end at once, with status 1. Returns Ray's."""
    of_ray = psutil.Process(running.pid).children()
    assert {"gcs_server", "raylet"} <= {process.name() for process in of_ray}
    running.send_signal(signal.SIGSTOP)
    os.killpg(running.pid, number)
    return of_ray


def assert_gone(of_ray: list[psutil.Process]) -> None:
    """A driver takes Ray with it, even if it is killed."""
    _, left = psutil.wait_procs(of_ray, timeout=20)
    assert not left


def test_stopped_and_killed_and_resumed_gives_the_numbers_of_an_unbroken_search(
    workdir: Path, whole: dict[str, Any]
) -> None:
    running = start(workdir, *search(workdir, "cut"))
    wait_for_iterations(running, workdir, "cut", 1, 3)
    with suppress(ProcessLookupError):
        for _ in range(5):  # the third Ctrl-C of the impatient comes while Ray leaves the interpreter
            os.killpg(running.pid, signal.SIGINT)  # a terminal's goes to the whole group
            time.sleep(0.3)
    out, err = finish(running, status=130)
    assert out == "" and "tune-cl resume toy --storage" in err.rstrip().splitlines()[-1], err

    running = start(workdir, *search(workdir, "cut", "resume"))
    wait_for_iterations(running, workdir, "cut", 2, 2)
    of_ray = signal_the_job(running, signal.SIGTERM)
    time.sleep(2)  # longer than a raylet takes to leave
    assert psutil.STATUS_ZOMBIE not in {process.status() for process in of_ray}
    running.send_signal(signal.SIGCONT)
    assert_stopped(workdir, "cut", finish(running, status=130))
    assert_gone(of_ray)

    running = start(workdir, *search(workdir, "cut", "resume"))
    wait_for_iterations(running, workdir, "cut", 3, 2)
    of_ray = signal_the_job(running, signal.SIGKILL)
    running.communicate()
    assert_gone(of_ray)

    resumed = json.loads(finish(start(workdir, *search(workdir, "cut", "resume")))[0])
    assert numbers(state(workdir, "cut")) == numbers(state(workdir, "whole"))
    assert resumed["best"] == whole["best"] and resumed["iterations"] == whole["iterations"]
    for storage in ("whole", "cut"):  # of the trials that have ended, only the best one's are needed
        left = {path.parent.name.partition("-")[0] for path in checkpoints(workdir, storage)}
        assert left == {resumed["best"]["trial_id"]}
    client = MlflowClient(resumed["tracking_uri"])
    experiment = client.get_run(resumed["mlflow_run_id"]).info.experiment_id
    runs = client.search_runs([experiment])
    assert len(runs) == 1 + 5
    for run in runs:
        if trial := run.data.tags.get("tune_cl.trial_id"):
            points = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "dev_map")]
            assert sorted(points) == sorted(state(workdir, "cut").trials[trial].dev("map").items())


def test_a_search_that_has_ended_is_resumed_reported_and_confirmed_without_its_checkpoints_and_data(
    workdir: Path, whole: dict[str, Any]
) -> None:
    shutil.copytree(workdir / "whole", workdir / "light")
    shutil.rmtree(workdir / "light" / "toy" / "ray")
    finish(start(workdir, "confirm", "toy", "--storage", "light", "--top", "1", "--seeds", "2"))
    finish(start(workdir, "report", "toy", "--storage", "light"))
    change_data(workdir, "light")  # a search that is done does not read its data
    journal = workdir / "light" / "toy" / "journal.jsonl"
    before = journal.read_bytes()
    again = json.loads(finish(start(workdir, *search(workdir, "light", "resume")))[0])
    moved = {key: whole[key].replace("/whole", "/light") for key in ("storage", "tracking_uri", "best_ranker")}
    assert again == whole | moved
    assert journal.read_bytes() == before


def test_a_search_whose_terminal_is_closed_stops_in_order(workdir: Path) -> None:
    """As when a window is closed or a connection breaks: what the search says then can be written nowhere."""
    terminal, inside = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, *search(workdir, "closed")],
        cwd=workdir, env=os.environ | {"PYTHONPATH": on_path(str(ROOT))}, text=True, start_new_session=True,
        stdin=inside, stdout=inside, stderr=inside,
    )  # fmt: skip
    os.close(inside)
    wait_for_iterations(running, workdir, "closed", 1, 3)
    os.close(terminal)
    assert running.wait(120) == 130
    assert_stopped_in_order(workdir, "closed")


def test_a_signal_while_ray_starts_is_heard_when_it_has_started(workdir: Path) -> None:
    """Python handles Ctrl-C by itself, so the signal that a scheduler sends is the harder case."""
    running = start(workdir, *search(workdir, "starting"))
    process = psutil.Process(running.pid)
    while not any(child.name() == "gcs_server" for child in process.children()):  # the first of Ray's processes
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    assert_stopped(workdir, "starting", finish(running, status=130))


def assert_stops_itself(program: str, workdir: Path, storage: str) -> None:
    """Checks that a search is stopped that sends itself a signal; `program`: Python that runs `tune-cl` so."""
    command = [sys.executable, "-c", program, *search(workdir, storage)]
    done = subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 130, done.stderr
    assert_stopped(workdir, storage, (done.stdout, done.stderr))


STOPPED_AT_THE_END = """
import os, signal, sys, time
import ray

def then_a_signal(*arguments, init=ray.init, **options):
    init(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)

def slowly(*arguments, shutdown=ray.shutdown, **options):
    time.sleep(3.5)
    shutdown(*arguments, **options)

ray.init, ray.shutdown = then_a_signal, slowly
from tune_cl.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_signal_at_the_end_of_rays_start_does_not_abort_the_driver(workdir: Path) -> None:
    """Ray's C++ core, which receives it there, gives the process 3 seconds."""
    assert_stops_itself(STOPPED_AT_THE_END, workdir, "at-the-end")


SWALLOWED_BETWEEN_RESULTS = """
import os, signal, sys
from contextlib import suppress
from tune_cl.cli import main
from tune_cl.search.driver import Search

def then_a_signal(search, trial, result, known=Search.result):
    kept = known(search, trial, result)
    if result["iteration"] == 2:
        with suppress(KeyboardInterrupt):  # as Python does while it collects garbage
            os.kill(os.getpid(), signal.SIGTERM)
    return kept

Search.result = then_a_signal
sys.exit(main(sys.argv[1:]))
"""


def test_a_signal_that_a_library_swallows_ends_the_search_at_rays_next_step(workdir: Path) -> None:
    assert_stops_itself(SWALLOWED_BETWEEN_RESULTS, workdir, "swallowed")
    assert state(workdir, "swallowed").iterations == 2


def test_a_confirmation_ends_on_sigterm_with_what_is_done_saved(workdir: Path, whole: dict[str, Any]) -> None:
    shutil.copytree(workdir / "whole", workdir / "copy")
    confirm = ["confirm", "toy", "--storage", "copy", "--top", "1", "--json", "--seeds"]
    running = start(workdir, *confirm, "60")
    journal = workdir / "copy" / "toy" / "journal.jsonl"
    wait_for_events(running, journal, "confirmation", 3)
    running.terminate()  # as Kubernetes ends the first process of a pod
    out, err = finish(running, status=130)
    assert out == "" and "tune-cl confirm toy --storage" in err.splitlines()[-1]
    done = replay(read_events(journal)).confirmations
    assert 2 <= len(done) < 120  # an event whose write is interrupted is taken back and reported again
    judged = json.loads(finish(start(workdir, *confirm, "2"))[0])
    trained = replay(read_events(journal)).confirmations
    assert trained[: len(done)] == done and len(judged["seeds"]) == 2
    assert len({(event["label"], event["seed"]) for event in trained}) == len(trained) >= 4


LEAVING = """
import gc, threading, time
import ray
from tune_cl.ray.session import ray_session

class Cycle:
    def __init__(self, reference):
        self.reference, self.itself = reference, self

def drop(references):  # a reference as garbage, and garbage enough to have it collected here
    while references:
        Cycle(references.pop())
        for _ in range(1000):
            trash = []
            trash.append(trash)
        time.sleep(0.001)

with ray_session(None):
    references = [ray.put(number) for number in range(5000)]
    thread = threading.Thread(target=drop, args=[references])
    thread.start()
print("left with", len(references))
references.clear()
thread.join()
"""


def test_garbage_that_another_thread_collects_does_not_end_the_process_while_ray_is_left() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0, "the thread was done before Ray was"
