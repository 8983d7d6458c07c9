"""Folders on this machine and in S3: the access that a training needs on whichever node it runs.

An S3 address is s3://BUCKET/FOLDER, followed by PyArrow's options if any: ?endpoint_override=HOST:PORT&scheme=http for
a server other than Amazon's. Credentials, region and AWS_ENDPOINT_URL come from the environment, as for the AWS tools.
S3 writes an object whole or not at all, but a folder file by file: `upload` says how readers recognise a complete one.
"""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from trainables.core.errors import MachineFault
from trainables.core.files import FULL, replacing

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


T = TypeVar("T")
SCHEME = "s3://"
NO_NAMES = {"", ".", ".."}  # parts of a key with which it is not a path of a file
CHECKPOINTS = "checkpoint_[0-9]*"  # Ray's names for a trial's checkpoint folders; its temporary copies have others

PATIENCE, RETRY_SECONDS = 120.0, 2.0  # for how long to retry while the storage is unreachable, and how often
PAUSE = 30.0  # seconds before a process gives up work that it cannot repeat: Ray has another repeat it, 3 times
NUMBERS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH),
}
NUMBERED = re.compile(r"\[Errno (\d+)\]")  # in the text of errors that have the number nowhere else
S3_FAILED = "AWS Error"  # in what PyArrow says of S3: busy, broken, out of reach
STORE_FULL = ("ObjectStoreFullError", "OutOfDiskError")  # Ray's; importing Ray takes seconds
OF_A_PROCESS = ("ActorDiedError",)  # Ray's, which has the text alone of what a process failed with as it began
GAVE_UP = "its storage was waited for"  # note of an error that `retry_on_fault` raises
log = logging.getLogger(__name__)


def fault_of(error: BaseException | None) -> BaseException | None:
    """The error, or the one behind it, if that is a fault of the machine: its storage is full, read-only or broken, or
    out of reach, or it is a MachineFault. None for any other: of a configuration, of data, of a user's function.

    A fault says nothing about what was computed, so it fails no trial: it is waited for, then the search ends.
    """
    if error is None:
        return None
    if isinstance(error, MachineFault):
        return error
    behind = (error.__cause__, getattr(error, "cause", None), *getattr(error, "worker_failures", {}).values())
    if deeper := next(filter(None, map(fault_of, behind)), None):
        return deeper
    name, text = type(error).__name__, str(error)
    numbers = {getattr(error, "errno", None)}
    if name in OF_A_PROCESS or (isinstance(error, OSError) and error.errno is None):
        numbers |= {int(number) for number in NUMBERED.findall(text)}
    in_s3 = isinstance(error, OSError) and S3_FAILED in text
    return error if numbers & NUMBERS or in_s3 or name in STORE_FULL or FULL.search(text) else None


def was_waited_for(fault: BaseException) -> bool:
    """Whether `retry_on_fault` raised it."""
    return GAVE_UP in getattr(fault, "__notes__", ())


def retry_on_fault(
    work: Callable[[], T],
    what: object = "the storage",
    patience: float | None = None,
    mends: Callable[[Exception], object] = fault_of,
) -> T:
    """The result of `work`, which is retried for `patience` seconds (None: PATIENCE) from its first failure on where it
    fails by a fault of the machine, or by another error that waiting `mends`. Any other, such as a missing file, is
    raised at once."""
    failed, patience = None, PATIENCE if patience is None else patience
    with waiting_for(what):
        while True:
            try:
                return work()
            except Exception as error:
                if not mends(error):
                    raise
                if patience and failed is None:
                    log.warning("%s cannot be used, trying again for %.0f s: %s", what, patience, error)
                now = time.monotonic()
                failed = now if failed is None else failed
                if now - failed >= patience:
                    error.add_note(GAVE_UP)
                    raise
                time.sleep(RETRY_SECONDS)


@contextmanager
def delay_failure() -> Iterator[None]:
    """Around work that cannot be repeated in this process: its fault is raised after a while, since Ray begins it anew
    at once."""
    try:
        yield
    except Exception as error:
        if (fault := fault_of(error)) and not was_waited_for(fault):
            time.sleep(PAUSE)
        raise


