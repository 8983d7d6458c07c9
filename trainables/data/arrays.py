"""From tables to RankingData: texts go to disk, and ids become rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trainables.core.errors import DataError, Problem
from trainables.data.assembly import NEARLY_ALL, SplitRows, assembled, data_of
from trainables.data.columns import RankingData, Rated, Split, TextColumn
from trainables.data.data_cache import TextWriter, rewritten
from trainables.data.judgments import require_order
from trainables.data.rows import PLACE, arrow, is_blank, rows_of
from trainables.data.tables import Reading, Tables

NO_TEXT = "'{%s}' has an empty text", "give a text or leave the row out"


def ranking_data(name: str, tables: Tables, reading: Reading, workspace: Path) -> RankingData:
    """RankingData without a digest of the files. Documents are written to `workspace` while they are read. Raises
    DataError with everything that is wrong, WorkFailed if retrieval fails."""
    ids, texts = _documents(tables, reading, workspace)
    queries = {split: _queries(frame, reading) for split, frame in tables.queries.items()}
    reading.finish()  # unknown ids would only repeat these problems
    if tables.classes or tables.features is not None:
        listed = _listed(tables, ids, queries, reading)
        data = data_of(name, ids, texts, list(queries.values()), listed, reading)
        task = "classification" if tables.classes else "ranking"
        return replace(data, features=tables.features, task=task, classes=tables.classes)
    _look_up_documents(tables, queries, ids)
    splits = {split: _split_rows(split, tables, ids, frame, reading) for split, frame in queries.items()}
    reading.finish()
    names = pd.concat([frame["qid"] for frame in queries.values()])
    if repeated := len(names) - names.nunique():
        reading.notes.append(f"{repeated:,} query ids stand in more than one split")
    return assembled(name, ids, texts, splits, reading)


def _listed(tables: Tables, ids: TextColumn, queries: dict[str, pd.DataFrame], reading: Reading) -> dict[str, Split]:
    """Splits without a first-stage ranking: rows of features, or pairs to classify. A query's candidates are its judged
    documents, in the order of the file."""
    if reading.config.candidates != "auto":
        kind = "a pair's second sentence is its one candidate" if tables.classes else "LETOR's rows are the candidates"
        raise DataError(Problem("data.candidates", kind, "set auto"))
    splits, start = {}, 0
    for split, frame in queries.items():
        qrels = tables.qrels[split]
        owner = rows_of(qrels["qid"], frame["qid"])
        order = np.argsort(owner, kind="stable")
        row = qrels["row"].to_numpy() if "row" in qrels else rows_of(qrels["docno"], ids.arrow())
        sizes, grade = np.bincount(owner, minlength=len(frame)), qrels["label"].to_numpy()
        splits[split] = Split.listed(start, sizes, row[order], grade[order])
        start += len(frame)
    return splits


# -- documents and queries ---------------------------------------------------------------------------------------------


def _documents(tables: Tables, reading: Reading, workspace: Path) -> tuple[TextColumn, TextColumn]:
    """(ids, texts) of the collection, on disk."""
    ids, texts = TextWriter(workspace, "document_ids"), TextWriter(workspace, "documents")
    has_texts = tables.features is None
    places, empty, count = list[pd.DataFrame](), list[pd.DataFrame](), 0
    parts: Iterable[pd.DataFrame] = [tables.docs] if isinstance(tables.docs, pd.DataFrame) else tables.docs
    for part in parts:
        frame = reading.ids(part, "docno")
        count += len(part)
        if has_texts and (blank := is_blank(frame["text"])).any():
            empty.append(frame.loc[blank, ["docno", *PLACE]])
            frame = frame[~blank]
        ids.extend(text_column(frame["docno"]))
        texts.extend(text_column(frame["text"]) if has_texts else TextColumn.of([""] * len(frame)))
        places.append(frame[PLACE])
    if empty:
        bad = pd.concat(empty)
        wrong = NO_TEXT[0] % "docno", NO_TEXT[1]
        reading.leave_out(bad, np.zeros(len(bad), bool), "document", "without text", *wrong, rows=count)
    columns = ids.finish(), texts.finish()
    # of features, splits may share ids
    return _each_once(*columns, pd.concat(places), reading, workspace) if has_texts else columns


def _each_once(
    ids: TextColumn, texts: TextColumn, places: pd.DataFrame, reading: Reading, workspace: Path
) -> tuple[TextColumn, TextColumn]:
    """The documents, each id once. `places`: file and line of each."""
    names = ids.arrow()
    if len(pc.unique(names)) == len(names):
        return ids, texts
    several = pd.Series(names.dictionary_encode().indices.to_numpy()).duplicated(keep=False)
    rows = np.flatnonzero(several)
    content = {"docno": [ids[row] for row in rows.tolist()], "text": [texts[row] for row in rows.tolist()]}
    frame = places.iloc[rows].assign(**content, row=rows)
    first = reading.once(frame, ["docno"], "text", "text for id '{docno}'")
    stays = ~several.to_numpy()
    stays[first["row"]] = True
    ids = rewritten(workspace, "document_ids", compress(ids, stays))
    return ids, rewritten(workspace, "documents", compress(texts, stays))


def _queries(frame: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The queries that have a text, each id once; of a conversation it is its utterances, and with features none."""
    frame = reading.ids(frame, "qid")
    if "utterances" in frame:
        return frame.assign(text=frame["utterances"].map(" ".join))
    if "text" not in frame:
        return frame.assign(text="")
    wrong = NO_TEXT[0] % "qid", NO_TEXT[1]
    frame = reading.leave_out(frame, ~is_blank(frame["text"]), "query", "without text", *wrong)
    return reading.once(frame, ["qid"], "text", "text for id '{qid}'")


