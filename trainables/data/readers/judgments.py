"""Judgments, first-stage runs and a teacher's scores of a folder's splits, by query and document id."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.core.errors import Problem
from trainables.data.columns import SPLITS, Rated
from trainables.data.readers.collection import Ratings
from trainables.data.readers.repeats import Repeats
from trainables.data.readers.rows import IdIndex, Lines, Rows, Wrong, grade_of, plain_or_gz, score_of

QRELS = ("QUERY", "0", "DOCUMENT", "GRADE")
RUN = ("QUERY", "Q0", "DOCUMENT", "RANK", "SCORE", "TAG")
SCORES = ("QUERY", "DOCUMENT", "SCORE")

Triples = Iterable[tuple[int, str, str, str]]  # line, query id, document id, value


def scores_file(folder: Path, split: str) -> Path:
    """Where the teacher's scores of a split are, if they are given."""
    return plain_or_gz(folder, f"scores.{split}.tsv")


def optional_files(folder: Path) -> list[Path]:
    """The runs and teacher's scores that a folder gives."""
    runs = [plain_or_gz(folder, f"run.{split}.txt") for split in SPLITS]
    return [path for path in (*runs, *(scores_file(folder, split) for split in SPLITS)) if path.exists()]


def trec_rows(rows: Rows) -> Iterator[tuple[int, str, str, str]]:
    """The rows of TREC qrels or of a TREC run."""
    value = rows.columns.index("GRADE" if rows.columns == QRELS else "SCORE")
    for number, fields in rows:
        yield number, fields[0], fields[2], fields[value]


@dataclass(frozen=True)
class JudgmentReader:
    """Reads the rated documents of a folder's splits against one collection.

    candidates  `data.candidates`
    problems    of all files
    notes       on rows that count once
    """

    folder: Path
    candidates: str
    documents: IdIndex
    problems: list[Problem]
    notes: list[str]

    def has_run(self, split: str) -> bool:
        """Whether the split's candidates come from its run."""
        return self.candidates in ("auto", "run") and self._run(split).path.exists()

    def qrels(self, lines: Lines, rows: Triples, queries: Mapping[str, int], split: str) -> Rated:
        """The judgments of a split: one per query and document. `rows`: those of the file that `lines` reads."""
        are_candidates = self.candidates == "auto" and not self.has_run(split)
        return self._rated(lines, rows, queries, _grade, "grade", are_candidates)

    def run(self, split: str, queries: Mapping[str, int]) -> Rated | None:
        """The first-stage run, if `data.candidates` reads one; a run that it asks for must be there."""
        rows = self._run(split)
        if self.candidates == "run" and not rows.path.exists():
            rows.file_problem("missing file", "give the file, or set data.candidates auto, qrels or bm25")
        return self._rated(rows, trec_rows(rows), queries, score_of, "score", True) if self.has_run(split) else None

    def teacher(self, split: str, queries: Mapping[str, int]) -> Rated | None:
        """A teacher's scores, if they are given."""
        rows = Rows(scores_file(self.folder, split), SCORES, "\t", self.problems)
        return self._rated(rows, score_rows(rows), queries, score_of, "score", True) if rows.path.exists() else None

    def _run(self, split: str) -> Rows:
        return Rows(plain_or_gz(self.folder, f"run.{split}.txt"), RUN, None, self.problems)

    def _rated(
        self,
        lines: Lines,
        rows: Triples,
        queries: Mapping[str, int],
        value_of: Callable[[str], float],
        what: str,
        in_collection: bool,
    ) -> Rated:
        """One row per (query, document). `in_collection`: a document that is not in the collection is a problem."""
        ratings = Ratings(self.documents)
        for number, query, document, field in rows:
            value = math.nan
            try:
                value = value_of(field)
            except Wrong as wrong:
                lines.problem(number, *wrong.args)
            if query in queries:
                ratings.add(number, queries[query], document, value)
            else:
                lines.problem(number, f"unknown query '{query}'", "add it to the split's queries or drop the row")
        rated = ratings.finish()
        for number, document in ratings.missing if in_collection else ():
            wrong = f"document '{document}' is not in the collection"
            lines.problem(number, wrong, "add it there or drop the row")
        return self._without_repeats(lines, ratings, rated, what)

    def _without_repeats(self, lines: Lines, ratings: Ratings, rated: Rated, what: str) -> Rated:
        later, first = ratings.repeats()
        repeats = Repeats(lines, self.notes)
        for row, earlier in zip(later.tolist(), first.tolist(), strict=True):
            here, there = rated.value[row], rated.value[earlier]
            if not (math.isnan(here) or math.isnan(there)):  # a wrong value is a problem already
                wrong = (
                    None if here == there else f"{what} {here:g} for a query and document that have {what} {there:g} in"
                )
                repeats.add(ratings.line(row), ratings.line(earlier), wrong)
        repeats.note()
        once = np.ones(len(rated.query), bool)
        once[later] = False
        return rated.where(once)


def score_rows(rows: Rows) -> Iterator[tuple[int, str, str, str]]:
    """The rows of a file of scores, without its header if it has one."""
    for number, (query, document, score) in rows:
        if (number, query, document, score) != (1, *(name.lower() for name in SCORES)):
            yield number, query, document, score


def _grade(field: str) -> float:
    """Negative grades (spam in some tracks) mean not relevant and become 0."""
    return max(0, grade_of(field))
