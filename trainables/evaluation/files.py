"""Writing result files all or nothing."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4


def write_text(path: str | Path, text: str) -> None:
    """Writes UTF-8 text by way of a temporary file beside it: a reader never sees half a file. Makes the folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
