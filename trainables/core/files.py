"""Files and folders: checks that they can be written, writing them whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from trainables.core.errors import ConfigError, Problem

LONGEST_NAME = 255  # bytes, the limit of common file systems
# A full disk, as safetensors, NumPy and LightGBM put it.
FULL = re.compile(rf"os error {errno.ENOSPC}\b|\d+ requested and \d+ written|wrote \d+ of \d+ bytes")


def require_file(option: str, path: Path) -> None:
    """Raises ConfigError if no file can be written at the path. For commands to check before they start work."""
    if os.path.isdir(path):
        raise ConfigError(Problem(option, f"'{path}' is a folder", "the path of a file"))
    if not is_device_or_pipe(path):
        require_folder(option, path.parent)


def require_folder(option: str, path: Path) -> None:
    """Raises ConfigError if the folder cannot be written to, or is missing and cannot be made."""
    existing = folder_on_the_way(option, Path(os.path.abspath(path)))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise unwritable(option, existing)


def unwritable(option: str, folder: Path) -> ConfigError:
    """The error for a folder that cannot be written to."""
    return ConfigError(Problem(option, f"'{folder}' cannot be written to", "a folder of yours"))


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


def write_text(path: str | Path, text: str | bytes) -> None:
    """Writes UTF-8 text, or bytes, through a temporary file beside it, so that no reader sees half a file; to a device
    or a pipe directly. Makes the folder."""
    path, content = Path(path), text if isinstance(text, bytes) else text.encode("utf-8")
    if is_device_or_pipe(path):
        path.write_bytes(content)
        return
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a hidden path beside `path`. The file written there replaces `path` at the end of the block, or is removed
    if the block fails; a link there is replaced, not followed. Makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
