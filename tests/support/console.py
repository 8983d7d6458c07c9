"""`tune-cl` in this process, with its arguments as in a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from shlex import split
from typing import Any, NamedTuple

import click
import pytest

from tune_cl.cli import BAD_INPUT, DONE, main, user_error
from tune_cl.cli.commands import command

SMALL = [
    "ranker.vector_size=8", "ranker.filters=4", "training.batch_size=8", "training.batches_per_iteration=2",
    "training.max_iterations=3",
]  # fmt: skip
SMALL_OPTIONS = [part for setting in SMALL for part in ("--set", setting)]
SMALL_TRAINING = " ".join(SMALL_OPTIONS)


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """The values of a command line by parameter, as the command's function would get them; nothing is called. Raises
    UserError for one that is wrong."""
    name, *rest = arguments
    try:
        return command(name).make_context(f"tune-cl {name}", rest).params
    except click.ClickException as error:
        raise user_error(error) from None


class Shown(NamedTuple):
    out: str
    err: str


class Console:
    """Calls commands; the working folder is one of the test's own, `folder`."""

    def __init__(self, capfd: pytest.CaptureFixture[str], folder: Path):
        self.capfd, self.folder = capfd, folder

    def call(self, command: str, *more: str, status: int = DONE) -> Shown:
        """What a command prints. `more`: arguments as they are."""
        self.capfd.readouterr()
        assert main([*split(command), *more]) == status
        return Shown(*self.capfd.readouterr())

    def document(self, command: str, *more: str, status: int = DONE) -> Any:
        """What a command prints under `--json`."""
        return json.loads(self.call(command, *more, "--json", status=status).out)

    def notes(self, command: str, *more: str) -> list[str]:
        """The notes of a command, each without its `note: `."""
        lines = self.call(command, *more).err.splitlines()
        return [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]

    def errors(self, command: str, *more: str) -> list[str]:
        """The lines of a command that is refused: it ends with exit status 2, and writes nothing."""
        before = sorted(Path().rglob("*"))
        shown = self.call(command, *more, status=BAD_INPUT)
        assert shown.out == "" and sorted(Path().rglob("*")) == before
        return shown.err.splitlines()

    def refused(self, told: Sequence[str], command: str, *more: str) -> None:
        """A command is refused with one line `error: PLACE: wrong; right` a problem. `told`: `PLACE: WORDS` of each
        line, in any order; all of the words stand in what is said of that place."""
        lines = self.errors(command, *more)
        left = list(lines)
        for place, _, words in (one.rpartition(": ") for one in told):
            said = {
                line.removeprefix(f"error: {place}: "): line for line in left if line.startswith(f"error: {place}: ")
            }
            found = next((text for text in said if all(word in text for word in words.split())), "")
            assert re.fullmatch(r".+; .+", found), (place, words, lines)
            left.remove(said[found])
        assert not left
