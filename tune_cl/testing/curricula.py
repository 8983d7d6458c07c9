"""What every scoring, pacing and weighting promises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise, product

import numpy as np

from trainables.core.cache import digest_of
from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.scoring import CODE, PAPER, SCORINGS, Scored
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import RankingData, Split
from tune_cl.testing.data import make_data, scored_of, split_of, tiny_data

KINDS: tuple[tuple[bool, int | str], ...] = ((True, 1), (True, "all"), (False, 2), (False, "all"))
"""Pairs or single documents, and how many negatives each positive gets."""
TOLERANCE = 1e-6


@contextmanager
def unchanged(name: str) -> Iterator[str]:
    yield name


# -- scorings ------------------------------------------------------------------------------------------------------


def example() -> RankingData:
    return tiny_data(queries=8, candidates=6, seed=5)


def needs_seed(name: str) -> bool:
    """Whether a scoring draws: its values belong to positions in the data, not to instances."""
    return "seed" in SCORINGS[name].needs


def one_finite_value_an_instance(name: str) -> None:
    for (paired, negatives), reference in product(KINDS, (PAPER, CODE)):
        scored = scored_of(example(), paired, negatives, reference=reference)
        values = SCORINGS[name](scored)
        assert values.shape == (len(scored.instances),), "values have the shape [I]"
        assert values.dtype == np.float64, "values are float64"
        assert np.isfinite(values).all(), "values are finite"


def follows_the_seed_alone(name: str) -> None:
    for reference in (PAPER, CODE):
        first, again, other = (
            SCORINGS[name](scored_of(example(), seed=seed, reference=reference)) for seed in (3, 3, 4)
        )
        assert np.array_equal(first, again), "the same data and seed give the same values"
        assert np.array_equal(first, other) != needs_seed(name), "`needs` has the seed if it changes values"


def other_queries_change_nothing(name: str) -> None:
    if needs_seed(name):
        return
    data, order = example(), np.array([5, 2, 7, 0, 1, 6, 3, 4])
    moved = with_split(data, with_queries(data.splits["train"], order))
    for reference in (PAPER, CODE):
        expected = of_queries(name, scored_of(data, reference=reference))[order]
        values = of_queries(name, scored_of(moved, reference=reference))
        assert np.allclose(values, expected, atol=TOLERANCE, equal_nan=True), "no other query changes a query's values"


def order_of_candidates_changes_nothing(name: str) -> None:
    if needs_seed(name):
        return
    data = example()
    scored = scored_of(data, False, "all")
    moved = scored_of(with_split(data, with_reversed_candidates(data.splits["train"])), False, "all")
    expected = SCORINGS[name](scored)[by_document(scored)][np.argsort(by_document(moved))]
    assert np.allclose(SCORINGS[name](moved), expected, TOLERANCE, TOLERANCE)


def empty_texts_and_lone_candidates(name: str) -> None:
    usual = [("red sky", 1), ("green hills", 0), ("blue", 0)]
    queries, candidates = [["one red"], ["two"], ["", "sky"], ["four"]], [usual, [], [("lone", 1)], usual]
    for reference in (PAPER, CODE):
        values = SCORINGS[name](scored_of(make_data(queries, candidates), reference=reference))
        assert values.shape == (2,), "a query without two candidates has no instance"
        assert np.isfinite(values).all(), "empty texts leave the other values finite"


SCORING = (
    one_finite_value_an_instance,
    follows_the_seed_alone,
    other_queries_change_nothing,
    order_of_candidates_changes_nothing,
    empty_texts_and_lone_candidates,
)


def of_queries(name: str, scored: Scored) -> np.ndarray:
    """The value of each query's first instance, NaN for queries without one."""
    values = np.full(len(scored.split), np.nan)
    values[scored.instances.query[::-1]] = SCORINGS[name](scored)[::-1]
    return values


def with_split(data: RankingData, split: Split) -> RankingData:
    return replace(data, digest=digest_of(data.digest, split.query, split.document), splits={"train": split})


