"""What a data set is made of, and what its splits share: texts that are in two splits make a test too easy."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np

from trainables.data.columns import RankingData, Split


def hygiene(data: RankingData, relevance_level: int = 1) -> dict[str, Any]:
    """`{"splits": {name: ...}, "shared": [{splits, queries, documents, document_texts}, ...]}`.

    Per split: queries, candidates, group_sizes {min, median, mean, max}, judged_share of the candidates,
    positives_per_query (judged, candidates or not), queries_without_positive and positives_not_candidates; for
    classification, classes {name: pairs} instead of all but the first two.
    Shared by two splits: query texts, candidate documents (by id) and their texts. Texts are equal if they differ only
    in case and white space; if documents have no text, only ids are compared.
    """
    return {
        "splits": {name: _describe(data, split, relevance_level) for name, split in data.splits.items()},
        "shared": _shared(data),
    }


def _describe(data: RankingData, split: Split, relevance_level: int) -> dict[str, Any]:
    sizes = split.sizes
    described: dict[str, Any] = {"queries": len(split), "candidates": len(split.document)}
    if data.task == "classification":
        counts = np.bincount(split.grade, minlength=len(data.classes))
        return described | {"classes": dict(zip(data.classes, counts.tolist(), strict=True))}
    owner = np.repeat(np.arange(len(split)), np.diff(split.judged_offsets))
    positives = np.bincount(owner[split.judged_grade >= relevance_level], minlength=len(split))
    candidates = int((split.grade >= relevance_level).sum())
    return described | {
        "group_sizes": {
            "min": int(sizes.min()),
            "median": float(np.median(sizes)),
            "mean": float(sizes.mean()),
            "max": int(sizes.max()),
        },
        "judged_share": float((split.grade >= 0).mean()) if len(split.grade) else 0.0,
        "positives_per_query": float(positives.mean()),
        "queries_without_positive": int((positives == 0).sum()),
        "positives_not_candidates": int(positives.sum()) - candidates,
    }


def _shared(data: RankingData) -> list[dict[str, Any]]:
    has_texts = data.features is None
    queries, documents, texts = {}, {}, {}
    for name, split in data.splits.items():
        documents[name] = np.unique(split.document)
        queries[name] = query_keys(data, split)
        texts[name] = _keys(data.documents[row] for row in documents[name] if has_texts)
    return [
        {
            "splits": [one, two],
            "queries": _common(queries[one], queries[two]),
            "documents": _common(documents[one], documents[two]),
            "document_texts": _common(texts[one], texts[two]),
        }
        for one, two in combinations(data.splits, 2)
    ]


def query_keys(data: RankingData, split: Split) -> np.ndarray:
    """What equal queries have in common, sorted: their texts, or their ids where there are only features."""
    has_texts = data.features is None
    return _keys(data.query_text(row) if has_texts else data.query_ids[row] for row in split.query)


def _keys(texts: Iterable[str]) -> np.ndarray:
    """Distinct 64-bit hashes, sorted, of texts without regard to case and extra white space."""
    keys = (blake2b(" ".join(text.casefold().split()).encode(), digest_size=8).digest() for text in texts)
    return np.unique(np.frombuffer(b"".join(keys), np.uint64))


def _common(one: np.ndarray, two: np.ndarray) -> int:
    return len(np.intersect1d(one, two, assume_unique=True))
