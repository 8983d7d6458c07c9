"""Files and folders of results: whether they can be written, and writing them all or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from trainables.errors import ConfigError, Problem

LONGEST_NAME = 255  # bytes: what file systems take


def require_file(option: str, path: Path) -> None:
    """For commands to ask before they work. Raises ConfigError where no file can be written at the path."""
    if os.path.isdir(path):
        raise ConfigError(Problem(option, f"'{path}' is a folder", "the path of a file"))
    require_folder(option, path.parent)


def require_folder(option: str, path: Path) -> None:
    """Raises ConfigError where the folder neither can be written to nor can be made. Leaves nothing behind.

    It is tried, in a temporary folder where the first new one would be: permissions say nothing of what a special file
    system takes, and to root they say yes to everything.
    """
    if ".." in path.parts:  # it may lead out of a folder that is not there yet
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
    """The folder, or the nearest one above it that is there. Raises ConfigError where that is no folder."""
    there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    if not os.path.isdir(there):
        raise ConfigError(Problem(option, f"'{there}' is no folder", "a path through folders"))
    return there


def names_folder(name: str) -> bool:
    """Whether a word can name a folder within another one."""
    short = len(os.fsencode(name)) <= LONGEST_NAME
    return name.isprintable() and bool(name.strip(". ")) and "/" not in name and short


def write_text(path: str | Path, text: str) -> None:
    """Writes UTF-8 text by way of a temporary file beside it: a reader never sees half a file. Makes the folder."""
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden path beside `path`, whose file takes its place at the end, or goes where that is not reached. Makes the
    folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
