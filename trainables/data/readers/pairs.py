"""Pairs, triples and lists of documents with a query: {train,dev,test}.{jsonl,json,csv,tsv,parquet} as
sentence-transformers, MS MARCO, MTEB, FlagEmbedding and tevatron have them, or what the datasets library has saved.

Texts are numbered by content while they stream to disk; memory holds the numbers.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Rated, Task, TextColumn
from trainables.data.data_cache import TextWriter
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.collection import TextTable, repeats_of
from trainables.data.readers.contents import (
    GRADES,
    ROLES,
    SAMPLE,
    SECOND,
    grade_in,
    is_missing,
    objects_in,
    require_texts,
    score_in,
    text_of,
)
from trainables.data.readers.files import SPLIT_NAMES, files_of_splits
from trainables.data.readers.judgments import SCORES, score_rows, scores_file, without_repeats
from trainables.data.readers.rows import (
    LeftOut,
    Rows,
    Unusable,
    Wrong,
    first_bytes,
    one_line,
    read_whole,
    repeat_note,
    score_of,
)
from trainables.data.readers.tables import (
    FORMATS,
    ArrowTable,
    Table,
    TsvTable,
    first_rows,
    joined,
    table_of,
)
from trainables.data.settings import DataConfig

FORM = (
    "query (or anchor), positive, negative or negative_1, ...; query, document, label; sentence1, sentence2, label; or "
    "name yours: data.columns"
)
_NUMBER = re.compile(r"_?([0-9]+)$")
DICT, STATE = "dataset_dict.json", "state.json"
SAVED = "DatasetDict({'train': ..., 'validation': ..., 'test': ...}).save_to_disk(FOLDER)"
LISTED = ("passages", "documents", "candidates", "docs")  # a column whose objects may have grades of their own
SCRATCH = "scratch"  # folder of the workspace with what is gone when the data is complete
_HEAD = 1 << 16  # bytes searched for the keys of articles
_BATCH = 1 << 14  # rows whose texts are numbered together
_SHOWN = 1000  # contradictions of a file that become problems


def is_table(path: Path) -> bool:
    """Whether a TSV file may have pairs or triples: conversations and Quora's pairs begin with a label."""
    rows = first_rows(path)
    return bool(rows) and len(rows[0]) > 1 and rows[0][0] not in ("0", "1")


def is_articles(path: Path) -> bool:
    """Whether a JSON file may hold articles, as SQuAD's do, not rows: the keys `data` and `paragraphs` stand near its
    beginning. True for one that cannot be read: a reader says why."""
    head = first_bytes(path, _HEAD)
    return not head or (b'"data"' in head and b'"paragraphs"' in head)


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
        files = files_of_splits(folder, FORMATS, loosely=False)
        if _has_table(files):
            return files
        files = files_of_splits(folder, (*FORMATS, "json"))
        return {
            split: [each for each in pieces if ".json" not in each[0].suffixes or not is_articles(each[0])]
            for split, pieces in files.items()
        }

    def files(self, folder: Path) -> list[Path]:
        scores = (scores_file(folder, split) for split in SPLITS)
        return [path for path in (*_paths(self._files(folder)), *scores) if path.exists()]

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        """A row is a query with relevant and other documents, or with documents and their grades; a split's documents
        for a query are those of all its rows. Raises DataError with the problems of all files."""
        files = {split: pieces for split, pieces in self._files(folder).items() if pieces}
        problems = [
            _two(folder, split, [each[0].name for each in pieces], "file")
            for split, pieces in files.items()
            if len(pieces) > 1
        ]
        if problems:
            raise DataError(problems)
        pieces = {split: [table_of(path, problems, workspace) for path in each[0]] for split, each in files.items()}
        _tell_headers([table for each in pieces.values() for table in each if type(table) is TsvTable])
        tables = {split: joined(each) for split, each in pieces.items()}
        return read_pairs(folder, tables, config, workspace, problems)


def _tell_headers(tables: Sequence[TsvTable]) -> None:
    """Files that begin with the same row and go on with others begin with their columns' names."""
    begin = [[*first_rows(table.path)[:2], [], []] for table in tables]
    if len({tuple(rows[0]) for rows in begin}) == 1 < len({tuple(rows[1]) for rows in begin}):
        for table in tables:
            table.needs_header = True


def _paths(files: Mapping[str, list[list[Path]]]) -> list[Path]:
    return [path for pieces in files.values() for each in pieces for path in each]


def _has_table(files: Mapping[str, list[list[Path]]]) -> bool:
    return any(".tsv" not in path.suffixes or is_table(path) for path in _paths(files))


