"""Rows that are not read: those that say what an earlier row says, and those that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trainables.core.errors import Problem
from trainables.core.prose import counted
from trainables.data.readers.rows import Lines

FEW, SHARE = 3, 0.01  # rows of a file that may be unusable: so many, or this share if that is more
_SHOWN = 1000  # unusable rows of a file that become problems


class Source(Protocol):
    """A file of rows."""

    path: Path
    problems: list[Problem]

    @property
    def count(self) -> int:
        """Rows read so far."""
        ...

    def location(self, number: int) -> str:
        """FILE:LINE of a row."""
        ...


class LeftOut:
    """Collects the rows of one file that cannot be used for one reason. A few are left out with a note, as published
    collections have them. With `strict` (`data.strict`), if they are too many, or if more is wrong with the file, they
    are problems.

    noun, why  in the note: 2 documents without text
    """

    def __init__(self, source: Source, noun: str, why: str, strict: bool):
        self.source, self.noun, self.why, self.strict = source, noun, why, strict
        self._keys: set[object] = set()
        self._rows = 0
        self._noted: list[Problem] = []  # among the file's problems, until `close` takes them off

    def add(self, number: int, wrong: str, right: str, key: object = None) -> None:
        """Adds a row. `key`: rows with the same one count once among the too many."""
        self._keys.add(number if key is None else key)
        self._rows += 1
        if len(self._noted) < _SHOWN:
            self._noted.append(Problem(self.source.location(number), wrong, right))
            self.source.problems.append(self._noted[-1])

    def close(self, notes: list[str]) -> None:
        """Adds the note in place of the problems, if the rows may be left out; to be called at the end of the file."""
        count, rows = len(self._keys), max(self.source.count, 1)
        if not count or self.strict or count > max(FEW, SHARE * rows) or 2 * self._rows >= rows:
            return
        mine = set(map(id, self._noted))
        others = [problem for problem in self.source.problems if id(problem) not in mine]
        if any(problem.location.startswith(str(self.source.path)) for problem in others):
            return
        self.source.problems[:] = others
        left_out = f"{counted(self._rows, self.noun)} {self.why} left out"
        notes.append(f"{self.source.path.name}: {left_out} (the first: {Path(self._noted[0].location).name})")


@dataclass
class Repeats:
    """Collects the repeated rows of one file.

    lines  the file; contradictions become its problems
    notes  where `note` says how many rows counted once, and where the first of them stands
    """

    lines: Lines
    notes: list[str]
    same: list[tuple[int, int]] = field(default_factory=list)

    def add(self, number: int, first: int, contradiction: str | None) -> None:
        """Adds a row that repeats the row `first`. `contradiction`: what is wrong with it, ending in a word that the
        location of the first row may follow; None: it says the same."""
        if contradiction is None:
            self.same.append((number, first))
        else:
            self.lines.problem(number, f"{contradiction} {self.lines.path}:{first}", "keep the row that is right")

    def note(self) -> None:
        """Adds the note on the rows that say the same, if there are any."""
        if self.same:
            number, first = self.same[0]
            self.notes.append(
                repeat_note(self.lines.path, len(self.same), f"line {number} says what line {first} says")
            )


def repeat_note(path: Path, count: int, first: str) -> str:
    """The note on rows of a file that count once. `first`: where the first of them and the one it repeats stand."""
    rows = "row" if count == 1 else "rows"
    return f"{path.name}: {count:,} repeated {rows} left out (the first: {first})"
