"""Looks at a confirmation while it runs: `tune-cl confirm --until-settled` (docs/explanation/verdict.md).

A look after each seed from the third on. Each look may spend a part of the 5 % error, so that all of them together
spend no more (Lan & DeMets 1983, with the power family of Kim & DeMets 1987: after n of N seeds, (n / N)^4 of it). The
error that queries leave is common to all looks, which are therefore more alike than those of the random walk that the
levels are computed for: this errs on the safe side. docs/dev/verdict-simulations.md has the measured error and savings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr, ndtri, stdtrit

from trainables.evaluation.significance import Components, CrossedTest
from tune_cl.confirmation.intersection import Opposed, leader_of, p_of, verdict_on
from tune_cl.confirmation.request import FIRST_LOOK
from tune_cl.confirmation.verdict import LEVEL, Corrected

SPENDING = 4.0  # exponent of the share of seeds trained: early looks spend little
LEAST_POWER = 0.1  # below this chance to show anything, further seeds are not worth their trainings
WALK = np.linspace(-9, 9, 3601)  # grid of the random walk, in standard deviations at its end
REREADING = 0.1  # of the error of a first reading: what all later ones together may add to it
CORRECTION = 0.75  # of the way to the conditional estimate, which by itself corrects too much
DRIFTS = np.linspace(-1, 8, 37)  # true differences, in standard errors after the last look
REACH = np.linspace(-6, 12, 1801)  # grid of a walk with a drift
ERRORS = np.unique([*np.logspace(-9, 0, 73), 0.01, LEVEL])  # over all looks, between which `overall` interpolates


@lru_cache
def nominal_levels(looks: tuple[int, ...], most: int, level: float = LEVEL, exponent: float = SPENDING) -> np.ndarray:
    """The two-sided level of each look, float64 [L], such that all together err with probability `level` at most.

    looks: seeds at each look, ascending; most: seeds at which all of `level` is spent."""
    times = np.array(looks) / most
    return _levels(times, level * times**exponent)


@lru_cache
def reading_levels(readings: tuple[int, ...], level: float = LEVEL) -> np.ndarray:
    """The two-sided level of each reading, float64 [R], where who read a split after `readings[0]` seeds reads it again
    after more, as often as wished: the first has all of `level`, which it was judged by, and each later one may add
    half of what is left of a tenth of it. All together err with 1.1 times `level` at most, .055.

    readings: seeds at each, ascending."""
    times = np.array(readings) / readings[-1]
    spent = level * (1 + REREADING * (1 - 0.5 ** np.arange(len(readings))))
    return _levels(times, spent)


def _levels(times: np.ndarray, spent: np.ndarray) -> np.ndarray:
    """Levels of looks at `times`, the share of all seeds, that spend `spent` of the error up to each. By recursive
    integration of a random walk's density inside its bounds (Armitage et al. 1969)."""
    step, middle = WALK[1] - WALK[0], len(WALK) // 2
    levels, before, density = [], 0.0, np.zeros_like(WALK)
    for time, new in zip(times, np.diff(spent, prepend=0.0), strict=True):
        increment = _normal(time - before)
        density = increment if before == 0 else np.maximum(fftconvolve(density, increment, mode="same") * step, 0)
        both = (density[::-1] + density)[: middle + 1]
        beyond = (np.cumsum(both) - both / 2) * step  # outside both bounds, from the far ends inwards
        bound = float(np.interp(new, beyond, -WALK[: middle + 1]))
        density = np.where(np.abs(WALK) >= bound, 0, density)
        levels.append(2 * ndtr(-bound / math.sqrt(time)))
        before = time
    return np.array(levels)


