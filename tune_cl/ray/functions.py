"""How a user's function reaches Ray's processes."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from ray import cloudpickle

from trainables.config.function import Objective
from trainables.core.errors import ConfigError, Problem, last_line


def require_sendable(objective: Objective) -> None:
    """Lets the code of the function's file travel with it, unless it is installed: then Ray's processes import it.
    Raises ConfigError for a function that cannot be sent, or is not at hand."""
    function, module = objective.required(), objective.module
    if module and module.__name__ != "__main__" and not _is_installed(module):
        cloudpickle.register_pickle_by_value(module)
    try:
        cloudpickle.dumps(function)  # pyright: ignore[reportPrivateImportUsage]
    except Exception as error:
        wrong = f"{objective.name} cannot be sent to other processes: {last_line(error)}"
        right = "a function whose outer variables can be pickled: open files, locks and the like within it"
        raise ConfigError(Problem("objective", wrong, right)) from error


def _is_installed(module: ModuleType) -> bool:
    """Whether every Python of this kind that has the same packages can import the module."""
    if module.__name__ in sys.stdlib_module_names or not getattr(module, "__file__", None):
        return True
    libraries = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    return any(Path(str(module.__file__)).is_relative_to(library) for library in libraries)
