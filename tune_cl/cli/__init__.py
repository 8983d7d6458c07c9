"""The console, `tune-cl COMMAND ...`: exit status, error lines, `--json` and Ctrl-C of all commands. The commands are
in `commands.py`, what they print in `texts.py`."""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import Any, NoReturn

import click

from trainables.core.errors import Interrupted, Problem, UserError, WorkFailed
from trainables.core.prose import visible
from tune_cl.cli.commands import GROUP
from tune_cl.process import SIGNALS, program, silence, stoppable

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
COMPLETION = "_TUNE_CL_COMPLETE"  # set by a shell that asks what could come next


def console() -> NoReturn:
    """`tune-cl` as a process. Signals are ignored once the command is done: while Ray and other libraries shut down,
    Ctrl-C would end in a traceback and status 1. Garbage is not collected any more: at its end, Python would look
    through all that Ray, PyTorch and MLflow have loaded, for two seconds."""
    if COMPLETION in os.environ:
        GROUP()
    status = main()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()
    sys.exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status (0, 1, 2 or 130)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with stoppable():
            _run(arguments)
        return DONE
    except BrokenPipeError:  # the reader of our output is gone
        silence(sys.stdout.fileno())
        return FAILED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a line for the user, the traceback under --debug
        status, lines = _ending(error, arguments)
        if "--debug" in arguments:
            lines = [traceback.format_exc().rstrip(), *lines]
        print(*map(visible, lines), sep="\n", file=sys.stderr)
        return status


def _ending(error: BaseException, arguments: Sequence[str]) -> tuple[int, list[str]]:
    """The exit status, and what is said."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, [_stop_message(error, arguments)]
    if isinstance(error, UserError):
        return BAD_INPUT, error.lines()
    if isinstance(error, WorkFailed):
        return FAILED, [f"error: {error}"]
    return FAILED, [f"error: {type(error).__name__}: {error}; --debug shows where"]


def _run(arguments: list[str]) -> None:
    """Calls a command and prints its result."""
    if "--json" not in arguments:
        name, result = _called(arguments)
        if name:
            from tune_cl.cli.texts import TEXTS  # imports what the results are shown by

            print(visible(TEXTS[name](result)))
        return
    with _stdout_for_json() as stdout:
        name, result = _called(arguments)
        if name:
            stdout.write(visible(json.dumps(plain(result), ensure_ascii=False)) + "\n")


def _called(arguments: list[str]) -> tuple[str | None, Any]:
    """The command's name, and what it returned; no name where help or versions were printed."""
    try:
        with GROUP.make_context("tune-cl", list(arguments) or ["--help"]) as context:
            result = GROUP.invoke(context)
            return context.invoked_subcommand, result
    except click.exceptions.Exit:
        return None, None
    except click.ClickException as error:
        raise user_error(error) from None


def user_error(error: click.ClickException) -> UserError:
    """An error of click's in our form."""
    context: Any = getattr(error, "ctx", None)
    parameter: Any = getattr(error, "param", None)
    name = context.command_path if context else "tune-cl"
    place = getattr(error, "option_name", name)
    if parameter:
        place = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.metavar
    right = f"see {name} --help"
    if isinstance(error, click.NoSuchOption):
        right += "; a key of the configuration is given by --set KEY=VALUE"
    return UserError(Problem(place, error.format_message().rstrip("."), right))


def _stop_message(stop: BaseException | None, arguments: Sequence[str]) -> str:
    """The message of an Interrupted, even if another Ctrl-C came while it was being handled; without one, the command
    itself, which continues from what it has cached."""
    while stop is not None and not isinstance(stop, Interrupted):
        stop = stop.__context__
    if stop and stop.message:
        return stop.message
    from tune_cl.history.tracking_uri import masked  # here: it loads what few commands need

    shown = (quote(argument) if masked(argument) == argument else masked(argument) for argument in arguments)
    return f"stopped. Go on with: {program('tune-cl')} {' '.join(shown)}"


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


def plain(value: Any) -> Any:
    """A result for JSON: the fields of its class, of a search those of its result. NaN becomes null and infinity, as in
    configurations, "inf"."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    elif hasattr(value, "search_folder"):
        return plain(value.result)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
