"""Data that can hardly be right, or that can show little: said before anything is trained on it."""

from __future__ import annotations

import numpy as np

from trainables.core.prose import counted
from trainables.data.columns import RankingData
from trainables.data.hygiene import query_keys

MOSTLY = 2 / 3  # share of relevant candidates
SAME, MOST_COMPARED = 0.5, 200_000  # share of dev queries; queries, beyond which the texts are not compared
FEW_TEST_QUERIES = 50
DRAW_ANEW = "data.split: [0.6, 0.2, 0.2] splits all queries again"


def doubts(data: RankingData, level: int) -> list[str]:
    """What speaks against the data, a line each: candidates that are mostly relevant, queries that are in train and
    dev, and too few test queries. `level`: the lowest relevant grade."""
    lines = [_too_few(data), _same_queries(data)]
    if data.task == "ranking":
        lines.append(_mostly_relevant(data, level))
    return [line for line in lines if line]


def _mostly_relevant(data: RankingData, level: int) -> str:
    shares = {name: float(np.mean(split.grade >= level)) for name, split in data.splits.items() if len(split.grade)}
    high = [f"{share:.0%} in {name}" for name, share in shares.items() if share > MOSTLY]
    if not high:
        return ""
    right = "evaluation.relevance_level: a higher grade"
    others = "" if data.features is not None else "; data.candidates: bm25 takes others"
    return f"most candidates are relevant ({', '.join(high)}), so every order scores high: {right}{others}"


def _same_queries(data: RankingData) -> str:
    splits = [data.splits[name] for name in ("train", "dev") if name in data.splits]
    if len(splits) < 2 or sum(map(len, splits)) > MOST_COMPARED:
        return ""
    train, dev = (query_keys(data, split) for split in splits)
    shared = int(np.isin(dev, train).sum())
    if not shared or shared / len(dev) < SAME:
        return ""
    both = f"{shared} of {counted(len(dev), 'dev query')} are training queries, too"
    return f"{both}: dev prefers what has learnt them by heart, and tells nothing of new queries; {DRAW_ANEW}"


def _too_few(data: RankingData) -> str:
    count = len(data.splits["test"]) if "test" in data.splits else 0
    if count >= FEW_TEST_QUERIES:
        return ""
    return f"test has {counted(count, 'query')}, which show large differences at most in `confirm`: {DRAW_ANEW}"
