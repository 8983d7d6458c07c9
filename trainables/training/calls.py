"""A function that runs in a thread of its own, one report at a time, so that its caller sees it as steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

Report = TypeVar("Report")


class TrainingEnded(BaseException):
    """Raised by `report` where the function is to end: it made its last iteration, or was stopped early. No Exception,
    so that a function's own handlers of errors let it pass; `finally` and `with` work as ever."""


@dataclass(frozen=True)
class Ended:
    """What a function came to: its value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class Call(Generic[Report]):
    """Calls `function(call.report)`. The function runs only while its caller waits in `next`: between its reports it
    stands still, so nothing that it does overlaps with saves, stops or other trials of the process."""

    def __init__(self, function: Callable[[Callable[[Report], None]], Any]):
        self._function = function
        self._reports: SimpleQueue[Report | Ended] = SimpleQueue()
        self._turns: SimpleQueue[bool] = SimpleQueue()
        self._thread = Thread(target=self._run, name="objective", daemon=True)
        self._ended: Ended | None = None

    def report(self, report: Report) -> None:
        """For the function: hands over a report, and waits for its next turn. Raises TrainingEnded if there is none."""
        self._reports.put(report)
        if not self._turns.get():
            raise TrainingEnded

    def next(self) -> Report | Ended:
        """Lets the function go on until it reports or ends."""
        if self._ended is None:
            self._thread.start() if self._thread.ident is None else self._turns.put(True)
            answer = self._reports.get()
            if not isinstance(answer, Ended):
                return answer
            self._ended = answer
        return self._ended

    def close(self) -> None:
        """Ends the function, which waits in a report, and lets it tidy up."""
        if self._ended is None and self._thread.ident is not None:
            while self._thread.is_alive():  # it may report again in its own clean-up
                self._turns.put(False)
                self._thread.join(0.05)
            self._ended = Ended()

    def _run(self) -> None:
        try:
            ended = Ended(self._function(self.report))
        except TrainingEnded:
            ended = Ended()
        except BaseException as error:  # noqa: BLE001 - handed over
            ended = Ended(error=error)
        self._reports.put(ended)
