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
OF_CANDIDATES = ("document", "grade", "rank", "score", "given", "teacher")
OF_JUDGMENTS = ("judged_grade", "judged_document")


def some_queries(split: Split, rows: np.ndarray) -> Split:
    """The queries in the given rows of a split (int [Q]), in that order, with their candidates."""
    candidates, offsets = _rows_of(split.offsets, rows)
    judged, judged_offsets = _rows_of(split.judged_offsets, rows)
    columns = _taken(split, OF_CANDIDATES, candidates) | _taken(split, OF_JUDGMENTS, judged)
    return replace(split, query=split.query[rows], offsets=offsets, judged_offsets=judged_offsets, **columns)


def _taken(split: Split, names: Sequence[str], rows: np.ndarray) -> dict[str, Any]:
    """These rows of the split's columns that it has."""
    columns = {name: getattr(split, name) for name in names}
    return {name: column[rows] for name, column in columns.items() if column is not None}


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
    train = drawn_queries(split, count, "training share")
    note = f"training subset: {count:,} of {len(split):,} training queries"
    return _parted(data, {**data.splits, "train": train}, note, "training share", share)


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
    return _parted(data, splits, note, "split", shares)


def _with_dev(data: RankingData) -> RankingData:
    train = data.splits.get("train")
    if train is None or "dev" in data.splits or len(train) < FEWEST:
        return data
    count = max(1, round(DEV_SHARE * len(train)))
    is_dev = np.isin(np.arange(len(train)), generator(0, "dev split").permutation(len(train))[:count])
    parts = {name: some_queries(train, np.flatnonzero(rows)) for name, rows in (("train", ~is_dev), ("dev", is_dev))}
    note = f"dev: {count:,} of the {len(train):,} training queries, drawn with a fixed seed (the data has no dev split)"
    others = {name: split for name, split in data.splits.items() if name not in parts}
    return _parted(data, parts | others, note, "dev split", DEV_SHARE)


def _parted(data: RankingData, splits: dict[str, Split], note: str, *key: object) -> RankingData:
    """The data with other splits, which `key` identifies."""
    return replace(data, digest=digest_of(data.digest, *key), splits=splits, notes=(*data.notes, note))


def _rows_of(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The flat rows of a ragged array that belong to the given rows, and their new offsets."""
    sizes = np.diff(offsets)[rows]
    new = _offsets(sizes)
    return np.repeat(offsets[rows] - new[:-1], sizes) + np.arange(new[-1]), new


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def joined(first: RankingData, second: RankingData) -> RankingData:
    """The texts of two data sets and both training splits; rows of `first` keep their numbers, the others follow.

    Ids may occur twice, so the result serves for vocabularies and vectors that cover both, not for training.
    """
    train = second.splits["train"]
    judged, documents = train.judged_document, len(first.documents)
    moved = replace(
        train,
        query=(train.query + len(first.query_ids)).astype(np.int32),
        document=(train.document + documents).astype(np.int32),
        judged_document=None if judged is None else np.where(judged < 0, judged, judged + documents).astype(np.int32),
    )
    texts = ("document_ids", "documents", "query_ids", "utterances")
    columns = {name: _one_column(getattr(first, name), getattr(second, name)) for name in texts}
    return replace(
        first,
        name=f"{first.name} with {second.name}",
        digest=digest_of("joined", first.digest, second.digest, train.query),
        **columns,
        utterance_offsets=_one_after_the_other(first.utterance_offsets, second.utterance_offsets),
        domain=np.concatenate([first.domain, second.domain + len(first.domains)]).astype(np.int16),
        domains=first.domains + second.domains,
        splits={"train": one_split((first.splits["train"], moved))},
        notes=first.notes + second.notes,
        group=None,
        own=None,
    )


def _one_column(first: TextColumn, second: TextColumn) -> TextColumn:
    return TextColumn(np.concatenate([first.data, second.data]), _one_after_the_other(first.offsets, second.offsets))


def _one_after_the_other(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Offsets of two ragged columns laid end to end."""
    return np.concatenate([first, first[-1] + second[1:]])


def one_split(splits: Sequence[Split]) -> Split:
    """The queries of several splits, one split after the other."""
    if any(split.teacher is not None for split in splits):
        none = [np.full(len(split.document), np.nan, np.float32) for split in splits]
        splits = [split if split.teacher is not None else replace(split, teacher=scores)
                  for split, scores in zip(splits, none, strict=True)]  # fmt: skip
    ragged: dict[str, Any] = {
        name: _offsets(np.concatenate([np.diff(getattr(split, name)) for split in splits]))
        for name in ("offsets", "judged_offsets")
    }
    flat = {
        field.name: np.concatenate([getattr(split, field.name) for split in splits])
        for field in fields(Split)
        if field.name not in ragged and all(getattr(split, field.name) is not None for split in splits)
    }
    return Split(**flat, **ragged)
