"""What curricula change, over all matched pairs: the mean effect, how much true effects differ, and which values help.

A pair is a training with a curriculum and its twin without. No winner is chosen, so nothing here is flattered by
selection.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, chndtr, ndtri, stdtrit

from trainables.core.randomness import generator
from trainables.evaluation.crossed import TINY, mean_squares
from trainables.evaluation.significance import LEVEL, clustered
from tune_cl.results import TEST_SEEDS, BestEffect, Effects, Interval, ValueEffect

NO_ERROR = 1e-7  # of the sum of squares: less than this
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
RESAMPLES, TAIL, FEWEST_DRAWN = 4000, 0.01, 6  # of the bootstrap of the mean: samples, either side, pairs
QUANTILES = (np.arange(50) + 0.5) / 50  # by which a distribution is averaged over
DRAWS = 500  # of the variances of values
WIDEST = 3.0  # SDs of the observed effects that a true SD may have
DISTINCT = 4  # a numeric key with more values is cut into bins
PER_BIN = 4  # pairs at least, where there are enough for two bins
GRID, STEPS = 200, 500  # of the distribution of true effects
MANY = 100  # further curricula, of whose best the gain is estimated
SURE = 2.8  # standard errors that a test finds with a power of .8


@dataclass(frozen=True)
class SeedNoise:
    """How much a difference varies between seeds, where that is known from other trainings: variance and degrees of
    freedom."""

    variance: float
    freedom: int


@dataclass(frozen=True)
class _Noise:
    """The error of a pair's mean difference that is not its true effect: variance and degrees of freedom; that of one
    seed; how pairs share it."""

    variance: float
    freedom: float
    of_seed: float
    shared: np.ndarray


def effects_of(
    trials: Sequence[str],
    differences: np.ndarray,
    twins: Sequence[Hashable],
    settings: Sequence[Mapping[str, Any]],
    known: SeedNoise | None = None,
    clusters: Sequence[int] | np.ndarray | None = None,
    bootstrap: bool = True,
) -> Effects:
    """Effects of P pairs: their trials, differences [P, S] or [P, S, Q] (seeds, queries; curriculum minus twin), and
    their values by key. Curricula, seeds and queries are crossed samples.

    Pairs with the same twin share its error. `known`: for one seed, whose variance the differences do not show.
    `clusters`: of near-duplicate queries, as in `clustered`. `bootstrap`: false for Student's interval of the mean, in
    proportion to its standard error, which pooling needs. Raises ValueError for fewer than two pairs.
    """
    if len(trials) < 2:
        raise ValueError(f"effects need 2 or more pairs, not {len(trials)}")
    cube = _by_query(np.round(np.asarray(differences, np.float64), 12), clusters)
    means, sizes = cube.mean(axis=(1, 2)), {"pairs": len(trials), "seeds": cube.shape[1]}
    if not cube.any():
        return _nothing(sizes, settings)
    shared = shared_error(twins)
    whitened, spread = _contrasts(shared)
    noise = _noise(np.tensordot(whitened, cube, 1), shared, known)
    mean, interval, common = _mean(cube, noise, bootstrap)
    by_value = _by_value(means, settings, noise, common)
    observed = Effects(**sizes, mean=mean, ci95=interval, sd_pairs=float(means.std(ddof=1)), by_value=by_value)
    if noise is None:
        return observed
    sd_true, ends = _true_sd(whitened @ means, spread, noise)
    true = {"sd_true": sd_true, "sd_true_ci95": ends, "sd_seeds": math.sqrt(noise.of_seed)}
    return observed.model_copy(update=true | _of_best(trials, means, noise, cube.shape[1]))


def _nothing(sizes: Mapping[str, int], settings: Sequence[Mapping[str, Any]]) -> Effects:
    """Effects of curricula that change no value: exactly 0."""
    zero = (0.0, 0.0)
    values = tuple(
        ValueEffect(key=key, value=value, effect=0.0, ci95=zero, pairs=len(rows))
        for key, value, rows in _groups(settings)
    )
    none = {"mean": 0.0, "ci95": zero, "sd_pairs": 0.0, "sd_true": 0.0, "sd_true_ci95": zero, "sd_seeds": 0.0}
    return Effects(**sizes, **none, by_value=values, most=0.0, worth_finding=0.0)


def _of_best(trials: Sequence[str], means: np.ndarray, noise: _Noise, seeds: int) -> dict[str, Any]:
    """The curriculum with the largest expected effect; what the best of MANY more is expected to gain; and the
    probability that any of these pairs gains more than a test with TEST_SEEDS seeds would find."""
    grid, weights, posterior = true_effects(means, math.sqrt(noise.variance))
    expected = posterior @ grid
    best = int(expected.argmax())
    below = np.cumsum(weights) ** MANY
    of_queries = max(0.0, noise.variance - noise.of_seed / seeds)
    found = SURE * math.sqrt(noise.of_seed / TEST_SEEDS + of_queries)
    above = posterior[:, grid > found].sum(axis=1).clip(0, 1)
    return {
        "best": BestEffect(trial_id=trials[best], gain=float(expected[best])),
        "most": float(np.diff(below, prepend=0.0) @ grid),
        "worth_finding": 1 - float(np.prod(1 - above)),
    }


def true_effects(differences: np.ndarray, error_sd: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distribution of the true effects of pairs: a grid of effects [G], its weights [G], and for each pair the
    probabilities of these effects [P, G], from differences [P] with independent normal errors.

    It is the distribution of the largest likelihood, of whatever form (Kiefer & Wolfowitz 1956, by EM), between the
    smallest and the largest difference: a normal one would take a few harmful curricula for a chance of as large gains.
    """
    grid = np.linspace(differences.min(), differences.max(), GRID)
    likelihood = np.exp(-(((differences[:, None] - grid) / max(error_sd, TINY)) ** 2) / 2) + 1e-300
    weights = np.full(GRID, 1 / GRID)
    for _ in range(STEPS):
        weights *= (1 / (likelihood @ weights)) @ likelihood / len(differences)
    posterior = likelihood * weights
    return grid, weights / weights.sum(), posterior / posterior.sum(axis=1, keepdims=True)


