"""A search in S3: a copy of its folder on the driver's machine, kept the same in the storage.

The search works on the copy as on any folder. A thread brings what changes into the storage every `SYNC_SECONDS`, the
files first and then the journal as it was before them: where the journal there has an event, what it speaks of is
there too. A lease in the storage, which another thread renews, keeps a second driver out. A machine that slept through
its lease finds a journal there that is not its own, and leaves it. Should two have worked at once all the same, their
journals show it: of copy and storage one must begin with the other. Ray's checkpoints do not pass through here; the
nodes write them into the storage themselves.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from uuid import uuid4

from trainables import storage
from trainables.errors import ConfigError, Problem, WorkFailed
from trainables.files import write_text
from tune_cl.journal import FILE, LOCK, Event, Journal, in_use
from tune_cl.prose import say
from tune_cl.tracking.cursor import FILE as CURSOR

LEASE, SENT, COPY = "driver.json", ".mirrored.json", ".copy"
SYNC_SECONDS = 5.0
WATCH_SECONDS = 3 * SYNC_SECONDS  # a lease that does not change for so long is of a driver that died
CLOSING_SECONDS = 60.0  # for which the last changes are tried to be sent
OF_STORAGE_ONLY = {"ray", "ranker", "state.tar", LEASE}  # checkpoints of trials and confirmations: not copied here
OF_COPY_ONLY = {FILE, LOCK, CURSOR}  # the journal goes by itself, the cursor is this machine's
log = logging.getLogger(__name__)


@dataclass
class Lease:
    """Who drives the search at `address`: {holder, token, process, beat}. Its clock is the storage's content, so
    machines whose times differ agree. A thread of its own renews it: no other work is sure to end in time."""

    address: str
    holder: str
    lost: bool = False
    """Whether another driver took it from this one."""
    token: str = field(default_factory=lambda: uuid4().hex)
    beat: int = 0
    _released: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def take(self, name: str, watch: float) -> None:
        """Raises ConfigError where another machine's driver renews it within `watch` seconds, or with 0 at once."""
        held = storage.read(self.address)
        if held is not None and self._read(held)["holder"] != self.holder:  # on this machine the journal's lock decides
            self._outwait(held, name, watch)
        self.renew(taking=True)

    def _outwait(self, held: bytes, name: str, watch: float) -> None:
        process = self._read(held)["process"]
        if watch:
            say(f"note: looking for {watch:.0f} s whether {process} still drives '{name}'")
        deadline = time.monotonic() + watch
        while (now := storage.read(self.address)) is not None:
            if now != held or not watch:
                raise in_use(name, process)
            if time.monotonic() > deadline:
                return
            time.sleep(min(1.0, watch / 10))

    def _read(self, held: bytes) -> dict[str, str]:
        """What it says; where it is none, that somebody else wrote it."""
        try:
            told = json.loads(held)
            return {key: str(told[key]) for key in ("holder", "token", "process")}
        except (ValueError, TypeError, KeyError):
            return {"holder": "", "token": "", "process": f"the writer of {self.address}, which is no lease"}

    def keep(self, every: float) -> None:
        """Renews it from now on."""
        self._thread = threading.Thread(target=self._renew, args=(every,), name="lease", daemon=True)
        self._thread.start()

    def _renew(self, every: float) -> None:
        while not self._ended.wait(every) and not self.lost:
            with suppress(OSError):  # the next one may come through
                self.renew()

    def held(self) -> bool:
        """Whether it is still this driver's."""
        if not self.lost:
            held = storage.read(self.address)
            released = held is None and self._released  # though the answer to it was lost
            self.lost = not released and (held is None or self._read(held)["token"] != self.token)
        return not self.lost

    def renew(self, taking: bool = False) -> bool:
        """Says that this driver lives; False where another one took the lease."""
        if not taking and not self.held():
            return False
        self.beat += 1
        process = f"process {os.getpid()} on {socket.gethostname()}"
        told = {"holder": self.holder, "token": self.token, "process": process, "beat": self.beat}
        storage.write(self.address, json.dumps(told).encode())
        return True

    def rest(self) -> None:
        """No longer renews it."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def release(self) -> None:
        """Lets another driver have it."""
        self.rest()
        if self.held():
            self._released = True
            storage.remove(self.address)


class MirroredJournal(Journal):
    """The journal of a search in S3, and the thread that brings the copy's folder there.

    Raises ConfigError where another driver holds the search, or where this copy and the storage have gone different
    ways; OSError where the storage is out of reach.
    """

    alone = False

    def __init__(self, folder: Path, remote: str, watch: float = WATCH_SECONDS, every: float = SYNC_SECONDS):
        super().__init__(folder)
        self.remote, self.every = remote, every
        self._closing = threading.Event()
        self._failing = False
        self._broken: Exception | None = None
        """What no waiting mends; nothing was sent since."""
        self._lease = Lease(storage.joined(remote, LEASE), f"{socket.gethostname()}:{folder}:{_copy_id(folder)}")
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        try:
            self._lease.take(folder.name, watch)
            self._lease.keep(every)
            self._journal_sent = pull_into(self, remote)
            self._ours = {self._journal_sent}
            """Bytes that the journal in the storage may have if nobody else wrote it."""
            self._sent = _read_sent(folder)
        except BaseException:
            try:
                self._lease.release()
            finally:
                super().close()
            raise
        self._thread.start()

    def append(self, event: Event, patience: float | None = None) -> None:
        """As Journal.append; the storage has the event some seconds later. Raises WorkFailed where another driver
        took the search over, or where the storage can no longer be kept the same."""
        if self._lease.lost:
            raise WorkFailed(self._taken_over())
        if self._broken is not None:
            told = f"{self.remote} cannot be kept the same as {self.path.parent}: {self._broken}"
            raise WorkFailed(told) from self._broken
        super().append(event, patience)

    def _taken_over(self) -> str:
        told = "one driver at a time; what this one did since the other began stays in the copy"
        return f"another driver has taken over '{self.path.parent.name}' ({self.remote}): {told} {self.path.parent}"

    def close(self) -> None:
        """Brings the last changes into the storage, then lets another driver hold the search."""
        self._closing.set()
        self._thread.join()
        deadline = time.monotonic() + CLOSING_SECONDS
        try:
            while not self._attempt(last=True):
                if self._lease.lost:
                    log.warning("%s", self._taken_over())
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
        """Sends what changed while the lease is held; False where that failed. An outage is said once."""
        try:
            if not self._lease.held():
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
        """Stops where the lease is lost meanwhile."""
        journal = self.content()
        for name, state in changed(self.path.parent, self._sent).items():
            if self._lease.lost:
                return
            self._send_file(name)
            self._sent[name] = state
        _write_sent(self.path.parent, self._sent)
        if len(journal) != self._journal_sent:
            self._send_journal(journal)

    def _send_file(self, name: str) -> None:
        """One whose name is no Unicode stays here, for no object can have it; that is said once."""
        try:
            address = storage.joined(self.remote, *PurePosixPath(name).parts)
        except UnicodeEncodeError:
            log.warning("%a of %s stays on this machine: its name is no UTF-8", name, self.path.parent)
        else:
            storage.upload_file(self.path.parent / name, address)

    def _send_journal(self, journal: bytes) -> None:
        """The machine may have slept since it began to send, and then have renewed a lease that was another driver's
        by then: what that one wrote stays, and this driver has lost the search."""
        address = storage.joined(self.remote, FILE)
        if (storage.size(address) or 0) not in self._ours:
            self._lease.lost = True
        if self._lease.held():
            self._ours.add(len(journal))  # before: a failure to write it may be one to hear that it is there
            storage.write(address, journal)
            self._ours.discard(0)  # now none there is one that somebody deleted
            self._journal_sent = len(journal)


State = tuple[int, int]  # size in bytes, time of the last change in ns


def changed(folder: Path, sent: dict[str, State]) -> dict[str, State]:
    """Files of the folder that differ from what was sent, and their states; hidden ones are still being written."""
    states = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if name.name in OF_COPY_ONLY or any(part.startswith(".") for part in name.parts):
            continue
        try:
            if path.is_file():
                states[name.as_posix()] = (path.stat().st_size, path.stat().st_mtime_ns)
        except FileNotFoundError:  # replaced by a new one under our eyes: the next look sees that
            continue
    return {name: state for name, state in states.items() if sent.get(name) != state}


def pull(folder: Path, remote: str) -> None:
    """Brings a copy up to what the storage holds, for a reader or before a session.

    Raises ConfigError as MirroredJournal does, save that a driver at work on this machine has the newest copy.
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
    """What the storage has and the held copy has not: the files first, then the journal's events. Returns the bytes of
    the journal in the storage.

    Raises ConfigError where each has events that the other lacks.
    """
    folder = journal.path.parent
    here, there = journal.content(), storage.read(storage.joined(remote, FILE)) or b""
    if here.startswith(there):
        return len(there)
    if not there.startswith(here):
        wrong = f"the copy {folder} and {remote} have gone different ways: two drivers worked at once"
        raise ConfigError(Problem("--storage", wrong, "remove the copy to go on from the storage"))
    names = [name for name in storage.files_below(remote) if not OF_STORAGE_ONLY & set(PurePosixPath(name).parts)]
    storage.download(remote, folder, (name for name in names if name != FILE))
    sent = {name: state for name, state in changed(folder, {}).items() if name in names}
    _write_sent(folder, sent)
    journal.extend(there[len(here) :])
    return len(there)


def _copy_id(folder: Path) -> str:
    """What tells this copy from one at the same path of a machine of the same name, as containers have."""
    if not (folder / COPY).exists():
        write_text(folder / COPY, uuid4().hex)
    return (folder / COPY).read_text()


def _read_sent(folder: Path) -> dict[str, State]:
    """What the storage has of the folder; nothing where that was never noted, or a loss of power left no whole note: it
    is sent again then."""
    try:
        return {name: (size, when) for name, (size, when) in json.loads((folder / SENT).read_text()).items()}
    except (FileNotFoundError, ValueError):
        return {}


def _write_sent(folder: Path, sent: dict[str, State]) -> None:
    write_text(folder / SENT, json.dumps(sent))
