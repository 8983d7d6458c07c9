"""Parts of splits, and splits or data sets joined into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from trainables.core.cache import digest_of
from trainables.core.errors import DataError, Problem
from trainables.core.randomness import generator
from trainables.data.columns import NO_RANK, SPLITS, RankingData, Split, TextColumn, required_split

DEV_SHARE, FEWEST = 0.1, 3  # of the training queries, where the data has no dev split; training queries to part


def some_queries(split: Split, rows: np.ndarray) -> Split:
    """The queries in the given rows of a split (int [Q]), in that order, with their candidates."""
    candidates, offsets = _rows_of(split.offsets, rows)
    judged, judged_offsets = _rows_of(split.judged_offsets, rows)
    return Split(
        query=split.query[rows],
        offsets=offsets,
        document=split.document[candidates],
        grade=split.grade[candidates],
        rank=split.rank[candidates],
        score=split.score[candidates],
        judged_grade=split.judged_grade[judged],
        judged_offsets=judged_offsets,
        judged_document=None if split.judged_document is None else split.judged_document[judged],
        given=None if split.given is None else split.given[candidates],
        teacher=None if split.teacher is None else split.teacher[candidates],
    )


def with_candidates(split: Split, offsets: np.ndarray, document: np.ndarray, documents: int) -> Split:
    """The split with other candidates, which have the grades of its judgments and no first-stage ranking: `document`
    int32 [C], those of query i in rows offsets[i]:offsets[i + 1]. `documents`: of the collection."""
    owner = np.repeat(np.arange(len(split)), np.diff(offsets))
    return replace(
        split,
        offsets=offsets,
        document=document,
        grade=split.judgments.grades_at(owner, document, documents),
        rank=np.full(len(document), NO_RANK, np.int32),
        score=np.full(len(document), np.nan),
        given=None,
        teacher=None,
    )


def with_retrieved(data: RankingData, name: str, document: np.ndarray, score: np.ndarray) -> RankingData:
    """The data, in whose split `name` the candidates are documents retrieved from the whole collection: `document`
    int32 [Q K], K of each query, best first, with their scores."""
    split = data.splits[name]
    depth = len(document) // len(split)
    rank = np.tile(np.arange(1, depth + 1, dtype=np.int32), len(split))
    split = with_candidates(split, np.arange(len(split) + 1) * depth, document, len(data.documents))
    return replace(data, splits=data.splits | {name: replace(split, rank=rank, score=score.astype(np.float64))})


def drawn_queries(split: Split, count: int, purpose: str) -> Split:
    """At most `count` queries of a split, drawn at random, in its order; more of them include all of fewer."""
    if count >= len(split):
        return split
    return some_queries(split, np.sort(generator(0, purpose).permutation(len(split))[:count]))


def with_training_share(data: RankingData, share: float) -> RankingData:
    """The data with a share of its training queries, at least one, and a note; the data itself for share 1. A larger
    share has all queries of a smaller one. Dev and test stay as they are. Raises DataError without training queries."""
    if share == 1:
        return data
    split = required_split(data, "train")
    count = max(1, round(share * len(split)))
    return replace(
        data,
        digest=digest_of(data.digest, "training share", share),
        splits=data.splits | {"train": drawn_queries(split, count, "training share")},
        notes=(*data.notes, f"training subset: {count:,} of {len(split):,} training queries"),
    )


def with_splits(data: RankingData, shares: tuple[float, float, float] | None) -> RankingData:
    """The data with splits as `data.split` says, drawn with a fixed seed from all its queries; for None, as given, and
    where dev is missing a part of the training queries. A note says which. Raises DataError for shares of nothing."""
    if shares is None:
        return _with_dev(data)
    whole = one_split([data.splits[name] for name in data.splits])
    ends = np.round(np.cumsum((0, *shares)) / max(sum(shares), 1e-9) * len(whole)).astype(int)
    if ends[-1] == 0:
        raise DataError(Problem("data.split", f"no queries for the fractions {list(shares)}", "e.g. [0.8, 0.1, 0.1]"))
    order = generator(0, "data split").permutation(len(whole))
    parts = {name: np.sort(order[start:end]) for name, (start, end) in zip(SPLITS, pairwise(ends), strict=True)}
    splits = {name: some_queries(whole, rows) for name, rows in parts.items() if len(rows)}
    sizes = ", ".join(f"{name} {len(split):,}" for name, split in splits.items())
    note = f"data.split: {sizes} of {len(whole):,} queries, drawn with a fixed seed"
    return replace(data, digest=digest_of(data.digest, "split", shares), splits=splits, notes=(*data.notes, note))


def _with_dev(data: RankingData) -> RankingData:
    train = data.splits.get("train")
    if train is None or "dev" in data.splits or len(train) < FEWEST:
        return data
    count = max(1, round(DEV_SHARE * len(train)))
    is_dev = np.isin(np.arange(len(train)), generator(0, "dev split").permutation(len(train))[:count])
    parts = {name: some_queries(train, np.flatnonzero(rows)) for name, rows in (("train", ~is_dev), ("dev", is_dev))}
    note = f"dev: {count:,} of the {len(train):,} training queries, drawn with a fixed seed (the data has no dev split)"
    return replace(
        data,
        digest=digest_of(data.digest, "dev split", DEV_SHARE),
        splits={**parts, **{name: split for name, split in data.splits.items() if name not in parts}},
        notes=(*data.notes, note),
    )


def _rows_of(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The flat rows of a ragged array that belong to the given rows, and their new offsets."""
    sizes = np.diff(offsets)[rows]
    new = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.repeat(offsets[rows] - new[:-1], sizes) + np.arange(new[-1]), new


