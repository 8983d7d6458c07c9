"""Sends a journal's events to MLflow in order; an event that is sent several times has the effect of one.

So what was not answered is sent again. Points have the times of their events, and MLflow's SQL stores, and its servers
through them, keep one of identical points (the primary key of the table `metrics`). A run is looked for by a tag before
it is created. Only what the journal cannot lose any more (`Journal.settled`) is sent, so nothing has to be taken back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from mlflow.entities import Metric

from trainables.core.errors import DataError
from trainables.core.files import write_text
from trainables.evaluation.metrics import dev_key
from tune_cl.history.events import (
    ConfirmationEvent,
    DevReached,
    EndEvent,
    Event,
    ForecastEvent,
    ResultEvent,
    SearchEndEvent,
    SearchEvent,
    TextEvent,
    TrialEvent,
    VerdictEvent,
)
from tune_cl.history.journal import Journal, first_event, parse
from tune_cl.history.search_folder import foreign, resolve_recorded
from tune_cl.history.tracking_uri import masked
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.layout import PARENT, milliseconds
from tune_cl.tracking.logged_model import HISTORY, describe_model, scores_texts
from tune_cl.tracking.mlflow_store import Refused, RunStore

CHUNK, SECONDS = 500, 2.0  # of a step: the most events, and the time after which it saves how far it came
ATTEMPTS = 5  # to send points that MLflow takes and does not keep
BEST_CHECKPOINT = "best_checkpoint"  # the folder of the best ranker among the parent run's artifacts
log = logging.getLogger(__name__)


class Delivery:
    """Sends one journal, which must have its first event. Any error but a bug means: try again later.

    `clock`: gives seconds. Progress is saved every few seconds, so that a process without time for everything leaves
    less to the next.
    """

    def __init__(self, journal: Journal, uri: str, store: RunStore, clock: Callable[[], float] = time.monotonic):
        self.journal, self.clock = journal, clock
        self.folder = journal.path.parent
        self.store = store
        self.search = first_event(journal.path)
        target = layout.target(self.search, uri)
        self.cursor = load(journal.path, target)
        if PARENT in self.cursor.runs and not store.exists(self.cursor.runs[PARENT]):
            self.cursor = Cursor(target)  # there is another database at the old address
        self.lacked: dict[str, int] = {}  # how often points of a trial were sent, and were not there
        self.batch: list[Event] = []  # of the present step
        self.renamed = False  # whether a metric's other name has been told

    def step(self) -> bool:
        """Sends the next events, or without any the next artifact; returns whether there was anything to send."""
        events = self.next_events()
        if not events:
            return self.send_artifact()
        began, self.batch = self.clock(), [event for event, _ in events]
        try:
            for event, end in events:
                self.send(event)
                self.cursor.offset = end
                if self.clock() - began >= SECONDS:
                    break
        finally:  # after a failure too
            self.cursor.save(self.folder)
        return True

    def pending(self) -> int:
        """Number of events and artifacts not sent yet."""
        return sum(1 for _ in self.lines(self.journal.size)) + len(self.cursor.artifacts)

    def next_events(self) -> list[tuple[Event, int]]:
        """The next events from the cursor on, each with the byte after it."""
        events: list[tuple[Event, int]] = []
        end = self.cursor.offset
        for line in islice(self.lines(self.journal.settled), CHUNK):
            end += len(line)
            events.append((parse(line, f"{self.journal.path}, byte {end}"), end))
        return events

    def lines(self, end: int) -> Iterator[bytes]:
        """The journal's lines from the cursor on, up to a byte."""
        at = self.cursor.offset
        with self.journal.path.open("rb") as file:
            file.seek(at)
            while at < end and (line := file.readline()):
                at += len(line)
                yield line

    def send(self, event: Event) -> None:
        handler = HANDLERS.get(event["event"])
        if handler is not None:
            of = event["trial"] if "trial" in event else self.search["name"]
            with self.skip_refused(f"event '{event['event']}' of {of}"):
                handler(self, event)

    @contextmanager
    def skip_refused(self, what: str) -> Iterator[None]:
        """Logs what MLflow refuses for good and skips it, so that the rest still arrives."""
        try:
            yield
        except Exception as error:
            refusal = self.store.refusal(error)
            if refusal is None:
                raise
            log.warning("MLflow refuses %s: %s", what, masked(refusal))

    def run(self, key: str, name: str, tags: Callable[[], dict[str, str]], start: float) -> str:
        """Id of the key's run: from the cursor, else found by its tag, else a new one."""
        if key not in self.cursor.runs:
            name = layout.cut(name, layout.NAME_LENGTH)
            run = self.find(key) or self.store.create(self.experiment(), name, tags(), milliseconds(start))
            self.cursor.runs[key] = run
        return self.cursor.runs[key]

    def find(self, key: str) -> str | None:
        """The run with the key, if any. Of several, which a request left that was given up and came late, the one with
        values."""
        runs = self.store.tagged(self.experiment(), "tune_cl.key", layout.run_key(self.search, key))
        fullest = max(runs, key=lambda run: len(run.data.metrics), default=None)
        return fullest.info.run_id if fullest else None

    def experiment(self) -> str:
        if self.cursor.experiment is None:
            self.cursor.experiment = self.store.experiment(self.search["space"])
        return self.cursor.experiment

    def parent(self) -> str:
        """The id of the parent run."""
        return self.run(PARENT, self.search["name"], lambda: layout.search_tags(self.search), self.search["time"])

    def child(self, key: str, name: str, tags: dict[str, str], start: float) -> str:
        """The id of a run below the parent."""
        parent = {"mlflow.parentRunId": self.parent()}
        return self.run(key, name, lambda: tags | parent, start)

    def run_of(self, key: str) -> str:
        """The id of a run created before; raises Refused if MLflow refused it then."""
        if key not in self.cursor.runs:
            raise Refused("its run could not be made")
        return self.cursor.runs[key]

    def begin_search(self, event: SearchEvent) -> None:
        self.log_data(self.parent())
        path = self.folder / "search.yaml"
        if not path.exists():
            write_text(path, masked(event["yaml"]))
        self.queue_artifact(PARENT, str(path), None)
        self.store.tag_experiment(self.experiment(), *layout.view(self.search))

    def log_data(self, run: str) -> None:
        with self.skip_refused("the name of the data"):
            self.store.log_data(run, layout.data_set(self.search))

    def set_status(self, status: str) -> None:
        """Sets the status of the search and its open trials. A run that a user deleted does not stop the others."""
        for key in (PARENT, *self.cursor.open):
            with self.skip_refused(f"status of {key}"):
                self.store.set_status(self.run_of(key), status)

    def begin_trial(self, event: TrialEvent) -> None:
        key = event["trial"]
        resumed = key in self.cursor.runs
        run = self.child(key, layout.trial_name(event), layout.trial_tags(self.search, event), event["time"])
        self.store.log_params(run, layout.parameters(event["params"]))
        for curriculum in event.get("twins", ()):
            self.store.log_tags(self.run_of(curriculum), layout.tags({"twin": key}))
        if resumed:
            self.store.set_status(run, "RUNNING")
        if key not in self.cursor.open:
            self.log_data(run)
            self.cursor.open.append(key)

    def log_machine(self, event: TextEvent) -> None:
        self.store.log_tags(self.run_of(event["trial"]), layout.tags({"machine": event["text"]}))

    def log_results(self, event: ResultEvent) -> None:
        """Sends a trial's results of this step in one request. Of an iteration that is reported again after a kill, the
        first result counts."""
        key, reached = event["trial"], self.cursor.reached.get(event["trial"], 0)
        if event["iteration"] <= reached:
            return
        results: dict[int, ResultEvent] = {}
        for other in self.batch:
            if other["event"] == "result" and other["trial"] == key and other["iteration"] > reached:
                results.setdefault(other["iteration"], other)
        metrics = [point for result in results.values() for point in _points_of(result)]
        names = layout.renamed({name for result in results.values() for name in result["metrics"]})
        if names and not self.renamed:
            self.renamed = True
            log.warning("MLflow takes no such names of metrics: %s there", ", ".join(sorted(names)))
        with self.skip_refused(f"results of {key}"):
            self.store.log_metrics(self.run_of(key), metrics)
        self.cursor.reached[key] = max(results)

    def end_trial(self, event: EndEvent) -> None:
        key = event["trial"]
        if key in self.cursor.open:  # whether or not MLflow accepts the rest
            self.cursor.open.remove(key)
        run = self.run_of(key)
        self.complete(key, run)
        self.store.log_metrics(run, self.best(event.get("best"), event["time"]))
        self.store.log_tags(run, layout.tags({"outcome": event["outcome"], "reason": event.get("reason")}))
        if artifacts := event.get("artifacts"):
            self.queue_artifact(key, artifacts, None)
        self.store.finish(run, layout.STATUS.get(event["outcome"], "FINISHED"), milliseconds(event["time"]))

    def complete(self, key: str, run: str) -> None:
        """Sends a trial's points again if a server lacks some that it took: what stands before it, or a server in
        trouble, may answer a request without doing it. Raises ConnectionError, a few times, if it still lacks some."""
        name = layout.metric_name(dev_key(self.search["metric"]))
        if not self.store.remote or len(self.store.steps(run, name)) >= self.cursor.reached.get(key, 0):
            return
        results: dict[int, ResultEvent] = {}
        for event in self.journal.events():
            if event["event"] == "result" and event["trial"] == key and event["iteration"] <= self.cursor.reached[key]:
                results.setdefault(event["iteration"], event)
        self.store.log_metrics(run, [one for event in results.values() for one in _points_of(event)])
        if lacking := results.keys() - self.store.steps(run, name):
            self.lacked[key] = self.lacked.get(key, 0) + 1
            if self.lacked[key] < ATTEMPTS:
                raise ConnectionError(f"MLflow lacks {len(lacking)} points of {key} that it took")
            log.warning("MLflow lacks %d points of %s that it took %d times", len(lacking), key, ATTEMPTS)

    def end_search(self, event: SearchEndEvent) -> None:
        run, best = self.run_of(PARENT), event["best"]
        self.store.log_metrics(run, self.best(best, event["time"]))
        cost = event["cost"] | {"seconds": event["seconds"]}
        values = {"best_trial": best and best["trial_id"], "cost": cost}
        self.store.log_tags(run, layout.tags(values) | {"mlflow.note.content": layout.summary(self.search, event)})
        if checkpoint := event.get("checkpoint"):
            self.queue_artifact(PARENT, checkpoint, BEST_CHECKPOINT)
        self.store.finish(run, "FINISHED", milliseconds(event["time"]))
        self.delete_duplicates()

    def best(self, best: DevReached | None, when: float) -> list[Metric]:
        """The single value by which whole runs are compared, if there is one."""
        if not best:
            return []
        return [Metric(layout.best_name(self.search), best["dev"], milliseconds(when), best["iteration"])]

    def confirm(self, event: ConfirmationEvent) -> None:
        key = layout.confirmation_key(event)
        start = event["time"] - event["metrics"].get("seconds", 0)
        run = self.child(key, layout.confirmation_name(event), layout.confirmation_tags(self.search, event), start)
        self.store.log_params(run, layout.parameters(event["params"]))
        self.store.log_metrics(run, points(event["metrics"], event["time"], 0))
        if artifacts := event.get("artifacts"):
            self.queue_artifact(key, artifacts, None)
        self.store.finish(run, "FINISHED", milliseconds(event["time"]))

    def log_verdict(self, event: VerdictEvent) -> None:
        """Tags and description of the parent run, and a run for each configuration with its mean, SD and number of
        trainings."""
        low, high = event["ci95"] or (None, None)
        found = {key: event[key] for key in ("verdict", "difference", "p", "opponent")}
        found |= {"ci95": None if low is None else f"{low:+.4f} to {high:+.4f}", "verdict_split": event["split"]}
        description = {"mlflow.note.content": event["description"]}
        self.store.log_tags(self.run_of(PARENT), layout.tags(found) | description)
        for row in event["configurations"]:
            key, name, tags = layout.compared_run(self.search, event["split"], row)
            run = self.child(key, name, tags, event["time"])
            self.store.log_params(run, layout.parameters(row["params"]))
            values = layout.summary_of(row["values"], event["split"], self.search["metric"])
            self.store.log_metrics(run, points(values, event["time"], len(row["values"])))
            self.store.finish(run, "FINISHED", milliseconds(event["time"]))

    def log_forecast(self, event: ForecastEvent) -> None:
        forecast = {key: value for key, value in event.items() if key not in ("event", "time")}
        self.store.log_tags(self.run_of(PARENT), layout.tags({"forecast": forecast}))

    def queue_artifact(self, key: str, path: str, folder: str | None) -> None:
        if (key, path, folder) not in self.cursor.artifacts:
            self.cursor.artifacts.append((key, path, folder))

    def send_artifact(self) -> bool:
        """Copies the first artifact of the queue; returns whether there was one. No metric waits for an artifact, and
        one that fails moves to the end of the queue, so that it does not hold up the others."""
        if not self.cursor.artifacts:
            return False
        key, path, folder = artifact = self.cursor.artifacts.pop(0)
        try:
            with self.skip_refused(path):
                self.copy(self.run_of(key), self.artifact_path(path), folder)
        except BaseException:
            self.cursor.artifacts.append(artifact)
            raise
        finally:
            self.cursor.save(self.folder)
        return True

    def copy(self, run: str, path: Path, folder: str | None) -> None:
        if folder == BEST_CHECKPOINT and scores_texts(path):
            self.store.log_tags(run, {HISTORY: describe_model(path, run, folder)})
        self.store.log_artifact(run, path, folder)

    def artifact_path(self, recorded: str) -> Path:
        """An artifact's path. Raises Refused for one that is gone, or that is not of this search, links resolved."""
        try:
            here = resolve_recorded(recorded, self.folder)
        except DataError as elsewhere:
            raise Refused(elsewhere.problems[0].wrong) from None
        if not here.exists():
            raise Refused("it is not there any more")
        if problem := next(foreign(here, self.folder), None):
            raise Refused(f"{problem.location} is {problem.wrong}")
        return here

    def delete_duplicates(self) -> None:
        """Deletes empty runs that were created twice because the answer to a request was lost."""
        runs = {layout.run_key(self.search, key): run for key, run in self.cursor.runs.items()}
        for run in self.store.tagged(self.experiment(), "tune_cl.search_id", layout.search_id(self.search)):
            if runs.get(run.data.tags["tune_cl.key"], run.info.run_id) != run.info.run_id:
                self.store.delete(run.info.run_id)


def points(metrics: Mapping[str, float], when: float, step: int) -> list[Metric]:
    """The metrics of an event at a step. They have the event's time: sent again, they are the same."""
    return [Metric(layout.metric_name(name), value, milliseconds(when), step) for name, value in metrics.items()]


def _points_of(result: ResultEvent) -> list[Metric]:
    return points(result["metrics"], result["time"], result["iteration"])


HANDLERS: dict[str, Callable[[Delivery, Any], None]] = {
    "search": Delivery.begin_search,
    "session": lambda delivery, _: delivery.set_status("RUNNING"),
    "interrupted": lambda delivery, _: delivery.set_status("KILLED"),
    "forecast": Delivery.log_forecast,
    "trial": Delivery.begin_trial,
    "machine": Delivery.log_machine,
    "result": Delivery.log_results,
    "end": Delivery.end_trial,
    "search_end": Delivery.end_search,
    "confirmation": Delivery.confirm,
    "verdict": Delivery.log_verdict,
    "artifact": lambda delivery, event: delivery.queue_artifact(PARENT, event["path"], None),
}
