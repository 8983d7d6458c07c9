"""Pairs, triples and lists of documents with a query: {train,dev,test}.{jsonl,json,csv,tsv,parquet} as
sentence-transformers, MS MARCO, MTEB, FlagEmbedding and Tevatron have them, and as the datasets library saves them
(DatasetDict.save_to_disk, or a single Dataset; read without the library)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.cells import GRADES, Unusable, Wrong, grade_in, is_missing, one_line, score_in, text_of
from trainables.data.files import (
    TABLES,
    beginning,
    ending_of,
    first_lines,
    require_one_file,
    shards_of_splits,
    split_files,
)
from trainables.data.forms import Form
from trainables.data.forms.columns import SAMPLE, Columns, columns_of, names_columns, names_without_header
from trainables.data.judgments import SCORES_FILE, scores_of
from trainables.data.rows import PLACE, located, place, rows_of
from trainables.data.tables import Reading, Tables

STRICT = tuple(ending for ending in TABLES if ending != "json")  # other forms are JSON, too


def files(folder: Path) -> list[Path]:
    """By a .jsonl, .csv, .parquet or .arrow of a split, or by a .tsv that `is_table`."""
    return _with_scores(folder, _tables(folder, STRICT, loosely=False))


def loosely(folder: Path) -> list[Path]:
    """By a .json too, or by a name that holds a split's."""
    return _with_scores(folder, _shards(folder))


def _with_scores(folder: Path, shards: dict[str, list[Path]]) -> list[Path]:
    paths = [path for each in shards.values() for path in each]
    return [*paths, *split_files(folder, SCORES_FILE).values()] if paths else []


def _shards(folder: Path) -> dict[str, list[Path]]:
    """The files of each split, as strictly as any fit."""
    strictly = _tables(folder, STRICT, loosely=False) or _tables(folder, STRICT, loosely=True)
    return strictly or _tables(folder, TABLES, loosely=True)


def _tables(folder: Path, endings: tuple[str, ...], loosely: bool) -> dict[str, list[Path]]:
    """The files of each split; none where their rows cannot be pairs."""
    shards = shards_of_splits(folder, endings, loosely)
    shards = {split: [path for path in paths if not is_articles(path)] for split, paths in shards.items()}
    possible = any(ending_of(path) != "tsv" or is_table(path) for paths in shards.values() for path in paths)
    return {split: paths for split, paths in shards.items() if paths and possible}


def is_table(path: Path) -> bool:
    """Whether a TSV file may have pairs or triples: conversations and Quora's pairs begin with a label."""
    fields = next(iter(first_lines(path, 1)), "").split("\t")
    return len(fields) > 1 and fields[0] not in ("0", "1")


def is_articles(path: Path) -> bool:
    """Whether a file of JSON may hold articles, as SQuAD's do, not rows: the keys `data` and `paragraphs` stand near
    its beginning. True for one that cannot be read: that form says why."""
    head = beginning(path) if ending_of(path) == "json" else b"{}"
    return not head or (b'"data"' in head and b'"paragraphs"' in head)


def read(folder: Path, reading: Reading) -> Tables:
    """A row is a query with relevant and other documents, or with documents and their grades; a split's documents for a
    query are those of all its rows."""
    shards = _shards(folder)
    require_one_file(folder, shards)
    frames = {split: pd.concat([with_names(reading.rows(path)) for path in paths]) for split, paths in shards.items()}
    tables = pairs_tables(frames, reading)
    for split, scores in scores_of(folder, reading).items():
        tables.scores[split] = _by_texts(scores, tables, split, reading)
    return tables


