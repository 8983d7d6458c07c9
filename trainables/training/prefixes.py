"""First stages of boosting on disk: trainings that begin alike share their trees.

A booster after r rounds is the first r trees of the booster after any more rounds of the same training, to the bit. So
one entry serves every switch point up to its length, and a longer one goes on from it.
"""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb

from trainables.data.cache import cache_root, cached

MODEL = "model.txt"


def read_trees(path: Path) -> lgb.Booster:
    """A booster from its file. Raises ValueError where that was cut short, of which LightGBM ends the process."""
    text = path.read_text()
    if "\nend of trees\n" not in text:
        raise ValueError(f"{path} ends before its trees do")
    return lgb.Booster(model_str=text)


def cut(booster: lgb.Booster, rounds: int) -> lgb.Booster:
    """A copy with the first `rounds` trees, through LightGBM's own text, which keeps every number to the bit."""
    return lgb.Booster(model_str=booster.model_to_string(num_iteration=rounds))


class Prefixes:
    """The boosters of one stage by their number of rounds. `key`: digest of all that decides their trees.

    Each is a folder of the cache, complete or absent, so that any number of processes may read and add; two that
    grow the same trees at the same time both do the work, and keep one result.
    """

    def __init__(self, key: str):
        self.kind = f"trees/{key}"
        self._read: tuple[int, lgb.Booster] | None = None

    def rounds(self) -> list[int]:
        """The lengths that are there, ascending."""
        folder = cache_root() / self.kind
        return sorted(int(entry.name) for entry in folder.glob("[0-9]*")) if folder.is_dir() else []

    def at(self, rounds: int) -> lgb.Booster | None:
        """The booster after so many rounds, cut out of a longer one if need be; None if none is as long."""
        if self._read is None or self._read[0] < rounds:
            longest = max(self.rounds(), default=0)
            if longest < rounds:
                return None
            self._read = longest, read_trees(self._folder(longest) / MODEL)
        return cut(self._read[1], rounds)

    def keep(self, rounds: int, booster: lgb.Booster) -> None:
        """Adds a booster, unless one is there that is as long."""
        if max(self.rounds(), default=0) >= rounds:
            return

        def write(folder: Path) -> None:
            booster.save_model(folder / MODEL, num_iteration=rounds)

        cached(self.kind, self._folder(rounds).name, write)

    def _folder(self, rounds: int) -> Path:
        return cache_root() / self.kind / f"{rounds:06d}"
