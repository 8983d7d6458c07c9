"""First stages of boosting on disk: trainings that begin alike share their trees.

The booster after r rounds equals, to the bit, the first r trees of any longer booster of the same training. So one
entry serves every switch point up to its length, and longer stages continue from it.
"""

from __future__ import annotations

from pathlib import Path

import lightgbm as lgb

from trainables.data.cache import cache_root, cached, entry_in_cache
from trainables.files import read_text

MODEL = "model.txt"


def read_trees(path: Path) -> lgb.Booster:
    """A booster from its file. Raises ValueError if the file was cut short: LightGBM would end the process."""
    text = read_text(path)
    if "\nend of trees\n" not in text:
        raise ValueError(f"{path} ends before its trees do")
    return lgb.Booster(model_str=text)


def cut(booster: lgb.Booster, rounds: int) -> lgb.Booster:
    """A copy with the first `rounds` trees, made through LightGBM's text form, which keeps every number to the bit."""
    return lgb.Booster(model_str=booster.model_to_string(num_iteration=rounds))


class Prefixes:
    """The boosters of one stage by their number of rounds. `key`: digest of everything that determines their trees.

    Each is a folder in the cache, complete or absent, so that any number of processes may read and add. Two that grow
    the same trees at the same time both do the work, and one result is kept.
    """

    def __init__(self, key: str):
        self.kind = f"trees/{key}"
        self._read: tuple[int, lgb.Booster] | None = None

    def rounds(self) -> list[int]:
        """The lengths in the cache, ascending."""
        folder = cache_root() / self.kind
        return sorted(int(entry.name) for entry in folder.glob("[0-9]*")) if folder.is_dir() else []

    def at(self, rounds: int) -> lgb.Booster | None:
        """The booster after that many rounds, cut from a longer one if need be; None if none is long enough."""
        if self._read is None or self._read[0] < rounds:
            for longer in sorted((length for length in self.rounds() if length >= rounds), reverse=True):
                if (folder := entry_in_cache(self.kind, self._name(longer))) is not None:
                    self._read = longer, read_trees(folder / MODEL)
                    break
            else:
                return None
        return cut(self._read[1], rounds)

    def keep(self, rounds: int, booster: lgb.Booster) -> None:
        """Adds a booster, unless one at least as long is there."""
        if max(self.rounds(), default=0) >= rounds:
            return

        def write(folder: Path) -> None:
            booster.save_model(folder / MODEL, num_iteration=rounds)

        cached(self.kind, self._name(rounds), write)

    def _name(self, rounds: int) -> str:
        return f"{rounds:06d}"
