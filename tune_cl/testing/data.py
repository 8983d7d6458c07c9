"""Synthetic data: small, seeded, and learnable; and splits with given first-stage scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trainables.core.cache import digest_of
from trainables.core.randomness import generator
from trainables.curriculum.scoring import OTHER_TEACHERS, Scored
from trainables.data.columns import NO_RANK, ONE_DOMAIN, RankingData, Split, TextColumn
from trainables.data.instances import make_instances

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
    splits, first = {}, 0
    for name, size in sizes.items():
        grade = np.concatenate([grades for _, _, grades in made[first : first + size]])
        score = (10 + 2 * (grade == 1) + random.normal(0, 1.5, len(grade))).reshape(size, candidates)
        rank = 1 + np.argsort(np.argsort(-score, axis=1), axis=1)
        split = _split([candidates] * size, score.ravel(), rank.ravel(), grade)
        splits[name] = replace(
            split,
            query=split.query + np.int32(first),
            document=split.document + np.int32(first * candidates),
            judged_grade=split.grade[grade >= 0],
            judged_offsets=np.cumsum([0, *(grade >= 0).reshape(size, candidates).sum(1)]),
        )
        first += size
    queries_of = [utterances for utterances, _, _ in made]
    documents = [text for _, texts, _ in made for text in texts]
    content = [text for utterances in queries_of for text in utterances] + documents
    digest = digest_of("tiny", *content, *(split.grade for split in splits.values()), seed)
    domain = (np.arange(len(made)) % domains).astype(np.int16)
    names = tuple(f"domain{i}" for i in range(domains))
    return replace(_data("tiny", digest, queries_of, documents, splits), domain=domain, domains=names)


def _query(random: np.random.Generator, turns: int, candidates: int) -> tuple[list[str], list[str], list[int]]:
    """Utterances, candidate documents and their grades."""
    words = random.permutation(WORDS)
    query, others = words[: turns * QUERY_WORDS], words[turns * QUERY_WORDS :]
    grades = [1] * min(candidates - 1, int(random.integers(1, 3)))
    grades += [-1 if i % 5 == 4 else 0 for i in range(candidates - len(grades))]
    grades = [grades[i] for i in random.permutation(candidates)]
    documents = []
    for grade in grades:
        document = random.choice(others, int(random.integers(*DOCUMENT_WORDS)))
        if grade == 1:
            document[:3] = random.choice(query, 3)
        documents.append(_text(document))
    return [_text(query[i : i + QUERY_WORDS]) for i in range(0, len(query), QUERY_WORDS)], documents, grades


def _text(words: np.ndarray) -> str:
    return " ".join(f"w{word}" for word in words)


def split_of(*queries: list[float]) -> Split:
    """A split whose candidates have the given first-stage scores, best first; NaN = not in the run."""
    sizes = [len(scores) for scores in queries]
    score = np.array([one for scores in queries for one in scores])
    rank = np.concatenate([np.empty(0), *(np.arange(1, size + 1) for size in sizes)])
    return _split(sizes, score, np.where(np.isnan(score), NO_RANK, rank), np.zeros(len(score)))


def make_data(queries: list[list[str]], candidates: list[list[tuple[str, int]]]) -> RankingData:
    """A train split of queries (their utterances) with candidates (text, grade), without a first-stage run."""
    sizes = [len(of_query) for of_query in candidates]
    documents = [text for of_query in candidates for text, _ in of_query]
    grade = np.array([grade for of_query in candidates for _, grade in of_query], np.int16)
    rank = np.concatenate([np.arange(1, size + 1) for size in sizes])
    split = _split(sizes, -np.arange(len(documents)), rank, grade)
    split = replace(split, judged_grade=grade, judged_offsets=split.offsets)
    content = [text for utterances in queries for text in utterances] + documents
    return _data("made", digest_of("made", *content, grade), queries, documents, {"train": split})


def _split(sizes: list[int], score: np.ndarray, rank: np.ndarray, grade: np.ndarray) -> Split:
    """Queries with so many candidates each, numbered from 0 on; nothing is judged."""
    return Split(
        query=np.arange(len(sizes), dtype=np.int32),
        offsets=np.cumsum([0, *sizes]),
        document=np.arange(len(score), dtype=np.int32),
        grade=grade.astype(np.int16),
        rank=rank.astype(np.int32),
        score=score.astype(np.float64),
        judged_grade=np.empty(0, np.int16),
        judged_offsets=np.zeros(len(sizes) + 1, np.int64),
    )


def _data(
    name: str, digest: str, queries: list[list[str]], documents: list[str], splits: dict[str, Split]
) -> RankingData:
    return RankingData(
        name=name,
        digest=digest,
        document_ids=TextColumn.of(f"d{i}" for i in range(len(documents))),
        documents=TextColumn.of(documents),
        query_ids=TextColumn.of(f"q{i}" for i in range(len(queries))),
        utterances=TextColumn.of(text for utterances in queries for text in utterances),
        utterance_offsets=np.cumsum([0, *map(len, queries)]),
        domain=np.zeros(len(queries), np.int16),
        domains=ONE_DOMAIN,
        splits=splits,
    )


def scored_of(data: RankingData, pairwise: bool = True, negatives: int | str = 1, **fields) -> Scored:
    """What a scoring reads: the training instances, with stand-ins for teachers."""
    split = data.splits["train"]
    instances = make_instances(split, pairwise, negatives, 1)
    scores = score_of(split.document)
    course = [scores * factor for factor in (0.1, 0.5, 1.0)]
    usual = {"seed": 0, "teacher": lambda: scores}
    usual |= {name: lambda: np.stack(course) for name in OTHER_TEACHERS} | {"cross_fitted": lambda: scores}
    return Scored(data, split, instances, **(usual | fields))


def score_of(row: np.ndarray) -> np.ndarray:
    """A stand-in for a teacher's logit of a document, by its row in the collection."""
    return np.sin(row * 1.7).astype(np.float32) * 3
