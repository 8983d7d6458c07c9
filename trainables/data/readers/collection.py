"""Texts and their ratings (qrels, runs), read row by row: texts and ids go to disk, memory holds numbers."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import compress
from pathlib import Path

import numpy as np

from trainables.data.columns import Rated, TextColumn
from trainables.data.data_cache import TextWriter, rewritten
from trainables.data.readers.blocks import Block
from trainables.data.readers.rows import LeftOut, Lines, Repeats, Unusable, usable_id

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


_DIGITS = re.compile(r"0*([0-9]+)(\.0+)?")


def alike(name: str) -> str:
    """What is left of an id without what programs lose or add: spaces at its ends, the form of its Unicode, leading
    zeros and .0 of a number."""
    name = unicodedata.normalize("NFC", name.strip())
    number = _DIGITS.fullmatch(name)
    return number[1] if number else name


def difference(one: str, other: str) -> str:
    """In what two ids that are `alike` differ."""
    if one.strip() == other.strip():
        return "spaces at the ends"
    if not (one.isascii() and other.isascii()):
        return "Unicode normalisation (NFC and NFD)"
    return "the .0 of a number" if ".0" in one + other else "leading zeros"


class IdIndex:
    """Finds ids by their sorted 64-bit hashes: 16 bytes per id, whatever its length. Of ten million ids, two have the
    same hash with a probability of 1 in 300,000.

    hashes  `hash_of` of each id, in the order of `ids`
    """

    def __init__(self, ids: Sequence[str], hashes: array):
        self.ids = ids
        unsorted = np.array(hashes, np.uint64)
        self._order = np.argsort(unsorted, kind="stable")
        self._sorted = unsorted[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, names: Sequence[str]) -> np.ndarray:
        """Row of each of N ids (the first of equal ones), MISSING if there is none; int64 [N]."""
        return self.find(np.fromiter(map(hash_of, names), np.uint64, len(names)))

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """`rows` of ids by their hashes, uint64 [N]."""
        index = np.searchsorted(self._sorted, wanted)
        inside = np.flatnonzero(index < len(self))
        rows = np.full(len(wanted), MISSING, np.int64)
        hits = inside[self._sorted[index[inside]] == wanted[inside]]
        rows[hits] = self._order[index[hits]]
        return rows

    @cached_property
    def _alike(self) -> tuple[IdIndex, np.ndarray]:
        """The index of what is left of the ids by `alike`, and its rows that stand for several ids."""
        index = IdIndex(self.ids, array("Q", (hash_of(alike(name)) for name in self.ids)))
        return index, np.array([first for _, first in index.repeats()], np.int64)

    def rows_alike(self, names: Sequence[str]) -> np.ndarray:
        """Row of the one id that each of N ids is `alike`, MISSING for none or several; int64 [N]. The first call
        takes a pass over all ids."""
        index, several = self._alike
        rows = index.rows([alike(name) for name in names])
        rows[np.isin(rows, several)] = MISSING
        return rows

    def repeats(self) -> list[tuple[int, int]]:
        """(row, first row with the same id) of each row that repeats an id, by row."""
        later = np.flatnonzero(self._sorted[1:] == self._sorted[:-1]) + 1
        first = np.searchsorted(self._sorted, self._sorted[later])
        return sorted(zip(self._order[later].tolist(), self._order[first].tolist(), strict=True))


@dataclass(frozen=True)
class Collection:
    """Documents on disk with an index of their ids. `lines`: uint32 [documents], the line of each in its file."""

    ids: TextColumn
    texts: TextColumn
    index: IdIndex
    lines: array

    def without(self, rows: Sequence[int], workspace: Path) -> Collection:
        """The collection without the given rows; their columns in `workspace` are written again."""
        stays = np.ones(len(self.ids), bool)
        stays[list(rows)] = False
        ids = rewritten(workspace, "document_ids", compress(self.ids, stays))
        texts = rewritten(workspace, "documents", compress(self.texts, stays))
        return Collection(
            ids, texts, IdIndex(ids, array("Q", map(hash_of, ids))), array("I", compress(self.lines, stays))
        )


class CollectionWriter:
    """Streams documents into the columns of a cache entry that is being built in `workspace`."""

    def __init__(self, workspace: Path):
        self._ids = TextWriter(workspace, "document_ids")
        self._texts = TextWriter(workspace, "documents")
        self._hashes, self._lines = array("Q"), array("I")

    def add(self, line: int, name: str, text: str) -> None:
        """Adds a document; `line`: where it stands in its file."""
        self._ids.append(name)
        self._texts.append(text)
        self._hashes.append(hash_of(name))
        self._lines.append(line)

    def finish(self) -> Collection:
        """Closes the columns; returns them memory-mapped, with the index of their ids."""
        ids = self._ids.finish()
        return Collection(ids, self._texts.finish(), IdIndex(ids, self._hashes), self._lines)


Named = tuple[int, str, str | Unusable]  # line, id, text or why there is none


def read_collection(
    lines: Lines, documents: Iterable[Named], notes: list[str], workspace: Path, strict: bool
) -> Collection:
    """The documents of a file, streamed into the workspace, each id once; those without text are left out."""
    writer = CollectionWriter(workspace)
    for number, name, text in _with_texts(lines, documents, "document", notes, strict):
        writer.add(number, name, text)
    collection = writer.finish()
    repeats, texts, rows = Repeats(lines, notes), collection.texts, []
    for row, first in collection.index.repeats():
        wrong = None if texts[row] == texts[first] else _other_text(collection.ids[row])
        repeats.add(collection.lines[row], collection.lines[first], wrong)
        rows.append(row)
    repeats.note()
    return collection.without(rows, workspace) if rows else collection


def read_texts(lines: Lines, queries: Iterable[Named], notes: list[str], strict: bool) -> dict[str, str]:
    """Texts by id, in the order of the file, each id once; queries without text are left out."""
    first: dict[str, int] = {}
    texts: dict[str, str] = {}
    repeats = Repeats(lines, notes)
    for number, name, text in _with_texts(lines, queries, "query", notes, strict):
        if name in texts:
            repeats.add(number, first[name], None if texts[name] == text else _other_text(name))
        else:
            texts[name], first[name] = text, number
    repeats.note()
    return texts


def _other_text(name: str) -> str:
    return f"another text for id '{name}' than in"


def _with_texts(
    lines: Lines, named: Iterable[Named], noun: str, notes: list[str], strict: bool
) -> Iterator[tuple[int, str, str]]:
    """The rows that have an id and a text."""
    empty = LeftOut(lines, noun, "without text", strict)
    for number, name, text in named:
        if not usable_id(name):
            lines.problem(number, f"id '{name}' is empty or holds white space", "use an id without")
        elif isinstance(text, Unusable):
            empty.add(number, *text.args)
        elif not text.strip():
            empty.add(number, f"'{name}' has an empty text", "give a text or leave the row out")
        else:
            yield number, name, text
    empty.close(notes)


class Ratings:
    """Collects ratings of documents, whose ids it turns into rows of the collection.

    missing  (line, id) of ratings whose document is not in the collection
    spelled  (line, id, the collection's id) of ratings that spell an id otherwise (`alike`)
    """

    def __init__(self, index: IdIndex):
        self.index = index
        self._parts: list[tuple[np.ndarray, ...]] = []  # line, query, document, value, hash of the document's id
        self.missing: list[tuple[int, str]] = []
        self.spelled: list[tuple[int, str, str]] = []

    def add(self, block: Block, query: np.ndarray) -> None:
        """Adds the ratings of a block. `query`: row of each rating's query, int64 [N]; one below 0 is left out."""
        hashes = np.fromiter(map(hash_of, block.documents), np.uint64, len(block.documents))
        rows, known = self.index.find(hashes), query >= 0
        line, document = block.line[known], block.document[known]
        named = np.zeros(len(rows), bool)
        named[document] = True
        if absent := np.flatnonzero(named & (rows == MISSING)).tolist():
            rows[absent] = self.index.rows_alike([block.documents[i] for i in absent])
            for i in absent:
                if rows[i] != MISSING:
                    hashes[i] = hash_of(self.index.ids[int(rows[i])])
        for at in np.flatnonzero(np.isin(document, absent)).tolist() if absent else ():
            number, name, row = int(line[at]), block.documents[int(document[at])], int(rows[document[at]])
            if row == MISSING:
                self.missing.append((number, name))
            else:
                self.spelled.append((number, name, self.index.ids[row]))
        self._parts.append((line, query[known], rows[document], block.value[known], hashes[document]))

    def finish(self) -> Rated:
        """All ratings in the order they were added; document MISSING where the collection lacks it."""
        kinds = (np.int32, np.int64, np.int64, np.float64, np.uint64)
        parts = self._parts or [tuple(np.empty(0, kind) for kind in kinds)]
        self._parts = []
        columns = parts[0] if len(parts) == 1 else [np.concatenate(column) for column in zip(*parts, strict=True)]
        self._line, self._query, document, value, self._hash = columns
        return Rated(self._query, document, value)

    def repeats(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows that name the query and document of an earlier row; the first such row of each)."""
        return repeats_of(self._query, self._hash)

    def line(self, row: int) -> int:
        """Where a rating stands in its file."""
        return int(self._line[row])


def repeats_of(*keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows whose keys are those of an earlier row; the first such row of each), of N rows."""
    count = len(keys[0])
    order = np.lexsort(keys)  # stable
    new = np.ones(count, bool)
    new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    first = np.empty(count, np.int64)
    first[order] = order[np.maximum.accumulate(np.where(new, np.arange(count), 0))]
    later = np.flatnonzero(first != np.arange(count))
    return later, first[later]
