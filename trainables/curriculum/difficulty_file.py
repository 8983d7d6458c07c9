"""Difficulty from a file: a value for each query and document, by their ids or by their texts."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.columns import RankingData, Split
from trainables.data.instances import Instances
from trainables.data.readers.collection import hash_of
from trainables.data.readers.contents import is_number
from trainables.data.readers.rows import Rows, Wrong, one_line, score_of

COLUMNS = ("QUERY", "DOCUMENT", "VALUE")
FORM = "QUERY TAB DOCUMENT TAB VALUE"
LOCATION = "curriculum.file"
_SHOWN = 3  # instances without a value that the error names
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd: no product loses a bit


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
    document = np.where(instances.positive >= 0, instances.positive, instances.negative)
    query = _hashed(split.query[instances.query], data.query_ids.__getitem__)

    def ids(rows: np.ndarray) -> np.ndarray:
        return _hashed(split.document[rows], data.document_ids.__getitem__)

    value = np.full(len(instances), np.nan)
    both = np.flatnonzero((instances.positive >= 0) & (instances.negative >= 0))
    pairs = _joined(ids(instances.positive[both]), ids(instances.negative[both]))
    value[both] = table.values(_joined(query[both], pairs))
    value = np.where(np.isnan(value), table.values(_joined(query, ids(document))), value)
    missing = np.flatnonzero(np.isnan(value))
    queries = _hashed(split.query[instances.query[missing]], lambda row: one_line(data.query_text(row)))
    documents = _hashed(split.document[document[missing]], lambda row: one_line(data.documents[row]))
    value[missing] = table.values(_joined(queries, documents))
    if len(missing := np.flatnonzero(np.isnan(value))):
        raise DataError(_without_value(path, data, split, instances.query[missing], document[missing], len(value)))
    return value


def _without_value(
    path: Path, data: RankingData, split: Split, query: np.ndarray, document: np.ndarray, count: int
) -> Problem:
    """The problem of instances, given by their rows, that the file has no value for."""
    shown = ", ".join(
        f"query '{data.query_ids[int(split.query[one])]}' with document '{data.document_ids[int(split.document[row])]}'"
        for one, row in zip(query[:_SHOWN].tolist(), document[:_SHOWN].tolist(), strict=True)
    )
    more = ", ..." if len(query) > _SHOWN else ""
    wrong = f"no value for {len(query):,} of {count:,} training instances: {shown}{more}"
    return Problem(str(path), wrong, f"give each a row {FORM}, by ids or by texts")


@dataclass(frozen=True)
class Table:
    """Values by the 64-bit hash of query and document, sorted. Of ten million rows, two have the same hash with a
    probability of 1 in 300,000."""

    keys: np.ndarray
    value: np.ndarray

    def values(self, keys: np.ndarray) -> np.ndarray:
        """The value of each key, NaN if it has none; float64 [N]."""
        if not len(self.keys):
            return np.full(len(keys), np.nan)
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[index] == keys, self.value[index], np.nan)


def _read(path: Path) -> Table:
    """The file's rows; those without a document, which `tune-cl score` writes for drawn negatives, name nothing.

    Raises DataError for wrong rows, and for rows that give a query and document another value than an earlier one.
    """
    problems: list[Problem] = []
    rows = Rows(path, COLUMNS, "\t", problems)
    query, document, value, line = array("Q"), array("Q"), array("d"), array("q")
    for number, (asked, name, field) in rows:
        if number == 1 and asked.lower() in ("query", "query_id") and not is_number(field):  # a header
            continue
        try:
            given = score_of(field)
        except Wrong:
            rows.problem(number, f"value '{field[:40]}'", "write a finite number, higher = harder")
            continue
        for one in _hashes(name):
            query.append(hash_of(one_line(asked)))
            document.append(one)
            value.append(given)
            line.append(number)
    keys, values = _joined(np.array(query), np.array(document)), np.array(value)
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    for here, there in zip(order[same + 1].tolist(), order[same].tolist(), strict=True):
        if values[here] != values[there]:
            wrong = (
                f"value {values[here]:g} for a query and document that have {values[there]:g} in {path}:{line[there]}"
            )
            rows.problem(line[here], wrong, "keep the row that is right")
    if problems:
        raise DataError(problems)
    return Table(keys[order], values[order])


def _hashes(document: str) -> list[int]:
    """What a row may name: a document by id or text, and if it is two words, two documents by their ids."""
    name = one_line(document)
    if not name:
        return []
    words = name.split(" ")
    pair = [int(_joined(*(np.array([hash_of(word)], np.uint64) for word in words))[0])] if len(words) == 2 else []
    return [hash_of(name), *pair]


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """One hash of two, by which their order matters; uint64 [N]."""
    return first.astype(np.uint64) * _FACTORS[0] + second.astype(np.uint64) * _FACTORS[1]


def _hashed(rows: np.ndarray, name_of: Callable[[int], str]) -> np.ndarray:
    """Hashes of the names of rows, uint64 [N]; each is computed once."""
    distinct, index = np.unique(rows, return_inverse=True)
    hashes = np.fromiter((hash_of(name_of(int(row))) for row in distinct), np.uint64, len(distinct))
    return hashes[index]
