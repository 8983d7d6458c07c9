"""Brings MLflow's runs to what a journal says.

`Mirror.compare` reads which runs the store has; the events are then sent from the first one on, without those of runs
that have their end. An event that is sent again changes nothing: its points have its time, and MLflow's stores keep one
of identical points (the primary key of the table `metrics`). So after an error of any kind it simply compares again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from math import inf
from typing import Any

from mlflow.entities import Metric

from trainables.core.files import write_text
from tune_cl.history.events import (
    ArtifactEvent,
    ConfirmationEvent,
    DevReached,
    EndEvent,
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


class Mirror:
    """Sends one journal, which must have its first event. Any error but a bug means: try again later.

    runs     run ids by key
    ended    when a run's end was, in milliseconds, by key; of one that the user deleted, infinity
    open     keys of trials that have begun and not ended
    reached  last iteration, by key
    points   of this step, by key
    """

    def __init__(self, journal: Journal, store: RunStore):
        self.journal, self.store = journal, store
        self.folder = journal.path.parent
        self.search = first_event(journal.path)
        self.refused: set[str] = set()  # what MLflow refuses for good, each logged once
        self.compared, self.offset, self.experiment = False, 0, ""
        self.runs: dict[str, str] = {}

    def compare(self) -> None:
        """Reads what MLflow has of the search, and begins with the first event."""
        self.offset = 0
        self.runs, self.ended = {}, dict[str, float]()
        self.artifacts, self.artifacts_there = Counter[str](), dict[str, float]()
        self.open, self.reached = list[str](), dict[str, int]()
        self.points: dict[str, list[Metric]] = {}
        self.experiment = self.store.experiment(self.search["space"])
        found = self.store.tagged(self.experiment, "tune_cl.search_id", layout.search_id(self.search))
        for run in sorted(found, key=lambda run: len(run.data.metrics)):
            key = run.data.tags["tune_cl.key"].partition("/")[2]
            if run.info.lifecycle_stage == "deleted":
                if key not in self.runs:
                    self.ended[key] = self.artifacts_there[key] = inf
                continue
            if key in self.runs:  # the answer to a request was lost, and both were made
                self.store.delete(self.runs[key])
            self.runs[key] = run.info.run_id
            self.ended[key] = run.info.end_time or 0 if run.info.status in ENDED else 0
            self.artifacts_there[key] = int(run.data.tags.get(ARTIFACTS, 0))
        self.compared = True

    def step(self) -> bool:
        """Sends the next events; returns whether there were any."""
        if not self.compared:
            self.compare()
        lines = list(islice(self.lines(), CHUNK))
        self.compared = False  # until all has gone well
        for line in lines:
            event = event_of(line)
            if event and (handler := HANDLERS.get(event["event"])):
                with self.skip_refused(f"event '{event['event']}' of {event.get('trial', self.search['name'])}"):
                    handler(self, event)
        for key in list(self.points):
            self.send_points(key)
        self.offset += sum(map(len, lines))
        self.compared = True
        return bool(lines)

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
            refusal = self.store.refusal(error)
            if refusal is None:
                raise
            if what not in self.refused:
                log.warning("MLflow refuses %s: %s", what, masked(refusal))
            self.refused.add(what)

    def lacks(self, key: str, when: float) -> bool:
        """Whether an event of this time may be missing in the key's run: not if the run ended then or later."""
        return milliseconds(when) > self.ended.get(key, 0)

    def begin_run(self, key: str, name: str, tags: Mapping[str, str], start: float) -> str:
        """The id of the key's run, which is made if it is missing: the search's, or below it."""
        if key not in self.runs:
            parent = {"mlflow.parentRunId": self.runs[PARENT]} if PARENT in self.runs else {}
            name, start = layout.cut(name, layout.NAME_LENGTH), milliseconds(start)
            self.runs[key] = self.store.create(self.experiment, name, {**tags, **parent}, start)
        return self.runs[key]

    def begin_search(self, event: SearchEvent) -> None:
        path = self.folder / "search.yaml"
        if not path.exists():
            write_text(path, masked(event["yaml"]))
        if self.lacks(PARENT, event["time"]):
            run = self.begin_run(PARENT, event["name"], layout.search_tags(event), event["time"])
            self.store.log_data(run, layout.data_set(event))
            self.store.tag_experiment(self.experiment, *layout.view(event))
        self.send_artifact(PARENT, str(path))

    def set_status(self, event: SessionEvent | InterruptedEvent) -> None:
        """Of the search and its open trials."""
        status = "KILLED" if event["event"] == "interrupted" else "RUNNING"
        if self.lacks(PARENT, event["time"]):
            for key in (PARENT, *self.open):
                if key in self.runs:
                    self.store.set_status(self.runs[key], status)

    def begin_trial(self, event: TrialEvent) -> None:
        key = event["trial"]
        if key not in self.open:
            self.open.append(key)
        if not self.lacks(key, event["time"]):
            return
        run = self.begin_run(key, layout.trial_name(event), layout.trial_tags(self.search, event), event["time"])
        self.store.set_status(run, "RUNNING")  # if it goes on
        self.store.log(run, params=layout.parameters(event["params"]))
        curriculum = event.get("twin") if event["arm"] == "plain" else None
        if curriculum in self.runs:
            self.store.log(self.runs[curriculum], tags=layout.tags({"twin": key}))
        self.store.log_data(run, layout.data_set(self.search))

    def log_machine(self, event: TextEvent) -> None:
        if self.lacks(event["trial"], event["time"]) and event["trial"] in self.runs:
            self.store.log(self.runs[event["trial"]], tags=layout.tags({"machine": event["text"]}))

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
                self.store.log(self.runs[key], metrics)

    def end_trial(self, event: EndEvent) -> None:
        key = event["trial"]
        self.open = [one for one in self.open if one != key]
        if path := event.get("artifacts"):
            self.send_artifact(key, path)
        if not self.lacks(key, event["time"]) or key not in self.runs:
            return
        self.send_points(key)
        tags = layout.tags({"outcome": event["outcome"], "reason": event.get("reason")})
        self.store.log(self.runs[key], self.best(event.get("best"), event["time"]), tags=tags)
        self.finish(key, event["time"], layout.STATUS.get(event["outcome"], "FINISHED"))

    def finish(self, key: str, when: float, status: str = "FINISHED") -> None:
        self.store.finish(self.runs[key], status, milliseconds(when))

    def end_search(self, event: SearchEndEvent) -> None:
        if path := event.get("checkpoint"):
            self.send_artifact(PARENT, path, BEST_CHECKPOINT)
        if not self.lacks(PARENT, event["time"]) or PARENT not in self.runs:
            return
        best = event["best"]
        values = {"best_trial": best and best["trial_id"], "cost": event["cost"] | {"seconds": event["seconds"]}}
        tags = layout.tags(values) | {"mlflow.note.content": layout.summary(self.search, event)}
        self.store.log(self.runs[PARENT], self.best(best, event["time"]), tags=tags)
        self.finish(PARENT, event["time"])

    def best(self, best: DevReached | None, when: float) -> list[Metric]:
        """The single value by which whole runs are compared, if there is one."""
        if not best:
            return []
        return [Metric(layout.best_name(self.search), best["dev"], milliseconds(when), best["iteration"])]

    def log_confirmation(self, event: ConfirmationEvent) -> None:
        key = layout.confirmation_key(event)
        if self.lacks(key, event["time"]):
            start = event["time"] - event["metrics"].get("seconds", 0)
            tags = layout.confirmation_tags(self.search, event)
            run = self.begin_run(key, layout.confirmation_name(event), tags, start)
            params = layout.parameters(event["params"])
            self.store.log(run, points(event["metrics"], event["time"], 0), params=params)
        if path := event.get("artifacts"):
            self.send_artifact(key, path)
        if self.lacks(key, event["time"]):
            self.finish(key, event["time"])

    def log_verdict(self, event: VerdictEvent) -> None:
        """Tags and description of the parent run, and a run for each configuration with its mean, SD and number of
        trainings."""
        values = {key: event[key] for key in ("verdict", "difference", "p", "opponent")}
        values["verdict_split"] = event["split"]
        if event["ci95"]:
            low, high = event["ci95"]
            values["ci95"] = f"{low:+.4f} to {high:+.4f}"
        if PARENT in self.runs:
            tags = layout.tags(values) | {"mlflow.note.content": event["description"]}
            self.store.log(self.runs[PARENT], tags=tags)
        for row in event["configurations"]:
            key, name, tags = layout.compared_run(self.search, event["split"], row)
            if self.lacks(key, event["time"]):
                run = self.begin_run(key, name, tags, event["time"])
                metrics = layout.summary_of(row["values"], event["split"], self.search["metric"])
                last = points(metrics, event["time"], len(row["values"]))
                self.store.log(run, last, params=layout.parameters(row["params"]))
                self.finish(key, event["time"])

    def log_file(self, event: ArtifactEvent) -> None:
        self.send_artifact(PARENT, event["path"], event.get("folder"))

    def send_artifact(self, key: str, recorded: str, folder: str | None = None) -> None:
        """Copies a file or folder to the key's run, unless that has it. Its tag counts those that it has."""
        self.artifacts[key] += 1
        if key not in self.runs or self.artifacts[key] <= self.artifacts_there.get(key, 0):
            return
        path, run = resolve_recorded(recorded, self.folder), self.runs[key]
        if not path.exists():
            log.warning("%s is not there any more, so MLflow lacks it", path)
            return
        with self.skip_refused(recorded):
            if folder == BEST_CHECKPOINT and scores_texts(path):
                self.store.log(run, tags={HISTORY: describe_model(path, run, folder)})
            self.store.log_artifact(run, path, folder)
        self.store.log(run, tags={ARTIFACTS: str(self.artifacts[key])})


def points(metrics: Mapping[str, float], when: float, step: int) -> list[Metric]:
    """The metrics of an event at a step. They have the event's time: sent again, they are the same."""
    return [Metric(layout.metric_name(name), value, milliseconds(when), step) for name, value in metrics.items()]


HANDLERS: dict[str, Callable[[Mirror, Any], None]] = {
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
