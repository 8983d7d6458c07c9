"""Difficulty from a file: a value for each query and document, by their ids or by their texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.cells import one_line
from trainables.data.columns import RankingData, Split
from trainables.data.instances import Instances

if TYPE_CHECKING:
    import pandas as pd

FORM = "QUERY TAB DOCUMENT TAB VALUE"
LOCATION = "curriculum.file"
SHOWN = 3  # instances without a value that the error names


def no_file(name: str | None) -> Problem:
    """The problem of scoring `file` without its file."""
    wrong = "scoring file reads a file, and none is given" if name is None else f"no file '{name}'"
    return Problem(LOCATION, wrong, f"the path of a file of rows {FORM}, higher = harder")


def difficulty_of_file(path: Path, data: RankingData, split: Split, instances: Instances) -> np.ndarray:
    """Difficulty of each instance, float64 [I].

    An instance has the value of its document: the relevant one, also where a negative is drawn for it, or else its
    other one. Where the negative is fixed (training.negatives: all), a row that names both documents, with a space
    between their ids, comes first. Raises ConfigError without the file, DataError for wrong rows and missing values.
    """
    if not path.is_file():
        raise ConfigError(no_file(str(path)))
    table = _read(path)
    positive, negative = instances.positive, instances.negative
    query, document = split.query[instances.query], split.document[np.where(positive >= 0, positive, negative)]
    query_ids, document_ids = _names(query, data.query_ids.__getitem__), _names(document, data.document_ids.__getitem__)
    value = np.full(len(instances), np.nan)
    both = np.flatnonzero((positive >= 0) & (negative >= 0))
    others = _names(split.document[negative[both]], data.document_ids.__getitem__)
    value[both] = table.reindex(query_ids[both] + "\t" + document_ids[both] + " " + others)
    value = np.where(np.isnan(value), table.reindex(query_ids + "\t" + document_ids), value)
    rest = np.flatnonzero(np.isnan(value))
    query_texts = _names(query[rest], lambda row: one_line(data.query_text(row)))
    document_texts = _names(document[rest], lambda row: one_line(data.documents[row]))
    value[rest] = table.reindex(query_texts + "\t" + document_texts)
    missing = np.flatnonzero(np.isnan(value))
    if len(missing):
        named = [f"query '{query_ids[row]}' with document '{document_ids[row]}'" for row in missing[:SHOWN]]
        more = ", ..." if len(missing) > SHOWN else ""
        wrong = f"no value for {len(missing):,} of {len(value):,} training instances: {', '.join(named)}{more}"
        raise DataError(Problem(str(path), wrong, f"give each a row {FORM}, by ids or by texts"))
    return value


def _read(path: Path) -> pd.Series:
    """The file's values by query and document, with a tab between them; rows without a document, which `tune-cl score`
    writes for drawn negatives, name nothing. Raises DataError for wrong rows, and for rows that give a query and
    document another value than an earlier one."""
    from trainables.data.judgments import without_header
    from trainables.data.tables import Reading  # here: pandas takes half a second

    reading = Reading()
    frame = reading.table(path, ("query", "document", "value"))
    frame = reading.numbers(without_header(frame, "value"), "value")
    document = frame["document"].map(one_line)
    frame = frame.assign(name=frame["query"].map(one_line) + "\t" + document)[document != ""]
    frame = reading.once(frame, ["name"], "value", "value of '{query}' and '{document}'", noted=False)
    reading.finish()
    return frame.set_index("name")["value"]


def _names(rows: np.ndarray, name_of: Callable[[int], str]) -> np.ndarray:
    """The names of rows, object [N]; each is read once."""
    distinct, index = np.unique(rows, return_inverse=True)
    return np.array([name_of(int(row)) for row in distinct], object)[index]
