"""Paired tests over queries and seeds, and corrections for testing several systems at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from trainables.core.randomness import generator
from trainables.core.registry import Entry, Registry

LEVEL = 0.95  # of intervals
RESAMPLES = 10_000
VALUES_A_CHUNK = 2**22  # drawn at a time by a bootstrap: 32 MB


@dataclass(frozen=True)
class PairedTest:
    """Two-sided paired t-test; `ci95` is of the mean difference. Equal differences other than 0 make `t` infinite and p
    0, as in every program: `seeded_test`, which verdicts are made of, takes that for no proof."""

    difference: float
    t: float
    p: float
    ci95: tuple[float, float]


def paired_t_test(values: np.ndarray, reference: np.ndarray) -> PairedTest:
    """Tests mean(values - reference) = 0; both [Q], paired by position, Q at least 2 (Student 1908).

    Differences that are all zero give t = 0 and p = 1.
    """
    values, reference = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    if values.shape != reference.shape or values.ndim != 1 or len(values) < 2:
        shapes = f"{values.shape} and {reference.shape}"
        raise ValueError(f"a paired t-test needs two equally long series of 2 or more values, not {shapes}")
    differences = np.round(values - reference, 12)  # equal means summed in another order differ by rounding
    mean, error, count = float(differences.mean()), _error(differences), len(differences)
    without_spread = math.copysign(math.inf, mean) if mean else 0.0
    t = mean / error if error else without_spread
    half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * error
    return PairedTest(mean, t, float(2 * stdtr(count - 1, -abs(t))), (mean - half, mean + half))


def _error(values: np.ndarray) -> float:
    """Standard error of the mean of values [N]: exactly 0 if all are equal, not roughly."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if np.ptp(values) else 0.0


def _p(mean: float, error: float, count: int) -> float:
    """Two-sided p of Student's t on count - 1 degrees of freedom. Equal differences show no error to divide by; random
    signs (Fisher 1935) would make all of them alike in 2 of 2^count cases."""
    if error == 0:
        return 2.0 ** (1 - count) if mean else 1.0
    return float(2 * stdtr(count - 1, -abs(mean / error)))


@dataclass(frozen=True)
class SeededTest:
    """One configuration against the reference, each with the same N seeds on the same Q queries.

    p_per_seed  paired t-test over queries at each seed (Penha & Hauff 2020, Table 5)
    p_value     paired t-test over queries on the query means over seeds: applies to these very seeds on new queries;
                where all differences are equal, that of random signs
    p_both      seeds and queries both as samples: applies to new seeds on new queries; NaN for one seed; p_value where
                the seed changes nothing
    """

    difference: float
    p_per_seed: tuple[float, ...]
    p_value: float
    p_both: float


def seeded_test(values: np.ndarray, reference: np.ndarray, seed_matters: bool = True) -> SeededTest:
    """Tests mean(values - reference) = 0; both [N, Q], row i of both trained with the same seed, Q at least 2.

    `seed_matters`: False if all seeds give the same training: N copies tell no more of new seeds than one.
    """
    over_queries = paired_t_test(values.mean(axis=0), reference.mean(axis=0))
    equal = math.isinf(over_queries.t)
    p_value = _p(over_queries.difference, 0.0, values.shape[1]) if equal else over_queries.p
    per_seed = tuple(paired_t_test(*pair).p for pair in zip(values, reference, strict=True))
    p_both = _over_both(values - reference) if seed_matters else p_value
    return SeededTest(over_queries.difference, per_seed, p_value, p_both)


def _over_both(differences: np.ndarray) -> float:
    """p-value of the mean of differences [N, Q], with seeds and queries both as random samples; NaN for one seed.

    Crossed random effects (Clark 1973): the squared error of the mean is that over queries plus that over seeds minus
    the residual's, which both contain, but at least as large as either. The degrees of freedom are the smaller
    sample's: Satterthwaite's are too many when a few seeds happen to lie close together.
    """
    if len(differences) < 2:
        return math.nan
    means = differences.mean(axis=0), differences.mean(axis=1), differences.mean()
    of_query, of_seed, mean = (np.round(each, 12) for each in means)  # as in `paired_t_test`
    rest = differences - of_query - of_seed[:, None] + mean
    freedom = (len(of_seed) - 1) * (len(of_query) - 1)
    residual = float((rest**2).sum()) / freedom / differences.size
    errors = [_error(of_query) ** 2, _error(of_seed) ** 2]
    return _p(float(mean), math.sqrt(max(*errors, sum(errors) - residual)), min(differences.shape))


