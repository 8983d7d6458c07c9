"""Which configurations of a confirmation can still win (`confirm --race`), decided on dev alone.

All configurations are judged on the same dev queries with the same seeds, so only the seeds still to come leave open
what the full design would find. Pure functions of dev values.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

LEAST = 0.05  # a smaller chance than this is not worth a training
FEWEST = 2  # seeds that all get: one tells nothing about how much seeds matter


def chances(dev: np.ndarray, total: int) -> np.ndarray:
    """Each configuration's chance to end above the present leader after `total` seeds, float64 [C]; the leader's is 1.

    dev: [1 + C, n], mean over queries by configuration and seed, the baseline in row 0, FEWEST <= n <= total. The
    difference between two rows varies between seeds with twice the residual variance of the rows x seeds table,
    estimated over all rows; its mean over the seeds to come is predicted from that over the seeds seen (a
    t-distribution).
    """
    rows, seen = dev.shape
    means = dev[1:].mean(axis=1)
    behind = means.max() - means
    if seen == total:
        return (behind == 0).astype(np.float64)
    rest = dev - dev.mean(axis=1, keepdims=True) - dev.mean(axis=0) + dev.mean()
    freedom = (rows - 1) * (seen - 1)
    variance = 2 * float((rest**2).sum()) / freedom * (1 / seen + 1 / (total - seen))
    spread = (total - seen) / total * np.sqrt(variance)
    t = np.divide(-behind, spread, out=np.where(behind > 0, -np.inf, 0.0), where=spread > 0)
    return np.where(behind > 0, stdtr(freedom, t), 1.0)


def survivors(dev: np.ndarray, total: int) -> np.ndarray:
    """Which configurations get another seed, bool [C]; `dev` and `total` as in `chances`."""
    if dev.shape[1] < FEWEST:
        return np.ones(len(dev) - 1, bool)
    return chances(dev, total) >= LEAST
