"""Rated documents of a file, many rows at a time.

A run as programs write it, whose rows are QUERY Q0 DOCUMENT RANK SCORE TAG between single spaces or tabs, is parsed by
pyarrow. Any other file is read row by row, which knows what is wrong where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.readers.rows import BROKEN, FLOAT32_END, Lines, first_bytes, open_text, usable_id

RUN = ("QUERY", "Q0", "DOCUMENT", "RANK", "SCORE", "TAG")
_PLAIN = re.compile(rb"\S+([ \t])\S+\1\S+\1\S+\1\S+\1\S+\r?\n")
_ROWS = 1 << 16  # of a block that is read row by row

Triples = Iterable[tuple[int, str, str, str]]  # line, query id, document id, value


@dataclass(frozen=True)
class Block:
    """N rows of a file.

    line                int [N]  where each stands
    queries, documents  ids, each once
    query, document     int [N]  places in these
    value               float64 [N]
    """

    line: np.ndarray
    queries: Sequence[str]
    query: np.ndarray
    documents: Sequence[str]
    document: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class PlainRun(Block):
    """All rows of a run. rank: float64 [N]."""

    rank: np.ndarray


def plain_run(path: Path) -> PlainRun | None:
    """A run that pyarrow can parse; None for any other, and for one with a score that float32 cannot hold."""
    if not path.is_file() or not (first := _PLAIN.match(first_bytes(path))):
        return None
    import pyarrow as pa  # here: they take a tenth of a second
    from pyarrow import csv

    ids = pa.dictionary(pa.int32(), pa.string())
    kinds = {"QUERY": ids, "DOCUMENT": ids, "RANK": pa.float64(), "SCORE": pa.float64()}
    try:
        with open_text(path) as stream:
            table = csv.read_csv(
                stream,
                csv.ReadOptions(column_names=RUN),
                csv.ParseOptions(delimiter=first[1].decode(), quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types=kinds, include_columns=[*kinds], null_values=[]),
            )
    except (pa.ArrowException, *BROKEN):
        return None
    (queries, query), (documents, document) = (_coded(table.column(name)) for name in ("QUERY", "DOCUMENT"))
    score, rank = (np.from_dlpack(table.column(name).combine_chunks()) for name in ("SCORE", "RANK"))
    if not (np.abs(score) < FLOAT32_END).all() or not all(map(usable_id, (*queries, *documents))):
        return None
    return PlainRun(np.arange(1, len(score) + 1, dtype=np.int32), queries, query, documents, document, score, rank)


def _coded(column: Any) -> tuple[list[str], np.ndarray]:
    """The values of a dictionary column, each once, and the place of each row's in these."""
    whole = column.unify_dictionaries().combine_chunks()
    return whole.dictionary.to_pylist(), np.from_dlpack(whole.indices)  # `to_numpy` loads pandas


def read_blocks(lines: Lines, rows: Triples, value_of: Callable[[str], float]) -> Iterator[Block]:
    """The rows of a file in blocks. A value that is wrong is NaN, and a problem of `lines`."""
    return blocks_of(
        (number, query, document, lines.value(number, value_of, field)) for number, query, document, field in rows
    )


def blocks_of(rows: Iterable[tuple[int, str, str, float]]) -> Iterator[Block]:
    """Rows of a line, a query's id, a document's id and a value, in blocks."""
    rows = iter(rows)
    while part := list(islice(rows, _ROWS)):
        queries, documents = dict[str, int](), dict[str, int]()
        columns = [
            (line, queries.setdefault(query, len(queries)), documents.setdefault(document, len(documents)), value)
            for line, query, document, value in part
        ]
        line, query, document, value = map(np.array, zip(*columns, strict=True))
        yield Block(line, list(queries), query, list(documents), document, value)
