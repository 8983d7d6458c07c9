"""TREC folder: collection.tsv, queries.SPLIT.tsv, qrels.SPLIT.txt and, optionally, run.SPLIT.txt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Rated, Task
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.collection import Collection, CollectionWriter, Ratings, wrong_text
from trainables.data.readers.rows import IdIndex, Rows, Wrong, grade_of, plain_or_gz, score_of
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
COLLECTION = ("DOCUMENT", "TEXT")
QUERIES = ("QUERY", "TEXT")
QRELS = ("QUERY", "0", "DOCUMENT", "GRADE")
RUN = ("QUERY", "Q0", "DOCUMENT", "RANK", "SCORE", "TAG")

Value = Callable[[list[str]], float]


def recognises(folder: Path) -> bool:
    return plain_or_gz(folder, "collection.tsv").exists()


def files(folder: Path) -> list[Path]:
    names = [name for split in SPLITS for name in (f"queries.{split}.tsv", f"qrels.{split}.txt", f"run.{split}.txt")]
    return [path for name in ("collection.tsv", *names) if (path := plain_or_gz(folder, name)).exists()]


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """The folder's splits: those that have queries or qrels.

    Documents of a run must be in the collection. So must those of a split's qrels if `data.candidates` is auto and the
    split has no run; otherwise those that are not merely count among the judged documents.
    Raises DataError with every problem of collection and queries, then of qrels and runs.
    """
    problems: list[Problem] = []
    collection = read_collection(Rows(plain_or_gz(folder, "collection.tsv"), COLLECTION, "\t", problems), workspace)
    queries = {
        split: read_texts(Rows(plain_or_gz(folder, f"queries.{split}.tsv"), QUERIES, "\t", problems))
        for split in _splits(folder)
    }
    if not queries:
        problems.append(Problem(str(folder), "no queries", f"give queries.SPLIT.tsv, SPLIT = {', '.join(SPLITS)}"))
    if problems:  # unknown ids in qrels and runs would only repeat these
        raise DataError(problems)
    reader = _SplitReader(folder, config.candidates, collection.index, problems)
    splits = {split: reader.split(split, *columns) for split, columns in queries.items()}
    if problems:
        raise DataError(problems)
    return assemble(Raw(folder.name, collection.ids, collection.texts, splits, _repeated(queries)), config)


def _splits(folder: Path) -> list[str]:
    parts = ("queries.{}.tsv", "qrels.{}.txt")
    return [split for split in SPLITS if any(plain_or_gz(folder, part.format(split)).exists() for part in parts)]


def _repeated(queries: Mapping[str, tuple[list[str], list[str]]]) -> tuple[str, ...]:
    """A note on query ids that are in several splits, which would make test results too good."""
    names = [name for ids, _ in queries.values() for name in ids]
    count = len(names) - len(set(names))
    return (f"{count:,} query ids stand in more than one split",) if count else ()


def read_collection(rows: Rows, workspace: Path) -> Collection:
    """The documents of a two-column file, streamed into the workspace."""
    writer = CollectionWriter(workspace)
    for number, (name, text) in rows:
        wrong = wrong_text(name, text)
        if wrong:
            rows.problem(number, *wrong)
        else:
            writer.add(number, name, text)
    collection = writer.finish()
    for row, first in collection.index.repeats():
        _note_repeat(rows, collection.lines[row], f"id '{collection.ids[row]}'", collection.lines[first])
    return collection


def read_texts(rows: Rows) -> tuple[list[str], list[str]]:
    """Ids and texts of a two-column file; their numbers differ only if there are problems."""
    first: dict[str, int] = {}
    texts = []
    for number, (name, text) in rows:
        wrong = wrong_text(name, text)
        if wrong:
            rows.problem(number, *wrong)
        elif name in first:
            _note_repeat(rows, number, f"id '{name}'", first[name])
        else:
            texts.append(text)
        first.setdefault(name, number)
    return list(first), texts


def _note_repeat(rows: Rows, number: int, what: str, first: int) -> None:
    rows.problem(number, f"{what} a second time (first in line {first})", "keep one row")


@dataclass(frozen=True)
class _SplitReader:
    """Reads the qrels and runs of a folder's splits against one collection."""

    folder: Path
    candidates: str
    documents: IdIndex
    problems: list[Problem]

    def split(self, name: str, query_ids: list[str], texts: list[str]) -> RawSplit:
        """The split with its qrels and, if `data.candidates` reads one, its run; notes the problems of both files."""
        queries = {query: row for row, query in enumerate(query_ids)}
        rows = self._rows("run", name, RUN)
        has_run = self.candidates in ("auto", "run") and rows.path.exists()
        are_candidates = self.candidates == "auto" and not has_run
        qrels = self._rated(self._rows("qrels", name, QRELS), queries, _grade, are_candidates)
        run = self._rated(rows, queries, _score, True) if has_run else None
        if self.candidates == "run" and not has_run:
            rows.file_problem("missing file", "give the file, or set data.candidates auto, qrels or bm25")
        return RawSplit(query_ids, [(text,) for text in texts], qrels, run)

    def _rows(self, kind: str, split: str, columns: tuple[str, ...]) -> Rows:
        return Rows(plain_or_gz(self.folder, f"{kind}.{split}.txt"), columns, None, self.problems)

    def _rated(self, rows: Rows, queries: Mapping[str, int], value_of: Value, in_collection: bool) -> Rated:
        """One row per (query, document). `in_collection`: a document that is not in the collection is a problem."""
        ratings = Ratings(self.documents)
        for number, fields in rows:
            query, value = queries.get(fields[0]), 0.0
            try:
                value = value_of(fields)
            except Wrong as wrong:
                rows.problem(number, *wrong.args)
            if query is None:
                rows.problem(number, f"unknown query '{fields[0]}'", "add it to the split's queries or drop the row")
            else:
                ratings.add(number, query, fields[2], value)
        rated = ratings.finish()
        for number, document in ratings.missing if in_collection else ():
            wrong = f"document '{document}' is not in the collection"
            rows.problem(number, wrong, "add it there or drop the row")
        for number, first in ratings.repeats():
            _note_repeat(rows, number, "the same query and document", first)
        return rated


def _grade(fields: list[str]) -> float:
    """Negative grades (spam in some tracks) mean not relevant and become 0."""
    return max(0, grade_of(fields[3]))


def _score(fields: list[str]) -> float:
    return score_of(fields[4])
