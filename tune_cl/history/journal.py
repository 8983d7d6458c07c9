"""The journal of a search: an append-only file of JSON lines, the source of its state and the spool of its tracking.

One line is one event; `events.py` has their kinds.

Numbers that are not finite are written as NaN, Infinity and -Infinity, Python's extension of JSON, so that every value
reads back as it was written. Each line ends with the CRC-32 of what stands before it, under the key `crc`, which
readers check and remove: a wrong digit would still be JSON. A line without it, as earlier versions wrote, passes.
Knows neither Ray nor MLflow; `tune_cl.history.state` derives the state from the events.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Self, cast
from zlib import crc32

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.files import full_disk_named, lines_of, no_link, opened
from trainables.core.storage import retry_on_fault
from tune_cl.history.events import Event, SearchEvent, misfit

FILE = "journal.jsonl"
CHECK = b', "crc": "%08x"}\n'  # the end of a line
LOCK = "journal.lock"
CURSOR = "tracking.json"  # beside the journal: how far it has been sent to MLflow


class Journal:
    """The journal of one search, locked by one process at a time.

    `note` says what was cut from the end of the file if the last writer was killed in the middle of a line, else it is
    None. `size`: bytes that are on disk for good; readers stop there, because a line after them may still be removed.
    `patience`: seconds for which a failed write, on a full disk or unreachable storage, is tried again (None: as long
    as `retry_on_fault` does).
    Raises ConfigError if another process has locked the search, DataError if the file is damaged.
    """

    def __init__(self, folder: Path, patience: float | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.patience = patience
        self.path = folder / FILE
        self._lock = lock(folder / LOCK, folder.name)
        try:
            self.note = cut_torn_line(self.path)
            self._file = FileIO(self.path, "a", opener=no_link)
            self.size = os.fstat(self._file.fileno()).st_size
        except BaseException:
            self._lock.close()
            raise

    def append(self, event: Event, patience: float | None = None) -> None:
        """Adds one event in one write and returns once it is on disk. Raises OSError if the storage refuses it
        for `patience` seconds (None: the journal's own); then no part of the line remains."""
        line = encoded(event)
        patience = self.patience if patience is None else patience
        retry_on_fault(lambda: self._write(line), self.path, patience, lambda error: isinstance(error, OSError))

    def extend(self, lines: bytes) -> None:
        """Adds whole lines that another copy of the journal has after the last one here."""
        self._write(lines)

    def _write(self, line: bytes) -> None:
        """Writes a line at `size`, over what a failed attempt may have written. Raises FileNotFoundError for a file
        that was removed, which would accept the line too."""
        os.stat(self.path)
        try:
            self._file.truncate(self.size)
            with full_disk_named(self.path):
                if self._file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file.fileno())
        except BaseException:
            self._file.truncate(self.size)
            raise
        self.size += len(line)

    @property
    def settled(self) -> int:
        """Bytes that the search keeps whatever happens to this machine; MLflow gets no event behind them."""
        return self.size

    def settle(self) -> bool:
        """Has all events settled; False if that failed for now."""
        return True

    def events(self) -> Iterator[Event]:
        """Every event so far, oldest first."""
        return read_events(self.path)

    def content(self) -> bytes:
        """The first `size` bytes."""
        size = self.size  # read first: the file may grow meanwhile
        return self.path.read_bytes()[:size]

    def close(self) -> None:
        """Unlocks the search."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encoded(event: Event) -> bytes:
    """An event's line. Text that is not valid Unicode, as a path may be, is escaped, so that the file stays UTF-8."""
    try:
        line = json.dumps(event, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        line = json.dumps(event).encode()
    return line[:-1] + CHECK % crc32(line[:-1])


def read_events(path: Path) -> Iterator[Event]:
    """The events of a journal, without its lock and without a last line that is still being written.

    Raises DataError naming a line that is not an event.
    """
    with opened(path) as file:
        for _, event in _whole_events(file, path):
            yield event


def first_event(path: Path) -> SearchEvent:
    """What the search is. Raises DataError for a journal that is damaged, or begins with something else."""
    event = next(read_events(path), None)
    if event is None or event["event"] != "search":
        right = "a journal that begins with the event 'search'"
        raise DataError(Problem(f"{path}:1", "holds no search", right))
    return event


def _whole_events(file: BinaryIO, path: Path) -> Iterator[tuple[int, Event]]:
    """Each event and the length of its line in bytes, up to a last line that was written only in part: without its end,
    or with pages that never reached the disk. Raises DataError if a line before the last is damaged."""
    for number, line in enumerate(lines_of(file, path), 1):
        if not line.endswith(b"\n"):
            return
        location = f"{path}:{number}"
        try:
            event = _parsed(line, location)
        except DataError:
            if file.read(1):
                raise
            return
        yield len(line), _fitting(event, location)


def parse(line: bytes, location: str) -> Event:
    """A line's event; raises DataError naming the location."""
    return _fitting(_parsed(line, location), location)


def _fitting(event: Event, location: str) -> Event:
    """The event; raises DataError if a value of it is of a wrong kind."""
    if wrong := misfit(event):
        raise DataError(Problem(location, f"event '{event['event']}': {wrong}", "a journal as tune-cl wrote it"))
    return event


def _parsed(line: bytes, location: str) -> Event:
    event: Any
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise DataError(Problem(location, "not an event of a journal", "one JSON object a line with the key 'event'"))
    if (check := event.pop("crc", None)) is not None:
        content = line[: -len(CHECK % 0)]
        if not line.endswith(CHECK % crc32(content)):
            wrong = f"the event is not as it was written (its checksum is {check}, not {crc32(content):08x})"
            raise DataError(Problem(location, wrong, "a journal as tune-cl wrote it"))
    return cast(Event, event)


def cut_torn_line(path: Path) -> str | None:
    """Cuts off a last line that its writer could not finish. Returns a note if there was one.

    Raises DataError if a line before the last is damaged: that is not a torn write.
    """
    if not path.exists():
        return None
    with open(path, "r+b", opener=no_link) as file:
        whole = sum(length for length, _ in _whole_events(file, path))
        torn = os.fstat(file.fileno()).st_size - whole
        if not torn:
            return None
        file.truncate(whole)
        os.fsync(file.fileno())
    return f"{path}: the last event was written only in part ({torn} bytes) and has been dropped"


def lock(path: Path, name: str) -> FileIO:
    """A file that keeps `path` locked until it is closed or the process ends.

    Raises ConfigError naming the process that has locked it, or for a link at `path`.
    """
    file = FileIO(path, "a+", opener=no_link)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        owner = path.read_text(errors="replace").strip() or "another process"
        raise in_use(name, owner) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}\n".encode())
    return file


def in_use(name: str, owner: str) -> ConfigError:
    """The error that any command raises for a search that another process has locked."""
    return ConfigError(Problem("name", f"search '{name}' is in use by {owner}", "wait for that one, or stop it"))
