"""Sends a journal's events to MLflow in order; an event that is sent several times has the effect of one.

Three rules ensure one run for each trial, no gaps and no duplicates. The cursor moves past events only after all of
them were sent. Before a run is created, it is searched for by a tag. Where a batch may have arrived without an answer
(after a start or a failure, up to the byte `maybe_sent` of the journal), points that the run already has are left out.
A machine that was lost may have sent events that never reached the next one's journal (`Journal.complete` is false):
then a run is compared with MLflow until it has none of the points of a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from mlflow.entities import Metric

from trainables.core.errors import DataError
from trainables.core.files import write_text
from tune_cl.history.journal import Event, Journal, parse
from tune_cl.history.search_folder import foreign, resolve_recorded
from tune_cl.history.tracking_uri import masked
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.layout import PARENT, milliseconds
from tune_cl.tracking.logged_model import HISTORY, describe_model, scores_texts
from tune_cl.tracking.mlflow_store import Refused, RunStore

CHUNK, SECONDS = 500, 2.0  # of a step: the most events, the time for taking them in, and that between saves
COMPARED = 250  # the length of a parameter that every server stores
Params = Mapping[str, str]
NONE: Params = {}
BEST_CHECKPOINT = "best_checkpoint"  # the folder of the best ranker among the parent run's artifacts
log = logging.getLogger(__name__)


class Delivery:
    """Sends one journal, which must have its first event. Any error but a bug means: try again later.

    `clock`: gives seconds. If MLflow is slow, progress is saved every few seconds, so that a process without time for
    everything leaves less to the next.
    """

    def __init__(self, journal: Journal, uri: str, store: RunStore, clock: Callable[[], float] = time.monotonic):
        self.journal, self.clock = journal, clock
        self.folder = journal.path.parent
        self.store = store
        self.search = next(journal.events())
        self.maybe_sent = journal.size
        target = layout.target(self.search, uri)
        self.cursor = load(journal.path, target)
        if PARENT in self.cursor.runs and not store.exists(self.cursor.runs[PARENT]):
            self.cursor = Cursor(target)  # there is another database at the old address
        self.buffer: dict[str, dict[int, Event]] = {}
        self.saved_at = clock()
        self.chunk = CHUNK
        """The most events of the next step."""
        self.without_points: set[str] = set()
        """Keys of runs that have none of the points still to be sent."""

    def step(self) -> bool:
        """Sends the next events, or if there are none the artifacts owed; returns whether there was anything to send.

        After a failure fewer events are sent at once: where every tenth request fails, a long step would never end.
        """
        events = self.next_events()
        if not events:
            return self.send_owed()
        try:
            end = self.send(events)
        except BaseException:
            self.maybe_sent = max(self.maybe_sent, events[-1][1])
            self.buffer.clear()
            self.chunk = max(1, self.chunk // 4)
            raise
        self.chunk = min(CHUNK, self.chunk * 2)
        self.cursor.offset = end
        self.save()
        return True

    def pending(self) -> int:
        """Number of events and artifacts not sent yet."""
        return sum(1 for _ in self.lines()) + len(self.cursor.owed)

    def next_events(self) -> list[tuple[Event, int]]:
        """The next events from the cursor on, each with the byte after it."""
        events: list[tuple[Event, int]] = []
        end = self.cursor.offset
        for line in islice(self.lines(), self.chunk):
            end += len(line)
            events.append((parse(line, f"{self.journal.path}, byte {end}"), end))
        return events

    def lines(self) -> Iterator[bytes]:
        """The journal's lines from the cursor on, up to the journal's `size`: were a later line sent and then taken
        back, the cursor would skip events written in its place."""
        at, size = self.cursor.offset, self.journal.size
        with self.journal.path.open("rb") as file:
            file.seek(at)
            while at < size and (line := file.readline()):
                at += len(line)
                yield line

    def send(self, events: list[tuple[Event, int]]) -> int:
        """Sends the events, or as many as SECONDS allow; returns the byte after the last one sent."""
        began, reached = self.clock(), self.cursor.offset
        for event, reached in events:  # noqa: B007 - read behind the loop
            handler = HANDLERS.get(event["event"])
            if handler is not None:
                with self.skip_refused(f"event '{event['event']}' of {event.get('trial', self.search['name'])}"):
                    handler(self, event)
            if self.clock() - began >= SECONDS:
                break
        self.flush_all()
        return reached

    @contextmanager
    def skip_refused(self, what: str) -> Iterator[None]:
        """Logs what MLflow refuses for good and skips it, so that the rest still arrives."""
        try:
            yield
        except Refused as refusal:
            log.warning("MLflow refuses %s: %s", what, masked(str(refusal)))

    def may_have(self, key: str) -> bool:
        """Whether MLflow may already have the next events of a run."""
        incomplete = not self.journal.complete and key not in self.without_points
        return self.cursor.offset < self.maybe_sent or incomplete

    def save(self) -> None:
        self.cursor.save(self.folder)
        self.saved_at = self.clock()

    def save_now_and_then(self) -> None:
        """Saves progress within events that the cursor has not passed, every SECONDS."""
        if self.clock() - self.saved_at >= SECONDS:
            self.save()

    def run(self, key: str, name: str, tags: Callable[[], dict[str, str]], start: float, params: Params = NONE) -> str:
        """Id of the key's run: from the cursor, else found by its tag, else a new one."""
        if key not in self.cursor.runs:
            existing = self.find(key, params) if self.may_have(key) else None
            name = layout.cut(name, layout.NAME_LENGTH)
            self.cursor.runs[key] = existing or self.store.create(self.experiment(), name, tags(), milliseconds(start))
            if not existing:
                self.without_points.add(key)
        return self.cursor.runs[key]

    def find(self, key: str, params: Params) -> str | None:
        """A run with the key and these parameters, if any. One with other values is deleted: it belongs to a trial of a
        lost machine that is not in this journal."""
        runs = self.store.tagged(self.experiment(), "tune_cl.key", layout.run_key(self.search, key))
        matching = []
        for run in runs:
            if any(run.data.params.get(name, value)[:COMPARED] != value[:COMPARED] for name, value in params.items()):
                self.store.delete(run.info.run_id)
            else:
                matching.append(run)
        fullest = max(matching, key=lambda run: len(run.data.metrics), default=None)
        return fullest.info.run_id if fullest else None

    def experiment(self) -> str:
        if self.cursor.experiment is None:
            self.cursor.experiment = self.store.experiment(self.search["space"])
        return self.cursor.experiment

    def parent(self) -> str:
        """The id of the parent run."""
        return self.run(PARENT, self.search["name"], lambda: layout.search_tags(self.search), self.search["time"])

    def child(self, key: str, name: str, tags: dict[str, str], start: float, params: Params = NONE) -> str:
        """The id of a run below the parent."""
        parent = {"mlflow.parentRunId": self.parent()}
        return self.run(key, name, lambda: tags | parent, start, params)

    def run_of(self, key: str) -> str:
        """The id of a run created before; raises Refused if MLflow refused it then."""
        if key not in self.cursor.runs:
            raise Refused("its run could not be made")
        return self.cursor.runs[key]

    def begin_search(self, event: Event) -> None:
        self.log_data(self.parent())
        path = self.folder / "search.yaml"
        if not path.exists():
            write_text(path, masked(event["yaml"]))
        self.owe(PARENT, str(path), None)
        self.store.tag_experiment(self.experiment(), *layout.view(self.search))

    def log_data(self, run: str) -> None:
        with self.skip_refused("the name of the data"):
            self.store.log_data(run, layout.data_set(self.search))

    def begin_session(self, _: Event) -> None:
        self.set_status("RUNNING")

    def interrupt(self, _: Event) -> None:
        self.flush_all()
        self.set_status("KILLED")

    def set_status(self, status: str) -> None:
        """Sets the status of the search and its open trials. A run that a user deleted does not stop the others."""
        for key in (PARENT, *self.cursor.open):
            with self.skip_refused(f"status of {key}"):
                self.store.set_status(self.run_of(key), status)

    def begin_trial(self, event: Event) -> None:
        key = event["trial"]
        resumed, params = key in self.cursor.runs, layout.parameters(event["params"])
        run = self.child(key, layout.trial_name(event), layout.trial_tags(self.search, event), event["time"], params)
        self.store.log_params(run, params)
        if resumed:
            self.store.set_status(run, "RUNNING")
        else:
            self.log_data(run)
        if key not in self.cursor.open:
            self.cursor.open.append(key)

    def log_machine(self, event: Event) -> None:
        self.store.log_tags(self.run_of(event["trial"]), layout.tags({"machine": event["text"]}))

    def buffer_result(self, event: Event) -> None:
        """Adds a result to the batch, unless it was sent before a kill and is reported again."""
        key = event["trial"]
        if event["iteration"] > self.cursor.reached.get(key, 0):
            self.buffer.setdefault(key, {}).setdefault(event["iteration"], event)

    def flush(self, key: str, *more: Metric) -> None:
        """Sends a trial's results from the batch, and `more` points of its run."""
        results = self.buffer.pop(key, {})
        metrics = [point for event in results.values() for point in points(event["metrics"], event)]
        if metrics or more:
            self.log(key, [*metrics, *more])
        if results:
            self.cursor.reached[key] = max(results)
            self.save_now_and_then()

    def log(self, key: str, metrics: list[Metric]) -> None:
        if self.store.log_metrics(self.run_of(key), metrics, self.may_have(key)):
            self.without_points.add(key)

    def flush_all(self) -> None:
        for key in list(self.buffer):
            with self.skip_refused(f"results of {key}"):
                self.flush(key)

    def end_trial(self, event: Event) -> None:
        key = event["trial"]
        if key in self.cursor.open:  # whether or not MLflow accepts the rest
            self.cursor.open.remove(key)
        self.flush(key, *self.best(event.get("best"), event["time"]))
        run = self.run_of(key)
        values = {"outcome": event["outcome"], "reason": event.get("reason")}
        self.store.log_tags(run, layout.tags(values))
        if event.get("artifacts"):
            self.owe(key, event["artifacts"], None)
        self.store.finish(run, layout.STATUS.get(event["outcome"], "FINISHED"), milliseconds(event["time"]))

    def end_search(self, event: Event) -> None:
        run, best = self.run_of(PARENT), event["best"] or {}
        self.flush(PARENT, *self.best(best, event["time"]))
        values = {"best_trial": best.get("trial_id"), "cost": event["cost"] | {"seconds": event["seconds"]}}
        self.store.log_tags(run, layout.tags(values) | {"mlflow.note.content": layout.summary(self.search, event)})
        if event.get("checkpoint"):
            self.owe(PARENT, event["checkpoint"], BEST_CHECKPOINT)
        self.store.finish(run, "FINISHED", milliseconds(event["time"]))
        self.delete_duplicates()

    def best(self, best: Event | None, when: float) -> list[Metric]:
        """The single value by which whole runs are compared, if there is one."""
        if not best:
            return []
        return [Metric(layout.best_name(self.search), best["dev"], milliseconds(when), best["iteration"])]

    def confirm(self, event: Event) -> None:
        key = layout.confirmation_key(event)
        start = event["time"] - event["metrics"].get("seconds", 0)
        run = self.child(key, layout.confirmation_name(event), layout.confirmation_tags(self.search, event), start)
        self.store.log_params(run, layout.parameters(event["params"]))
        self.log(key, points(event["metrics"], event | {"iteration": 0}))
        if event.get("artifacts"):
            self.owe(key, event["artifacts"], None)
        self.store.finish(run, "FINISHED", milliseconds(event["time"]))

    def log_look(self, event: Event) -> None:
        """A point of the parent run at as many steps as there were seeds."""
        names = ("difference", "p_new", "boundary")
        values = {f"confirm_{event['split']}_{name}": event[name] for name in names}
        self.log(PARENT, points(values, event | {"iteration": event["seeds"]}))

    def log_forecast(self, event: Event) -> None:
        forecast = {key: value for key, value in event.items() if key not in ("event", "time")}
        self.store.log_tags(self.run_of(PARENT), layout.tags({"forecast": forecast}))

    def queue_artifact(self, event: Event) -> None:
        self.owe(PARENT, event["path"], None)

    def owe(self, key: str, path: str, folder: str | None) -> None:
        if (key, path, folder) not in self.cursor.owed:
            self.cursor.owed.append((key, path, folder))

    def send_owed(self) -> bool:
        """Copies artifacts; returns whether there were any. Their queue is separate, so that no metric waits for them;
        one that fails moves to the end, so that it does not hold up the others."""
        owed = list(self.cursor.owed)
        for key, path, folder in owed:
            try:
                with self.skip_refused(path):
                    here = self.artifact_path(path)
                    run = self.run_of(key)
                    if folder == BEST_CHECKPOINT and scores_texts(here):
                        self.store.log_tags(run, {HISTORY: describe_model(here, run, folder)})
                    self.store.log_artifact(run, here, folder)
            except Exception:
                self.cursor.owed.append(self.cursor.owed.pop(0))  # the next attempt begins with another one
                self.save()
                raise
            self.cursor.owed.remove((key, path, folder))
            self.save_now_and_then()
        if owed:
            self.save()
        return bool(owed)

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
        own = {layout.run_key(self.search, key): run for key, run in self.cursor.runs.items()}
        for run in self.store.tagged(self.experiment(), "tune_cl.search_id", layout.search_id(self.search)):
            if own.get(run.data.tags["tune_cl.key"], run.info.run_id) != run.info.run_id:
                self.store.delete(run.info.run_id)


def points(metrics: dict[str, float], event: Event) -> list[Metric]:
    """The metrics of one event at its iteration. They have the event's time, so that a point sent twice is the same."""
    when, step = milliseconds(event["time"]), event["iteration"]
    return [Metric(layout.metric_name(name), value, when, step) for name, value in metrics.items()]


HANDLERS: dict[str, Callable[[Delivery, Event], None]] = {
    "search": Delivery.begin_search,
    "session": Delivery.begin_session,
    "interrupted": Delivery.interrupt,
    "forecast": Delivery.log_forecast,
    "trial": Delivery.begin_trial,
    "machine": Delivery.log_machine,
    "result": Delivery.buffer_result,
    "end": Delivery.end_trial,
    "search_end": Delivery.end_search,
    "confirmation": Delivery.confirm,
    "look": Delivery.log_look,
    "artifact": Delivery.queue_artifact,
}
