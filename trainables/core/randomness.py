"""Randomness as a function of (seed, purpose, moment).

No generator is kept between steps, so a resumed run needs no saved random state: step 700 draws the
same numbers whether or not the process started at step 0.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np


def generator(seed: int, purpose: str, *when: int) -> np.random.Generator:
    """A generator for one purpose at one moment; the same arguments give the same numbers."""
    return np.random.default_rng([seed, crc32(purpose.encode()), *when])


def torch_seed(seed: int, purpose: str, *when: int) -> int:
    """A seed for `torch.manual_seed`, spread over 63 bits."""
    return int(generator(seed, purpose, *when).integers(2**63))