def _by_query(differences: np.ndarray, clusters: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Differences as [P, S, Q], near-duplicate queries as one; Q is 1 for values that are means already."""
    if differences.ndim == 2:
        return differences[:, :, None]
    pairs, seeds, queries = differences.shape
    return clustered(differences.reshape(-1, queries), clusters).reshape(pairs, seeds, -1)


def shared_error(twins: Sequence[Hashable]) -> np.ndarray:
    """Correlation of the pairs' errors, [P, P]: a curriculum and its twin vary alike by themselves, so two pairs with
    the same twin share half of the variance of a difference."""
    same = np.array([[one == other for other in twins] for one in twins], float)
    return (np.eye(len(twins)) + same) / 2


def _contrasts(shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contrasts [P - 1, P] of pairs whose errors are independent and as large as that of one pair; and the variance
    that true effects of variance 1 have in each."""
    pairs = len(shared)
    basis = np.linalg.svd(np.full((1, pairs), 1.0))[2][1:]
    whitened = np.linalg.solve(np.linalg.cholesky(basis @ shared @ basis.T), basis)
    spread, turned = np.linalg.eigh(whitened @ whitened.T)
    return turned.T @ whitened, spread


def _noise(contrasts: np.ndarray, shared: np.ndarray, known: SeedNoise | None) -> _Noise | None:
    """From contrasts [P - 1, S, Q]; None for one seed of unknown variance.

    The error of a mean contains the mean square of pairs by seeds, that of pairs by queries, less the residual's, which
    is in both (Clark 1973).
    """
    rows, seeds, queries = contrasts.shape
    if seeds == 1 and known is None:
        return None
    of_queries = 0.0
    if seeds == 1 and queries > 1:
        of_queries = float(contrasts.var(axis=2, ddof=1).mean())
    if seeds == 1 and known is not None:
        whole = known.variance + of_queries / queries
        freedom = known.freedom * max(whole, TINY) / max(known.variance, TINY)  # both 0 where the seed changes nothing
        return _Noise(whole, min(freedom, rows * max(queries - 1, 1) + known.freedom), known.variance, shared)
    if queries == 1:
        of_seed = float(contrasts[..., 0].var(axis=1, ddof=1).mean())
        return _Noise(of_seed / seeds, rows * (seeds - 1), of_seed, shared)
    squares = np.array([mean_squares(contrast) for contrast in contrasts]).mean(axis=0)
    of_seed, of_query, residual = (float(square) for square in squares)
    whole = max(of_seed, of_query, of_seed + of_query - residual)
    freedom = min(rows * (seeds - 1) * whole / max(of_seed, TINY), rows * (queries - 1))
    return _Noise(whole / (seeds * queries), freedom, of_seed / queries, shared)


def _mean(cube: np.ndarray, noise: _Noise | None, bootstrap: bool) -> tuple[float, Interval, float]:
    """The mean effect, its interval, and the variance that all pairs have in common.

    The variance between pairs contains true effects and errors; what pairs share adds to it: the error of a common
    twin, and how seeds and queries move all pairs at once. Student's t, degrees of freedom as Satterthwaite (1946), and
    further where a bootstrap of the pairs is (`_excess`).
    """
    pairs, means = len(cube), cube.mean(axis=(1, 2))
    mean, between = float(cube.mean()), float(means.var(ddof=1)) / pairs
    parts = [(between, pairs - 1.0)]
    if noise is not None:
        together = float(noise.shared.mean())
        apart = (1 - together) / (pairs - 1)  # of this, the variance between pairs knows
        parts.append((noise.variance * (together - apart), noise.freedom))
    common = _common(cube, noise)
    parts += common
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / max(sum(part**2 / free for part, free in parts), TINY**2)
    half = float(stdtrit(freedom, TAILS[1])) * math.sqrt(variance) if variance else 0.0
    excess = _excess(means) if bootstrap else (0.0, 0.0)
    below, above = (math.sqrt(half**2 + between * one) for one in excess)
    return mean, (mean - below, mean + above), sum(part for part, _ in common)


def _excess(means: np.ndarray) -> tuple[float, float]:
    """By how much t squared, below and above the mean of pairs [P], exceeds Student's: few pairs know little of a tail.
    t is from a bootstrap (Hall 1988), at a level that nearly holds in docs/dev/effects-simulations.md."""
    centred, pairs = means - means.mean(), len(means)
    if pairs < FEWEST_DRAWN:
        return 0.0, 0.0
    drawn = centred[generator(0, "mean effect", pairs).integers(pairs, size=(RESAMPLES, pairs))]
    drawn = drawn[np.ptp(drawn, axis=1) > 0]
    if not len(drawn):
        return 0.0, 0.0
    t = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / math.sqrt(pairs))
    student = float(stdtrit(pairs - 1, TAILS[1]))
    low, high = (max(student, abs(float(end))) for end in np.quantile(t, (TAIL, 1 - TAIL)))
    return high**2 - student**2, low**2 - student**2


