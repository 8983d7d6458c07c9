"""What a user typed: errors of the command line in our form, and advice for an option or command that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import click

from trainables.core.errors import Problem, UserError, nearest
from tune_cl.cli.commands import FUNCTIONS, command

RUN_SEEDS = "of tune-cl confirm NAME --seeds N; a search trains each configuration once, with --seed N"


def require_usable(arguments: Sequence[str]) -> None:
    """Raises UserError for what is not UTF-8, and for options with an empty value, as from an unset shell variable: an
    empty path would mean the current folder."""
    not_text = [one for one in arguments if any("\udc80" <= letter <= "\udcff" for letter in one)]
    if not_text:
        right = "a name in UTF-8; a link can give one to a folder"
        raise UserError(Problem("tune-cl", f"{one!r} is not UTF-8", right) for one in not_text)
    empty = [one for one, value in pairwise(arguments) if one.startswith("--") and not value]
    empty += [one[:-1] for one in arguments if one.startswith("--") and one.endswith("=")]
    if empty:
        raise UserError(Problem(option, "is empty", f"a value, or leave {option} out") for option in empty)


def user_error(error: click.ClickException) -> UserError:
    """An error of click's in our form."""
    context: Any = getattr(error, "ctx", None)
    name = context.command_path if context else "tune-cl"
    if isinstance(error, click.NoSuchCommand):
        return UserError(
            Problem("tune-cl", f"unknown command '{error.command_name}'", nearest(error.command_name, FUNCTIONS))
        )
    if isinstance(error, click.NoSuchOption):
        options = [option for parameter in context.command.params for option in parameter.opts] if context else []
        return UserError(Problem(error.option_name, "unknown option", advice(error.option_name, options, name)))
    parameter = getattr(error, "param", None)
    if isinstance(error, click.BadParameter) and parameter and isinstance(parameter.type, click.Choice):
        given = error.message.split("'")[1]
        return UserError(
            Problem(location_of(parameter), f"unknown value '{given}'", nearest(given, parameter.type.choices))
        )
    at = getattr(error, "option_name", None) or (location_of(parameter) if parameter else name)
    return UserError(Problem(at, (error.message or "is missing").rstrip("."), f"see {name} --help"))


def location_of(parameter: Any) -> str:
    """How a user names a parameter: `--split`, SPACE."""
    long = [name for name in parameter.opts if name.startswith("--")]
    return long[0] if long else parameter.metavar or parameter.name.upper()


def advice(option: str, options: Sequence[str], name: str) -> str:
    """The option or key like an unknown option, which may be one of other programs."""
    if option == "--seeds" and "--seed" in options:
        return RUN_SEEDS
    if "--set" in options:
        from trainables.core.validation import nearest_key

        if key := nearest_key(option[2:].replace("-", "_"), keys()):
            short = f"--{key.rpartition('.')[2].replace('_', '-')}"
            return f"{short} VALUE" if short in options else f"--set {key}=VALUE"
    close = get_close_matches(option, options, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else f"see {name} --help"


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
    try:
        require_usable(arguments)
        name, *rest = arguments
        return command(name).make_context(f"tune-cl {name}", rest).params
    except click.ClickException as error:
        raise user_error(error) from None
