"""Judgments, first-stage runs and a teacher's scores of a folder's splits, by query and document id."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.core.errors import Problem
from trainables.data.columns import SPLITS, Rated, grouped_order
from trainables.data.readers.blocks import RUN, Block, Triples, plain_run, read_blocks
from trainables.data.readers.collection import MISSING, IdIndex, Ratings, difference, hash_of
from trainables.data.readers.files import split_file
from trainables.data.readers.rows import (
    FEW,
    SHARE,
    LeftOut,
    Lines,
    Repeats,
    Rows,
    Wrong,
    grade_of,
    score_of,
    whole_number,
)

QRELS = ("QUERY", "0", "DOCUMENT", "GRADE")
BEIR_QRELS = ("query-id", "corpus-id", "score")  # the header of such a file
SHORT_RUN = 3  # columns of a run QUERY DOCUMENT SCORE, or RANK as MS MARCO has it
SCORES = ("QUERY", "DOCUMENT", "SCORE")
NEARLY_ALL = 0.9  # of the judged documents: so many may be outside a collection of a run's documents


def scores_file(folder: Path, split: str) -> Path:
    """Where the teacher's scores of a split are, if they are given."""
    return split_file(folder, split, "scores.{}.tsv")


def run_file(folder: Path, split: str) -> Path:
    """Where the run of a split is, if it is given."""
    return split_file(folder, split, "run.{}.txt")


def optional_files(folder: Path) -> list[Path]:
    """The runs and teacher's scores that a folder gives."""
    runs = [run_file(folder, split) for split in SPLITS]
    return [path for path in (*runs, *(scores_file(folder, split) for split in SPLITS)) if path.exists()]


def qrels_of(path: Path, problems: list[Problem]) -> Rows:
    """The rows of a file of judgments, as TREC or BEIR have them."""
    return Rows(path, QRELS, None, problems, also=len(BEIR_QRELS))


def qrels_rows(rows: Rows) -> Iterator[tuple[int, str, str, str]]:
    """The judgments of TREC's rows, or of BEIR's behind their header."""
    beir: bool | None = None
    for number, fields in rows:
        if beir is None:
            beir = tuple(fields) == BEIR_QRELS
            if beir:
                continue
        if len(fields) == len(BEIR_QRELS if beir else QRELS):
            yield (number, *fields) if beir else (number, fields[0], *fields[2:])  # type: ignore[misc]
        else:
            rows.problem(number, f"{len(fields)} columns instead of {len(rows.columns)}", rows.form)


def run_of(path: Path, problems: list[Problem]) -> Rows:
    """The rows of a run, as TREC or MS MARCO have it."""
    return Rows(path, RUN, None, problems, also=SHORT_RUN)


def run_rows(rows: Rows, ranks: RunRanks | None = None) -> Iterator[tuple[int, str, str, str]]:
    """The rows of a run, and to `ranks` their RANK beside their SCORE. Three columns are QUERY DOCUMENT SCORE, or MS
    MARCO's QUERY DOCUMENT RANK if the third numbers the documents of each query; then the rank decides."""
    short: list[tuple[int, list[str]]] = []
    for number, fields in rows:
        if len(fields) == SHORT_RUN:
            short.append((number, fields))
            continue
        if ranks is not None:
            ranks.add(fields[0], fields[3], fields[4])
        yield number, fields[0], fields[2], fields[4]
    sign = -1 if _are_ranks(fields for _, fields in short) else 1
    for number, (query, document, value) in short:
        yield number, query, document, str(-int(float(value))) if sign < 0 else value


def _are_ranks(rows: Iterable[Sequence[str]]) -> bool:
    """Whether the third column numbers the documents of each query, from 1 or 0, or all rows of the file. Numbers that
    fall from row to row are scores."""
    of_query: dict[str, list[int]] = {}
    for query, _, value in rows:
        number = whole_number(value)
        if number is None:
            return False
        of_query.setdefault(query, []).append(number)
    lists = list(of_query.values())
    everything = [number for numbers in lists for number in numbers]
    if any(len(numbers) > 1 for numbers in lists) and all(
        numbers == sorted(numbers, reverse=True) for numbers in lists
    ):
        return False
    numbered = [sorted(numbers) for numbers in (everything, *lists)]
    counts = [[list(range(first, first + len(numbers))) for first in (0, 1)] for numbers in numbered]
    whole, *each = (numbers in right for numbers, right in zip(numbered, counts, strict=True))
    return whole or all(each)


