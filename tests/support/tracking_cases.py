"""A small search as journal events, and what MLflow holds of it."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests.support.journal_events import ARMS
from tune_cl.history.events import Event
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState
from tune_cl.history.tracking_uri import artifact_location, resolve_tracking_uri
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.mlflow_store import RunStore
from tune_cl.tracking.writer import MlflowWriter

SECRET = "hunter2"
FILES = ("artifacts", "checkpoint")  # keys of events that name a folder
Snapshot = dict[str, dict[str, Any]]


@cache
def empty_database() -> bytes:
    """MLflow takes seconds to make its tables."""
    with TemporaryDirectory() as folder:
        MlflowClient(tracking_uri=resolve_tracking_uri(Path(folder))).search_experiments()
        return (Path(folder) / "mlflow.db").read_bytes()


def fresh_database(folder: Path) -> Path:
    """A folder with a SQLite database in it whose tables exist."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mlflow.db").write_bytes(empty_database())
    return folder


MORE_OF_FORECAST = {
    "iterations_expected": 8, "seconds_per_iteration": 1.0, "cpu_hours_forecast": 0.5, "gpu_hours_forecast": 0.0,
}  # fmt: skip


def search_event(space: str, **other: Any) -> Event:
    return {
        "event": "search", "name": "pacing", "space": space, "data": {"name": "docstrings", "digest": "sha-1"},
        "ranker": "knrm", "rankers": ["knrm"], "metric": "mrr@10", "mode": "max", "seed": 7, "baseline": "t0000",
        "yaml": "seed: 7\n",
        "versions": {"ray": "2.60.0", "torch": "2.13.0"}, "git_commit": "c0ffee", "tracking_uri": "", "storage": space,
        "forecast": {"gpu_hours": 1.5}, "time": 1000.0, **ARMS,
    } | other  # fmt: skip


def trial_event(number: int, params: dict[str, Any]) -> Event:
    trial = f"t{number:04d}"
    return {"event": "trial", "trial": trial, "number": number, "params": params, "seed": 7, "baseline": number == 0,
            "arm": "curriculum" if number else "plain", "chosen": {}, "time": 1001.0 + number}  # fmt: skip


def result_event(number: int, iteration: int, dev: float) -> Event:
    metrics = {
        "dev_mrr@10": dev,
        "train_loss": 1 / iteration,
        "available_share": 0.5,
        "mean_weight": 1.0,
        "seconds": 1.0,
    }
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
        {"event": "checkpoint", "trial": "t0001", "iteration": 2, "path": "p", "time": 1012.0},
        {"event": "forecast", "hours_forecast": 0.5, **MORE_OF_FORECAST, "time": 1015.0},
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
    """A search's journal; the files that its events name are copied into its folder, where alone they are sent from."""
    with Journal(folder) as journal:
        for event in told:
            journal.append(at_home(event, folder))
    return journal.path


def at_home(event: Event, folder: Path) -> Event:
    """The event, with the folders that it names copied into that of the search."""
    named = {key: Path(event[key]) for key in FILES if event.get(key)}
    for path in named.values():
        copytree(path, folder / "files" / path.name, dirs_exist_ok=True)
    return event | {key: str(folder / "files" / path.name) for key, path in named.items()}


def snapshot(uri: str, space: str) -> Snapshot:
    """Everything that MLflow holds of an experiment, by run name; fails if a name or a point is there twice."""
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


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh_database(tmp_path_factory.mktemp("database"))


@pytest.fixture(scope="module")
def expected(database: Path) -> Snapshot:
    return undisturbed(database)


def delivery_of(journal: Journal, uri: str, store: type[RunStore] = RunStore) -> Delivery:
    return Delivery(journal, uri, store(uri, artifact_location(uri, journal.path.parent.parent)))


def delivered(journal: Path, uri: str, store: type[RunStore] = RunStore) -> Delivery:
    """Sends the whole journal in this thread."""
    with Journal(journal.parent) as held:
        delivery = delivery_of(held, uri, store)
        while delivery.pending():
            delivery.step()
        return delivery


def caught_up(journal: Path, uri: str, timeout: float = 60.0) -> int:
    with Journal(journal.parent) as held:
        writer = MlflowWriter(held, uri, poll=0.1)
        writer.start()
        return writer.close(timeout)


def undisturbed(database: Path) -> Snapshot:
    """What a delivery without any failure gives."""
    uri = resolve_tracking_uri(database)
    delivered(journal_of(database / "expected", events("expected", database)), uri)
    return snapshot(uri, "expected")


def one_trial(space: str, folder: Path) -> list[Event]:
    return [event for event in events(space, folder) if event.get("trial", "t0001") == "t0001"]


def assert_complete(uri: str, space: str, state: SearchState) -> None:
    """Checks that MLflow has every trial's parameters, values, files and end, once, and the search's."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(space)
    assert experiment is not None
    runs = list(client.search_runs([experiment.experiment_id]))
    assert {run.info.status for run in runs} == {"FINISHED"} and len(runs) == len(state.trials) + 1
    by_trial = {run.data.tags.get("tune_cl.trial_id"): run for run in runs}
    for trial in state.by_number():
        run = by_trial[trial.trial]
        points: list[Any] = client.get_metric_history(run.info.run_id, "dev_map")
        assert [(point.step, point.value) for point in points] == sorted(trial.dev("map").items())
        assert set(run.data.params) == set(trial.params) and run.data.tags["tune_cl.outcome"] == trial.outcome
        assert {file.path for file in client.list_artifacts(run.info.run_id)} >= {"dev.run.txt", "config.yaml"}
    left = {file.path for file in client.list_artifacts(by_trial[None].info.run_id)}
    assert left == {"report.html", "search.yaml", "best_checkpoint"}
