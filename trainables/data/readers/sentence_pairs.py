"""Sentence pairs to classify, as RankingData: sentence A = query, sentence B = its one candidate, class = grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import NO_RANK, ONE_DOMAIN, RankingData, Split, TextColumn
from trainables.data.readers.rows import usable_id
from trainables.data.settings import DataConfig

NLI = ("contradiction", "entailment", "neutral")
DUPLICATE = ("different", "duplicate")


@dataclass(frozen=True)
class Pair:
    """One pair; `label` indexes the classes."""

    name: str
    first: str
    second: str
    label: int


def wrong_pair(name: str, first: str, second: str) -> tuple[str, str] | None:
    """(what is wrong, what would be right) for a pair's id and sentences; None if they are fine."""
    if not usable_id(name):
        return f"id '{name[:40]}' is empty or holds white space", "use an id without"
    if not first.strip() or not second.strip():
        return "an empty sentence", "give a text or leave the row out"
    return None


def require_auto(config: DataConfig) -> None:
    if config.candidates != "auto":
        raise DataError(Problem("data.candidates", "a pair's second sentence is its one candidate", "set auto"))


def classification(
    name: str, splits: Mapping[str, Sequence[Pair]], classes: tuple[str, ...], notes: Sequence[str]
) -> RankingData:
    """Data without a digest. A document is a distinct second sentence; there is no first-stage ranking."""
    rows: dict[str, int] = {}
    made, start = {}, 0
    for split, pairs in splits.items():
        documents = [rows.setdefault(pair.second, len(rows)) for pair in pairs]
        made[split] = _split(start, documents, [pair.label for pair in pairs])
        start += len(pairs)
    everything = [pair for pairs in splits.values() for pair in pairs]
    return RankingData(
        name=name,
        digest="",
        document_ids=TextColumn.of(f"s{number}" for number in range(1, len(rows) + 1)),
        documents=TextColumn.of(rows),
        query_ids=TextColumn.of(pair.name for pair in everything),
        utterances=TextColumn.of(pair.first for pair in everything),
        utterance_offsets=np.arange(start + 1, dtype=np.int64),
        domain=np.zeros(start, np.int16),
        domains=ONE_DOMAIN,
        splits=made,
        notes=tuple(notes),
        task="classification",
        classes=classes,
    )


def _split(start: int, documents: list[int], labels: list[int]) -> Split:
    count = len(documents)
    offsets = np.arange(count + 1, dtype=np.int64)
    grade = np.array(labels, np.int16)
    return Split(
        query=np.arange(start, start + count, dtype=np.int32),
        offsets=offsets,
        document=np.array(documents, np.int32),
        grade=grade,
        rank=np.full(count, NO_RANK, np.int32),
        score=np.full(count, np.nan),
        judged_grade=grade,
        judged_offsets=offsets,
    )
