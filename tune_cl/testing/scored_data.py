"""Splits and instances with scores made for a test."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from trainables.core.cache import digest_of
from trainables.curriculum.scoring import OTHER_TEACHERS, Scored
from trainables.data.columns import NO_RANK, RankingData, Split, TextColumn
from trainables.data.instances import make_instances


def split_of(*queries: list[float]) -> Split:
    """A split whose candidates have the given first-stage scores, best first; NaN = not in the run."""
    sizes = [len(scores) for scores in queries]
    score = np.asarray([s for scores in queries for s in scores], np.float64)
    rank = np.concatenate([np.arange(1, size + 1) for size in sizes] or [np.empty(0)]).astype(np.int32)
    return Split(
        query=np.arange(len(queries), dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        document=np.arange(len(score), dtype=np.int32),
        grade=np.zeros(len(score), np.int16),
        rank=np.where(np.isnan(score), NO_RANK, rank),
        score=score,
        judged_grade=np.empty(0, np.int16),
        judged_offsets=np.zeros(len(queries) + 1, np.int64),
    )


def make_data(queries: list[list[str]], candidates: list[list[tuple[str, int]]]) -> RankingData:
    """A train split of queries (their utterances) with candidates (text, grade), without a first-stage run."""
    sizes = [len(of_query) for of_query in candidates]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    documents = [text for of_query in candidates for text, _ in of_query]
    grade = np.array([grade for of_query in candidates for _, grade in of_query], np.int16)
    split = Split(
        query=np.arange(len(queries), dtype=np.int32),
        offsets=offsets,
        document=np.arange(len(documents), dtype=np.int32),
        grade=grade,
        rank=np.concatenate([np.arange(1, size + 1) for size in sizes]).astype(np.int32),
        score=-np.arange(len(documents), dtype=np.float64),
        judged_grade=grade,
        judged_offsets=offsets,
    )
    utterances = [utterance for query in queries for utterance in query]
    return RankingData(
        name="made",
        digest=digest_of("made", *utterances, *documents, grade),
        document_ids=TextColumn.of(f"d{i}" for i in range(len(documents))),
        documents=TextColumn.of(documents),
        query_ids=TextColumn.of(f"q{i}" for i in range(len(queries))),
        utterances=TextColumn.of(utterances),
        utterance_offsets=np.concatenate([[0], np.cumsum([len(query) for query in queries])]),
        domain=np.zeros(len(queries), np.int16),
        domains=("all",),
        splits={"train": split},
    )


def score_of(row: np.ndarray) -> np.ndarray:
    """A stand-in for a teacher's logit of a document, by its row in the collection."""
    return np.sin(row * 1.7).astype(np.float32) * 3


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def difficulty_file(data: RankingData) -> str:
    """A file with a value for each query and document, as scoring `file` reads it."""
    path = Path(_folder().name, f"{len(data.query_ids)}-{len(data.documents)}.tsv")
    rows = product(enumerate(data.query_ids), enumerate(data.document_ids))
    path.write_text("".join(f"{query}\t{document}\t{math.sin(7 * i + j)}\n" for (i, query), (j, document) in rows))
    return str(path)


def scored_of(data: RankingData, pairwise: bool = True, negatives: int | str = 1, **fields) -> Scored:
    split = data.splits["train"]
    instances = make_instances(split, pairwise, negatives, 1)
    scores = score_of(split.document)
    course = [scores * factor for factor in (0.1, 0.5, 1.0)]
    usual = {"seed": 0, "file": difficulty_file(data), "teacher": lambda: scores}
    usual |= {name: lambda: np.stack(course) for name in OTHER_TEACHERS} | {"cross_fitted": lambda: scores}
    return Scored(data, split, instances, **(usual | fields))
