"""The data of a pre-training (`training.pretrain_data`), and text sides that cover both it and the target's data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from trainables.config import DataConfig, TrainingRun
from trainables.data import load_data
from trainables.data.columns import RankingData, Split, require_texts
from trainables.data.combine import joined, some_queries
from trainables.errors import DataError, Problem
from trainables.randomness import generator
from trainables.rankers.base import Ranker, TextSide, Tokens

KEY = "training.pretrain_data"
HELD_OUT = 0.1  # of the training queries, where the data has no dev split


def load_pretrain_data(run: TrainingRun, target: RankingData) -> RankingData:
    """The data that `training.pretrain_data` names, with the splits train and dev.

    Without a training split, the only split serves as one; without a dev split, a fixed tenth of the training queries
    does. Candidates are chosen by the defaults of `data`. Raises DataError, placed at the key, for data that is
    unknown, of another kind than the target's, or too small.
    """
    source = run.training.pretrain_data or ""
    try:
        data = load_data(DataConfig(source=source))
        require_texts(data)
    except DataError as error:
        raise DataError(_at_key(problem, source) for problem in error.problems) from None
    if (data.task, data.classes) != (target.task, target.classes):
        wrong = f"'{data.name}' is for another task than '{target.name}'"
        raise DataError(Problem(KEY, wrong, "data of the same task, with the same classes where there are any"))
    return replace(data, splits=_splits(data))


def _at_key(problem: Problem, source: str) -> Problem:
    """Places a problem of the data as a whole at the key; a problem in a file stays where it is."""
    if problem.place.startswith("data."):
        return replace(problem, place=KEY)
    return Problem(KEY, f"'{source}': {problem.wrong}", problem.right) if problem.place == source else problem


def _splits(data: RankingData) -> dict[str, Split]:
    filled = {name: split for name, split in data.splits.items() if len(split)}
    train = filled.get("train") or (next(iter(filled.values())) if len(filled) == 1 else None)
    if train is None:
        wrong = f"'{data.name}' has no training split, and more than one other"
        raise DataError(Problem(KEY, wrong, "data with training queries, or with one split"))
    if dev := filled.get("dev") if "train" in filled else None:
        return {"train": train, "dev": dev}
    if len(train) < 2:
        raise DataError(Problem(KEY, f"'{data.name}' has one query only", "data with at least two"))
    order = generator(0, "pre-training dev").permutation(len(train))
    held = max(1, round(HELD_OUT * len(train)))
    return {"train": some_queries(train, np.sort(order[held:])), "dev": some_queries(train, np.sort(order[:held]))}


def joint_text(ranker: Ranker, settings: Any, target: RankingData, other: RankingData) -> tuple[TextSide, TextSide]:
    """The text sides of two data sets under one vocabulary and one set of word vectors, both learned from both.

    Thus what a ranker learned on one of them means the same on the other.
    """
    whole = ranker.prepare(joined(target, other), settings, seed=0)
    queries, documents = len(target.query_ids), len(target.documents)
    return (
        replace(whole, queries=_rows(whole.queries, 0, queries), documents=_rows(whole.documents, 0, documents)),
        replace(
            whole,
            queries=_rows(whole.queries, queries, len(whole.queries)),
            documents=_rows(whole.documents, documents, len(whole.documents)),
        ),
    )


def _rows(tokens: Tokens, start: int, end: int) -> Tokens:
    offsets = tokens.offsets[start : end + 1]
    return Tokens(tokens.ids[offsets[0] : offsets[-1]], offsets - offsets[0])