def with_rows(split: Split, queries: np.ndarray, rows: np.ndarray) -> Split:
    """Candidate rows and queries in another order; judgments are left alone, as nothing here reads them."""
    parts = {name: getattr(split, name)[rows] for name in ("document", "grade", "rank", "score")}
    return replace(split, query=split.query[queries], offsets=np.cumsum([0, *split.sizes[queries]]), **parts)


def with_queries(split: Split, order: np.ndarray) -> Split:
    starts, ends = split.offsets.tolist(), split.offsets[1:].tolist()
    rows = [np.arange(starts[query], ends[query]) for query in order.tolist()]
    return with_rows(split, order, np.concatenate(rows))


def with_reversed_candidates(split: Split) -> Split:
    rows = [np.arange(start, end)[::-1] for start, end in pairwise(split.offsets.tolist())]
    return with_rows(split, np.arange(len(split)), np.concatenate(rows))


def by_document(scored: Scored) -> np.ndarray:
    """Rows of pointwise instances, in the order of their documents."""
    rows = np.maximum(scored.instances.positive, scored.instances.negative)
    return np.argsort(scored.split.document[rows])


# -- pacings -------------------------------------------------------------------------------------------------------


def schedules(name: str) -> Iterator[Schedule]:
    settings = product((0.05, 0.33, 0.9, 1.0), (1, 2, 10), (2, 3, 7), (PAPER, CODE), (1.0, 1000.0))
    for delta, n, stages, reference, horizon in settings:
        yield Schedule(name, horizon, delta, n, stages, reference)


def rises_to_one(schedule: Schedule, steps: Sequence[float]) -> None:
    """The fractions at `steps` (in order) lie in (0, 1] and never fall, and everything is open at the end."""
    fractions = [schedule.share(step) for step in steps]
    assert all(0 < fraction <= 1 for fraction in fractions), f"fractions are in (0, 1]: {fractions}"
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(fractions)), "the fraction never falls"
    if schedule.reference == PAPER:
        assert schedule.share(math.nextafter(schedule.horizon, math.inf)) == 1, "everything is available from T on"


def fraction_rises_to_one(name: str) -> None:
    for schedule in schedules(name):
        rises_to_one(schedule, (np.linspace(0, 1.2, 61) * schedule.horizon).tolist())


def ends_at_one_as_it_says(name: str) -> None:
    pacing = PACINGS[name]
    for schedule in schedules(name) if pacing.ends_at_one else ():
        assert pacing.function(1.0, schedule) >= 1 - 1e-6, "f(1) = 1, or ends_at_one=False"


PACING = (fraction_rises_to_one, ends_at_one_as_it_says)


# -- weightings ----------------------------------------------------------------------------------------------------

RUNS: tuple[list[list[float]], ...] = (
    [[9.0, 7.5, 7.4, 3.0, -1.0], [3.0, 1.0, 0.5], [7.0, math.nan]],
    [[4.0, 4.0, 4.0], [3.0], [math.nan, math.nan]],
    [[], [2.0, 1.0]],
    [],
)
"""Candidates' first-stage scores by query, best first; NaN is outside the run."""


def a_value_of_each_candidate(name: str, queries: list[list[float]]) -> None:
    split, heuristic = split_of(*queries), WEIGHTINGS[name]
    assert heuristic is not None, f"{name} is not a heuristic"
    values = heuristic(split)
    assert values.shape == split.document.shape, "there is one value a candidate"
    assert ((values >= 0) & (values <= 1)).all(), f"values lie in [0, 1]: {values}"
    turned = heuristic(split_of(*queries[::-1]))
    starts = np.cumsum([len(scores) for scores in queries])[:-1]
    expected = np.concatenate([*np.split(values, starts)[::-1], []])
    assert np.allclose(turned, expected, TOLERANCE, TOLERANCE), "no other query changes a query's values"


def values_for_any_run(name: str) -> None:
    for queries in RUNS:
        a_value_of_each_candidate(name, queries)


WEIGHTING = (values_for_any_run,)
