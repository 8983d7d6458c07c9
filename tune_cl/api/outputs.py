"""The files that commands write where the user says."""

from __future__ import annotations

from pathlib import Path

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import require_file
from trainables.data import recognised


def output_path(output: str | Path | None, otherwise: str, source: str) -> Path:
    """The file to write: the given one, else one of that name in the working folder. Raises ConfigError if it cannot be
    a file, or if the data of this source is read from it."""
    path = Path(otherwise) if output is None else Path(output).expanduser()
    require_file("--output", path)
    if path.is_file() and path.resolve() in _files_of(source):
        raise ConfigError(Problem("--output", f"the data is read from '{path}'", "another file"))
    return path


def data_label(source: str) -> str:
    """The data's name as part of a file's name."""
    name = Path(source).expanduser().resolve().name if Path(source).expanduser().exists() else source
    return name.replace("/", "-").replace(":", "-")


def _files_of(source: str) -> set[Path]:
    _, _, names = recognised(source)
    folder = Path(source).expanduser()
    beside = folder if folder.is_dir() else folder.parent
    return {(beside / name).resolve() for name in names}
