"""What every scoring, pacing and weighting keeps to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np

from trainables.core.cache import digest_of
from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.scoring import CODE, PAPER, SCORINGS, Scored, difficulty
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import RankingData, Split
from trainables.data.instances import Instances
from tune_cl.testing.promises import alike, promise
from tune_cl.testing.scored_data import make_data, scored_of, split_of
from tune_cl.testing.tiny_data import tiny_data

KINDS: tuple[tuple[bool, int | str], ...] = ((True, 1), (True, "all"), (False, 2), (False, "all"))
"""Pairs or single documents, and how many negatives each positive gets."""
TOLERANCE = 1e-6
QUERIES = 8


def example() -> RankingData:
    return tiny_data(queries=QUERIES, candidates=6, seed=5)


def draws(name: str) -> bool:
    """Whether a scoring's values belong to places in the data, not to instances."""
    return "seed" in SCORINGS[name].needs


def gives_one_finite_value_an_instance(name: str, reference: str) -> None:
    for paired, negatives in KINDS:
        scored = scored_of(example(), paired, negatives, reference=reference)
        values = SCORINGS[name](scored)
        shape = values.shape, values.dtype
        promise(shape == ((len(scored.instances),), np.float64), f"values are float64 [I], and are {shape}")
        promise(np.isfinite(values).all(), "values are finite")


def follows_the_seed_alone(name: str, reference: str) -> None:
    first, again, other = (SCORINGS[name](scored_of(example(), seed=seed, reference=reference)) for seed in (3, 3, 4))
    promise(alike(first, again), "the same data and seed give the same values")
    promise(alike(first, other) != draws(name), "another seed changes values if the scoring needs the seed, else none")


def comes_from_the_cache(name: str, reference: str) -> None:
    scored = scored_of(example(), seed=77, reference=reference)
    first, _ = difficulty(name, scored)
    second, was_cached = difficulty(name, scored)
    promise(was_cached and alike(first, second), "the second call takes the same values from the cache")
    promise(alike(first, SCORINGS[name](scored)), "the cache holds what the function gives")


def keeps_values_when_queries_move(name: str, reference: str) -> None:
    if draws(name):
        return
    data, order = example(), np.array([5, 2, 7, 0, 1, 6, 3, 4])
    moved = with_split(data, permuted(data.splits["train"], order))
    expected = of_queries(name, scored_of(data, reference=reference))[order]
    now = of_queries(name, scored_of(moved, reference=reference))
    promise(np.allclose(now, expected, atol=TOLERANCE, equal_nan=True), "no other query changes a query's values")


def keeps_values_when_candidates_move(name: str, reference: str) -> None:
    if draws(name) or reference == CODE:  # the code takes the first negative
        return
    data = example()
    scored = scored_of(data, False, "all")
    moved = scored_of(with_split(data, reversed_candidates(data.splits["train"])), False, "all")
    expected = SCORINGS[name](scored)[by_document(scored)][np.argsort(by_document(moved))]
    promise(alike(SCORINGS[name](moved), expected, TOLERANCE), "the order of a query's candidates changes no value")


def bears_empty_texts_and_lone_candidates(name: str, reference: str) -> None:
    usual = [("red sky", 1), ("green hills", 0), ("blue", 0)]
    queries, candidates = [["one red"], ["two"], ["", "sky"], ["four"]], [usual, [], [("lone", 1)], usual]
    values = SCORINGS[name](scored_of(make_data(queries, candidates), reference=reference))
    promise(
        values.shape == (2,) and np.isfinite(values).all(),
        "queries without a candidate, or with one, and empty texts leave the other values finite",
    )


SCORING_CONTRACT = (
    gives_one_finite_value_an_instance,
    follows_the_seed_alone,
    comes_from_the_cache,
    keeps_values_when_queries_move,
    keeps_values_when_candidates_move,
    bears_empty_texts_and_lone_candidates,
)


def of_queries(name: str, scored: Scored) -> np.ndarray:
    """The value of each query's first instance, NaN for queries without one."""
    values = np.full(len(scored.split), np.nan)
    values[scored.instances.query[::-1]] = SCORINGS[name](scored)[::-1]
    return values


def with_split(data: RankingData, split: Split) -> RankingData:
    return replace(data, digest=digest_of(data.digest, split.query, split.document), splits={"train": split})


