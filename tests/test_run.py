"""Searches and confirmations as users run them, on real Ray with MLflow on SQLite, stopped in every way."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

import tune_cl
from tests.support.builders import tiny_data
from tests.support.commands import UNHURRIED, rewrite, start
from tests.support.kills import interrupt_the_job, kill_the_job, stopped
from tests.support.terminal import outcomes_of
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import main
from tune_cl.history.journal import Event, read_events
from tune_cl.history.state import SearchState, replay
from tune_cl.history.tracking_uri import resolve_tracking_uri

pytestmark = pytest.mark.slow

CONFIRM = ["confirm", "toy", "--top", "1", "--seeds", "2", "--json", "--storage"]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a search space. Its name, which Python's has too, is hard for a shell: Ray starts workers
    with a shell line that has Python's path unquoted."""
    folder = tmp_path_factory.mktemp("run") / "it's mine $HOME"
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), folder / "data")
    (folder / "toy.yaml").write_text(UNHURRIED)
    (folder / "venv").symlink_to(sys.prefix)
    return folder


def search(storage: str, command: str = "run") -> list[str]:
    if command == "resume":
        return ["resume", "toy", "--storage", storage, "--json"]
    return ["run", "toy.yaml", "--data", "data", "--storage", storage, "--json"]


def begun(workdir: Path, *arguments: str) -> subprocess.Popen[str]:
    return start(workdir, *arguments, python=str(workdir / "venv" / "bin" / "python"))


def journal_of(workdir: Path, storage: str) -> Path:
    return workdir / storage / "toy" / "journal.jsonl"


def events_of(workdir: Path, storage: str, kind: str) -> list[Event]:
    return [event for event in read_events(journal_of(workdir, storage)) if event["event"] == kind]


def state(workdir: Path, storage: str) -> SearchState:
    return replay(read_events(journal_of(workdir, storage)))


def runs_of(workdir: Path, storage: str) -> tuple[MlflowClient, list[Run]]:
    """MLflow's runs of a search."""
    client = MlflowClient(resolve_tracking_uri(workdir / storage))
    experiment = client.get_experiment_by_name("toy")
    assert experiment is not None
    return client, list(client.search_runs([experiment.experiment_id]))


def assert_stopped(workdir: Path, storage: str) -> None:
    """A search was stopped with its state saved, in its journal and in MLflow."""
    events = list(read_events(journal_of(workdir, storage)))
    assert events[-1]["event"] == "interrupted"
    open_trials = {trial.trial for trial in replay(events).open_trials()}
    for run in runs_of(workdir, storage)[1]:
        open_ = run.data.tags.get("tune_cl.trial_id") in {None, *open_trials}
        assert run.info.status == ("KILLED" if open_ else "FINISHED")


def assert_says_how_to_go_on(out: str, err: str, command: str) -> None:
    assert out == "" and "Traceback" not in err
    last = err.rstrip().splitlines()[-1]
    assert last.startswith("stopped; what is done is saved. Go on with: ") and command in last, err


def assert_points_in_mlflow(workdir: Path, storage: str) -> None:
    """One run of each trial, with each of its dev values once."""
    client, runs = runs_of(workdir, storage)
    trials = state(workdir, storage).trials
    told = [run for run in runs if run.data.tags["tune_cl.kind"] == "trial"]
    assert sorted(run.data.tags["tune_cl.trial_id"] for run in told) == sorted(trials)
    for run in told:
        points = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "dev_map")]
        assert sorted(points) == sorted(trials[run.data.tags["tune_cl.trial_id"]].dev("map").items())


def numbers(searched: SearchState) -> dict[str, Any]:
    """All values that must not depend on interruptions."""
    return {trial.trial: (trial.params, trial.outcome, trial.dev("map")) for trial in searched.by_number()}


def left(workdir: Path, storage: str, kind: str = "checkpoint") -> set[str]:
    """Whose checkpoints are still there, of those in the journal: one written in the moment of a stop is not."""
    who = "trial" if kind == "checkpoint" else "training"
    return {event[who] for event in events_of(workdir, storage, kind) if Path(event["path"]).is_dir()}


def confirmation(workdir: Path, storage: str) -> dict[str, Any]:
    verdict = tune_cl.open_search("toy", workdir / storage).confirm(seeds=2, top=1, progress=False)
    return verdict.model_dump(exclude={"storage", "tracking_uri"})


