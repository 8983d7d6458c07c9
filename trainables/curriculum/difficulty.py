"""Difficulty by name, computed once for the same content and kept in the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainables.curriculum.scoring import SCORINGS, Scored
from trainables.data.cache import cache_root, cached, digest_of, load_arrays, save_arrays

FORMAT = 1  # raise when a scoring function changes its values


def difficulty(name: str, scored: Scored) -> tuple[np.ndarray, bool]:
    """Difficulty of each instance, float64 [I], higher = harder; and whether it came from the cache.

    The key holds data, instances, scoring and seed, so trials that share these share the file.
    """
    instances = scored.instances
    key = digest_of(
        FORMAT, scored.data.digest, name, scored.seed, instances.query, instances.positive, instances.negative
    )
    known = (cache_root() / "difficulty" / key).is_dir()

    def build(folder: Path) -> None:
        save_arrays(folder, {"difficulty": SCORINGS[name](scored)})

    return load_arrays(cached("difficulty", key, build))["difficulty"], known
