"""What MLflow shows is the journal, whole and once, whatever fails in between: real servers, real databases."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from trainables.errors import ConfigError
from tune_cl.journal import Event, Journal, read_events
from tune_cl.tracking import layout, mlflow_writer
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.mlflow_writer import MlflowWriter, catch_up
from tune_cl.tracking.store import RunStore
from tune_cl.tracking.uri import artifact_location, masked, resolve_tracking_uri

SECRET = "hunter2"
Snapshot = dict[str, dict[str, Any]]


class Server:
    """A tracking server on this machine, with a database of its own, that can be ended, frozen and started again."""

    def __init__(self, folder: Path):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--backend-store-uri", f"sqlite:///{self.folder}/server.db", "--workers", "1"]
        options += ["--artifacts-destination", str(self.folder / "artifacts"), "--port", str(self.port)]
        environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "server.log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", *options],
                stdout=output, stderr=output, start_new_session=True, env=environment,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while not self.healthy():
            assert self.process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.2)

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a SQLite database whose tables are made."""
    folder = tmp_path_factory.mktemp("database")
    MlflowClient(tracking_uri=resolve_tracking_uri(folder)).search_experiments()
    return folder


def search_event(space: str, **other: Any) -> Event:
    return {
        "event": "search", "name": "pacing", "space": space, "data": {"name": "docstrings", "digest": "sha-1"},
        "ranker": "knrm", "metric": "mrr@10", "mode": "max", "seed": 7, "baseline": "t0000", "yaml": "seed: 7\n",
        "versions": {"ray": "2.60.0", "torch": "2.13.0"}, "git_commit": "c0ffee", "tracking_uri": "", "storage": space,
        "forecast": {"gpu_hours": 1.5}, "time": 1000.0,
    } | other  # fmt: skip


def trial_event(number: int, params: Event) -> Event:
    trial = f"t{number:04d}"
    return {"event": "trial", "trial": trial, "number": number, "params": params, "seed": 7, "baseline": number == 0,
            "time": 1001.0 + number}  # fmt: skip


def result_event(number: int, iteration: int, dev: float) -> Event:
    metrics = {"dev_mrr@10": dev, "train_loss": 1 / iteration, "available_share": 0.5, "mean_weight": 1.0}
    return {"event": "result", "trial": f"t{number:04d}", "iteration": iteration, "metrics": metrics,
            "time": 1010.0 + iteration}  # fmt: skip


def end_event(number: int, outcome: str, best: Event | None, artifacts: str | None = None) -> Event:
    return {"event": "end", "trial": f"t{number:04d}", "outcome": outcome, "reason": "it broke" if not best else None,
            "best": best, "artifacts": artifacts, "time": 1100.0}  # fmt: skip


def root(n: float) -> Event:
    return {"curriculum.pacing": "root", "curriculum.n": n, "curriculum.scoring": "turns", "curriculum.anti": True}


def events(space: str, folder: Path) -> list[Event]:
    """A whole search: a baseline, a completed, a stopped and a failed trial, one interruption, one confirmation."""
    files = folder / "dev"
    files.mkdir(parents=True, exist_ok=True)
    (files / "run.dev.txt").write_text("q1 Q0 d1 1 0.5 knrm\n")
    best = {"trial_id": "t0001", "params": root(2), "dev": 0.75, "iteration": 2}
    return [
        search_event(space), {"event": "session", "number": 1, "time": 1000.5},
        trial_event(0, {"curriculum.pacing": "none", "training.lr": 0.001}), trial_event(1, root(2)),
        result_event(0, 1, 0.25), result_event(1, 1, 0.5), result_event(1, 2, 0.75),
        {"event": "checkpoint", "trial": "t0001", "iteration": 2, "path": "p"},
        {"event": "interrupted", "time": 1020.0}, {"event": "session", "number": 2, "time": 1030.0},
        trial_event(1, root(2)), result_event(1, 2, 0.99), result_event(1, 3, 0.5),
        end_event(0, "baseline", {"iteration": 1, "dev": 0.25}),
        end_event(1, "completed", {"iteration": 2, "dev": 0.75}, str(files)),
        trial_event(2, {"curriculum.weighting": "kde", "curriculum.m": math.inf}), result_event(2, 1, math.nan),
        end_event(2, "stopped_early", {"iteration": 1, "dev": 0.125}), trial_event(3, {}), end_event(3, "failed", None),
        {"event": "search_end", "best": best, "cost": {"gpu_hours": 2.5}, "seconds": 100.0, "time": 1200.0,
         "checkpoint": str(files)},
        {"event": "confirmation", "label": "root 2", "trial": "t0001", "params": root(2), "seed": 8,
         "metrics": {"test_mrr@10": 0.5, "seconds": 3.0}, "time": 1300.0, "artifacts": None},
    ]  # fmt: skip


