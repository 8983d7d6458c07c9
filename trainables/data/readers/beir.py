"""BEIR folder (Thakur et al. 2021): corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv and, optionally, run.SPLIT.txt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Rated, Task
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.collection import read_collection, read_texts
from trainables.data.readers.files import split_file
from trainables.data.readers.judgments import BEIR_QRELS, JudgmentReader, optional_files
from trainables.data.readers.rows import Rows, plain_or_packed
from trainables.data.readers.tables import JsonTable, named_objects
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
CORPUS_KEYS, QUERY_KEYS = ("_id", "title", "text"), ("_id", "text")


def recognises(folder: Path) -> bool:
    return plain_or_packed(folder, "corpus.jsonl").exists()


def files(folder: Path) -> list[Path]:
    named = [plain_or_packed(folder, name) for name in ("corpus.jsonl", "queries.jsonl")]
    return [path for path in (*named, *_qrels(folder).values()) if path.exists()] + optional_files(folder)


def _qrels(folder: Path) -> dict[str, Path]:
    """The judgments that are there, by split."""
    return {split: path for split in SPLITS if (path := split_file(folder / "qrels", split, "{}.tsv")).exists()}


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Document = title and text joined by a space; a split's queries are those that it judges, in the order of
    queries.jsonl.

    Which documents must be in the corpus: as in a TREC folder. Raises DataError with every problem of corpus and
    queries, then of qrels, runs and scores.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    table = JsonTable(plain_or_packed(folder, "corpus.jsonl"), problems, CORPUS_KEYS)
    collection = read_collection(table, named_objects(table, CORPUS_KEYS), notes, workspace, config.strict)
    table = JsonTable(plain_or_packed(folder, "queries.jsonl"), problems, QUERY_KEYS)
    queries = read_texts(table, named_objects(table, QUERY_KEYS), notes, config.strict)
    if not (qrels := _qrels(folder)):
        wrong = "no judgments", f"give qrels/SPLIT.tsv, SPLIT = {', '.join(SPLITS)}"
        problems.append(Problem(str(folder), *wrong))
    if problems:  # unknown ids in qrels and runs would only repeat these
        raise DataError(problems)
    reader = JudgmentReader(folder, config.candidates, collection.index, problems, notes, config.strict)
    splits = {split: _read_split(reader, split, path, queries) for split, path in qrels.items()}
    if problems:
        raise DataError(problems)
    return assemble(Raw(folder.name, collection.ids, collection.texts, splits, tuple(notes), collection.index), config)


def _read_split(reader: JudgmentReader, split: str, path: Path, texts: Mapping[str, str]) -> RawSplit:
    """The split with its judged queries."""
    queries = {query: row for row, query in enumerate(texts)}
    names = list(texts)
    rows = Rows(path, BEIR_QRELS, "\t", reader.problems, header="header of BEIR's qrels")
    qrels = reader.qrels(rows, ((number, *fields) for number, fields in rows), queries, split)  # type: ignore[misc]
    run, teacher = reader.run(split, queries), reader.teacher(split, queries)
    judged = np.unique(qrels.query)
    ids = [names[row] for row in judged.tolist()]
    rated = [None if each is None else _of_queries(each, judged) for each in (run, teacher)]
    qrels = Rated(np.searchsorted(judged, qrels.query), qrels.document, qrels.value)
    return RawSplit(ids, [(texts[name],) for name in ids], qrels, rated[0], teacher=rated[1])


def _of_queries(rated: Rated, judged: np.ndarray) -> Rated:
    """The rows of the judged queries, which are numbered anew."""
    of_split = rated.where(np.isin(rated.query, judged))
    return Rated(np.searchsorted(judged, of_split.query), of_split.document, of_split.value)
