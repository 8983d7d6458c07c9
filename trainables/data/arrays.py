"""From tables to RankingData: texts go to disk, and ids become rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
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
from trainables.data.rows import alike, arrow, enumerated, place, repeats_of, rows_of
from trainables.data.tables import FEW, SHARE, Reading, Tables


def ranking_data(name: str, tables: Tables, reading: Reading, workspace: Path) -> RankingData:
    """RankingData without a digest of the files. Documents are written to `workspace` while they are read. Raises
    DataError with everything that is wrong, WorkFailed if retrieval fails."""
    documents = _documents(tables, reading, workspace)
    queries = {split: _queries(frame, reading) for split, frame in tables.queries.items()}
    reading.finish()  # unknown ids would only repeat these problems
    if tables.classes or tables.features is not None:
        return _listed(name, tables, documents, queries, reading)
    _look_up_documents(tables, queries, documents)
    splits = {split: _judgments(split, tables, documents, queries[split], reading) for split in queries}
    reading.finish()
    names = pd.concat([frame["qid"] for frame in queries.values()])
    if repeated := len(names) - names.nunique():
        reading.notes.append(f"{repeated:,} query ids stand in more than one split")
    reading.notes += tables.notes
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
        row = qrels["row"] if "row" in qrels else rows_of(qrels["docno"], documents.names)
        document = np.asarray(row)[order]
        sizes = np.bincount(owner, minlength=len(frame))
        splits[split] = Split.listed(start, sizes, document, qrels["label"].to_numpy()[order])
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
        notes=(*reading.notes, *tables.notes),
        features=tables.features,
        task="classification" if tables.classes else "ranking",
        classes=tables.classes,
    )


# -- documents and queries ---------------------------------------------------------------------------------------------


def _documents(tables: Tables, reading: Reading, workspace: Path) -> Documents:
    ids, texts = TextWriter(workspace, "document_ids"), TextWriter(workspace, "documents")
    has_texts = tables.features is None
    lines, empty, file, count = [], [], "the documents", 0
    parts: Iterable[pd.DataFrame] = [tables.docs] if isinstance(tables.docs, pd.DataFrame) else tables.docs
    for part in parts:
        frame = reading.ids(part, "docno")
        count += len(part)
        if has_texts:
            blank = is_blank(frame["text"])
            if blank.any():
                empty.append(frame.loc[blank, [name for name in ("docno", "file", "line") if name in frame]])
                frame = frame[~blank]
        ids.extend(text_column(frame["docno"]))
        texts.extend(text_column(frame["text"]) if has_texts else TextColumn.of([""] * len(frame)))
        if "line" in frame and len(frame):
            file = str(frame["file"].iloc[0])
            lines.append(frame["line"].to_numpy())
    if empty:
        bad = pd.concat(empty)
        advice = "'{docno}' has an empty text", "give a text or leave the row out"
        reading.leave_out(bad, np.zeros(len(bad), bool), "document", "without text", *advice, rows=count)
    documents = Documents(ids.finish(), texts.finish(), file)
    if not has_texts:
        return documents  # files of several splits may have the same ids
    return _each_once(documents, np.concatenate(lines) if lines else None, reading, workspace)


def _each_once(documents: Documents, lines: np.ndarray | None, reading: Reading, workspace: Path) -> Documents:
    """The documents, each id once."""
    names = documents.names
    if len(pc.unique(names)) == len(names):
        return documents
    codes = names.dictionary_encode().indices.to_numpy()
    later, first = repeats_of(codes)
    where = lines if lines is not None else np.arange(len(codes))
    rows = {"docno": names.take(pa.array(later)).to_pylist(), "line": where[later], "first": where[first]}
    frame = pd.DataFrame(rows).assign(file=documents.file)
    same = np.array([documents.texts[a] == documents.texts[b] for a, b in zip(later, first, strict=True)])
    reading.require(frame, same, f"another text for id '{{docno}}' than in {documents.file}:{{first}}",
                    "keep the row that is right")  # fmt: skip
    if same.any():
        row = frame[same].iloc[0]
        said = f"line {row['line']} says what line {row['first']} says"
        reading.repeated(frame, int(same.sum()), said)
    stays = np.ones(len(names), bool)
    stays[later] = False
    ids = rewritten(workspace, "document_ids", compress(documents.ids, stays))
    texts = rewritten(workspace, "documents", compress(documents.texts, stays))
    return replace(documents, ids=ids, texts=texts)


def _queries(frame: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The queries that have a text, each id once."""
    frame = reading.ids(frame, "qid")
    if "text" not in frame:
        return frame.reset_index(drop=True)
    advice = "'{qid}' has an empty text", "give a text or leave the row out"
    frame = reading.leave_out(frame, ~is_blank(frame["text"]), "query", "without text", *advice)
    codes = pd.factorize(frame["qid"])[0]
    return reading.once(frame, (codes,), "text", "text for id '{qid}'").reset_index(drop=True)


