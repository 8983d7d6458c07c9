"""Folders that trials write to, on this machine or at an address of PyArrow's (s3://, gs://), and their faults: storage
that is full, read-only, broken or out of reach is waited for, for it says nothing about what was computed."""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from trainables.core.errors import MachineFault
from trainables.core.files import FULL

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

T = TypeVar("T")
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

    A fault fails no trial: it is waited for, then the search ends.
    """
    if error is None:
        return None
    if isinstance(error, MachineFault):
        return error
    for behind in (error.__cause__, getattr(error, "cause", None)):
        if fault := fault_of(behind):
            return fault
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
    patience = PATIENCE if patience is None else patience
    deadline = None
    while True:
        try:
            return work()
        except Exception as error:
            if not mends(error):
                raise
            now = time.monotonic()
            if deadline is None:
                deadline = now + patience
                if patience:
                    log.warning("%s cannot be used, trying again for %.0f s: %s", what, patience, error)
            if now >= deadline:
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


def is_remote(address: str | Path) -> bool:
    return "://" in str(address)


def opened(address: str | Path) -> tuple[FileSystem, str]:
    """The file system of an address or a path, and the path within it. Raises OSError if it is out of reach."""
    from pyarrow.fs import FileSystem, LocalFileSystem  # slow to import, and most commands do not need it

    return FileSystem.from_uri(str(address)) if is_remote(address) else (LocalFileSystem(), str(address))


def address_of(path: str, storage: str) -> str:
    """The address of a path as Ray has it: in S3 the bucket, then the key, without scheme and options of `storage`."""
    if not is_remote(storage):
        return path
    scheme, _, rest = storage.partition("://")
    _, mark, options = rest.partition("?")
    return f"{scheme}://{path}{mark}{options}"


def exists(address: str | Path) -> bool:
    """Whether there is a file or folder; storage that is out of reach is waited for."""
    if not is_remote(address):
        return Path(address).exists()
    return retry_on_fault(lambda: _type_name(address)) != "NotFound"


def _type_name(address: str | Path) -> str:
    system, path = opened(address)
    return system.get_file_info(path).type.name


def remove_folder(address: str) -> None:
    """Deletes a folder. Raises FileNotFoundError where there is none on this machine."""
    if not is_remote(address):
        rmtree(address)
        return
    system, path = opened(address)
    system.delete_dir(path)


@contextmanager
def fetched(address: str | Path) -> Iterator[Path]:
    """Yields the folder itself or, for one elsewhere, a temporary copy. Storage out of reach is waited for, since that
    is no damage. Raises FileNotFoundError if there is nothing at an address; a folder here is not checked."""
    if not is_remote(address):
        yield Path(address)
        return
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        retry_on_fault(lambda: _copy(address, scratch))
        yield Path(scratch)


def _copy(address: str | Path, folder: str) -> None:
    from pyarrow.fs import copy_files

    system, path = opened(address)
    copy_files(path, folder, source_filesystem=system)


def earlier(checkpoint: str) -> list[str]:
    """The checkpoints of the same trial before this one, newest first."""
    from pyarrow.fs import FileSelector

    system, path = opened(checkpoint)
    infos = retry_on_fault(
        lambda: system.get_file_info(FileSelector(str(PurePosixPath(path).parent), allow_not_found=True))
    )
    before = [one.path for one in infos if PurePosixPath(one.path).match(CHECKPOINTS) and one.path < path]
    return [address_of(one, checkpoint) for one in sorted(before, reverse=True)]