class RunRanks:
    """RANK and SCORE of a run's rows, which should say the same."""

    def __init__(self) -> None:
        self._queries: dict[str, int] = {}
        self._query, self._rank, self._score = array("q"), array("d"), array("d")

    def add(self, query: str, rank: str, score: str) -> None:
        try:
            values = float(rank), score_of(score)
        except (ValueError, Wrong):
            return
        self._query.append(self._queries.setdefault(query, len(self._queries)))
        self._rank.append(values[0])
        self._score.append(values[1])

    def check(self, rows: Rows, notes: list[str]) -> None:
        """`check_ranks` of what was added."""
        check_ranks(rows, notes, *(np.array(each) for each in (self._query, self._rank, self._score)))


def check_ranks(rows: Rows, notes: list[str], query: np.ndarray, rank: np.ndarray, score: np.ndarray) -> None:
    """Notes a problem where the scores of a run order nothing, and in a note that they rise with the rank. By row:
    number of the query, RANK and SCORE."""
    order = grouped_order(query, rank)
    query, rank, score = query[order], rank[order], score[order]
    pairs = query[1:] == query[:-1]
    if not pairs.any():
        return
    if (score[1:] == score[:-1])[pairs].all() and len(query) > 2:
        rows.file_problem("the scores of each query are all equal", "scores that fall from rank to rank")
    pairs &= rank[1:] != rank[:-1]
    if pairs.any() and 2 * (score[1:] > score[:-1])[pairs].sum() > pairs.sum():
        notes.append(
            f"{rows.path.name}: SCORE rises with RANK, as a distance does; documents are ordered by SCORE, highest "
            "first"
        )


