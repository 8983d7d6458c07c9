"""Pairs, triples and lists of documents with a query: {train,dev,test}.{jsonl,json,csv,tsv,parquet} as
sentence-transformers, MS MARCO, MTEB, FlagEmbedding and tevatron have them, or what the datasets library has saved.

Texts are numbered by content while they stream to disk; memory holds the numbers.
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Rated, Task, TextColumn
from trainables.data.data_cache import TextWriter
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.files import SPLIT_NAMES, files_of_splits
from trainables.data.readers.judgments import SCORES, score_rows, scores_file
from trainables.data.readers.pair_columns import Columns, Judged, Unusable, columns_of, is_known
from trainables.data.readers.rows import LeftOut, Repeats, Rows, Wrong, one_line, read_whole, repeat_note, score_of
from trainables.data.readers.squad import may_be_squad
from trainables.data.readers.tables import (
    FORMATS,
    NAME,
    ArrowTable,
    Table,
    columns_without_header,
    first_rows,
    joined,
    table_of,
)
from trainables.data.readers.text_table import TextTable
from trainables.data.settings import DataConfig

DICT, STATE = "dataset_dict.json", "state.json"
SAVED = "DatasetDict({'train': ..., 'validation': ..., 'test': ...}).save_to_disk(FOLDER)"
SCRATCH = "scratch"  # folder of the workspace with what is gone when the data is complete
_BATCH = 1 << 14  # rows whose texts are numbered together
_SHOWN = 1000  # contradictions of a file that become problems


def is_table(path: Path) -> bool:
    """Whether a TSV file has pairs or triples: a header that names their columns, or rows of texts, with which neither
    conversations nor Quora's pairs begin."""
    rows = first_rows(path)
    if not rows or rows[0][0] in ("0", "1"):
        return False
    named = len(rows[0]) > 1 and all(map(NAME.fullmatch, rows[0]))
    return named or any(map(is_known, rows[0])) or columns_without_header(rows) is not None


class Pairs:
    """Files of pairs."""

    TASK: Task = "ranking"

    def recognises(self, folder: Path) -> bool:
        """By a .jsonl, .csv or .parquet of a split, or by a .tsv that `is_table`."""
        return _has_table(files_of_splits(folder, FORMATS, loosely=False))

    def fits_loosely(self, folder: Path) -> bool:
        """By a .json too, or by a name that holds a split's."""
        return _has_table(self._files(folder))

    def _files(self, folder: Path) -> dict[str, list[list[Path]]]:
        found = files_of_splits(folder, FORMATS, loosely=False)
        if _has_table(found):
            return found
        found = files_of_splits(folder, (*FORMATS, "json"))
        return {
            split: [each for each in pieces if ".json" not in each[0].suffixes or not may_be_squad(each[0])]
            for split, pieces in found.items()
        }

    def files(self, folder: Path) -> list[Path]:
        scores = (scores_file(folder, split) for split in SPLITS)
        return [path for path in (*_paths(self._files(folder)), *scores) if path.exists()]

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        """A row is a query with relevant and other documents, or with documents and their grades; a split's documents
        for a query are those of all its rows. Raises DataError with the problems of all files."""
        given = {split: pieces for split, pieces in self._files(folder).items() if pieces}
        problems = [
            _two(folder, split, [each[0].name for each in pieces], "file")
            for split, pieces in given.items()
            if len(pieces) > 1
        ]
        if problems:
            raise DataError(problems)
        tables = {
            split: joined([table_of(path, problems, workspace) for path in pieces[0]])
            for split, pieces in given.items()
        }
        return read_pairs(folder, tables, config, workspace, problems)


def _paths(found: Mapping[str, list[list[Path]]]) -> list[Path]:
    return [path for pieces in found.values() for each in pieces for path in each]


def _has_table(found: Mapping[str, list[list[Path]]]) -> bool:
    return any(".tsv" not in path.suffixes or is_table(path) for path in _paths(found))


