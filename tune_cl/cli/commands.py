"""The commands: each is a function of the Python API, whose signature gives its options and whose docstring its help.

A function is imported when its command is called; the list of commands reads summaries from the files."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, get_args, get_origin

import click

from trainables.core.plugins import load_plugins

FUNCTIONS = {  # command -> its function; those of a search take what opens one, too
    "run": "tune_cl.api.start:run",
    "resume": "tune_cl.api.search:Search.resume",
    "confirm": "tune_cl.api.search:Search.confirm",
    "effects": "tune_cl.api.search:Search.effects",
    "report": "tune_cl.api.search:Search.write_report",
    "train": "tune_cl.api.train:train",
    "rerank": "tune_cl.api.rerank:rerank",
    "baseline": "tune_cl.api.baseline:baseline",
    "evaluate": "tune_cl.api.evaluate:evaluate",
    "score": "tune_cl.api.score:score",
    "check": "tune_cl.api.check:check",
    "data": "tune_cl.api.data:data_facts",
    "list": "tune_cl.api.listing:listed",
}
OPENS = "tune_cl.api.start:open_search"
IN_PYTHON_ONLY = {"self", "progress", "plugins", "callbacks"}
METAVARS = {
    "overrides": "KEY=VALUE", "storage": "FOLDER", "tracking_uri": "URI", "address": "HOST:PORT", "trials": "ID,..",
    "checkpoints": "ADDRESS",
    "objective": "FILE.py:FUNCTION", "output": "FILE", "paper": "FOLDER", "documents": "FILE", "query": "TEXT",
    "metrics": "NAME,..", "runs": "RUN...", "ranker": "NAME",
}  # fmt: skip
PLAN = click.Option(["--plan"], is_flag=True, help="train nothing: how many seeds find which gain, in how many hours")
TABLE_ROW = re.compile(r"([a-z_]+)  +(\S.*)")
OWN_PARTS = "a Python file or module with parts of your own; repeatable"
FOR_ALL = (
    click.Option(["--json"], is_flag=True, help="one JSON document on stdout, all else on stderr"),
    click.Option(["--debug"], is_flag=True, help="show tracebacks"),
    click.Option(["--plugin"], multiple=True, metavar="FILE_OR_MODULE", help=OWN_PARTS),
)


class Commands(click.Group):
    """The group `tune-cl`, whose commands are made when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(FUNCTIONS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command(cmd_name) if cmd_name in FUNCTIONS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(source)) for name, source in FUNCTIONS.items()])


def command(name: str) -> click.Command:
    """The command of that name, from its function."""
    function = resolve_name(FUNCTIONS[name])
    text, helps = documentation(function)
    parameters = dict(inspect.signature(function).parameters)
    call = function
    if "self" in parameters:
        opener = resolve_name(OPENS)
        helps = documentation(opener)[1] | helps
        parameters = {**inspect.signature(opener).parameters, **parameters}
        call = partial(on_search, function)
    options = [option_of(one, function, helps) for one in parameters.values() if one.name not in IN_PYTHON_ONLY]
    options += [PLAN] if name == "confirm" else []
    return click.Command(name, params=[*options, *FOR_ALL], callback=partial(with_plugins, call), help=text)


def with_plugins(call: Callable[..., Any], json: bool, debug: bool, plugin: tuple[str, ...], **arguments: Any) -> Any:
    """The call, after the plug-ins are loaded; `main` has read the other options of all commands."""
    if plugin:
        load_plugins(plugin)
    return call(**arguments)


def on_search(method: Callable[..., Any], name: str, storage: str, tracking_uri: str | None, **arguments: Any) -> Any:
    """A method, called on the search of that name."""
    search = resolve_name(OPENS)(name, storage, tracking_uri)
    if arguments.pop("plan", False):
        return search.plan(arguments["top"], arguments["trials"], arguments["split"])
    return method(search, **arguments)


def option_of(parameter: inspect.Parameter, function: Any, helps: Mapping[str, str]) -> click.Parameter:
    """A parameter without a default is an argument, as is a space; any other is an option."""
    name, default = parameter.name, parameter.default
    metavar, text = METAVARS.get(name, name.upper()), helps.get(name, "")
    annotation = eval(str(parameter.annotation), getattr(function, "__globals__"))  # noqa: B009
    kinds = (annotation, *get_args(annotation))
    choices = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    kind = click.Choice(choices) if choices else int if int in kinds else str
    if default is inspect.Parameter.empty or name == "space":
        required = default is inspect.Parameter.empty
        several = -1 if name == "runs" else 1
        return Argument([name], required=required, metavar=metavar, type=kind, nargs=several, help=text)
    spelling = [f"--{name.replace('_', '-')}", name]
    if default is False:
        return click.Option(spelling, is_flag=True, help=text)
    if name == "overrides":
        return click.Option(["--set", name], multiple=True, metavar=metavar, help=text)
    if name == "trials" and kind is str:
        return click.Option(spelling, metavar=metavar, callback=trial_ids, help=text)
    shown = None if choices else "N" if kind is int else metavar
    is_text = isinstance(default, str)
    return click.Option(spelling, type=kind, default=default, metavar=shown, show_default=is_text, help=text)


def trial_ids(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))


class Argument(click.Argument):
    """An argument with a line of help."""

    def __init__(self, *args: Any, help: str, **settings: Any):
        super().__init__(*args, **settings)
        self.help = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self.help or ""


def documentation(function: Any) -> tuple[str, dict[str, str]]:
    """What a docstring says for a terminal: its text without what it raises, and a line for each parameter."""
    paragraphs, helps = [], {}
    for paragraph in (inspect.getdoc(function) or "").split("\n\n"):
        if TABLE_ROW.match(paragraph):
            helps |= table_rows(paragraph)
        elif paragraph.lstrip().startswith("tune-cl "):
            paragraphs.append("\b\n" + "\n".join(line.strip() for line in paragraph.splitlines()))
        elif not paragraph.startswith("Raises "):
            paragraphs.append(paragraph.replace("`", ""))
    return "\n\n".join(paragraphs), helps


def table_rows(paragraph: str) -> dict[str, str]:
    """The text of each parameter, the lines of which are indented after the first."""
    texts: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if match := TABLE_ROW.fullmatch(line):
            name, texts[match[1]] = match.groups()
        else:
            texts[name] += f" {line.strip()}"
    return {name: text.partition("; in Python")[0].replace("`", "") for name, text in texts.items()}


def summary(source: str) -> str:
    """The first line of a function's docstring, read from its file: an import would take seconds."""
    module, _, path = source.partition(":")
    spec = find_spec(module)
    assert spec and spec.origin
    node: Any = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    for name in path.split("."):
        node = next(one for one in node.body if getattr(one, "name", None) == name)
    return (ast.get_docstring(node) or "").partition("\n")[0].rstrip(".")


def _versions(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        from tune_cl.cli.versions import versions_and_devices

        print(versions_and_devices())
        context.exit()


VERSION = click.Option(
    ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_versions, help="versions and devices"
)
GROUP = Commands(
    "tune-cl",
    help="Test whether a training curriculum, or any other part of training, improves your ranker.",
    params=[VERSION],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
