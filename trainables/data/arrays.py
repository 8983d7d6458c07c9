"""From tables to RankingData: texts go to disk, and ids become rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trainables.core.errors import DataError, Problem
from trainables.data.assembly import MISSING, NEARLY_ALL, Documents, SplitRows, assembled
from trainables.data.columns import ONE_DOMAIN, RankingData, Rated, Split, TextColumn
from trainables.data.data_cache import TextWriter, rewritten
from trainables.data.judgments import require_order
from trainables.data.rows import PLACE, alike, arrow, file_name, is_blank, place, repeats_of, rows_of
from trainables.data.tables import FEW, SHARE, Reading, Tables

NO_TEXT = "'{%s}' has an empty text", "give a text or leave the row out"
LOOKED_AT = 100_000  # ids that an unknown one is compared with


def ranking_data(name: str, tables: Tables, reading: Reading, workspace: Path) -> RankingData:
    """RankingData without a digest of the files. Documents are written to `workspace` while they are read. Raises
    DataError with everything that is wrong, WorkFailed if retrieval fails."""
    documents = _documents(tables, reading, workspace)
    queries = {split: _queries(frame, reading) for split, frame in tables.queries.items()}
    reading.finish()  # unknown ids would only repeat these problems
    if tables.classes or tables.features is not None:
        return _listed(name, tables, documents, queries, reading)
    _look_up_documents(tables, queries, documents)
    splits = {split: _split_rows(split, tables, documents, queries[split], reading) for split in queries}
    reading.finish()
    names = pd.concat([frame["qid"] for frame in queries.values()])
    if repeated := len(names) - names.nunique():
        reading.notes.append(f"{repeated:,} query ids stand in more than one split")
    return assembled(name, documents, splits, reading)


def _listed(
    name: str, tables: Tables, documents: Documents, queries: dict[str, pd.DataFrame], reading: Reading
) -> RankingData:
    """Data without a first-stage ranking: rows of features, or pairs to classify. A query's candidates are its judged
    documents, in the order of the file."""
    if reading.config.candidates != "auto":
        kind = "a pair's second sentence is its one candidate" if tables.classes else "LETOR's rows are the candidates"
        raise DataError(Problem("data.candidates", kind, "set auto"))
    splits, start = {}, 0
    for split, frame in queries.items():
        qrels = tables.qrels[split]
        owner = rows_of(qrels["qid"], frame["qid"])
        order = np.argsort(owner, kind="stable")
        row = qrels["row"] if "row" in qrels else pc.index_in(arrow(qrels["docno"]), documents.names).to_numpy()
        sizes, grade = np.bincount(owner, minlength=len(frame)), qrels["label"].to_numpy()
        splits[split] = Split.listed(start, sizes, np.asarray(row)[order], grade[order])
        start += len(frame)
    every = pd.concat(list(queries.values()))
    return RankingData(
        name=name,
        digest="",
        document_ids=documents.ids,
        documents=documents.texts,
        query_ids=text_column(every["qid"]),
        utterances=text_column(every["text"]) if "text" in every else TextColumn.of([""] * start),
        utterance_offsets=np.arange(start + 1, dtype=np.int64),
        domain=np.zeros(start, np.int16),
        domains=ONE_DOMAIN,
        splits=splits,
        notes=tuple(reading.notes),
        features=tables.features,
        task="classification" if tables.classes else "ranking",
        classes=tables.classes,
    )


# -- documents and queries ---------------------------------------------------------------------------------------------


def _documents(tables: Tables, reading: Reading, workspace: Path) -> Documents:
    ids, texts = TextWriter(workspace, "document_ids"), TextWriter(workspace, "documents")
    has_texts = tables.features is None
    locations, empty, count = list[pd.DataFrame](), list[pd.DataFrame](), 0
    parts: Iterable[pd.DataFrame] = [tables.docs] if isinstance(tables.docs, pd.DataFrame) else tables.docs
    for part in parts:
        frame = reading.ids(part, "docno")
        count += len(part)
        if has_texts and (blank := is_blank(frame["text"])).any():
            empty.append(frame.loc[blank, ["docno", *PLACE]])
            frame = frame[~blank]
        ids.extend(text_column(frame["docno"]))
        texts.extend(text_column(frame["text"]) if has_texts else TextColumn.of([""] * len(frame)))
        locations.append(frame[PLACE])
    if empty:
        bad = pd.concat(empty)
        wrong = NO_TEXT[0] % "docno", NO_TEXT[1]
        reading.leave_out(bad, np.zeros(len(bad), bool), "document", "without text", *wrong, rows=count)
    documents = Documents(ids.finish(), texts.finish(), pd.concat(locations))
    return _each_once(documents, reading, workspace) if has_texts else documents  # of features, splits may share ids


def _each_once(documents: Documents, reading: Reading, workspace: Path) -> Documents:
    """The documents, each id once."""
    names, texts = documents.names, documents.texts
    if len(pc.unique(names)) == len(names):
        return documents
    later, first = repeats_of(names.dictionary_encode().indices.to_numpy())
    rows = np.union1d(later, first)
    frame = documents.places.iloc[rows].assign(docno=names.take(pa.array(rows)).to_pylist())
    frame = frame.assign(text=[texts[int(row)] for row in rows])
    reading.once(frame, [pd.factorize(frame["docno"])[0]], "text", "text for id '{docno}'")
    stays = ~np.isin(np.arange(len(names)), later)
    ids = rewritten(workspace, "document_ids", compress(documents.ids, stays))
    return Documents(ids, rewritten(workspace, "documents", compress(texts, stays)), documents.places[stays])


def _queries(frame: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The queries that have a text, each id once."""
    frame = reading.ids(frame, "qid")
    if "text" not in frame:
        return frame
    wrong = NO_TEXT[0] % "qid", NO_TEXT[1]
    frame = reading.leave_out(frame, ~is_blank(frame["text"]), "query", "without text", *wrong)
    return reading.once(frame, [pd.factorize(frame["qid"])[0]], "text", "text for id '{qid}'")


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


