"""How commands are written for users to type."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from shlex import quote


def program(name: str) -> str:
    """How to call a console script of this installation from here, whether or not its environment is active."""
    if shutil.which(name):
        return name
    return quote(os.path.relpath(Path(sys.executable).parent / name))