@dataclass(frozen=True)
class JudgmentReader:
    """Reads the rated documents of a folder's splits against one collection.

    candidates  `data.candidates`
    problems    of all files
    notes       on rows that count once, and on those that are left out
    strict      `data.strict`
    """

    folder: Path
    candidates: str
    documents: IdIndex
    problems: list[Problem]
    notes: list[str]
    strict: bool = False

    def has_run(self, split: str) -> bool:
        """Whether the split's candidates come from its run."""
        return self.candidates in ("auto", "run") and run_file(self.folder, split).exists()

    def qrels(self, lines: Lines, rows: Triples, queries: Mapping[str, int], split: str) -> Rated:
        """The judgments of a split: one per query and document. `rows`: those of the file that `lines` reads. A few
        documents may be outside the collection, and many where a run gives the candidates, as of a collection that was
        cut down to these; they count as judged."""
        most = NEARLY_ALL if self.has_run(split) else SHARE
        return self._rated(lines, read_blocks(lines, rows, _grade), queries, "grade", most)

    def run(self, split: str, queries: Mapping[str, int]) -> Rated | None:
        """The first-stage run, if `data.candidates` reads one; a run that it asks for must be there."""
        rows, ranks = run_of(run_file(self.folder, split), self.problems), RunRanks()
        if self.candidates == "run" and not rows.path.exists():
            rows.file_problem("missing file", "give the file, or set data.candidates auto, qrels or bm25")
        if not self.has_run(split):
            return None
        if plain := plain_run(rows.path):
            rows.count = len(plain.line)
            rated = self._rated(rows, [plain], queries, "score")
            check_ranks(rows, self.notes, plain.query, plain.rank, plain.value)
            return rated
        rated = self._rated(rows, read_blocks(rows, run_rows(rows, ranks), score_of), queries, "score")
        ranks.check(rows, self.notes)
        return rated

    def teacher(self, split: str, queries: Mapping[str, int]) -> Rated | None:
        """A teacher's scores, if they are given."""
        rows = Rows(scores_file(self.folder, split), SCORES, "\t", self.problems)
        if not rows.path.exists():
            return None
        return self._rated(rows, read_blocks(rows, score_rows(rows), score_of), queries, "score")

    def pool(self, lines: Lines, rows: Triples, queries: Mapping[str, int]) -> Rated:
        """Candidates without scores."""
        return self._rated(lines, read_blocks(lines, rows, lambda _: 0.0), queries, "score")

    def _rated(
        self, lines: Lines, blocks: Iterable[Block], queries: Mapping[str, int], what: str, kept: float | None = None
    ) -> Rated:
        """One row per (query, document). Few may name an unknown query, and are left out, or a document outside the
        collection: these are left out, or stay up to the share `kept`. An id that is spelled otherwise (`alike`) is
        read as the one that it must mean, with a note."""
        ratings = Ratings(self.documents)
        unknown = LeftOut(lines, "row", "of an unknown query", self.strict, SHARE, FEW)
        absent = LeftOut(lines, "row", "with a document outside the collection", self.strict, SHARE, FEW)
        names, spelled = list(queries), dict[str, list[tuple[int, str, str]]]()
        index: IdIndex | None = None  # of the queries, for ids that are spelled otherwise
        for block in blocks:
            rows = np.array([queries.get(name, MISSING) for name in block.queries], np.int64)
            if strange := np.flatnonzero(rows == MISSING).tolist():
                index = index or IdIndex(names, array("Q", map(hash_of, names)))
                rows[strange] = index.rows_alike([block.queries[at] for at in strange])
            for at in np.flatnonzero(np.isin(block.query, strange)).tolist() if strange else ():
                number, query = int(block.line[at]), block.queries[int(block.query[at])]
                if (row := int(rows[block.query[at]])) != MISSING:
                    spelled.setdefault("query", []).append((number, query, names[row]))
                else:
                    wrong = f"unknown query '{query}'"
                    unknown.add(number, wrong, "add it to the split's queries or drop the row", key=query)
            ratings.add(block, rows[block.query])
        rated = ratings.finish()
        unknown.close(self.notes)
        if kept is None or self.strict or len(ratings.missing) > max(FEW, kept * lines.count):
            for number, document in ratings.missing:  # else `assemble` counts them
                absent.add(number, f"document '{document}' is not in the collection", "add it there or drop the row")
            absent.close(self.notes)
        for noun, found in (*spelled.items(), ("document", ratings.spelled)):
            self._spelled(lines, noun, found)
        rated = without_repeats(rated, ratings.repeats(), lines, ratings.line, what, self.notes)
        return rated.where(rated.document >= 0) if kept is None else rated

    def _spelled(self, lines: Lines, noun: str, found: list[tuple[int, str, str]]) -> None:
        """A note on ids that are spelled otherwise than elsewhere; with `strict` a problem."""
        if not found:
            return
        number, name, right = found[0]
        wrong = f"'{name}' is '{right}' elsewhere, but for {difference(name, right)}"
        if self.strict:
            lines.problem(number, f"{noun} {wrong}", "write the id as it stands there")
        else:
            rows = f"{len(found):,} of {lines.count:,} rows"
            self.notes.append(f"{lines.path.name}: in {rows} a {noun}'s id was read as one that it resembles: {wrong}")


def without_repeats(
    rated: Rated,
    repeats: tuple[np.ndarray, np.ndarray],
    lines: Lines,
    line: Callable[[int], int],
    what: str,
    notes: list[str],
) -> Rated:
    """The first row of each query and document. One that has another value is a problem, those that have the same a
    note; a value that is NaN is a problem already. `repeats`: what `repeats_of` gives; `line`: where a row stands."""
    said, (later, first) = Repeats(lines, notes), repeats
    for row, earlier in zip(later.tolist(), first.tolist(), strict=True):
        value, first_value = rated.value[row], rated.value[earlier]
        if not math.isnan(value + first_value):
            wrong = f"{what} {value:g} for a query and document that have {what} {first_value:g} in"
            said.add(line(row), line(earlier), None if value == first_value else wrong)
    said.note()
    once = np.ones(len(rated), bool)
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