@pytest.fixture(scope="module")
def whole(workdir: Path, local_ray: str) -> dict[str, Any]:
    """The document of an uninterrupted search, as JSON has it."""
    space, storage = workdir / "toy.yaml", fresh_database(workdir / "whole")
    searched = tune_cl.run(str(space), data=workdir / "data", storage=storage, progress=False)
    return json.loads(json.dumps(searched.result.model_dump(mode="json"), default=lambda number: number.item()))


@pytest.fixture(scope="module")
def confirmed(workdir: Path, whole: dict[str, Any]) -> dict[str, Any]:
    """The document of an uninterrupted confirmation of the search, whose checkpoints were removed."""
    shutil.copytree(workdir / "whole", workdir / "light")
    shutil.rmtree(workdir / "light" / "toy" / "ray")
    return confirmation(workdir, "light")


def test_the_document_names_the_best_trial_and_the_baseline(workdir: Path, whole: dict[str, Any]) -> None:
    searched = state(workdir, "whole")
    assert (whole["name"], whole["ranker"], whole["metric"], len(whole["trials"])) == ("toy", "conv_knrm", "map", 5)
    assert whole["iterations"] == searched.iterations and "failed" not in outcomes_of(whole)
    outcomes = [trial.outcome for trial in searched.by_number()]
    assert outcomes_of(whole).count("stopped_early") == outcomes.count("stopped_early") > 0
    baseline = searched.trials["t0000"]
    assert baseline.outcome == "baseline" and baseline.iterations == 8
    trials = {trial["trial_id"]: trial for trial in whole["trials"]}
    plain = trials[whole["best_plain"]]
    assert plain["dev"] == max(baseline.dev("map").values()) and plain["params"]["curriculum.pacing"] == "none"
    assert trials[whole["best"]]["dev"] == max(max(trial.dev("map").values()) for trial in searched.trials.values())
    assert left(workdir, "whole") == {whole["best"]}


def test_mlflow_has_a_run_a_trial_under_the_search(workdir: Path, whole: dict[str, Any]) -> None:
    client, runs = runs_of(workdir, "whole")
    [parent] = [run for run in runs if run.data.tags["tune_cl.kind"] == "search"]
    assert (parent.info.run_id, parent.info.status) == (whole["mlflow_run_id"], "FINISHED")
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert {"report.html", "search.yaml", "best_checkpoint"} <= files
    assert_points_in_mlflow(workdir, "whole")
    for run in runs:
        if run is not parent:
            trial = state(workdir, "whole").trials[run.data.tags["tune_cl.trial_id"]]
            assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
            assert run.data.tags["tune_cl.outcome"] == trial.outcome and run.data.params.keys() == trial.params.keys()
            files = {Path(file.path).name for file in client.list_artifacts(run.info.run_id)}
            assert {"dev.run.txt", "dev.per_query.tsv", "config.yaml"} <= files


def test_the_best_ranker_ranks(workdir: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workdir)
    trials = workdir / "whole" / "toy" / "trials"
    assert (
        main(["rerank", str(trials / "best-ranker"), "--data", "data", "--split", "dev", "--output", "best.txt"]) == 0
    )
    found, expected = Path("best.txt"), trials / whole["best"] / "dev.run.txt"
    ranked, known = ([line.split()[:4] for line in file.read_text().splitlines()] for file in (found, expected))
    assert ranked == known


def terminate(running: subprocess.Popen[str]) -> int:
    """As Slurm, Kubernetes and systemd end a job."""
    running.send_signal(signal.SIGTERM)
    return 130


def test_stopped_and_killed_and_resumed_gives_the_numbers_of_an_unbroken_search(
    workdir: Path, whole: dict[str, Any]
) -> None:
    journal = journal_of(workdir, "cut")
    fresh_database(workdir / "cut")
    stopped(lambda: begun(workdir, *search("cut")), journal, "result", 3, terminate)
    assert_stopped(workdir, "cut")
    stopped(lambda: begun(workdir, *search("cut", "resume")), journal, "result", 2, kill_the_job)
    resumed = tune_cl.open_search("toy", workdir / "cut").resume(progress=False).result.model_dump(mode="json")
    assert numbers(state(workdir, "cut")) == numbers(state(workdir, "whole"))
    assert resumed["best"] == whole["best"] and resumed["iterations"] == whole["iterations"]
    assert left(workdir, "cut") == {resumed["best"]}
    assert_points_in_mlflow(workdir, "cut")


