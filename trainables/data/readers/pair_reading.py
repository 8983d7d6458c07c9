"""Pairs and triples to data: texts are numbered by content while they stream to disk, memory holds the numbers."""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import RankingData, Rated, TextColumn
from trainables.data.data_cache import TextWriter
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.judgments import SCORES, score_rows, scores_file
from trainables.data.readers.pair_columns import Columns, columns_of
from trainables.data.readers.pair_tables import Table
from trainables.data.readers.repeats import Repeats, repeat_note
from trainables.data.readers.rows import Rows, Wrong, one_line, score_of
from trainables.data.readers.text_table import TextTable
from trainables.data.settings import DataConfig

SCRATCH = "scratch"  # folder of the workspace with what is gone when the data is complete
_BATCH = 1 << 14  # rows whose texts are numbered together
_SHOWN = 1000  # contradictions of a file that become problems


def read_pairs(
    folder: Path, tables: Mapping[str, Table], config: DataConfig, workspace: Path, problems: list[Problem]
) -> RankingData:
    """The data in tables of pairs or triples, by split, without a digest.

    Documents are the distinct texts d1, d2, ... of all splits; queries those of each split, SPLIT-1, SPLIT-2, ...; both
    in the order in which they first occur. White space within a text is squeezed. Raises DataError with everything
    that is wrong, `problems` first.
    """
    raw = _read(folder, tables, workspace, problems)  # a function of its own: what it needs is freed before `assemble`
    data = assemble(raw, config)
    shutil.rmtree(workspace / SCRATCH)
    return data


def _read(folder: Path, tables: Mapping[str, Table], workspace: Path, problems: list[Problem]) -> Raw:
    notes: list[str] = []
    ids, texts, numbers = TextWriter(workspace, "document_ids"), TextWriter(workspace, "documents"), count(1)

    def add(new: Sequence[bytes]) -> None:
        texts.extend(new)
        ids.extend([b"d%d" % number for number in islice(numbers, len(new))])

    documents = TextTable(add)
    splits = {}
    for split, table in tables.items():
        if columns := _columns(split, table, problems, notes):
            judged = _Judged(split, documents, workspace / SCRATCH)
            judged.read(table, columns, problems)
            splits[split] = judged.finish(table, scores_file(folder, split), problems, notes)
    if problems:
        raise DataError(problems)
    return Raw(folder.name, ids.finish(), texts.finish(), splits, tuple(notes))


def _columns(split: str, table: Table, problems: list[Problem], notes: list[str]) -> Columns | None:
    """The columns that are read, which becomes a note; None if there is a problem."""
    names = table.names()
    if names is None:
        return None
    try:
        columns = columns_of(names)
    except Wrong as wrong:
        problems.append(Problem(table.header_location(), *wrong.args))
        return None
    others = [name for name in names if name not in columns.names]
    notes.append(f"{split}: {columns}" + (f"; not read: {', '.join(others)}" if others else ""))
    return columns


