"""Difficulty by the name of a scoring, computed once per content and kept in the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainables.curriculum.scored import Scored
from trainables.curriculum.scoring import SCORINGS
from trainables.data.cache import cached, digest_of, entry_in_cache, load_arrays, save_arrays
from trainables.rankers.settings import TRAINED_VECTORS

FORMAT = 4  # raise when a scoring function changes its values


def difficulty(name: str, scored: Scored) -> tuple[np.ndarray, bool]:
    """Difficulty of each instance, float64 [I], higher = harder; and whether it came from the cache.

    The cache key covers data, split, instances and whatever else the scoring reads, so trials that share these share
    the file. A teacher's scores are part of the key, so they are needed even on a cache hit.
    """
    instances, split = scored.instances, scored.split
    needs = [_content(need, scored) for need in sorted(SCORINGS[name].needs)]
    rows = [split.query, instances.query, instances.positive, instances.negative, instances.easier, instances.below]
    key = digest_of(FORMAT, scored.data.digest, name, instances.pairwise, *needs, *rows)
    known = entry_in_cache("difficulty", key) is not None

    def build(folder: Path) -> None:
        save_arrays(folder, {"difficulty": SCORINGS[name](scored)})

    return load_arrays(cached("difficulty", key, build))["difficulty"], known


def _content(need: str, scored: Scored) -> object:
    """What identifies a field of Scored: for the teacher its scores, for a file of vectors its path and time."""
    if need == "teacher":
        return scored.teacher_scores()
    path = Path(scored.vectors)
    if need == "vectors" and scored.vectors != TRAINED_VECTORS and path.is_file():
        return [str(path.resolve()), path.stat().st_mtime_ns]
    return getattr(scored, need)
