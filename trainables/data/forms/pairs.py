"""Pairs, triples and lists of documents with a query: {train,dev,test}.{jsonl,json,csv,tsv,parquet} as
sentence-transformers, MS MARCO, MTEB, FlagEmbedding and Tevatron have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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
from trainables.data.forms.columns import BARE_SAMPLE, Columns, columns_of, names_columns, names_without_header
from trainables.data.judgments import scored
from trainables.data.rows import place, places, rows_of
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
    paths = [path for each in shards.values() for path in each]
    possible = any(ending_of(path) != "tsv" or is_table(path) for path in paths)
    return {split: each for split, each in shards.items() if each and possible}


def is_table(path: Path) -> bool:
    """Whether a TSV file may have pairs or triples: conversations and Quora's pairs begin with a label."""
    lines = first_lines(path, 1)
    fields = lines[0].split("\t") if lines else []
    return len(fields) > 1 and fields[0] not in ("0", "1")


def is_articles(path: Path) -> bool:
    """Whether a file of JSON may hold articles, as SQuAD's do, not rows: the keys `data` and `paragraphs` stand near
    its beginning. True for one that cannot be read: that form says why."""
    head = beginning(path)
    return ending_of(path) == "json" and (not head or (b'"data"' in head and b'"paragraphs"' in head))


def read(folder: Path, reading: Reading) -> Tables:
    """A row is a query with relevant and other documents, or with documents and their grades; a split's documents for a
    query are those of all its rows."""
    shards = _tables(folder, STRICT, loosely=False) or _tables(folder, TABLES, loosely=True)
    require_one_file(folder, shards)
    frames = {split: pd.concat([reading.rows(path) for path in paths]) for split, paths in shards.items()}
    tables = pairs_tables(with_names(frames, reading), reading)
    for split, path in split_files(folder, "scores.{}.tsv").items():
        tables.scores[split] = _by_texts(scored(path, reading), tables, split, reading)
    return tables


def with_names(frames: Mapping[str, pd.DataFrame], reading: Reading) -> dict[str, pd.DataFrame]:
    """The tables with names for columns that have none: those of a first row that is a header, or of what they hold.
    Files that begin with the same row and go on with others begin with their header."""
    bare = {split: frame for split, frame in frames.items() if len(frame) and "0" in frame.columns}
    rows = {split: frame.drop(columns=["file", "line"]).iloc[:BARE_SAMPLE] for split, frame in bare.items()}
    begin, second = (
        {tuple(each.iloc[number]) for each in rows.values() if len(each) > number} for number in (0, 1)
    )  # fmt: skip
    alike = len(begin) == 1 < len(second)
    named = dict(frames)
    for split, sample in rows.items():
        first = [str(name) for name in sample.iloc[0]]
        if alike or names_columns(first):
            names = [name.strip() for name in first]
            named[split] = bare[split].iloc[1:].set_axis([*names, "file", "line"], axis="columns")
            continue
        try:
            names = list(names_without_header(sample.values.tolist()))
            named[split] = bare[split].set_axis([*names, "file", "line"], axis="columns")
        except Wrong as wrong:
            reading.problem(place(bare[split]), *wrong.args)
            del named[split]
    return named


