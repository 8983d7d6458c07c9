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

from trainables.evaluation.significance import Components
from tune_cl.confirmation.request import FIRST_LOOK
from tune_cl.confirmation.verdict import LEVEL, Corrected, verdict_of

SPENDING = 4.0  # exponent of the share of seeds trained: early looks spend little
LEAST_POWER = 0.1  # below this chance to show anything, further seeds are not worth their trainings
WALK = np.linspace(-9, 9, 3601)  # grid of the random walk, in standard deviations at its end
ERRORS = np.unique([*np.logspace(-9, 0, 73), 0.01, LEVEL])  # over all looks, between which `overall` interpolates


@lru_cache
def nominal_levels(looks: tuple[int, ...], most: int, level: float = LEVEL, exponent: float = SPENDING) -> np.ndarray:
    """The two-sided level of each look, float64 [L], such that all together err with probability `level` at most.

    looks: seeds at each look, ascending; most: seeds at which all of `level` is spent. By recursive integration of a
    random walk's density inside its bounds (Armitage et al. 1969)."""
    step, middle = WALK[1] - WALK[0], len(WALK) // 2
    levels, spent, before, density = [], 0.0, 0.0, np.zeros_like(WALK)
    for look in looks:
        time = look / most
        increment = _normal(time - before)
        density = increment if before == 0 else np.maximum(fftconvolve(density, increment, mode="same") * step, 0)
        both = (density[::-1] + density)[: middle + 1]
        beyond = (np.cumsum(both) - both / 2) * step  # outside both bounds, from the far ends inwards
        bound = float(np.interp(level * time**exponent - spent, beyond, -WALK[: middle + 1]))
        density = np.where(np.abs(WALK) >= bound, 0, density)
        levels.append(2 * ndtr(-bound / math.sqrt(time)))
        spent, before = level * time**exponent, time
    return np.array(levels)


def _normal(variance: float) -> np.ndarray:
    return np.exp(-(WALK**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


@lru_cache
def _levels_by_error(most: int) -> np.ndarray:
    """`nominal_levels` of every look for each of ERRORS, float64 [E, L], rising with the error."""
    looks = tuple(range(FIRST_LOOK, most + 1))
    return np.maximum.accumulate([nominal_levels(looks, most, float(error)) for error in ERRORS], axis=0)


def boundary(seeds: int, most: int) -> float:
    """The level that a corrected p-value must reach at the look after `seeds` of `most` seeds."""
    return float(_levels_by_error(most)[np.searchsorted(ERRORS, LEVEL), seeds - FIRST_LOOK])


def overall(p: float, seeds: int, most: int) -> float:
    """The p-value that takes account of all looks: the smallest error over all of them at which this look's `p` would
    reach its boundary (repeated p-value, Jennison & Turnbull 1989). NaN stays NaN."""
    if math.isnan(p):
        return p
    column = np.maximum(_levels_by_error(most)[:, seeds - FIRST_LOOK], 1e-300)
    repeated = float(np.exp(np.interp(math.log(max(p, 1e-300)), np.log(column), np.log(ERRORS), right=0.0)))
    return max(repeated, p)


def at_look(tests: Sequence[Corrected], seeds: int, most: int) -> list[Corrected]:
    """Tests with p-values and 95 % intervals for new seeds that hold over all looks."""
    return [_at_look(one, seeds, most) for one in tests]


def _at_look(corrected: Corrected, seeds: int, most: int) -> Corrected:
    new, difference = corrected.test.new, corrected.test.difference
    if math.isnan(new.p):
        return corrected
    half = float(stdtrit(new.freedom, 1 - boundary(seeds, most) / 2)) * new.error if new.error else 0.0
    new = replace(new, p=overall(new.p, seeds, most), ci95=(difference - half, difference + half))
    p_adjusted = overall(corrected.p_new_adjusted, seeds, most)
    return replace(corrected, test=replace(corrected.test, new=new), p_new_adjusted=p_adjusted)


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
    """What a look found. `hopeless`: labels of configurations that would hardly be shown to differ after all seeds."""

    seeds: int
    label: str
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
        figures = f"'{self.label}' {self.difference:+.4f}, {p}, settled at {self.boundary:.2g} or less"
        return f"look after {self.seeds} seeds: {figures}: {self.decision}"


def look_at(tests: Mapping[str, Corrected], recommended: str, queries: int, seeds: int, most: int) -> Look:
    """Decides after `seeds` of `most` seeds whether to go on. `tests`: by label, corrected for the configurations but
    not for the looks; `recommended`: the label of the best on dev."""
    whole = dict(zip(tests, at_look(list(tests.values()), seeds, most), strict=True))
    verdict = verdict_of(list(whole.values()), whole.get(recommended))
    hopeless = frozenset(
        label for label, one in tests.items() if _is_hopeless(one, label == recommended, queries, seeds, most)
    )
    if verdict == "better" or seeds == most:
        decision = verdict
    elif verdict == "worse":  # of the recommended one; another one may still be better
        decision = verdict if hopeless | {recommended} == tests.keys() else "continue"
    else:
        decision = "hopeless" if len(hopeless) == len(tests) else "continue"
    better = [label for label, one in whole.items() if one.direction(new_seeds=True) > 0]
    first = min(better or tests, key=lambda label: _p(tests[label]))  # the one that the decision is about
    top = tests[first]
    return Look(seeds, first, top.test.difference, top.p_new_adjusted, boundary(seeds, most), decision, hopeless)


def _p(corrected: Corrected) -> float:
    return math.inf if math.isnan(corrected.p_new_adjusted) else corrected.p_new_adjusted


def _is_hopeless(corrected: Corrected, recommended: bool, queries: int, seeds: int, most: int) -> bool:
    """Only of the recommended configuration does it matter that it is worse."""
    new = corrected.test.new
    if math.isnan(new.p):
        return False
    level = boundary(most, most)
    difference = np.array(corrected.test.difference)
    above, below = conditional_power(difference, new.components, queries, seeds, most, level)
    return bool(max(above, below) < LEAST_POWER if recommended else above < LEAST_POWER)
