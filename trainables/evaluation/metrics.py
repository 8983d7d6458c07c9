"""Ranking metrics as trec_eval defines them, for all queries at once.

Documents are ordered by score, descending; scores are compared as float32, and equal scores by document
id, descending in byte order. A query counts even if nothing is relevant to it or it has no candidates: its
value is 0. Relevant documents are counted over everything judged, retrieved or not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import ClassVar

import numpy as np

from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.registry import Entry, Registry
from trainables.data.columns import Split, TextColumn, id_ranks
from trainables.evaluation.measures import IrMeasure, Qrels, ir_measure, qrels_of, run_of, values_of_ir_measures

SIGN = np.uint32(1 << 31)  # bit of a float32


@dataclass(frozen=True)
class Judgments:
    """What the judgments of Q queries determine, whatever the ranking.

    relevant   int64 [Q]      documents judged relevant
    gain       float64 [G]    positive grades, query by query, descending
    query      int64 [G]      the query of each gain
    rank       int64 [G]      rank of each gain in the ideal ranking, from 1
    """

    relevant: np.ndarray
    gain: np.ndarray
    query: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, grades: np.ndarray, offsets: np.ndarray, relevance_level: int) -> Judgments:
        """From the grades of all judged documents, int [J], those of query i in rows offsets[i]:offsets[i + 1]."""
        queries = len(offsets) - 1
        owner = np.repeat(np.arange(queries), np.diff(offsets))
        relevant = np.bincount(owner[grades >= relevance_level], minlength=queries)
        ideal = np.lexsort((-grades.astype(np.int64), owner))
        ideal = ideal[grades[ideal] > 0]
        query = owner[ideal]
        return cls(relevant, grades[ideal].astype(np.float64), query, _ranks_within(query))


@dataclass(frozen=True)
class Ranking:
    """One ranking of the candidates of Q queries; row r is at rank[r] (from 1) of query[r]."""

    judged: Judgments
    query: np.ndarray
    rank: np.ndarray
    grade: np.ndarray
    relevance_level: int

    def __len__(self) -> int:
        return len(self.judged.relevant)

    @cached_property
    def hits(self) -> np.ndarray:
        """Rows that hold a relevant document, best rank first within a query."""
        return np.flatnonzero(self.grade >= self.relevance_level)

    def hits_within(self, cut: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Query and rank of each relevant document at a rank up to `cut` (one number, or one per query [Q])."""
        query, rank = self.query[self.hits], self.rank[self.hits]
        within = rank <= np.broadcast_to(cut, len(self))[query]
        return query[within], rank[within]

    def count_within(self, cut: float | np.ndarray) -> np.ndarray:
        """Relevant documents at ranks up to `cut`, int64 [Q]."""
        return np.bincount(self.hits_within(cut)[0], minlength=len(self))


def average_precision(ranking: Ranking, cut: float) -> np.ndarray:
    """Sum of the precisions at the ranks of relevant documents, divided by the number of relevant documents."""
    query, rank = ranking.hits_within(cut)
    total = np.bincount(query, _ranks_within(query) / rank, minlength=len(ranking))
    return _ratio(total, ranking.judged.relevant)


def reciprocal_rank(ranking: Ranking, cut: float) -> np.ndarray:
    """1 / rank of the first relevant document; 0 if there is none up to the cut."""
    query, rank = ranking.hits_within(cut)
    first = _ranks_within(query) == 1
    return np.bincount(query[first], 1.0 / rank[first], minlength=len(ranking))


def precision(ranking: Ranking, cut: float) -> np.ndarray:
    """Relevant share of the first `cut` ranks; ranks that a shorter ranking lacks count as not relevant."""
    return ranking.count_within(cut) / cut


def recall(ranking: Ranking, cut: float) -> np.ndarray:
    """Relevant documents up to the cut, as a share of all relevant ones."""
    return _ratio(ranking.count_within(cut), ranking.judged.relevant)


