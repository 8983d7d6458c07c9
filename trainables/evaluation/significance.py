"""Paired tests over queries, their intervals, and the correction for testing several systems at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from trainables.core.randomness import generator

LEVEL = 0.95  # of intervals
RESAMPLES = 10_000
VALUES_A_CHUNK = 2**22  # drawn at a time by a bootstrap: 32 MB


@dataclass(frozen=True)
class PairedTest:
    """Two-sided paired t-test; `ci95` is of the mean difference. Equal differences other than 0 make `t` infinite and p
    0, as in every program: `crossed.these_seeds_test`, which verdicts are made of, does not accept that as proof."""

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
    mean, error, count = float(differences.mean()), standard_error(differences), len(differences)
    without_spread = math.copysign(math.inf, mean) if mean else 0.0
    t = mean / error if error else without_spread
    half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * error
    return PairedTest(mean, t, float(2 * stdtr(count - 1, -abs(t))), (mean - half, mean + half))


def standard_error(values: np.ndarray) -> float:
    """Of the mean of values [N]: exactly 0 if all are equal, not roughly."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if np.ptp(values) else 0.0


def random_signs_p(count: int) -> float:
    """Two-sided p of `count` equal differences, which show no error to divide by: random signs (Fisher 1935) would make
    all of them alike in 2 of 2^count cases."""
    return 2.0 ** (1 - count)


def bootstrap_ci(differences: np.ndarray, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Symmetric 95 % bootstrap-t interval (Hall 1988) of the mean of differences [Q], Q at least 2. It is never
    narrower than Student's, so it excludes 0 only where the paired t-test does too. Each call gives the same numbers;
    equal differences give an interval of no width, or [-1, 1] if there are fewer than 6 and they are not 0.

    BCa would miss the true mean twice as often as it claims if half of the differences are 0 and the rest have long
    tails (docs/dev/verdict-simulations.md).
    """
    values = np.round(np.asarray(differences, np.float64), 12)
    mean = float(values.mean())
    error = standard_error(values)
    if error == 0:  # metrics lie in [0, 1], so their differences in [-1, 1]
        return (-1.0, 1.0) if mean and random_signs_p(len(values)) > 1 - LEVEL else (mean, mean)
    furthest = np.quantile(np.abs(resampled_t(values - mean, resamples)), LEVEL, method="higher")
    half = max(float(furthest), float(stdtrit(len(values) - 1, (1 + LEVEL) / 2))) * error
    return mean - half, mean + half


def resampled_t(deviations: np.ndarray, resamples: int) -> np.ndarray:
    """t of `resamples` samples drawn with replacement from deviations [Q] whose mean is 0; samples without any spread
    are left out."""
    rng, count = generator(0, "bootstrap"), len(deviations)
    rows = max(1, VALUES_A_CHUNK // count)
    values = [np.zeros(0)]
    for start in range(0, resamples, rows):
        drawn = deviations[rng.integers(count, size=(min(rows, resamples - start), count))]
        errors, means = drawn.std(axis=1, ddof=1) / math.sqrt(count), drawn.mean(axis=1)
        spread = np.ptp(drawn, axis=1) > 0
        values.append(means[spread] / errors[spread])
    return np.concatenate(values)


def clustered(values: np.ndarray, clusters: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Values [N, Q] of queries as values [N, G] of their clusters, with the same mean: near-duplicates count as one.
    `clusters`: a number for each query; None: each its own cluster.

    A cluster's value is the sum of its queries' deviations from the mean, times G / Q (Liang & Zeger 1986), so that
    unequal sizes do no harm.
    """
    kinds, places = np.unique(np.arange(values.shape[1]) if clusters is None else clusters, return_inverse=True)
    if len(kinds) == values.shape[1]:
        return values
    mean = values.mean(axis=1, keepdims=True)
    sums = np.array([np.bincount(places, row) for row in values - mean])
    return mean + sums * (len(kinds) / values.shape[1])


def holm(p: np.ndarray) -> np.ndarray:
    """Corrected p-values [m], step-down: the i-th smallest of m p-values times m - i + 1, made monotone (Holm 1979)."""
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
