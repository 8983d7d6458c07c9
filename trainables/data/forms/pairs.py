"""Pairs, triples and lists of documents with a query: {train,dev,test}.{jsonl,json,csv,tsv,parquet} as
sentence-transformers, MS MARCO, MTEB, FlagEmbedding and Tevatron have them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.cells import (
    GRADES,
    Unusable,
    Wrong,
    grade_in,
    is_missing,
    objects_in,
    one_line,
    score_in,
    text_of,
)
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
from trainables.data.judgments import scored
from trainables.data.rows import PLACE, located, place, places, rows_of
from trainables.data.tables import Reading, Tables

STRICT = tuple(ending for ending in TABLES if ending != "json")  # other forms are JSON, too


def files(folder: Path) -> list[Path]:
    """By a .jsonl, .csv or .parquet of a split, or by a .tsv that `is_table`."""
    return _with_scores(folder, _tables(folder, STRICT, loosely=False))


def loosely(folder: Path) -> list[Path]:
    """By a .json too, or by a name that holds a split's."""
    return _with_scores(folder, _tables(folder, TABLES, loosely=True))


def _with_scores(folder: Path, shards: dict[str, list[Path]]) -> list[Path]:
    paths = [path for each in shards.values() for path in each]
    return [*paths, *split_files(folder, "scores.{}.tsv").values()] if paths else []


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
    shards = _tables(folder, STRICT, loosely=False) or _tables(folder, TABLES, loosely=True)
    require_one_file(folder, shards)
    frames = {split: pd.concat([reading.rows(path) for path in paths]) for split, paths in shards.items()}
    tables = pairs_tables(with_names(frames), reading)
    for split, path in split_files(folder, "scores.{}.tsv").items():
        tables.scores[split] = _by_texts(scored(path, reading), tables, split, reading)
    return tables


