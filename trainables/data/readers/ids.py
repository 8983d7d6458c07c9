"""Rows of a collection by document id, for collections whose ids do not fit into memory as Python strings."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import groupby

import numpy as np

from trainables.data.columns import TextColumn

MISSING = -1


def hash_of(name: str) -> int:
    """A 64-bit hash of an id."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


class IdIndex:
    """Finds ids by their sorted 64-bit hashes: 16 bytes per id, whatever its length. On a hit the ids are compared too.

    hashes  `hash_of` of each id, in the order of `ids`
    """

    def __init__(self, ids: TextColumn, hashes: array):
        self._ids = ids
        unsorted = np.frombuffer(hashes, np.uint64) if len(hashes) else np.empty(0, np.uint64)
        self._order = np.argsort(unsorted, kind="stable")
        self._sorted = unsorted[self._order]

    def __len__(self) -> int:
        return len(self._ids)

    def rows(self, names: Sequence[str]) -> np.ndarray:
        """Row of each of N ids (the first of equal ones), MISSING if it is unknown; int64 [N]."""
        wanted = np.fromiter(map(hash_of, names), np.uint64, len(names))
        places = np.searchsorted(self._sorted, wanted)
        return np.fromiter(map(self._row, names, wanted.tolist(), places.tolist()), np.int64, len(names))

    def _row(self, name: str, wanted: int, place: int) -> int:
        while place < len(self._sorted) and int(self._sorted[place]) == wanted:
            if self._ids[self._order[place]] == name:
                return int(self._order[place])
            place += 1
        return MISSING

    def repeats(self) -> Iterator[tuple[int, int]]:
        """(row, first row with the same id) of each row that repeats an id, by row."""
        later = np.flatnonzero(self._sorted[1:] == self._sorted[:-1]) + 1
        shared = np.unique(np.concatenate([later - 1, later]))
        found = []
        for _, places in groupby(shared.tolist(), key=lambda place: int(self._sorted[place])):
            first: dict[str, int] = {}
            for row in self._order[list(places)].tolist():
                if (start := first.setdefault(self._ids[row], row)) != row:
                    found.append((row, start))
        yield from sorted(found)
