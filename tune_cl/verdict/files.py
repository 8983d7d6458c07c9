"""What a search keeps of its verdicts and effects: the last of each split, and the values by query of a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trainables.core.errors import DataError, Problem
from trainables.core.files import write_text
from tune_cl.results import CONFIRMATION, Effects, Result, Verdict

if TYPE_CHECKING:
    import pandas as pd
SPLITS = ("test", "dev")  # on which configurations are compared
Kind = TypeVar("Kind", bound=Result)


def verdict_file(search: Path, split: str) -> Path:
    """The values by query are beside it (`Verdict.per_query`)."""
    return search / CONFIRMATION / f"{split}.json"


def effects_file(search: Path, split: str) -> Path:
    return search / "effects" / f"{split}.json"


def write_files(search: Path, verdict: Verdict, frame: pd.DataFrame) -> None:
    path = verdict_file(search, verdict.split)
    temporary = path.with_suffix(".new")
    frame.to_parquet(temporary, index=False)
    temporary.replace(path.with_suffix(".parquet"))
    write_text(path, verdict.model_dump_json(indent=1))


def write_effects(search: Path, effects: Effects) -> None:
    write_text(effects_file(search, effects.split), effects.model_dump_json(indent=1))


def last_verdict(search: Path, *splits: str) -> Verdict | None:
    """That of the last confirmation on the first of these splits that has one. Raises DataError if its file is
    damaged."""
    return _read([verdict_file(search, split) for split in splits or SPLITS], Verdict, "confirm")


def last_effects(search: Path) -> Effects | None:
    """What the last `tune-cl effects` found, on test or else on dev. Raises DataError if its file is damaged."""
    return _read([effects_file(search, split) for split in SPLITS], Effects, "effects")


def _read(paths: list[Path], kind: type[Kind], command: str) -> Kind | None:
    for path in paths:
        if path.exists():
            try:
                return kind.model_validate_json(path.read_text(encoding="utf-8"))
            except ValueError as wrong:
                right = f"the file as tune-cl {command} wrote it; tune-cl {command} writes it again"
                raise DataError(Problem(str(path), str(wrong).split("\n")[0], right)) from wrong
    return None