def test_stopped_and_repeated_gives_the_numbers_of_an_unbroken_confirmation(
    workdir: Path, confirmed: dict[str, Any]
) -> None:
    shutil.copytree(workdir / "whole", workdir / "copy")
    journal = journal_of(workdir, "copy")
    told = stopped(lambda: begun(workdir, *CONFIRM, "copy"), journal, "training_checkpoint", 1, interrupt_the_job)
    assert_says_how_to_go_on(*told, "tune-cl confirm toy")
    assert events_of(workdir, "copy", "confirmation") == [], "it was stopped inside its first training"
    assert confirmation(workdir, "copy") == confirmed
    told = events_of(workdir, "copy", "confirmation")
    assert len({(event["label"], event["seed"]) for event in told}) == len(told) == 4
    saved: dict[str, list[int]] = {}
    for event in events_of(workdir, "copy", "training_checkpoint"):
        saved.setdefault(event["training"], []).append(event["iteration"])
    assert all(iterations == sorted(set(iterations)) for iterations in saved.values()), "a training began again"
    assert left(workdir, "copy", "training_checkpoint") == set()
    assert confirmations_in_mlflow(workdir, "copy") == confirmations_in_mlflow(workdir, "light")


def confirmations_in_mlflow(workdir: Path, storage: str) -> dict[str, float]:
    """The value on the test split of each training, by the name of its run."""
    runs = [run for run in runs_of(workdir, storage)[1] if run.data.tags["tune_cl.kind"] == "confirmation"]
    named = {str(run.info.run_name): run.data.metrics["test_map"] for run in runs}
    assert len(named) == len(runs), "a training is there twice"
    return named


def change_data(workdir: Path, storage: str) -> None:
    """Has the journal name other data than there is."""
    rewrite(journal_of(workdir, storage), {state(workdir, storage).data["digest"]: "0" * 64})


def test_a_search_that_has_ended_is_resumed_and_confirmed_without_its_checkpoints_and_data(
    workdir: Path,
    whole: dict[str, Any],
    confirmed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One that has not ended is refused: trials before and after the change could not be compared."""
    assert len(confirmed["seeds"]) == 2
    monkeypatch.chdir(workdir)
    change_data(workdir, "light")
    journal = journal_of(workdir, "light")
    before = journal.read_bytes()
    assert main(search("light", "resume")) == 0
    moved = {key: whole[key].replace("/whole", "/light") for key in ("storage", "tracking_uri", "checkpoint")}
    told = json.loads(capfd.readouterr().out)
    assert told == whole | moved and told["effects"] is None, "fewer than two of its pairs ran to the end"
    assert journal.read_bytes() == before
    journal.write_text("".join(line for line in journal.read_text().splitlines(True) if '"search_end"' not in line))
    assert main(search("light", "resume")) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("error: data.source: has changed since the search began; ")


AT_RAYS_START_AND_END = """
import gc, os, signal, sys, threading, time
import ray

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

def then_a_signal(*arguments, init=ray.init, **options):
    init(*arguments, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)

def slowly(*arguments, shutdown=ray.shutdown, **options):
    time.sleep(3.5)
    references.extend(ray.put(number) for number in range(5000))
    thread.start()
    shutdown(*arguments, **options)
    assert references, "the thread was done before Ray was"
    references.clear()

references = []
thread = threading.Thread(target=drop, args=[references])
ray.init, ray.shutdown = then_a_signal, slowly
from tune_cl.cli import main
status = main(sys.argv[1:])
thread.join()
sys.exit(status)
"""


def test_neither_a_signal_as_ray_starts_nor_garbage_as_it_ends_aborts_the_driver(workdir: Path) -> None:
    """Ray's C++ core, which receives the signal, gives the process 3 seconds. Garbage that another thread collects
    while Ray shuts down ends it."""
    fresh_database(workdir / "aborted")
    command = [sys.executable, "-c", AT_RAYS_START_AND_END, *search("aborted")]
    done = subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 130, done.stderr
    assert_says_how_to_go_on(done.stdout, done.stderr, "tune-cl resume toy --storage")
    assert_stopped(workdir, "aborted")
