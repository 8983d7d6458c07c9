"""Parts of one's own (scorings, pacings, rankers, ...): loads the files and modules that the user names, and the
entry points that installed packages declare for it. Nothing else is imported: no data, space or journal names code.

A file's source goes to other machines by value (`sent`); a module must be installed there.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import ExecutionLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import decode_source, module_from_spec, spec_from_loader
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any
from uuid import uuid4

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, DataError, Problem, UserError
from trainables.core.files import MOST_TEXT, opened
from trainables.core.registry import REGISTRIES, Entry

GROUP = "tune_cl.plugins"  # of entry points
OPTION = "--plugin"
RIGHT = "a Python file, or a module that can be imported here"


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in.

    module  the module that registers its parts; all modules of its package count as the plug-in
    file    the path of a plug-in that is a file, else None
    digest  of the file, or of all Python files of the module's package
    option  what names it behind --plugin; None if its package's entry point does
    source  the bytes of the file
    """

    module: str
    file: str | None
    digest: str
    option: str | None = None
    source: bytes | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What a journal and a saved ranker say of it."""
        return {"module": self.module, "file": self.file, "digest": self.digest}

    @property
    def label(self) -> str:
        """What users know it by."""
        return self.file or self.module

    def brings(self, module: str) -> bool:
        """Whether what a module registered is the plug-in's."""
        return module == self.module or (self.file is None and _package(module) == _package(self.module))


LOADED: list[Plugin] = []
"""The plug-ins of this process."""


Names = str | Path | Iterable[str | Path]


def load_plugins(names: Names = ()) -> list[Plugin]:
    """Loads the entry points of all installed packages, then files and modules, one or several. Returns all plug-ins of
    this process. What was loaded before is not run again, but for a file that has changed, which replaces its parts.

    Raises ConfigError naming what cannot be loaded, with its file and line.
    """
    for point in entry_points(group=GROUP):
        _load_point(point)
    for name in map(str, [names] if isinstance(names, str | Path) else names):
        _load_file(Path(name)) if name.endswith(".py") or Path(name).is_file() else _load_module(name, name)
    return list(LOADED)


def _load_point(point: EntryPoint) -> None:
    try:
        _load_module(point.module, None)
    except UserError as error:
        package = point.dist.name if point.dist else point.module
        raise ConfigError(
            Problem(each.location, f"{each.wrong} (plug-in of the installed package {package})", each.right)
            for each in error.problems
        ) from error


def _load_module(name: str, option: str | None) -> Plugin:
    if before := next((plugin for plugin in LOADED if plugin.module == name and plugin.file is None), None):
        return before
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            hint = f"{name}.py, with its ending" if Path(f"{name}.py").is_file() else RIGHT
            raise ConfigError(Problem(OPTION, f"no module '{error.name}'", hint)) from None
        raise _not_loaded(error, name) from error
    LOADED.append(plugin := Plugin(name, None, _module_digest(module), option))
    return plugin


def _load_file(path: Path) -> None:
    path = path.expanduser().absolute()
    try:
        with opened(path, most=MOST_TEXT) as file:
            source = file.read()
    except OSError as error:
        raise ConfigError(Problem(OPTION, f"'{path}' cannot be read ({error.strerror})", RIGHT)) from None
    digest = digest_of(source)
    if any((plugin.file, plugin.digest) == (str(path), digest) for plugin in LOADED):
        return
    for plugin in [plugin for plugin in LOADED if plugin.file == str(path)]:
        LOADED.remove(plugin)
        _forget(plugin.module)
    name = f"{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}_{digest[:8]}"
    _execute(Plugin(name, str(path), digest, str(path), source))


class _Source(ExecutionLoader):
    """Loads a module from the bytes of its file, which may be on another machine."""

    def __init__(self, plugin: Plugin):
        self.plugin = plugin

    def get_source(self, fullname: str) -> str:
        return decode_source(self.plugin.source or b"")

    def get_filename(self, fullname: str) -> str:
        return self.plugin.file or fullname

    def is_package(self, fullname: str) -> bool:
        return False


def _execute(plugin: Plugin) -> None:
    spec = spec_from_loader(plugin.module, loader := _Source(plugin))
    assert spec is not None
    sys.modules[plugin.module] = module = module_from_spec(spec)
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[plugin.module]
        _forget(plugin.module)
        raise _not_loaded(error, plugin.label) from error
    LOADED.append(plugin)


def _not_loaded(error: BaseException, name: str) -> UserError:
    """The error of a plug-in whose code failed, at the last line of it that ran."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, SyntaxError):
        line = f":{error.lineno}" if error.lineno else ""
        wrong = f"not valid Python ({error.msg})"
        return ConfigError(Problem(f"{error.filename or name}{line}", wrong, "a plug-in that Python can read"))
    package = f"/{_package(name)}"  # of a plug-in that is a module
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name or package in frame.filename
    ]
    location = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else f"{OPTION} {name}"
    text = " ".join(str(error).split())
    right = "a plug-in that loads without errors"
    if isinstance(error, ModuleNotFoundError) and error.name and (Path(name).parent / f"{error.name}.py").is_file():
        right = f"a plug-in is one file: put {error.name}.py into it, or install that as a package"
    return ConfigError(Problem(location, f"{type(error).__name__}: {text}", right))


def _forget(module: str) -> None:
    for registry in REGISTRIES:
        registry.remove({module})


def _package(module: str) -> str:
    return module.partition(".")[0]


def _module_digest(module: ModuleType) -> str:
    """Digest of the Python files of a module's package; of its one file if it is in none."""
    package = sys.modules[_package(module.__name__)]
    folders = [Path(folder) for folder in getattr(package, "__path__", [])]
    files = [(str(path.relative_to(folder)), path) for folder in folders for path in sorted(folder.rglob("*.py"))]
    initial = [(package.__name__, Path(package.__file__))] if not folders and package.__file__ else []
    return digest_of(files or initial)