def bootstrap_ci(differences: np.ndarray, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Symmetric 95 % bootstrap-t interval (Hall 1988) of the mean of differences [Q], Q at least 2. It is never
    narrower than Student's, so it excludes 0 only where the paired t-test does too. Each call gives the same numbers;
    equal differences give an interval of no width, or [-1, 1] if there are fewer than 6 and they are not 0.

    BCa would miss the true mean twice as often as it claims if half of the differences are 0 and the rest have long
    tails (docs/verdict.md).
    """
    values = np.round(np.asarray(differences, np.float64), 12)
    mean = float(values.mean())
    error = _error(values)
    if error == 0:  # metrics lie in [0, 1], so their differences in [-1, 1]
        return (-1.0, 1.0) if mean and _p(mean, error, len(values)) > 1 - LEVEL else (mean, mean)
    furthest = np.quantile(_resampled_t(values - mean, resamples), LEVEL, method="higher")
    half = max(float(furthest), float(stdtrit(len(values) - 1, (1 + LEVEL) / 2))) * error
    return mean - half, mean + half


def _resampled_t(deviations: np.ndarray, resamples: int) -> np.ndarray:
    """|t| of `resamples` samples drawn with replacement from deviations [Q] whose mean is 0; samples without any spread
    are left out."""
    rng, count = generator(0, "bootstrap"), len(deviations)
    rows = max(1, VALUES_A_CHUNK // count)
    found = [np.zeros(0)]
    for start in range(0, resamples, rows):
        drawn = deviations[rng.integers(count, size=(min(rows, resamples - start), count))]
        errors, means = drawn.std(axis=1, ddof=1) / math.sqrt(count), drawn.mean(axis=1)
        spread = np.ptp(drawn, axis=1) > 0
        found.append(np.abs(means[spread]) / errors[spread])
    return np.concatenate(found)


def holm(p: np.ndarray) -> np.ndarray:
    """Step-down: the i-th smallest of m p-values times m - i + 1, made monotone (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _undo(stepped, order)


def bonferroni(p: np.ndarray) -> np.ndarray:
    """Each p-value times their number (Dunn 1961)."""
    return np.minimum(p * len(p), 1.0)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """False discovery rate: the i-th smallest of m p-values times m / i, made monotone (Benjamini & Hochberg 1995)."""
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (len(p) / np.arange(1, len(p) + 1))
    return _undo(np.minimum.accumulate(scaled[::-1])[::-1], order)


def uncorrected(p: np.ndarray) -> np.ndarray:
    return p.copy()


def _undo(stepped: np.ndarray, order: np.ndarray) -> np.ndarray:
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


FALSE_DISCOVERY = "false discovery rate, step-up", "Benjamini & Hochberg 1995"
CORRECTIONS: Registry[Callable[[np.ndarray], np.ndarray]] = Registry(
    "correction",
    Entry("holm", holm, "family-wise error, step-down; never weaker than bonferroni", "Holm 1979"),
    Entry("bonferroni", bonferroni, "family-wise error, every p-value times their number", "Dunn 1961"),
    Entry("bh", benjamini_hochberg, *FALSE_DISCOVERY),
    Entry("benjamini-hochberg", benjamini_hochberg, *FALSE_DISCOVERY),
    Entry("none", uncorrected, "p-values as they are", ""),
)


def adjust(p_values: np.ndarray | list[float], correction: str = "holm") -> np.ndarray:
    """Adjusted p-values in the order given, float64 [m]. Raises ConfigError for an unknown correction."""
    p = np.asarray(p_values, np.float64)
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"p-values outside [0, 1]: {p}")
    return CORRECTIONS[correction](p)
