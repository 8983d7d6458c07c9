"""One recorded search, and what MLflow holds of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any

from mlflow.tracking import MlflowClient

from tune_cl.history.journal import FILE, Journal, read_events
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.ray.environment import own_environment
from tune_cl.tracking.mirror import Mirror
from tune_cl.tracking.store import connect
from tune_cl.tracking.writer import MlflowWriter

PACING = Path(__file__).parents[1] / "files" / "pacing"
PARENT = "mlflow.parentRunId"


@dataclass
class Run:
    """`points`: metric, step, value as text (of NaN, none is as another) and time. `files`: at the top."""

    name: str
    tags: dict[str, str]
    start: int
    end: int | None
    status: str
    params: dict[str, str]
    points: set[tuple[str, int, str, int]] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def metric(self, name: str) -> list[tuple[int, float]]:
        return sorted((step, float(value)) for key, step, value, _ in self.points if key == name)


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


def journal_of(folder: Path, events: list[Any]) -> Path:
    """A search's journal, beside the files that the recorded one names."""
    copytree(PACING, folder, ignore=ignore_patterns(FILE), dirs_exist_ok=True)
    with Journal(folder) as journal:
        for event in events:
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


def delivered(journal: Path, uri: str, client: MlflowClient | None = None) -> None:
    """Sends the whole journal in this thread."""
    with Journal(journal.parent) as opened:
        mirror = Mirror(opened, uri, client or connect(uri))
        while mirror.step():
            pass


def caught_up(journal: Path, uri: str, timeout: float = 60.0) -> int:
    """Sends the journal as a session does, which then ends; returns what remains unsent."""
    with own_environment(), Journal(journal.parent) as opened:
        writer = MlflowWriter(opened, uri, poll=0.1)
        writer.start()
        return writer.close(timeout)


def promised(folder: Path) -> dict[str, Run]:
    """What MLflow holds of the recorded search, whatever happened on the way."""
    uri = resolve_tracking_uri(fresh_database(folder / "promised"))
    delivered(journal_of(folder / "promised" / "pacing", recorded("promised")), uri)
    return in_mlflow(uri, "promised")


def runs_of(client: MlflowClient, space: str) -> list[Any]:
    experiment = client.get_experiment_by_name(space)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def in_mlflow(uri: str, space: str) -> dict[str, Run]:
    """Everything that MLflow holds of an experiment by name of run, with the tags that tune_cl promises, and the
    parent's name for its id. Fails where a run is there twice, or a step of a metric."""
    client = MlflowClient(tracking_uri=uri)
    entries = runs_of(client, space)
    names = {entry.info.run_id: entry.info.run_name for entry in entries}
    assert len(set(names.values())) == len(names), f"a run twice: {sorted(names.values())}"
    runs = {}
    for entry in entries:
        info, data = entry.info, entry.data
        tags = {key.removeprefix("tune_cl."): value for key, value in data.tags.items() if key.startswith("tune_cl.")}
        if PARENT in data.tags:
            tags["parent"] = names[data.tags[PARENT]]
        run = Run(info.run_name, tags, info.start_time, info.end_time, info.status, data.params)
        for metric in data.metrics:
            history = client.get_metric_history(info.run_id, metric)
            assert len({point.step for point in history}) == len(history), f"a step of {metric} twice"
            run.points |= {(metric, point.step, repr(point.value), point.timestamp) for point in history}
        run.files = {file.path for file in client.list_artifacts(info.run_id)}
        runs[run.name] = run
    return runs
