"""How far a journal has been sent to MLflow: a small file beside it, written atomically."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from trainables.files import write_text

FILE = "tracking.json"


@dataclass
class Cursor:
    """Everything before byte `offset` of the journal has been sent; the other fields say what MLflow knows.

    What an old cursor lacks is found out again, so an old one, or none, costs requests but loses nothing.
    """

    target: str
    """The search and the address, without secrets: the cursor of another one is of no use."""
    offset: int = 0
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
        write_text(folder / FILE, json.dumps(vars(self)))  # saved often in a long search: no copy, no indentation


def load(folder: Path, target: str, journal_size: int) -> Cursor:
    """The folder's cursor, or a fresh one if that is missing, unreadable or for something else."""
    try:
        held = json.loads((folder / FILE).read_text())
        cursor = Cursor(**held | {"owed": [(key, path, inside) for key, path, inside in held["owed"]]})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return Cursor(target)
    return cursor if cursor.target == target and cursor.offset <= journal_size else Cursor(target)