def _two(folder: Path, split: str, names: Sequence[str], what: str) -> Problem:
    return Problem(str(folder), f"{' and '.join(names)} are all the {split} split", f"keep one {what} a split")


class SavedDatasets:
    """What `DatasetDict.save_to_disk` has written, read without the library."""

    TASK: Task = "ranking"

    def recognises(self, folder: Path) -> bool:
        """By the file that lists the splits, or that of a single dataset."""
        return (folder / DICT).exists() or (folder / STATE).exists()

    def _states(self, folder: Path) -> dict[str, list[Path]]:
        """The files that describe the splits that are there."""
        return {
            split: [path for name in SPLIT_NAMES[split] if (path := folder / name / STATE).exists()] for split in SPLITS
        }

    def files(self, folder: Path) -> list[Path]:
        """Besides the Arrow files those that name them; of a split whose files cannot be told, only that."""
        found = [folder / DICT]
        for states in self._states(folder).values():
            for state in states:
                found += [state, *_arrow_files(state, [])]
        return [path for path in (*found, *(scores_file(folder, split) for split in SPLITS)) if path.exists()]

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        """Rows as in a folder of pairs. Raises DataError with the problems of all files."""
        problems: list[Problem] = []
        tables = {}
        for split, states in self._states(folder).items():
            if len(states) > 1:
                problems.append(_two(folder, split, [state.parent.name for state in states], "folder"))
            if states and (paths := _arrow_files(states[0], problems)):
                tables[split] = joined([ArrowTable(path, problems) for path in paths])
        if not tables and not problems:
            problems.append(Problem(str(folder), "no folder train, validation or test", f"save splits: {SAVED}"))
        return read_pairs(folder, tables, config, workspace, problems)


def _arrow_files(state: Path, problems: list[Problem]) -> list[Path]:
    """The files of a split in the order that its state.json gives."""
    text = read_whole(state, problems)
    if text is None:
        return []
    try:
        names = [entry["filename"] for entry in json.loads(text)["_data_files"]]
        if names and all(isinstance(name, str) and Path(name).name == name for name in names):
            return [state.parent / name for name in names]
    except (ValueError, KeyError, TypeError, RecursionError):
        names = []
    problems.append(Problem(str(state), "names no Arrow files beside it", f"save the data again: {SAVED}"))
    return []


PAIRS, DATASETS = Pairs(), SavedDatasets()


def read_pairs(
    folder: Path, tables: Mapping[str, Table], config: DataConfig, workspace: Path, problems: list[Problem]
) -> RankingData:
    """The data in tables of pairs or triples, by split, without a digest.

    Documents are the distinct texts d1, d2, ... of all splits; queries those of each split, SPLIT-1, SPLIT-2, ...; both
    in the order in which they first occur. White space within a text is squeezed. Raises DataError with everything
    that is wrong, `problems` first.
    """
    raw = _read(folder, tables, config, workspace, problems)  # what it needs is freed before `assemble`
    data = assemble(raw, config)
    shutil.rmtree(workspace / SCRATCH)
    return data


def _read(
    folder: Path, tables: Mapping[str, Table], config: DataConfig, workspace: Path, problems: list[Problem]
) -> Raw:
    notes: list[str] = []
    ids, texts, numbers = TextWriter(workspace, "document_ids"), TextWriter(workspace, "documents"), count(1)

    def add(new: Sequence[bytes]) -> None:
        texts.extend(new)
        ids.extend([b"d%d" % number for number in islice(numbers, len(new))])

    documents = TextTable(add)
    splits = {}
    for split, table in tables.items():
        if columns := _columns(split, table, config, problems, notes):
            judged = _Judgments(split, documents, workspace / SCRATCH)
            judged.read(table, columns, config.strict, notes)
            splits[split] = judged.finish(table, scores_file(folder, split), problems, notes)
    if problems:
        raise DataError(problems)
    return Raw(folder.name, ids.finish(), texts.finish(), splits, tuple(notes))