def is_blank(texts: pd.Series) -> np.ndarray:
    """Which texts are empty or white space, bool [N]."""
    return pc.fill_null(pc.equal(pc.utf8_trim_whitespace(arrow(texts)), ""), True).to_numpy(zero_copy_only=False)


def text_column(texts: pd.Series) -> TextColumn:
    """A column of texts as flat arrays, without a copy where Arrow has them in one piece."""
    values = arrow(texts).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], pa.large_string())
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return TextColumn(np.empty(0, np.uint8), np.zeros(1, np.int64))
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return TextColumn(whole[ends[0] : ends[-1]], ends - ends[0])


# -- judgments and runs ------------------------------------------------------------------------------------------------


def _look_up_documents(tables: Tables, queries: dict[str, pd.DataFrame], documents: Documents) -> None:
    """Adds to each table of judgments and candidates the `row` of its documents, -1 for none, and to queries that may
    be documents their own; all at once, for looking up takes a table of all ids."""
    places = [(frames, split, "docno") for frames in (tables.qrels, tables.runs, tables.pools, tables.scores)
              for split in frames]  # fmt: skip
    places += [(queries, split, "qid") for split in queries if tables.ids_given]
    columns = [arrow(frames[split][column]) for frames, split, column in places]
    chunks = [chunk for column in columns for chunk in column.chunks]
    found = pc.index_in(pa.chunked_array(chunks, pa.large_string()), documents.names)
    rows = pc.fill_null(found, MISSING).to_numpy()
    for (frames, split, _), end in zip(places, np.cumsum(list(map(len, columns))).tolist(), strict=True):
        frames[split] = frames[split].assign(row=rows[end - len(frames[split]) : end])


def _judgments(split: str, tables: Tables, documents: Documents, queries: pd.DataFrame, reading: Reading) -> SplitRows:
    match = _Match(arrow(queries["qid"]).combine_chunks(), documents, reading, _file_of(queries))
    run, others = tables.runs.get(split), {}
    most = 1.0 if tables.partial else NEARLY_ALL if run is not None else SHARE
    qrels = match.rated(tables.qrels[split], "label", most)
    for name, frames in (("run", tables.runs), ("pool", tables.pools), ("teacher", tables.scores)):
        if (frame := frames.get(split)) is not None:
            if tables.partial:
                frame = frame[frame["row"] >= 0]
            others[name] = match.rated(frame.assign(score=0.0) if name == "pool" else frame, "score")
    if run is not None:
        require_order(run, reading)
    rejected = rows_of(pd.Series(tables.rejected.get(split, []), dtype="str"), queries["qid"])
    return SplitRows(queries, qrels, rejected=rejected.tolist(), **others)


def _file_of(frame: pd.DataFrame) -> str:
    return Path(str(frame["file"].iloc[0])).name if "file" in frame and len(frame) else "the queries"


