"""What a search keeps of its verdicts: the last one on each split, and the values by query that it is from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainables.core.errors import DataError, Problem
from trainables.core.files import read_text, write_text
from tune_cl.results import Verdict

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
SPLITS = ("test", "dev")  # on which configurations are compared


def verdict_file(search: Path, split: str) -> Path:
    """Where a search keeps its last verdict on a split; the values by query are beside it (`values_path`)."""
    return search / "confirmation" / f"{split}.json"


def values_path(search: Path, split: str) -> Path:
    """Which `Verdict.per_query` reads."""
    return search / "confirmation" / f"{split}.parquet"


def write_files(search: Path, verdict: Verdict, frame: pd.DataFrame) -> None:
    path = values_path(search, verdict.split)
    temporary = path.with_suffix(".new")
    frame.to_parquet(temporary, index=False)
    temporary.replace(path)
    write_text(verdict_file(search, verdict.split), verdict.model_dump_json(indent=1))


def last_verdict(search: Path, split: str) -> Verdict | None:
    """That of the last confirmation on a split, if there was one. Raises DataError if its file is damaged."""
    path = verdict_file(search, split)
    if not path.exists():
        return None
    try:
        return Verdict.model_validate_json(read_text(path))
    except ValueError as wrong:
        right = "the file as tune-cl confirm wrote it; tune-cl confirm writes it again"
        raise DataError(Problem(str(path), str(wrong).split("\n")[0], right)) from wrong


def verdict_values(verdict: Verdict) -> dict[str, np.ndarray]:
    """Values [seeds, clusters] by label, as they were tested."""
    from tune_cl.verdict.test import values_by_cluster  # imports SciPy

    return values_by_cluster(verdict.per_query)
