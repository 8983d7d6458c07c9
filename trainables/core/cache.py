"""Folders on disk that are named by the digest of everything they were made from.

An entry is complete or absent: it is built in a temporary folder, which is then renamed. It holds the checksums of its
files, which each process compares when it first opens the entry; a damaged entry is removed and built again. A long
build may save its state beside the entry and resume from it after a kill.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from uuid import uuid4

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import full_disk_named, no_link, opened, read_text, require_regular, unwritable, write_text
from trainables.core.prose import phase, say

ROOT = "XDG_CACHE_HOME"
_BLOCK = 1 << 20
PHASES = {"words": "word vectors", "run": "first stage (BM25)", "teacher-scores": "teacher"}  # by kind of entry
CHECKSUMS = "checksums.json"  # of an entry: the digests of its files by their paths
ABANDONED = 3600  # seconds after which a folder that no process has locked is of a killed build
_verified: set[Path] = set()  # entries whose checksums this process has compared


def cache_root() -> Path:
    """$XDG_CACHE_HOME/tune_cl, by default ~/.cache/tune_cl; the variable is read at each call. Where the home cannot be
    written to, a folder of the user's among the temporary ones."""
    given = os.environ.get(ROOT)
    return Path(given) / "tune_cl" if given else _of_home(Path.home() / ".cache" / "tune_cl")


@cache
def _of_home(wanted: Path) -> Path:
    existing = next(folder for folder in (wanted, *wanted.parents) if folder.exists())
    if os.access(existing, os.W_OK):
        return wanted
    folder = Path(gettempdir()) / f"tune_cl-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()  # in a folder of all users, somebody else may have made it
    if not S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ConfigError(Problem(ROOT, f"neither {existing} nor {folder} can hold the cache", "a folder of yours"))
    say(f"note: {existing} cannot be written to: caches are in {folder}; {ROOT} puts them elsewhere")
    return folder


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
        with opened(part) as file:
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
    """The folder of an entry if it is there and as it was written, which each process checks once. A damaged one is
    removed, with a note, and counts as absent."""
    entry = entry_of(kind, digest)
    if not entry.is_dir():
        return None
    if entry not in _verified:
        if _damage(entry):
            _remove_damaged(entry)
            return None
        _verified.add(entry)
    return entry


def _damage(entry: Path) -> str | None:
    """What is wrong with an entry's files; None if they are as they were written."""
    try:
        require_checksums(entry)
    except ValueError as error:
        return str(error)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        return f"{Path(error.filename).name} is missing"
    return None