SILENCE, EVERY = 30.0, 60.0  # seconds of a wait until it is told of, and between two lines about it
Wait = tuple[object, object]  # who waits, and what for
_waits: dict[Wait, float] = {}  # since when
_watch: Thread | None = None


@contextmanager
def waiting_for(what: object) -> Iterator[None]:
    """Says each minute what is waited for, if the block takes long; it may hang in a call that cannot be ended."""
    wait = (object(), what)
    set_waits({wait})
    try:
        yield
    finally:
        set_waits(set(), {wait})


def set_waits(begun: Iterable[Wait], ended: Iterable[Wait] = ()) -> None:
    """Notes which waits have begun and ended."""
    global _watch
    if _watch is None:
        _watch = Thread(target=_tell_of_waits, name="waits", daemon=True)
        _watch.start()
    for wait in begun:
        _waits.setdefault(wait, monotonic())
    for wait in ended:
        _waits.pop(wait, None)


def _tell_of_waits() -> None:
    due: dict[Wait, float] = {}  # when each is told of next
    while not Event().wait(SILENCE / 10):
        waits, now = dict(_waits), monotonic()
        due = {wait: due.get(wait, since + SILENCE) for wait, since in waits.items()}
        for wait in [wait for wait in waits if now >= due[wait]]:
            log.warning("still waiting for %s, for %.0f s so far", wait[1], now - waits[wait])
            due[wait] += EVERY


def is_remote(address: str | Path) -> bool:
    """Whether the address is one in S3."""
    return str(address).startswith(SCHEME)


def joined(address: str, *parts: str) -> str:
    """The address of a path below another address."""
    split = urlsplit(address)
    return urlunsplit(split._replace(path="/".join([split.path.rstrip("/"), *map(quote, parts)])))


def addressed(storage: str, path: str) -> str:
    """The address of a path (BUCKET/KEY) in the file system of another address."""
    return urlunsplit(urlsplit(storage)._replace(path="/" + quote(path.partition("/")[2])))


def opened(address: str) -> tuple[FileSystem, str]:
    """The file system of an S3 address, and the path within it. Raises OSError if the server is unreachable."""
    split = urlsplit(address)
    return _bucket(urlunsplit(split._replace(path=""))), (split.netloc + unquote(split.path)).rstrip("/")


@lru_cache(maxsize=8)
def _bucket(address: str) -> FileSystem:
    """One client per bucket, as making one takes a tenth of a second. It is a copy, which gives up on a hanging server
    after three attempts (some 10 s), like a client made without an address. The original, made from an address, would
    try for 99 s, and not even Ctrl-C would interrupt it."""
    from pyarrow.fs import FileSystem  # slow to import, and most commands do not need it

    return copy(FileSystem.from_uri(address)[0])


def exists(address: str) -> bool:
    """Whether a file or folder exists, on this machine or in S3."""
    if not is_remote(address):
        return Path(address).exists()
    return _is_there(*opened(address))


def is_there(address: str) -> bool:
    """`exists`, waiting for storage that is out of reach."""
    return retry_on_fault(lambda: exists(address))


def _is_there(system: FileSystem, path: str) -> bool:
    from pyarrow.fs import FileType

    return system.get_file_info(path).type != FileType.NotFound


def files_below(address: str) -> dict[str, int]:
    """Size in bytes of every object below an S3 address, by the path from there; the oldest first."""
    return {name: size for name, (size, _) in states_below(address).items()}