def _look_up_documents(tables: Tables, queries: dict[str, pd.DataFrame], documents: Documents) -> None:
    """Adds to each table of judgments and candidates the `row` of its documents, -1 for none, and to queries that may
    be documents their own; all at once, for looking up takes a table of all ids."""
    frames = [(each, split, "docno") for each in (tables.qrels, tables.runs, tables.pools, tables.scores)
              for split in each]  # fmt: skip
    frames += [(queries, split, "qid") for split in queries if tables.ids_given]
    columns = [arrow(each[split][column]) for each, split, column in frames]
    chunks = [chunk for column in columns for chunk in column.chunks]
    found = pc.index_in(pa.chunked_array(chunks, pa.large_string()), documents.names)
    rows = pc.fill_null(found, MISSING).to_numpy()
    for (each, split, _), end in zip(frames, np.cumsum(list(map(len, columns))).tolist(), strict=True):
        each[split] = each[split].assign(row=rows[end - len(each[split]) : end])


def _split_rows(split: str, tables: Tables, documents: Documents, queries: pd.DataFrame, reading: Reading) -> SplitRows:
    run = tables.runs.get(split)
    most = 1.0 if tables.partial else NEARLY_ALL if run is not None else SHARE
    qrels = _rated(tables.qrels[split], "label", queries, documents, reading, most)
    rated: dict[str, Rated] = {}
    for name, frames in (("run", tables.runs), ("pool", tables.pools), ("teacher", tables.scores)):
        if split in frames:
            frame = frames[split].assign(score=0.0) if name == "pool" else frames[split]
            frame = frame[frame["row"] >= 0] if tables.partial else frame
            rated[name] = _rated(frame, "score", queries, documents, reading)
    if run is not None:
        require_order(run, reading)
    rejected = np.flatnonzero(queries["qid"].isin(tables.rejected.get(split, [])))
    return SplitRows(queries, qrels, rejected=rejected.tolist(), **rated)