def _normal(variance: float) -> np.ndarray:
    return np.exp(-(WALK**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


@lru_cache
def _levels_by_error(most: int) -> np.ndarray:
    """`nominal_levels` of every look for each of ERRORS, float64 [E, L], rising with the error."""
    looks = tuple(range(FIRST_LOOK, most + 1))
    return np.maximum.accumulate([nominal_levels(looks, most, float(error)) for error in ERRORS], axis=0)


@lru_cache
def _reading_levels_by_error(readings: tuple[int, ...]) -> np.ndarray:
    """The level of the last reading for each of ERRORS of the first, float64 [E]."""
    return np.maximum.accumulate([reading_levels(readings, float(error))[-1] for error in ERRORS])


def boundary(seeds: int, most: int) -> float:
    """The level that a corrected p-value must reach at the look after `seeds` of `most` seeds."""
    return _at_level(_levels_by_error(most)[:, seeds - FIRST_LOOK])


def _at_level(column: np.ndarray) -> float:
    return float(column[np.searchsorted(ERRORS, LEVEL)])


def overall(p: float, seeds: int, most: int) -> float:
    """The p-value that takes account of all looks."""
    return _repeated(p, _levels_by_error(most)[:, seeds - FIRST_LOOK])


def _repeated(p: float, column: np.ndarray) -> float:
    """The smallest error at which `p` would reach its boundary (repeated p-value, Jennison & Turnbull 1989); column:
    the boundary for each of ERRORS. NaN stays NaN."""
    if math.isnan(p):
        return p
    logs = np.log(np.maximum(column, 1e-300))
    return max(p, float(np.exp(np.interp(math.log(max(p, 1e-300)), logs, np.log(ERRORS), right=0.0))))


def at_look(tests: Sequence[Corrected], seeds: int, most: int) -> list[Corrected]:
    """Tests with p-values and 95 % intervals for new seeds that hold over all looks."""
    return [_with_boundary(one, _levels_by_error(most)[:, seeds - FIRST_LOOK]) for one in tests]


def at_reading(tests: Sequence[Corrected], readings: Sequence[int]) -> list[Corrected]:
    """Tests with p-values and intervals for new seeds that take account of earlier readings of the same split, with
    fewer seeds of the same configurations. readings: seeds at each, ascending, the last being these tests'."""
    if len(readings) == 1:
        return list(tests)
    return [_with_boundary(one, _reading_levels_by_error(tuple(readings))) for one in tests]


def _with_boundary(corrected: Corrected, column: np.ndarray) -> Corrected:
    new, difference = corrected.test.new, corrected.test.difference
    if math.isnan(new.p):
        return corrected
    half = float(stdtrit(new.freedom, 1 - _at_level(column) / 2)) * new.error if new.error else 0.0
    new = replace(new, p=_repeated(new.p, column), ci95=(difference - half, difference + half))
    p_adjusted = _repeated(corrected.p_new_adjusted, column)
    return replace(corrected, test=replace(corrected.test, new=new), p_new_adjusted=p_adjusted)


def bias_adjusted(difference: float, new: CrossedTest, queries: int, most: int) -> float:
    """What remains of a difference that a look at one of at most `most` seeds has shown: those shown are the ones whose
    seeds were lucky. `new`: its test.

    Three quarters of the way to the difference whose expected reading, given that it is shown, is the one read (as
    Troendle & Yu 1999, over all looks; not below 0).
    """
    parts = new.components
    of_seeds, of_queries = (parts.of_seed + parts.residual / queries) / most, parts.of_query / queries
    if not of_seeds:
        return difference
    error = math.sqrt(of_seeds + of_queries)
    share = min(0.95, round(20 * of_queries / error**2) / 20)
    conditional = np.interp(abs(difference) / error, _expected_if_shown(share, queries, most), DRIFTS) * error
    remaining = CORRECTION * max(0.0, float(conditional)) + (1 - CORRECTION) * abs(difference)
    return math.copysign(remaining, difference)


@lru_cache
def _expected_if_shown(share: float, queries: int, most: int) -> np.ndarray:
    """The expected difference where it is shown to be above 0 at some look, for each of DRIFTS, all in standard errors
    after the last look. `share`: of the queries in that error's square, which no further seed makes smaller."""
    looks = np.arange(FIRST_LOOK, most + 1)
    variance = (1 - share) * most / looks + share
    freedom = np.minimum((looks - 1) * variance * looks / ((1 - share) * most), queries - 1)
    bounds = stdtrit(freedom, 1 - nominal_levels(tuple(looks.tolist()), most) / 2)
    centred = np.arange(-(len(REACH) // 2), len(REACH) // 2 + 1) * (REACH[1] - REACH[0])
    density, before = np.zeros((len(DRIFTS), len(REACH))), 0.0
    shown, expected = np.zeros(len(DRIFTS)), np.zeros(len(DRIFTS))
    for time, bound in zip(1 / variance, bounds, strict=True):
        passed, grid = time - before, centred if before else REACH
        increment = np.exp(-((grid - DRIFTS[:, None] * passed) ** 2) / (2 * passed))
        increment /= increment.sum(axis=1, keepdims=True)
        density = np.maximum(fftconvolve(density, increment, mode="same", axes=1), 0) if before else increment
        above = density * (bound * math.sqrt(time) <= REACH)
        shown += above.sum(axis=1)
        expected += above @ REACH / time
        density = np.where(np.abs(REACH) >= bound * math.sqrt(time), 0, density)
        before = time
    return np.maximum.accumulate(expected / shown)


def conditional_power(
    difference: np.ndarray, components: Components, queries: int, seeds: int, most: int, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The chances that a difference is shown above 0, and below 0, after `most` seeds, if the seeds to come go on as
    those seen (Lan et al. 1982). `components` may hold arrays of the difference's shape; level: two-sided."""
    per_seed = components.of_seed + components.residual / queries
    error = np.sqrt(per_seed / most + components.of_query / queries)
    spread = np.sqrt(per_seed * (1 / seeds - 1 / most))  # the queries stay, so only seeds move the mean any more
    needed = -ndtri(level / 2) * error
    above, below = (_chance(side * np.asarray(difference) - needed, spread) for side in (1, -1))
    return above, below


def _chance(margin: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """P(margin + spread x standard normal > 0); without spread, whether the margin is above 0."""
    certain = np.where(margin > 0, np.inf, -np.inf)
    return ndtr(np.divide(margin, spread, out=certain, where=np.asarray(spread) > 0))


@dataclass(frozen=True)
class Look:
    """What a look found. `against`: the least favourable opponent of the configuration `label`; `hopeless`: labels of
    configurations that would hardly be shown to differ after all seeds."""

    seeds: int
    label: str
    against: str
    difference: float
    p_new: float
    boundary: float
    decision: str
    hopeless: frozenset[str]

    @property
    def row(self) -> dict[str, Any]:
        """The look as the document of `tune-cl confirm` has it."""
        return {name: value for name, value in vars(self).items() if name != "hopeless"}

    def in_words(self) -> str:
        """The look in a line for the terminal."""
        p = "no test, for all differences are equal" if math.isnan(self.p_new) else f"p = {self.p_new:.2g}"
        figures = f"'{self.label}' - '{self.against}' {self.difference:+.4f}, {p}, stops at {self.boundary:.2g} or less"
        return f"interim analysis after {self.seeds} seeds: {figures}: {self.decision}"


def look_at(opposed: Mapping[str, Opposed], recommended: str, queries: int, seeds: int, most: int) -> Look:
    """Decides after `seeds` of `most` seeds whether to go on. `opposed`: the tests of each configuration, corrected for
    the configurations but not for the looks; `recommended`: the label of the best on dev."""
    whole = {
        label: replace(one, tests=dict(zip(one.tests, at_look(list(one.tests.values()), seeds, most), strict=True)))
        for label, one in opposed.items()
    }
    verdict = verdict_on(whole, recommended)
    hopeless = frozenset(
        label for label, one in opposed.items() if _is_hopeless(one, label == recommended, queries, seeds, most)
    )
    if verdict == "better" or seeds == most:
        decision = verdict
    elif verdict == "worse":  # of the recommended one; another one may still be better
        decision = verdict if hopeless | {recommended} == opposed.keys() else "continue"
    else:
        decision = "hopeless" if len(hopeless) == len(opposed) else "continue"
    first = leader_of(whole)  # the one that the decision is about
    if verdict != "better":
        first = min(opposed, key=lambda label: p_of(whole[label].tests[whole[label].least_favourable]))
    against = whole[first].least_favourable
    top = opposed[first].tests[against]
    at = boundary(seeds, most)
    return Look(seeds, first, against, top.test.difference, top.p_new_adjusted, at, decision, hopeless)


def _is_hopeless(opposed: Opposed, recommended: bool, queries: int, seeds: int, most: int) -> bool:
    """Whether some opponent can hardly be beaten any more; of the recommended configuration, whether it can hardly be
    shown to be worse either."""
    tests = opposed.tests
    if any(math.isnan(one.test.new.p) for one in tests.values()):
        return False
    level = boundary(most, most)
    chances = {
        label: conditional_power(np.array(one.test.difference), one.test.new.components, queries, seeds, most, level)
        for label, one in tests.items()
    }
    better = min(float(above) for above, _ in chances.values())
    worse = min(float(chances[label][1]) for label in opposed.decide_harm) if recommended else 0.0
    return max(better, worse) < LEAST_POWER