def accuracy(ranking: Ranking, _: float) -> np.ndarray:
    """Whether the first document is relevant: hits@1, which equals precision at 1."""
    return precision(ranking, 1)


def success(ranking: Ranking, cut: float) -> np.ndarray:
    """Whether a relevant document is among the first `cut`: 1 or 0."""
    return (reciprocal_rank(ranking, cut) > 0).astype(np.float64)


def r_precision(ranking: Ranking, _: float) -> np.ndarray:
    """Precision at rank R, where R documents are relevant to the query."""
    return _ratio(ranking.count_within(ranking.judged.relevant), ranking.judged.relevant)


def ndcg(ranking: Ranking, cut: float) -> np.ndarray:
    """DCG / ideal DCG, with the grade as gain and the discount log2(rank + 1) (Järvelin & Kekäläinen 2002).

    The relevance level plays no part. The ideal ranking holds all judged documents.
    """
    rows = np.flatnonzero(ranking.grade > 0)
    judged, queries = ranking.judged, len(ranking)
    dcg = _dcg(ranking.query[rows], ranking.rank[rows], ranking.grade[rows], cut, queries)
    return _ratio(dcg, _dcg(judged.query, judged.rank, judged.gain, cut, queries))


def ndcg_exponential(ranking: Ranking, cut: float) -> np.ndarray:
    """Like `ndcg`, with 2^grade - 1 as gain (Burges et al. 2005), as LightGBM and MSLR's tables have it."""
    judged = replace(ranking.judged, gain=_exponential(ranking.judged.gain))
    return ndcg(replace(ranking, judged=judged, grade=_exponential(ranking.grade)), cut)


def _exponential(grade: np.ndarray) -> np.ndarray:
    """2^grade - 1, float64; negative grades gain nothing, and those above 1000, which would overflow, count as 1000."""
    return np.exp2(np.clip(grade, 0, 1000).astype(np.float64)) - 1


def _dcg(query: np.ndarray, rank: np.ndarray, gain: np.ndarray, cut: float, queries: int) -> np.ndarray:
    within = rank <= cut
    return np.bincount(query[within], gain[within] / np.log2(rank[within] + 1.0), minlength=queries)


def _ranks_within(query: np.ndarray) -> np.ndarray:
    """1, 2, 3, ... within each run of equal numbers of the ascending `query`."""
    count = np.bincount(query)
    return np.arange(len(query)) - (np.cumsum(count) - count)[query] + 1


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


@dataclass(frozen=True)
class Family:
    """A measure, and whether its name may be written with or without a cut.

    measure    the cut is infinity if the name has none
    theirs     what ir_measures calls it; None: it has no such measure
    """

    measure: Callable[[Ranking, float], np.ndarray]
    theirs: str | None
    bare: bool = True
    cut: bool = True


METRIC_FORMS = (
    "known: map[@K], mrr[@K], ndcg[@K], ndcg_exp[@K], p@K, recall@K, success@K, rprec, accuracy; or as ir_measures "
    "writes them: AP, RR@K, nDCG@K, P@K, R@K, Rprec; as trec_eval: ndcg_cut_K, P_K, recip_rank; and any other measure "
    "of ir_measures: bpref, infAP, Judged@K, set_F"
)
FAMILIES = {
    "map": Family(average_precision, "AP"),
    "mrr": Family(reciprocal_rank, "RR"),
    "p": Family(precision, "P", bare=False),
    "recall": Family(recall, "R", bare=False),
    "success": Family(success, "Success", bare=False),
    "rprec": Family(r_precision, "Rprec", cut=False),
    "ndcg": Family(ndcg, "nDCG"),
    "ndcg_exp": Family(ndcg_exponential, None),
    "accuracy": Family(accuracy, "P@1", cut=False),
}
OUR_NAMES = {family.theirs: name for name, family in FAMILIES.items()}
ACCURACY = "accuracy"


