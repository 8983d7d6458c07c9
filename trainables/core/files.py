"""Files and folders: checks that they can be written, writing them whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from uuid import uuid4

from trainables.core.errors import ConfigError, DataError, Problem

LONGEST_NAME = 255  # bytes, the limit of common file systems
MOST_TEXT = 1 << 28  # bytes of a text that is read at once
# as safetensors, NumPy and LightGBM put it
FULL = re.compile(rf"os error {errno.ENOSPC}\b|\d+ requested and \d+ written|wrote \d+ of \d+ bytes")


def require_file(option: str, path: Path) -> None:
    """Raises ConfigError if no file can be written at the path. For commands to check before they start work."""
    if os.path.isdir(path):
        raise ConfigError(Problem(option, f"'{path}' is a folder", "the path of a file"))
    if not is_device_or_pipe(path):
        require_folder(option, path.parent)


def require_folder(option: str, path: Path) -> None:
    """Raises ConfigError if the folder cannot be written to, or is missing and cannot be made. Leaves nothing behind.

    It tries this in a temporary folder where the first new folder would be: permission bits are not an answer, since a
    special file system may refuse what they allow, and they allow root everything.
    """
    if ".." in path.parts:  # this may follow a folder that does not exist yet
        path = Path(os.path.abspath(path))
    existing = folder_on_the_way(option, path)
    try:
        with TemporaryDirectory(prefix=".tune_cl-", dir=existing) as trial:
            Path(trial, *path.parts[len(existing.parts) :]).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(option, existing, error) from None


def unwritable(option: str, folder: Path, error: OSError) -> ConfigError:
    """The error for a folder that cannot be written to."""
    return ConfigError(Problem(option, f"'{folder}' cannot be written to ({error.strerror})", "a folder of yours"))


def folder_on_the_way(option: str, path: Path) -> Path:
    """The path, or its nearest ancestor that exists. Raises ConfigError if that is not a folder."""
    existing = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    if not os.path.isdir(existing):
        raise ConfigError(Problem(option, f"'{existing}' is not a folder", "a path through folders"))
    return existing


def is_device_or_pipe(path: Path) -> bool:
    """Whether the path is a device, a pipe or an open file such as /dev/stdout, which renaming a file would replace:
    as root, /dev/null for the whole machine."""
    return path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir())


def names_folder(name: str) -> bool:
    """Whether a word can name a subfolder: printable, not only dots, at most 255 bytes, without a slash."""
    short = len(os.fsencode(name)) <= LONGEST_NAME
    return name.isprintable() and bool(name.strip(". ")) and "/" not in name and short


def opened(path: Path, most: int | None = None) -> BinaryIO:
    """The file's bytes, to read. Raises DataError for a file of more than `most` bytes, OSError as `open` does."""
    file = path.open("rb")
    if most is not None and os.fstat(file.fileno()).st_size > most:
        file.close()
        raise too_long(path, most)
    return file


def too_long(location: str | Path, most: int) -> DataError:
    """The error for what is longer than anything that is meant."""
    return DataError(Problem(str(location), f"longer than {most:,} bytes", "give a file of the form that is meant"))


def read_text(path: Path) -> str:
    """UTF-8 text of a file; raises what `opened` raises, for a file of more than MOST_TEXT bytes too."""
    with opened(path, most=MOST_TEXT) as file:
        return file.read().decode()


def write_text(path: str | Path, text: str | bytes) -> None:
    """Writes UTF-8 text, or bytes, through a temporary file beside it, so that no reader sees half a file. Makes the
    folder."""
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))


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
    if the block fails; a link there is replaced, not followed. Makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with full_disk_named(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Yields the path to write for a file that the user named. Usually that is the same path; for a device, a pipe or
    an open file it is a temporary one, whose content is then written there (`is_device_or_pipe`)."""
    if not is_device_or_pipe(path):
        yield path
        return
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        temporary = Path(scratch, path.name)
        yield temporary
        with full_disk_named(path), temporary.open("rb") as content, path.open("wb") as target:
            shutil.copyfileobj(content, target)