class _Judged:
    """The judgments of one split: a cell each, in the order of the rows."""

    def __init__(self, split: str, documents: TextTable, scratch: Path):
        self.split, self.documents = split, documents
        self._texts = TextWriter(scratch, split)
        self.queries = TextTable(self._texts.extend)
        self._query, self._document, self._grade, self._row = array("i"), array("i"), array("h"), array("I")

    def read(self, table: Table, columns: Columns, problems: list[Problem]) -> None:
        rows, before = _judged_rows(table, columns), len(problems)
        while batch := list(islice(rows, _BATCH)):
            sizes = [len(rated) for _, _, rated in batch]
            cells = [cell for _, _, rated in batch for cell in rated]
            query = np.repeat(self.queries.rows([text for _, text, _ in batch]), sizes)
            row = np.repeat([number for number, _, _ in batch], sizes)
            document = self.documents.rows([text for text, _ in cells])
            for column, values in ((self._query, query), (self._document, document), (self._row, row)):
                column.frombytes(values.astype(column.typecode).tobytes())
            self._grade.extend(grade for _, grade in cells)
        if not self._row and len(problems) == before:
            problems.append(Problem(str(table.path), "no rows behind the header", "give rows"))

    def finish(self, table: Table, scores: Path, problems: list[Problem], notes: list[str]) -> RawSplit:
        """The split, each query and document once. Contradictions become problems, rows that repeat others a note."""
        query, document, row = (np.array(each).astype(np.int64) for each in (self._query, self._document, self._row))
        grade, key = np.array(self._grade), query * max(1, len(self.documents)) + document
        first = _first_equal(key)
        _note_contradictions(table, row, grade, first)
        _note_repeated_rows(table, row, key, grade, notes)
        once = first == np.arange(len(first))
        texts = self._texts.finish()
        return RawSplit(
            _Numbered(f"{self.split}-", len(texts)),
            _Singles(texts),
            Rated(query[once], document[once], grade[once].astype(np.float64)),
            teacher=self._teacher(scores, problems, notes) if scores.exists() else None,
        )

    def _teacher(self, path: Path, problems: list[Problem], notes: list[str]) -> Rated:
        """A teacher's scores, which name queries and documents by their texts; one per query and document."""
        rows = Rows(path, SCORES, "\t", problems)
        scored = score_rows(rows)
        query, document, value, line = array("q"), array("q"), array("d"), array("q")
        while batch := list(islice(scored, _BATCH)):
            query.extend(self._found(rows, batch, 1, self.queries, "query").tolist())
            document.extend(self._found(rows, batch, 2, self.documents, "document").tolist())
            value.extend(_score(rows, number, field) for number, _, _, field in batch)
            line.extend(number for number, _, _, _ in batch)
        rated = Rated(np.array(query, np.int64), np.array(document, np.int64), np.array(value, np.float64))
        first = _first_equal(rated.query * max(1, len(self.documents)) + rated.document)
        repeats = Repeats(rows, notes)
        for here in np.flatnonzero(first != np.arange(len(first))).tolist():
            one, other = rated.value[here], rated.value[first[here]]
            if min(rated.query[here], rated.document[here]) >= 0 and not np.isnan(one + other):
                wrong = f"score {one:g} for a query and document that have score {other:g} in"
                repeats.add(line[here], line[first[here]], None if one == other else wrong)
        repeats.note()
        return rated.where(first == np.arange(len(first)))

    def _found(
        self, rows: Rows, batch: Sequence[tuple[int, str, str, str]], column: int, table: TextTable, what: str
    ) -> np.ndarray:
        """The numbers of the texts in a column; a text that the split lacks is a problem."""
        found = table.find([one_line(str(each[column])) for each in batch])
        for index in np.flatnonzero(found < 0).tolist():
            number, text = batch[index][0], str(batch[index][column])
            rows.problem(number, f"no {what} '{text[:40]}' in the pairs", "write the text as the pairs have it")
        return found


def _score(rows: Rows, number: int, field: str) -> float:
    try:
        return score_of(field)
    except Wrong as wrong:
        rows.problem(number, *wrong.args)
        return np.nan


def _judged_rows(table: Table, columns: Columns) -> Iterator[tuple[int, str, list[tuple[str, int]]]]:
    """(row, query, documents with grades); a wrong row becomes a problem."""
    for number, values in table.rows(columns.names):
        try:
            query, rated = columns.judgments(values)
        except Wrong as wrong:
            table.problem(number, *wrong.args)
        else:
            yield number, query, rated


def _first_equal(keys: np.ndarray) -> np.ndarray:
    """For each of N keys the index of the first equal one, int64 [N]."""
    order = np.argsort(keys, kind="stable")
    starts = np.concatenate([[True], np.diff(keys[order]) != 0])[: len(keys)]
    first = np.empty(len(keys), np.int64)
    first[order] = order[np.maximum.accumulate(np.where(starts, np.arange(len(keys)), 0))]
    return first


def _note_contradictions(table: Table, row: np.ndarray, grade: np.ndarray, first: np.ndarray) -> None:
    for cell in np.flatnonzero(grade != grade[first])[:_SHOWN].tolist():
        there = table.location(int(row[first[cell]]))
        wrong = f"grade {grade[cell]} for a query and document that have grade {grade[first[cell]]} in {there}"
        table.problem(int(row[cell]), wrong, "keep the row that is right")


def _note_repeated_rows(table: Table, row: np.ndarray, key: np.ndarray, grade: np.ndarray, notes: list[str]) -> None:
    """Rows are equal if they hold the same judgments; told by a hash of these, as only a note hangs on it."""
    if not len(row):
        return
    begins = np.flatnonzero(np.concatenate([[True], np.diff(row) != 0]))
    whole = np.add.reduceat(_mixed(key.astype(np.uint64) * np.uint64(2) + (grade > 0)), begins)
    first = _first_equal(whole)
    repeated = np.flatnonzero(first != np.arange(len(first)))
    if len(repeated):
        here, there = (
            Path(table.location(int(row[begins[index]]))).name for index in (repeated[0], first[repeated[0]])
        )
        notes.append(repeat_note(table.path, len(repeated), f"{here} repeats {there}"))


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele et al. 2014): spreads each value's bits over all 64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True)
class _Numbered(Sequence[str]):
    """Names that end in a number from 1."""

    prefix: str
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index):
        return f"{self.prefix}{index + 1}"


@dataclass(frozen=True)
class _Singles(Sequence[tuple[str, ...]]):
    """Queries of one utterance."""

    texts: TextColumn

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index):
        return (self.texts[index],)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return ((text,) for text in self.texts)
