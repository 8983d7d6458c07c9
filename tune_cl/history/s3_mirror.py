"""A search in S3: the driver works on a copy of its folder, which is mirrored to the storage.

The search uses the copy like any folder. Every `SYNC_SECONDS` a thread uploads what has changed: the files first, then
the journal as it was before them, so that the storage has every file that its journal mentions. A lease in the storage,
which another thread renews, keeps a second driver out. A machine that slept through its lease sees that the journal in
the storage is not the beginning of its own, and does not overwrite it. The nodes write Ray's checkpoints to the storage
themselves.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from uuid import uuid4

from trainables.core import storage
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.files import read_text, write_text
from trainables.core.prose import say
from tune_cl.history.events import Event
from tune_cl.history.journal import CURSOR, FILE, LOCK, Journal, in_use
from tune_cl.process import repeated

LEASE, STATES = "driver.json", ".mirrored.json"
SYNC_SECONDS = 5.0
WATCH_SECONDS = 3 * SYNC_SECONDS  # a lease that does not change for so long is of a driver that died
SETTLED_NS = 2 * 10**9  # S3 may tell times in whole seconds, in which an object may be replaced by one of its size
CLOSING_SECONDS = 60.0  # for which the last changes are tried to be sent
OF_STORAGE_ONLY = {"ray", "ranker", "state.tar", LEASE}  # checkpoints of trials and confirmations: not copied here
OF_COPY_ONLY = {FILE, LOCK, CURSOR}  # the journal goes by itself, the cursor is this machine's
log = logging.getLogger(__name__)


@dataclass
class Lease:
    """Who drives the search: {holder, token, process, beat}, at `address`. A driver is alive while this content
    changes, so the machines' clocks need not agree; its length stays, as PyArrow asks for that before it reads."""

    address: str
    holder: str
    lost: bool = False
    """Whether another driver has it now."""
    token: str = field(default_factory=lambda: uuid4().hex)
    process: str = field(default_factory=lambda: f"process {os.getpid()} on {socket.gethostname()}")
    released: bool = False

    def acquire(self, name: str, watch: float) -> None:
        """Takes the lease. Raises ConfigError if another copy's driver renews it within `watch` seconds, or with 0 if
        one holds it at all."""
        content = storage.read(self.address)
        if content and json.loads(content)["holder"] != self.holder:  # for one copy, the journal's lock decides
            self._outwait(content, name, watch)
        self._write()

    def _outwait(self, content: bytes, name: str, watch: float) -> None:
        process = json.loads(content)["process"]
        if watch:
            say(f"note: looking for {watch:.0f} s whether {process} still drives '{name}'")
        deadline = time.monotonic() + watch
        while (now := storage.read(self.address)) is not None:
            if now != content or not watch:
                raise in_use(name, process)
            if time.monotonic() > deadline:
                return
            time.sleep(min(1.0, watch / 10))

    def is_ours(self) -> bool:
        """Whether the lease is still this driver's."""
        if not self.lost:
            content = storage.read(self.address)  # none: another driver had it, or our release was not answered
            self.lost = json.loads(content)["token"] != self.token if content else not self.released
        return not self.lost

    def renew(self) -> None:
        """Shows that this driver is alive. An outage is waited for: the next attempt may succeed."""
        with suppress(OSError):
            if self.is_ours():
                self._write()

    def _write(self) -> None:
        content = {"holder": self.holder, "token": self.token, "process": self.process, "beat": time.time_ns()}
        storage.write(self.address, json.dumps(content).encode())

    def release(self) -> None:
        """Gives the lease up for another driver."""
        if self.is_ours():
            self.released = True
            storage.remove(self.address)