def rearranged(split: Split, queries: np.ndarray, rows: np.ndarray) -> Split:
    """Candidate rows and queries in another order; judgements are left alone, as nothing here reads them."""
    parts = {name: getattr(split, name)[rows] for name in ("document", "grade", "rank", "score")}
    offsets = np.concatenate([[0], np.cumsum(split.sizes[queries])])
    return replace(split, query=split.query[queries], offsets=offsets, **parts)


def permuted(split: Split, order: np.ndarray) -> Split:
    rows = [np.arange(*split.offsets[i : i + 2].tolist()) for i in order.tolist()]
    return rearranged(split, order, np.concatenate(rows))


def reversed_candidates(split: Split) -> Split:
    spans = zip(split.offsets[:-1].tolist(), split.offsets[1:].tolist(), strict=True)
    rows = np.concatenate([np.arange(start, end)[::-1] for start, end in spans])
    return rearranged(split, np.arange(len(split)), rows)


def by_document(scored: Scored) -> np.ndarray:
    """Rows of pointwise instances, in the order of their documents."""
    instances: Instances = scored.instances
    return np.argsort(scored.split.document[np.maximum(instances.positive, instances.negative)])


def check_scoring(name: str) -> None:
    """Checks that a registered scoring keeps to what all scorings promise. Raises AssertionError saying what not."""
    for contract in SCORING_CONTRACT:
        for reference in (PAPER, CODE):
            contract(name, reference)


def rises_to_one(schedule: Schedule, steps: Sequence[float]) -> None:
    """The shares of a pacing at `steps` (in order) lie in (0, 1] and never fall, and everything is open at the end."""
    shares = [schedule.share(step) for step in steps]
    promise(all(0 < share <= 1 for share in shares), f"fractions are in (0, 1]: {shares}")
    promise(all(later >= earlier - 1e-12 for earlier, later in pairwise(shares)), f"the fraction never falls: {shares}")
    if schedule.reference == PAPER:
        promise(schedule.share(math.nextafter(schedule.horizon, math.inf)) == 1, "everything is available from T on")


def reaches_one_where_it_says(schedule: Schedule) -> None:
    """A pacing with `ends_at_one` opens everything at T by its own formula."""
    pacing = PACINGS[schedule.pacing]
    if pacing.ends_at_one:
        share = pacing.function(1.0, schedule)
        promise(share >= 1 - 1e-6, f"f(1) = 1, or ends_at_one=False, and f(1) = {share}")


def check_pacing(name: str) -> None:
    """Checks that a registered pacing keeps to what all pacings promise. Raises AssertionError saying what not."""
    settings = product((0.05, 0.33, 0.9, 1.0), (1, 2, 10), (2, 3, 7), (PAPER, CODE), (1.0, 1000.0))
    for delta, n, stages, reference, horizon in settings:
        schedule = Schedule(name, horizon, delta, n, stages, reference)
        rises_to_one(schedule, (np.linspace(0, 1.2, 61) * horizon).tolist())
        reaches_one_where_it_says(schedule)


RUNS: tuple[list[list[float]], ...] = (
    [[9.0, 7.5, 7.4, 3.0, -1.0], [3.0, 1.0, 0.5], [7.0, math.nan]],
    [[4.0, 4.0, 4.0], [3.0], [math.nan, math.nan]],
    [[], [2.0, 1.0]],
    [],
)
"""Candidates' first-stage scores by query, best first; NaN is outside the run."""


def gives_each_candidate_a_value(name: str, queries: list[list[float]]) -> None:
    split, heuristic = split_of(*queries), WEIGHTINGS[name]
    assert heuristic is not None, f"{name} is not a heuristic"
    value = heuristic(split)
    promise(value.shape == split.document.shape, f"one value a candidate, and there are {value.shape}")
    promise(((value >= 0) & (value <= 1)).all(), f"values lie in [0, 1]: {value}")
    turned = heuristic(split_of(*queries[::-1]))
    starts = np.cumsum([len(scores) for scores in queries])[:-1]
    expected = np.concatenate([*np.split(value, starts)[::-1], []])
    promise(alike(turned, expected, TOLERANCE), "no other query changes a query's values")


def check_weighting(name: str) -> None:
    """Checks that a registered weighting keeps to what all heuristics promise. Raises AssertionError saying what not.
    As each is an order too, also `check_scoring`."""
    for queries in RUNS:
        gives_each_candidate_a_value(name, queries)
    check_scoring(name)
