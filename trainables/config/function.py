"""A user's training function: where it comes from, and how it reaches the processes that call it.

It travels as cloudpickle's bytes, in memory, within one run of the program. On disk are only its name, its file and a
digest of its source: reading a search never runs code from it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import cloudpickle

from trainables.core.errors import ConfigError, Problem, last_line, nearest

OPTION = "--objective"
Function = Callable[..., Any]


@dataclass(frozen=True)
class Objective:
    """A training function.

    name     qualified, for people
    file     it was defined in; None for one from a console
    digest   of its source without comments and layout; None if there is no source
    pickled  the function; None where only the record of it was read
    """

    name: str
    file: str | None = None
    digest: str | None = None
    pickled: bytes | None = None

    @property
    def record(self) -> dict[str, str | None]:
        """What journals and search-space files hold of it."""
        return {key: value for key, value in asdict(self).items() if key != "pickled"}

    @property
    def option(self) -> str:
        """What a user types to name it."""
        return f"{self.file or 'FILE.py'}:{self.name.rpartition('.')[2]}"

    def function(self) -> Function:
        """The function itself. Raises ConfigError if only its record was read."""
        if self.pickled is None:
            raise ConfigError(missing(self))
        return cloudpickle.loads(self.pickled)


def missing(objective: Objective) -> Problem:
    """The problem of a search by a function that is not at hand."""
    right = f"objective={objective.name} in Python, or {OPTION} {objective.option}"
    return Problem("objective", f"the search trains by the function {objective.name}, which is not given", right)


def recorded(document: Mapping[str, Any]) -> Objective:
    """The inverse of `Objective.record`; raises ConfigError for another document."""
    try:
        return Objective(**{key: document.get(key) for key in ("file", "digest")}, name=str(document["name"]))
    except (KeyError, TypeError, AttributeError):
        right = f"no such key in a file: {OPTION} FILE.py:FUNCTION gives the function"
        raise ConfigError(Problem("objective", "is no record of a function", right)) from None


def same(record: Objective, given: Objective) -> Objective:
    """The given function for a search that recorded one. Raises ConfigError if its source has changed: trainings before
    and after could not be compared."""
    if record.digest and given.digest and record.digest != given.digest:
        wrong = f"{given.name} is not the function that the search began with: its code differs"
        raise ConfigError(Problem("objective", wrong, f"that code of {record.option}, or a new search"))
    return replace(record, pickled=given.pickled)


def objective_of(function: Function) -> Objective:
    """The objective of a function `(config, trial)`. Raises ConfigError for anything else, and for one that cannot
    travel."""
    if not callable(function):
        right = "a function (config, trial)"
        raise ConfigError(Problem("objective", f"{function!r} is no function", right))
    inner = _innermost(function)
    _require_two_arguments(function, inner)
    code = inner if inspect.isfunction(inner) or inspect.isclass(inner) else type(inner)
    name = getattr(code, "__qualname__", type(function).__name__)
    pickled = _pickled(function, sys.modules.get(code.__module__))
    return Objective(name.rpartition("<locals>.")[2], _file(code), _digest(code), pickled)


def load_objective(text: str) -> Objective:
    """The objective that `--objective FILE.py:FUNCTION` names, whose file is run as a module. Raises ConfigError."""
    path, colon, name = text.rpartition(":")
    if not (path and colon and name):
        raise ConfigError(Problem(OPTION, f"'{text}' is not FILE.py:FUNCTION", "e.g. own_trainer.py:train"))
    module = _module(Path(path))
    function = getattr(module, name, None)
    if function is None:
        own = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        right = nearest(name, own) if own else "a file that defines it"
        raise ConfigError(Problem(OPTION, f"{path} has no function '{name}'", right))
    return objective_of(function)


def _module(path: Path) -> ModuleType:
    """The module of a file. As for a script, its folder is searched for what it imports."""
    path = path.resolve()
    name = f"objective_{path.stem}"  # not the name of a module that is imported
    spec = spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(Problem(OPTION, f"there is no Python file {path}", "FILE.py:FUNCTION"))
    module = module_from_spec(spec)
    sys.modules[name] = module  # inspect and cloudpickle look there
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        wrong = f"{path} cannot be run: {type(error).__name__}: {last_line(error)}"
        raise ConfigError(Problem(OPTION, wrong, "a file that imports without an error")) from error
    return module


def _innermost(function: Function) -> Any:
    """The function within decorators and partial applications."""
    inner: Any = inspect.unwrap(function)
    return _innermost(inner.func) if isinstance(inner, partial) else getattr(inner, "__func__", inner)


def _require_two_arguments(function: Function, inner: Any) -> None:
    try:
        inspect.signature(function).bind({}, None)
    except TypeError as error:
        name = getattr(inner, "__name__", type(inner).__name__)
        right = f"def {name}(config, trial): ..."
        raise ConfigError(
            Problem("objective", f"{name} cannot be called with two arguments ({error})", right)
        ) from None


def _pickled(function: Function, module: ModuleType | None) -> bytes:
    """The function as bytes. Code of a file that is not installed travels with it; what is installed is imported."""
    own = module is not None and module.__name__ != "__main__" and not _is_installed(module)
    if own:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        wrong = f"cannot be sent to other processes: {last_line(error)}"
        right = "a function whose outer variables can be pickled: open files, locks and the like within it"
        raise ConfigError(Problem("objective", wrong, right)) from error
    finally:
        if own:
            cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    """Whether every Python of this kind that has the same packages can import the module."""
    if module.__name__ in sys.stdlib_module_names or not getattr(module, "__file__", None):
        return True
    libraries = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib")}
    return any(Path(str(module.__file__)).is_relative_to(library) for library in libraries)


def _file(code: Any) -> str | None:
    try:
        file = Path(str(inspect.getsourcefile(code)))
    except TypeError:
        return None
    return str(file.resolve()) if file.is_file() else None


def _digest(code: Any) -> str | None:
    """Of the source as Python parses it: comments and layout do not count."""
    try:
        tree = ast.parse(dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return None
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
