"""A collection and its ratings (qrels, runs), read row by row: texts and ids go to disk, memory holds numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np

from trainables.data.columns import Rated, TextColumn
from trainables.data.data_cache import TextWriter, rewritten
from trainables.data.readers.rows import LeftOut, Lines, Repeats, usable_id
from trainables.data.readers.text_table import MISSING, IdIndex, hash_of

_BATCH = 1 << 16  # ratings whose ids are looked up together


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


Named = tuple[int, str, str]  # line, id, text


def read_collection(
    lines: Lines, documents: Iterable[Named], notes: list[str], workspace: Path, strict: bool = False
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


def read_texts(lines: Lines, queries: Iterable[Named], notes: list[str], strict: bool = False) -> dict[str, str]:
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


def _with_texts(lines: Lines, named: Iterable[Named], noun: str, notes: list[str], strict: bool) -> Iterator[Named]:
    """The rows that have an id and a text."""
    empty = LeftOut(lines, noun, "without text", strict)
    for number, name, text in named:
        if not usable_id(name):
            lines.problem(number, f"id '{name}' is empty or holds white space", "use an id without")
        elif not text.strip():
            empty.add(number, f"'{name}' has an empty text", "give a text or leave the row out")
        else:
            yield number, name, text
    empty.close(notes)


class Ratings:
    """Collects rows that rate documents by id, and turns the ids into rows of the collection.

    missing  (line, id) of rows whose document is not in the collection; complete once `finish` has run
    """

    def __init__(self, index: IdIndex):
        self._index = index
        self._names: list[str] = []
        self._query, self._document, self._value = array("q"), array("q"), array("d")
        self._line, self._hash = array("q"), array("Q")
        self.missing: list[tuple[int, str]] = []

    def add(self, line: int, query: int, document: str, value: float) -> None:
        """Adds a rating; `query`: row of the query, `document`: id, `line`: where it stands in its file."""
        self._names.append(document)
        self._query.append(query)
        self._value.append(value)
        self._line.append(line)
        self._hash.append(hash_of(document))
        if len(self._names) >= _BATCH:
            self._look_up()

    def _look_up(self) -> None:
        rows = self._index.rows(self._names)
        start = len(self._document)
        self.missing += [(self._line[start + i], self._names[i]) for i in np.flatnonzero(rows == MISSING).tolist()]
        self._document.extend(rows.tolist())
        self._names.clear()

    def finish(self) -> Rated:
        """All ratings in the order they were added; document MISSING where the collection lacks it."""
        self._look_up()
        return Rated(
            np.array(self._query, np.int64), np.array(self._document, np.int64), np.array(self._value, np.float64)
        )

    def repeats(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows that name the query and document of an earlier row, by line; the first such row of each)."""
        query, name, line = (np.array(each) for each in (self._query, self._hash, self._line))
        order = np.lexsort((line, name, query))
        same = (np.diff(query[order]) == 0) & (name[order][1:] == name[order][:-1])
        first = np.maximum.accumulate(np.where(np.concatenate([[True], ~same]), np.arange(len(order)), 0))
        later = np.flatnonzero(same) + 1
        by_line = np.argsort(line[order[later]])
        return order[later][by_line], order[first[later]][by_line]

    def line(self, row: int) -> int:
        """Where a rating stands in its file."""
        return self._line[row]
