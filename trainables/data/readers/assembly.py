"""From what a reader read to RankingData: selects and ranks candidates, drops queries that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.bm25 import Statistics, streamed_scores
from trainables.data.candidates import retrieve, with_positives
from trainables.data.columns import ONE_DOMAIN, RankingData, Rated, Split, TextColumn, grouped_order, id_ranks
from trainables.data.combine import some_queries
from trainables.data.readers.collection import MISSING, IdIndex
from trainables.data.settings import DataConfig
from trainables.data.words import Cut, cut_of, index_words, look_up, normalised, words

LOOKED_AT = 300  # relevant documents of a split, for whether they share words with their queries
RELATED = re.compile(r"(Q\d+)_R\d+")  # SemEval's CQA: a question's number, and that of a thread found for it
NEARLY_ALL = 0.9  # share of the queries whose judgments name a non-relevant document, for candidates from the qrels


@dataclass(frozen=True)
class RawSplit:
    """One split as read: queries (each one or more utterances), judgments and, if given, candidates.

    run      candidates with first-stage scores
    pool     candidates that the data gives without scores; the judgments may name other documents
    teacher  a teacher's scores, of candidates and other documents
    dropped  rows of queries with a given negative that was left out
    """

    query_ids: Sequence[str]
    contexts: Sequence[tuple[str, ...]]
    qrels: Rated
    run: Rated | None = None
    pool: Rated | None = None
    teacher: Rated | None = None
    dropped: Sequence[int] = ()

    @property
    def query_texts(self) -> Iterator[str]:
        """The utterances of each query joined by a space."""
        return (" ".join(context) for context in self.contexts)


@dataclass(frozen=True)
class Raw:
    """A data set as read."""

    name: str
    document_ids: TextColumn
    documents: TextColumn
    splits: dict[str, RawSplit]
    notes: tuple[str, ...] = ()
    index: IdIndex | None = None
    """Of the documents' ids, where queries may be documents too."""


def candidate_sources(raw: Raw, config: DataConfig) -> dict[str, str]:
    """Where each split's candidates come from: run, qrels or bm25. Resolves `auto`: splits without a run or a pool
    share one source, which their judgments decide together."""
    if config.candidates != "auto":
        return dict.fromkeys(raw.splits, config.candidates)
    bare = _by_judgments([split for split in raw.splits.values() if split.run is None and split.pool is None])
    return {
        name: "run" if split.run is not None else bare if split.pool is None else "qrels"
        for name, split in raw.splits.items()
    }


def _by_judgments(splits: Sequence[RawSplit]) -> str:
    judged = rejected = 0
    for split in splits:
        judged += len(np.unique(split.qrels.query))
        rejected += len(np.unique([*split.qrels.query[split.qrels.value <= 0], *split.dropped]))
    return "qrels" if judged and rejected >= NEARLY_ALL * judged else "bm25"