def _remove_damaged(entry: Path) -> None:
    """Removes a damaged entry, unless another process has done so by now."""
    try:
        with _locked(entry, waiting=""):  # without locks (NFS), two processes might remove each other's entries
            if entry.is_dir() and (damage := _damage(entry)):
                aside = entry.with_name(f".{entry.name[:16]}-{uuid4().hex}")  # renamed first: its readers can go on
                with _writing():
                    entry.rename(aside)
                say(f"note: {entry} is damaged ({damage}); it is built again")
                shutil.rmtree(aside, ignore_errors=True)
    except (FileNotFoundError, NotADirectoryError):
        return


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Writes checksums.json: the SHA-256 of each named file of the folder, for `require_checksums`."""
    write_text(folder / CHECKSUMS, json.dumps({name: digest_of(folder / name) for name in names}, indent=1))


def require_checksums(folder: Path, names: Iterable[str] = ()) -> None:
    """Raises ValueError if a file is not as `write_checksums` found it, FileNotFoundError if it or checksums.json is
    gone. `names`: the files to read, by default all."""
    try:
        checksums = json.loads(read_text(folder / CHECKSUMS))
    except ValueError:
        raise ValueError(f"{CHECKSUMS} cannot be read") from None
    if not isinstance(checksums, dict):
        raise ValueError(f"{CHECKSUMS} holds no checksums")
    for name in names or checksums:
        if name in checksums and digest_of(folder / name) != checksums[name]:
            raise ValueError(f"{name} is not as it was written")


def cached(kind: str, digest: str, build: Callable[[Path], None]) -> Path:
    """The folder of an entry; if absent or damaged, `build(folder)` first writes its files into an empty folder.

    Two processes may build the same entry at once: the first to finish wins, and both get its result. Errors of
    `build` are passed on, and no files remain. Raises ConfigError if an absent entry cannot be written.
    """
    while (entry := entry_in_cache(kind, digest)) is None:
        with phase(PHASES[kind]) if kind in PHASES else nullcontext():
            _build(entry_of(kind, digest), build)
    return entry


def _build(entry: Path, build: Callable[[Path], None]) -> None:
    with _writing():
        entry.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(mkdtemp(prefix=f".{entry.name[:16]}-", dir=entry.parent))
    try:
        with _locked(temporary), full_disk_named(entry):
            _remove_abandoned(entry.parent)
            build(temporary)
            files = sorted(path for path in temporary.rglob("*") if path.is_file())
            write_checksums(temporary, [str(path.relative_to(temporary)) for path in files])
            if _rename(temporary, entry):
                _verified.add(entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # already gone if the rename succeeded


@contextmanager
def _locked(place: Path | int, waiting: str | None = None) -> Iterator[bool]:
    """A lock on a folder or an open file, which ends with its process. Yields whether it is ours; never on file systems
    without locks (NFS). `waiting`: what is said where another process has it, before this one waits; None: no wait."""
    handle = place if isinstance(place, int) else os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield _lock(handle, waiting)
    finally:
        os.close(handle)


def _lock(handle: int, waiting: str | None) -> bool:
    with suppress(OSError):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                return False
            if waiting:
                say(waiting)
            fcntl.flock(handle, fcntl.LOCK_EX)
        return True
    return False


def _remove_abandoned(kind: Path) -> None:
    """Removes the folders of builds whose process was killed."""
    for folder in kind.glob(".*-*"):
        with suppress(FileNotFoundError):  # another process was faster
            if folder.is_dir() and not folder.is_symlink() and time.time() - folder.stat().st_mtime > ABANDONED:
                with _locked(folder) as free:
                    if free:
                        shutil.rmtree(folder, ignore_errors=True)


def cached_resumable(kind: str, digest: str, build: Callable[[Path, Path], None]) -> Path:
    """As `cached`, for long builds: `build(folder, state)` saves its state in the folder `state`, which it creates, and
    resumes from there after an interruption. The state is deleted when the entry is complete.

    If several processes ask for one entry, one builds and the others wait. On a file system without locks each builds
    from the start.
    """
    if (entry := entry_in_cache(kind, digest)) is not None:
        return entry
    entry = entry_of(kind, digest)
    beside = entry.parent / f".{digest}"
    with _writing():
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle = no_link(str(beside.with_suffix(".lock")), os.O_WRONLY | os.O_CREAT)
    with _locked(handle, f"waiting for another process that builds the same ({kind})") as alone:
        if alone:
            state = beside.with_suffix(".state")
            cached(kind, digest, lambda folder: build(folder, state))
            shutil.rmtree(state, ignore_errors=True)
        else:
            with TemporaryDirectory(prefix=f".{digest[:16]}-", dir=entry.parent) as temporary:
                cached(kind, digest, lambda folder: build(folder, Path(temporary, "state")))
        beside.with_suffix(".lock").unlink(missing_ok=True)  # whoever waits for it will see the entry
    return entry


@contextmanager
def _writing() -> Iterator[None]:
    """Raises ConfigError for a cache that cannot be written to."""
    try:
        yield
    except OSError as error:
        raise unwritable(ROOT, cache_root(), error) from None


def _rename(temporary: Path, entry: Path) -> bool:
    """Whether the folder is the entry now; False if another process was first."""
    try:
        os.rename(temporary, entry)
    except OSError:
        if not entry.is_dir():
            raise
        return False
    return True


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
    require_regular(path)
    # As a plain ndarray: slices of np.memmap are several times slower, and it maps the file just the same.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