@dataclass(frozen=True)
class Metric:
    """A measure with its cut, such as mrr@10, which the evaluator of dev computes."""

    family: str
    cut: int | None = None
    is_share: ClassVar[bool] = True  # its values lie between 0 and 1

    def __str__(self) -> str:
        return self.family if self.cut is None else f"{self.family}@{self.cut}"

    def __call__(self, ranking: Ranking) -> np.ndarray:
        """One value per query, float64 [Q], each from 0 to 1."""
        return FAMILIES[self.family].measure(ranking, math.inf if self.cut is None else self.cut)


METRICS: Registry[Metric] = Registry(
    "metric",
    Entry("map", Metric("map"), "mean average precision over all candidates", "trec_eval map"),
    Entry("mrr@10", Metric("mrr", 10), "1 / rank of the first relevant document; 0 beyond 10", "trec_eval recip_rank"),
    Entry("p@1", Metric("p", 1), "fraction of queries with a relevant document on top", "trec_eval P_1"),
    Entry("rprec", Metric("rprec"), "precision at the number of relevant documents", "trec_eval Rprec"),
    Entry("ndcg@10", Metric("ndcg", 10), "graded gain of the first 10 by log2(rank + 1)", "trec_eval ndcg_cut_10"),
    Entry("ndcg_exp@10", Metric("ndcg_exp", 10), "ndcg@10 with gain 2^grade - 1, as LightGBM's", "Burges et al. 2005"),
    Entry(ACCURACY, Metric(ACCURACY), "fraction of pairs whose class is predicted; of rankings p@1", "gensim 2018"),
)


def parse_measures(names: Iterable[str], location: str = METRICS.location) -> dict[str, Metric | IrMeasure]:
    """Measures by their names as written: those of METRICS, others such as ndcg@20, p@5, mrr, recall@100, and any of
    ir_measures.

    Raises ConfigError with every name that is none, or several; `location` says where the user wrote them.
    """
    measures: dict[str, Metric | IrMeasure] = {}
    problems = []
    for name in names:
        try:
            measure = measure_of(name)
        except ValueError as several:
            problems.append(Problem(location, str(several), "name one of them"))
            continue
        if measure is None:
            similar = get_close_matches(name.lower(), METRICS, n=1, cutoff=0.85)
            advice = f"did you mean {similar[0]}? " if similar else ""
            problems.append(Problem(location, f"unknown metric '{name}'", advice + METRIC_FORMS))
        else:
            measures[name] = measure
    if problems:
        raise ConfigError(problems)
    return measures


def measure_of(name: str) -> Metric | IrMeasure | None:
    """The measure of that name: ours, or that of ir_measures, which is ours if it asks for nothing but a cut. None if
    there is none. Raises ValueError for a name of several."""
    parts = re.fullmatch(r"([a-z_]+)(?:@([1-9][0-9]{0,8}))?", name)
    family = FAMILIES.get(parts[1]) if parts else None
    if parts and family and (family.cut if parts[2] else family.bare):
        return Metric(parts[1], int(parts[2]) if parts[2] else None)
    theirs = ir_measure(name)
    if theirs is None or theirs.measure.NAME not in OUR_NAMES or theirs.measure.params.keys() - {"cutoff"}:
        return theirs
    return Metric(OUR_NAMES[theirs.measure.NAME], theirs.measure.params.get("cutoff"))


