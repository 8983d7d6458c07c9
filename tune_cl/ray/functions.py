"""How a user's function reaches Ray's processes."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from ray import cloudpickle

from trainables.config.function import Objective
from trainables.core.errors import ConfigError, Problem, last_line

OURS = {"tune_cl", "trainables", "search_spaces", "tests"}  # where this checkout is on the path


def require_sendable(objective: Objective) -> None:
    """Lets the code of the function's file, and of imported modules beside it, travel with it, unless it is installed:
    then Ray's processes import it. Raises ConfigError for a function that cannot be sent, or is not at hand."""
    function, module = objective.required(), objective.module
    if module and module.__name__ != "__main__" and not _is_installed(module):
        cloudpickle.register_pickle_by_value(module)
    for beside in _beside(module):
        cloudpickle.register_pickle_by_value(beside)
    try:
        cloudpickle.dumps(function)  # pyright: ignore[reportPrivateImportUsage]
    except Exception as error:
        wrong = f"{objective.name} cannot be sent to other processes: {last_line(error)}"
        right = "a function whose outer variables can be pickled: open files, locks and the like within it"
        raise ConfigError(Problem("objective", wrong, right)) from error


def _beside(module: ModuleType | None) -> list[ModuleType]:
    """The imported modules of a folder, whose file the given module is, and of packages there; none where it is part of
    a package itself, or of ours."""
    file = getattr(module, "__file__", None)
    if module is None or not file or "." in module.__name__:
        return []
    folder = Path(file).resolve().parent
    roots = {name for name, each in list(sys.modules.items()) if "." not in name and _home(each) == folder} - OURS
    return [
        each
        for name, each in list(sys.modules.items())
        if name.partition(".")[0] in roots and name != "__main__" and not _is_installed(each)
    ]


def _home(module: ModuleType) -> Path | None:
    """The folder in which a module, or the folder of a package, lies."""
    if not (file := getattr(module, "__file__", None)):
        return None
    path = Path(file).resolve()
    return path.parent.parent if path.name == "__init__.py" else path.parent


def _is_installed(module: ModuleType) -> bool:
    """Whether every Python of this kind that has the same packages can import the module."""
    if module.__name__ in sys.stdlib_module_names or not getattr(module, "__file__", None):
        return True
    libraries = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    return any(Path(str(module.__file__)).is_relative_to(library) for library in libraries)
