"""RankingData on disk: its texts as plain bytes and offsets, one .npy per other column, all mapped when read, and
one meta.json.

Texts too large for memory are written while the source is read: a `TextWriter` appends to files in the folder in which
a cache entry is built, and `save_data` leaves those files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.cache import cached, digest_of, load_arrays, save_arrays
from trainables.data.columns import RankingData, Split, TextColumn

STORE = 6  # raise it when the store has another column for the same content: it is read again, its digest stays
META = "meta.json"
_TEXTS = ("document_ids", "documents", "query_ids", "utterances")
_ARRAYS = ("utterance_offsets", "domain", "features", "group", "own")
_META = ("name", "digest", "domains", "notes", "task", "classes", "retrieved", "words")
_BLOCK = 1 << 16  # texts in memory before they are written
_SPLIT_ARRAYS = tuple(field.name for field in fields(Split))


class TextWriter:
    """A TextColumn in two growing files of a folder: NAME.texts, the bytes, and NAME.offsets, as int64."""

    def __init__(self, folder: Path, name: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.name, self.length = folder, name, 0
        self._texts, self._offsets = (path.open("wb") for path in _files(folder, name))
        self._offsets.write(np.zeros(1, np.int64).data)

    def extend(self, texts: TextColumn) -> None:
        """Appends texts."""
        self._offsets.write((texts.offsets[1:] - texts.offsets[0] + self.length).data)
        self._texts.write(texts.data[texts.offsets[0] : texts.offsets[-1]].data)
        self.length += int(texts.offsets[-1] - texts.offsets[0])

    def finish(self) -> TextColumn:
        """Closes the files; returns the column memory-mapped."""
        self._texts.close()
        self._offsets.close()
        return _load_texts(self.folder, self.name)


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.texts", folder / f"{name}.offsets"


def _load_texts(folder: Path, name: str) -> TextColumn:
    texts, offsets = _files(folder, name)
    data = np.asarray(np.memmap(texts, np.uint8, "r")) if texts.stat().st_size else np.empty(0, np.uint8)
    return TextColumn(data, np.asarray(np.memmap(offsets, np.int64, "r")))


def rewritten(folder: Path, name: str, texts: Iterable[str]) -> TextColumn:
    """A column of a folder with other texts, which may come from the column that is replaced."""
    writer = TextWriter(folder, f"{name}.new")
    texts = iter(texts)
    while part := list(islice(texts, _BLOCK)):
        writer.extend(TextColumn.of(part))
    writer.finish()
    for new, old in zip(_files(folder, f"{name}.new"), _files(folder, name), strict=True):
        new.replace(old)
    return _load_texts(folder, name)


def save_data(data: RankingData, folder: Path) -> None:
    """Writes all columns and meta.json into the folder (created if missing); texts that are there stay."""
    for name in _TEXTS:
        if not (folder / f"{name}.texts").exists():
            writer = TextWriter(folder, name)
            writer.extend(getattr(data, name))
            writer.finish()
    arrays = {name: getattr(data, name) for name in _ARRAYS}
    for split_name, split in data.splits.items():
        arrays |= {f"{split_name}.{name}": getattr(split, name) for name in _SPLIT_ARRAYS}
    save_arrays(folder, {name: values for name, values in arrays.items() if values is not None})
    meta = {name: getattr(data, name) for name in _META} | {"splits": list(data.splits)}
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


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
    columns |= {name: _load_texts(folder, name) for name in _TEXTS}
    columns |= {name: tuple(value) if isinstance(value := meta[name], list) else value for name in _META}
    splits = {}
    for split in meta["splits"]:
        of_split: dict[str, Any] = {name: arrays.get(f"{split}.{name}") for name in _SPLIT_ARRAYS}
        splits[split] = Split(**of_split)
    return RankingData(**columns, splits=splits)
