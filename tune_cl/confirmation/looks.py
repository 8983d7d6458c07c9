"""Looks at a confirmation while it runs: `tune-cl confirm --until-settled` (docs/explanation/verdict.md).

A look after each seed from the third on. Each look may spend a part of the 5 % error, so that all of them together
spend no more (Lan & DeMets 1983, with the power family of Kim & DeMets 1987: after n of N seeds, (n / N)^4 of it). One
ordering of what may happen, the stage-wise one (Armitage 1957; Jennison & Turnbull 2000, 8.4), gives p, interval and
size: an end with a difference shown earlier is further from 0, at the same look the larger t is. What a look shows is
kept as the normal deviate of Student's t. Two looks have in common what a random walk in the number of seeds less 1.5
has. The error that queries leave is common to all looks, which are therefore more alike: this errs on the safe side.
docs/dev/verdict-simulations.md has the measured error, bias and savings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import fftconvolve
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from trainables.evaluation.significance import Components, SeededTest
from trainables.evaluation.significance import p_of as student_p
from tune_cl.confirmation.decisions import Corrected
from tune_cl.confirmation.intersection import Opposed, leader_of, p_of, verdict_on
from tune_cl.confirmation.request import FIRST_LOOK
from tune_cl.confirmation.verdict import LEVEL, LookResult

SPENDING = 4.0  # exponent of the share of seeds trained: early looks spend little
LAG = 1.5  # seeds, that looks have less in common than a random walk in seeds: by simulation
LEAST_POWER = 0.1  # below this chance to show anything, further seeds are not worth their trainings
WALK = np.linspace(-9, 9, 3601)  # grid of the random walk, in standard deviations at its end
COARSE = np.linspace(-6.5, 6.5, 521)  # the same, where it is walked for each of DRIFTS
REREADING = 0.1  # of the error of a first reading: what all later ones together may add to it
# true differences, in standard errors of the last look: far ones for the few degrees of freedom of three seeds
DRIFTS = np.unique(np.concatenate([np.linspace(-8, 8, 65), *(side * np.logspace(0.95, 3, 33) for side in (-1, 1))]))


@lru_cache
def nominal_levels(looks: tuple[int, ...], most: int, level: float = LEVEL, exponent: float = SPENDING) -> np.ndarray:
    """The two-sided level of each look, float64 [L], such that all together err with probability `level` at most.

    looks: seeds at each look, ascending; most: seeds at which all of `level` is spent."""
    return _levels(_times(looks, most), level * (np.array(looks) / most) ** exponent)


@lru_cache
def reading_levels(readings: tuple[int, ...], level: float = LEVEL) -> np.ndarray:
    """The two-sided level of each reading, float64 [R], where who read a split after `readings[0]` seeds reads it again
    after more, as often as wished: the first has all of `level`, which it was judged by, and each later one may add
    half of what is left of a tenth of it. All together err with 1.1 times `level` at most, .055.

    readings: seeds at each, ascending."""
    spent = level * (1 + REREADING * (1 - 0.5 ** np.arange(len(readings))))
    return _levels(_times(readings, readings[-1]), spent)


def _times(looks: Sequence[int], most: int) -> np.ndarray:
    """When a random walk that ends at 1 is looked at, so that looks have in common what t-values of as many seeds
    have: of few seeds less than their number says, for each look has its own estimate of the variance."""
    return (np.array(looks) - LAG) / (most - LAG)


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
        density = density * np.clip((bound - np.abs(WALK)) / step + 0.5, 0, 1)  # of a cell, what lies inside
        levels.append(2 * ndtr(-bound / math.sqrt(time)))
        before = time
    return np.array(levels)


def _normal(variance: float) -> np.ndarray:
    return np.exp(-(WALK**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def boundary(seeds: int, most: int, readings: tuple[int, ...] = ()) -> float:
    """The level that a corrected p-value must reach at the look after `seeds` of `most` seeds. `readings`: numbers of
    seeds with which the same was read before there were looks, ascending: a verdict is not given a second time with as
    many seeds or fewer, the last reading keeps its own level, and all looks after it share what is left for later
    ones."""
    if not readings:
        return float(nominal_levels(tuple(range(FIRST_LOOK, most + 1)), most)[seeds - FIRST_LOOK])
    if seeds <= readings[-1]:
        return float(reading_levels(readings)[-1]) if seeds == readings[-1] else 0.0
    later = tuple(range(readings[-1] + 1, most + 1))
    return float(nominal_levels(later, most, budget(readings))[seeds - later[0]])


def budget(readings: tuple[int, ...]) -> float:
    """The error that all looks together may make."""
    return LEVEL * REREADING * 0.5 ** (len(readings) - 1) if readings else LEVEL


def at_reading(tests: Sequence[Corrected], readings: Sequence[int]) -> list[Corrected]:
    """Tests with p-values and intervals for new seeds that take account of earlier readings of the same split, with
    fewer seeds of the same configurations. readings: seeds at each, ascending, the last being these tests'.

    p is weighted (Genovese et al. 2006): multiplied by 5 % over what this reading may spend, to which the interval
    belongs."""
    if len(readings) == 1:
        return list(tests)
    return [at_level(one, float(reading_levels(tuple(readings))[-1])) for one in tests]


def at_level(corrected: Corrected, level: float) -> Corrected:
    """A test whose p is at most 5 % where it was at most `level`; its interval for new seeds is of that level."""
    new, difference = corrected.test.new, corrected.test.difference
    half = float(stdtrit(new.freedom, 1 - level / 2)) * new.error if new.error else 0.0
    new = replace(new, p=_weighted(new.p, level), ci95=(difference - half, difference + half))
    p_adjusted = _weighted(corrected.p_new_adjusted, level)
    return replace(corrected, test=replace(corrected.test, new=new), p_new_adjusted=p_adjusted)


def _weighted(p: float, level: float) -> float:
    """NaN stays NaN; at level 0 nothing is shown."""
    return p if math.isnan(p) else min(1.0, p * LEVEL / level) if level else 1.0


@dataclass(frozen=True)
class Inference:
    """What an ordering of the outcomes says: two-sided p, an interval, and the estimate that is too large as often as
    too small. p is below 1 - the interval's coverage exactly where that excludes 0."""

    p: float
    interval: tuple[float, float]
    median: float


