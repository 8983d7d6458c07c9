"""Where searches live: <storage>/<name>."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from trainables.errors import ConfigError, Problem, nearest
from tune_cl.journal import FILE

DEFAULT_STORAGE = "./tune_cl_runs"


def program(name: str) -> str:
    """How to call a console script of this installation from here, whether or not its environment is active."""
    if shutil.which(name):
        return name
    return os.path.relpath(Path(sys.executable).parent / name)


@dataclass(frozen=True)
class Place:
    """The folder of one search."""

    storage: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.storage / self.name

    @property
    def journal(self) -> Path:
        return self.folder / FILE

    def command(self, command: str) -> str:
        """What a user types to do `command` with this search."""
        storage = "" if self.storage == local(DEFAULT_STORAGE) else f" --storage {self.storage}"
        return f"{program('tune-cl')} {command} {self.name}{storage}"


def new_place(storage: str, name: str | None, space: str) -> Place:
    """A free place: the given name, or the space's with the first free number behind it.

    Raises ConfigError where a search of the given name exists.
    """
    root = local(storage)
    if name is None:
        number = 1
        while (root / (name := space if number == 1 else f"{space}-{number}") / FILE).exists():
            number += 1
    place = Place(root, name)
    if place.journal.exists():
        raise ConfigError(
            Problem("--name", f"a search '{name}' exists in {root}", f"tune-cl resume {name}, or another name")
        )
    return place


def known_place(storage: str, name: str) -> Place:
    """The place of an existing search. Raises ConfigError where there is none."""
    place = Place(local(storage), name)
    if not place.journal.exists():
        known = [path.parent.name for path in place.storage.glob(f"*/{FILE}")]
        right = nearest(name, known) if known else "tune-cl run starts one"
        raise ConfigError(Problem("NAME", f"no search '{name}' in {place.storage}", right))
    return place


def local(storage: str) -> Path:
    """Absolute path of a storage folder. Raises ConfigError for what this version cannot write to."""
    if "://" in storage:
        raise ConfigError(
            Problem("--storage", f"'{storage}' is not a folder", "a path; on a cluster, one that all nodes see")
        )
    return Path(storage).resolve()
