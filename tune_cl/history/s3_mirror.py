"""A search in S3: the driver works on a copy of its folder, which is mirrored to the storage.

The search uses the copy like any folder. Every `SYNC_SECONDS` a thread uploads what has changed: the files first, then
the journal as it was before them, so that the storage has every file that its journal mentions. A lease in the storage,
which another thread renews, keeps a second driver out. A machine that slept through its lease sees that the journal in
the storage is not its own, and does not overwrite it. If two drivers have worked at once all the same, neither of the
journals, in copy and storage, begins with the other. The nodes write Ray's checkpoints to the storage themselves.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from uuid import uuid4

from trainables.core import storage
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.files import read_text, write_text
from trainables.core.prose import say
from tune_cl.history.journal import CURSOR, FILE, LOCK, Event, Journal, in_use

LEASE, SENT, FETCHED = "driver.json", ".mirrored.json", ".fetched.json"
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
    changes, so the machines' clocks need not agree. A separate thread renews it, because other work may take long."""

    address: str
    holder: str
    lost: bool = False
    """Whether another driver has it now."""
    token: str = field(default_factory=lambda: uuid4().hex)
    beat: int = 0
    _released: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def acquire(self, name: str, watch: float) -> None:
        """Takes the lease. Raises ConfigError if another copy's driver renews it within `watch` seconds, or with 0 if
        one holds it at all."""
        content = storage.read(self.address)
        if (
            content is not None and json.loads(content)["holder"] != self.holder
        ):  # for one copy, the journal's lock decides
            self._outwait(content, name, watch)
        self.renew(taking=True)

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

    def keep(self, every: float) -> None:
        """Renews the lease from now on."""
        self._thread = threading.Thread(target=self._renew, args=(every,), name="lease", daemon=True)
        self._thread.start()

    def _renew(self, every: float) -> None:
        while not self._ended.wait(every) and not self.lost:
            with suppress(OSError):  # the next attempt may succeed
                self.renew()

    def is_ours(self) -> bool:
        """Whether the lease is still this driver's."""
        if not self.lost:
            content = storage.read(self.address)
            released = content is None and self._released  # by us, though the answer was lost
            self.lost = not released and (content is None or json.loads(content)["token"] != self.token)
        return not self.lost

    def renew(self, taking: bool = False) -> bool:
        """Shows that this driver is alive; False if another one has the lease."""
        if not taking and not self.is_ours():
            return False
        self.beat += 1
        process = f"process {os.getpid()} on {socket.gethostname()}"
        content = {"holder": self.holder, "token": self.token, "process": process, "beat": self.beat}
        storage.write(self.address, json.dumps(content).encode())
        return True

    def rest(self) -> None:
        """Stops renewing the lease."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def release(self) -> None:
        """Gives the lease up for another driver."""
        self.rest()
        if self.is_ours():
            self._released = True
            storage.remove(self.address)


class MirroredJournal(Journal):
    """The journal of a search in S3, with the thread that mirrors the copy's folder there.

    Raises ConfigError if another driver has the search, or if this copy and the storage have diverged; OSError if the
    storage is out of reach.
    """

    complete = False

    def __init__(self, folder: Path, remote: str, watch: float = WATCH_SECONDS, every: float = SYNC_SECONDS):
        super().__init__(folder)
        self.remote, self.every = remote, every
        self._closing = threading.Event()
        self._failing = False
        self._broken: Exception | None = None
        """An error that no waiting mends; nothing is sent after it."""
        self._lease = Lease(storage.joined(remote, LEASE), f"{socket.gethostname()}:{folder}")
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        try:
            self._lease.acquire(folder.name, watch)
            self._lease.keep(every)
            self._journal_sent = pull_into(self, remote)
            self._ours = {self._journal_sent}
            """Bytes that the journal in the storage may have if nobody else wrote it."""
            self._sent = _read_states(folder / SENT)
        except BaseException:
            try:
                self._lease.release()
            finally:
                super().close()
            raise
        self._thread.start()

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
        self._closing.set()
        self._thread.join()
        deadline = time.monotonic() + CLOSING_SECONDS
        try:
            while not self._attempt(last=True):
                if self._lease.lost:
                    log.warning("%s", self._lost_message())
                    break
                if time.monotonic() > deadline:
                    log.warning("%s lacks the last changes; tune-cl resume on this machine sends them", self.remote)
                    break
                time.sleep(1.0)
        finally:
            self._lease.rest()
            super().close()

    def _run(self) -> None:
        try:
            while not self._closing.wait(self.every) and not self._lease.lost:
                self._attempt()
        except Exception as error:  # noqa: BLE001 - the search hears it with its next event
            self._broken = error

    def _attempt(self, last: bool = False) -> bool:
        """Sends what changed if the lease is ours; False if that failed. An outage is logged once."""
        try:
            if not self._lease.is_ours():
                return False
            self._send()
            if last and not self._lease.lost:
                self._lease.release()
        except OSError as error:
            if not self._failing:
                log.warning("%s is out of reach, trying again: %s", self.remote, error)
            self._failing = True
            return False
        self._failing = False
        return not self._lease.lost

    def _send(self) -> None:
        """Sends what changed; stops if the lease is lost."""
        journal = self.content() if self.size != self._journal_sent else None  # which only grows
        news = changed(self.path.parent, self._sent)
        for name, state in news.items():
            if self._lease.lost:
                return
            storage.upload_file(self.path.parent / name, storage.joined(self.remote, *PurePosixPath(name).parts))
            self._sent[name] = state
        if news:
            _write_states(self.path.parent / SENT, self._sent)
        if journal is not None:
            self._send_journal(journal)

    def _send_journal(self, journal: bytes) -> None:
        """Sends the journal, unless another driver has written one: this machine may have slept since it began to send,
        and then renewed the other's lease. What that driver wrote stays, and this one has lost the search."""
        address = storage.joined(self.remote, FILE)
        if (storage.size(address) or 0) not in self._ours:
            self._lease.lost = True
        if self._lease.is_ours():
            self._ours.add(len(journal))  # before writing: even a write that reports failure may have succeeded
            storage.write(address, journal)
            self._ours.discard(0)  # from now on, if there is none, somebody deleted it
            self._journal_sent = len(journal)


