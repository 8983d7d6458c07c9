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
from tune_cl.history.tracking_uri import masked
from tune_cl.tracking.layout import PARENT

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
        self._mirror: Mirror | None = None
        self._closing = threading.Event()
        self._deadline = float("inf")
        self._failures = 0

    @property
    def run_id(self) -> str | None:
        """The parent run's id, once known."""
        return self._mirror.runs.get(PARENT) if self._mirror else None

    def run(self) -> None:
        while not (self._closing.is_set() and (self.all_sent() or time.monotonic() > self._deadline)):
            if not self.attempt():
                self.wait()

    def close(self, timeout: float = 30.0) -> int:
        """Sends the rest, for at most `timeout` seconds; returns how many events remain unsent. The next writer on this
        journal sends them."""
        self._deadline = time.monotonic() + timeout
        self._closing.set()
        if self.ident is None:
            self.start()
        self.join(timeout)
        if self.all_sent():
            return 0
        unsent = self._mirror.lines() if self._mirror else self.journal.events()
        return max(1, sum(1 for _ in unsent))

    def all_sent(self) -> bool:
        sent = self._mirror.offset if self._mirror else 0
        return not self._failures and self.journal.size == sent

    def attempt(self) -> bool:
        """One step; returns whether another should follow at once. An outage is logged once, not at each attempt."""
        try:
            moved = bool(self.journal.size) and self.mirror().step()
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

    def mirror(self) -> Mirror:
        if self._mirror is None:
            from tune_cl.tracking.mirror import Mirror
            from tune_cl.tracking.store import connect

            self._mirror = Mirror(self.journal, self.uri, connect(self.uri))
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
