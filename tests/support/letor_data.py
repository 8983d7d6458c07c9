"""Synthetic feature data for rankers that grow trees: seeded, learnable, with labels 0 to 4."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainables.core.cache import digest_of
from trainables.core.randomness import generator
from trainables.data.columns import NO_RANK, ONE_DOMAIN, RankingData, Split, TextColumn

FEATURES = 8


def letor_data(
    queries: Mapping[str, int] | None = None, candidates: int = 12, seed: int = 0, width: int = FEATURES
) -> RankingData:
    """Feature data as the LETOR reader gives it: label = a noisy, cut monotone function of the features.

    queries     per split (train 40, dev 12, test 12)
    candidates  per query, at least; every third query has three more
    width       features, at least 3, which the label depends on
    """
    sizes = dict(queries or {"train": 40, "dev": 12, "test": 12})
    random = generator(seed, "letor data")
    count = sum(sizes.values())
    lengths = candidates + 3 * (np.arange(count) % 3 == 0)
    features = random.random((int(lengths.sum()), width)).astype(np.float32)
    strength = features[:, 0] + features[:, 1] * features[:, 2] + random.normal(0, 0.15, len(features))
    grade = np.searchsorted(np.quantile(strength, [0.5, 0.75, 0.9, 0.97]), strength).astype(np.int16)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    splits, first = {}, 0
    for name, size in sizes.items():
        splits[name] = _split(first, offsets[first : first + size + 1], grade)
        first += size
    empty = np.empty(0, np.uint8)
    return RankingData(
        name="letor",
        digest=digest_of("letor", features, grade, offsets),
        document_ids=TextColumn.of(f"d{row}" for row in range(len(features))),
        documents=TextColumn(empty, np.zeros(len(features) + 1, np.int64)),
        query_ids=TextColumn.of(f"q{query}" for query in range(count)),
        utterances=TextColumn(empty, np.zeros(count + 1, np.int64)),
        utterance_offsets=np.arange(count + 1, dtype=np.int64),
        domain=np.zeros(count, np.int16),
        domains=ONE_DOMAIN,
        splits=splits,
        features=features,
    )


def _split(first: int, offsets: np.ndarray, grade: np.ndarray) -> Split:
    rows = slice(int(offsets[0]), int(offsets[-1]))
    own = offsets - offsets[0]
    size = int(own[-1])
    return Split(
        query=np.arange(first, first + len(offsets) - 1, dtype=np.int32),
        offsets=own,
        document=np.arange(rows.start, rows.stop, dtype=np.int32),
        grade=grade[rows],
        rank=np.full(size, NO_RANK, np.int32),
        score=np.full(size, np.nan),
        judged_grade=grade[rows],
        judged_offsets=own,
    )


def letor_text(data: RankingData, split: str) -> str:
    """A split as the rows of a LETOR file."""
    assert data.features is not None
    rows = data.splits[split]
    queries = rows.query[rows.owner]
    return "".join(
        f"{grade} qid:{query} "
        + " ".join(f"{number}:{value!r}" for number, value in enumerate(data.features[document].tolist(), 1))
        + f" #docid = d{document}\n"
        for grade, query, document in zip(rows.grade, queries, rows.document, strict=True)
    )
