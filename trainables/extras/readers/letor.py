"""LETOR folder: train.txt, vali.txt, test.txt with rows `label qid:N index:value ... # comment` (SVMlight), as LETOR,
MSLR, Yahoo, Istella, PyTerrier and scikit-learn write them."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.machine import usable_memory
from trainables.core.randomness import generator
from trainables.data.columns import ONE_DOMAIN, SPLITS, RankingData, Split, Task, TextColumn
from trainables.data.data_cache import ArrayWriter
from trainables.data.readers.files import files_of_splits, split_file
from trainables.data.readers.rows import Lines, first_bytes, whole_number
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
FORM = "LABEL qid:N INDEX:VALUE ... # COMMENT"
DEV_SHARE = 0.2  # of the training queries, if there is no vali.txt
MAX_FEATURE = 1 << 16
MAX_VALUE = float(np.finfo(np.float32).max)
_CELLS = 1 << 20  # dense values in memory at once
_MOST_LABEL, UNKNOWN_LABEL = 9999, -1  # the latter: not judged (MQ2008-semi)
_INDEX = re.compile(r"0|[1-9][0-9]{0,6}")
_DOCUMENT = re.compile(r"(docid|docno)\s*=\s*(\S+)")
_ENDINGS = ("txt", "svm", "libsvm", "svmlight", "letor", "dat")
_ROW = re.compile(rb"(?m)^[-0-9.]+ +qid:")


def recognises(folder: Path) -> bool:
    return split_file(folder, "train", "{}.txt").exists()


def fits_loosely(folder: Path) -> bool:
    """By names that hold a split's, if the files begin with such rows: set1.train.txt, test.svm."""
    paths = [path for each in files_of_splits(folder, _ENDINGS).values() for pieces in each for path in pieces]
    return bool(paths) and all(_ROW.search(first_bytes(path)) for path in paths)


def files(folder: Path) -> list[Path]:
    return [path for paths in _by_split(folder).values() for path in paths]


def _by_split(folder: Path) -> dict[str, list[Path]]:
    """The files of each split; several are one too many."""
    named = {split: split_file(folder, split, "{}.txt") for split in SPLITS}
    if named["train"].exists():
        return {split: [path] for split, path in named.items() if path.exists()}
    of_splits = files_of_splits(folder, _ENDINGS)
    return {split: [path for pieces in each for path in pieces] for split, each in of_splits.items() if each}


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Row = document with features and no text; a feature that a row leaves out is 0.

    Document ids are QID:DOCID, because the features of a page differ from query to query; DOCID is the comment's
    `docid = ...`, or else the row's number within its query; `docno = ...` is an id as it stands. There is no
    first-stage ranking. Without vali.txt, a fixed fifth of the training queries is the dev split. Raises DataError with
    the problems of all files.
    """
    if config.candidates != "auto":
        raise DataError(Problem("data.candidates", "LETOR rows are the candidates", "set auto"))
    problems: list[Problem] = []
    rows, notes = _Features(workspace), []
    groups = {}
    for split, paths in _by_split(folder).items():
        if len(paths) > 1:
            names = " and ".join(path.name for path in paths)
            problems.append(Problem(str(folder), f"{names} are all the {split} split", "keep one file a split"))
        groups[split] = _read_groups(Lines(paths[0], FORM, problems), rows, notes)
    if problems:
        raise DataError(problems)
    _require_memory(folder, len(rows), rows.count)
    notes += _hold_out(groups)
    return _assembled(folder.name, groups, rows, tuple(notes))


@dataclass
class _Group:
    """A query's rows."""

    query: str
    documents: list[int] = field(default_factory=list)
    grades: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


