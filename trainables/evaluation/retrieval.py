"""Retrieval over a whole collection, seen as a split: the documents that are retrieved are its queries' candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainables.data.columns import UNJUDGED, RankingData, Split


def retrieved_split(split: Split, documents: np.ndarray, scores: np.ndarray, collection: int) -> Split:
    """The split with other candidates: `documents` int32 [Q K], K of each query, best first, with their scores.
    `collection`: how many documents it has."""
    depth = len(documents) // len(split)
    offsets = np.arange(len(split) + 1) * depth
    owner = np.repeat(np.arange(len(split)), depth)
    return replace(
        split,
        offsets=offsets,
        document=documents,
        grade=_grades(split, owner, documents, collection),
        rank=np.tile(np.arange(1, depth + 1, dtype=np.int32), len(split)),
        score=scores.astype(np.float64),
        given=None,
        teacher=None,
    )


def with_retrieved(data: RankingData, name: str, documents: np.ndarray, scores: np.ndarray) -> RankingData:
    """The data, its split `name` as in `retrieved_split`."""
    split = retrieved_split(data.splits[name], documents, scores, len(data.documents))
    return replace(data, splits=data.splits | {name: split})


def _grades(split: Split, owner: np.ndarray, documents: np.ndarray, collection: int) -> np.ndarray:
    """Judged grade of each (query's row, document), int16 [n], UNJUDGED if it has none."""
    query, judged, grade = _judgments(split)
    keys = query.astype(np.int64) * collection + judged
    order = np.argsort(keys)
    keys, wanted = keys[order], owner.astype(np.int64) * collection + documents
    if not len(keys):
        return np.full(len(wanted), UNJUDGED, np.int16)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, grade[order][index], UNJUDGED).astype(np.int16)


def _judgments(split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query's row, document and grade of each judgment whose document is in the collection. Where the data does not
    name them, its candidates are all that it judges."""
    if split.judged_document is None:
        judged = split.grade != UNJUDGED
        return split.owner[judged], split.document[judged], split.grade[judged]
    there = split.judged_document >= 0
    query = np.repeat(np.arange(len(split)), np.diff(split.judged_offsets))
    return query[there], split.judged_document[there], split.judged_grade[there]
