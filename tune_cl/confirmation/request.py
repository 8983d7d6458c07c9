"""What `tune-cl confirm` was asked for, and what a split had shown before that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainables.errors import ConfigError, DataError, Problem
from trainables.evaluation.significance import CORRECTIONS
from trainables.files import read_text
from tune_cl.place import Place

Document = Mapping[str, Any]

NEW = ("p_new", "p_new_adjusted", "ci95_new")
NEEDED = {"split", "seeds", "baseline", "configurations", "verdict"}


@dataclass(frozen=True)
class Request:
    """The options of `tune-cl confirm`. Raises ConfigError for values that make no sense."""

    top: int = 3
    seeds: int = 5
    split: str = "test"
    correction: str = "holm"
    race: bool = False
    ablate: bool = False

    def __post_init__(self) -> None:
        flags = {"--top": self.top, "--seeds": self.seeds}
        problems = [Problem(flag, f"{value} is below 1", "1 or more") for flag, value in flags.items() if value < 1]
        try:
            _ = CORRECTIONS[self.correction]
        except ConfigError as error:
            problems += [Problem("--correction", problem.wrong, problem.right) for problem in error.problems]
        if problems:
            raise ConfigError(problems)

    def command(self, place: Place, address: str | None) -> str:
        """What a user types to ask for it."""
        options = f"--top {self.top} --seeds {self.seeds} --split {self.split} --correction {self.correction}"
        flags = f"{' --race' if self.race else ''}{' --ablate' if self.ablate else ''}"
        return f"{place.command('confirm', address)} {options}{flags}"


def verdict_file(search: Path, split: str) -> Path:
    """Where a search keeps its last verdict on a split."""
    return search / "confirmation" / f"{split}.json"


def last_verdict(search: Path, split: str) -> dict[str, Any] | None:
    """The document of the last confirmation on a split, if there was one; what an earlier version found speaks of its
    seeds alone. Raises DataError if it is damaged."""
    path = verdict_file(search, split)
    if not path.exists():
        return None
    right = "the file as tune-cl confirm wrote it"
    try:
        document = json.loads(read_text(path))
    except ValueError as wrong:
        raise DataError(Problem(str(path), f"not JSON ({wrong})", right)) from wrong
    if missing := NEEDED - set(document):
        raise DataError(Problem(str(path), f"lacks {', '.join(sorted(missing))}", right))
    return document if "these_seeds" in document else _of_these_seeds(document)


def _of_these_seeds(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a version whose verdict and marks took the seeds as given."""
    rows = [row for entry in document["configurations"] for row in (entry, entry.get("ablation")) if row]
    for row in rows:
        row |= {"marks": ""} | dict.fromkeys(NEW)
    verdict = {"verdict": "no difference shown", "these_seeds": document["verdict"]}
    return document | verdict | {"detectable": None, "seeds_needed": None}


def looks_before(last: Document | None, document: Document) -> list[dict[str, Any]]:
    """What was seen on the split before `document`, oldest first: the seeds, labels and verdict of each confirmation
    that had other seeds, configurations or another correction. `last`: the document of the last one."""
    if last is None:
        return []
    now = _look(document)
    return [look for look in (*last.get("earlier", []), _look(last)) if look != now]


def _look(document: Document) -> dict[str, Any]:
    tested = [row["label"] for row in document["configurations"]]
    dropped = [one["label"] for one in document.get("dropped", [])]
    seen = {"seeds": document["seeds"], "configurations": tested, "dropped": dropped}
    return seen | {"correction": document.get("correction"), "verdict": document["verdict"]}
