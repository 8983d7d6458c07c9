"""How the contracts say what does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np


def promise(holds: object, what: str) -> None:
    """Raises AssertionError saying `what` should hold, if it does not."""
    if not bool(holds):
        raise AssertionError(f"should hold: {what}")


def alike(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Whether two arrays or tensors have the same shape and values, up to an absolute and relative tolerance."""
    first, second = np.asarray(one), np.asarray(other)
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=tolerance, atol=tolerance))
