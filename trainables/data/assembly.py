"""Candidates of queries, chosen and ranked; queries that cannot be used are dropped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.bm25 import Statistics, streamed_scores
from trainables.data.candidates import retrieve, with_positives
from trainables.data.columns import ONE_DOMAIN, RankingData, Rated, Split, TextColumn, ranks
from trainables.data.combine import some_queries
from trainables.data.settings import DataConfig
from trainables.data.tables import Reading
from trainables.data.words import Cut, cut_of, index_words, look_up, normalised

MISSING = -1  # row of a document outside the collection
NEARLY_ALL = 0.9  # of the queries: so many have a judged non-relevant document where candidates come from the qrels
RELATED = re.compile(r"(Q\d+)_R\d+")  # SemEval's CQA: a question's number, and that of a thread found for it


@dataclass(frozen=True)
class SplitRows:
    """One split: its queries, and its judgments and candidates by row.

    run       candidates with first-stage scores
    pool      candidates that the data gives without scores; the judgments may name other documents
    teacher   a teacher's scores, of candidates and other documents
    rejected  rows of queries with a given negative that was left out
    """

    queries: pd.DataFrame
    qrels: Rated
    run: Rated | None = None
    pool: Rated | None = None
    teacher: Rated | None = None
    rejected: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def texts(self) -> list[str]:
        return self.queries["text"].tolist()


Splits = Mapping[str, SplitRows]


def assembled(name: str, ids: TextColumn, texts: TextColumn, splits: Splits, reading: Reading) -> RankingData:
    """RankingData without a digest of the files. `ids`, `texts`: of the collection. Raises DataError if a split cannot
    be used, WorkFailed if retrieval fails."""
    config, notes = reading.config, reading.notes
    query_texts = [text for rows in splits.values() for text in rows.texts]
    cut: Cut = cut_of(query_texts) if config.words == "auto" else config.words
    own = {split: own_documents(split, rows, texts, reading) for split, rows in splits.items()}
    has_own = any((rows != MISSING).any() for rows in own.values())
    sources = candidate_sources(splits, config)
    runs = _runs(texts, splits, sources, config, config.depth() + has_own, cut)
    notes += _source_notes(sources, config)
    whole, queries, own_rows, start = {}, list[pd.DataFrame](), list[np.ndarray](), 0
    for split, rows in splits.items():
        if "row" not in rows.queries:  # of other forms qrels may hold relevant ones alone
            notes += _ungraded_note(split, rows.qrels)
        is_own = own[split][runs[split].query] == runs[split].document
        why = "with an own document, which is not a candidate (data.identical_ids)"
        notes += _note(split, int(is_own.sum()), "query", why)
        every = _ranked(split, rows, runs[split].where(~is_own), sources[split], config, ids)
        usable, left_out = _usable(split, every)
        numbers = np.arange(start, start + len(usable), dtype=np.int32)
        whole[split] = replace(some_queries(every, usable), query=numbers)
        start += len(usable)
        notes += [*left_out, *_teacher_notes(split, whole[split])]
        queries.append(rows.queries.iloc[usable])
        own_rows.append(own[split][usable])
    data = data_of(name, ids, texts, queries, whole, reading)
    return replace(
        data,
        retrieved=set(sources.values()) == {"bm25"},
        words=cut,
        group=_original_questions(list(data.query_ids)),
        own=np.concatenate(own_rows).astype(np.int32) if has_own else None,
    )


def data_of(
    name: str,
    ids: TextColumn,
    texts: TextColumn,
    queries: Sequence[pd.DataFrame],
    splits: dict[str, Split],
    reading: Reading,
) -> RankingData:
    """RankingData without a digest. `queries`: of each split, with a text and, perhaps, utterances."""
    every = pd.concat(queries)
    contexts = every["utterances"].tolist() if "utterances" in every else [[text] for text in every["text"].tolist()]
    return RankingData(
        name=name,
        digest="",
        document_ids=ids,
        documents=texts,
        query_ids=TextColumn.of(every["qid"].tolist()),
        utterances=TextColumn.of(chain.from_iterable(contexts)),
        utterance_offsets=np.cumsum([0, *map(len, contexts)], dtype=np.int64),
        domain=np.zeros(len(every), np.int16),
        domains=ONE_DOMAIN,
        splits=splits,
        notes=tuple(reading.notes),
    )


def _original_questions(query_ids: Sequence[str]) -> np.ndarray | None:
    """Which queries are threads that were found for the same question (SemEval's community question answering, whose
    ids say so), int32 [queries]; None for other data."""
    matches = [RELATED.fullmatch(name) for name in query_ids]
    names = [one[1] if one else name for one, name in zip(matches, query_ids, strict=True)]
    return np.unique(names, return_inverse=True)[1].astype(np.int32) if any(matches) else None


# -- where candidates come from ----------------------------------------------------------------------------------------


def candidate_sources(splits: Splits, config: DataConfig) -> dict[str, str]:
    """Where each split's candidates come from: run, qrels or bm25. Resolves `auto`: splits without a run or a pool
    share one source, which their judgments decide together. Raises DataError for a run that is not there."""
    if config.candidates != "auto":
        bare = [name for name, split in splits.items() if config.candidates == "run" and split.run is None]
        if bare:
            raise DataError(
                Problem("data.candidates", f"{bare[0]} has no run", "give run.SPLIT.txt, or set qrels or bm25")
            )
        return dict.fromkeys(splits, config.candidates)
    judged = rejected = 0
    for split in splits.values():
        if split.run is None and split.pool is None:
            judged += len(np.unique(split.qrels.query))
            rejected += len(np.unique([*split.qrels.query[split.qrels.value <= 0], *split.rejected]))
    bare = "qrels" if judged and rejected >= NEARLY_ALL * judged else "bm25"
    return {
        name: "run" if split.run is not None else bare if split.pool is None else "qrels"
        for name, split in splits.items()
    }


def own_documents(name: str, split: SplitRows, texts: TextColumn, reading: Reading) -> np.ndarray:
    """For each query the document that is the query itself, as in ArguAna and Quora, MISSING without one, int64 [Q]. It
    has the same id (in the `row` of queries, where ids are the data's own) and, where ids are numbers, which may be
    equal by chance, the query's text. One that is judged relevant is an answer, as in FAQs, and so none of these."""
    if "row" not in split.queries or reading.config.identical_ids == "keep":
        return np.full(len(split), MISSING, np.int64)
    rows = split.queries["row"].to_numpy(np.int64).copy()
    for query in np.flatnonzero(rows != MISSING).tolist():
        qid, text = split.queries["qid"].iloc[query], split.queries["text"].iloc[query]
        if qid.isdigit() and normalised(text) not in normalised(texts[int(rows[query])]):
            rows[query] = MISSING
    qrels = split.qrels
    is_answer = (qrels.value > 0) & (qrels.document != MISSING) & (qrels.document == rows[qrels.query])
    answers = np.unique(qrels.query[is_answer])
    rows[answers] = MISSING
    why = "whose own document is judged relevant, and so stays a candidate"
    reading.notes += _note(name, len(answers), "query", why)
    return rows


def _runs(
    texts: TextColumn, splits: Splits, sources: Mapping[str, str], config: DataConfig, depth: int, cut: Cut
) -> dict[str, Rated]:
    """The candidates of each split, with scores. `depth`: how many are retrieved."""
    runs = {name: split.run for name, split in splits.items() if sources[name] == "run" and split.run is not None}
    if judged := {name: split for name, split in splits.items() if sources[name] == "qrels"}:
        runs |= _scored_qrels(texts, judged, config, cut)
    if bare := {name: split.texts for name, split in splits.items() if sources[name] == "bm25"}:
        runs |= retrieve(texts, bare, config.bm25.k1, config.bm25.b, depth, cut)
    return runs


def _scored_qrels(texts: TextColumn, splits: Splits, config: DataConfig, cut: Cut) -> dict[str, Rated]:
    """BM25 scores of the documents given or judged. Memory holds words of the queries, not of the collection."""
    k1, b = config.bm25.k1, config.bm25.b
    query_words = index_words((text for split in splits.values() for text in split.texts), cut)
    statistics = Statistics.of(texts, query_words.vocabulary, query_words.cut)
    runs = {}
    for name, split in splits.items():
        pool = split.qrels if split.pool is None else split.pool
        pool = pool.where(pool.document != MISSING)
        queries = look_up(split.texts, query_words.vocabulary, query_words.cut)
        scores = streamed_scores(texts, statistics, queries, pool.query, pool.document, k1, b)
        runs[name] = Rated(pool.query, pool.document, scores)
    return runs


# -- ranks -------------------------------------------------------------------------------------------------------------


def _ranked(name: str, split: SplitRows, run: Rated, source: str, config: DataConfig, ids: TextColumn) -> Split:
    """All queries of a split, numbered from 0, with their candidates by rank. `ids`: of the collection."""
    rows, rank = ranks(run.query, run.value, run.document, ids)
    if source != "qrels":
        within = rank <= config.depth(name)
        rows, rank = rows[within], rank[within]
    query, document, score = run.query[rows], run.document[rows], run.value[rows]
    if name == "train" and source != "qrels" and config.unretrieved_positives == "keep":
        query, document, rank, score = with_positives(split.qrels, query, document, rank, score)
    judged, at = split.qrels.where(np.argsort(split.qrels.query, kind="stable")), (query, document, len(ids))
    return Split(
        query=np.arange(len(split), dtype=np.int32),
        offsets=_offsets(query, len(split)),
        document=document.astype(np.int32),
        grade=split.qrels.grades_at(*at),
        rank=rank.astype(np.int32),
        score=score,
        judged_grade=judged.value.astype(np.int16),
        judged_offsets=_offsets(judged.query, len(split)),
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
    absent = int(np.count_nonzero(split.judgments.document == MISSING))
    missing = (
        f"outside the collection, counted among the judged ones but no candidates (of {len(split.judged_grade):,})"
    )
    notes = [
        *_note(name, int((~judged).sum()), "query", "without judgments dropped"),
        *_note(name, absent, "judged document", missing),
        *_note(name, int((judged & ~served).sum()), "query", bare),
    ]
    return np.flatnonzero(usable), notes


# -- notes -------------------------------------------------------------------------------------------------------------


def _note(split: str, count: int, noun: str, what: str) -> list[str]:
    return [f"{split}: {counted(count, noun)} {what}"] if count else []


def _ungraded_note(name: str, qrels: Rated) -> list[str]:
    """A note where all judged documents are relevant, and some more than others."""
    grades = np.unique(qrels.value).astype(int).tolist()
    if len(grades) < 2 or grades[0] < 1:
        return []
    wrong = f"every judged document is relevant (grades {', '.join(map(str, grades[:5]))}, none 0)"
    return [f"{name}: {wrong}: if the lowest mean not relevant, set evaluation.relevance_level"]


def _teacher_notes(name: str, split: Split) -> list[str]:
    if split.teacher is None:
        return []
    scored = int((~np.isnan(split.teacher)).sum())
    return [f"{name}: a teacher's scores for {scored:,} of {counted(len(split.teacher), 'candidate')}"]


def _source_notes(sources: Mapping[str, str], config: DataConfig) -> list[str]:
    """One note per source, which names its splits."""
    scored = f"BM25 (k1 {config.bm25.k1}, b {config.bm25.b})"
    described = {
        "run": f"the first {config.depth_in_words()} of the given run",
        "qrels": f"the documents given or judged for the query, first-stage scores by {scored}",
        "bm25": f"the first {config.depth_in_words()} retrieved by {scored}",
    }
    notes = []
    for source in dict.fromkeys(sources.values()):
        splits = ", ".join(split for split, each in sources.items() if each == source)
        notes.append(f"candidates of {splits}: {described[source]}")
    return notes