def joined(first: RankingData, second: RankingData) -> RankingData:
    """The texts of two data sets and both training splits; rows of `first` keep their numbers, the others follow.

    Ids may occur twice, so the result serves for vocabularies and vectors that cover both, not for training.
    """
    queries, documents = len(first.query_ids), len(first.documents)
    train = first.splits["train"], _shifted(second.splits["train"], queries, documents)
    return replace(
        first,
        name=f"{first.name} with {second.name}",
        digest=digest_of("joined", first.digest, second.digest, second.splits["train"].query),
        document_ids=_one_column(first.document_ids, second.document_ids),
        documents=_one_column(first.documents, second.documents),
        query_ids=_one_column(first.query_ids, second.query_ids),
        utterances=_one_column(first.utterances, second.utterances),
        utterance_offsets=_one_after_the_other(first.utterance_offsets, second.utterance_offsets),
        domain=np.concatenate([first.domain, second.domain + len(first.domains)]).astype(np.int16),
        domains=first.domains + second.domains,
        splits={"train": one_split(train)},
        notes=first.notes + second.notes,
        group=None,
        own=None,
    )


def _one_column(first: TextColumn, second: TextColumn) -> TextColumn:
    return TextColumn(np.concatenate([first.data, second.data]), _one_after_the_other(first.offsets, second.offsets))


def _one_after_the_other(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Offsets of two ragged columns laid end to end."""
    return np.concatenate([first, first[-1] + second[1:]])


def _shifted(split: Split, queries: int, documents: int) -> Split:
    """The split with its query and document rows shifted up by the given numbers."""
    judged = split.judged_document
    return replace(
        split,
        query=(split.query + queries).astype(np.int32),
        document=(split.document + documents).astype(np.int32),
        judged_document=None if judged is None else np.where(judged < 0, judged, judged + documents).astype(np.int32),
    )


def one_split(splits: Sequence[Split]) -> Split:
    """The queries of several splits, one split after the other."""
    if any(split.teacher is not None for split in splits):
        none = [np.full(len(split.document), np.nan, np.float32) for split in splits]
        splits = [split if split.teacher is not None else replace(split, teacher=scores)
                  for split, scores in zip(splits, none, strict=True)]  # fmt: skip
    ragged: dict[str, Any] = {
        name: np.concatenate([[0], np.cumsum(np.concatenate([np.diff(getattr(split, name)) for split in splits]))])
        for name in ("offsets", "judged_offsets")
    }
    flat = {
        field.name: np.concatenate([getattr(split, field.name) for split in splits])
        for field in fields(Split)
        if field.name not in ragged and all(getattr(split, field.name) is not None for split in splits)
    }
    return Split(**flat, **ragged)