def with_names(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with names for columns that have none: those of a first row that is a header, or of what they hold."""
    if not len(frame) or "0" not in frame.columns:
        return frame
    sample = frame.drop(columns=PLACE).iloc[:SAMPLE].values.tolist()
    header = [str(name).strip() for name in sample[0]]
    has_header = names_columns(header)
    try:
        names = header if has_header else names_without_header(sample)
    except Wrong as wrong:
        raise DataError(Problem(place(frame), *wrong.args)) from None
    return frame.iloc[int(has_header) :].set_axis([*names, *PLACE], axis="columns")


def pairs_tables(frames: Mapping[str, pd.DataFrame], reading: Reading) -> Tables:
    """The tables of rows with named columns, by split. Documents are the distinct texts d1, d2, ... of all splits;
    queries those of each split, SPLIT-1, SPLIT-2, ...; both in the order in which they first occur."""
    reading.finish()
    columns = {split: _columns(split, frame, reading) for split, frame in frames.items()}
    parts = [_cells(frame, columns[split], reading).assign(split=split) for split, frame in frames.items()]
    cells = pd.concat(parts, ignore_index=True)
    document, texts = pd.factorize(cells["document"])
    names = pd.Series([f"d{number}" for number in range(1, len(texts) + 1)], dtype="str")
    cells["docno"] = names.iloc[document].array
    docs = located(pd.DataFrame({"docno": names, "text": pd.Series(texts, dtype="str")}), "the documents")
    tables = Tables(docs, {}, {})
    for split in frames:
        _add_split(tables, split, cells[cells["split"] == split], columns[split].grades_given, reading)
    return tables


def _columns(split: str, frame: pd.DataFrame, reading: Reading) -> Columns:
    """Which columns of a split are read, with a note. Raises DataError if they fit no form, or two."""
    try:
        columns = columns_of(frame, reading.config.columns.named())
    except Wrong as wrong:
        file = str(frame["file"].iloc[0])
        raise DataError(Problem(file if file.startswith("data") else f"{file}:1", *wrong.args)) from None
    used = (*columns.names, *PLACE)
    others = [name or "a column without a name" for name in frame.columns if name not in used]
    reading.notes.append(f"{split}: {columns}" + (f"; not read: {', '.join(others)}" if others else ""))
    return columns


def _cells(frame: pd.DataFrame, columns: Columns, reading: Reading) -> pd.DataFrame:
    """query, document, label, score of a teacher or NaN, file and line of all that a table judges. A wrong row is a
    problem, and one without a text or label is left out."""
    cells: list[tuple[int, str, str, int, float]] = []
    wrong: dict[int, Wrong] = {}
    rows = zip(*(frame[name].tolist() for name in columns.names), strict=True)
    for number, values in enumerate(rows):
        try:
            query, judged = _judged(columns, dict(zip(columns.names, values, strict=True)))
            cells += [(number, query, *cell) for cell in judged]
        except Wrong as reason:
            wrong[number] = reason
    why = [wrong[row].args[0] if row in wrong else "" for row in range(len(frame))]
    is_unusable = np.array([isinstance(wrong.get(row), Unusable) for row in range(len(frame))], bool)
    is_wrong = np.array([row in wrong for row in range(len(frame))], bool) & ~is_unusable
    right = next(iter(wrong.values())).args[1] if wrong else ""
    checked = frame[PLACE].assign(why=why)
    reading.leave_out(checked, ~is_unusable, "row", "without a text or label", "{why}", right)
    reading.require(checked, ~is_wrong, "{why}", right)
    table = pd.DataFrame(cells, columns=["row", "query", "document", "label", "score"])
    return frame[PLACE].iloc[table.pop("row").astype(int)].reset_index(drop=True).join(table)


def _add_split(tables: Tables, split: str, cells: pd.DataFrame, grades_given: bool, reading: Reading) -> None:
    """Adds the queries of a split and their judgments, each query and document once. Where the rows give no grades, a
    negative that is a positive of its query is left out."""
    query, texts = pd.factorize(cells["query"])
    ids = pd.Series([f"{split}-{number}" for number in range(1, len(texts) + 1)], dtype="str")
    cells = cells.assign(qid=ids.iloc[query].array)
    if not grades_given:
        positive = cells["label"] > 0
        pair = cells.groupby(["qid", "docno"], sort=False).ngroup()
        good = positive | ~pair.isin(pair[positive])
        tables.rejected[split] = cells["qid"][~good].tolist()
        why, wrong = "equal to a positive of the query", "a negative equal to a positive of its query"
        cells = reading.leave_out(cells, good, "negative", why, wrong, "leave out the negative")
    what = "grade ({label}) for a query and document"
    cells = reading.once(cells, ["qid", "docno"], "label", what, noted=False)
    queries = pd.DataFrame({"qid": ids, "text": pd.Series(texts, dtype="str")})
    tables.queries[split] = located(queries, f"the {split} queries")
    tables.qrels[split] = cells[["qid", "docno", "label", *PLACE]]
    if cells["score"].notna().any():
        tables.scores[split] = cells.loc[cells["score"].notna(), ["qid", "docno", "score", *PLACE]]


def _by_texts(frame: pd.DataFrame, tables: Tables, split: str, reading: Reading) -> pd.DataFrame:
    """Scores whose queries and documents are named by their texts."""
    docs: Any = tables.docs  # one table, of distinct texts
    for column, known, what in (("qid", tables.queries[split], "query"), ("docno", docs, "document")):
        rows = rows_of(frame[column].map(one_line).astype("str"), known["text"])
        wrong = f"no {what} '{{{column}}}' in the pairs"
        frame = reading.require(frame, rows >= 0, wrong, "write the text as the pairs have it")
        frame = frame.assign(**{column: known[column].iloc[rows[rows >= 0]].array})
    return frame


# -- one row -----------------------------------------------------------------------------------------------------------

Cells = list[tuple[str, int, float]]  # document, grade, score of a teacher or NaN


def _judged(columns: Columns, row: Mapping[str, Any]) -> tuple[str, Cells]:
    """The query and what the row judges. Raises Wrong, or Unusable if it lacks a text."""
    query = _text(columns.query, row[columns.query])
    if columns.document and columns.graded:
        return query, _graded(columns.document, row[columns.document])
    if columns.document and columns.label:
        texts, labels = _texts(columns.document, row[columns.document], needed=True), row[columns.label]
        labels = labels if isinstance(labels, list) and isinstance(row[columns.document], list) else [labels]
        if len(labels) != len(texts):
            wrong = f"{len(texts)} documents and {len(labels)} in '{columns.label}'"
            raise Wrong(wrong, "give each document its label")
        grades = [grade_in(columns.label, value, columns.classes) for value in labels]
        return query, list(zip(texts, grades, _scores(columns, row, len(texts), 0), strict=True))
    alone = len(columns.positive) == 1
    relevant = [text for name in columns.positive for text in _texts(name, row[name], needed=alone)]
    if not relevant:
        raise Unusable(f"no '{columns.positive[0]}'", "give the query a relevant document or leave the row out")
    others = [text for name in columns.negative for text in _texts(name, row[name])]
    grades = [1] * len(relevant) + [0] * len(others)
    scores = _scores(columns, row, len(relevant), len(others))
    return query, list(zip([*relevant, *others], grades, scores, strict=True))


def _scores(columns: Columns, row: Mapping[str, Any], relevant: int, others: int) -> list[float]:
    """A teacher's score of each document, NaN where the row has none. One number for several documents is the
    difference of two scores, which says nothing of a document alone."""
    counts = [relevant, others] if len(columns.score) > 1 else [relevant + others]
    scores: list[float] = []
    for name, count in zip(columns.score, counts, strict=False):
        value = row[name]
        values = value if isinstance(value, list) else [value] if count == 1 else []
        if not values or is_missing(value):
            scores += [math.nan] * count
        elif len(values) == count:
            scores += [score_in(name, each) for each in values]
        else:
            raise Wrong(f"{count} documents and {len(values)} in '{name}'", "give each document its score")
    return scores + [math.nan] * (relevant + others - len(scores))


def _texts(name: str, value: Any, needed: bool = False) -> list[str]:
    """The texts of a cell: one, or a list of texts or of objects with a text and, perhaps, a title. Empty ones of a
    list are passed over; `needed`: a cell that is not a list must have one."""
    value = _objects_in(value)
    if isinstance(value, list):
        return [text for each in value if not is_missing(each) and (text := text_of(name, each))]
    return [] if is_missing(value) and not needed else [_text(name, value)]


def _graded(name: str, value: Any) -> Cells:
    """The documents of a list of objects, with the grades that these hold."""
    value, cells = _objects_in(value), []
    for each in value if isinstance(value, list) else [value]:
        key = next((key for key in GRADES if isinstance(each, Mapping) and key in each), None)
        if key is None:
            raise Wrong(f"'{name}' holds no grades ({' or '.join(GRADES)})", "a column label, or objects with grades")
        cells.append((_text(name, each), grade_in(key, each[key]), math.nan))
    if not cells:
        raise Unusable(f"no '{name}'", "give the query documents or leave the row out")
    return cells


def _objects_in(value: Any) -> Any:
    """A mapping of lists as the list of objects that the datasets library makes it of; any other value as it is."""
    if isinstance(value, Mapping) and value and all(isinstance(each, list) for each in value.values()):
        return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
    return value


def _text(name: str, value: Any) -> str:
    text = text_of(name, value)
    if not text:
        raise Unusable(f"an empty '{name}'", "give a text or leave the row out")
    return text


FORM = Form(files, read, loosely=loosely)