def journal_of(folder: Path, told: list[Event]) -> Path:
    with Journal(folder) as journal:
        for event in told:
            journal.append(event)
    return journal.path


def snapshot(uri: str, space: str) -> Snapshot:
    """Everything that MLflow holds of an experiment, by run name; fails where a name or a point comes twice."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(space)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    names = {run.info.run_id: str(run.info.run_name) for run in runs}
    assert len(set(names.values())) == len(runs), f"a run twice: {sorted(names.values())}"
    found: Snapshot = {}
    for run in runs:
        points = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
        for key, history in points.items():
            assert len({point.step for point in history}) == len(history), f"{key} has a step twice"
        hidden = ("tune_cl.search_id", "tune_cl.key", "mlflow.source.name", "mlflow.note.content")
        found[names[run.info.run_id]] = {
            "status": run.info.status, "times": (run.info.start_time, run.info.end_time), "params": run.data.params,
            "parent": names.get(run.data.tags.get("mlflow.parentRunId", "")),
            "tags": {key: value for key, value in run.data.tags.items() if key not in (*hidden, "mlflow.parentRunId")},
            "metrics": {key: sorted((at.step, repr(at.value)) for at in history) for key, history in points.items()},
            "artifacts": sorted(file.path for file in client.list_artifacts(run.info.run_id)),
        }  # fmt: skip
    return found


def delivered(journal: Path, uri: str, store: type[RunStore] = RunStore) -> Delivery:
    """Sends the whole journal in this thread."""
    delivery = Delivery(journal, uri, store(uri, artifact_location(uri, journal.parent.parent)))
    while delivery.pending():
        delivery.step()
    return delivery


@pytest.fixture(scope="module")
def expected(database: Path) -> Snapshot:
    """What an undisturbed delivery gives."""
    uri = resolve_tracking_uri(database)
    delivered(journal_of(database / "expected", events("expected", database)), uri)
    return snapshot(uri, "expected")


def test_layout_on_a_server(server: Server, expected: Snapshot, database: Path, tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "pacing", events("layout", database))
    assert catch_up(journal, server.uri) == 0
    runs = snapshot(server.uri, "layout")
    assert set(runs) == {"pacing", "t0000 baseline", "t0001 root 2 turns anti", "t0002 kde m=inf", "t0003",
                         "confirm root 2 seed 8"}  # fmt: skip
    parent, best, stopped = runs["pacing"], runs["t0001 root 2 turns anti"], runs["t0002 kde m=inf"]
    assert parent["status"] == "FINISHED" and parent["times"] == (1000_000, 1200_000) and parent["parent"] is None
    assert parent["artifacts"] == ["best_checkpoint", "search.yaml"]
    tags = {"kind": "search", "yaml": "seed: 7\n", "data_digest": "sha-1", "versions": "ray 2.60.0, torch 2.13.0"}
    tags |= {"git_commit": "c0ffee", "forecast.gpu_hours": "1.5", "cost.gpu_hours": "2.5", "best_trial": "t0001"}
    assert {f"tune_cl.{key}": value for key, value in tags.items()}.items() <= parent["tags"].items()
    assert parent["metrics"] == {"best_dev_mrr_at_10": [(2, "0.75")]}
    assert best["parent"] == "pacing" and best["status"] == "FINISHED" and best["artifacts"] == ["run.dev.txt"]
    assert best["params"] == {"curriculum.pacing": "root", "curriculum.n": "2", "curriculum.scoring": "turns",
                              "curriculum.anti": "true"}  # fmt: skip
    assert best["metrics"]["dev_mrr_at_10"] == [(1, "0.5"), (2, "0.75"), (3, "0.5")]
    assert best["metrics"]["best_dev_mrr_at_10"] == [(2, "0.75")]
    tags = {"kind": "trial", "search": "pacing", "trial_id": "t0001", "seed": "7", "outcome": "completed"}
    assert {f"tune_cl.{key}": value for key, value in tags.items()}.items() <= best["tags"].items()
    assert stopped["metrics"]["dev_mrr_at_10"] == [(1, "nan")] and stopped["params"]["curriculum.m"] == "inf"
    assert (runs["t0003"]["status"], runs["t0003"]["tags"]["tune_cl.reason"]) == ("FAILED", "it broke")
    assert runs["confirm root 2 seed 8"]["tags"]["tune_cl.kind"] == "confirmation"
    assert runs == expected  # the database and the server hold the same


class Killed(BaseException):
    """Stands for the death of the process: nothing catches it."""


METHODS = (
    "create_experiment",
    "create_run",
    "log_batch",
    "update_run",
    "set_terminated",
    "log_artifact",
    "log_artifacts",
)


def mortal(fatal_call: int) -> type[RunStore]:
    """A store whose process dies right after its n-th writing call took effect, before anyone could note it."""

    class Mortal(RunStore):
        def __init__(self, uri: str, artifacts: str | None):
            super().__init__(uri, artifacts)
            self.calls = 0
            for name in (*METHODS, "log_artifacts"):
                setattr(self.client, name, self.counted(getattr(self.client, name)))

        def counted(self, method: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                self.calls += 1
                answer = method(*args, **options)
                if self.calls == fatal_call:
                    raise Killed
                return answer

            return call

    return Mortal


def test_death_after_any_call_loses_and_repeats_nothing(database: Path, tmp_path: Path) -> None:
    """A search for each writing call: the writer dies there, another goes on. One trial is enough for every call."""
    uri, call = resolve_tracking_uri(database), 0
    delivered(journal_of(tmp_path / "whole", one_trial("whole", database)), uri)
    while True:
        call += 1
        space = f"death-{call}"
        journal = journal_of(tmp_path / space, one_trial(space, database))
        try:
            delivered(journal, uri, mortal(call))
            break  # there are fewer calls than that
        except Killed:
            delivered(journal, uri)
        assert snapshot(uri, space) == snapshot(uri, "whole"), f"death {call}"
    assert call > 20


def one_trial(space: str, folder: Path) -> list[Event]:
    return [event for event in events(space, folder) if event.get("trial", "t0001") == "t0001"]


def test_request_that_takes_effect_after_it_was_given_up_leaves_no_run(
    database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    """Every run's first request times out, and makes its run only after the second did."""

    class Late(RunStore):
        def create(self, *request: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            if request not in self.given_up:
                self.given_up.append(request)
                raise TimeoutError
            run = super().create(*request)
            super().create(*request)
            return run

        given_up: list[Any] = []  # noqa: RUF012 - of one test

    uri = resolve_tracking_uri(database)
    journal = journal_of(tmp_path / "pacing", events("late", database)[:-1])
    delivery = Delivery(journal, uri, Late(uri, artifact_location(uri, tmp_path)))
    while delivery.pending():
        with suppress(TimeoutError):
            delivery.step()
    assert len(Late.given_up) == 5
    assert snapshot(uri, "late") == {name: run for name, run in expected.items() if not name.startswith("confirm")}


def test_events_as_they_come_give_the_same(database: Path, expected: Snapshot, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    told = events("live", database)
    with Journal(tmp_path / "pacing") as journal:
        journal.append(told[0])
        delivery = delivered(journal.path, uri)
        for event in told[1:]:
            journal.append(event)
            delivery.step()
    assert snapshot(uri, "live") == expected


@pytest.mark.parametrize("keep", [None, 0, 5])
def test_older_cursor_or_none_repeats_nothing(
    database: Path, expected: Snapshot, keep: int | None, tmp_path: Path
) -> None:
    uri, space = resolve_tracking_uri(database), f"cursor-{keep}"
    told = events(space, database)
    folder = tmp_path / "pacing"
    if keep is not None:
        delivered(journal_of(folder, told[: keep + 1]), uri)
        shutil.copy(folder / "tracking.json", tmp_path)
        told = told[keep + 1 :]
    journal = journal_of(folder, told)
    delivered(journal, uri)
    if keep is None:
        (folder / "tracking.json").unlink()
    else:
        shutil.copy(tmp_path / "tracking.json", folder)
    delivered(journal, uri)
    assert snapshot(uri, space) == expected


def test_restart_on_a_delivered_journal_sends_nothing(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    journal = journal_of(tmp_path / "pacing", events("restart", database))
    delivered(journal, uri)
    delivered(journal, uri, mortal(1))  # any writing call would raise


def test_database_that_was_replaced_is_filled_again(expected: Snapshot, database: Path, tmp_path: Path) -> None:
    """First by another one under the same address, then by another address."""
    journal = journal_of(tmp_path / "pacing", events("replaced", database))
    uri, other = resolve_tracking_uri(tmp_path), resolve_tracking_uri(database)
    for _ in range(2):
        shutil.copy(database / "mlflow.db", tmp_path / "mlflow.db")
        delivered(journal, uri)
        assert snapshot(uri, "replaced") == expected
    delivered(journal, other)
    assert snapshot(other, "replaced") == expected


def test_what_mlflow_refuses_does_not_hold_up_the_rest(
    database: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = resolve_tracking_uri(database)
    told = events("refused", database)
    folder = tmp_path / "pacing"
    first = delivered(journal_of(folder, told[:6]), uri)
    first.store.delete(first.cursor.runs["t0001"])
    gone = {"event": "artifact", "path": str(tmp_path / "gone.html"), "folder": None}
    delivered(journal_of(folder, [*told[6:], gone]), uri)
    runs = snapshot(uri, "refused")
    assert "t0001 root 2 turns anti" not in runs and runs["t0002 kde m=inf"]["status"] == "FINISHED"
    assert "MLflow does not take results of t0001" in caplog.text or "event 'interrupted'" in caplog.text
    assert "gone.html: it is not there any more" in caplog.text


def test_outage_neither_stops_the_driver_nor_loses_results(
    tmp_path: Path,
    expected: Snapshot,
    database: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server is away at the start, comes, freezes in the middle (requests arrive, answers do not), goes on."""
    server = Server(tmp_path / "server")
    uri = server.uri.replace("//", f"//user:{SECRET}@")
    told = events("outage", database)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 1.0)
    try:
        with Journal(tmp_path / "pacing") as journal, caplog.at_level(logging.DEBUG):
            writer = MlflowWriter(journal.path, uri, poll=0.1)
            writer.start()
            started = time.monotonic()
            for event in told[:2]:
                journal.append(event)
            assert time.monotonic() - started < 1
            until(lambda: writer.trouble is not None)
            server.start()
            until(lambda: writer.pending() == 0)
            server.signal(signal.SIGSTOP)
            for event in told[2:]:
                journal.append(event)
            until(lambda: writer.trouble is not None)
            server.signal(signal.SIGCONT)
            assert writer.close(timeout=60) == 0
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "2" and "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ
        assert snapshot(server.uri, "outage") == expected
        assert "tracking waits for MLflow" in caplog.text
        ours = [record.getMessage() for record in caplog.records if record.name.startswith("tune_cl")]
        assert SECRET not in "\n".join(ours)
        assert SECRET not in (tmp_path / "pacing" / "tracking.json").read_text()
    finally:
        server.stop()


def until(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_closing_in_an_outage_says_what_is_left_and_the_next_start_sends_it(
    server: Server, database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    away = Server(tmp_path / "away")
    journal = journal_of(tmp_path / "pacing", events("closing", database))
    started = time.monotonic()
    assert catch_up(journal, away.uri, timeout=3) == len(list(read_events(journal)))
    assert time.monotonic() - started < 6
    away.port, away.uri = server.port, server.uri
    assert catch_up(journal, away.uri) == 0
    assert snapshot(server.uri, "closing") == expected


def test_fresh_database_is_made_quietly_beside_the_runs(tmp_path: Path) -> None:
    """In a process of its own, started elsewhere: nothing on stderr, nothing in the working directory."""
    journal = journal_of(tmp_path / "runs" / "pacing", events("fresh", tmp_path))
    (tmp_path / "elsewhere").mkdir()
    program = (
        "import sys, pathlib; from tune_cl.tracking.mlflow_writer import catch_up; "
        "assert 'mlflow' not in sys.modules, 'the driver would wait for the import'; "
        "sys.exit(catch_up(pathlib.Path(sys.argv[1]), sys.argv[2]))"
    )
    uri = resolve_tracking_uri(tmp_path / "runs")
    done = subprocess.run(
        [sys.executable, "-c", program, str(journal), uri], cwd=tmp_path / "elsewhere", capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list((tmp_path / "elsewhere").iterdir())
    kept = sorted(path.name for path in (tmp_path / "runs" / "mlartifacts").glob("*/artifacts/*"))
    assert kept == ["best_checkpoint", "run.dev.txt", "search.yaml"]


def test_secrets_stay_out_of_the_runs(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    address = f"http://me:{SECRET}@mlflow.example.org"
    told = [
        search_event("secrets", yaml=f"data: {address}/x\n", tracking_uri=address),
        {"event": "trial", "trial": "t0000", "number": 0, "params": {}, "seed": 1, "baseline": True, "time": 1.0},
        end_event(0, "failed", None) | {"reason": f"cannot read {address}/data"},
    ]
    delivered(journal_of(tmp_path / "pacing", told), uri)
    runs = snapshot(uri, "secrets")
    assert SECRET not in str({name: run["tags"] for name, run in runs.items()})
    assert runs["t0000 baseline"]["tags"]["tune_cl.reason"] == "cannot read http://***@mlflow.example.org/data"


def test_wide_trials_go_in_several_requests(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    params = {f"key.{number}": number for number in range(250)} | {"long": "x" * 7000}
    results = [result_event(0, iteration, 0.5) for iteration in range(1, 401)]
    delivered(journal_of(tmp_path / "pacing", [search_event("wide"), trial_event(0, params), *results]), uri)
    run = snapshot(uri, "wide")["t0000 baseline"]
    assert len(run["params"]) == 251 and len(run["params"]["long"]) == 6000
    assert run["tags"]["tune_cl.cut_parameters"] == "long"
    assert [step for step, _ in run["metrics"]["train_loss"]] == list(range(1, 401))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@db:5432/x", "postgresql://***@db:5432/x"),
        ("http://u:p@ss@host/a and http://token@host", "http://***@host/a and http://***@host"),
        ("postgresql://db/x?password=p&ssl=on", "postgresql://db/x?password=***&ssl=on"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
        ("mail me@host or http://host/a@b", "mail me@host or http://host/a@b"),
    ],
)
def test_masked_hides_credentials_only(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_tracking_uri_flag_then_environment_then_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert resolve_tracking_uri(Path("runs")) == f"sqlite:///{tmp_path}/runs/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert resolve_tracking_uri(Path("runs")) == "http://server:5000"
    assert resolve_tracking_uri(Path("runs"), "databricks") == "databricks"
    assert artifact_location("http://server:5000", Path("runs")) is None
    with pytest.raises(ConfigError, match=r"--tracking-uri: './mlruns' is a folder"):
        resolve_tracking_uri(Path("runs"), "./mlruns")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:///x")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI: 'file:///x' is a folder"):
        resolve_tracking_uri(Path("runs"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (None, "null"), (math.inf, "inf"), (0.001, "0.001"), ([1, 2], "[1, 2]"), ("a", "a")],
)
def test_parameter_values_read_as_yaml(value: object, shown: str) -> None:
    assert layout.parameters({"key": value}) == {"key": shown}
