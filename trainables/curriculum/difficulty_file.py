"""Difficulty from a file: a value for each query and document, by their ids or by their texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.cells import one_line
from trainables.data.columns import RankingData, Split
from trainables.data.instances import Instances

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
    listing = ", ".join(
        f"query '{data.query_ids[int(split.query[one])]}' with document '{data.document_ids[int(split.document[row])]}'"
        for one, row in zip(query[:_SHOWN].tolist(), document[:_SHOWN].tolist(), strict=True)
    )
    more = ", ..." if len(query) > _SHOWN else ""
    wrong = f"no value for {len(query):,} of {count:,} training instances: {listing}{more}"
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
    from trainables.data.judgments import without_header
    from trainables.data.tables import Reading  # here: pandas takes half a second

    reading = Reading()
    frame = reading.table(path, ("query", "document", "value"))
    frame = reading.numbers(without_header(frame, "value"), "value")
    names = frame["document"].map(_hashes)
    frame = frame.assign(name=names).explode("name").dropna(subset="name")
    queries = np.array([hash_of(one_line(query)) for query in frame["query"]], np.uint64)
    keys = _joined(queries, frame["name"].to_numpy(np.uint64))
    reading.problems += _contradictions(path, frame["line"].to_numpy(), keys, frame["value"].to_numpy())
    reading.finish()
    order = np.argsort(keys, kind="stable")
    return Table(keys[order], frame["value"].to_numpy()[order])


def _contradictions(path: Path, line: np.ndarray, keys: np.ndarray, value: np.ndarray) -> list[Problem]:
    """The first row that gives a query and document another value than an earlier one."""
    order = np.argsort(keys, kind="stable")
    same = (keys[order][1:] == keys[order][:-1]) & (value[order][1:] != value[order][:-1])
    if not same.any():
        return []
    there, here = order[:-1][same][0], order[1:][same][0]
    more = f" ({same.sum()} rows)" if same.sum() > 1 else ""
    wrong = f"value {value[here]:g} for a query and document that have {value[there]:g} in {path}:{line[there]}{more}"
    return [Problem(f"{path}:{line[here]}", wrong, "keep the row that is right")]


def hash_of(name: str) -> int:
    """A 64-bit hash of an id or text."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


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