def _two(folder: Path, split: str, names: Sequence[str], what: str) -> Problem:
    return Problem(str(folder), f"{' and '.join(names)} are all the {split} split", f"keep one {what} a split")


class SavedDatasets:
    """What `DatasetDict.save_to_disk` has written, read without the library."""

    TASK: Task = "ranking"

    def recognises(self, folder: Path) -> bool:
        """By the file that lists the splits, or that of a single dataset."""
        return (folder / DICT).exists() or (folder / STATE).exists()

    def _states(self, folder: Path) -> dict[str, list[Path]]:
        """The files that describe the splits that are there; of a single dataset, as training data."""
        if (folder / STATE).exists():
            return {"train": [folder / STATE]}
        return {
            split: [path for name in SPLIT_NAMES[split] if (path := folder / name / STATE).exists()] for split in SPLITS
        }

    def files(self, folder: Path) -> list[Path]:
        """Besides the Arrow files those that name them; of a split whose files cannot be told, only that."""
        paths = [folder / DICT]
        for states in self._states(folder).values():
            for state in states:
                paths += [state, *_arrow_files(state, [])]
        return [path for path in (*paths, *(scores_file(folder, split) for split in SPLITS)) if path.exists()]

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
    ids, texts = TextWriter(workspace, "document_ids"), TextWriter(workspace, "documents")

    def add(new: Sequence[bytes]) -> None:
        texts.extend(new)
        ids.extend([b"d%d" % number for number in range(len(documents) - len(new) + 1, len(documents) + 1)])

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
        if not config.columns.named():
            _look(table, columns)
    except Wrong as wrong:
        if wrong.args not in [(problem.wrong, problem.right) for problem in problems]:  # of a split with equal columns
            problems.append(Problem(table.header_location(), *wrong.args))
        return None
    columns = replace(columns, classes=table.classes.get(columns.label or "", ()))
    others = [name or "a column without a name" for name in names if name not in columns.names]
    notes.append(f"{split}: {columns}" + (f"; not read: {', '.join(others)}" if others else ""))
    return columns


def _look(table: Table, columns: Columns) -> None:
    """Raises Wrong for columns that are named as texts and hold none, by the first rows."""
    noted = len(table.problems)
    rows = list(islice(table.rows(columns.texts), SAMPLE))
    del table.problems[noted:]  # whoever reads the rows notes them
    for index, name in enumerate(columns.texts):
        require_texts(name, [values[index] for _, values in rows], may_repeat=name == columns.query)


class _Judgments:
    """The judgments of one split: a cell each, in the order of the rows."""

    def __init__(self, split: str, documents: TextTable, scratch: Path):
        self.split, self.documents = split, documents
        self._texts = TextWriter(scratch, split)
        self.queries = TextTable(self._texts.extend)
        self._query, self._document, self._grade, self._row = array("i"), array("i"), array("h"), array("I")
        self._score, self._dropped = array("d"), array("i")
        self.labelled, self.strict = False, False

    def read(self, table: Table, columns: Columns, strict: bool, notes: list[str]) -> None:
        self.labelled, self.strict = columns.grades_given, strict
        before = len(table.problems)
        unusable = LeftOut(table, "row", "without a text or label", strict)
        equal = LeftOut(table, "negative", "that is its row's positive", strict)
        rows = _judged_rows(table, columns, unusable, equal)
        while batch := list(islice(rows, _BATCH)):
            cells = [cell for _, judged in batch for cell in judged.cells]
            sizes = [len(judged.cells) for _, judged in batch]
            asked = self.queries.rows([judged.query for _, judged in batch])
            self._dropped.extend(query for query, (_, judged) in zip(asked.tolist(), batch, strict=True) if judged.own)
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
        if not self.labelled:
            wrong = _positives_elsewhere(table, row, grade, key, self.strict, notes)
            self._dropped.extend(np.unique(query[wrong]).tolist())
            query, document, row, grade, key = (each[~wrong] for each in (query, document, row, grade, key))
            self._score = array("d", np.array(self._score)[~wrong])
        later, first = repeats_of(key)
        _note_contradictions(table, row, grade, later, first)
        _note_repeated_rows(table, row, key, grade, notes)
        once = np.ones(len(key), bool)
        once[later] = False
        texts, teacher = self._texts.finish(), Rated(query, document, np.array(self._score))
        teacher = teacher.where(once & ~np.isnan(teacher.value))
        return RawSplit(
            _Numbered(f"{self.split}-", len(texts)),
            _Singles(texts),
            Rated(query[once], document[once], grade[once].astype(np.float64)),
            teacher=self._teacher(scores, problems, notes) if scores.exists() else teacher if len(teacher) else None,
            dropped=self._dropped,
        )

    def _teacher(self, path: Path, problems: list[Problem], notes: list[str]) -> Rated:
        """A teacher's scores, which name queries and documents by their texts; one per query and document."""
        rows = Rows(path, SCORES, "\t", problems)
        scored = score_rows(rows)
        query, document, value, line = array("q"), array("q"), array("d"), array("q")
        while batch := list(islice(scored, _BATCH)):
            query.extend(self._found(rows, batch, 1, self.queries, "query").tolist())
            document.extend(self._found(rows, batch, 2, self.documents, "document").tolist())
            value.extend(rows.value(number, score_of, field) for number, _, _, field in batch)
            line.extend(number for number, _, _, _ in batch)
        rated = Rated(np.array(query, np.int64), np.array(document, np.int64), np.array(value, np.float64))
        rated.value[np.minimum(rated.query, rated.document) < 0] = np.nan  # a problem already
        repeats = repeats_of(rated.query, rated.document)
        return without_repeats(rated, repeats, rows, line.__getitem__, "score", notes)

    def _found(
        self, rows: Rows, batch: Sequence[tuple[int, str, str, str]], column: int, table: TextTable, what: str
    ) -> np.ndarray:
        """The numbers of the texts in a column; a text that the split lacks is a problem."""
        numbers = table.find([one_line(str(each[column])) for each in batch])
        for index in np.flatnonzero(numbers < 0).tolist():
            number, text = batch[index][0], str(batch[index][column])
            rows.problem(number, f"no {what} '{text[:40]}' in the pairs", "write the text as the pairs have it")
        return numbers


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


