"""The journal of a search: an append-only file of JSON lines, its state of truth and the spool of its tracking.

One line is one event with the key `event`; times are unix seconds. Kinds of event, and what they hold beside it:
    search        name space data{name,digest} ranker metric mode seed baseline yaml versions git_commit
                  tracking_uri storage forecast time
    session       number time                                      each start or resume that has work to do
    warm_start    sources observations time                        what earlier searches found (`search.warm_start`)
    forecast      seconds_per_iteration hours_forecast cpu_hours_forecast gpu_hours_forecast time
    trial         trial number params chosen seed baseline time    again: the trial goes on; chosen: opened keys only
                  [anew] [adopted] [repeat_of]                     anew: from the start; adopted{trial,iteration,
                                                                   checkpoint}: from there, under other params;
                                                                   repeat_of: trial whose configuration it trains again
    result        trial iteration metrics time [queries]           iteration from 1, over all trainings of the trial
    pause         trial iteration reason time                      it waits at a rung and may go on later
    checkpoint    trial iteration path
    note          trial text time                                  what the user should know, such as a lost checkpoint
    end           trial outcome reason audit best{iteration,dev} artifacts time
    interrupted   time                                             stopped, may be resumed
    search_end    best pareto cost seconds ended_by time [checkpoint]
    confirmation  label params seed metrics time [trial artifacts] one training of `confirm`
    artifact      path [folder]                                    a file or folder for the parent run

Numbers that are not finite stand as NaN, Infinity and -Infinity, Python's extension of JSON, so that every value
reads back as it was written. Knows neither Ray nor MLflow.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from io import FileIO
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from trainables.errors import ConfigError, DataError, Problem

Event = dict[str, Any]
FILE = "journal.jsonl"
LOCK = "journal.lock"
RUNNING = "running"
RAN_TO_THE_END = ("completed", "baseline")  # outcomes
PATIENCE, RETRY_SECONDS = 120.0, 5.0
OUTSIDE = ("session", "confirmation")  # events whose time since the last event was no part of the search

log = logging.getLogger(__name__)


class Journal:
    """The journal of one search, held by one process at a time.

    `note` says what was cut from the end of the file if the last writer was killed in the middle of a line, else
    None. `patience`: seconds for which a write that fails, on a full disk or storage that is away, is tried again.
    Raises ConfigError where another process holds the search, DataError where the file is damaged.
    """

    def __init__(self, folder: Path, patience: float = PATIENCE):
        folder.mkdir(parents=True, exist_ok=True)
        self.patience = patience
        self.path = folder / FILE
        self._lock = hold(folder / LOCK, folder.name)
        try:
            self.note = cut_torn_line(self.path)
            self._file = FileIO(self.path, "a")
        except BaseException:
            self._lock.close()
            raise

    def append(self, event: Event) -> None:
        """Adds one event in one write and returns once it is on disk. Raises OSError where the storage does not take
        it for `patience` seconds; no part of a line is left then."""
        line = (json.dumps(event, ensure_ascii=False) + "\n").encode()
        end = os.fstat(self._file.fileno()).st_size
        failed = None
        while True:
            try:
                return self._write(line, end)
            except OSError as error:
                if failed is None:
                    failed = time.monotonic()
                    log.warning("%s cannot be written, trying again for %.0f s: %s", self.path, self.patience, error)
                if time.monotonic() - failed >= self.patience:
                    raise
                time.sleep(min(RETRY_SECONDS, self.patience))

    def extend(self, lines: bytes) -> None:
        """Adds whole lines that another copy of the journal has behind the last one here."""
        self._write(lines, os.fstat(self._file.fileno()).st_size)

    def _write(self, line: bytes, end: int) -> None:
        """Writes a line at `end`, the size of the file without what a failed attempt may have left."""
        try:
            self._file.truncate(end)
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._file.fileno())
        except BaseException:
            self._file.truncate(end)
            raise

    def events(self) -> Iterator[Event]:
        """Every event so far, oldest first."""
        return read_events(self.path)

    def close(self) -> None:
        """Lets another process hold the search."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_events(path: Path) -> Iterator[Event]:
    """The events of a journal, without holding it; a line still being written is left out.

    Raises DataError naming the line that is no event.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield parse(line, f"{path}:{number}")


def parse(line: bytes, place: str) -> Event:
    """One event; raises DataError(place)."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or "event" not in event:
        raise DataError(Problem(place, "not an event of a journal", "one JSON object a line with the key 'event'"))
    return event


