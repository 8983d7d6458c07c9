"""Deletes old checkpoints in a thread. Ray would do so in the driver's loop, which would stall whenever the storage
hangs, and would forget checkpoints that it could not delete."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread

from trainables import storage

Deletions = SimpleQueue[str | None]  # addresses of checkpoints; None at the end
log = logging.getLogger(__name__)


@contextmanager
def deleting_aside() -> Iterator[Deletions]:
    """Yields a queue for addresses of checkpoints, which a thread deletes. When the block ends normally, the rest are
    awaited for up to storage.PATIENCE seconds; after an exception they are left behind, which costs only space."""
    old = Deletions()
    thread = Thread(target=_delete, args=(old,), name="deletions", daemon=True)
    thread.start()
    try:
        yield old
    finally:
        old.put(None)
    thread.join(storage.PATIENCE)


def _delete(old: Deletions) -> None:
    for address in iter(old.get, None):
        try:
            with suppress(FileNotFoundError):
                storage.patiently(partial(storage.remove_folder, address))
        except OSError as error:
            log.warning("the old checkpoint %s could not be deleted: %s", address, error)