def stagewise(
    difference: float, error: float, freedom: float, seeds: int, before: Mapping[int, float], level: float = LEVEL
) -> Inference:
    """What `seeds` seeds say of a difference that no earlier look has shown. before: the two-sided level of each of
    these looks, by its number of seeds; level: that which the interval belongs to.

    The interval holds each true difference under which both an outcome as far up as this one and one as far down have a
    chance of `level` / 2 or more; under the median both are equally likely.
    """
    if not before:
        half = float(stdtrit(freedom, 1 - level / 2)) * error
        p = float(student_p(difference, error, freedom))
        return Inference(p, (difference - half, difference + half), difference)
    sign = -1.0 if difference < 0 else 1.0
    beyond = _beyond(abs(difference) / error, freedom, seeds, before)
    low, median, high = np.interp(ndtri([level / 2, 0.5, 1 - level / 2]), ndtri(beyond), DRIFTS) * error
    at_zero = float(beyond[np.searchsorted(DRIFTS, 0.0)])
    ends = sorted((sign * float(low), sign * float(high)))
    return Inference(min(1.0, 2 * min(at_zero, 1 - at_zero)), (ends[0], ends[1]), sign * float(median))


def _beyond(t: float, freedom: float, seeds: int, before: Mapping[int, float]) -> np.ndarray:
    """For each of DRIFTS: the chance of an outcome as far up as this one, strictly rising, within (0, 1)."""
    halves = round(2 * math.log2(min(max(freedom / (seeds - 1), 0.5), 16)))  # each makes a walk of its own
    above, staying = _walked(seeds, tuple(before), tuple(before.values()), 2 ** (halves / 2))
    centred = -ndtri(stdtr(freedom, DRIFTS - t))
    place = np.clip((centred - COARSE[0]) / (COARSE[1] - COARSE[0]), 0, len(COARSE) - 1.001)
    whole, rows = place.astype(int), np.arange(len(DRIFTS))
    here = staying[rows, whole] + (place - whole) * (staying[rows, whole + 1] - staying[rows, whole])
    rising = np.maximum.accumulate(np.clip(above + here, 1e-15, 1 - 1e-15))
    return rising + np.linspace(-1e-16, 1e-16, len(DRIFTS))