def assemble(raw: Raw, config: DataConfig) -> RankingData:
    """RankingData without a digest. Raises DataError if a split cannot be used, WorkFailed if retrieval fails."""
    sources, cut = candidate_sources(raw, config), config.words
    if cut == "auto":
        cut = cut_of(text for split in raw.splits.values() for text in split.query_texts)
    own_rows, judged = {}, dict[str, int]()
    for name, split in raw.splits.items():
        own_rows[name], judged[name] = own_documents(raw, split, config)
    beside = int(any((rows != MISSING).any() for rows in own_rows.values()))  # room for a query's own document
    raw = _with_scores(raw, sources, config, beside, cut)
    notes, dropped = [*raw.notes, *_source_notes(sources, config), *_strangers_note(raw, cut)], 0
    splits, rows, start = {}, {}, 0
    for name, raw_split in raw.splits.items():
        notes += _ungraded_note(name, raw_split) if raw.index is None else []  # qrels may hold relevant ones alone
        raw_split, count = _without_own(raw_split, own_rows[name])
        dropped += count
        notes += _note(name, count, "query", "with an own document, which is not a candidate (data.identical_ids)")
        kept = "whose own document is judged relevant, and so stays a candidate"
        notes += _note(name, judged[name], "query", kept)
        whole = _ranked(name, raw_split, own_rows[name], sources[name], config, raw.document_ids)
        rows[name], left_out = _usable(name, whole)
        numbers = np.arange(start, start + len(rows[name]), dtype=np.int32)
        splits[name] = replace(some_queries(whole, rows[name]), query=numbers)
        start += len(numbers)
        notes += [*left_out, *_teacher_notes(name, splits[name])]

    def contexts() -> Iterator[tuple[str, ...]]:
        return (raw.splits[name].contexts[row] for name in rows for row in map(int, rows[name]))

    query_ids = [raw.splits[name].query_ids[row] for name in rows for row in map(int, rows[name])]
    return RankingData(
        name=raw.name,
        digest=" ".join(_beside_files(config, cut, dropped)),
        document_ids=raw.document_ids,
        documents=raw.documents,
        query_ids=TextColumn.of(query_ids),
        utterances=TextColumn.of(utterance for context in contexts() for utterance in context),
        utterance_offsets=np.cumsum(np.fromiter(chain([0], map(len, contexts())), np.int64, start + 1)),
        domain=np.zeros(start, np.int16),
        domains=ONE_DOMAIN,
        splits=splits,
        notes=tuple(notes),
        retrieved=set(sources.values()) == {"bm25"},
        words=cut,
        group=_original_questions(query_ids),
        own=np.concatenate([own_rows[name][rows[name]] for name in rows]).astype(np.int32) if beside else None,
    )


def _original_questions(query_ids: Sequence[str]) -> np.ndarray | None:
    """Which queries are threads that were found for the same question (SemEval's community question answering, whose
    ids say so), int32 [queries]; None for other data."""
    found = [RELATED.fullmatch(name) for name in query_ids]
    if not any(found):
        return None
    names = [one[1] if one else name for one, name in zip(found, query_ids, strict=True)]
    return np.unique(names, return_inverse=True)[1].astype(np.int32)


def _ungraded_note(name: str, split: RawSplit) -> list[str]:
    """A note where all judged documents are relevant, and some more than others."""
    grades = np.unique(split.qrels.value).astype(int).tolist()
    if len(grades) < 2 or grades[0] < 1:
        return []
    wrong = f"every judged document is relevant (grades {', '.join(map(str, grades[:5]))}, none 0)"
    return [f"{name}: {wrong}: if the lowest mean not relevant, set evaluation.relevance_level"]


def _strangers_note(raw: Raw, cut: Cut) -> list[str]:
    """A note where most relevant documents share no word with their query, of LOOKED_AT looked at in each split."""
    without = seen = 0
    for split in raw.splits.values():
        relevant = split.qrels.where((split.qrels.value > 0) & (split.qrels.document != MISSING))
        for row in np.unique(np.linspace(0, len(relevant) - 1, LOOKED_AT).astype(int)) if len(relevant) else ():
            asked = set(words(" ".join(split.contexts[int(relevant.query[row])]), cut))
            without += asked.isdisjoint(words(raw.documents[int(relevant.document[row])], cut))
            seen += 1
    if 2 * without <= seen:
        return []
    wrong = f"{without:,} of {seen:,} relevant documents share no word with their query"
    return [f"{wrong}: BM25, what reads its scores, and rankers that match words can say little"]


def _beside_files(config: DataConfig, cut: Cut, dropped: int) -> list[str]:
    """What decides the content beside the files and the keys, for the digest."""
    by_script = config.words == "auto" and cut == "script"
    return [what for what, holds in (("identical ids", dropped), ("by script", by_script)) if holds]


