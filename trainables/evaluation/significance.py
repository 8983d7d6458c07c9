"""Paired tests over queries, and corrections for testing several systems at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from trainables.registry import Entry, Registry


@dataclass(frozen=True)
class PairedTest:
    """Two-sided paired t-test; `ci95` holds the mean difference. `t` is infinite if all differences are equal."""

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
    differences = values - reference
    mean, freedom = float(differences.mean()), len(differences) - 1
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    t = _t(mean, error)
    half = float(stdtrit(freedom, 0.975)) * error
    return PairedTest(mean, t, float(2 * stdtr(freedom, -abs(t))), (mean - half, mean + half))


def _t(mean: float, error: float) -> float:
    if error == 0:
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / error


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