def with_names(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The tables with names for columns that have none: those of a first row that is a header, or of what they hold.
    Files that begin with the same row and go on with others begin with their header."""
    bare = {split: frame for split, frame in frames.items() if len(frame) and "0" in frame.columns}
    rows = {split: frame.drop(columns=PLACE).iloc[:SAMPLE].values.tolist() for split, frame in bare.items()}
    begin, second = ({str(each[number : number + 1]) for each in rows.values()} for number in (0, 1))
    alike = len(begin) == 1 < len(second)
    named = dict(frames)
    for split, sample in rows.items():
        header = [str(name).strip() for name in sample[0]]
        has_header = alike or names_columns(header)
        try:
            names = header if has_header else names_without_header(sample)
        except Wrong as wrong:
            raise DataError(Problem(place(bare[split]), *wrong.args)) from None
        named[split] = bare[split].iloc[int(has_header) :].set_axis([*names, *PLACE], axis="columns")
    return named


def pairs_tables(frames: Mapping[str, pd.DataFrame], reading: Reading) -> Tables:
    """The tables of rows with named columns, by split. Documents are the distinct texts d1, d2, ... of all splits;
    queries those of each split, SPLIT-1, SPLIT-2, ...; both in the order in which they first occur."""
    reading.finish()
    columns: dict[str, Columns] = {}
    cells: dict[str, pd.DataFrame] = {}
    rejected: dict[str, list[str]] = {}
    for split, frame in frames.items():
        try:
            columns[split] = columns_of(frame, reading.config.columns.named())
        except Wrong as wrong:
            file = str(frame["file"].iloc[0])
            raise DataError(Problem(file if file.startswith("data") else f"{file}:1", *wrong.args)) from None
        used = (*columns[split].names, *PLACE)
        others = [name or "a column without a name" for name in frame.columns if name not in used]
        reading.notes.append(f"{split}: {columns[split]}" + (f"; not read: {', '.join(others)}" if others else ""))
        cells[split], rejected[split] = _cells(frame, columns[split], reading)
    codes, texts = pd.factorize(pd.concat([each["document"] for each in cells.values()]))
    names = pd.Series([f"d{number}" for number in range(1, len(texts) + 1)], dtype="str")
    docs = located(pd.DataFrame({"docno": names, "text": pd.Series(texts, dtype="str")}), "the documents")
    tables, start = Tables(docs, {}, {}), 0
    for split, each in cells.items():
        each["docno"] = names.iloc[codes[start : start + len(each)]].array
        start += len(each)
        if not columns[split].grades_given:
            each = _without_positives(each, rejected[split], reading)
        _add_split(tables, split, each, rejected[split], reading)
    return tables


def _cells(frame: pd.DataFrame, columns: Columns, reading: Reading) -> tuple[pd.DataFrame, list[str]]:
    """(query and document as texts, label, score of a teacher or NaN, file and line, of all that a table judges; the
    queries with a negative that was left out, because it is its row's positive). A wrong row is a problem, and one
    without a text is left out."""
    judged: list[tuple[int, str, str, int, float]] = []
    wrong: list[tuple[int, str, str]] = []
    unusable: list[tuple[int, str, str]] = []
    own: list[tuple[int, str, str]] = []
    rejected, first_rows, repeats = list[str](), dict[int, int](), list[tuple[int, int]]()
    rows = zip(*(frame[name].tolist() for name in columns.names), strict=True)
    for number, values in enumerate(rows):
        try:
            query, cells = _judged(columns, dict(zip(columns.names, values, strict=True)))
        except Unusable as reason:
            unusable.append((number, *reason.args))
            continue
        except Wrong as reason:
            wrong.append((number, *reason.args))
            continue
        positives = {text for text, grade, _ in cells if grade}
        distinct = cells if columns.grades_given else [cell for cell in cells if cell[1] or cell[0] not in positives]
        if len(distinct) < len(cells):
            own.append((number, "a negative that is the positive too", "leave it out"))
            rejected.append(query)
        judged += [(number, query, *cell) for cell in distinct]
        earlier = first_rows.setdefault(hash((query, *(cell[:2] for cell in distinct))), number)
        if earlier != number:
            repeats.append((number, earlier))
    reading.row_problems(frame, wrong)
    _leave_out(frame, unusable, "row", "without a text or label", reading)
    _leave_out(frame, own, "negative", "that is its row's positive", reading)
    if repeats:
        row, first = (frame.iloc[[number]] for number in repeats[0])
        reading.repeated(row, len(repeats), f"{places(row)} repeats {places(first)}")
    values = pd.DataFrame(judged, columns=["row", "query", "document", "label", "score"])
    table = frame[PLACE].iloc[values.pop("row").astype(int)].reset_index(drop=True).join(values)
    return table, rejected


def _without_positives(cells: pd.DataFrame, rejected: list[str], reading: Reading) -> pd.DataFrame:
    """The cells without negatives that are a positive of their query in another row. Adds to `rejected`."""
    positive, pair = cells["label"] > 0, cells.groupby(["query", "document"], sort=False).ngroup()
    good = positive | ~pair.isin(pair[positive])
    rejected += cells["query"][~good].tolist()
    wrong = "a negative that is a positive in another row"
    why = "that another row of the query has as its positive"
    return reading.leave_out(cells, good, "negative", why, wrong, "leave out the negative")


def _leave_out(
    frame: pd.DataFrame, rows: Sequence[tuple[int, str, str]], noun: str, why: str, reading: Reading
) -> None:
    """Notes rows that are left out, or a problem where they are too many. `rows`: number, what is wrong and right."""
    if rows:
        bad = frame[PLACE].iloc[[number for number, _, _ in rows]].assign(wrong=[row[1] for row in rows])
        reading.leave_out(bad, np.zeros(len(bad), bool), noun, why, "{wrong}", rows[0][2], rows=len(frame))


def _add_split(tables: Tables, split: str, cells: pd.DataFrame, rejected: list[str], reading: Reading) -> None:
    """Adds the queries of a split and their judgments, each query and document once."""
    query, texts = pd.factorize(cells["query"])
    ids = pd.Series([f"{split}-{number}" for number in range(1, len(texts) + 1)], dtype="str")
    cells = cells.assign(qid=ids.iloc[query].array)
    keys = [cells.groupby(["qid", "docno"], sort=False).ngroup().to_numpy()]
    cells = reading.one_value(cells, keys, "label", "grade ({label}) for a query and document")
    cells = cells.drop_duplicates(["qid", "docno"])
    queries = pd.DataFrame({"qid": ids, "text": pd.Series(texts, dtype="str")})
    tables.queries[split] = located(queries, f"the {split} queries")
    tables.qrels[split] = cells[["qid", "docno", "label", *PLACE]]
    if cells["score"].notna().any():
        tables.scores[split] = cells.loc[cells["score"].notna(), ["qid", "docno", "score", *PLACE]]
    tables.rejected[split] = ids[queries["text"].isin(rejected)].tolist()


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
    value = objects_in(value)
    if isinstance(value, list):
        return [text for each in value if not is_missing(each) and (text := text_of(name, each))]
    return [] if is_missing(value) and not needed else [_text(name, value)]


def _graded(name: str, value: Any) -> Cells:
    """The documents of a list of objects, with the grades that these hold."""
    value, cells = objects_in(value), []
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


FORM = Form(files, read, loosely=loosely)
