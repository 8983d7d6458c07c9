"""Earlier readings of a split: the errors of verdicts on the same queries add up, whatever search they belong to.

Each reading is a line of JSON in the cache folder and, for those who share it, in the storage. It is written before the
split is read, so that two confirmations at the same time know of each other.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from trainables.core.cache import cache_root, digest_of
from trainables.core.errors import DataError, Problem
from trainables.core.files import MOST_TEXT, no_link, too_long
from trainables.core.prose import say
from trainables.data.columns import RankingData
from trainables.data.words import normalised
from tune_cl.history.journal import first_event
from tune_cl.history.search_folder import SearchFolder

FILE = "readings.jsonl"
Reading = Mapping[str, str | None]  # the digest of a `split`, its `reader`, and the `verdict`, null until then


def split_digest(data: RankingData, name: str) -> str:
    """Identifies the queries of a split by their words and those of their relevant documents, whatever the form of the
    data, its ids, candidates and other splits; data without texts by ids and grades. Queries without a relevant
    document do not count: every ranker has 0 there, and not every form can hold them."""
    split = data.splits[name]
    judged = split.judgments
    if data.task == "ranking":
        judged = judged.where(judged.value > 0)
    judged = judged.where(judged.document >= 0)
    content: dict[int, list[str]] = {}
    for query, document, grade in zip(judged.query.tolist(), judged.document.tolist(), judged.value, strict=True):
        text = str(int(grade)) if data.features is not None else normalised(data.documents[document])
        content.setdefault(query, []).append(text)
    keys = []
    for query, texts in content.items():
        row = int(split.query[query])
        asked = data.query_ids[row] if data.features is not None else normalised(data.query_text(row))
        keys.append(sha256("\0".join([asked, *sorted(set(texts))]).encode()).digest())
    return digest_of(b"".join(sorted(keys)))


def earlier_readings(digest: str, reader: str, storage: Path) -> list[Reading]:
    """What others than `reader` have read of a split, or are reading, the last of each, oldest first. Raises DataError
    for a file with lines that are not readings, ConfigError for what is not a file."""
    found: dict[str | None, Reading] = {}
    for folder in (cache_root(), storage):
        for reading in _read(folder / FILE):
            if reading["split"] == digest and reading["reader"] != reader:
                found[reading["reader"]] = reading
    return list(found.values())


def record_reading(digest: str, reader: str, verdict: str | None, storage: Path | None) -> None:
    """Remembers that a split is read, which is known before its `verdict`. Says where that cannot be written, for the
    reading itself counts more. Raises what `earlier_readings` raises."""
    reading = {"split": digest, "reader": reader, "verdict": verdict}
    for folder in (cache_root(), *([storage] if storage else [])):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _append(folder / FILE, reading)
        except OSError as error:
            say(f"note: {folder / FILE} does not remember this reading of the split: {error.strerror}")


def _read(path: Path) -> list[Reading]:
    try:
        with _locked(path, os.O_RDONLY) as handle:
            return _readings(_content(handle, path), path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(Problem(str(path), f"cannot be read ({error.strerror})", "a file of yours")) from None


def _append(path: Path, reading: Reading) -> None:
    """Adds a line, unless the file has it, in one piece or not at all; a line that a kill cut short is removed."""
    with _locked(path, os.O_RDWR | os.O_CREAT) as handle:
        content = _content(handle, path)
        readings, torn = _readings(content, path)
        same = [one for one in readings if all(one[key] == reading[key] for key in ("split", "reader"))]
        if same and reading["verdict"] in (None, same[-1]["verdict"]):
            return
        if torn:
            say(f"note: the last line of {path}, which was cut short, is removed")
        whole = content[: len(content) - torn]
        line = b"\n" * (not whole.endswith(b"\n") and bool(whole)) + json.dumps(reading).encode() + b"\n"
        os.ftruncate(handle, len(whole))
        if os.pwrite(handle, line, len(whole)) < len(line):
            os.ftruncate(handle, len(whole))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[int]:
    """The open file, which other processes wait for. Raises ConfigError for a link, a pipe, a device or a folder."""
    handle = no_link(str(path), flags)
    try:
        with suppress(OSError):  # not all network file systems have locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _content(handle: int, path: Path) -> bytes:
    size = os.fstat(handle).st_size
    if size > MOST_TEXT:
        raise too_long(path, MOST_TEXT)
    return os.pread(handle, size, 0)


def _readings(content: bytes, path: Path) -> tuple[list[Reading], int]:
    """The readings of a file, and how many bytes at its end are a line that was cut short. Raises DataError for other
    lines that are none."""
    *lines, rest = content.split(b"\n")
    last = _reading(rest)
    found = [(number, _reading(line)) for number, line in enumerate(lines, 1) if line.strip()]
    wrong = [f"{path}:{number}" for number, reading in found if reading is None]
    if wrong:
        raise DataError(
            Problem(place, "not a reading of a split, as tune-cl records it", "remove it") for place in wrong
        )
    readings = [reading for _, reading in [*found, (0, last)] if reading is not None]
    return readings, 0 if last else len(rest)


def _reading(line: bytes) -> Reading | None:
    """None for what is not a reading."""
    try:
        reading = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(reading, dict) or "verdict" not in reading:
        return None
    return reading if all(isinstance(reading.get(key), str) for key in ("split", "reader")) else None


def reader_of(search_folder: SearchFolder) -> str:
    """Identifies a search, wherever its folder is moved: its name and when it began."""
    begun = first_event(search_folder.journal)
    return f"search {begun['name']} of {begun['time']}"
