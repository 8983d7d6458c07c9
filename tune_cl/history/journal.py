"""The journal of a search: an append-only file of JSON lines, from which its state and its runs in MLflow are made.

One line is one event, with its kind (`event`) and `time` (Unix seconds). Numbers that are not finite are written as
NaN, Infinity and -Infinity, Python's extension of JSON, so that every value reads back as it was written.

search               what is searched: name, space, data (a fingerprint), ranker, rankers, metric, seed, baseline, yaml,
                     storage, tracking_uri, versions, opened keys, arms, compares (whether the baseline sets the arms
                     apart), git_commit, plugins, objective, checkpoints (an address, if not in the search's folder)
session              a start or resume that has work to do: number
interrupted          it was stopped, and may be resumed
label_free           what ranks dev without training labels: first_stage, label_free ({label, mean} or None)
trial                one begins, or goes on: trial, number, params, seed, baseline, chosen (of opened keys), arm; twin
                     (of a curriculum, the plain trial with its other settings, of a plain one the curriculum that it
                     is trained for); repeats (the trial whose settings it has under another seed)
result               of an iteration, from 1: trial, iteration, metrics, done (whether it was the trial's last)
pause                a trial waits and may go on later: trial, iteration, reason
checkpoint           trial, iteration, path
machine, note        trial, text: what it computes with; what the user should know, such as a lost checkpoint
end                  of a trial: trial, outcome, reason, best ({iteration, dev} or None), artifacts (a folder)
search_end           best ({trial_id, params, iteration, dev} or None), cost, seconds, ended_by (the budget that was
                     used up), checkpoint (the folder of the best ranker)
confirmation         a training with a new seed: label, trial, params, seed, metrics, artifacts
training_checkpoint  of one that is under way: training, iteration, path
verdict              split, curricula (labels of those tested), seeds (how many), verdict, difference, ci95, p and
                     opponent (of the least favourable one), description (its sentences), configurations (roles, label,
                     trial_id, params, and a value for each seed, of each that was compared)
artifact             a file or folder for the parent run: path, folder
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from trainables.core.errors import ConfigError, DataError, Problem

Event = dict[str, Any]
FILE, LOCK = "journal.jsonl", "journal.lock"


class Journal:
    """The journal of one search, locked by one process at a time.

    `note` says what was cut from the end of the file if the last writer was killed in the middle of a line, else it is
    None. `size`: bytes that are on disk for good. Raises ConfigError if another process has locked the search.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._lock = FileLock(folder / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            wrong = f"search '{folder.name}' is in use by another process"
            raise ConfigError(Problem("NAME", wrong, "wait for that one, or stop it")) from None
        try:
            self._file = FileIO(self.path, "a")
            self.note = self._cut_torn_line()
            self.size = os.fstat(self._file.fileno()).st_size
        except BaseException:
            self._lock.release()
            raise

    def _cut_torn_line(self) -> str | None:
        """Cuts off a last line that its writer could not finish: without its end, or with pages that never reached the
        disk. Returns a note if there was one."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        last_line = content.rfind(b"\n", 0, max(whole - 1, 0)) + 1
        if whole and event_of(content[last_line:whole]) is None:
            whole = last_line
        if whole == len(content):
            return None
        self._file.truncate(whole)
        os.fsync(self._file.fileno())
        return f"{self.path}: the last event was written only in part ({len(content) - whole} bytes), and is dropped"

    def append(self, event: Event) -> None:
        """Adds one event and returns once it is on disk. Raises OSError if the storage refuses it; then no part of the
        line remains."""
        line = json.dumps(event).encode() + b"\n"
        os.stat(self.path)  # a file that was removed would accept the line too
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._file.fileno())
        except BaseException:
            self._file.truncate(self.size)
            raise
        self.size += len(line)

    def events(self) -> Iterator[Event]:
        """Every event so far, oldest first."""
        return read_events(self.path)

    def close(self) -> None:
        """Unlocks the search."""
        self._file.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def event_of(line: bytes) -> Event | None:
    """The event of a line; None for one that is no whole event."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if line.endswith(b"\n") and isinstance(event, dict) and "event" in event else None


def read_events(path: Path) -> Iterator[Event]:
    """The events of a journal, without its lock and without a last line that is still being written. Raises DataError
    naming a line that is not an event."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            event = event_of(line)
            if event is not None:
                yield event
            elif file.read(1):
                right = "one JSON object a line with the key 'event'"
                raise DataError(Problem(f"{path}:{number}", "not an event of a journal", right))


def first_event(path: Path) -> Event:
    """What the search is. Raises DataError for a journal that is damaged, or begins with something else."""
    event = next(read_events(path), None)
    if event is None or event["event"] != "search":
        right = "a journal that begins with the event 'search'"
        raise DataError(Problem(f"{path}:1", "holds no search", right))
    return event