def _rated(
    frame: pd.DataFrame,
    value: str,
    queries: pd.DataFrame,
    documents: Documents,
    reading: Reading,
    most: float | None = None,
) -> Rated:
    """One row per query and document. Few may name an unknown query, and are left out, or a document outside the
    collection: these are left out, or stay up to the share `most`."""
    count = len(frame)
    query = _rows(frame, "qid", rows_of(frame["qid"], queries["qid"]), arrow(queries["qid"]), queries, reading)
    wrong, right = "unknown query '{qid}'", "add it to the split's queries or drop the row"
    frame = reading.leave_out(frame, query >= 0, "row", "of an unknown query", wrong, right,
                              few=FEW, share=SHARE, rows=count, each="qid")  # fmt: skip
    query, row = query[query >= 0], frame["row"].to_numpy(np.int64)
    document = _rows(frame, "docno", row, pa.chunked_array([documents.names]), documents.places, reading)
    absent = document < 0
    if absent.any() and (most is None or reading.config.strict or absent.sum() > max(FEW, most * count)):
        wrong, right = "document '{docno}' is not in the collection", "add it there or drop the row"
        frame = reading.leave_out(frame, ~absent, "row", "with a document outside the collection", wrong, right,
                                  few=FEW, share=SHARE, rows=count)  # fmt: skip
        query, document = query[~absent], document[~absent]
    number, absent = document.copy(), document < 0
    number[absent] = len(documents.ids) + pd.factorize(frame["docno"][absent])[0]  # these differ by their ids
    keys = query * (number.max(initial=0) + 1) + number
    ordered = np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        what = f"{'grade' if value == 'label' else value} for query '{{qid}}' and document '{{docno}}'"
        frame = reading.once(frame.assign(query=query, document=document), [keys], value, what)
        query, document = frame["query"].to_numpy(), frame["document"].to_numpy()
    return Rated(query, document, frame[value].to_numpy(np.float64))


def _rows(
    frame: pd.DataFrame, column: str, rows: np.ndarray, known: pa.ChunkedArray, places: pd.DataFrame, reading: Reading
) -> np.ndarray:
    """The row of each id among the `known` ones, -1 for none. An id that is spelled otherwise (`alike`) is read as the
    one that it must mean, with a note. `rows`: of those that are spelled as there; `places`: where the known ones
    stand. Raises DataError where no id is known."""
    lost = np.flatnonzero(rows < 0)
    if not len(lost):
        return rows
    noun, plain, names = (
        {"qid": "query", "docno": "document"}[column],
        alike(known),
        alike(arrow(frame[column].iloc[lost])),
    )
    counts = pc.value_counts(plain)
    single = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    meant = pc.if_else(pc.is_in(names, single), names, None)
    rows = rows.copy()
    rows[lost] = pc.fill_null(pc.index_in(meant, plain.combine_chunks(), skip_nulls=True), MISSING).to_numpy()
    if len(alike_rows := lost[rows[lost] >= 0]):
        first = alike_rows[0]
        wrong = f"'{frame[column].iloc[first]}' is '{known[int(rows[first])].as_py()}' elsewhere"
        said = f"in {len(alike_rows):,} of {len(frame):,} rows a {noun}'s id was read as one that it resembles: {wrong}"
        if reading.config.strict:
            reading.problem(place(frame.iloc[[first]]), f"{noun} {wrong}", "write the id as it stands there")
        else:
            reading.notes.append(f"{file_name(frame)}: {said}")
    if len(rows) > FEW and (rows < 0).all():
        raise DataError(_none_known(frame, column, known, noun, places))
    return rows


def _none_known(frame: pd.DataFrame, column: str, known: pa.ChunkedArray, noun: str, places: pd.DataFrame) -> Problem:
    """The problem of ids that match none, with one that looks like another."""
    letters = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in known.slice(0, LOOKED_AT).to_pylist()}
    names = frame[column].unique().tolist()
    like = [(name, letters[bare]) for name in names if (bare := re.sub(r"[^a-z0-9]", "", name.lower())) in letters]
    looks = f"; '{like[0][0]}' looks like '{like[0][1]}'" if like else f", such as '{names[0]}'"
    where = file_name(places) if len(places) else "the data"
    return Problem(place(frame), f"none of {len(names):,} {noun} ids is in {where}{looks}", "the same ids in both")
