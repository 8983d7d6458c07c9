"""Folders on disk that are named by the digest of everything they were made from.

An entry is complete or absent: one process builds it in a temporary folder, which is then renamed, and others wait for
its lock. It holds the checksums of its files, which each process compares when it first opens the entry; a damaged one
is made again. A long build may save its state beside the entry and resume from it after a kill.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from trainables.core.files import unwritable, write_text
from trainables.core.prose import phase, say

ROOT = "XDG_CACHE_HOME"
_BLOCK = 1 << 20
PHASES = {"words": "word vectors", "run": "first stage (BM25)", "teacher-scores": "teacher"}  # by kind of entry
CHECKSUMS = "checksums.json"  # of an entry: the digests of its files by their paths
_verified: set[Path] = set()  # entries whose checksums this process has compared


def cache_root() -> Path:
    """$XDG_CACHE_HOME/tune_cl, by default ~/.cache/tune_cl; the variable is read at each call."""
    return Path(os.environ.get(ROOT) or Path.home() / ".cache") / "tune_cl"


def digest_of(*parts: object) -> str:
    """SHA-256 (64 hexadecimal digits) over parts in order; different parts have different digests.

    A part is a Path (the file's bytes, not its name), a string, bytes, a number, None, a NumPy array, or a
    list, tuple or mapping of parts. Raises TypeError for anything else.
    """
    whole = hashlib.sha256()
    for part in parts:
        whole.update(_digest(part))
    return whole.hexdigest()


def _digest(part: object) -> bytes:
    """The digest of one part. Its fixed length keeps different lists of parts from giving the same bytes."""
    hasher = hashlib.sha256(type(part).__name__.encode() + b"\0" if not isinstance(part, Path) else b"file\0")
    if isinstance(part, Path):
        with part.open("rb") as file:
            while block := file.read(_BLOCK):
                hasher.update(block)
    elif isinstance(part, np.ndarray):
        hasher.update(f"{part.dtype.str}{part.shape}".encode())
        hasher.update(np.ascontiguousarray(part).data)
    elif isinstance(part, bytes):
        hasher.update(part)
    elif isinstance(part, str | bool | int | float | None):
        hasher.update(str(part).encode())
    elif isinstance(part, Mapping):
        hasher.update(b"".join(_digest(key) + _digest(value) for key, value in part.items()))
    elif isinstance(part, list | tuple):
        hasher.update(b"".join(map(_digest, part)))
    else:
        raise TypeError(f"no digest of a {type(part).__name__}")
    return hasher.digest()


def entry_of(kind: str, digest: str) -> Path:
    """The folder of an entry, whether or not it is there."""
    return cache_root() / kind / digest


def entry_in_cache(kind: str, digest: str) -> Path | None:
    """The folder of an entry if it is there and as it was written, which each process checks once; else None."""
    entry = entry_of(kind, digest)
    if not entry.is_dir():
        return None
    if entry not in _verified:
        try:
            require_checksums(entry)
        except (ValueError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        _verified.add(entry)
    return entry


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Writes checksums.json: the SHA-256 of each named file of the folder, for `require_checksums`."""
    write_text(folder / CHECKSUMS, json.dumps({name: digest_of(folder / name) for name in names}, indent=1))


def require_checksums(folder: Path, names: Iterable[str] = ()) -> None:
    """Raises ValueError if a file is not as `write_checksums` found it, FileNotFoundError if it or checksums.json is
    gone. `names`: the files to read, by default all."""
    try:
        checksums = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{CHECKSUMS} cannot be read") from None
    if not isinstance(checksums, dict):
        raise ValueError(f"{CHECKSUMS} holds no checksums")
    for name in names or checksums:
        if name in checksums and digest_of(folder / name) != checksums[name]:
            raise ValueError(f"{name} is not as it was written")


def cached(kind: str, digest: str, build: Callable[[Path], None]) -> Path:
    """The folder of an entry; if absent or damaged, `build(folder)` first writes its files into an empty folder.

    If several processes ask for one entry, one builds and the others wait. Errors of `build` are passed on, and no
    files remain. Raises ConfigError if an absent entry cannot be written.
    """
    if (entry := entry_in_cache(kind, digest)) is not None:
        return entry
    entry = entry_of(kind, digest)
    with _alone(kind, entry):
        if entry_in_cache(kind, digest) is None:  # another process may have been faster
            if entry.is_dir():
                say(f"note: {entry} is damaged; it is made again")
            with phase(PHASES[kind]) if kind in PHASES else nullcontext():
                _build(entry, build)
    return entry


def cached_resumable(kind: str, digest: str, build: Callable[[Path, Path], None]) -> Path:
    """As `cached`, for long builds: `build(folder, state)` saves its state in the folder `state`, which it creates, and
    resumes from there after an interruption. The state is deleted when the entry is complete."""
    state = entry_of(kind, digest).with_name(f".{digest}.state")
    entry = cached(kind, digest, lambda folder: build(folder, state))
    shutil.rmtree(state, ignore_errors=True)
    return entry


@contextmanager
def _alone(kind: str, entry: Path) -> Iterator[None]:
    """The lock of an entry, which ends with its process."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(entry.with_name(f".{entry.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"waiting for another process that builds the same ({kind})")
            lock.acquire()
    except OSError:
        raise unwritable(ROOT, cache_root()) from None
    try:
        yield
    finally:
        lock.release()


def _build(entry: Path, build: Callable[[Path], None]) -> None:
    temporary = entry.with_name(f".{entry.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed build
    try:
        temporary.mkdir()
        build(temporary)
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        write_checksums(temporary, [str(path.relative_to(temporary)) for path in files])
        shutil.rmtree(entry, ignore_errors=True)  # a damaged one
        temporary.rename(entry)
        _verified.add(entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # already gone if the rename succeeded


def save_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes one NAME.npy per array."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values, allow_pickle=False)


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """All arrays of a folder by name, memory-mapped and read-only."""
    return {path.stem: load_array(path) for path in sorted(folder.glob("*.npy"))}


def load_array(path: Path) -> np.ndarray:
    """A .npy file, memory-mapped and read-only."""
    # As a plain ndarray: slices of np.memmap are several times slower, and it maps the file just the same.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
