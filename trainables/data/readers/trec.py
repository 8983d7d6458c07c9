"""TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt and, optionally, run.SPLIT.txt, scores.SPLIT.tsv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.collection import read_collection, read_texts
from trainables.data.readers.judgments import QRELS, JudgmentReader, optional_files, trec_rows
from trainables.data.readers.rows import Rows, plain_or_gz
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
COLLECTION = ("DOCUMENT", "TEXT")
QUERIES = ("QUERY", "TEXT")


def recognises(folder: Path) -> bool:
    return plain_or_gz(folder, "collection.tsv").exists()


def files(folder: Path) -> list[Path]:
    names = [name for split in SPLITS for name in (f"queries.{split}.tsv", f"qrels.{split}.txt", f"run.{split}.txt")]
    given = [path for name in ("collection.tsv", *names) if (path := plain_or_gz(folder, name)).exists()]
    return given + [path for path in optional_files(folder) if path not in given]


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """The folder's splits: those that have queries or qrels.

    Documents of a run must be in the collection. So must those of a split's qrels if `data.candidates` is auto and the
    split has no run; otherwise those that are not merely count among the judged documents.
    Raises DataError with every problem of collection and queries, then of qrels, runs and scores.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    rows = Rows(plain_or_gz(folder, "collection.tsv"), COLLECTION, "\t", problems)
    collection = read_collection(rows, _named(rows), notes, workspace)
    queries = {}
    for split in _splits(folder):
        rows = Rows(plain_or_gz(folder, f"queries.{split}.tsv"), QUERIES, "\t", problems)
        queries[split] = read_texts(rows, _named(rows), notes)
    if not queries:
        problems.append(Problem(str(folder), "no queries", f"give queries.SPLIT.tsv, SPLIT = {', '.join(SPLITS)}"))
    if problems:  # unknown ids in qrels and runs would only repeat these
        raise DataError(problems)
    reader = JudgmentReader(folder, config.candidates, collection.index, problems, notes)
    splits = {split: _read_split(reader, split, texts) for split, texts in queries.items()}
    if problems:
        raise DataError(problems)
    notes += _repeated(queries)
    return assemble(Raw(folder.name, collection.ids, collection.texts, splits, tuple(notes)), config)


def _splits(folder: Path) -> list[str]:
    parts = ("queries.{}.tsv", "qrels.{}.txt")
    return [split for split in SPLITS if any(plain_or_gz(folder, part.format(split)).exists() for part in parts)]


def _named(rows: Rows) -> Iterator[tuple[int, str, str]]:
    for number, (name, text) in rows:
        yield number, name, text


def _repeated(queries: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """A note on query ids that are in several splits, which would make test results too good."""
    names = [name for texts in queries.values() for name in texts]
    count = len(names) - len(set(names))
    return (f"{count:,} query ids stand in more than one split",) if count else ()


def _read_split(reader: JudgmentReader, split: str, texts: Mapping[str, str]) -> RawSplit:
    """The split with its qrels and what else is given of it."""
    queries = {query: row for row, query in enumerate(texts)}
    rows = Rows(plain_or_gz(reader.folder, f"qrels.{split}.txt"), QRELS, None, reader.problems)
    return RawSplit(
        list(texts),
        [(text,) for text in texts.values()],
        reader.qrels(rows, trec_rows(rows), queries, split),
        reader.run(split, queries),
        teacher=reader.teacher(split, queries),
    )