@lru_cache(maxsize=256)
def _walked(
    seeds: int, looks: tuple[int, ...], levels: tuple[float, ...], ratio: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each of DRIFTS: the chance that one of the looks before `seeds` seeds shows a difference above 0; and the
    chances [D, W] that none shows any, and the deviate from the drift is then at least each of COARSE. `ratio`: degrees
    of freedom, for each seed but the first.

    The walk is that of the deviates from the drift, so that Student's distribution is exact where there is no look."""
    step, middle = COARSE[1] - COARSE[0], len(COARSE) // 2
    density = np.zeros((len(DRIFTS), len(COARSE)))
    density[:, middle] = 1.0
    above, past = np.zeros(len(DRIFTS)), 0.0
    for look, level, time in zip(looks, levels, _times(looks, seeds), strict=True):
        density, past = _onwards(density, time - past), time
        freedom, drift = ratio * (look - 1), DRIFTS * math.sqrt(look / seeds)
        needed = -stdtrit(freedom, level / 2)
        up = -ndtri(stdtr(freedom, drift - needed)) * math.sqrt(time)
        down = -ndtri(stdtr(freedom, drift + needed)) * math.sqrt(time)
        # of a cell that a bound divides, what lies beyond it
        over = np.clip((COARSE - up[:, None]) / step + 0.5, 0, 1)
        under = np.clip((down[:, None] - COARSE) / step + 0.5, 0, 1)
        above += (density * over).sum(axis=1)
        density = density * np.clip(1 - over - under, 0, 1)
    density = _onwards(density, 1 - past)
    return above, np.cumsum(density[:, ::-1], axis=1)[:, ::-1] - density / 2


def _onwards(density: np.ndarray, variance: float) -> np.ndarray:
    """Cells [D, W] of a walk after a step of this variance."""
    step = np.exp(-((COARSE - COARSE[0]) ** 2) / (2 * variance))
    return density @ toeplitz(step / (2 * step.sum() - step[0]))


def over_looks(
    by_look: Sequence[Sequence[Corrected]], most: int, readings: tuple[int, ...] = (), among: int = 1
) -> list[Corrected]:
    """The last tests with p-values, intervals and sizes for new seeds that hold over all looks. by_look: the tests
    after each number of seeds from the first look on, not corrected for anything; `readings`: as in `boundary`;
    `among`: how many configurations p will be corrected for.

    Where a difference was shown by an earlier look, while others went on, the looks from that one on do not count for
    it (Whitehead 1992, on overrunning)."""
    last, seeds = by_look[-1], FIRST_LOOK + len(by_look) - 1
    if readings and seeds <= readings[-1]:
        return at_reading(last, [one for one in readings if one < seeds] + [seeds])
    ended = [_ended([one.test for one in path], seeds, most, readings, among) for path in zip(*by_look, strict=True)]
    return [replace(one, test=test, p_new_adjusted=test.new.p) for one, test in zip(last, ended, strict=True)]


def _ended(path: Sequence[SeededTest], seeds: int, most: int, readings: tuple[int, ...], among: int) -> SeededTest:
    """The last test of a comparison, over its looks."""
    last, new = path[-1], path[-1].new
    if math.isnan(new.p) or not new.error:
        return last
    before: dict[int, float] = {}
    for look, one in zip(range(FIRST_LOOK, seeds), path, strict=False):
        if readings and look <= readings[-1]:
            continue
        level = boundary(look, most, readings) / among
        if one.new.p <= level:
            break
        before[look] = level
    found = stagewise(last.difference, new.error, new.freedom, seeds, before, budget(readings))
    p = _weighted(max(found.p, new.p), budget(readings))
    return replace(last, new=replace(new, p=p, ci95=found.interval, size=found.median))


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
class Look(LookResult):
    """What a look found. `hopeless`: labels of configurations that would hardly be shown to differ after all seeds."""

    hopeless: frozenset[str]

    @property
    def result(self) -> LookResult:
        """The look as the verdict has it."""
        return LookResult(**{name: value for name, value in vars(self).items() if name != "hopeless"})

    def in_words(self) -> str:
        """The look in a line for the terminal."""
        p = "no test, for all differences are equal" if math.isnan(self.p_new) else f"p = {self.p_new:.2g}"
        figures = f"'{self.label}' - '{self.against}' {self.difference:+.4f}, {p}, stops at {self.boundary:.2g} or less"
        return f"interim analysis after {self.seeds} seeds: {figures}: {self.decision}"


def look_at(
    opposed: Mapping[str, Opposed],
    recommended: str,
    queries: int,
    seeds: int,
    most: int,
    readings: tuple[int, ...] = (),
) -> Look:
    """Decides after `seeds` of `most` seeds whether to go on. `opposed`: the tests of each configuration, corrected for
    the configurations but not for the looks; `recommended`: the label of the best on dev; `readings`: as in
    `boundary`."""
    at, last = boundary(seeds, most, readings), boundary(most, most, readings)
    whole = {
        label: replace(one, tests={opponent: at_level(test, at) for opponent, test in one.tests.items()})
        for label, one in opposed.items()
    }
    verdict = verdict_on(whole, recommended)
    decided = not readings or seeds >= readings[-1]  # with fewer seeds there was a verdict
    hopeless = frozenset(
        label
        for label, one in opposed.items()
        if decided and _is_hopeless(one, label == recommended, queries, seeds, most, last)
    )
    if verdict == "better" or seeds == most:
        decision = verdict
    elif verdict == "worse":  # of the recommended one; another one may still be better
        decision = verdict if hopeless | {recommended} == opposed.keys() else "continue"
    else:
        decision = "hopeless" if len(hopeless) == len(opposed) else "continue"
    first = leader_of(whole)  # the one that the decision is about
    if verdict != "better":
        first = min(opposed, key=lambda label: p_of(opposed[label].tests[opposed[label].least_favourable]))
    against = opposed[first].least_favourable
    top = opposed[first].tests[against]
    return Look(seeds, first, against, top.test.difference, top.p_new_adjusted, at, decision, hopeless)


def _is_hopeless(opposed: Opposed, recommended: bool, queries: int, seeds: int, most: int, level: float) -> bool:
    """Whether some opponent can hardly be beaten any more; of the recommended configuration, whether it can hardly be
    shown to be worse either. `level`: of the last look."""
    tests = opposed.tests
    if any(math.isnan(one.test.new.p) for one in tests.values()):
        return False
    chances = {
        label: conditional_power(np.array(one.test.difference), one.test.new.components, queries, seeds, most, level)
        for label, one in tests.items()
    }
    better = min(float(above) for above, _ in chances.values())
    worse = min(float(chances[label][1]) for label in opposed.decide_harm) if recommended else 0.0
    return max(better, worse) < LEAST_POWER
