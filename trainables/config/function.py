"""A user's training function, and where it comes from.

Ray brings it to the processes that call it, within one run of the program. On disk are only its name, its file and a
digest of its source: reading a search never runs code from it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from trainables.core.errors import ConfigError, Problem, last_line, nearest
from trainables.core.files import MOST_TEXT, opened

OPTION = "--objective"
Function = Callable[..., Any]


@dataclass(frozen=True)
class Objective:
    """A training function.

    name      qualified, for people
    file      it was defined in; None for one from a console
    digest    of its source without comments and layout; None if there is no source
    function  None where only the record of it was read
    """

    name: str
    file: str | None = None
    digest: str | None = None
    function: Function | None = None

    @property
    def record(self) -> dict[str, str | None]:
        """What journals and search-space files hold of it."""
        return {"name": self.name, "file": self.file, "digest": self.digest}

    @property
    def option(self) -> str:
        """What a user types to name it."""
        return option_of(self.record)

    def required(self) -> Function:
        """The function. Raises ConfigError if only its record was read."""
        if self.function is None:
            raise ConfigError(missing(self))
        return self.function

    @property
    def module(self) -> ModuleType | None:
        """The module that defines the function."""
        return sys.modules.get(_code(self.function).__module__)


def option_of(record: Mapping[str, str | None] | None) -> str:
    """What a user types after OPTION to name a recorded function; empty without one."""
    return f"{record['file'] or 'FILE.py'}:{str(record['name']).rpartition('.')[2]}" if record else ""


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
        raise ConfigError(Problem("objective", "is not a record of a function", right)) from None


def same(record: Objective, given: Objective) -> Objective:
    """The given function for a search that recorded one. Raises ConfigError if its source has changed: trainings before
    and after could not be compared."""
    if record.digest and given.digest and record.digest != given.digest:
        wrong = f"{given.name} is not the function that the search began with: its code differs"
        raise ConfigError(Problem("objective", wrong, f"that code of {record.option}, or a new search"))
    return replace(record, function=given.function)


def objective_of(function: Function | Objective) -> Objective:
    """The objective of a function `(config, trial)`. Raises ConfigError for anything else."""
    if isinstance(function, Objective):
        return function
    if not callable(function):
        right = "a function (config, trial)"
        raise ConfigError(Problem("objective", f"{function!r} is not a function", right))
    code = _code(function)
    try:
        inspect.signature(function).bind({}, None)
    except TypeError as error:
        name = getattr(code, "__name__", "train")
        wrong = f"{name} cannot be called with two arguments ({error})"
        raise ConfigError(Problem("objective", wrong, f"def {name}(config, trial): ...")) from None
    name = getattr(code, "__qualname__", type(function).__name__)
    return Objective(name.rpartition("<locals>.")[2], _file(code), _digest(code), function)


def load_objective(text: str) -> Objective:
    """The objective that `--objective FILE.py:FUNCTION` names, whose file is run as a module. Raises ConfigError."""
    path, colon, name = text.rpartition(":")
    if not (path and colon and name):
        raise ConfigError(Problem(OPTION, f"'{text}' is not FILE.py:FUNCTION", "e.g. own_trainer.py:train"))
    module = _module(Path(path))
    function = getattr(module, name, None)
    if function is None:
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        right = nearest(name, functions) if functions else "a file that defines it"
        raise ConfigError(Problem(OPTION, f"{path} has no function '{name}'", right))
    return objective_of(function)


def _module(path: Path) -> ModuleType:
    """The module of a file. As for a script, its folder is searched for what it imports."""
    path = path.resolve()
    name = f"objective_{path.stem}"  # not the name of a module that is imported
    spec = spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(Problem(OPTION, f"there is no Python file {path}", "FILE.py:FUNCTION"))
    opened(path, most=MOST_TEXT).close()
    module = module_from_spec(spec)
    sys.modules[name] = module  # inspect and cloudpickle look there
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
        paths = [str(path.parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # for a local Ray's processes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        wrong = f"{path} cannot be run: {type(error).__name__}: {last_line(error)}"
        raise ConfigError(Problem(OPTION, wrong, "a file that imports without an error")) from error
    return module


def _code(function: Any) -> Any:
    """What has the source: the function within decorators and partial applications, or the class of an object that can
    be called."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inspect.unwrap(inner.func)
    inner = getattr(inner, "__func__", inner)
    return inner if inspect.isfunction(inner) or inspect.isclass(inner) else type(inner)


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
