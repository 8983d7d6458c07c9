"""The thread that sends a journal to MLflow beside a search.

`tune_cl.tracking.mirror` imports MLflow, which takes seconds: in this thread, so that no search waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from trainables.core.prose import say
from tune_cl.history.journal import Journal
from tune_cl.history.tracking_uri import artifact_location, masked
from tune_cl.tracking.layout import PARENT
from tune_cl.tracking.record import Record

if TYPE_CHECKING:
    from tune_cl.tracking.mirror import Mirror

log = logging.getLogger(__name__)

POLL = 1.0  # seconds between looks at the journal
LONGEST_WAIT = 30.0  # seconds between attempts while MLflow is out of reach


class MlflowWriter(threading.Thread):
    """Sends a journal to the tracking address `uri`. The journal's lock keeps a second writer out, so close the writer
    before the journal. It starts once Ray has (tune_cl.ray.environment says why); where no Ray was needed, as it is
    closed."""

    def __init__(self, journal: Journal, uri: str, poll: float = POLL):
        super().__init__(name="mlflow-writer", daemon=True)
        self.journal, self.uri, self.poll = journal, uri, poll
        self.trouble: str | None = None
        """Why sending fails at present, with secrets hidden."""
        self.run_id: str | None = None
        """The parent run's id, once known."""
        self._mirror: Mirror | None = None
        self._closing = threading.Event()
        self._deadline = float("inf")
        self._failures = 0

    def run(self) -> None:
        while not (self._closing.is_set() and (self.all_sent() or time.monotonic() > self._deadline)):
            if not self.attempt():
                self.wait()
        if self._mirror and self.all_sent():
            self._write_record(self._mirror, self._mirror.offset)

    def close(self, timeout: float = 30.0) -> int:
        """Sends the rest, for at most `timeout` seconds; returns how many events remain unsent. The next writer on this
        journal sends them."""
        self._deadline = time.monotonic() + timeout
        self._closing.set()
        if self.ident is None:
            self.start()
        self.join(timeout)
        return 0 if self.all_sent() else max(1, self.pending())

    def pending(self) -> int:
        """Number of events not sent yet; 0 if somebody removed the journal."""
        if not self.journal.path.exists():
            return 0
        return sum(1 for _ in (self._mirror.lines() if self._mirror else self.journal.events()))

    def all_sent(self) -> bool:
        """Whether nothing is left, also where somebody removed the journal."""
        if self._failures or not self.journal.path.exists():
            return not self._failures
        return self.journal.size == (self._mirror.offset if self._mirror else 0)

    def attempt(self) -> bool:
        """One step; returns whether another should follow at once. An outage is logged once, not at each attempt."""
        try:
            if not self.journal.size:
                return False
            mirror = self.mirror()
            moved = mirror.step()
            if self.run_id is None:
                self._write_record(mirror, 0)
        except Exception as error:  # noqa: BLE001 - no error of tracking stops the search; the next attempt repairs it
            self._failures += 1
            reason = getattr(error.__cause__, "orig", None) or error  # SQLAlchemy puts advice before a database's words
            self.trouble = masked(f"{type(reason).__name__}: {reason}".split("\n")[0])
            if self._failures == 1:
                log.warning("tracking waits for MLflow at %s: %s", masked(self.uri), self.trouble)
            return False
        if self._failures:
            log.warning("tracking goes on after %d failed attempts", self._failures)
            self._failures, self.trouble = 0, None
        return moved

    def _write_record(self, mirror: Mirror, sent: int) -> None:
        """Writes which run the search has, and how much of the journal."""
        self.run_id = mirror.runs.get(PARENT)
        if self.run_id:
            record = Record(
                tracking_uri=masked(self.uri), experiment_id=mirror.experiment, run_id=self.run_id, sent=sent
            )
            record.write(mirror.folder)

    def mirror(self) -> Mirror:
        if self._mirror is None:
            from tune_cl.tracking.mirror import Mirror
            from tune_cl.tracking.store import RunStore

            store = RunStore(self.uri, artifact_location(self.uri, self.journal.path.parent.parent))
            self._mirror = Mirror(self.journal, store)
        return self._mirror

    def wait(self) -> None:
        """Waits until the next look at the journal: longer after each failure, and less when closing."""
        seconds = min(self.poll * 2**self._failures, LONGEST_WAIT)
        if self._closing.is_set():
            time.sleep(min(seconds, 0.5))
        else:
            self._closing.wait(seconds)


def finish(writer: MlflowWriter, command: str, timeout: float = 30.0) -> None:
    """Closes a writer. What cannot be sent now stays in the journal; prints the command that sends it."""
    if unsent := writer.close(timeout):
        why = writer.trouble or "there was no time"
        message = f"{unsent} events have not reached MLflow ({why}); send them later with: {command}"
        say(message, whole=True)
