"""Synthetic data: small, seeded, and learnable."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from trainables.core.cache import digest_of
from trainables.core.randomness import generator
from trainables.data.columns import RankingData, Split, TextColumn

WORDS = 200  # of the made-up language: w0, w1, ...
QUERY_WORDS = 3  # per turn
DOCUMENT_WORDS = (5, 13)  # shortest, longest + 1


def tiny_data(
    queries: int | Mapping[str, int] = 8, candidates: int = 4, seed: int = 0, turns: int = 3, domains: int = 2
) -> RankingData:
    """Ranking data with the splits train, dev and test.

    queries     in each split, or by split's name
    candidates  of each query: one or two relevant ones (grade 1), which repeat words of the query; the rest
                share none (grade 0, every fifth of them unjudged: -1)
    turns       most utterances of a query; query i has 1 + i % turns
    Candidates are in no order; first-stage scores are noise around the grade, so the run is imperfect.
    """
    sizes = dict.fromkeys(("train", "dev", "test"), queries) if isinstance(queries, int) else dict(queries)
    random = generator(seed, "tiny data")
    made = [_query(random, 1 + i % turns, candidates) for i in range(sum(sizes.values()))]
    utterances = [utterance for query, _, _ in made for utterance in query]
    documents = [document for _, texts, _ in made for document in texts]
    splits, first = {}, 0
    for name, size in sizes.items():
        splits[name] = _split(random, first, [grades for _, _, grades in made[first : first + size]])
        first += size
    return RankingData(
        name="tiny",
        digest=digest_of("tiny", *utterances, *documents, *(split.grade for split in splits.values()), seed),
        document_ids=TextColumn.of(f"d{i}" for i in range(len(documents))),
        documents=TextColumn.of(documents),
        query_ids=TextColumn.of(f"q{i}" for i in range(len(made))),
        utterances=TextColumn.of(utterances),
        utterance_offsets=np.concatenate([[0], np.cumsum([len(query) for query, _, _ in made])]).astype(np.int64),
        domain=(np.arange(len(made)) % domains).astype(np.int16),
        domains=tuple(f"domain{i}" for i in range(domains)),
        splits=splits,
    )


def _query(random: np.random.Generator, turns: int, candidates: int) -> tuple[list[str], list[str], list[int]]:
    """Utterances, candidate documents and their grades."""
    words = random.permutation(WORDS)
    asked, others = words[: turns * QUERY_WORDS], words[turns * QUERY_WORDS :]
    grades = [1] * min(candidates - 1, int(random.integers(1, 3)))
    grades += [-1 if i % 5 == 4 else 0 for i in range(candidates - len(grades))]
    grades = [grades[i] for i in random.permutation(candidates)]
    documents = []
    for grade in grades:
        document = random.choice(others, int(random.integers(*DOCUMENT_WORDS)))
        if grade == 1:
            document[:3] = random.choice(asked, 3)
        documents.append(_text(document))
    return [_text(asked[i : i + QUERY_WORDS]) for i in range(0, len(asked), QUERY_WORDS)], documents, grades


def _text(words: np.ndarray) -> str:
    return " ".join(f"w{word}" for word in words)


def _split(random: np.random.Generator, first: int, grades: list[list[int]]) -> Split:
    """Candidates of consecutive queries; each candidate document belongs to one query only."""
    sizes = np.array([len(of_query) for of_query in grades])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    grade = np.concatenate(grades).astype(np.int16)
    score = 10 + 2 * (grade == 1) + random.normal(0, 1.5, len(grade))
    rank = [1 + np.argsort(np.argsort(-score[start:end])) for start, end in pairwise(offsets)]
    judged = [[value for value in of_query if value >= 0] for of_query in grades]
    return Split(
        query=np.arange(first, first + len(grades), dtype=np.int32),
        offsets=offsets.astype(np.int64),
        document=(first * sizes[0] + np.arange(len(grade))).astype(np.int32),
        grade=grade,
        rank=np.concatenate(rank).astype(np.int32),
        score=score.astype(np.float64),
        judged_grade=np.concatenate(judged).astype(np.int16),
        judged_offsets=np.concatenate([[0], np.cumsum([len(values) for values in judged])]).astype(np.int64),
    )
