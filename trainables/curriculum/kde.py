"""Cumulative kernel density of each query's scores: a heuristic of MacAvaney et al. (2020), for all queries at once.

F(x) = mean_j Φ((x - s_j) / h), with Scott's bandwidth h = n^(-1/5) · sd (ddof 1), as in scipy.stats.gaussian_kde.
Evaluated at a query's own n scores, that is n² terms. Here the scores are spread over a grid much finer than h, the
grid is convolved with Φ, and the result is read off at the scores: n terms. In effect, Φ is replaced twice by its
cubic interpolation; the error is below ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

NODES = 32  # per bandwidth
ERROR = 1e-7  # 2 · max|Φ''''| · 9/16 / 4! / NODES⁴, rounded up
CELLS = 1 << 22  # of all grids held at a time
REACH = 3  # nodes that an interpolation needs beyond the last whole one


def cumulated(value: np.ndarray, owner: np.ndarray, groups: int) -> np.ndarray:
    """F at each value, float64 [N].

    value   float64 [N], scaled so that the values of each group run from 0 to 1 (both occur)
    owner   int64 [N], ascending: the group of each value
    groups  number of groups
    """
    grid = value / bandwidth(value, owner, groups)[owner] * NODES
    widths = np.zeros(groups, np.int64)
    np.maximum.at(widths, owner, grid.astype(np.int64) + REACH)
    found = np.empty(len(value))
    for first, last in _chunks(widths):
        rows = slice(*np.searchsorted(owner, [first, last]))
        found[rows] = _smoothed(grid[rows], owner[rows] - first, last - first)
    return found


def bandwidth(value: np.ndarray, owner: np.ndarray, groups: int) -> np.ndarray:
    """Scott's h of each group, float64 [groups]; NaN for groups of fewer than two values."""
    sizes = np.bincount(owner, minlength=groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(owner, value, groups) / sizes
        variance = np.bincount(owner, (value - mean[owner]) ** 2, groups) / (sizes - 1)
        return np.sqrt(variance) * sizes ** (-1 / 5)


def _smoothed(grid: np.ndarray, owner: np.ndarray, groups: int) -> np.ndarray:
    """Means of Φ over each group, at the group's own positions `grid` (in nodes)."""
    from scipy.signal import fftconvolve  # here: it takes a second, and naming a weighting imports this module

    node = grid.astype(np.int64)
    width = int(node.max()) + REACH + 1
    shares = _cubic(grid - node)
    cells = owner * width + node
    spread = sum(np.bincount(cells + k, share, groups * width) for k, share in enumerate(shares))
    kernel = ndtr(np.arange(1 - width, width) / NODES)
    smooth = fftconvolve(np.reshape(spread, (groups, width)), kernel[None], axes=1)[:, width - 1 : 2 * width - 1]
    values = smooth.ravel()
    return sum(share * values[cells + k] for k, share in enumerate(shares)) / np.bincount(owner)[owner]


def _cubic(t: np.ndarray) -> list[np.ndarray]:
    """Lagrange weights of the nodes -1, 0, 1 and 2 at t in [0, 1). The caller stores node -1 at index 0."""
    return [
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    ]


def _chunks(widths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of groups whose grids, all padded to the widest, fit into CELLS; at least one group each."""
    first = 0
    while first < len(widths):
        widest = np.maximum.accumulate(widths[first : first + CELLS])
        count = max(1, int(np.searchsorted(widest * np.arange(1, len(widest) + 1), CELLS, side="right")))
        yield first, min(first + count, len(widths))
        first += count
