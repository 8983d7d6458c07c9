"""Folders on this machine and in S3: the access that a training needs on whichever node it runs.

An S3 address is s3://BUCKET/FOLDER, followed by PyArrow's options if any: ?endpoint_override=HOST:PORT&scheme=http for
a server other than Amazon's. Credentials, region and AWS_ENDPOINT_URL come from the environment, as for the AWS tools.
S3 writes an object whole or not at all, but a folder file by file: `upload` says how readers recognise a complete one.
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
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from trainables.core.files import replacing

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


T = TypeVar("T")
SCHEME = "s3://"
NO_NAMES = {"", ".", ".."}  # parts of a key with which it is no path of a file
CHECKPOINTS = "checkpoint_[0-9]*"  # Ray's names for a trial's checkpoint folders; its temporary copies have others

PATIENCE, RETRY_SECONDS = 120.0, 2.0  # for how long to retry while the storage is unreachable, and how often
AWAY = {None, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH}
"""Error numbers of storage that is unreachable for a while; PyArrow's errors have none."""
log = logging.getLogger(__name__)


def patiently(work: Callable[[], T]) -> T:
    """The result of `work`, which is retried for PATIENCE seconds from its first failure on while the storage is
    unreachable. Any other error, such as a missing file or a full disk, is raised at once."""
    failed = None
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in AWAY:
                raise
            if failed is None:
                failed = time.monotonic()
                log.warning("the storage is out of reach, trying again for %.0f s: %s", PATIENCE, error)
            if time.monotonic() - failed >= PATIENCE:
                raise
            time.sleep(RETRY_SECONDS)


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
    return patiently(lambda: exists(address))


def _is_there(system: FileSystem, path: str) -> bool:
    from pyarrow.fs import FileType

    return system.get_file_info(path).type != FileType.NotFound


def files_below(address: str) -> dict[str, int]:
    """Size in bytes of every object below an S3 address, by the path from there; the oldest first."""
    return {name: size for name, (size, _) in states_below(address).items()}


def states_below(address: str) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of the last change in ns of every object below an S3 address, as `files_below`.

    Objects whose keys are no paths of files, which S3 allows, are left out: PyArrow cannot read them, and `..` would
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
    Unreachable S3 is waited for (`patiently`), since it does not mean damage.

    Raises FileNotFoundError if there is nothing at the S3 address; a local folder is not checked.
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
        folders = [one for one in folder.parent.glob(CHECKPOINTS) if one.name < folder.name]
        return [str(one) for one in sorted(folders, reverse=True)]
    split = urlsplit(checkpoint)
    parent = urlunsplit(split._replace(path=split.path.rpartition("/")[0]))
    own = unquote(split.path.rpartition("/")[2])
    names = {PurePosixPath(name).parts[0] for name in patiently(lambda: files_below(parent))}
    before = [name for name in names if PurePosixPath(name).match(CHECKPOINTS) and name < own]
    return [joined(parent, name) for name in sorted(before, reverse=True)]
