"""Earlier readings of a split: the errors of verdicts on the same queries add up, whatever search they belong to.

Each reading is a line of JSON in the cache folder and, for those who share it, in the storage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.cache import cache_root, digest_of
from trainables.core.files import read_text
from trainables.core.prose import say
from trainables.data.columns import RankingData
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import SearchFolder

FILE = "readings.jsonl"
Reading = Mapping[str, Any]


def split_digest(data: RankingData, name: str) -> str:
    """Identifies the queries, candidates and judgments of a split, whatever the data's other splits are."""
    split = data.splits[name]
    queries = [data.query_ids[query] for query in split.query]
    return digest_of(queries, np.asarray(split.document), np.asarray(split.grade))


def earlier_readings(digest: str, reader: str, storage: Path) -> list[Reading]:
    """What others than `reader` have read of a split, the last of each, oldest first."""
    found: dict[str, Reading] = {}
    for folder in (cache_root(), storage):
        for reading in _read(folder / FILE):
            if reading["split"] == digest and reading["reader"] != reader:
                found[reading["reader"]] = reading
    return list(found.values())


def _read(path: Path) -> list[Reading]:
    """The lines of a file that are readings; a line that was cut short by a kill is none."""
    lines = read_text(path).splitlines() if path.is_file() else []
    readings = []
    for line in lines:
        try:
            reading = json.loads(line)
        except ValueError:
            continue
        if isinstance(reading, dict) and {"split", "reader", "verdict"} <= reading.keys():
            readings.append(reading)
    return readings


def record_reading(digest: str, reader: str, verdict: str, storage: Path | None) -> None:
    """Remembers that a split was read; says where that cannot be written, for the reading itself counts more."""
    line = json.dumps({"split": digest, "reader": reader, "verdict": verdict}) + "\n"
    for folder in (cache_root(), *([storage] if storage else [])):
        if json.loads(line) in _read(folder / FILE):
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / FILE).open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            say(f"note: {folder / FILE} does not remember this reading of the split: {error.strerror}")


def reader_of(search_folder: SearchFolder) -> str:
    """Identifies a search, wherever its folder is moved: its name and when it began."""
    begun = next(read_events(search_folder.journal))
    return f"search {begun['name']} of {begun.get('time')}"