def _positives_elsewhere(
    table: Table, row: np.ndarray, grade: np.ndarray, key: np.ndarray, strict: bool, notes: list[str]
) -> np.ndarray:
    """Which cells are negatives that another row of the query has as its positive, as mining them finds; bool [cells].
    They are left out with a note."""
    positive = np.flatnonzero(grade > 0)
    wrong = (grade == 0) & np.isin(key, key[positive])
    left_out = LeftOut(table, "negative", "that another row of the query has as its positive", strict)
    where = dict(zip(key[positive][::-1].tolist(), row[positive][::-1].tolist(), strict=True)) if wrong.any() else {}
    for index in np.flatnonzero(wrong).tolist():
        place = table.location(where[int(key[index])])
        left_out.add(int(row[index]), f"a negative that is a positive in {place}", "leave out the negative")
    left_out.close(notes)
    return wrong


def _note_contradictions(
    table: Table, row: np.ndarray, grade: np.ndarray, later: np.ndarray, first: np.ndarray
) -> None:
    other = np.flatnonzero(grade[later] != grade[first])[:_SHOWN]
    for here, there in zip(later[other].tolist(), first[other].tolist(), strict=True):
        wrong = f"grade {grade[here]} for a query and document that have grade {grade[there]} in"
        table.problem(int(row[here]), f"{wrong} {table.location(int(row[there]))}", "keep the row that is right")


def _note_repeated_rows(table: Table, row: np.ndarray, key: np.ndarray, grade: np.ndarray, notes: list[str]) -> None:
    """Rows are equal if they hold the same judgments; told by a hash of these, as only a note hangs on it."""
    if not len(row):
        return
    from pandas.util import hash_array  # here: it takes half a second

    begins = np.flatnonzero(np.concatenate([[True], np.diff(row) != 0]))
    hashes = hash_array(key * 2 + (grade > 0))  # pyright: ignore[reportCallIssue]
    later, first = repeats_of(np.add.reduceat(hashes, begins))
    if len(later):
        row_file, first_file = (Path(table.location(int(row[begins[index]]))).name for index in (later[0], first[0]))
        notes.append(repeat_note(table.label, len(later), f"{row_file} repeats {first_file}"))


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


def _plain(name: str) -> str:
    """A column's name without capitals and the number behind it; sentence1 keeps its own."""
    name = name.strip().lower()
    return name if name in SECOND else _NUMBER.sub("", name)


@dataclass(frozen=True)
class Judged:
    """What a row judges. `cells`: (document, grade, score of a teacher or NaN); `own`: whether a negative was left out
    because it is a positive of the row."""

    query: str
    cells: list[tuple[str, int, float]]
    own: bool = False


