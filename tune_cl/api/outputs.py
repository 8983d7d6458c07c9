"""The files that commands write where the user says."""

from __future__ import annotations

from pathlib import Path

from trainables.core.files import require_file


def output_path(output: str | Path | None, source: str, ending: str) -> Path:
    """`output`, else DATA.ENDING in the working folder. Raises ConfigError if it cannot be a file."""
    folder = Path(source).expanduser()
    data = (folder.resolve().name if folder.exists() else source).replace("/", "-").replace(":", "-")
    path = Path(output or f"{data}.{ending}").expanduser()
    require_file("--output", path)
    return path
