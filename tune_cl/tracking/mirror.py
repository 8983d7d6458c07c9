"""Brings MLflow's runs to what a journal says.

The record beside the journal says how much of it has been sent. After a failure or a kill, what follows is sent again,
which changes nothing: runs are looked up before any is made, points have the time of their event, and MLflow's stores
keep one of identical points (the primary key of the table `metrics`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD
from mlflow.tracking import MlflowClient

from trainables.core.files import write_text
from tune_cl.history.journal import Event, Journal, event_of, first_event
from tune_cl.history.search_folder import resolve_recorded
from tune_cl.history.tracking_uri import artifact_location, masked
from tune_cl.tracking import layout
from tune_cl.tracking.layout import PARENT, milliseconds
from tune_cl.tracking.logged_model import describe_model, scores_texts
from tune_cl.tracking.record import Record, read_record
from tune_cl.tracking.store import experiment_id, refusal

CHUNK = 100  # the most events of a step
BATCH = 100  # parameters or tags that MLflow takes in one request; of metrics it takes more
BEST_CHECKPOINT = "best_checkpoint"  # the folder of the best ranker among the parent run's artifacts
log = logging.getLogger(__name__)


class Mirror:
    """Sends one journal, which must have its first event, to the store of `client` at the address `uri`. Any error but
    a bug means: try again later.

    is_current  whether `runs` is all that MLflow has
    offset      bytes of the journal that have been sent
    runs        run ids by key
    open        keys of runs that have not ended
    points      of this step, by key
    """

    def __init__(self, journal: Journal, uri: str, client: MlflowClient):
        self.journal, self.uri, self.client = journal, uri, client
        self.folder = journal.path.parent
        self.search = first_event(journal.path)
        self.refused: set[str] = set()  # what MLflow refuses for good, each logged once
        self.is_current, self.offset, self.experiment = False, 0, ""
        self.runs: dict[str, str] = {}
        self.open: list[str] = []
        self.points: dict[str, list[Metric]] = {}

    def step(self) -> bool:
        """Sends the next events; returns whether there were any."""
        if not self.is_current:
            self.look_up()
        lines = list(islice(self.lines(), CHUNK))
        self.is_current = False  # until all has gone well: the answer to a request may be lost
        for line in lines:
            event = event_of(line)
            if event and (handler := HANDLERS.get(event["event"])):
                with self.skip_refused(f"event '{event['event']}' of {event.get('trial', self.search['name'])}"):
                    handler(self, event)
        for key in list(self.points):
            self.send_points(key)
        self.offset += sum(map(len, lines))
        self.is_current = True
        if lines:
            self.write_record()
        return bool(lines)

    def look_up(self) -> None:
        """Reads which runs MLflow has of the search. Without its parent run, all is sent from the first event on."""
        artifacts = artifact_location(self.uri, self.folder.parent)
        self.experiment = experiment_id(self.client, self.search["space"], artifacts)
        where = f"tags.`tune_cl.search_id` = '{layout.search_id(self.search)}'"
        found = self.client.search_runs([self.experiment], where, max_results=SEARCH_MAX_RESULTS_THRESHOLD)
        self.runs, self.open, self.points = {}, [], {}
        for run in found:
            key = run.data.tags["tune_cl.key"].partition("/")[2]
            if key in self.runs:  # the answer to a request was lost, and both were made
                self.client.delete_run(run.info.run_id)
                continue
            self.runs[key] = run.info.run_id
            if run.info.status in ("RUNNING", "KILLED"):
                self.open.append(key)
        record = read_record(self.folder, self.uri)
        self.offset = record.sent if record and record.run_id == self.runs.get(PARENT) else 0

    def write_record(self) -> None:
        if run := self.runs.get(PARENT):
            Record(tracking_uri=masked(self.uri), run_id=run, sent=self.offset).write(self.folder)

    def lines(self) -> Iterator[bytes]:
        """The journal's lines that have not been sent; a line behind its size may still be removed."""
        rest = self.journal.size - self.offset
        with self.journal.path.open("rb") as file:
            file.seek(self.offset)
            while rest > 0 and (line := file.readline()):
                rest -= len(line)
                yield line

    @contextmanager
    def skip_refused(self, what: str) -> Iterator[None]:
        """Logs what MLflow refuses for good and skips it, so that the rest still arrives."""
        try:
            yield
        except Exception as error:
            reason = refusal(error, self.uri)
            if reason is None:
                raise
            if what not in self.refused:
                log.warning("MLflow refuses %s: %s", what, masked(reason))
            self.refused.add(what)

    # -- requests ------------------------------------------------------------------------------------------------

    def begin_run(self, key: str, name: str, tags: Mapping[str, str], start: float) -> str:
        """The id of the key's run, which is made if it is missing: the search's, or below it."""
        if key not in self.runs:
            parent = {"mlflow.parentRunId": self.runs[PARENT]} if PARENT in self.runs else {}
            name = layout.cut(name, layout.NAME_LENGTH)
            run = self.client.create_run(self.experiment, milliseconds(start), {**tags, **parent}, name)
            self.runs[key] = run.info.run_id
            self.open.append(key)
        return self.runs[key]

    def send(
        self,
        run: str,
        metrics: Iterable[Metric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Metrics, parameters and tags, in as many requests as MLflow's limits ask for."""
        points = list(metrics)
        values = [Param(*pair) for pair in (params or {}).items()]
        words = [RunTag(*pair) for pair in (tags or {}).items()]
        while points or values or words:
            self.client.log_batch(run, points[:BATCH], values[:BATCH], words[:BATCH], synchronous=True)
            points, values, words = points[BATCH:], values[BATCH:], words[BATCH:]

    def send_points(self, key: str) -> None:
        if (metrics := self.points.pop(key, None)) and key in self.runs:
            with self.skip_refused(f"results of {key}"):
                self.send(self.runs[key], metrics)

    def send_artifact(self, key: str, recorded: str, folder: str | None = None) -> None:
        """Copies a file, or everything in a folder, to the key's run."""
        path = resolve_recorded(recorded, self.folder)
        if not path.exists():
            log.warning("%s is not there any more, so MLflow lacks it", path)
        elif key in self.runs:
            if folder == BEST_CHECKPOINT and scores_texts(path):
                describe_model(path)
            copy = self.client.log_artifacts if path.is_dir() else self.client.log_artifact
            with self.skip_refused(recorded):
                copy(self.runs[key], str(path), folder)

    def finish(self, key: str, when: float, status: str = "FINISHED") -> None:
        self.client.set_terminated(self.runs[key], status, milliseconds(when))
        self.open = [one for one in self.open if one != key]

    def best(self, best: Mapping[str, Any] | None, when: float) -> list[Metric]:
        """The single value by which whole runs are compared, if there is one."""
        if not best:
            return []
        return [Metric(layout.best_name(self.search), best["dev"], milliseconds(when), best["iteration"])]

    # -- events --------------------------------------------------------------------------------------------------

    def begin_search(self, event: Event) -> None:
        path = self.folder / "search.yaml"
        if not path.exists():
            write_text(path, masked(event["yaml"]))
        self.begin_run(PARENT, event["name"], layout.search_tags(event), event["time"])
        self.send_artifact(PARENT, str(path))

    def set_status(self, event: Event) -> None:
        """Of the search and its open trials."""
        status = "KILLED" if event["event"] == "interrupted" else "RUNNING"
        for key in self.open:
            self.client.update_run(self.runs[key], status)

    def begin_trial(self, event: Event) -> None:
        key = event["trial"]
        name, tags = layout.trial_name(event), layout.trial_tags(self.search, event)
        run = self.begin_run(key, name, tags, event["time"])
        self.client.update_run(run, "RUNNING")  # if it goes on
        self.send(run, params=layout.parameters(event["params"]))
        curriculum = event.get("twin") if event["arm"] == "plain" else None
        if curriculum in self.runs:
            self.send(self.runs[curriculum], tags=layout.tags({"twin": key}))

    def log_machine(self, event: Event) -> None:
        if event["trial"] in self.runs:
            self.send(self.runs[event["trial"]], tags=layout.tags({"machine": event["text"]}))

    def log_result(self, event: Event) -> None:
        found = points(event["metrics"], event["time"], event["iteration"])
        self.points.setdefault(event["trial"], []).extend(found)

    def end_trial(self, event: Event) -> None:
        key = event["trial"]
        if key not in self.runs:
            return
        if path := event.get("artifacts"):
            self.send_artifact(key, path)
        self.send_points(key)
        tags = layout.tags({"outcome": event["outcome"], "reason": event.get("reason")})
        self.send(self.runs[key], self.best(event.get("best"), event["time"]), tags=tags)
        self.finish(key, event["time"], "FAILED" if event["outcome"] == "failed" else "FINISHED")

    def end_search(self, event: Event) -> None:
        if PARENT not in self.runs:
            return
        if path := event.get("checkpoint"):
            self.send_artifact(PARENT, path, BEST_CHECKPOINT)
        best = event["best"]
        values = {"best_trial": best and best["trial_id"], "cost": event["cost"] | {"seconds": event["seconds"]}}
        tags = layout.tags(values) | {"mlflow.note.content": layout.summary(self.search, event)}
        self.send(self.runs[PARENT], self.best(best, event["time"]), tags=tags)
        self.finish(PARENT, event["time"])

    def log_confirmation(self, event: Event) -> None:
        key = layout.confirmation_key(event)
        start = event["time"] - event["metrics"].get("seconds", 0)
        name, tags = layout.confirmation_name(event), layout.confirmation_tags(self.search, event)
        run = self.begin_run(key, name, tags, start)
        self.send(run, points(event["metrics"], event["time"], 0), params=layout.parameters(event["params"]))
        if path := event.get("artifacts"):
            self.send_artifact(key, path)
        self.finish(key, event["time"])

    def log_verdict(self, event: Event) -> None:
        """Tags and description of the parent run, and a run for each configuration that was compared."""
        values = {key: event[key] for key in ("verdict", "difference", "p", "opponent")}
        values["verdict_split"] = event["split"]
        if event["ci95"]:
            low, high = event["ci95"]
            values["ci95"] = f"{low:+.4f} to {high:+.4f}"
        if PARENT in self.runs:
            tags = layout.tags(values) | {"mlflow.note.content": event["description"]}
            self.send(self.runs[PARENT], tags=tags)
        for compared in event["configurations"]:
            key = layout.configuration_key(event, compared["label"])
            name = f"{compared['roles']}: {compared['label']}"
            run = self.begin_run(key, name, layout.configuration_tags(self.search, key, compared), event["time"])
            values = layout.over_seeds(compared["values"], f"{event['split']}_{self.search['metric']}")
            metrics = points(values, event["time"], len(compared["values"]))
            self.send(run, metrics, params=layout.parameters(compared["params"]))
            self.finish(key, event["time"])

    def log_file(self, event: Event) -> None:
        self.send_artifact(PARENT, event["path"], event.get("folder"))


def points(metrics: Mapping[str, float], when: float, step: int) -> list[Metric]:
    """The metrics of an event at a step. They have the event's time: sent again, they are the same."""
    return [Metric(layout.metric_name(name), value, milliseconds(when), step) for name, value in metrics.items()]


HANDLERS: dict[str, Callable[[Mirror, Event], None]] = {
    "search": Mirror.begin_search,
    "session": Mirror.set_status,
    "interrupted": Mirror.set_status,
    "trial": Mirror.begin_trial,
    "machine": Mirror.log_machine,
    "result": Mirror.log_result,
    "end": Mirror.end_trial,
    "search_end": Mirror.end_search,
    "confirmation": Mirror.log_confirmation,
    "verdict": Mirror.log_verdict,
    "artifact": Mirror.log_file,
}
