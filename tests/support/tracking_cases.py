"""One recorded search, and what MLflow holds of it."""

from __future__ import annotations

from functools import cache
from itertools import takewhile
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any

from mlflow.tracking import MlflowClient

from tests.support.memory_store import Memory, Run, by_name
from tune_cl.history.journal import FILE, Journal, read_events
from tune_cl.history.state import SearchState
from tune_cl.history.tracking_uri import artifact_location, resolve_tracking_uri
from tune_cl.ray.environment import own_environment
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.mlflow_store import RunStore
from tune_cl.tracking.writer import MlflowWriter

SECRET = "hunter2"
PACING = Path(__file__).parents[1] / "files" / "pacing"


def recorded(space: str = "quickstart", **other: Any) -> list[Any]:
    """A small search: a baseline, a completed, a stopped and a failed trial, an interruption, and a confirmation."""
    search, *rest = read_events(PACING / FILE)
    return [search | {"space": space} | other, *rest]


def search_event(space: str, **other: Any) -> Any:
    return recorded(space, **other)[0]


def one_trial(space: str) -> list[Any]:
    """The search up to its end, as if t0001 were its only trial."""
    to_its_end = takewhile(lambda event: event["event"] != "artifact", recorded(space))
    return [event for event in to_its_end if event.get("trial", "t0001") == "t0001"]


def journal_of(folder: Path, told: list[Any]) -> Path:
    """A search's journal, beside the files that the recorded one names."""
    copytree(PACING, folder, ignore=ignore_patterns(FILE), dirs_exist_ok=True)
    with Journal(folder) as journal:
        for event in told:
            journal.append(event)
    return journal.path


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


def delivered(journal: Path, uri: str, store: RunStore | None = None) -> None:
    """Sends the whole journal in this thread."""
    with Journal(journal.parent) as held:
        artifacts = artifact_location(uri, journal.parent.parent)
        delivery = Delivery(held, uri, store or RunStore(uri, artifacts))
        while delivery.pending():
            delivery.step()


def promised(folder: Path) -> dict[str, Run]:
    """What MLflow holds of the recorded search, whatever happened on the way."""
    store = Memory()
    delivered(journal_of(folder / "promised" / "pacing", recorded()), "sqlite://", store)
    return by_name(store.runs)


def caught_up(journal: Path, uri: str, timeout: float = 60.0) -> int:
    """Sends the journal as a session does, which then ends; returns what remains unsent."""
    with own_environment(), Journal(journal.parent) as held:
        writer = MlflowWriter(held, uri, poll=0.1)
        writer.start()
        return writer.close(timeout)


def runs_of(client: MlflowClient, space: str) -> list[Any]:
    experiment = client.get_experiment_by_name(space)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def in_mlflow(uri: str, space: str) -> dict[str, Run]:
    """Everything that MLflow holds of an experiment, by name of run."""
    client = MlflowClient(tracking_uri=uri)
    runs: dict[str, Run] = {}
    for found in runs_of(client, space):
        info, data = found.info, found.data
        run = Run(info.run_name, data.tags, info.start_time, info.end_time, info.status, data.params)
        for metric in data.metrics:
            history = client.get_metric_history(info.run_id, metric)
            run.points |= {(metric, point.step, repr(point.value), point.timestamp) for point in history}
        run.files = {file.path for file in client.list_artifacts(info.run_id)}
        for used in found.inputs.dataset_inputs:
            run.data = {key: value for key, value in used.dataset if value is not None}
        runs[info.run_id] = run
    return by_name(runs)


def assert_complete(uri: str, space: str, state: SearchState) -> None:
    """Checks that MLflow has every trial's parameters, values, files and end, once, and the search's."""
    client = MlflowClient(uri)
    runs = runs_of(client, space)
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
