"""Faults of the machine, and folders of checkpoints on this machine or at an address of PyArrow's (s3://, gs://)."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import FULL

NUMBERS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH),
}
NUMBERED = re.compile(r"\[Errno (\d+)\]")  # in the text of errors that have the number nowhere else
S3_FAILED = "AWS Error"  # in what PyArrow says of S3: busy, broken, out of reach
STORE_FULL = ("ObjectStoreFullError", "OutOfDiskError")  # Ray's; importing Ray takes seconds
OF_A_PROCESS = ("ActorDiedError",)  # Ray's, which has the text alone of what a process failed with as it began


def fault_of(error: BaseException | None) -> BaseException | None:
    """The error, or the one behind it, if that is a fault of the machine: its storage is full, read-only or broken, or
    out of reach. None for any other: of a configuration, of data, of a user's function.

    A fault says nothing of what was computed, so it fails no trial: the search ends, and can be resumed.
    """
    if error is None:
        return None
    for behind in (error.__cause__, getattr(error, "cause", None)):
        if fault := fault_of(behind):
            return fault
    name, text = type(error).__name__, str(error)
    numbers = {getattr(error, "errno", None)}
    if name in OF_A_PROCESS or (isinstance(error, OSError) and error.errno is None):
        numbers |= {int(number) for number in NUMBERED.findall(text)}
    in_s3 = isinstance(error, OSError) and S3_FAILED in text
    return error if numbers & NUMBERS or in_s3 or name in STORE_FULL or FULL.search(text) else None


# -- checkpoints: a folder's path, or its address ----------------------------------------------------------------------


def is_address(folder: str | Path) -> bool:
    return "://" in str(folder)


def checkpoints_of(name: str, folder: str) -> str:
    """Where the checkpoints of a new search of this name go, below the folder or address that the user gave. Raises
    ConfigError if it cannot be written to, holds some already, or names a secret, which the journal would keep."""
    from pyarrow.fs import FileSystem, FileType  # here and below: slow to import, and most commands do not need it

    def wrong(what: object) -> ConfigError:
        return ConfigError(Problem("--checkpoints", f"'{folder}' {what}", "a folder, or s3://BUCKET/FOLDER"))

    if is_address(folder) and "@" in folder:
        right = "the address alone; keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role of the machines"
        raise ConfigError(Problem("--checkpoints", "the address holds a password", right))
    base, mark, options = folder.partition("?") if is_address(folder) else (str(Path(folder).absolute()), "", "")
    address = f"{base.rstrip('/')}/{name}{mark}{options}"
    try:
        system, path = FileSystem.from_uri(address)
        there = system.get_file_info(path).type is not FileType.NotFound
        system.create_dir(path)
    except (OSError, ValueError) as error:
        raise wrong(f"cannot be written to ({error})") from None
    if there:
        raise wrong(f"holds checkpoints of another search '{name}'")
    return address


def address_of(path: str, storage: str) -> str:
    """The address of a path as Ray has it: in S3 the bucket, then the key, without scheme and options of `storage`."""
    if not is_address(storage):
        return path
    scheme, _, rest = storage.partition("://")
    _, mark, options = rest.partition("?")
    return f"{scheme}://{path}{mark}{options}"


def exists(checkpoint: str) -> bool:
    """Whether the folder is there."""
    if not is_address(checkpoint):
        return Path(checkpoint).exists()
    from pyarrow.fs import FileSystem, FileType

    system, path = FileSystem.from_uri(checkpoint)
    return system.get_file_info(path).type is FileType.Directory


@contextmanager
def fetched(checkpoint: str | Path) -> Iterator[Path]:
    """Yields the folder itself or, for one at an address, a temporary copy. Raises FileNotFoundError if there is
    nothing at an address; a folder here is not checked."""
    if not is_address(checkpoint):
        yield Path(checkpoint)
        return
    from pyarrow.fs import copy_files

    with TemporaryDirectory(prefix="tune_cl-") as copy:
        copy_files(str(checkpoint), copy)
        yield Path(copy)


def remove(checkpoint: str) -> None:
    """Deletes the folder, if it is there."""
    from pyarrow.fs import FileSystem

    system, path = FileSystem.from_uri(checkpoint)
    with suppress(FileNotFoundError):
        system.delete_dir(path)