def cut_torn_line(path: Path) -> str | None:
    """Cuts a last line that its writer could not finish; says so, or None where there is none.

    Raises DataError where a line before the last is damaged: that is no torn write.
    """
    if not path.exists():
        return None
    with path.open("r+b") as file:
        whole = 0
        for number, line in enumerate(file, 1):
            try:
                parse(line, f"{path}:{number}")
                whole += len(line) if line.endswith(b"\n") else 0
            except DataError:
                if file.read(1):
                    raise
        torn = os.fstat(file.fileno()).st_size - whole
        if not torn:
            return None
        file.truncate(whole)
        os.fsync(file.fileno())
    return f"{path}: the last event was written only in part ({torn} bytes) and has been dropped"


def hold(path: Path, name: str) -> FileIO:
    """A file that holds the lock at `path` until it is closed or the process ends.

    Raises ConfigError naming the process that holds it.
    """
    lock = FileIO(path, "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        holder = path.read_text(errors="replace").strip() or "another process"
        raise ConfigError(
            Problem("name", f"search '{name}' is in use by {holder}", "stop that one first, or choose another --name")
        ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}\n".encode())
    return lock


@dataclass(frozen=True)
class Dev:
    """A value of the configured metric on dev, and the iteration (from 1) that reached it."""

    iteration: int
    dev: float


@dataclass
class TrialState:
    """One trial: what it was given, what it reported, how it ended (`outcome` is None while it has not)."""

    trial: str
    number: int
    params: dict[str, Any]
    seed: int
    baseline: bool
    time: float
    chosen: dict[str, Any] = field(default_factory=dict)
    results: dict[int, dict[str, float]] = field(default_factory=dict)
    checkpoints: dict[int, str] = field(default_factory=dict)
    offset: int = 0
    """Iterations of trainings that it has left behind (grace `scaled`): those of its present one come after them."""
    paused: bool = False
    adopted: dict[str, Any] | None = None
    """Where its present weights come from (scheduler pbt): trial, iteration, checkpoint."""
    repeat_of: str | None = None
    """The first trial of its configuration, where this one trains it again under another seed (`search.repeats`)."""
    outcome: str | None = None
    reason: str | None = None
    audit: int | None = None
    """Iteration at which the scheduler stopped it, for a trial that was finished all the same."""
    artifacts: str | None = None
    ended: float | None = None

    def dev(self, metric: str) -> dict[int, float]:
        """Value of the metric on dev by iteration of its present training."""
        key, results = f"dev_{metric}", sorted(self.results.items())
        return {at - self.offset: values[key] for at, values in results if at > self.offset and key in values}

    def best(self, metric: str) -> Dev | None:
        """The highest value, at the earliest iteration that reached it; values that are not numbers do not count."""
        own = self.adopted["iteration"] if self.adopted else 0  # what came before is not of its present weights
        values = self.dev(metric).items()
        known = [Dev(iteration, value) for iteration, value in values if iteration > own and not math.isnan(value)]
        return max(known, key=lambda at: at.dev, default=None)

    @property
    def configuration(self) -> str:
        """The first trial of its configuration."""
        return self.repeat_of or self.trial

    @property
    def iterations(self) -> int:
        """Iterations reported, of all its trainings."""
        return len(self.results)


@dataclass
class SearchState:
    """One search; the fields up to `forecast` are those of its `search` event, `end` is its `search_end` event."""

    name: str
    space: str
    data: dict[str, Any]
    ranker: str
    metric: str
    seed: int
    baseline: str
    yaml: str
    storage: str
    time: float  # of the newest event
    mode: str = "max"
    tracking_uri: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    git_commit: str | None = None
    forecast: dict[str, Any] = field(default_factory=dict)
    sessions: int = 0
    seconds: float = 0.0  # from the start of each session to its last event
    trials: dict[str, TrialState] = field(default_factory=dict)
    end: Event | None = None
    confirmations: list[Event] = field(default_factory=list)

    def best(self) -> tuple[TrialState, Dev] | None:
        """The first of `ranked`."""
        return next(iter(self.ranked()), None)

    def ranked(self) -> list[tuple[TrialState, Dev]]:
        """Trials by their best dev value, highest first, the baseline included; the lowest number wins a tie.

        Once a configuration was repeated, trials stand by their configuration's: by the seeds that it came to the end
        with, then by the mean over them. Failed trials do not count: what they reported may be what broke.
        """
        sound = [trial for trial in self.by_number() if trial.outcome != "failed"]
        reached = [(trial, at) for trial in sound if (at := trial.best(self.metric))]
        known = self.finals() if self.repeats else {}
        standing = {name: (-len(values), -fmean(values)) for name, values in known.items()}
        return sorted(reached, key=lambda pair: (*standing.get(pair[0].configuration, (0, 0.0)), -pair[1].dev))

    @property
    def repeats(self) -> bool:
        """Whether a configuration was trained under more than one seed."""
        return any(trial.repeat_of for trial in self.trials.values())

    def finals(self) -> dict[str, list[float]]:
        """Best dev values of the trainings that ran to their end, by configuration, in the order of the trials."""
        found: dict[str, list[float]] = {}
        for trial in self.by_number():
            if trial.outcome in RAN_TO_THE_END and (at := trial.best(self.metric)):
                found.setdefault(trial.configuration, []).append(at.dev)
        return found

    def by_number(self) -> list[TrialState]:
        return sorted(self.trials.values(), key=lambda trial: trial.number)

    def baseline_trial(self) -> TrialState | None:
        return self.trials.get(self.baseline)

    def open_trials(self) -> list[TrialState]:
        """Trials begun and not ended: those a resumed search goes on with."""
        return [trial for trial in self.by_number() if trial.outcome is None]

    @property
    def iterations(self) -> int:
        """Iterations over all trials."""
        return sum(trial.iterations for trial in self.trials.values())

    def counts(self) -> Counter[str]:
        """Number of trials by outcome; those that have not ended count as 'running'."""
        return Counter(trial.outcome or RUNNING for trial in self.trials.values())

    def apply(self, event: Event) -> None:
        """Takes in one event; kinds that the state does not hold are passed over."""
        if "time" in event:
            self.seconds += 0.0 if event["event"] in OUTSIDE else max(0.0, event["time"] - self.time)
            self.time = event["time"]
        match event["event"]:
            case "session":
                self.sessions, self.end = event["number"], None
            case "trial":
                self._begin(event)
            case "result":  # the first stays: after a kill a trial reports some iterations again
                self.trials[event["trial"]].results.setdefault(event["iteration"], shared(event["metrics"]))
            case "checkpoint":
                self.trials[event["trial"]].checkpoints[event["iteration"]] = event["path"]
            case "pause":
                self.trials[event["trial"]].paused = True
            case "end":
                trial = self.trials[event["trial"]]
                trial.outcome, trial.reason = event["outcome"], event.get("reason")
                trial.audit, trial.artifacts, trial.ended = event.get("audit"), event.get("artifacts"), event["time"]
            case "forecast":
                self.forecast = self.forecast | {key: event[key] for key in event if key not in ("event", "time")}
            case "search_end":
                self.end = event
            case "confirmation":
                self.confirmations.append(event)

    def _begin(self, event: Event) -> None:
        if known := self.trials.get(event["trial"]):
            known.outcome = known.reason = known.ended = None
            known.paused = False
            if event.get("anew"):
                known.offset = max(known.results, default=0)
            if adopted := event.get("adopted"):
                known.adopted, known.chosen, known.params = adopted, as_chosen(event["chosen"]), event["params"]
            return
        keys = ("trial", "number", "params", "seed", "baseline", "time")
        values = {key: event[key] for key in keys} | {"params": shared(event["params"])}
        more = {"chosen": as_chosen(event.get("chosen", {})), "repeat_of": event.get("repeat_of")}
        self.trials[event["trial"]] = TrialState(**values, **more)


def as_chosen(values: dict[str, Any]) -> dict[str, Any]:
    """Values as a search space has them: JSON made lists of their tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def shared(values: dict[str, Any]) -> dict[str, Any]:
    """The same values under keys that all trials share: they were half of what a trial's parameters take in memory."""
    return {sys.intern(key): values[key] for key in values}


def replay(events: Iterable[Event]) -> SearchState:
    """The state that the events lead to.

    Raises DataError where the first is no `search`, or one lacks a key or names a trial that was not begun.
    """
    state: SearchState | None = None
    for number, event in enumerate(events, 1):
        try:
            if state is None:
                state = begun(event)
            else:
                state.apply(event)
        except (KeyError, TypeError) as wrong:
            what = f"event '{event['event']}' does not fit: {wrong}"
            raise DataError(Problem(f"journal:{number}", what, "a journal as tune-cl wrote it")) from wrong
    if state is None:
        raise DataError(Problem("journal", "holds no event", "a journal that begins with the event 'search'"))
    return state


def begun(event: Event) -> SearchState:
    """The state right after the event `search`; raises KeyError for another, TypeError where a key is missing."""
    if event["event"] != "search":
        raise KeyError("a journal begins with the event 'search'")
    known = {entry.name for entry in fields(SearchState)}
    return SearchState(**{key: value for key, value in event.items() if key in known})