def states_below(address: str) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of the last change in ns of every object below an S3 address, as `files_below`.

    Objects whose keys are not paths of files, which S3 allows, are left out: PyArrow cannot read them, and `..` would
    lead out of the folder that they are copied to.
    """
    from pyarrow.fs import FileSelector, FileType

    system, root = opened(address)
    infos = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    files = sorted((one for one in infos if one.type == FileType.File), key=lambda one: one.mtime_ns)
    states = {one.path[len(root) + 1 :]: (one.size, one.mtime_ns) for one in files}
    return {name: state for name, state in states.items() if NO_NAMES.isdisjoint(name.split("/"))}


def folders_in(address: str) -> list[str]:
    """Names of the folders directly below an S3 address."""
    from pyarrow.fs import FileSelector, FileType

    system, root = opened(address)
    infos = system.get_file_info(FileSelector(root, allow_not_found=True))
    return sorted(one.base_name for one in infos if one.type == FileType.Directory)


def size(address: str) -> int | None:
    """Size of an S3 object in bytes; None if there is none."""
    system, path = opened(address)
    return system.get_file_info(path).size


def read(address: str) -> bytes | None:
    """Content of an S3 object; None if there is none."""
    system, path = opened(address)
    if not _is_there(system, path):
        return None
    with system.open_input_file(path) as stream:
        return stream.read()


def write(address: str, content: bytes) -> None:
    """Writes an S3 object; readers see either the old one or the new one."""
    system, path = opened(address)
    with system.open_output_stream(path) as stream:
        stream.write(content)


def remove(address: str) -> None:
    """Deletes an S3 object if it exists."""
    system, path = opened(address)
    if _is_there(system, path):
        system.delete_file(path)


def remove_folder(address: str) -> None:
    """Deletes a folder, here or in S3. Raises FileNotFoundError where there is none here."""
    if is_remote(address):
        system, path = opened(address)
        system.delete_dir(path)
    else:
        rmtree(address)


def upload(folder: Path, address: str, last: Sequence[str] = ()) -> None:
    """Copies the files of a folder to S3. Those named in `last` come after all others, in that order: once one of them
    is there, all before it are complete."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in sorted(paths, key=lambda path: last.index(path.name) + 1 if path.name in last else 0):
        upload_file(path, joined(address, *path.relative_to(folder).parts))


def upload_file(path: Path, address: str) -> None:
    """Copies a file to S3 without holding it in memory."""
    from pyarrow.fs import LocalFileSystem, copy_files

    system, to = opened(address)
    copy_files(str(path), to, source_filesystem=LocalFileSystem(), destination_filesystem=system)


def download(address: str, folder: Path, names: Iterable[str]) -> None:
    """Copies the named objects below an address into a folder, in this order; each is written whole or not at all."""
    from pyarrow.fs import LocalFileSystem, copy_files

    system, root = opened(address)
    for name in names:
        with replacing(folder / name) as here:
            copy_files(f"{root}/{name}", str(here), source_filesystem=system, destination_filesystem=LocalFileSystem())


@contextmanager
def fetched(address: str | Path, *names: str) -> Iterator[Path]:
    """Yields a local folder: the given one itself or, for an S3 address, a temporary copy (of `names` only, if given).
    Unreachable S3 is waited for (`retry_on_fault`), since it does not mean damage.

    Raises FileNotFoundError if there is nothing at the S3 address; a local folder is not checked.
    """
    if not is_remote(address):
        yield Path(address)
        return
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        wanted = names or tuple(retry_on_fault(lambda: files_below(str(address))))
        if not wanted:
            raise FileNotFoundError(f"{address} is not there")
        retry_on_fault(lambda: download(str(address), Path(scratch), wanted))
        yield Path(scratch)


def earlier(checkpoint: str) -> list[str]:
    """The checkpoints of the same trial before this one, newest first."""
    if not is_remote(checkpoint):
        folder = Path(checkpoint)
        folders = [one for one in folder.parent.glob(CHECKPOINTS) if one.name < folder.name]
        return [str(one) for one in sorted(folders, reverse=True)]
    split = urlsplit(checkpoint)
    parent = urlunsplit(split._replace(path=split.path.rpartition("/")[0]))
    file_name = unquote(split.path.rpartition("/")[2])
    names = {PurePosixPath(name).parts[0] for name in retry_on_fault(lambda: files_below(parent))}
    before = [name for name in names if PurePosixPath(name).match(CHECKPOINTS) and name < file_name]
    return [joined(parent, name) for name in sorted(before, reverse=True)]