def _common(cube: np.ndarray, noise: _Noise | None) -> list[tuple[float, float]]:
    """Variance of the mean, and its degrees of freedom, by which seeds, and by which queries, move all pairs at once:
    the excess over what the pairs' own errors explain."""
    pairs, seeds, queries = cube.shape
    together = float(noise.shared.mean()) if noise else 1 / pairs
    parts = []
    if noise and seeds > 1:
        of_seed = float(cube.mean(axis=(0, 2)).var(ddof=1))
        parts.append((max(0.0, of_seed - noise.of_seed * together) / seeds, seeds - 1.0))
    if queries > 1:
        by_query = cube.mean(axis=1)
        centred = by_query - by_query.mean(axis=0)
        of_query, of_each = (
            float(by_query.mean(axis=0).var(ddof=1)),
            float(centred.var(axis=1, ddof=1).sum()) / (pairs - 1),
        )
        share = together if noise is None else together * (pairs - 1) / (pairs * (1 - together))
        parts.append((max(0.0, of_query - of_each * share) / queries, queries - 1.0))
    return parts


def _true_sd(rows: np.ndarray, spread: np.ndarray, noise: _Noise) -> tuple[float, Interval]:
    """Standard deviation of the true effects of these pairs, and its interval, from contrasts rows [P - 1] in which
    true effects of variance 1 have variance `spread`.

    True effects are fixed: their sum of squares over the error's is that of a noncentral chi-squared distribution,
    whatever their own distribution is (a few pairs say little of the tail that others may have). Estimate and interval
    are averaged over what the degrees of freedom of the error leave open of it.
    """
    count, total = len(rows), float((rows**2).sum())
    open_factor = noise.freedom / chdtri(noise.freedom, QUANTILES)
    estimate = np.sqrt(np.maximum(total - count * noise.variance * open_factor, 0.0) / spread.sum()).mean()
    possible = max(noise.variance, NO_ERROR * total) * open_factor

    def surplus(variance: float, tail: float) -> float:
        """How sure it is that the variance is at most this, less `tail`."""
        return float((1 - chndtr(total / possible, count, variance * spread.sum() / possible)).mean()) - tail

    ends = []
    for tail in TAILS:
        high = total / spread.sum()
        while surplus(high, tail) < 0:
            high *= 2
        ends.append(brentq(surplus, 0.0, high, (tail,)) if surplus(0.0, tail) < 0 else 0.0)
    return float(estimate), (math.sqrt(ends[0]), math.sqrt(ends[1]))


Group = tuple[str, Any, list[int]]  # a key, its value or range, the pairs that have it