def pairs_tables(frames: Mapping[str, pd.DataFrame], reading: Reading) -> Tables:
    """The tables of rows with named columns, by split. Documents are the distinct texts d1, d2, ... of all splits;
    queries those of each split, SPLIT-1, SPLIT-2, ...; both in the order in which they first occur."""
    cells = {}
    for split, frame in frames.items():
        if len(frame.columns) == len(("file", "line")):
            continue  # a problem already
        try:
            columns = columns_of(frame, reading.config.columns.named())
        except Wrong as wrong:
            if wrong.args not in [(problem.wrong, problem.right) for problem in reading.problems]:
                file = frame["file"].cat.categories[0]
                reading.problem(f"{file}:1" if "." in Path(file).name else file, *wrong.args)
            continue
        others = [name or "a column without a name" for name in frame.columns
                  if name not in (*columns.names, "file", "line")]  # fmt: skip
        reading.notes.append(f"{split}: {columns}" + (f"; not read: {', '.join(others)}" if others else ""))
        cells[split] = _cells(frame, columns, reading)
    texts = pd.concat([each.cells["document"] for each in cells.values()]) if cells else pd.Series(dtype=object)
    codes, documents = pd.factorize(texts)
    names = pd.Series([f"d{number}" for number in range(1, len(documents) + 1)], dtype="str")
    tables = Tables(pd.DataFrame({"docno": names, "text": pd.Series(documents, dtype="str")}), {}, {})
    start = 0
    for split, each in cells.items():
        document = codes[start : start + len(each.cells)]
        start += len(each.cells)
        _add_split(tables, split, each, document, names, reading)
    return tables


class _Cells:
    """What the rows of a split judge.

    cells     query and document (texts), label, score of a teacher or NaN, and the row's file and line
    rejected  queries with a negative that is a positive of its row
    """

    def __init__(self, cells: pd.DataFrame, rejected: list[str], graded: bool):
        self.cells, self.rejected, self.graded = cells, rejected, graded


def _cells(frame: pd.DataFrame, columns: Columns, reading: Reading) -> _Cells:
    """The cells of a table's rows. A wrong row becomes a problem, and one without a text is left out."""
    rows = zip(*(frame[name].tolist() for name in columns.names), strict=True)
    judged: list[tuple[int, str, str, int, float]] = []
    wrong: list[tuple[int, str, str]] = []
    unusable: list[tuple[int, str, str]] = []
    equal, first_rows, repeats = [], dict[int, int](), []
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
        kept = cells if columns.grades_given else [one for one in cells if one[1] or one[0] not in positives]
        if len(kept) < len(cells):
            equal.append((number, query))
        judged += [(number, query, *cell) for cell in kept]
        earlier = first_rows.setdefault(hash((query, *(cell[:2] for cell in kept))), number)
        if earlier != number:
            repeats.append((number, earlier))
    reading.row_problems(frame, wrong)
    _leave_out(frame, unusable, "row", "without a text or label", reading)
    own = [(number, "a negative that is the positive too", "leave it out") for number, _ in equal]
    _leave_out(frame, own, "negative", "that is its row's positive", reading)
    if repeats:
        row, first = (places(frame.iloc[[number]]) for number in repeats[0])
        reading.repeated(frame, len(repeats), f"{row} repeats {first}")
    number, query, document, label, score = zip(*judged, strict=True) if judged else ((), (), (), (), ())
    whole = frame[["file", "line"]].iloc[list(number)].reset_index(drop=True)
    cells = whole.assign(
        query=pd.Series(query, dtype=object),
        document=pd.Series(document, dtype=object),
        label=np.array(label, np.int64),
        score=np.array(score, np.float64),
    )
    return _Cells(cells, [query for _, query in equal], columns.grades_given)


def _leave_out(frame: pd.DataFrame, rows: list[tuple[int, str, str]], noun: str, why: str, reading: Reading) -> None:
    """Notes rows that are left out, or a problem where they are too many. `rows`: number, what is wrong and right."""
    if rows:
        bad = frame[["file", "line"]].iloc[[number for number, _, _ in rows]].assign(wrong=[row[1] for row in rows])
        reading.leave_out(bad, np.zeros(len(bad), bool), noun, why, "{wrong}", rows[0][2], rows=len(frame))