class _Features:
    """Features of all rows, sparse on disk until the number of features is certain; and the ids of the rows."""

    def __init__(self, workspace: Path):
        self.workspace = workspace
        self.paths = [workspace / "sparse.index.npy", workspace / "sparse.value.npy"]
        self._index = ArrayWriter(self.paths[0], np.int32)
        self._value = ArrayWriter(self.paths[1], np.float32)
        self._ends = array("q", [0])
        self.ids: list[str] = []
        self._least, self._most = 1, 0  # the first index, 0 where a row has it, as scikit-learn's; the last

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, name: str, indices: list[int], values: list[float]) -> None:
        """Adds a row: its document id, and its features by index, ascending."""
        self.ids.append(name)
        self._index.append(np.array(indices, np.int32))
        self._value.append(np.array(values, np.float32))
        self._ends.append(self._ends[-1] + len(indices))
        self._most, self._least = max([self._most, *indices[-1:]]), min([self._least, *indices[:1]])

    @property
    def count(self) -> int:
        """Columns of `dense`."""
        return self._most - self._least + 1

    @property
    def values(self) -> int:
        """How many features the rows have in all."""
        return self._ends[-1]

    def dense(self) -> np.ndarray:
        """float32 [rows, count], memory-mapped; column i is feature i + 1, or i if features count from 0."""
        index, value, ends = self._index.finish(), self._value.finish(), np.array(self._ends)
        path = self.workspace / "features.npy"
        cells = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(self), self.count))
        step = max(1, _CELLS // self.count)
        for start in range(0, len(self), step):
            part = slice(ends[start], ends[min(start + step, len(self))])
            row = np.repeat(np.arange(len(self))[start : start + step], np.diff(ends)[start : start + step])
            cells[row, index[part] - self._least] = value[part]
        cells.flush()
        for sparse in self.paths:
            sparse.unlink()
        return np.asarray(cells)


def _require_memory(folder: Path, rows: int, features: int) -> None:
    """Raises DataError if the features do not fit into memory. Rankers read all of them, those that are left out too,
    so a few rows with a high index can take any amount."""
    needed, free = rows * features * np.dtype(np.float32).itemsize, usable_memory()
    if needed > free:
        wrong = f"{rows:,} rows of features 1 to {features:,} take {_mib(needed)}, and {_mib(free)} of memory are free"
        raise DataError(Problem(str(folder), wrong, "number the features from 1 without gaps, or use more memory"))


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _read_groups(lines: Lines, rows: _Features, notes: list[str]) -> list[_Group]:
    groups: dict[str, _Group] = {}
    current, odd = "", Counter[str]()
    earlier_problems, earlier_values = len(lines.problems), rows.values
    for number, line in lines:
        if line.startswith("#"):  # comment lines, which SVMrank's files have
            continue
        try:
            label, query, indices, values = _parsed(line, odd)
        except ValueError as wrong:
            lines.problem(number, *wrong.args)
            continue
        group = groups.setdefault(query, _Group(query))
        odd[SCATTERED] += query != current and bool(group.grades)
        odd[UNJUDGED_ROWS] += label == UNKNOWN_LABEL
        current = query
        name = _name(line, group)
        if name in group.names:
            lines.problem(number, f"document '{name}' a second time", "keep one row a query and document")
        group.names.add(name)
        group.documents.append(len(rows))
        rows.add(name, indices, values)
        group.grades.append(label)
    if not groups and len(lines.problems) == earlier_problems:
        lines.file_problem("no rows", f"each row is {FORM}")
    if groups and rows.values == earlier_values:
        lines.file_problem("no features", f"each row is {FORM}")
    judged = [group for group in groups.values() if max(group.grades) > UNKNOWN_LABEL]
    odd["queries without judgments, dropped"] += len(groups) - len(judged)
    notes += [f"{lines.path.name}: {count:,} {what}" for what, count in odd.items() if count]
    return judged


SCATTERED = "times rows of a query stand apart from its others, and are read as one query"
UNJUDGED_ROWS = "rows of label -1, not judged"
NO_VALUE = "features NULL or nan, read as 0"
TOO_LARGE = f"features beyond the range of float32, read as its largest number, {MAX_VALUE:.4g}"


def _parsed(line: str, odd: Counter[str]) -> tuple[int, str, list[int], list[float]]:
    """Label, query, feature indices and values of a row; what is `odd` in it is counted. Raises ValueError(what is
    wrong, what would be right)."""
    label, *columns = line.partition("#")[0].split() or [""]
    if not columns:
        raise ValueError("1 columns instead of 2 or more", FORM)
    grade = whole_number(label)
    if grade is None or not UNKNOWN_LABEL <= grade <= _MOST_LABEL:
        raise ValueError(f"label '{label[:40]}'", f"write a whole number from 0 to {_MOST_LABEL}, or -1: not judged")
    name, colon, query = columns[0].partition(":")
    if name != "qid" or not colon or not query:
        raise ValueError(f"'{columns[0][:40]}' instead of a query", "write qid:N behind the label")
    indices, values, last = [], [], -1
    for column in columns[1:]:
        index, _, shown = column.partition(":")
        if not _INDEX.fullmatch(index) or int(index) > MAX_FEATURE:
            raise ValueError(f"feature '{column[:40]}'", f"write INDEX:VALUE, INDEX from 0 or 1 to {MAX_FEATURE}")
        if int(index) <= last:
            raise ValueError(f"feature {index} behind feature {last}", "let the indices of a row rise")
        last = int(index)
        if shown.upper() in ("NULL", "NAN"):
            odd[NO_VALUE] += 1
        else:
            indices.append(last)
            values.append(_value(column, shown, odd))
    return grade, query, indices, values


def _value(column: str, shown: str, odd: Counter[str]) -> float:
    try:
        value = float(shown)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"feature '{column[:40]}' is not a finite number", "write a number, or leave the feature out")
    odd[TOO_LARGE] += abs(value) > MAX_VALUE
    return max(-MAX_VALUE, min(value, MAX_VALUE))


