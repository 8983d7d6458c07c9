"""Errors that are the user's to fix, reported together and without a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

MAX_SHOWN = 20


@dataclass(frozen=True)
class Problem:
    """One thing to fix: where it is, what is wrong, what would be right."""

    location: str
    wrong: str
    right: str

    def __str__(self) -> str:
        whole = f"error: {self.location}: {self.wrong}; {self.right}"
        return " ".join(whole.splitlines())  # one line, even if a value in it has several


class UserError(Exception):
    """Bad usage, configuration or data (exit status 2). Carries every problem."""

    def __init__(self, problems: Problem | Iterable[Problem]):
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """One line per problem, at most MAX_SHOWN, then a count of the rest."""
        lines = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        rest = len(self.problems) - MAX_SHOWN
        return [*lines, f"error: and {rest} more problems like these"] if rest > 0 else lines

    def __reduce__(self):  # keeps the problems when the error crosses a process border
        return (type(self), (self.problems,))


class ConfigError(UserError):
    """A key or value of the configuration or the search space is wrong."""


@contextmanager
def gathering(problems: list[Problem]) -> Iterator[None]:
    """Adds the problems of a ConfigError that ends the block to the list, instead of raising it."""
    try:
        yield
    except ConfigError as error:
        problems += error.problems


class DataError(UserError):
    """A data file is wrong."""


class WorkFailed(Exception):
    """The work itself failed (exit status 1): says which part, and where its log is."""

    @property
    def problems(self) -> list[Problem]:
        """What failed, as for the other errors."""
        return [Problem("work", str(self), "see the log that is named there, or the error itself")]


class DamagedCheckpoint(Exception):
    """A checkpoint cannot be read; the message names it and says why. An earlier one may be intact."""


def last_line(error: BaseException) -> str:
    """The last line of an error's text, which may be a whole traceback; the kind of error if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def nearest(name: str, names: Iterable[str]) -> str:
    """Advice for an unknown name: the most similar name or, if none is similar, all of them."""
    names = sorted(names)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"


class Interrupted(KeyboardInterrupt):
    """Stopped by Ctrl-C with the state saved (exit status 130). `message` names the command that goes on, `call` the
    expression of Python that does, if there is one."""

    def __init__(self, message: str, call: str = ""):
        super().__init__(message)
        self.message, self.call = message, call
