"""What a data set is made of, and what its splits share: texts that are in two splits make a test too easy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from trainables.data.columns import RankingData, Split


@dataclass(frozen=True)
class GroupSizes:
    """How many candidates a query has."""

    min: int
    median: float
    mean: float
    max: int


@dataclass(frozen=True)
class RankingSplit:
    """What a split to rank holds.

    judged_share              of its candidates
    positives_per_query       judged, candidates or not
    queries_without_positive  those with no judged relevant document
    positives_not_candidates  relevant documents that no ranking can contain
    """

    queries: int
    candidates: int
    group_sizes: GroupSizes
    judged_share: float
    positives_per_query: float
    queries_without_positive: int
    positives_not_candidates: int


@dataclass(frozen=True)
class ClassSplit:
    """What a split to classify holds. classes: pairs of each."""

    queries: int
    candidates: int
    classes: Mapping[str, int]


@dataclass(frozen=True)
class SharedParts:
    """What two splits have in common: query texts, candidate documents (by id) and their texts. Texts are equal if they
    differ only in case and white space; of documents without texts, only ids are compared."""

    splits: tuple[str, str]
    queries: int
    documents: int
    document_texts: int


def described(data: RankingData, relevance_level: int = 1) -> dict[str, RankingSplit | ClassSplit]:
    """What each split holds."""
    return {name: _describe(data, split, relevance_level) for name, split in data.splits.items()}


def _describe(data: RankingData, split: Split, relevance_level: int) -> RankingSplit | ClassSplit:
    sizes = split.sizes
    if data.task == "classification":
        counts = np.bincount(split.grade, minlength=len(data.classes)).tolist()
        return ClassSplit(len(split), len(split.document), dict(zip(data.classes, counts, strict=True)))
    owner = np.repeat(np.arange(len(split)), np.diff(split.judged_offsets))
    positives = np.bincount(owner[split.judged_grade >= relevance_level], minlength=len(split))
    candidates = int((split.grade >= relevance_level).sum())
    return RankingSplit(
        queries=len(split),
        candidates=len(split.document),
        group_sizes=GroupSizes(int(sizes.min()), float(np.median(sizes)), float(sizes.mean()), int(sizes.max())),
        judged_share=float((split.grade >= 0).mean()) if len(split.grade) else 0.0,
        positives_per_query=float(positives.mean()),
        queries_without_positive=int((positives == 0).sum()),
        positives_not_candidates=int(positives.sum()) - candidates,
    )


def shared_parts(data: RankingData) -> list[SharedParts]:
    """What each two splits share."""
    has_texts = data.features is None
    queries, documents, texts = {}, {}, {}
    for name, split in data.splits.items():
        documents[name] = np.unique(split.document)
        queries[name] = query_keys(data, split)
        texts[name] = _keys(data.documents[row] for row in documents[name] if has_texts)
    return [
        SharedParts((one, two), *(len(np.intersect1d(part[one], part[two])) for part in (queries, documents, texts)))
        for one, two in combinations(data.splits, 2)
    ]


def query_keys(data: RankingData, split: Split) -> np.ndarray:
    """What equal queries have in common, sorted: their texts, or their ids where there are only features."""
    has_texts = data.features is None
    return _keys(data.query_text(row) if has_texts else data.query_ids[row] for row in split.query)


def _keys(texts: Iterable[str]) -> np.ndarray:
    """Distinct hashes, sorted, of texts without regard to case and extra white space; int64."""
    return np.unique(np.fromiter((hash(" ".join(text.casefold().split())) for text in texts), np.int64))