def _teacher_notes(name: str, split: Split) -> list[str]:
    if split.teacher is None:
        return []
    scored = int((~np.isnan(split.teacher)).sum())
    return [f"{name}: a teacher's scores for {scored:,} of {counted(len(split.teacher), 'candidate')}"]


def _source_notes(sources: Mapping[str, str], config: DataConfig) -> list[str]:
    """One note per source; with several sources, each note names its splits."""
    scored = f"BM25 (k1 {config.bm25.k1}, b {config.bm25.b})"
    described = {
        "run": f"the first {config.depth_in_words()} of the given run",
        "qrels": f"the documents given or judged for the query, first-stage scores by {scored}",
        "bm25": f"the first {config.depth_in_words()} retrieved by {scored}",
    }
    splits: dict[str, list[str]] = {}
    for split, source in sources.items():
        splits.setdefault(source, []).append(split)
    whose = {source: f" of {', '.join(names)}" if len(splits) > 1 else "" for source, names in splits.items()}
    return [f"candidates{of_splits}: {described[source]}" for source, of_splits in whose.items()]


def own_documents(raw: Raw, split: RawSplit, config: DataConfig) -> tuple[np.ndarray, int]:
    """For each query the document that is the query itself, as in ArguAna and Quora, MISSING without one, int64 [Q]. It
    has the same id and, where ids are numbers, which may be equal by chance, the query's text. One that is judged
    relevant is an answer, as in FAQs: how many these are."""
    count = len(split.query_ids)
    if raw.index is None or config.identical_ids == "keep":
        return np.full(count, MISSING, np.int64), 0
    rows = raw.index.rows(list(split.query_ids))
    for query in np.flatnonzero(rows != MISSING).tolist():
        text, document = normalised(" ".join(split.contexts[query])), normalised(raw.documents[int(rows[query])])
        if split.query_ids[query].isdigit() and text not in document:
            rows[query] = MISSING
    relevant = split.qrels.where(split.qrels.value > 0)
    answers = np.unique(relevant.query[relevant.document == rows[relevant.query]])
    answers = answers[rows[answers] != MISSING]
    rows[answers] = MISSING
    return rows, len(answers)


def _without_own(split: RawSplit, own: np.ndarray) -> tuple[RawSplit, int]:
    """The split without candidates that are their query itself, and how many there were."""
    if split.run is None or not (own != MISSING).any():
        return split, 0
    is_own = own[split.run.query] == split.run.document
    return replace(split, run=split.run.where(~is_own)), int(is_own.sum())


def _with_scores(raw: Raw, sources: Mapping[str, str], config: DataConfig, beside: int, cut: Cut) -> Raw:
    """The same data, with a scored row for each candidate in the `run` of every split. `beside`: how many more than
    `data.top_k` are retrieved."""
    config = config.model_copy(update={"top_k": config.depth() + beside})
    splits = dict(raw.splits)
    for source, scored in (("qrels", _scored_qrels), ("bm25", _retrieved)):
        if chosen := {name: split for name, split in raw.splits.items() if sources[name] == source}:
            runs = scored(replace(raw, splits=chosen), config, cut)
            splits |= {name: replace(split, run=runs[name]) for name, split in chosen.items()}
    return replace(raw, splits=splits)


def _scored_qrels(raw: Raw, config: DataConfig, cut: Cut) -> dict[str, Rated]:
    """BM25 scores of the documents given or judged. Memory holds words of the queries, not of the collection."""
    k1, b = config.bm25.k1, config.bm25.b
    asked = index_words((text for split in raw.splits.values() for text in split.query_texts), cut)
    statistics = Statistics.of(raw.documents, asked.vocabulary, asked.cut)
    runs = {}
    for name, split in raw.splits.items():
        pool = split.qrels if split.pool is None else split.pool
        pool = pool.where(pool.document != MISSING)
        queries = look_up(split.query_texts, asked.vocabulary, asked.cut)
        scores = streamed_scores(raw.documents, statistics, queries, pool.query, pool.document, k1, b)
        runs[name] = Rated(pool.query, pool.document, scores)
    return runs


