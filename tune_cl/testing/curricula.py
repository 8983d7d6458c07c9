"""What every scoring, pacing and weighting promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np

from trainables.core.cache import digest_of
from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.scoring import CODE, PAPER, SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import RankingData, Split
from trainables.data.combine import some_queries
from tune_cl.testing.data import make_data, scored_of, split_of, tiny_data

KINDS: tuple[tuple[bool, int | str], ...] = ((True, 1), (True, "all"), (False, 2), (False, "all"))
"""Pairs or single documents, and how many negatives each positive gets."""
TOLERANCE = 1e-6

# -- scorings ------------------------------------------------------------------------------------------------------


def example() -> RankingData:
    return tiny_data(queries=8, candidates=6, seed=5)


def awkward() -> RankingData:
    """With empty texts, and queries without a candidate and with one."""
    usual = [("red sky", 1), ("green hills", 0), ("blue", 0)]
    return make_data([["one red"], ["two"], ["", "sky"], ["four"]], [usual, [], [("lone", 1)], usual])


def has_one_finite_value_an_instance(name: str) -> None:
    for data, (paired, negatives), reference in product((example(), awkward()), KINDS, (PAPER, CODE)):
        scored = scored_of(data, paired, negatives, reference=reference)
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
        draws = "seed" in SCORINGS[name].needs
        assert np.array_equal(first, other) != draws, "`needs` has the seed if it changes values"


def follows_no_order_of_the_data(name: str) -> None:
    if "seed" in SCORINGS[name].needs:  # its values belong to positions in the data
        return
    train = example().splits["train"]
    turned = some_queries(train, np.array([5, 2, 7, 0, 1, 6, 3, 4]))
    for reference in (PAPER, CODE):
        expected = by_document(name, train, reference)
        assert near(by_document(name, turned, reference), expected), "no other query changes a query's values"
    rows = np.lexsort((-np.arange(len(train.document)), train.owner))  # each query's candidates from the last on
    parts = {part: getattr(train, part)[rows] for part in ("document", "grade", "rank", "score")}
    assert near(by_document(name, replace(train, **parts), PAPER), by_document(name, train, PAPER)), (
        "the order of candidates changes no value"
    )


def by_document(name: str, split: Split, reference: str) -> np.ndarray:
    """Values of all candidates, in the order of their documents."""
    scored = scored_of(with_split(example(), split), False, "all", reference=reference)
    rows = np.maximum(scored.instances.positive, scored.instances.negative)
    return SCORINGS[name](scored)[np.argsort(split.document[rows])]


def near(values: np.ndarray, expected: np.ndarray) -> bool:
    return np.allclose(values, expected, TOLERANCE, TOLERANCE)


def with_split(data: RankingData, split: Split) -> RankingData:
    return replace(data, digest=digest_of(data.digest, split.query, split.document), splits={"train": split})


SCORING = (has_one_finite_value_an_instance, follows_the_seed_alone, follows_no_order_of_the_data)

# -- pacings -------------------------------------------------------------------------------------------------------


def rises_to_one(schedule: Schedule, steps: Sequence[float]) -> None:
    """The fractions at `steps` (in order) lie in (0, 1] and never fall, and everything is open at the end."""
    fractions = [schedule.share(step) for step in steps]
    assert all(0 < fraction <= 1 for fraction in fractions), f"fractions are in (0, 1]: {fractions}"
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(fractions)), "the fraction never falls"
    if schedule.reference == PAPER:
        assert schedule.share(math.nextafter(schedule.horizon, math.inf)) == 1, "everything is available from T on"


def has_a_fraction_that_rises_to_one(name: str) -> None:
    pacing = PACINGS[name]
    settings = product((0.05, 0.33, 0.9, 1.0), (1, 2, 10), (2, 3, 7), (PAPER, CODE), (1.0, 1000.0))
    for delta, n, stages, reference, horizon in settings:
        schedule = Schedule(name, horizon, delta, n, stages, reference)
        rises_to_one(schedule, (np.linspace(0, 1.2, 61) * horizon).tolist())
        if pacing.ends_at_one:
            assert pacing.function(1.0, schedule) >= 1 - 1e-6, "f(1) = 1, or ends_at_one=False"


PACING = (has_a_fraction_that_rises_to_one,)

# -- weightings ----------------------------------------------------------------------------------------------------

RUNS: tuple[list[list[float]], ...] = (
    [[9.0, 7.5, 7.4, 3.0, -1.0], [3.0, 1.0, 0.5], [7.0, math.nan]],
    [[4.0, 4.0, 4.0], [3.0], [math.nan, math.nan]],
    [[], [2.0, 1.0]],
    [],
)
"""Candidates' first-stage scores by query, best first; NaN is outside the run."""


def has_a_value_of_each_candidate(name: str) -> None:
    heuristic = WEIGHTINGS[name]
    assert heuristic is not None, f"{name} is not a heuristic"
    for queries in RUNS:
        split = split_of(*queries)
        values = heuristic(split)
        assert values.shape == split.document.shape, "there is one value a candidate"
        assert ((values >= 0) & (values <= 1)).all(), f"values lie in [0, 1]: {values}"
        starts = np.cumsum([len(scores) for scores in queries])[:-1]
        expected = np.concatenate([*np.split(values, starts)[::-1], []])
        assert near(heuristic(split_of(*queries[::-1])), expected), "no other query changes a query's values"


WEIGHTING = (has_a_value_of_each_candidate,)
