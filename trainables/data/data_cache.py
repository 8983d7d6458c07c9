"""RankingData on disk: one .npy per column, memory-mapped when read, and one meta.json.

Columns too large for memory are written while the source is read: `TextWriter` and `ArrayWriter` grow files in
the folder in which a cache entry is built, and `save_data` leaves those files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from trainables.core.cache import cached, digest_of, load_array, load_arrays, save_arrays
from trainables.data.columns import RankingData, Split, TextColumn

STORE = 5  # raise it when the store has another column for the same content: it is read again, its digest stays
META = "meta.json"
_TEXTS = ("document_ids", "documents", "query_ids", "utterances")
_ARRAYS = ("utterance_offsets", "domain", "features", "group", "own")
_META = ("name", "digest", "domains", "notes", "task", "classes", "retrieved", "words")
_BLOCK = 1 << 16  # texts in memory before they are written
_SPLIT_ARRAYS = tuple(field.name for field in fields(Split))


class ArrayWriter:
    """A one-dimensional .npy file that grows as values are appended.

    The header is written at the start and again, with the length, by `finish`; NumPy leaves room for that.
    """

    def __init__(self, path: Path, dtype: np.typing.DTypeLike):
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._header()

    def _header(self) -> None:
        self._file.seek(0)
        description = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.length,)}
        npy.write_array_header_1_0(self._file, description)

    def append(self, values: bytes | np.ndarray) -> None:
        """Appends bytes as they are, or an array cast to the file's type."""
        raw = values if isinstance(values, bytes) else np.ascontiguousarray(values, self.dtype).data
        self._file.write(raw)
        self.length += memoryview(raw).nbytes // self.dtype.itemsize

    def finish(self) -> np.ndarray:
        """Closes the file; returns it memory-mapped."""
        self._header()
        self._file.close()
        return load_array(self.path)


class TextWriter:
    """A TextColumn in two growing files of a folder: NAME.data.npy and NAME.offsets.npy."""

    def __init__(self, folder: Path, name: str):
        self._data = ArrayWriter(folder / f"{name}.data.npy", np.uint8)
        self._offsets = ArrayWriter(folder / f"{name}.offsets.npy", np.int64)
        self._offsets.append(np.zeros(1, np.int64))

    def extend(self, texts: TextColumn) -> None:
        """Appends texts."""
        self._offsets.append(texts.offsets[1:] - texts.offsets[0] + self._data.length)
        self._data.append(texts.data[texts.offsets[0] : texts.offsets[-1]])

    def finish(self) -> TextColumn:
        """Closes the files; returns the column memory-mapped."""
        return TextColumn(self._data.finish(), self._offsets.finish())


def rewritten(folder: Path, name: str, texts: Iterable[str]) -> TextColumn:
    """A column of a folder with other texts, which may come from the column that is replaced."""
    writer = TextWriter(folder, f"{name}.new")
    texts = iter(texts)
    while part := list(islice(texts, _BLOCK)):
        writer.extend(TextColumn.of(part))
    writer.finish()
    for part in ("data", "offsets"):
        (folder / f"{name}.new.{part}.npy").replace(folder / f"{name}.{part}.npy")
    return TextColumn(*(load_array(folder / f"{name}.{part}.npy") for part in ("data", "offsets")))


def save_data(data: RankingData, folder: Path) -> None:
    """Writes all columns and meta.json into the folder (created if missing)."""
    arrays: dict[str, np.ndarray | None] = {name: getattr(data, name) for name in _ARRAYS}
    for name in _TEXTS:
        column = getattr(data, name)
        arrays |= {f"{name}.data": column.data, f"{name}.offsets": column.offsets}
    for split_name, split in data.splits.items():
        arrays |= {f"{split_name}.{name}": getattr(split, name) for name in _SPLIT_ARRAYS}
    columns = {name: values for name, values in arrays.items() if values is not None}
    save_arrays(folder, {name: values for name, values in columns.items() if not _is_file(values, folder, name)})
    meta = {name: getattr(data, name) for name in _META} | {"splits": list(data.splits)}
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _is_file(values: np.ndarray, folder: Path, name: str) -> bool:
    """Whether the array is a memory map of the very file that it would be written to."""
    file = values.base.filename if isinstance(values.base, np.memmap) else None
    return file is not None and Path(file).resolve() == (folder / f"{name}.npy").resolve()


def cached_data(key: str, digest: str, read: Callable[[Path], RankingData]) -> RankingData:
    """The data of the cache entry `key`, read if this version of the store has none, with this digest. `read` gets the
    folder in which the entry is built."""

    def build(entry: Path) -> None:
        save_data(replace(read(entry), digest=digest), entry)

    return load_data_folder(cached("data", digest_of(STORE, key), build))


def load_data_folder(folder: Path) -> RankingData:
    """What `save_data` wrote; the columns stay on disk until they are read."""
    meta = json.loads((folder / META).read_text(encoding="utf-8"))
    arrays = load_arrays(folder)
    columns: dict[str, Any] = {name: arrays.get(name) for name in _ARRAYS}
    columns |= {name: TextColumn(arrays[f"{name}.data"], arrays[f"{name}.offsets"]) for name in _TEXTS}
    columns |= {name: tuple(value) if isinstance(value := meta[name], list) else value for name in _META}
    splits = {}
    for split in meta["splits"]:
        of_split: dict[str, Any] = {name: arrays.get(f"{split}.{name}") for name in _SPLIT_ARRAYS}
        splits[split] = Split(**of_split)
    return RankingData(**columns, splits=splits)