def _retrieved(raw: Raw, config: DataConfig, cut: Cut) -> dict[str, Rated]:
    queries = {name: list(split.query_texts) for name, split in raw.splits.items()}
    runs = retrieve(raw.documents, queries, config.bm25.k1, config.bm25.b, config.depth(), cut)
    return {name: Rated(*columns) for name, columns in runs.items()}


def ranks(query: np.ndarray, score: np.ndarray, id_order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows sorted by query and rank, their ranks from 1): by score, ties by document id, both descending.

    Scores are compared as float32, as trec_eval does.
    """
    rows = grouped_order(query, -score.astype(np.float32), -id_order)
    starts = np.flatnonzero(np.diff(query[rows], prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(rows)))
    return rows, np.arange(len(rows)) - first + 1


def _ranked(name: str, split: RawSplit, own: np.ndarray, source: str, config: DataConfig, ids: TextColumn) -> Split:
    """All queries of a split, numbered from 0, with their candidates by rank. `own`: the document that is the query
    itself, which is not a candidate; `ids`: of the collection."""
    run, count = split.run, len(split.query_ids)
    if run is None:
        raise DataError(Problem("data.candidates", f"{name} has no run", "give one, or set qrels or bm25"))
    rows, rank = ranks(run.query, run.value, id_ranks(run.document, ids))
    if source != "qrels":
        within = rank <= config.depth(name)
        rows, rank = rows[within], rank[within]
    query, document, score = run.query[rows], run.document[rows], run.value[rows]
    if name == "train" and source != "qrels" and config.unretrieved_positives == "keep":
        relevant = split.qrels.where(split.qrels.document != own[split.qrels.query])
        query, document, rank, score = with_positives(relevant, query, document, rank, score)
    judged, at = split.qrels.where(np.argsort(split.qrels.query, kind="stable")), (query, document, len(ids))
    return Split(
        query=np.arange(count, dtype=np.int32),
        offsets=_offsets(query, count),
        document=document.astype(np.int32),
        grade=split.qrels.grades_at(*at),
        rank=rank.astype(np.int32),
        score=score,
        judged_grade=judged.value.astype(np.int16),
        judged_offsets=_offsets(judged.query, count),
        judged_document=judged.document.astype(np.int32),
        given=rows.astype(np.int32) if source == "qrels" else None,  # else their order is that of the ranks
        teacher=None if split.teacher is None else split.teacher.values_at(*at, np.nan).astype(np.float32),
    )


def _offsets(owner: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)


def _usable(name: str, split: Split) -> tuple[np.ndarray, list[str]]:
    """The rows of queries with judgments and, for training, with candidates, int64 [Q]; notes on the others and on
    judged documents outside the collection. Raises DataError if there are none."""
    judged, served = np.diff(split.judged_offsets) > 0, split.sizes > 0
    usable = judged & served if name == "train" else judged
    if not usable.any():
        wrong = f"{name} has no query with judgments and candidates"
        raise DataError(Problem("data.source", wrong, "give qrels and candidates for the same queries"))
    bare = "without candidates dropped"
    if name != "train":
        bare = "without candidates, counted 0 in every mean (trec_eval leaves out a query that is not in the run)"
    total = f"(of {len(split.judged_document if split.judged_document is not None else split.judged_grade):,})"
    missing = f"outside the collection, counted among the judged ones but no candidates {total}"
    notes = [
        *_note(name, int((~judged).sum()), "query", "without judgments dropped"),
        *_note(name, int(np.count_nonzero(split.judged_document == MISSING)), "judged document", missing),
        *_note(name, int((judged & ~served).sum()), "query", bare),
    ]
    return np.flatnonzero(usable), notes


def _note(split: str, count: int, noun: str, what: str) -> list[str]:
    return [f"{split}: {counted(count, noun)} {what}"] if count else []