def _columns(split: str, table: Table, config: DataConfig, problems: list[Problem], notes: list[str]) -> Columns | None:
    """The columns that are read, which becomes a note; None if there is a problem."""
    names = table.names()
    if names is None:
        return None
    try:
        columns = columns_of(names, config.columns.named())
    except Wrong as wrong:
        if wrong.args not in [(problem.wrong, problem.right) for problem in problems]:  # of a split with equal columns
            problems.append(Problem(table.header_location(), *wrong.args))
        return None
    others = [name for name in names if name not in columns.names]
    notes.append(f"{split}: {columns}" + (f"; not read: {', '.join(others)}" if others else ""))
    return columns


class _Judgments:
    """The judgments of one split: a cell each, in the order of the rows."""

    def __init__(self, split: str, documents: TextTable, scratch: Path):
        self.split, self.documents = split, documents
        self._texts = TextWriter(scratch, split)
        self.queries = TextTable(self._texts.extend)
        self._query, self._document, self._grade, self._row = array("i"), array("i"), array("h"), array("I")
        self._score, self._bared = array("d"), array("i")

    def read(self, table: Table, columns: Columns, strict: bool, notes: list[str]) -> None:
        before = len(table.problems)
        unusable = LeftOut(table, "row", "with an empty text", strict)
        equal = LeftOut(table, "negative", "that is its row's positive", strict)
        rows = _judged_rows(table, columns, unusable, equal)
        while batch := list(islice(rows, _BATCH)):
            cells = [cell for _, judged in batch for cell in judged.cells]
            sizes = [len(judged.cells) for _, judged in batch]
            asked = self.queries.rows([judged.query for _, judged in batch])
            self._bared.extend(query for query, (_, judged) in zip(asked.tolist(), batch, strict=True) if judged.own)
            query = np.repeat(asked, sizes)
            row = np.repeat([number for number, _ in batch], sizes)
            document = self.documents.rows([text for text, _, _ in cells])
            for column, values in ((self._query, query), (self._document, document), (self._row, row)):
                column.frombytes(values.astype(column.typecode).tobytes())
            self._grade.extend(grade for _, grade, _ in cells)
            self._score.extend(score for _, _, score in cells)
        unusable.close(notes)
        equal.close(notes)
        if not self._row and len(table.problems) == before:
            table.problems.append(Problem(str(table.path), "no rows behind the header", "give rows"))

    def finish(self, table: Table, scores: Path, problems: list[Problem], notes: list[str]) -> RawSplit:
        """The split, each query and document once. Contradictions become problems, rows that repeat others a note."""
        query, document, row = (np.array(each).astype(np.int64) for each in (self._query, self._document, self._row))
        grade, key = np.array(self._grade), query * max(1, len(self.documents)) + document
        first = _first_equal(key)
        _note_contradictions(table, row, grade, first)
        _note_repeated_rows(table, row, key, grade, notes)
        once = first == np.arange(len(first))
        texts, teacher = self._texts.finish(), Rated(query, document, np.array(self._score))
        teacher = teacher.where(once & ~np.isnan(teacher.value))
        return RawSplit(
            _Numbered(f"{self.split}-", len(texts)),
            _Singles(texts),
            Rated(query[once], document[once], grade[once].astype(np.float64)),
            teacher=self._teacher(scores, problems, notes) if scores.exists() else teacher if len(teacher) else None,
            bared=self._bared,
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


def _judged_rows(table: Table, columns: Columns, unusable: LeftOut, equal: LeftOut) -> Iterator[tuple[int, Judged]]:
    """(row, what it judges); a wrong row becomes a problem, and one without a text is left out."""
    for number, values in table.rows(columns.names):
        try:
            judged = columns.judged(dict(zip(columns.names, values, strict=True)))
        except Unusable as wrong:
            unusable.add(number, *wrong.args)
        except Wrong as wrong:
            table.problem(number, *wrong.args)
        else:
            if judged.own:
                equal.add(number, "a negative that is the positive too", "leave it out")
            yield number, judged


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
