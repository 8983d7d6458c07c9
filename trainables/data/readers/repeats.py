"""Rows that name what an earlier row named: the same again counts once, something else is an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainables.data.readers.rows import Lines


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
