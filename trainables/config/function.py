"""A user's training function, and where it comes from. On disk are only its name and its file: reading a search never
runs code from it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from trainables.core.errors import ConfigError, Problem, last_line, nearest

OPTION = "--objective"
Function = Callable[..., Any]


@dataclass(frozen=True)
class Objective:
    """A training function.

    name      qualified, for people
    file      it was defined in; None for one from a console
    function  None where only the record of it was read
    """

    name: str
    file: str | None = None
    function: Function | None = None

    @property
    def record(self) -> dict[str, str | None]:
        """What journals and search-space files hold of it."""
        return {"name": self.name, "file": self.file}

    @property
    def option(self) -> str:
        """What a user types after OPTION to name it."""
        return f"{self.file or 'FILE.py'}:{self.name.rpartition('.')[2]}"

    def required(self) -> Function:
        """The function. Raises ConfigError if only its record was read."""
        if self.function is None:
            wrong = f"the search trains by the function {self.name}, which is not given"
            right = f"objective={self.name} in Python, or {OPTION} {self.option}"
            raise ConfigError(Problem("objective", wrong, right))
        return self.function

    @property
    def module(self) -> ModuleType | None:
        """The module that defines the function."""
        return sys.modules.get(_definition(self.function).__module__)


def objective_of_record(document: Mapping[str, Any]) -> Objective:
    """The inverse of `Objective.record`."""
    return Objective(document["name"], document["file"])


def same(record: Objective, given: Objective) -> Objective:
    """The given function for a search that recorded one. Raises ConfigError for one of another name."""
    if record.name != given.name:
        wrong = f"the search trains by {record.name}, and not by {given.name}"
        raise ConfigError(Problem("objective", wrong, f"{OPTION} {record.option}"))
    return replace(record, function=given.function)


def objective_of(function: Function | Objective | str) -> Objective:
    """The objective of a function `(config, trial)`, or of one that FILE.py:FUNCTION names. Raises ConfigError for
    anything else."""
    if isinstance(function, Objective):
        return function
    if isinstance(function, str):
        return load_objective(function)
    if not callable(function):
        raise ConfigError(Problem("objective", f"{function!r} is not a function", "a function (config, trial)"))
    definition = _definition(function)
    name = definition.__qualname__.rpartition("<locals>.")[2]
    try:
        inspect.signature(function).bind({}, None)
    except TypeError as error:
        wrong = f"{name} cannot be called with two arguments ({error})"
        raise ConfigError(Problem("objective", wrong, f"def {name}(config, trial): ...")) from None
    file = getattr(sys.modules.get(definition.__module__), "__file__", None)
    return Objective(name, file and str(Path(file).resolve()), function)


def _definition(function: Any) -> Any:
    """The function within decorators and partial applications, or the class of an object that can be called."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inspect.unwrap(inner.func)
    inner = getattr(inner, "__func__", inner)
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)


def load_objective(text: str) -> Objective:
    """The objective that `--objective FILE.py:FUNCTION` names, whose file is run as a module. Raises ConfigError."""
    path, _, name = text.rpartition(":")
    if not Path(path).expanduser().is_file():
        raise ConfigError(Problem(OPTION, f"'{text}' names no Python file", "FILE.py:FUNCTION"))
    module = _module(Path(path).expanduser().resolve())
    function = getattr(module, name, None)
    if function is None:
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ConfigError(Problem(OPTION, f"{path} has no function '{name}'", nearest(name, functions)))
    return objective_of(function)


def _module(path: Path) -> ModuleType:
    """The module of a file. As for a script, its folder is searched for what it imports."""
    name = f"objective_{path.stem}"  # not the name of a module that is imported
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(Problem(OPTION, f"{path} is no Python file", "FILE.py:FUNCTION"))
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
        paths = [folder, os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # for a local Ray's processes
    sys.modules[name] = module = module_from_spec(spec)  # cloudpickle looks there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        wrong = f"{path} cannot be run: {type(error).__name__}: {last_line(error)}"
        raise ConfigError(Problem(OPTION, wrong, "a file that imports without an error")) from error
    return module
