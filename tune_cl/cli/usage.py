"""What a user typed: the options that all commands have, and advice for an option or command that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import typer

from trainables.core.errors import Problem, UserError, nearest
from tune_cl.cli.commands import app

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
COMMON = {"--json": 0, "--debug": 0, "--plugin": 1}  # options of every command, and how many values each takes
RUN_SEEDS = "of tune-cl confirm NAME --seeds N; a search trains each configuration once, with --seed N"


def common_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with the options that all commands have in front, where the group of commands reads them."""
    first, others, left = [], [], list(arguments)
    while left:
        argument = left.pop(0)
        if argument == "--":
            others += [argument, *left]
            break
        if argument.partition("=")[0] not in COMMON:
            others.append(argument)
            continue
        first.append(argument)
        if "=" not in argument and COMMON[argument] and left:
            first.append(left.pop(0))
    return first + others


def require_command(arguments: Sequence[str]) -> None:
    """Raises UserError for an unknown command, for what is not UTF-8, and for options with an empty value, as from an
    unset shell variable: an empty path would mean the current folder."""
    left = list(arguments)
    while left and left[0].startswith("-"):
        left = left[1 + COMMON.get(left[0], 0) :]
    given = left[0] if left else None
    if given is not None and given not in COMMANDS:
        raise UserError(Problem("tune-cl", f"unknown command '{given}'", nearest(given, COMMANDS)))
    not_text = [one for one in arguments if any("\udc80" <= letter <= "\udcff" for letter in one)]
    if not_text:
        right = "a name in UTF-8; a link can give one to a folder"
        raise UserError(Problem("tune-cl", f"{one!r} is not UTF-8", right) for one in not_text)
    empty = [one for one, value in pairwise(arguments) if one.startswith("--") and not value]
    empty += [one[:-1] for one in arguments if one.startswith("--") and one.endswith("=")]
    if empty:
        raise UserError(Problem(option, "is empty", f"a value, or leave {option} out") for option in empty)


def user_error(error: typer.TyperException) -> UserError:
    """An error of typer's in our form."""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context else "tune-cl"
    if unknown := getattr(error, "option_name", None):
        known = [name for parameter in context.command.params for name in parameter.opts] if context else []
        if "No such option" in error.message:
            return UserError(Problem(unknown, "unknown option", advice(unknown, known, command)))
        return UserError(Problem(unknown, error.message.rstrip("."), f"see {command} --help"))
    parameter = getattr(error, "param", None)
    place = command if parameter is None else place_of(parameter)
    message = (error.message or "is missing").removeprefix("Value error, ")
    return UserError(Problem(place, message.rstrip("."), f"see {command} --help"))


def place_of(parameter: Any) -> str:
    """How a user names a parameter: `--split`, SPACE."""
    long = [name for name in parameter.opts if name.startswith("--")]
    return long[0] if long else parameter.metavar or parameter.name.upper()


def advice(option: str, known: Sequence[str], command: str) -> str:
    """The option or key like an unknown option, which may be one of other programs."""
    if option == "--seeds" and "--seed" in known:
        return RUN_SEEDS
    key = _key(option, known)
    if key:
        short = f"--{key.rpartition('.')[2].replace('_', '-')}"
        return f"{short} VALUE" if short in known else f"--set {key}=VALUE"
    close = get_close_matches(option, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else f"see {command} --help"


def _key(option: str, known: Sequence[str]) -> str | None:
    """The configuration key that an unknown option of a command with `--set` may mean."""
    if "--set" not in known:
        return None
    from trainables.core.validation import nearest_key

    return nearest_key(option[2:].replace("-", "_"), keys())


def keys() -> list[str]:
    """All configuration keys that `--set` takes."""
    from trainables.config.keys import configuration_fields, ranker_fields
    from trainables.rankers import RANKERS
    from tune_cl.experiment.search_keys import SEARCH_KEYS

    of_rankers = {key for name in RANKERS for key in ranker_fields(name)}
    return sorted({*configuration_fields(()), *SEARCH_KEYS, *of_rankers})


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """The values of a command line by parameter, as the command's function would get them; nothing is called. Raises
    UserError for one that is wrong."""
    arguments = common_first(arguments)
    try:
        require_command(arguments)
        at = next(place for place, argument in enumerate(arguments) if argument in COMMANDS)
        name, rest = arguments[at], arguments[at + 1 :]
        return COMMANDS[name].make_context(f"tune-cl {name}", rest).params
    except typer.TyperException as error:
        raise user_error(error) from None