class TrecOrder:
    """Sorts the candidates of a split as trec_eval does. Built once per split, then used for many arrays of scores.

    owner  int64 [C]  row of the query of each candidate; also valid for the sorted candidates
    rank   int64 [C]  1, 2, 3, ... within each query
    """

    def __init__(self, split: Split, document_ids: TextColumn):
        self.owner = split.owner
        self.rank = np.arange(len(self.owner)) - split.offsets[:-1][self.owner] + 1
        self._by_id = np.lexsort((-id_ranks(split.document, document_ids), self.owner))
        # One integer holds query, score (descending) and rank by id, so that one plain sort does it all: ten times as
        # fast as np.lexsort, with which an evaluation on dev took 3 to 30 times as long.
        self._rank_bits = int(split.sizes.max(initial=0)).bit_length()
        if self._rank_bits + len(split).bit_length() > 32:
            raise ValueError("too many queries times candidates to rank at once")
        query = self.owner.astype(np.uint64) << np.uint64(32 + self._rank_bits)
        self._query_and_rank = query | (self.rank - 1).astype(np.uint64)

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Candidate rows, best first within each query, int64 [C]; `scores`: one per candidate, [C].

        Raises WorkFailed if a score is not a finite float32.
        """
        bits = _as_float32(scores, len(self.owner))[self._by_id].view(np.uint32)
        descending = np.where(bits & SIGN, bits, bits ^ ~SIGN).astype(np.uint64)
        key = np.sort(self._query_and_rank | (descending << np.uint64(self._rank_bits)))
        rank = (key & np.uint64((1 << self._rank_bits) - 1)).astype(np.int64)
        return self._by_id[np.arange(len(rank)) - self.rank + 1 + rank]


def _as_float32(scores: np.ndarray, count: int) -> np.ndarray:
    if np.shape(scores) != (count,):
        raise ValueError(f"scores have shape {np.shape(scores)}, there are {count} candidates")
    with np.errstate(over="ignore"):
        single = np.asarray(scores).astype(np.float32) + np.float32(0)  # + 0 turns -0.0 into 0.0, its equal
    bad = np.count_nonzero(~np.isfinite(single))
    if bad:
        raise WorkFailed(f"ranking: {bad} of {count} scores are NaN or infinite")
    return single


def dev_key(metric: str) -> str:
    """Name of a metric's dev value in results, journals and MLflow."""
    return f"dev_{metric}"


class Evaluator:
    """Metrics of any scores for the candidates of one split.

    `relevance_level`: lowest grade, at least 1, that binary measures count as relevant; ndcg uses the grades.
    `metric`: one that is computed beside METRICS.
    """

    def __init__(
        self,
        split: Split,
        document_ids: TextColumn,
        relevance_level: int = 1,
        metric: str | None = None,
    ) -> None:
        if relevance_level < 1:
            raise ValueError(f"relevance_level {relevance_level} is below 1")
        self.relevance_level = relevance_level
        self.metrics: tuple[str, ...] = tuple(dict.fromkeys([*METRICS, *([metric] if metric else [])]))
        self.order = TrecOrder(split, document_ids)
        self._split, self._grade, self._ids = split, split.grade, document_ids
        self._judged = Judgments.of(split.judged_grade, split.judged_offsets, relevance_level)

    def __call__(self, scores: np.ndarray, metrics: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Per-query values, float64 [Q], in the order of the split's queries; `scores`: float32 [C]. Without `metrics`,
        of METRICS and the evaluator's own.

        Raises ConfigError for an unknown metric, WorkFailed for scores that are not finite.
        """
        parsed = parse_measures(self.metrics if metrics is None else metrics)
        best = self.order(scores)
        ranking = Ranking(self._judged, self.order.owner, self.order.rank, self._grade[best], self.relevance_level)
        values = {name: metric(ranking) for name, metric in parsed.items() if isinstance(metric, Metric)}
        if others := {name: measure for name, measure in parsed.items() if isinstance(measure, IrMeasure)}:
            run = run_of(self._split, self._ids, scores)
            values |= values_of_ir_measures(others, self._qrels, run, self.relevance_level)
        return {name: values[name] for name in parsed}

    @cached_property
    def _qrels(self) -> Qrels:
        return qrels_of(self._split, self._ids)


def in_words(metric: str) -> str:
    """A metric's name in a sentence, e.g. MAP, nDCG@10."""
    name, at, depth = metric.partition("@")
    if name not in FAMILIES:
        return metric
    return {"ndcg": "nDCG", "rprec": "R-precision", "accuracy": "accuracy"}.get(name, name.upper()) + at + depth