@dataclass(frozen=True)
class _Match:
    """Turns ids into rows of a split's queries and of the documents. An id that is spelled otherwise (`alike`) is read
    as the one that it must mean, with a note; `file`: of the queries."""

    queries: pa.Array
    documents: Documents
    reading: Reading
    file: str

    def rated(self, frame: pd.DataFrame, value: str, kept: float | None = None) -> Rated:
        """One row per query and document. Few may name an unknown query, and are left out, or a document outside the
        collection: these are left out, or stay up to the share `kept`."""
        rows, reading = len(frame), self.reading
        query = self._rows(frame, "qid", rows_of(frame["qid"], self.queries), self.queries, "query", self.file)
        if query is None:
            return Rated.of([])
        frame = reading.leave_out(
            frame, query >= 0, "row", "of an unknown query", "unknown query '{qid}'",
            "add it to the split's queries or drop the row", few=FEW, share=SHARE, rows=rows, each="qid")  # fmt: skip
        query = query[query >= 0]
        found, file = frame["row"].to_numpy(np.int64), Path(self.documents.file).name
        document = self._rows(frame, "docno", found, self.documents.names, "document", file)
        if document is None:
            return Rated.of([])
        absent = document < 0
        if absent.any() and (kept is None or reading.config.strict or absent.sum() > max(FEW, kept * rows)):
            frame = reading.leave_out(
                frame, ~absent, "row", "with a document outside the collection",
                "document '{docno}' is not in the collection", "add it there or drop the row",
                few=FEW, share=SHARE, rows=rows)  # fmt: skip
            query, document = query[~absent], document[~absent]
        return self._once(frame, query, document, value)

    def _once(self, frame: pd.DataFrame, query: np.ndarray, document: np.ndarray, value: str) -> Rated:
        """The rows, each query and document once."""
        number = document.copy()  # documents outside the collection differ by their ids
        absent = document < 0
        if absent.any():
            number[absent] = len(self.documents.ids) + pd.factorize(frame["docno"][absent])[0]
        keys = query * (number.max(initial=0) + 1) + number
        ordered = np.sort(keys)
        if (ordered[1:] == ordered[:-1]).any():
            what = f"{'grade' if value == 'label' else value} for query '{{qid}}' and document '{{docno}}'"
            first = self.reading.once(frame.reset_index(drop=True), (keys,), value, what)
            query, document, frame = query[first.index], document[first.index], first
        return Rated(query, document, frame[value].to_numpy(np.float64))

    def _rows(
        self, frame: pd.DataFrame, column: str, rows: np.ndarray, known: pa.Array, noun: str, file: str
    ) -> np.ndarray | None:
        """The row of each id among the `known` ones, -1 for none; None, and a problem, where no id is known. `rows`:
        of those that are spelled as there."""
        lost = np.flatnonzero(rows < 0)
        if not len(lost):
            return rows
        names = arrow(frame[column].iloc[lost])
        plain = alike(pa.chunked_array([known]))
        counts = pc.value_counts(plain)
        single = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
        meant = pc.if_else(pc.is_in(alike(names), single), alike(names), None)
        rows = rows.copy()
        rows[lost] = pc.fill_null(pc.index_in(meant, plain.combine_chunks(), skip_nulls=True), MISSING).to_numpy()
        spelled = lost[rows[lost] >= 0]
        if len(spelled):
            self._spelled(frame, column, known, spelled, rows, noun)
        if (rows < 0).all() and len(rows) > FEW:
            self._none_known(frame, column, known, noun, file)
            return None
        return rows

    def _spelled(
        self, frame: pd.DataFrame, column: str, known: pa.Array, spelled: np.ndarray, rows: np.ndarray, noun: str
    ) -> None:
        """A note on ids that are spelled otherwise than elsewhere; with `data.strict` a problem."""
        name, right = frame[column].iloc[spelled[0]], known[int(rows[spelled[0]])].as_py()
        wrong = f"'{name}' is '{right}' elsewhere, but for {difference(name, right)}"
        if self.reading.config.strict:
            where = place(frame.iloc[spelled[:1]])
            self.reading.problem(where, f"{noun} {wrong}", "write the id as it stands there")
            return
        said = f"in {len(spelled):,} of {len(frame):,} rows a {noun}'s id was read as one that it resembles: {wrong}"
        self.reading.notes.append(f"{_file_of(frame)}: {said}")

    def _none_known(self, frame: pd.DataFrame, column: str, known: pa.Array, noun: str, file: str) -> None:
        """One problem for ids that match none, with one that looks like another."""
        letters = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in known.slice(0, 100_000).to_pylist()}
        names = frame[column].unique().tolist()
        like = next((name for name in names if re.sub(r"[^a-z0-9]", "", name.lower()) in letters), None)
        looks = "" if like is None else f"; '{like}' looks like '{letters[re.sub(r'[^a-z0-9]', '', like.lower())]}'"
        shown = "" if looks else f" ('{enumerated(names[:1])}')"
        wrong = f"none of {len(names):,} {noun} ids{shown} is in {file or 'the collection'}{looks}"
        right = "the same ids in both" if noun == "query" else "the same ids as in the collection"
        self.reading.problem(place(frame), wrong, right)


def difference(one: str, other: str) -> str:
    """In what two ids that are `alike` differ."""
    if one.strip() == other.strip():
        return "spaces at the ends"
    if not (one.isascii() and other.isascii()):
        return "Unicode normalisation (NFC and NFD)"
    return "the .0 of a number" if ".0" in one + other else "leading zeros"
