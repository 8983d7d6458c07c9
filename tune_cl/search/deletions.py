"""Deletes old checkpoints in a thread. Ray would do so in the driver's loop, which would stall whenever the storage
hangs, and would forget checkpoints that it could not delete."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

from trainables import storage

Deletions = SimpleQueue[Any]  # Ray's checkpoints, or addresses of them; None at the end
log = logging.getLogger(__name__)


@contextmanager
def deleting_aside() -> Iterator[Deletions]:
    """Yields a queue of checkpoints that a thread deletes. When the block ends normally, the rest are awaited for up to
    storage.PATIENCE seconds; after an exception they are left behind, which costs only space."""
    old = Deletions()
    thread = Thread(target=_delete, args=(old,), name="deletions", daemon=True)
    thread.start()
    try:
        yield old
    finally:
        old.put(None)
    thread.join(storage.PATIENCE)


def _delete(old: Deletions) -> None:
    while checkpoint := old.get():
        try:
            with suppress(FileNotFoundError):
                storage.patiently(lambda: _deleted(checkpoint))
        except OSError as error:
            path = getattr(checkpoint, "path", checkpoint)
            log.warning("the old checkpoint %s could not be deleted: %s", path, error)


def _deleted(checkpoint: Any) -> None:
    if isinstance(checkpoint, str):
        storage.remove_folder(checkpoint)
    else:
        checkpoint.filesystem.delete_dir(checkpoint.path)
