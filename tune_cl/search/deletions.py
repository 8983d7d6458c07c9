"""Old checkpoints, deleted beside the search. Ray would do it on the driver's loop, which then stands still while the
storage hangs, and would forget those whose deletion fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

from trainables import storage

Deletions = SimpleQueue[Any]  # Ray's checkpoints, None at the end
log = logging.getLogger(__name__)


@contextmanager
def deleting_aside() -> Iterator[Deletions]:
    """A queue of checkpoints that a thread deletes. Where the block ends well the rest is waited for, as long as for
    storage that is away; an interrupted one leaves it, which costs space and nothing else."""
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
                storage.patiently(lambda: checkpoint.filesystem.delete_dir(checkpoint.path))
        except OSError as error:
            log.warning("the old checkpoint %s could not be deleted: %s", checkpoint.path, error)
