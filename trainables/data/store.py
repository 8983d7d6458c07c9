"""RankingData on disk: one .npy a column, memory-mapped when read, and one meta.json."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.cache import load_arrays, save_arrays
from trainables.data.columns import RankingData, Split, TextColumn

META = "meta.json"
_TEXTS = ("document_ids", "documents", "query_ids", "utterances")
_ARRAYS = ("utterance_offsets", "domain")
_SPLIT_ARRAYS = tuple(field.name for field in fields(Split))


def save_data(data: RankingData, folder: Path) -> None:
    """Writes all columns and meta.json into the folder (created if missing)."""
    arrays: dict[str, np.ndarray] = {name: getattr(data, name) for name in _ARRAYS}
    for name in _TEXTS:
        column = getattr(data, name)
        arrays |= {f"{name}.data": column.data, f"{name}.offsets": column.offsets}
    for split_name, split in data.splits.items():
        arrays |= {f"{split_name}.{name}": getattr(split, name) for name in _SPLIT_ARRAYS}
    save_arrays(folder, arrays)
    meta = {
        "name": data.name,
        "digest": data.digest,
        "domains": list(data.domains),
        "splits": list(data.splits),
        "notes": list(data.notes),
    }
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def load_data_folder(folder: Path) -> RankingData:
    """What `save_data` wrote; the columns stay on disk until they are read."""
    meta = json.loads((folder / META).read_text(encoding="utf-8"))
    arrays = load_arrays(folder)
    texts: dict[str, Any] = {name: TextColumn(arrays[f"{name}.data"], arrays[f"{name}.offsets"]) for name in _TEXTS}
    splits = {split: Split(**{name: arrays[f"{split}.{name}"] for name in _SPLIT_ARRAYS}) for split in meta["splits"]}
    return RankingData(
        name=meta["name"],
        digest=meta["digest"],
        domains=tuple(meta["domains"]),
        notes=tuple(meta["notes"]),
        splits=splits,
        **texts,
        utterance_offsets=arrays["utterance_offsets"],
        domain=arrays["domain"],
    )
