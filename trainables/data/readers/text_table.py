"""Numbers for texts by their content, in the order in which they first occur (the texts go to disk); rows of ids."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np

from trainables.data.columns import TextColumn

MISSING = _FREE = -1  # no such id; a slot without a row


class TextTable:
    """Numbers distinct texts from 0. Memory holds 24 to 40 bytes per text, however long it is.

    A text is known by a 128-bit BLAKE2b hash in a table with open addressing; two of a billion texts have the same
    hash with a probability of 1 in 10^20.

    add  is called with new texts as UTF-8, in the order of their numbers
    """

    def __init__(self, add: Callable[[Sequence[bytes]], None]):
        self._add = add
        self._count = 0
        self._keys = np.zeros((1 << 10, 2), np.uint64)  # of each row
        self._slots = np.full(1 << 11, _FREE, np.int32)  # rows, by hash

    def __len__(self) -> int:
        return self._count

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        """The number of each of N texts, new ones included; int64 [N]."""
        distinct = dict.fromkeys(texts)
        rows = self._find_or_add([text.encode() for text in distinct])
        for text, row in zip(distinct, rows.tolist(), strict=True):
            distinct[text] = row
        return np.fromiter(map(distinct.__getitem__, texts), np.int64, len(texts))

    def find(self, texts: Sequence[str]) -> np.ndarray:
        """The number of each of N texts, -1 if it is not in the table; int64 [N]."""
        return self._find(_keys_of([text.encode() for text in texts]))

    def _find_or_add(self, texts: Sequence[bytes]) -> np.ndarray:
        keys = _keys_of(texts)
        self._make_room(len(texts))
        rows = self._find(keys)
        new = np.flatnonzero(rows == _FREE)
        rows[new] = np.arange(self._count, self._count + len(new))
        self._keys[self._count : self._count + len(new)] = keys[new]
        self._count += len(new)
        self._insert(rows[new])
        self._add([texts[index] for index in new.tolist()])
        return rows

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, _FREE if it has none; int64 [N]."""
        slots, rows = self._first_slots(keys), np.full(len(keys), _FREE, np.int64)
        pending = np.arange(len(keys))
        while len(pending):
            occupants = self._slots[slots[pending]]
            same = (occupants != _FREE) & (self._keys[occupants] == keys[pending]).all(axis=1)
            rows[pending[same]] = occupants[same]
            pending = pending[(occupants != _FREE) & ~same]
            slots[pending] = (slots[pending] + 1) % len(self._slots)
        return rows

    def _insert(self, rows: np.ndarray) -> None:
        """Enters rows whose keys the table lacks."""
        slots = self._first_slots(self._keys[rows])
        while len(rows):
            free = self._slots[slots] == _FREE
            self._slots[slots[free]] = rows[free]  # of several rows for one slot, the last stays
            outside = self._slots[slots] != rows
            rows, slots = rows[outside], (slots[outside] + 1) % len(self._slots)

    def _first_slots(self, keys: np.ndarray) -> np.ndarray:
        return (keys[:, 0] % np.uint64(len(self._slots))).astype(np.int64)

    def _make_room(self, count: int) -> None:
        """Room for so many more texts, with at least half of the slots free."""
        if (needed := self._count + count) > len(self._keys):
            keys = np.zeros((max(needed, len(self._keys) * 3 // 2), 2), np.uint64)
            keys[: self._count] = self._keys[: self._count]
            self._keys = keys
        if 2 * needed > len(self._slots):
            self._slots = np.full(1 << (2 * needed - 1).bit_length(), _FREE, np.int32)
            self._insert(np.arange(self._count))


def _keys_of(texts: Sequence[bytes]) -> np.ndarray:
    """The hash of each of N texts, uint64 [N, 2]."""
    digests = b"".join([blake2b(text, digest_size=16).digest() for text in texts])
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


def hash_of(name: str) -> int:
    """A 64-bit hash of an id."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


class IdIndex:
    """Finds ids by their sorted 64-bit hashes: 16 bytes per id, whatever its length. Of ten million ids, two have the
    same hash with a probability of 1 in 300,000.

    hashes  `hash_of` of each id, in the order of `ids`
    """

    def __init__(self, ids: TextColumn, hashes: array):
        self._ids = ids
        unsorted = np.array(hashes, np.uint64)
        self._order = np.argsort(unsorted, kind="stable")
        self._sorted = unsorted[self._order]

    def __len__(self) -> int:
        return len(self._ids)

    def rows(self, names: Sequence[str]) -> np.ndarray:
        """Row of each of N ids (the first of equal ones), MISSING if there is none; int64 [N]."""
        wanted = np.fromiter(map(hash_of, names), np.uint64, len(names))
        index = np.searchsorted(self._sorted, wanted)
        inside = np.flatnonzero(index < len(self))
        rows = np.full(len(names), MISSING, np.int64)
        hits = inside[self._sorted[index[inside]] == wanted[inside]]
        rows[hits] = self._order[index[hits]]
        return rows

    def repeats(self) -> list[tuple[int, int]]:
        """(row, first row with the same id) of each row that repeats an id, by row."""
        later = np.flatnonzero(self._sorted[1:] == self._sorted[:-1]) + 1
        first = np.searchsorted(self._sorted, self._sorted[later])
        return sorted(zip(self._order[later].tolist(), self._order[first].tolist(), strict=True))
