"""How far a journal has been sent to MLflow: a small file beside it, written atomically."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trainables.core.files import read_text, write_text
from tune_cl.history.journal import CURSOR


@dataclass
class Cursor:
    """Everything before byte `offset` of the journal has been sent; most other fields say what MLflow has.

    An old cursor, or none, costs requests but loses nothing: what it lacks is looked up again.
    """

    target: str
    """The search and the address, without secrets."""
    offset: int = 0
    experiment: str | None = None
    runs: dict[str, str] = field(default_factory=dict)
    """Run ids by key."""
    reached: dict[str, int] = field(default_factory=dict)
    """Last iteration sent, by key."""
    open: list[str] = field(default_factory=list)
    """Keys of the trials that have not ended."""
    artifacts: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Artifacts still to be copied: key, path, folder among the run's artifacts."""

    def save(self, folder: Path) -> None:
        write_text(folder / CURSOR, json.dumps(vars(self)))  # saved often in a long search: no copy, no indentation


def load(journal: Path, target: str) -> Cursor:
    """The cursor beside a journal, or a new one if that is missing, unreadable, for another target, or beyond the
    journal's end, as in a copy made while the search ran."""
    try:
        saved = json.loads(read_text(journal.parent / CURSOR))
        values: dict[str, Any] = {entry.name: saved[entry.name] for entry in fields(Cursor)}
        values["artifacts"] = [(key, path, folder) for key, path, folder in saved["artifacts"]]
        cursor = Cursor(**values)
        fits = cursor.target == target and 0 <= cursor.offset <= journal.stat().st_size
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
        return Cursor(target)
    return cursor if fits else Cursor(target)