State = tuple[int, ...]  # size in bytes, time of the last change in ns


def changed(folder: Path, sent: dict[str, State]) -> dict[str, State]:
    """The folder's files that differ from what was sent, and their states; hidden ones are still being written."""
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
    return {name: state for name, state in states.items() if sent.get(name) != state}


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
    here, there = journal.content(), storage.read(storage.joined(remote, FILE)) or b""
    if here.startswith(there):
        return len(there)
    if not there.startswith(here):
        wrong = f"the copy {folder} and {remote} have diverged: two drivers worked at once"
        raise ConfigError(Problem("--storage", wrong, "remove the copy to go on from the storage"))
    listed = storage.states_below(remote)
    names = [name for name in listed if not OF_STORAGE_ONLY & set(PurePosixPath(name).parts)]
    fetched, now = _read_states(folder / FETCHED), changed(folder, {})
    unchanged = {name for name in names if name in now and fetched.get(name) == (*now[name], *listed[name])}
    storage.download(remote, folder, [name for name in names if name != FILE and name not in unchanged])
    sent = {name: state for name, state in changed(folder, {}).items() if name in names}
    _write_states(folder / SENT, sent)
    settled = max(when for _, when in listed.values()) - SETTLED_NS  # by the storage's own clock
    _write_states(folder / FETCHED, {name: (*sent[name], *listed[name]) for name in sent if listed[name][1] < settled})
    journal.extend(there[len(here) :])
    return len(there)


def _read_states(path: Path) -> dict[str, State]:
    """What the storage has of the folder (SENT), or what came from there (FETCHED: its state here, then there). Empty
    without a record: then all is sent or fetched again."""
    try:
        return {name: tuple(state) for name, state in json.loads(read_text(path)).items()}
    except FileNotFoundError:
        return {}


def _write_states(path: Path, states: Mapping[str, State]) -> None:
    write_text(path, json.dumps(states))
