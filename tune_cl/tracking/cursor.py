"""How far a journal has been sent to MLflow: a small file beside it, written atomically."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from trainables.core.files import read_text, write_text
from tune_cl.history.journal import CURSOR

log = logging.getLogger(__name__)


@dataclass
class Cursor:
    """Everything before byte `offset` of the journal has been sent; most other fields say what MLflow knows.

    What an old cursor lacks is found out again, so an old one, or none, costs requests but loses nothing.
    """

    target: str
    """The search and the address, without secrets: the cursor of another one is of no use."""
    offset: int = 0
    checksum: int = 0
    """CRC-32 of the journal before `offset`."""
    ahead: bool = False
    """Whether MLflow may hold events that the journal has lost."""
    experiment: str | None = None
    runs: dict[str, str] = field(default_factory=dict)
    """Run ids by key."""
    reached: dict[str, int] = field(default_factory=dict)
    """Last iteration sent, by key."""
    open: list[str] = field(default_factory=list)
    """Keys of the trials that have not ended."""
    owed: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Artifacts still to be copied: key, path, folder among the run's artifacts."""

    def save(self, folder: Path) -> None:
        write_text(folder / CURSOR, json.dumps(vars(self)))  # saved often in a long search: no copy, no indentation

    def advance(self, journal: Path, offset: int) -> None:
        """Moves on to a later byte of the journal."""
        with journal.open("rb") as file:
            file.seek(self.offset)
            self.checksum = crc32(file.read(offset - self.offset), self.checksum)
        self.offset = offset


def load(journal: Path, target: str) -> Cursor:
    """The cursor beside a journal, or a fresh one if that is missing, unreadable or for something else.

    After a disk has lost the journal's end, the cursor is beyond it, or, once new events have been written, somewhere
    among these. Then a fresh one that knows of it begins at the first event.
    """
    try:
        held = json.loads(read_text(journal.parent / CURSOR))
        owed = [(key, path, inside) for key, path, inside in held["owed"]]
        cursor = Cursor(**held | {"checksum": held["checksum"], "owed": owed})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return Cursor(target)
    if cursor.target != target:
        return Cursor(target)
    found = Cursor(target)
    found.advance(journal, cursor.offset)
    if found.checksum == cursor.checksum:
        return cursor
    log.warning("%s has lost events that MLflow was sent: all are compared with what it holds", journal)
    return Cursor(target, ahead=True)