def plugin_of(entry: Entry[Any]) -> Plugin | None:
    """The loaded plug-in that brought an entry."""
    return next((plugin for plugin in LOADED if not entry.built_in and plugin.brings(entry.module)), None)


def code_digest(entry: Entry[Any]) -> str:
    """Identifies the code behind an entry, for cache keys: nothing for built-in parts, whose modules have a version of
    their own; another value each time for a part that was registered outside a plug-in and may change unseen."""
    if entry.built_in:
        return ""
    return plugin.digest if (plugin := plugin_of(entry)) else uuid4().hex


def own_parts(tree: object) -> list[Entry[Any]]:
    """The entries, built-in ones aside, whose names are values in a tree of mappings and lists."""
    named = set(_words(tree))
    entries = [entry for registry in REGISTRIES for entry in registry.entries.values()]
    return [entry for entry in entries if not entry.built_in and entry.name in named]


def _words(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping | list | tuple):
        for value in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _words(value)


def code_digests(tree: object) -> list[str]:
    """`code_digest` of each part of one's own whose name is a value in a configuration."""
    return [code_digest(entry) for entry in own_parts(tree)]


def plugins_of(tree: object) -> list[Plugin]:
    """The plug-ins that bring parts whose names are values in a configuration, a tree of mappings and lists."""
    modules = {entry.module for entry in own_parts(tree)}
    return [plugin for plugin in LOADED if any(map(plugin.brings, modules))]


def plugin_files(tree: object) -> dict[str, str]:
    """{file or module: digest} of the plug-ins that bring parts of a configuration."""
    return {plugin.label: plugin.digest for plugin in plugins_of(tree)}


def require_sendable(tree: object) -> None:
    """Raises ConfigError for a part in a configuration that was registered outside a plug-in, as in a notebook: other
    processes lack it."""
    outside = {entry.name: entry.module for entry in own_parts(tree) if plugin_of(entry) is None}
    if outside:
        right = f"a file or module with it, named by {OPTION} (plugins=[...] in Python)"
        raise ConfigError(
            Problem(name, f"registered by {module}, which the processes of a search do not load", right)
            for name, module in outside.items()
        )


def require_plugins(recorded: Iterable[Mapping[str, Any]], of: str, same: bool = False) -> None:
    """Raises ConfigError unless all plug-ins recorded with `of` (a search, a ranker) are loaded; with `same`, DataError
    if one has changed since."""
    recorded = list(recorded)
    by_record = [(record, _loaded_as(record)) for record in recorded]
    if missing := [record for record, plugin in by_record if plugin is None]:
        raise ConfigError(
            Problem(
                OPTION,
                f"{of} needs the plug-in {record['file'] or record['module']}, which is not loaded",
                f"{OPTION} {quote(record['file'] or record['module'])} (plugins=[...] in Python)",
            )
            for record in missing
        )
    changed = [plugin for record, plugin in by_record if same and plugin and plugin.digest != record["digest"]]
    if changed:
        wrong = f"is not as {of} began with it: results before and after could not be compared"
        raise DataError(Problem(plugin.label, wrong, "the plug-in as it was, or a new search") for plugin in changed)


def _loaded_as(record: Mapping[str, Any]) -> Plugin | None:
    """The loaded plug-in of a record: the same code, else the same module or a file of the same name."""
    same = [plugin for plugin in LOADED if plugin.digest == record["digest"]]
    file = Path(record["file"]).name if record["file"] else None
    named = [
        plugin
        for plugin in LOADED
        if (Path(plugin.file).name == file if plugin.file and file else plugin.module == record["module"])
    ]
    return next(iter([*same, *named]), None)


def plugin_options() -> str:
    """The options of a command that load the same plug-ins again."""
    return "".join(f" {OPTION} {quote(plugin.option)}" for plugin in LOADED if plugin.option)


# -- in the processes of a cluster -------------------------------------------------------------------------------------

Sent = tuple[str, str | None, str, bytes | None]
problem_here: str | None = None  # why this process lacks a plug-in that its driver has


def sent() -> list[Sent]:
    """All plug-ins of this process, for `load_sent` in others."""
    return [(plugin.module, plugin.file, plugin.digest, plugin.source) for plugin in LOADED]


def load_sent(plugins: Sequence[Sent]) -> None:
    """Loads a driver's plug-ins. Raises nothing: what went wrong stays in `problem_here`, for the driver to ask."""
    global problem_here
    try:
        for module, file, digest, source in plugins:
            if file is not None:
                _execute(Plugin(module, file, digest, None, source))
            elif _load_module(module, None).digest != digest:
                wrong = f"the plug-in {module} there is another version than here"
                raise ConfigError(Problem(OPTION, wrong, "the same version"))
    except UserError as error:
        problem_here = "; ".join(f"{problem.location}: {problem.wrong}" for problem in error.problems)


def what_is_wrong_here() -> str | None:
    """`problem_here`, as a function that a cluster can call."""
    return problem_here
