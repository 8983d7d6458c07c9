"""Folders on this machine and in S3: what a training needs of either, on whichever node it runs.

An S3 address is s3://BUCKET/FOLDER, with what PyArrow takes behind it: ?endpoint_override=HOST:PORT&scheme=http for a
server other than Amazon's. Credentials, region and AWS_ENDPOINT_URL come from the environment, as for the AWS tools.
S3 puts an object whole or not at all, but a folder file by file: `upload` says how a reader tells a whole one.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from trainables.files import replacing

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

T = TypeVar("T")
SCHEME = "s3://"
CHECKPOINTS = "checkpoint_[0-9]*"  # what Ray calls the folders of a trial; its temporary copies end otherwise

PATIENCE, RETRY_SECONDS = 120.0, 2.0  # for which work on storage that is away is tried again, and between attempts
AWAY = {None, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH}
"""Errors that storage which is away for a while gives; PyArrow's have no number."""
log = logging.getLogger(__name__)


def patiently(work: Callable[[], T]) -> T:
    """What `work` gives; while the storage is out of reach it is tried again, for PATIENCE seconds. Any other error,
    such as a file that is not there or a full disk, is raised at once."""
    deadline, told = time.monotonic() + PATIENCE, False
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in AWAY or time.monotonic() > deadline:
                raise
            if not told:
                log.warning("the storage is out of reach, trying again for %.0f s: %s", PATIENCE, error)
            told = True
            time.sleep(RETRY_SECONDS)


def is_remote(address: str | Path) -> bool:
    return str(address).startswith(SCHEME)


def joined(address: str, *parts: str) -> str:
    """The address of what lies below another."""
    split = urlsplit(address)
    return urlunsplit(split._replace(path="/".join([split.path.rstrip("/"), *map(quote, parts)])))


def addressed(storage: str, path: str) -> str:
    """The address of a path (BUCKET/KEY) in the file system of another address."""
    return urlunsplit(urlsplit(storage)._replace(path="/" + quote(path.partition("/")[2])))


def opened(address: str) -> tuple[FileSystem, str]:
    """The file system of an S3 address, and the path within it. Raises OSError where the server is out of reach."""
    split = urlsplit(address)
    return _bucket(urlunsplit(split._replace(path=""))), (split.netloc + unquote(split.path)).rstrip("/")


@lru_cache(maxsize=8)
def _bucket(address: str) -> FileSystem:
    """One client a bucket: making one costs a tenth of a second. A server that hangs is an error after three attempts,
    some 10 s, as for a client that is made without an address and so for its copy. One made from an address goes on
    for 99 s, in which nothing interrupts it, Ctrl-C neither."""
    from pyarrow.fs import FileSystem  # takes a while to import, and most commands need none

    return copy(FileSystem.from_uri(address)[0])


def exists(address: str) -> bool:
    """Whether a file or folder is there, here or in S3."""
    if not is_remote(address):
        return Path(address).exists()
    return _is_there(*opened(address))


def _is_there(system: FileSystem, path: str) -> bool:
    from pyarrow.fs import FileType

    return system.get_file_info(path).type != FileType.NotFound


def files_below(address: str) -> dict[str, int]:
    """Size in bytes of every object below an S3 address, by the path from there; the oldest first."""
    from pyarrow.fs import FileSelector, FileType

    system, root = opened(address)
    found = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    files = sorted((one for one in found if one.type == FileType.File), key=lambda one: one.mtime_ns)
    return {one.path[len(root) + 1 :]: one.size for one in files}


def folders_in(address: str) -> list[str]:
    """Names of the folders right below an S3 address."""
    from pyarrow.fs import FileSelector, FileType

    system, root = opened(address)
    found = system.get_file_info(FileSelector(root, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type == FileType.Directory)


def size(address: str) -> int | None:
    """Bytes of an object of S3, None where there is none."""
    system, path = opened(address)
    return system.get_file_info(path).size


def read(address: str) -> bytes | None:
    """An object of S3, None where there is none."""
    system, path = opened(address)
    if not _is_there(system, path):
        return None
    with system.open_input_file(path) as stream:
        return stream.read()


def write(address: str, content: bytes) -> None:
    """Puts an object into S3: a reader sees the old one or the new one."""
    system, path = opened(address)
    with system.open_output_stream(path) as stream:
        stream.write(content)


def remove(address: str) -> None:
    """Deletes an object of S3 if it is there."""
    system, path = opened(address)
    if _is_there(system, path):
        system.delete_file(path)


def upload(folder: Path, address: str, last: Sequence[str] = ()) -> None:
    """Copies the files of a folder to S3. Those named in `last` come after all others, in that order: where one is
    there, what it speaks of is whole."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in sorted(paths, key=lambda path: last.index(path.name) + 1 if path.name in last else 0):
        upload_file(path, joined(address, *path.relative_to(folder).parts))


def upload_file(path: Path, address: str) -> None:
    """Copies a file to S3 without holding it in memory."""
    from pyarrow.fs import LocalFileSystem, copy_files

    system, to = opened(address)
    copy_files(str(path), to, source_filesystem=LocalFileSystem(), destination_filesystem=system)


def download(address: str, folder: Path, names: Iterable[str]) -> None:
    """Copies objects to files of the same paths in a folder, in this order; each is written whole or not at all."""
    from pyarrow.fs import LocalFileSystem, copy_files

    system, root = opened(address)
    for name in names:
        with replacing(folder / name) as here:
            copy_files(f"{root}/{name}", str(here), source_filesystem=system, destination_filesystem=LocalFileSystem())


@contextmanager
def fetched(address: str | Path, *names: str) -> Iterator[Path]:
    """A folder as one of this machine: itself, or a temporary copy of what lies in S3, of `names` only where given.
    S3 that is away is waited for (`patiently`): it is no damage.

    Raises FileNotFoundError where nothing is there.
    """
    if not is_remote(address):
        yield Path(address)
        return
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        wanted = names or tuple(patiently(lambda: files_below(str(address))))
        if not wanted:
            raise FileNotFoundError(f"{address} is not there")
        patiently(lambda: download(str(address), Path(scratch), wanted))
        yield Path(scratch)


def earlier(checkpoint: str) -> list[str]:
    """The checkpoints of the same trial before this one, newest first."""
    if not is_remote(checkpoint):
        folder = Path(checkpoint)
        found = [one for one in folder.parent.glob(CHECKPOINTS) if one.name < folder.name]
        return [str(one) for one in sorted(found, reverse=True)]
    split = urlsplit(checkpoint)
    parent = urlunsplit(split._replace(path=split.path.rpartition("/")[0]))
    own = unquote(split.path.rpartition("/")[2])
    names = {PurePosixPath(name).parts[0] for name in patiently(lambda: files_below(parent))}
    found = [name for name in names if PurePosixPath(name).match(CHECKPOINTS) and name < own]
    return [joined(parent, name) for name in sorted(found, reverse=True)]
