"""Parts of one's own (scorings, pacings, rankers, ...): imports the files and modules that the user names, and the
entry points that installed packages declare. Nothing else is imported: no data, space or journal names code.

The text of a file goes to Ray's processes (`load_sent`); a module must be installed there.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any
from uuid import uuid4

from trainables.core.errors import ConfigError, Problem, UserError
from trainables.core.registry import REGISTRIES, Entry

GROUP = "tune_cl.plugins"  # of entry points
OPTION = "--plugin"
WHOLE = "a plug-in that loads without errors"


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in.

    module  the module that registers its parts; the modules of its package belong to it
    file    the path of a plug-in that is a file, else None
    source  the text of that file, else ''
    option  what names it behind --plugin; None if its package's entry point does
    """

    module: str
    file: str | None = None
    source: str = ""
    option: str | None = None

    @property
    def label(self) -> str:
        """What users know it by, and journals and saved rankers record."""
        return self.file or self.module

    def registered(self, entry: Entry[Any]) -> bool:
        package = self.module.partition(".")[0]
        return entry.module == self.module or (self.file is None and entry.module.startswith(f"{package}."))


LOADED: list[Plugin] = []
"""The plug-ins of this process."""

Names = str | Path | Iterable[str | Path]


def load_plugins(names: Names = ()) -> list[Plugin]:
    """Loads the entry points of all installed packages, then files and modules, one or several. Returns all plug-ins of
    this process. What was loaded before is not run again, but for a file that has changed, which replaces its parts.

    Raises ConfigError naming what cannot be loaded, with its file and line.
    """
    for point in entry_points(group=GROUP):
        _load_module(point.module, None)
    for name in [names] if isinstance(names, str | Path) else names:
        path = Path(name).expanduser().absolute()
        if path.suffix == ".py" or path.is_file():
            _load_file(path)
        else:
            _load_module(str(name), str(name))
    return list(LOADED)


def _load_module(name: str, option: str | None) -> None:
    if any(plugin.module == name for plugin in LOADED):
        return
    try:
        import_module(name)
    except (Exception, SystemExit) as error:
        raise _load_error(error, name) from error
    LOADED.append(Plugin(name, option=option))


def _load_file(path: Path) -> None:
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(Problem(OPTION, f"'{path}' cannot be read ({error})", "a Python file, or a module")) from None
    module = "plugin_" + re.sub(r"\W", "_", str(path.with_suffix("")))
    plugin = Plugin(module, str(path), source, str(path))
    if plugin not in LOADED:
        _forget(module)
        _execute(plugin)


def _execute(plugin: Plugin) -> None:
    """Runs the text of a file, which may be on another machine, as a module."""
    label = plugin.label
    sys.modules[plugin.module] = module = ModuleType(plugin.module)
    module.__file__ = label
    try:
        exec(compile(plugin.source, label, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[plugin.module]
        _forget(plugin.module)
        raise _load_error(error, label) from error
    LOADED.append(plugin)


def _forget(module: str) -> None:
    LOADED[:] = [plugin for plugin in LOADED if plugin.module != module]
    for registry in REGISTRIES:
        registry.remove({module})


def _load_error(error: BaseException, name: str) -> UserError:
    """The error of a plug-in whose code failed, at the last line of it that ran."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, SyntaxError):
        place = f"{error.filename or name}:{error.lineno or 1}"
        return ConfigError(Problem(place, f"not valid Python ({error.msg})", WHOLE))
    package = f"/{name.partition('.')[0]}"  # of a plug-in that is a module
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if name == frame.filename or package in frame.filename]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else f"{OPTION} {name}"
    wrong, _, right = " ".join(str(error).split()).partition("; ")
    return ConfigError(Problem(place, f"{type(error).__name__}: {wrong}", right or WHOLE))


# -- parts of one's own in a configuration -----------------------------------------------------------------------------


def own_parts(tree: object) -> list[Entry[Any]]:
    """The entries, built-in ones aside, whose names are values in a tree of mappings and lists."""
    words = set(_words(tree))
    entries = [entry for registry in REGISTRIES for entry in registry.entries.values()]
    return [entry for entry in entries if not entry.built_in and entry.name in words]


def _words(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        yield from _words(list(tree.values()))
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _words(value)


def plugin_of(entry: Entry[Any]) -> Plugin | None:
    """The loaded plug-in that brought an entry."""
    return next((plugin for plugin in LOADED if plugin.registered(entry)), None)


def plugins_of(tree: object) -> list[str]:
    """The labels of the plug-ins that bring parts whose names are values in a configuration."""
    entries = own_parts(tree)
    return [plugin.label for plugin in LOADED if any(map(plugin.registered, entries))]


def source_of(entry: Entry[Any]) -> str:
    """What cache keys hold of an entry's code: nothing for built-in parts; the text of the module that registered it;
    for a notebook's, which may change unseen, another value each time."""
    if entry.built_in:
        return ""
    plugin = plugin_of(entry)
    if plugin and plugin.source:
        return plugin.source
    try:
        return inspect.getsource(sys.modules[entry.module])
    except (OSError, TypeError, KeyError):
        return uuid4().hex


def sources_of(tree: object) -> list[str]:
    """`source_of` each part of one's own whose name is a value in a configuration."""
    return [source_of(entry) for entry in own_parts(tree)]


def require_sendable(tree: object) -> None:
    """Raises ConfigError for a part in a configuration that was registered outside a plug-in, as in a notebook: other
    processes lack it."""
    right = f"a file or module with it, named by {OPTION} (plugins=[...] in Python)"
    problems = [
        Problem(entry.name, f"registered by {entry.module}, which the processes of a search do not load", right)
        for entry in own_parts(tree)
        if plugin_of(entry) is None
    ]
    if problems:
        raise ConfigError(problems)


def require_plugins(labels: Iterable[str], of: str) -> None:
    """Raises ConfigError unless the plug-ins recorded with `of` (a search, a ranker) are loaded; a file may lie in
    another folder now."""
    loaded = {Path(plugin.label).name for plugin in LOADED}
    missing = [label for label in labels if Path(label).name not in loaded]
    if missing:
        wrong = f"{of} needs the plug-in {{}}, which is not loaded"
        right = f"{OPTION} {{}} (plugins=[...] in Python)"
        raise ConfigError(Problem(OPTION, wrong.format(label), right.format(quote(label))) for label in missing)


def plugin_options() -> str:
    """The options of a command that load the same plug-ins again."""
    return "".join(f" {OPTION} {quote(plugin.option)}" for plugin in LOADED if plugin.option)


# -- in the processes of a cluster -------------------------------------------------------------------------------------

problem_here: str | None = None  # why this process lacks a plug-in that its driver has


def load_sent(plugins: Sequence[Plugin]) -> None:
    """Loads a driver's plug-ins. Raises nothing: what went wrong stays in `problem_here`, for the driver to ask."""
    global problem_here
    try:
        for plugin in plugins:
            if plugin.file:
                _execute(plugin)
            else:
                _load_module(plugin.module, None)
    except UserError as error:
        problem_here = "; ".join(f"{problem.location}: {problem.wrong}" for problem in error.problems)
