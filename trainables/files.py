"""Files and folders of results: checks that they can be written, and writing them whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from trainables.errors import ConfigError, Problem

LONGEST_NAME = 255  # bytes, the limit of common file systems
# as safetensors, NumPy and LightGBM put it
FULL = re.compile(rf"os error {errno.ENOSPC}\b|\d+ requested and \d+ written|wrote \d+ of \d+ bytes")


def require_file(option: str, path: Path) -> None:
    """Raises ConfigError if no file can be written at the path. For commands to check before they start work."""
    if os.path.isdir(path):
        raise ConfigError(Problem(option, f"'{path}' is a folder", "the path of a file"))
    if not written_in_place(path):
        require_folder(option, path.parent)


def require_folder(option: str, path: Path) -> None:
    """Raises ConfigError if the folder cannot be written to, or is missing and cannot be made. Leaves nothing behind.

    It tries this in a temporary folder, placed where the first new folder would be. Permissions would not tell: a
    special file system may refuse what they allow, and they allow root everything.
    """
    if ".." in path.parts:  # this may follow a folder that does not exist yet
        path = Path(os.path.abspath(path))
    there = folder_on_the_way(option, path)
    try:
        with TemporaryDirectory(prefix=".tune_cl-", dir=there) as trial:
            Path(trial, *path.parts[len(there.parts) :]).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(option, there, error) from None


def unwritable(option: str, folder: Path, error: OSError) -> ConfigError:
    """The error for a folder that cannot be written to."""
    return ConfigError(Problem(option, f"'{folder}' cannot be written to ({error.strerror})", "a folder of yours"))


def folder_on_the_way(option: str, path: Path) -> Path:
    """The path, or its nearest ancestor that exists. Raises ConfigError if that is not a folder."""
    there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    if not os.path.isdir(there):
        raise ConfigError(Problem(option, f"'{there}' is no folder", "a path through folders"))
    return there


def written_in_place(path: Path) -> bool:
    """Whether the path is a device, a pipe or an open file such as /dev/stdout. Whoever reads those would not get a
    file that took their place, and root would take /dev/null from the whole machine."""
    if not os.path.exists(path) or os.path.isdir(path):
        return False
    here = os.path.join(os.path.realpath(path.parent), path.name)
    leads_to = os.readlink(here) if os.path.islink(here) else here
    return not os.path.isfile(path) or here.startswith("/proc/") or leads_to.startswith("/proc/")


def names_folder(name: str) -> bool:
    """Whether a word can be the name of a subfolder."""
    short = len(os.fsencode(name)) <= LONGEST_NAME
    return name.isprintable() and bool(name.strip(". ")) and "/" not in name and short


def write_text(path: str | Path, text: str) -> None:
    """Writes UTF-8 text through a temporary file beside it, so that no reader sees half a file. Makes the folder."""
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Raises OSError (ENOSPC) with the path for errors of the block that mean a full disk: few libraries name the file,
    and some not even the reason."""
    try:
        yield
    except Exception as error:
        named = isinstance(error, OSError) and error.filename is not None
        if named or not (getattr(error, "errno", None) == errno.ENOSPC or FULL.search(str(error))):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a hidden path beside `path`. The file written there replaces `path` at the end of the block, or is removed
    if the block fails. Makes the folder. Yields `path` itself where nothing may replace it."""
    if written_in_place(path):
        with full_disk_named(path):
            yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with full_disk_named(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