def text_column(texts: pd.Series) -> TextColumn:
    """A column of texts as flat arrays, without a copy where Arrow has them in one piece."""
    values = pa.concat_arrays([pa.array([], pa.large_string()), *arrow(texts).chunks])
    _, offsets, data = values.buffers()
    if not len(values):
        return TextColumn(np.empty(0, np.uint8), np.zeros(1, np.int64))
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return TextColumn(whole[ends[0] : ends[-1]], ends - ends[0])


# -- judgments and runs ------------------------------------------------------------------------------------------------


def _look_up_documents(tables: Tables, queries: dict[str, pd.DataFrame], ids: TextColumn) -> None:
    """Adds to each table of judgments and candidates the `row` of its documents, -1 for none, and to queries that may
    be documents their own; all at once, for looking up takes a table of all ids."""
    columns = [(frame, "docno") for each in (tables.qrels, tables.runs, tables.pools, tables.scores)
               for frame in each.values()]  # fmt: skip
    columns += [(frame, "qid") for frame in queries.values() if tables.ids_given]
    rows = rows_of(pd.concat([frame[column] for frame, column in columns]), ids.arrow())
    ends = np.cumsum([len(frame) for frame, _ in columns])
    for (frame, _), part in zip(columns, np.split(rows, ends[:-1]), strict=True):
        frame["row"] = part


def _split_rows(split: str, tables: Tables, ids: TextColumn, queries: pd.DataFrame, reading: Reading) -> SplitRows:
    rated: dict[str, Rated] = {}
    for name, frames in (("run", tables.runs), ("pool", tables.pools), ("teacher", tables.scores)):
        if split in frames:
            frame = frames[split].assign(score=0.0) if name == "pool" else frames[split]
            rated[name] = _rated(frame, "score", queries, ids, reading)
    if split in tables.runs:
        require_order(tables.runs[split], reading)
    qrels = _rated(tables.qrels[split], "label", queries, ids, reading)
    rejected = np.flatnonzero(queries["qid"].isin(tables.rejected.get(split, [])))
    return SplitRows(queries, qrels, rejected=rejected.tolist(), **rated)


def _rated(frame: pd.DataFrame, value: str, queries: pd.DataFrame, ids: TextColumn, reading: Reading) -> Rated:
    """One row per query and document. Rows of unknown queries are left out if they are few, and of a run those with a
    document outside the collection; of judgments these stay, unless they are nearly all."""
    frame = frame.assign(query=rows_of(frame["qid"], queries["qid"]))
    right = f"a query of the split{_such_as(queries['qid'])}"
    frame = reading.leave_out(frame, frame["query"] >= 0, "row", "of an unknown query", "unknown query '{qid}'", right)
    absent = frame["row"].to_numpy() < 0
    stays = value == "label" and not reading.config.strict and absent.sum() <= NEARLY_ALL * len(absent)
    if absent.any() and not stays:
        wrong, right = "document '{docno}' is not in the collection", f"an id of the collection{_such_as(ids)}"
        frame = reading.leave_out(frame, ~absent, "row", "with a document outside the collection", wrong, right)
        absent = frame["row"].to_numpy() < 0
    number = frame["row"].to_numpy(np.int64).copy()
    number[absent] = len(ids) + pd.factorize(frame["docno"][absent])[0]  # these differ by their ids
    pair = frame["query"].to_numpy(np.int64) * (number.max(initial=0) + 1) + number
    what = f"{'grade' if value == 'label' else value} for query '{{qid}}' and document '{{docno}}'"
    frame = reading.once(frame.assign(pair=pair), ["pair"], value, what)
    query, row = frame["query"].to_numpy(np.int64), frame["row"].to_numpy(np.int64)
    return Rated(query, row, frame[value].to_numpy(np.float64))


def _such_as(ids: pd.Series | TextColumn) -> str:
    """An id in words, if there is one."""
    first = next(iter(ids), None)
    return "" if first is None else f", such as '{first}'"
