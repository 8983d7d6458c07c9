"""The console, `tune-cl COMMAND ...`. Handles exit status, error lines and `--json` for all commands."""

from __future__ import annotations

import argparse
import errno
import gc
import io
import json
import logging
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from itertools import pairwise
from shlex import quote
from typing import Any, NoReturn

from trainables.core.errors import Interrupted, Problem, UserError, WorkFailed, nearest
from trainables.core.prose import VisibleLog, visible
from tune_cl.documents import document_of
from tune_cl.process import SIGNALS, at_terminal, program, set_command, silence, stoppable

COMMANDS = {
    "run": "search a space of curricula and rankers",
    "resume": "continue a search after a stop, crash or kill",
    "confirm": "did a curriculum beat plain training? new seeds, paired tests, a verdict",
    "effects": "what curricula change over all pairs of a search, and how much they differ",
    "report": "the results of a search: an HTML page, a LaTeX table or CSV",
    "check": "validate a search space and measure its cost",
    "train": "one training, no search, no Ray",
    "rerank": "apply a trained ranker",
    "score": "difficulty of each training instance",
    "baseline": "unsupervised baselines: bm25, sdm, embedding; tuned on dev if you want",
    "evaluate": "trec_eval metrics and paired tests of run files",
    "data": "contents of a data set, and the overlap of its splits",
    "list": "available rankers, scorings, pacings, spaces, ..., and the searches in a storage",
}
HOMES = {  # module -> its commands
    "search": ("run", "resume", "report"),
    "confirm": ("confirm",),
    "effects": ("effects",),
    "check": ("check",),
    "training": ("train", "rerank", "score"),
    "evaluate": ("evaluate", "baseline"),
    "look": ("data", "list"),
}
DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class Command:
    """A command. Its docstring, with an example first, is the end of its help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its own arguments; by default it has none."""

    def execute(self, options: argparse.Namespace) -> Any:
        """Does the work and returns the result: the document that --json prints, or a class that has it."""
        raise NotImplementedError

    def document(self, result: Any) -> Any:
        """What --json prints of a result, or of each of several: its `document`, else its fields."""
        if isinstance(result, list):
            return [self.document(each) for each in result]
        return result.document if hasattr(result, "document") else document_of(result)

    def render(self, document: Any) -> str:
        """The result as text."""
        raise NotImplementedError

    def failed(self, document: Any) -> bool:
        """Whether something failed, although there is a document on it."""
        return False


class Parser(argparse.ArgumentParser):
    """Reports usage errors in the same form as all other errors."""

    def error(self, message: str) -> NoReturn:
        if match := re.match(r"unrecognized arguments: (--.*)", message):
            from tune_cl.cli.options import unknown_options  # here: it loads what only few commands need

            raise UserError(unknown_options(match[1], self._option_string_actions, self.prog))
        location, wrong = self.prog, message
        if match := re.match(r"argument ([^:]+): (.*)", message):
            location, wrong = match.groups()
        raise UserError(Problem(location, wrong, f"see {self.prog} --help"))