def _groups(settings: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Pairs by the values of each key that has several."""
    keys = dict.fromkeys(key for values in settings for key in values)
    groups: list[Group] = []
    for key in keys:
        having = {place: values[key] for place, values in enumerate(settings) if key in values}
        named = _binned(having)
        kinds = sorted(set(named.values()), key=lambda name: min(p for p in named if named[p] == name))
        if len(kinds) > 1 or len(having) < len(settings):
            groups += [(key, kind, [place for place in named if named[place] == kind]) for kind in kinds]
    return groups


def _binned(having: Mapping[int, Any]) -> dict[int, Any]:
    """A name for each pair's value: itself, or the range of its bin for a number with many values."""
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in having.values())
    if not numeric or len(set(having.values())) <= DISTINCT:
        return {place: f"{value}" if isinstance(value, float) and math.isinf(value) else _plain(value)
                for place, value in having.items()}  # fmt: skip
    ordered = sorted(having, key=lambda place: having[place])
    bins = np.array_split(ordered, min(3, max(2, len(ordered) // PER_BIN)))
    return {
        int(place): f"{having[part[0]]:.3g} to {having[part[-1]]:.3g}" for part in bins for place in part if len(part)
    }


def _plain(value: Any) -> Any:
    """A value that is equal to itself and can be a key."""
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _by_value(
    means: np.ndarray, settings: Sequence[Mapping[str, Any]], noise: _Noise | None, common: float
) -> tuple[ValueEffect, ...]:
    """The mean effect of each value of each key, by an additive mixed model: a pair's effect is the mean, plus a random
    effect for each of its values, plus its own. Other keys have the values that they have in the pairs with this key.

    How the variance divides among keys is unknown: draws of it (the SD even between 0 and WIDEST times the observed
    one, its parts Dirichlet with 1/2) count as much as the pairs' restricted likelihood says.
    """
    groups, pairs = _groups(settings), len(means)
    if not groups:
        return ()
    keys = list(dict.fromkeys(key for key, _, _ in groups))
    members = np.zeros((len(groups), pairs))
    for row, (_, _, places) in enumerate(groups):
        members[row, places] = 1
    of_key = np.array([keys.index(key) for key, _, _ in groups])
    rng = generator(0, "effects", pairs, len(keys))
    total = (WIDEST * float(means.std(ddof=1)) * rng.uniform(size=DRAWS)) ** 2
    variances = total[:, None] * rng.dirichlet([0.5] * (len(keys) + 1), DRAWS)  # [D, keys and the rest]
    error = np.zeros((pairs, pairs)) if noise is None else noise.shared
    scale = 1.0 if noise is None else noise.variance * noise.freedom / rng.chisquare(noise.freedom, DRAWS)
    prior = variances[:, of_key]  # [D, values]
    covariance = (members.T * prior[:, None, :]) @ members
    covariance += (variances[:, -1, None, None] + max(TINY**2, 1e-9 * float(means.var()))) * np.eye(pairs)
    covariance += np.broadcast_to(scale, (DRAWS,))[:, None, None] * error
    inverse = np.linalg.inv(covariance)
    ones = inverse.sum(axis=2)  # [D, P]
    precision = ones.sum(axis=1)
    centre = (ones @ means) / precision
    residual = means - centre[:, None]
    solved = (inverse @ residual[:, :, None])[..., 0]
    likelihood = -0.5 * (np.linalg.slogdet(covariance)[1] + np.log(precision) + (residual * solved).sum(axis=1))
    weight = np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    others = _others(groups, members)
    linked = (others * prior[:, None, :]) @ members  # [D, values, P]: covariance of a value's effect with the pairs'
    effect = centre[:, None] + (linked @ solved[:, :, None])[..., 0]
    of_mean = (1 - (linked @ ones[:, :, None])[..., 0]) ** 2 / precision[:, None]
    spread = prior @ (others**2).T - ((linked @ inverse) * linked).sum(axis=2) + of_mean + common
    middle = weight @ effect
    half = np.sqrt(weight @ (spread + (effect - middle) ** 2)) * float(ndtri(TAILS[1]))
    return tuple(
        ValueEffect(
            key=key, value=value, effect=float(at), ci95=(float(at - width), float(at + width)), pairs=len(places)
        )
        for (key, value, places), at, width in zip(groups, middle, half, strict=True)
    )


def _others(groups: Sequence[Group], members: np.ndarray) -> np.ndarray:
    """Weights [G, G] of all values in the effect of each: 1 for itself, and for those of other keys the fraction of the
    pairs that have them, among the pairs that have the key."""
    weights = np.eye(len(groups))
    for row, (key, _, _) in enumerate(groups):
        same = np.array([other == key for other, _, _ in groups])
        having = members[same].sum(axis=0) > 0
        weights[row, ~same] = members[~same][:, having].mean(axis=1)
    return weights