def _add_split(
    tables: Tables, split: str, judged: _Cells, document: np.ndarray, names: pd.Series, reading: Reading
) -> None:
    """Adds the queries of a split and their judgments, each query and document once."""
    cells, rejected = judged.cells, list(judged.rejected)
    query, texts = pd.factorize(cells["query"])
    ids = pd.Series([f"{split}-{number}" for number in range(1, len(texts) + 1)], dtype="str")
    keys = query.astype(np.int64) * max(1, len(names)) + document
    if not judged.graded:
        positive = cells["label"].to_numpy() > 0
        wrong = ~positive & np.isin(keys, keys[positive])
        if wrong.any():
            reading.leave_out(cells, ~wrong, "negative", "that another row of the query has as its positive",
                              "a negative that is a positive in another row", "leave out the negative")  # fmt: skip
            rejected += cells["query"][wrong].tolist()
            cells, query, document, keys = cells[~wrong], query[~wrong], document[~wrong], keys[~wrong]
    cells = cells.reset_index(drop=True)
    noted = len(reading.notes)
    once = reading.once(cells, (keys,), "label", "grade ({label}) for a query and document")
    del reading.notes[noted:]  # rows that repeat others are noted already
    query, document = query[once.index], document[once.index]
    rows = once.drop(columns=["query", "document"]).assign(qid=ids.iloc[query].array, docno=names.iloc[document].array)
    tables.queries[split] = pd.DataFrame({"qid": ids, "text": pd.Series(texts, dtype="str")})
    tables.qrels[split] = rows[["qid", "docno", "label", "file", "line"]]
    if rows["score"].notna().any():
        tables.scores[split] = rows.loc[rows["score"].notna(), ["qid", "docno", "score", "file", "line"]]
    tables.rejected[split] = ids[pd.Series(texts).isin(rejected)].tolist()


def _by_texts(frame: pd.DataFrame, tables: Tables, split: str, reading: Reading) -> pd.DataFrame:
    """Scores whose queries and documents are named by their texts."""
    queries: pd.DataFrame = tables.queries[split]
    docs: Any = tables.docs  # one table, of distinct texts
    for column, known, what in (("qid", queries, "query"), ("docno", docs, "document")):
        rows = rows_of(frame[column].map(one_line).astype("str"), known["text"])
        frame = reading.require(frame, rows >= 0, f"no {what} '{{{column}}}' in the pairs",
                                "write the text as the pairs have it")  # fmt: skip
        frame = frame.assign(**{column: known[column].iloc[rows[rows >= 0]].array})
    return frame


# -- one row -----------------------------------------------------------------------------------------------------------

Cells = list[tuple[str, int, float]]  # document, grade, score of a teacher or NaN


def _judged(columns: Columns, row: Mapping[str, Any]) -> tuple[str, Cells]:
    """The query and what the row judges. Raises Wrong, or Unusable if it lacks a text."""
    query = _text(columns.query, row[columns.query])
    if columns.graded:
        return query, _graded(columns.document[0], row[columns.document[0]])
    if columns.label:
        return query, _labelled(columns, row, columns.label)
    alone = len(columns.positive) == 1
    relevant = [text for name in columns.positive for text in _texts(name, row[name], needed=alone)]
    if not relevant:
        raise Unusable(f"no '{columns.positive[0]}'", "give the query a relevant document or leave the row out")
    others = [text for name in columns.negative for text in _texts(name, row[name])]
    scores = _scores(columns, row, len(relevant), len(others))
    grades = [1] * len(relevant) + [0] * len(others)
    return query, list(zip([*relevant, *others], grades, scores, strict=True))


def _labelled(columns: Columns, row: Mapping[str, Any], label: str) -> Cells:
    """One document with its grade, or lists of both."""
    texts = [text for name in columns.document for text in _texts(name, row[name], needed=True)]
    listed = isinstance(row[columns.document[0]], list) and isinstance(row[label], list)
    labels = row[label] if listed else [row[label]]
    if len(labels) != len(texts):
        raise Wrong(f"{len(texts)} documents and {len(labels)} in '{label}'", "give each document its label")
    grades = [grade_in(label, value, columns.classes) for value in labels]
    return list(zip(texts, grades, _scores(columns, row, len(texts), 0), strict=True))


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
    if is_missing(value) and not needed:
        return []
    return [_text(name, value)]


def _graded(name: str, value: Any) -> Cells:
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


FORM = Form(files, read, loosely=loosely)