def console() -> NoReturn:
    """`tune-cl` as a process. Signals are ignored once the command is done: while Ray and other libraries shut down,
    Ctrl-C would end in a traceback and status 1. Garbage is not collected any more: at its end, Python would look
    through all that Ray, PyTorch and MLflow have loaded, for two seconds."""
    set_command()
    sys.stdout, sys.stderr = at_terminal(sys.stdout), at_terminal(sys.stderr)
    status = main()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()
    sys.exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status (0, 1, 2 or 130)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    _prepare_streams()
    try:
        with stoppable():
            return _run(arguments)
    except UserError as error:
        _say(debug, *error.lines())
        return BAD_INPUT
    except Interrupted as stop:
        _say(False, stop.message)
        return INTERRUPTED
    except KeyboardInterrupt as again:
        _say(debug, _stop_message(again, arguments))
        return INTERRUPTED
    except WorkFailed as error:
        _say(debug, f"error: {error}")
        return FAILED
    except BrokenPipeError:  # the reader of our output is gone
        silence(sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - the last resort: a line for the user, the traceback under --debug
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is not None:
            _say(debug, f"error: {error.filename}: {error.strerror}; free some space on that disk")
        else:
            _say(debug, f"error: {type(error).__name__}: {error}; --debug shows where")
        return FAILED


def _stop_message(stop: BaseException | None, arguments: Sequence[str]) -> str:
    """The message of an Interrupted, even if another Ctrl-C came while it was being handled; without one, the command
    itself, which continues from what it has cached."""
    while stop is not None and not isinstance(stop, Interrupted):
        stop = stop.__context__
    if stop:
        return stop.message
    from tune_cl.history.tracking_uri import masked  # here: it loads what few commands need

    shown = (quote(argument) if masked(argument) == argument else masked(argument) for argument in arguments)
    return f"stopped. Go on with: {program('tune-cl')} {' '.join(shown)}"


def command_of(name: str) -> Command:
    """The command of a name: the class NameCommand of its module, which is imported only now."""
    home = next(home for home, names in HOMES.items() if name in names)
    words = "".join(word.title() for word in name.split("-"))
    return getattr(import_module(f"tune_cl.cli.{home}"), f"{words}Command")()


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return DONE
    if arguments[0] == "--version":
        print(_versions())
        return DONE
    flags = [argument for argument in arguments if argument in ("--json", "--debug")]
    name, *rest = [argument for argument in arguments if argument not in flags] or [""]
    if name not in COMMANDS:
        raise UserError(Problem("tune-cl", f"unknown command '{name}'", nearest(name, COMMANDS)))
    _require_values(rest)
    command = command_of(name)
    from trainables.core.plugins import load_plugins  # here: it loads more than --version needs

    options = parser_of(name, command).parse_args(rest)
    load_plugins(options.plugin)
    if "--json" not in flags:
        document = command.execute(options)
        print(visible(command.render(document)))
        return FAILED if command.failed(document) else DONE
    with _stdout_for_json() as stdout:
        document = command.execute(options)
        stdout.write(visible(json.dumps(_plain(command.document(document)), ensure_ascii=False)) + "\n")
    return FAILED if command.failed(document) else DONE


def parser_of(name: str, command: Command) -> Parser:
    """The parser of a command's arguments."""
    parser = Parser(
        prog=f"tune-cl {name}",
        description=COMMANDS[name],
        epilog=cleandoc(command.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --js would be taken for --json, which is read before
    )
    command.add_arguments(parser)
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="a Python file, or a module, with parts of your own; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, all else on stderr")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _require_values(arguments: list[str]) -> None:
    """Raises UserError for options with an empty value, as from an unset shell variable: an empty path would mean the
    current folder."""
    pairs = [*pairwise(arguments), *(part.split("=", 1) for part in arguments if "=" in part)]
    empty = [option for option, value in pairs if option.startswith("--") and not value]
    if empty:
        raise UserError(Problem(option, "is empty", f"a value, or leave {option} out") for option in empty)


def _prepare_streams() -> None:
    """Prints `?` for characters that the terminal's encoding lacks, instead of failing with the result unprinted.
    Warnings (`logging`) may quote a server's answer, so their control characters are escaped."""
    if logging.lastResort:
        logging.lastResort.setFormatter(VisibleLog())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


@contextmanager
def _stdout_for_json() -> Iterator[Any]:
    """Yields the real stdout; what libraries and child processes write to file descriptor 1 meanwhile goes to
    stderr."""
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    try:
        # backslashreplace: a byte of a file name that is not UTF-8 becomes an escape that is valid JSON as well
        with os.fdopen(real, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as stdout:
            yield stdout
    finally:
        sys.stdout.flush()
        os.dup2(real, 1)
        os.close(real)


def _plain(value: Any) -> Any:
    """The value for JSON, which has no NaN and no infinity: they become null and, as in configurations, "inf"."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    head = "tune-cl: test whether a training curriculum improves your ranker"
    return "\n".join([head, "", *lines, "", "tune-cl COMMAND --help explains a command."])


def _versions() -> str:
    """What a bug report needs: versions and devices."""
    import platform

    import torch  # here: it takes seconds to import

    from trainables.core.machine import usable_cpus, usable_memory
    from tune_cl.process import versions

    packages = versions(["tune-cl", "torch", "transformers", "ray", "mlflow", "optuna", "lightgbm"])
    lines = [f"{name} {number}" for name, number in packages.items()]
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    machine = f"{usable_cpus()} CPU cores, {usable_memory() / 2**30:.1f} GiB of memory free"
    lines += [f"Python {platform.python_version()} on {platform.platform()}", machine]
    lines += [f"GPU: {', '.join(devices) or 'none'}"]
    return "\n".join(lines)


def _say(debug: bool, *lines: str) -> None:
    if debug:
        lines = (traceback.format_exc().rstrip(), *lines)
    print(*map(visible, lines), sep="\n", file=sys.stderr)