def _name(line: str, group: _Group) -> str:
    """The document's id: that of the comment, or its number within its query."""
    document = _DOCUMENT.search(line.partition("#")[2])
    if document and document[1] == "docno":
        return document[2]
    return f"{group.query}:{document[2] if document else len(group.grades) + 1}"


def _hold_out(groups: dict[str, list[_Group]]) -> list[str]:
    """Moves a fixed part of the training queries to dev if there is no dev split; returns notes."""
    training = groups.get("train", [])
    if "dev" in groups or len(training) < 2:
        return []
    count = max(1, round(DEV_SHARE * len(training)))
    dev = set(generator(0, "letor dev").permutation(len(training))[:count].tolist())
    groups["dev"] = [group for row, group in enumerate(training) if row in dev]
    groups["train"] = [group for row, group in enumerate(training) if row not in dev]
    return [f"dev: {count:,} of the {len(training):,} training queries, drawn with a fixed seed (there is no vali.txt)"]


def _assembled(name: str, groups: dict[str, list[_Group]], rows: _Features, notes: tuple[str, ...]) -> RankingData:
    splits, queries = {}, []
    for split in [split for split in SPLITS if groups.get(split)]:
        sizes = np.array([len(group.grades) for group in groups[split]])
        document = np.array([row for group in groups[split] for row in group.documents])
        grade = np.array([grade for group in groups[split] for grade in group.grades])
        splits[split] = Split.listed(len(queries), sizes, document, grade)
        queries += groups[split]
    empty = np.zeros(len(rows) + 1, np.int64)
    count = len(queries)
    return RankingData(
        name=name,
        digest="",
        document_ids=TextColumn.of(rows.ids),
        documents=TextColumn(np.empty(0, np.uint8), empty),
        query_ids=TextColumn.of(group.query for group in queries),
        utterances=TextColumn(np.empty(0, np.uint8), np.zeros(count + 1, np.int64)),
        utterance_offsets=np.arange(count + 1, dtype=np.int64),
        domain=np.zeros(count, np.int16),
        domains=ONE_DOMAIN,
        splits=splits,
        notes=notes,
        features=rows.dense(),
    )