@dataclass(frozen=True)
class Columns:
    """The columns that are read, by role: with a label the documents have its grades; without one, positives are
    relevant and negatives are not. `graded`: the documents are objects that have grades of their own; `classes`: what
    the label's numbers stand for."""

    query: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    document: tuple[str, ...] = ()
    label: str | None = None
    score: tuple[str, ...] = ()
    graded: bool = False
    classes: Sequence[str] = ()

    @property
    def grades_given(self) -> bool:
        """Whether the rows say grades."""
        return self.graded or self.label is not None

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold texts."""
        return (self.query, *self.positive, *self.negative, *self.document)

    @property
    def names(self) -> tuple[str, ...]:
        label = (self.label,) if self.label else ()
        return (*self.texts, *label, *self.score)

    def __str__(self) -> str:
        scores = f", a teacher's scores from {' and '.join(self.score)}" if self.score else ""
        if self.graded:
            return f"query from {self.query}, documents and their grades from {self.document[0]}"
        if self.label:
            return f"query from {self.query}, document from {self.document[0]}, grade from {self.label}{scores}"
        others = f", others from {_listed(self.negative)}" if self.negative else ""
        return f"query from {self.query}, relevant document from {_listed(self.positive)}{others}{scores}"

    def judged(self, row: Mapping[str, Any]) -> Judged:
        """What a row judges. Raises Wrong, or Unusable if it lacks a text."""
        query = _text(self.query, row[self.query])
        if self.graded:
            return Judged(query, _graded(self.document[0], row[self.document[0]]))
        if self.label:
            return Judged(query, self._labelled(row, self.label))
        relevant = [text for name in self.positive for text in _texts(name, row[name], needed=len(self.positive) == 1)]
        if not relevant:
            raise Unusable(f"no '{self.positive[0]}'", "give the query a relevant document or leave the row out")
        others = [text for name in self.negative for text in _texts(name, row[name])]
        scores = self._scores(row, len(relevant), len(others))
        grades = [1] * len(relevant) + [0] * len(others)
        cells = list(zip([*relevant, *others], grades, scores, strict=True))
        positives = set(relevant)
        kept = [cell for cell in cells if cell[1] or cell[0] not in positives]
        return Judged(query, kept, own=len(kept) < len(cells))

    def _labelled(self, row: Mapping[str, Any], label: str) -> list[tuple[str, int, float]]:
        """One document with its grade, or lists of both."""
        texts = [text for name in self.document for text in _texts(name, row[name], needed=True)]
        listed = isinstance(row[self.document[0]], list) and isinstance(row[label], list)
        labels = row[label] if listed else [row[label]]
        if len(labels) != len(texts):
            raise Wrong(f"{len(texts)} documents and {len(labels)} in '{label}'", "give each document its label")
        grades = [grade_in(label, value, self.classes) for value in labels]
        return list(zip(texts, grades, self._scores(row, len(texts), 0), strict=True))

    def _scores(self, row: Mapping[str, Any], relevant: int, others: int) -> list[float]:
        """A teacher's score of each document, NaN where the row has none. One number for several documents is the
        difference of two scores, which says nothing of a document alone."""
        counts = [relevant, others] if len(self.score) > 1 else [relevant + others]
        scores: list[float] = []
        for name, count in zip(self.score, counts, strict=False):
            value = row[name]
            values = value if isinstance(value, list) else [value] if count == 1 else []
            if not values or is_missing(value):
                scores += [math.nan] * count
            elif len(values) == count:
                scores += [score_in(name, each) for each in values]
            else:
                raise Wrong(f"{count} documents and {len(values)} in '{name}'", "give each document its score")
        return scores + [math.nan] * (relevant + others - len(scores))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def columns_of(names: Sequence[str], chosen: Mapping[str, str]) -> Columns:
    """Which of a file's columns are read. `chosen`: the columns of roles that the user names, and then no others.
    Raises Wrong if they fit no form, or two."""
    if repeated := next((name for name in names if name and names.count(name) > 1), None):
        raise Wrong(f"two columns '{repeated}'", "name each column once")
    roles = _chosen(names, chosen) if chosen else _known(names)
    if len(roles["query"]) > 1:
        raise Wrong(
            f"the columns {', '.join(names)} could be read as query from {' or from '.join(roles['query'])}",
            "keep one, or name it: data.columns.query",
        )
    forms = list(_readings(roles)) + _sentences(names, roles)
    if len(forms) > 1:
        forms_in_words = " or as ".join(map(str, forms))
        raise Wrong(f"the columns {', '.join(names)} could be read as {forms_in_words}", "keep one form")
    if not forms:
        if {"qid", "label"} <= {name.lower() for name in names}:
            right = "LETOR's form, train.txt with rows LABEL qid:N INDEX:VALUE ...: sklearn.datasets.dump_svmlight_file"
            raise Wrong("features and labels in columns", right)
        pair = set(SECOND) <= set(map(_plain, names))
        if roles["score"] and (pair or (roles["query"] and (roles["positive"] or roles["document"]))):
            wrong = f"no grades: {roles['score'][0]} is a teacher's score, which says not what is relevant"
            raise Wrong(wrong, "name it label if its whole numbers are grades, or round it to some in a column label")
        raise Wrong(f"no form of pairs has the columns {', '.join(names)[:200]}", FORM)
    return forms[0]


Roles = Mapping[str, tuple[str, ...]]


def _known(names: Sequence[str]) -> Roles:
    """The columns of each role, by the names in use; several only where a number tells them apart."""
    roles = {}
    for role, synonyms in ROLES.items():
        kinds = {name: _plain(name) for name in names}
        columns = [name for name in names if kinds[name] in synonyms]
        roles[role] = tuple(sorted(columns, key=lambda name: (synonyms.index(kinds[name]), _number(name))))
    return roles


def _chosen(names: Sequence[str], chosen: Mapping[str, str]) -> Roles:
    if missing := [column for column in chosen.values() if not any(_named(name, column) for name in names)]:
        raise Wrong(f"no column '{missing[0]}' (data.columns)", f"one of {', '.join(names)[:200]}")
    return {role: tuple(name for name in names if _named(name, chosen.get(role))) for role in ROLES}


def _named(name: str, column: str | None) -> bool:
    """Whether a column has that name, or that name with a number behind it."""
    return column is not None and column in (name, _NUMBER.sub("", name))


def _number(name: str) -> int:
    match = _NUMBER.search(name)
    return int(match[1]) if match else 0


def _readings(roles: Roles) -> Iterator[Columns]:
    """The forms that the columns fit. A label gives documents their grades, whatever their column is called."""
    query, label = (next(iter(roles[role]), None) for role in ("query", "label"))
    if query is None:
        return
    scores = roles["score"] or (*roles["pos_scores"][:1], *roles["neg_scores"][:1])
    positive, negative, document = (roles[role] for role in ("positive", "negative", "document"))
    kinds = {_plain(name) for name in positive}
    if len(kinds) > 1 and not label:
        for kind in sorted(kinds):
            yield Columns(query, tuple(name for name in positive if _plain(name) == kind), negative, score=scores)
        return
    alone = bool(roles["score"]) and len(positive) == 1 and not negative  # a score that may say what is not relevant
    if positive and not alone and (negative or document or not label):
        yield Columns(query, positive, negative, score=scores)
    if document and not (positive or negative or label or scores) and _plain(document[0]) in LISTED:
        yield Columns(query, document=document[:1], graded=True)
    if label:
        for name in document or positive:
            yield Columns(query, document=(name,), label=label, score=scores[:1])


def _sentences(names: Sequence[str], roles: Roles) -> list[Columns]:
    plain = {_plain(name): name for name in names}
    if set(SECOND) <= plain.keys() and roles["label"]:
        return [Columns(plain[SECOND[0]], document=(plain[SECOND[1]],), label=roles["label"][0])]
    return []


def _texts(name: str, value: Any, needed: bool = False) -> list[str]:
    """The texts of a cell: one, or a list of texts or of objects with a text and, perhaps, a title. Empty ones of a
    list are passed over; `needed`: a cell that is not a list must have one."""
    value = objects_in(value)
    if isinstance(value, list):
        return [text for each in value if not is_missing(each) and (text := text_of(name, each))]
    if is_missing(value) and not needed:
        return []
    return [_text(name, value)]


def _graded(name: str, value: Any) -> list[tuple[str, int, float]]:
    """The documents of a list of objects, with the grades that these hold."""
    value = objects_in(value)
    cells = []
    for each in value if isinstance(value, list) else [value]:
        key = next((key for key in GRADES if isinstance(each, Mapping) and key in each), None)
        if key is None:
            raise Wrong(f"'{name}' holds no grades ({' or '.join(GRADES)})", "a column label, or objects with grades")
        cells.append((_text(name, each), grade_in(key, each[key]), math.nan))
    if not cells:
        raise Unusable(f"no '{name}'", "give the query documents or leave the row out")
    return cells


def _text(name: str, value: Any) -> str:
    text = text_of(name, value)
    if not text:
        raise Unusable(f"an empty '{name}'", "give a text or leave the row out")
    return text
