"""Sends a journal's events to MLflow: what its runs lack, by comparing them with the journal.

`Delivery.compare` reads which runs the store has; the events are then sent from the first one on, without those of runs
that have their end. An event that is sent again changes nothing: its points have its time, and MLflow's stores keep one
of identical points (the primary key of the table `metrics`). So after an error of any kind it simply compares again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Metric, Run

from trainables.core.files import write_text
from tune_cl.history.events import (
    ArtifactEvent,
    ConfirmationEvent,
    DevReached,
    EndEvent,
    Event,
    InterruptedEvent,
    ResultEvent,
    SearchEndEvent,
    SearchEvent,
    SessionEvent,
    TextEvent,
    TrialEvent,
    VerdictEvent,
)
from tune_cl.history.journal import Journal, event_of, first_event
from tune_cl.history.search_folder import resolve_recorded
from tune_cl.history.tracking_uri import masked
from tune_cl.tracking import layout
from tune_cl.tracking.layout import PARENT, milliseconds
from tune_cl.tracking.logged_model import HISTORY, describe_model, scores_texts
from tune_cl.tracking.store import RunStore

CHUNK = 500  # the most events of a step
BEST_CHECKPOINT = "best_checkpoint"  # the folder of the best ranker among the parent run's artifacts
ENDED = ("FINISHED", "FAILED")  # statuses of a run that has all of its trial
ARTIFACTS = "tune_cl.artifacts"  # the tag with how many of the journal's artifacts a run has
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Artifact:
    """A file or folder to be copied to a run. `number`: counts those of the run, from 1."""

    key: str
    path: str
    folder: str | None
    number: int


class Delivery:
    """Sends one journal, which must have its first event. Any error but a bug means: try again later."""

    def __init__(self, journal: Journal, store: RunStore):
        self.journal, self.store = journal, store
        self.folder = journal.path.parent
        self.search = first_event(journal.path)
        self.experiment = ""
        self.refused: set[str] = set()
        """What MLflow refuses for good, each logged once."""
        self.compared = False
        self._forget()

    def _forget(self) -> None:
        self.offset = 0  # bytes of the journal that have been sent
        self.runs: dict[str, str] = {}  # run ids by key
        self.deleted: set[str] = set()  # keys of runs that the user moved to the trash
        self.ended: dict[str, int] = {}  # when a run's end was, in milliseconds, by key
        self.status: dict[str, str] = {}  # of runs, by key: in MLflow, and as it is to be
        self.wanted: dict[str, str] = {}
        self.has_artifacts: dict[str, int] = {}  # how many a run has, by key
        self.artifact_counts: dict[str, int] = {}  # how many the journal names so far
        self.artifacts: list[Artifact] = []  # yet to be copied
        self.reached: dict[str, int] = {}  # last iteration, by key
        self.points: dict[str, list[Metric]] = {}  # of this step, by key

    def compare(self) -> None:
        """Reads what MLflow has of the search."""
        self.experiment = self.store.experiment(self.search["space"])
        every = self.store.tagged(self.experiment, "tune_cl.search_id", layout.search_id(self.search))
        self._forget()
        runs: dict[str, Run] = {}
        for run in every:
            key = run.data.tags["tune_cl.key"].partition("/")[2]
            if run.info.lifecycle_stage == "deleted":
                self.deleted.add(key)
            elif key not in runs:
                runs[key] = run
            else:  # two: the answer to a request was lost, and both were made
                empty, runs[key] = sorted((runs[key], run), key=lambda one: len(one.data.metrics))
                self.store.delete(empty.info.run_id)
        for key, run in runs.items():
            self.runs[key], self.status[key] = run.info.run_id, run.info.status
            self.has_artifacts[key] = int(run.data.tags.get(ARTIFACTS, 0))
            if run.info.status in ENDED:
                self.ended[key] = run.info.end_time or 0
        self.deleted -= runs.keys()
        self.compared = True

    def step(self) -> bool:
        """Sends the next events, or without any the next artifact; returns whether there was anything to send."""
        if not self.compared:
            self.compare()
        events, end = self.next_events()
        if not events:
            return self.send_artifact()
        self.compared = False  # until all has gone well
        for event in events:
            if handler := HANDLERS.get(event["event"]):
                with self.skip_refused(f"event '{event['event']}' of {event.get('trial', self.search['name'])}"):
                    handler(self, event)
        for key in list(self.points):
            self.send_points(key)
        self.send_statuses()
        self.offset, self.compared = end, True
        return True

    def next_events(self) -> tuple[list[Event], int]:
        """The next events, and the byte after them."""
        events: list[Event] = []
        end = self.offset
        for line in self.lines():
            end += len(line)
            if event := event_of(line):
                events.append(event)
            if len(events) == CHUNK:
                break
        return events, end

    def lines(self) -> Iterator[bytes]:
        """The journal's lines that have not been sent; a line behind its size may still be removed."""
        rest = self.journal.size - self.offset
        with self.journal.path.open("rb") as file:
            file.seek(self.offset)
            while rest > 0 and (line := file.readline()):
                rest -= len(line)
                yield line

    def pending(self) -> int:
        """Number of events and artifacts not sent yet."""
        return sum(1 for _ in self.lines()) + len(self.artifacts)

    @contextmanager
    def skip_refused(self, what: str) -> Iterator[None]:
        """Logs what MLflow refuses for good and skips it, so that the rest still arrives."""
        try:
            yield
        except Exception as error:
            refusal = self.store.refusal(error)
            if refusal is None:
                raise
            if what not in self.refused:
                log.warning("MLflow refuses %s: %s", what, masked(refusal))
            self.refused.add(what)

    def lacks(self, key: str, when: float) -> bool:
        """Whether an event of this time may be missing in the key's run: not if the run ended then or later, or if the
        user deleted it."""
        return key not in self.deleted and milliseconds(when) > self.ended.get(key, 0)

    def begin_run(self, key: str, name: str, tags: Mapping[str, str], start: float) -> str:
        """The id of the key's run, which is made if it is missing."""
        if key not in self.runs:
            name = layout.cut(name, layout.NAME_LENGTH)
            run = self.store.create(self.experiment, name, tags, milliseconds(start))
            self.runs[key], self.status[key] = run.info.run_id, "RUNNING"
        return self.runs[key]

    def begin_child(self, key: str, name: str, tags: Mapping[str, str], start: float) -> str:
        parent = {"mlflow.parentRunId": self.runs[PARENT]} if PARENT in self.runs else {}
        return self.begin_run(key, name, {**tags, **parent}, start)

    def begin_search(self, event: SearchEvent) -> None:
        path = self.folder / "search.yaml"
        if not path.exists():
            write_text(path, masked(event["yaml"]))
        if self.lacks(PARENT, event["time"]):
            run = self.begin_run(PARENT, event["name"], layout.search_tags(event), event["time"])
            self.store.log_data(run, layout.data_set(event))
            self.store.tag_experiment(self.experiment, *layout.view(event))
        self.queue_artifact(PARENT, str(path))

    def set_status(self, event: SessionEvent | InterruptedEvent, status: str) -> None:
        """Of the search and its open trials."""
        if self.lacks(PARENT, event["time"]):
            self.wanted = dict.fromkeys([PARENT, *self.wanted], status)

    def send_statuses(self) -> None:
        for key, status in self.wanted.items():
            if key in self.runs and self.status[key] != status:
                with self.skip_refused(f"status of {key}"):
                    self.store.set_status(self.runs[key], status)
                self.status[key] = status

    def begin_trial(self, event: TrialEvent) -> None:
        key = event["trial"]
        if not self.lacks(key, event["time"]):
            return
        self.wanted[key] = "RUNNING"
        run = self.begin_child(key, layout.trial_name(event), layout.trial_tags(self.search, event), event["time"])
        self.store.log_params(run, layout.parameters(event["params"]))
        curriculum = event.get("twin") if event["arm"] == "plain" else None
        if curriculum in self.runs:
            self.store.log_tags(self.runs[curriculum], layout.tags({"twin": key}))
        self.store.log_data(run, layout.data_set(self.search))

    def log_machine(self, event: TextEvent) -> None:
        if self.lacks(event["trial"], event["time"]) and event["trial"] in self.runs:
            self.store.log_tags(self.runs[event["trial"]], layout.tags({"machine": event["text"]}))

    def log_result(self, event: ResultEvent) -> None:
        """Of an iteration that is reported again after a kill, the first result counts."""
        key, iteration = event["trial"], event["iteration"]
        if iteration <= self.reached.get(key, 0):
            return
        self.reached[key] = iteration
        if self.lacks(key, event["time"]):
            self.points.setdefault(key, []).extend(points(event["metrics"], event["time"], iteration))

    def send_points(self, key: str) -> None:
        if (metrics := self.points.pop(key, None)) and key in self.runs:
            with self.skip_refused(f"results of {key}"):
                self.store.log_metrics(self.runs[key], metrics)

    def end_trial(self, event: EndEvent) -> None:
        key = event["trial"]
        self.wanted.pop(key, None)
        if path := event.get("artifacts"):
            self.queue_artifact(key, path)
        if not self.lacks(key, event["time"]) or key not in self.runs:
            return
        self.send_points(key)
        run = self.runs[key]
        self.store.log_metrics(run, self.best(event.get("best"), event["time"]))
        self.store.log_tags(run, layout.tags({"outcome": event["outcome"], "reason": event.get("reason")}))
        self.finish(key, layout.STATUS.get(event["outcome"], "FINISHED"), event["time"])

    def finish(self, key: str, status: str, when: float) -> None:
        self.store.finish(self.runs[key], status, milliseconds(when))
        self.status[key] = status

    def end_search(self, event: SearchEndEvent) -> None:
        self.wanted.pop(PARENT, None)
        if path := event.get("checkpoint"):
            self.queue_artifact(PARENT, path, BEST_CHECKPOINT)
        if not self.lacks(PARENT, event["time"]) or PARENT not in self.runs:
            return
        run, best = self.runs[PARENT], event["best"]
        self.store.log_metrics(run, self.best(best, event["time"]))
        values = {"best_trial": best and best["trial_id"], "cost": event["cost"] | {"seconds": event["seconds"]}}
        self.store.log_tags(run, layout.tags(values) | {"mlflow.note.content": layout.summary(self.search, event)})
        self.finish(PARENT, "FINISHED", event["time"])

    def best(self, best: DevReached | None, when: float) -> list[Metric]:
        """The single value by which whole runs are compared, if there is one."""
        if not best:
            return []
        return [Metric(layout.best_name(self.search), best["dev"], milliseconds(when), best["iteration"])]

    def log_confirmation(self, event: ConfirmationEvent) -> None:
        key = layout.confirmation_key(event)
        if path := event.get("artifacts"):
            self.queue_artifact(key, path)
        if not self.lacks(key, event["time"]):
            return
        start = event["time"] - event["metrics"].get("seconds", 0)
        tags = layout.confirmation_tags(self.search, event)
        run = self.begin_child(key, layout.confirmation_name(event), tags, start)
        self.store.log_params(run, layout.parameters(event["params"]))
        self.store.log_metrics(run, points(event["metrics"], event["time"], 0))
        self.finish(key, "FINISHED", event["time"])

    def log_verdict(self, event: VerdictEvent) -> None:
        """Tags and description of the parent run, and a run for each configuration with its mean, SD and number of
        trainings."""
        values = {key: event[key] for key in ("verdict", "difference", "p", "opponent")}
        values["verdict_split"] = event["split"]
        if event["ci95"]:
            low, high = event["ci95"]
            values["ci95"] = f"{low:+.4f} to {high:+.4f}"
        if PARENT in self.runs:
            self.store.log_tags(self.runs[PARENT], layout.tags(values) | {"mlflow.note.content": event["description"]})
        for row in event["configurations"]:
            key, name, tags = layout.compared_run(self.search, event["split"], row)
            if self.lacks(key, event["time"]):
                run = self.begin_child(key, name, tags, event["time"])
                self.store.log_params(run, layout.parameters(row["params"]))
                metrics = layout.summary_of(row["values"], event["split"], self.search["metric"])
                self.store.log_metrics(run, points(metrics, event["time"], len(row["values"])))
                self.finish(key, "FINISHED", event["time"])

    def log_file(self, event: ArtifactEvent) -> None:
        self.queue_artifact(PARENT, event["path"], event.get("folder"))

    def queue_artifact(self, key: str, path: str, folder: str | None = None) -> None:
        """Notes an artifact, in the place of an earlier one of the same path, unless the run has it."""
        number = self.artifact_counts[key] = self.artifact_counts.get(key, 0) + 1
        if number > self.has_artifacts.get(key, 0) and key not in self.deleted:
            self.artifacts = [one for one in self.artifacts if (one.key, one.path) != (key, path)]
            self.artifacts.append(Artifact(key, path, folder, number))

    def send_artifact(self) -> bool:
        """Copies the first artifact of the queue; returns whether there was one. No metric waits for an artifact."""
        if not self.artifacts:
            return False
        artifact = self.artifacts[0]
        path, run = resolve_recorded(artifact.path, self.folder), self.runs.get(artifact.key)
        if run and not path.exists():
            log.warning("%s is not there any more, so MLflow lacks it", path)
        elif run:
            with self.skip_refused(artifact.path):
                if artifact.folder == BEST_CHECKPOINT and scores_texts(path):
                    self.store.log_tags(run, {HISTORY: describe_model(path, run, artifact.folder)})
                self.store.log_artifact(run, path, artifact.folder)
            with self.skip_refused(f"tags of {artifact.key}"):
                self.store.log_tags(run, {ARTIFACTS: str(artifact.number)})
        self.artifacts.remove(artifact)
        return True


def points(metrics: Mapping[str, float], when: float, step: int) -> list[Metric]:
    """The metrics of an event at a step. They have the event's time: sent again, they are the same."""
    return [Metric(layout.metric_name(name), value, milliseconds(when), step) for name, value in metrics.items()]


HANDLERS: dict[str, Callable[[Delivery, Any], None]] = {
    "search": Delivery.begin_search,
    "session": lambda delivery, event: delivery.set_status(event, "RUNNING"),
    "interrupted": lambda delivery, event: delivery.set_status(event, "KILLED"),
    "trial": Delivery.begin_trial,
    "machine": Delivery.log_machine,
    "result": Delivery.log_result,
    "end": Delivery.end_trial,
    "search_end": Delivery.end_search,
    "confirmation": Delivery.log_confirmation,
    "verdict": Delivery.log_verdict,
    "artifact": Delivery.log_file,
}
