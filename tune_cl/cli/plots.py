"""Pictures that commands write with `--plot FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import output_file, replacing, require_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")


def require_format(path: Path) -> None:
    """Raises ConfigError unless the file can be written and its name ends in .png or .svg."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(Problem("--plot", f"'{path}' names no format", f"a file ending in {' or '.join(FORMATS)}"))
    require_file("--plot", path)


def save_figure(figure: Figure, path: Path) -> None:
    """Writes PNG or SVG, by the suffix, atomically; creates the folder. Text in an SVG stays text."""
    from matplotlib import rc_context  # here: a command that draws nothing checks `--plot` with this module, too

    kind = path.suffix.lower().removeprefix(".")
    with (
        output_file(path) as file,
        replacing(file) as temporary,
        rc_context({"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}),  # pyright: ignore[reportArgumentType]
    ):
        figure.savefig(temporary, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else {})
