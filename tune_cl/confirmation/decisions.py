"""From per-query values over seeds to decisions: tests corrected over all pairs, their power, trainings that fell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from trainables.evaluation.significance import (
    PAIRED,
    SeededTest,
    Seeds,
    adjust,
    collapsed,
    detectable,
    seeded_tests,
    seeds_needed,
    two_groups,
    untaught,
)
from tune_cl.confirmation.verdict import LEVEL, Collapsed, Difference, Interval, Trained, Untaught, VarianceComponents

MARKS = ((0.01, "‡"), (LEVEL, "†"))


@dataclass(frozen=True)
class Corrected:
    """A configuration's test against its reference, and its p-values corrected over all tested pairs: `p_adjusted` for
    these seeds, `p_new_adjusted` for new ones too (NaN where nothing can be said of these)."""

    test: SeededTest
    p_adjusted: float
    p_new_adjusted: float

    @property
    def marks(self) -> str:
        """† at 95 %, ‡ at 99 % after correction, and only if above the reference (Penha & Hauff 2020, Table 5)."""
        if self.test.difference <= 0:
            return ""
        return next((mark for level, mark in MARKS if self.p_new_adjusted <= level), "")

    def direction(self, new_seeds: bool) -> int:
        """1 above the reference, -1 below, 0 if neither is shown: for new seeds too, or for these alone."""
        p = self.p_new_adjusted if new_seeds else self.p_adjusted
        return int(np.sign(self.test.difference)) if p <= LEVEL else 0


def corrected_tests(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    correction: str,
    seed_matters: Sequence[bool] | None = None,
    seeds: Seeds = PAIRED,
) -> list[Corrected]:
    """Tests the first of each pair against the second, both values [N, Q] with equal seeds by row; corrected over all
    pairs.

    `seed_matters`: of each pair, whether the seed changes the trainings of either; None: of all. `seeds`: how the tests
    take them.
    """
    seed_matters = seed_matters or [True] * len(pairs)
    tests = seeded_tests(pairs, seed_matters, seeds)
    adjusted = adjust([test.p_value for test in tests], correction)
    new = np.array([test.new.p for test in tests], np.float64)
    unknown = np.isnan(new)  # with one seed
    new = np.where(unknown, np.nan, adjust(np.where(unknown, 1, new), correction))
    return [Corrected(test, float(p), float(p_new)) for test, p, p_new in zip(tests, adjusted, new, strict=True)]


def collapses(values: Mapping[str, np.ndarray], seeds: Sequence[int]) -> tuple[Collapsed, ...]:
    """Each training that collapsed, from per-query values [N, Q] by label: what a reader must know first."""
    means = {label: each.mean(axis=1) for label, each in values.items()}
    return tuple(
        Collapsed(label, seed, float(value))
        for label, of_label in means.items()
        for seed, value, is_collapsed in zip(seeds, of_label, collapsed(of_label), strict=True)
        if is_collapsed
    )


def in_two_groups(values: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The labels of configurations that fail under some seeds and work under others, from per-query values [N, Q]."""
    return tuple(label for label, each in values.items() if two_groups(each.mean(axis=1)))


def untaught_runs(rows: Iterable[Trained], trials: Sequence[float]) -> tuple[Untaught, ...]:
    """Each training that stayed far below the search's trials. `trials`: their best values on dev."""
    found: list[Untaught] = []
    for row in rows:
        low = untaught(np.array([run.dev for run in row.trainings]), np.array(trials))
        runs = (run for run, is_low in zip(row.trainings, low, strict=True) if is_low)
        found += [Untaught(row.label, run.seed, run.dev) for run in runs]
    return tuple(found)


@dataclass(frozen=True)
class Power:
    """What a comparison's design can show with probability .8: the smallest difference, and the fewest seeds that would
    show the one observed; and the variance components that both come from. None where that is not known: one seed, or
    differences that are all equal."""

    detectable: float | None = None
    seeds_needed: int | None = None
    components: VarianceComponents | None = None


def power_of(one: Corrected, seeds: int, queries: int, level: float, seed_matters: bool) -> Power:
    """The power of a test at this level."""
    new, difference = one.test.new, one.test.difference
    if np.isnan(new.p) or not any(asdict(new.components).values()):
        return Power()
    freedom = new.seed_freedom if seed_matters else queries - 1
    components = VarianceComponents(**asdict(new.components), seed_freedom=freedom, lent=new.lent)
    smallest = detectable(new.components, max(seeds, 2), queries, freedom, level, lent=new.lent)
    if not seed_matters:
        return Power(smallest, 1 if smallest <= abs(difference) else None, components)
    needed = seeds_needed(difference, new.components, queries, new.seed_freedom, level, lent=new.lent)
    return Power(smallest, needed, components)


def first_level(correction: str, count: int) -> float:
    """The level that the smallest of `count` p-values must reach."""
    return LEVEL if correction == "none" else LEVEL / count


def difference_of(corrected: Corrected, interval: Interval, seed_matters: bool = True) -> Difference:
    """The figures of a test. `interval`: that of these seeds."""
    test = corrected.test
    return Difference(
        p_per_seed=tuple(test.p_per_seed),
        difference=test.difference,
        p_value=test.p_value,
        p_adjusted=corrected.p_adjusted,
        ci95=interval,
        p_new=test.new.p,
        p_new_adjusted=corrected.p_new_adjusted,
        ci95_new=test.new.ci95,
        size=test.difference if test.new.size is None else test.new.size,
        marks=corrected.marks,
        seed_matters=seed_matters,
    )