class MirroredJournal(Journal):
    """The journal of a search in S3, with the threads that mirror the copy's folder there, and renew the lease however
    long that takes.

    Raises ConfigError if another driver has the search, or if this copy and the storage have diverged; OSError if the
    storage is out of reach.
    """

    def __init__(self, folder: Path, remote: str, watch: float = WATCH_SECONDS, every: float = SYNC_SECONDS):
        super().__init__(folder)
        self.remote, self._sending, self._failing = remote, threading.Lock(), False
        self._broken: Exception | None = None
        """An error that no waiting mends."""
        self._lease = Lease(storage.joined(remote, LEASE), f"{socket.gethostname()}:{folder}")
        with ExitStack() as undone:
            undone.callback(super().close)
            undone.callback(self._lease.release)
            self._lease.acquire(folder.name, watch)
            self._end_renewal = repeated(self._lease.renew, every)
            undone.callback(self._end_renewal)
            self._settled = pull_into(self, remote)
            self._sent = _read_states(folder)
            undone.pop_all()
        self._end_mirror = repeated(self.settle, every)

    @property
    def settled(self) -> int:
        """Bytes of the journal in the storage, from where another machine would go on."""
        return self._settled

    def append(self, event: Event, patience: float | None = None) -> None:
        """Like Journal.append; the event reaches the storage some seconds later. Raises WorkFailed if another driver
        has taken over the search, or if the storage can no longer be updated."""
        if self._lease.lost:
            raise WorkFailed(self._lost_message())
        if self._broken is not None:
            raise WorkFailed(f"{self.remote} does not match {self.path.parent}: {self._broken}") from self._broken
        super().append(event, patience)

    def _lost_message(self) -> str:
        rest = "one driver at a time; what this one did since the other began stays in the copy"
        return f"another driver has taken over '{self.path.parent.name}' ({self.remote}): {rest} {self.path.parent}"

    def close(self) -> None:
        """Sends the last changes to the storage, then lets another driver hold the search."""
        self._end_mirror()
        deadline = time.monotonic() + CLOSING_SECONDS
        try:
            while not (self.settle(last=True) or self._lease.lost or time.monotonic() > deadline):
                time.sleep(1.0)
        finally:
            self._end_renewal()
            super().close()
        if self._lease.lost:
            log.warning("%s", self._lost_message())
        elif not self._lease.released:
            log.warning("%s lacks the last changes; tune-cl resume on this machine sends them", self.remote)

    def settle(self, last: bool = False) -> bool:
        """Sends what changed and, the `last` time, releases the lease; False if that failed. An outage is logged once;
        another error is raised by the next event."""
        try:
            with self._sending:
                if self._lease.is_ours():
                    self._send()
                if last:
                    self._end_renewal()
                    self._lease.release()
            self._failing = False
            return not self._lease.lost
        except Exception as error:  # noqa: BLE001 - the search hears it
            if not self._failing:
                log.warning("%s is out of reach, trying again: %s", self.remote, error)
            self._failing = True
            if not isinstance(error, OSError):
                self._broken = error
            return False

    def _send(self) -> None:
        """Sends what changed: all files, then the journal as it was before; stops if the lease is lost."""
        journal = self.content() if self.size != self._settled else None  # which only grows
        folder = self.path.parent
        news = changed(folder, self._sent)
        for name, state in news.items():
            if self._lease.lost:
                return
            storage.upload_file(folder / name, storage.joined(self.remote, *PurePosixPath(name).parts))
            self._sent[name] = state
        if news:
            _write_states(folder, self._sent)
        if journal is not None:
            self._send_journal(journal)

    def _send_journal(self, journal: bytes) -> None:
        """Sends the journal, unless that in the storage is another driver's: this machine may have slept since it began
        to send, and then renewed the other's lease. What that driver wrote stays, and this one has lost the search; so
        it has if somebody deleted the journal there."""
        address = storage.joined(self.remote, FILE)
        stored = storage.size(address) or 0
        if stored != self._settled and not (stored and journal.startswith(storage.read(address) or b"")):
            self._lease.lost = True  # not our own, of a write that was not answered
        if self._lease.is_ours():
            storage.write(address, journal)
            self._settled = len(journal)


State = tuple[int, ...]  # size in bytes, time of the last change in ns; after a fetch also those of the object


def changed(folder: Path, known: Mapping[str, State]) -> dict[str, State]:
    """The folder's files that differ from what is known, and their states; hidden ones are still being written."""
    states = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if name.name in OF_COPY_ONLY or any(part.startswith(".") for part in name.parts):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:  # just being replaced by a new one, which the next call sees
            continue
        if S_ISREG(status.st_mode):
            states[name.as_posix()] = (status.st_size, status.st_mtime_ns)
    return {name: state for name, state in states.items() if known.get(name, ())[:2] != state}


def pull(folder: Path, remote: str) -> None:
    """Brings a copy up to date, for a reader or before a session. A copy that a driver here has locked is the newest.

    Raises ConfigError if copy and storage have diverged.
    """
    if not storage.exists(storage.joined(remote, FILE)):
        return
    try:
        journal = Journal(folder)
    except ConfigError:
        return
    with journal:
        pull_into(journal, remote)


def pull_into(journal: Journal, remote: str) -> int:
    """Fetches what the locked copy lacks: the files first, then the journal's events. Returns the bytes of the
    journal in the storage.

    Raises ConfigError if each has events that the other lacks.
    """
    folder = journal.path.parent
    local, stored = journal.content(), storage.read(storage.joined(remote, FILE)) or b""
    if local.startswith(stored):
        return len(stored)
    if not stored.startswith(local):
        wrong = f"the copy {folder} and {remote} have diverged: two drivers worked at once"
        raise ConfigError(Problem("--storage", wrong, "remove the copy to go on from the storage"))
    objects = storage.states_below(remote)
    young = max(when for _, when in objects.values()) - SETTLED_NS  # by the storage's own clock
    listed = {name: state for name, state in objects.items() if not OF_STORAGE_ONLY & set(PurePosixPath(name).parts)}
    known, now = _read_states(folder), changed(folder, {})
    names = [name for name in listed if name not in now or known.get(name) != (*now[name], *listed[name])]
    storage.download(remote, folder, [name for name in names if name != FILE])
    now = {name: state for name, state in changed(folder, {}).items() if name in listed}
    settled = {name: (*state, *listed[name]) for name, state in now.items() if listed[name][1] < young}
    _write_states(folder, now | settled)
    journal.extend(stored[len(local) :])
    return len(stored)


def _read_states(folder: Path) -> dict[str, State]:
    """The states of the files as the storage has them. Empty without a record: then all is sent or fetched again."""
    try:
        return {name: tuple(state) for name, state in json.loads(read_text(folder / STATES)).items()}
    except FileNotFoundError:
        return {}


def _write_states(folder: Path, states: Mapping[str, State]) -> None:
    write_text(folder / STATES, json.dumps(states))
