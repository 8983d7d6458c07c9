"""Trials that Ray's memory monitor ends: what it says, and how many run at a time from then on."""

from __future__ import annotations

import pytest
from ray.exceptions import OutOfMemoryError

from trainables.core.errors import MachineFault, last_line
from trainables.core.memory_kill import MemoryKill
from trainables.core.storage import fault_of
from tune_cl.ray.again import Again


def said(used: float, *processes: float) -> str:
    """As Ray 2.60 does."""
    ended = "\n".join(
        f"Selected to kill: (Actor(3827{number}): job ID=01000000, lease ID=01da, task name=A.__init__, "
        f"required resources={{CPU: 1}}, pid={number}, actual memory used={gigabytes}GB, worker ID=32ad)"
        for number, gigabytes in enumerate(processes)
    )
    return (
        f"{len(processes)} worker(s) were killed due to the node running low on memory. Memory on the node (IP: "
        f"10.0.0.2, ID: 6f38) was {used}GB used / 23.54GB limit (0.95)\nOOM kill reason: Memory usage 1B exceeded "
        f"threshold of 1B (95.0% of 1B limit)\nObject store memory usage: [- objects spillable: 0\n]\n"
        f"Ray killed {len(processes)} worker(s) based on the killing policy\nConsidered workers: [\n{ended}\n]\n"
        "Total non-selected idle workers USS bytes: 0.00GB\nTop 10 memory users: PID\tMEM(GB)\tCOMMAND\n1\t0.20\tpython"
        "\nRefer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/."
    )


def test_of_fifty_lines_the_facts_are_told() -> None:
    kill = MemoryKill.of(said(22.5, 9.25, 8.0))
    assert kill == MemoryKill(22.5, 23.54, (9.25, 8.0)) and not kill.by_others
    told = last_line(OutOfMemoryError(said(22.5, 9.25)))
    assert all(fact in told for fact in ("memory", "22.5", "23.5", "9.2")) and "documentation" not in told
    assert MemoryKill(22.5, 23.54, (2.0,)).by_others and MemoryKill.of("CUDA out of memory") is None


def test_a_fault_of_the_machine_ends_a_search_that_can_go_on() -> None:
    error = RuntimeError()
    error.__cause__ = MachineFault("no memory")
    assert fault_of(error) is error.__cause__


class Running:
    """Trials that run, by Ray's id, and those that wait; as Tune's calls have it."""

    def __init__(self, *trials: str) -> None:
        self.again = Again()
        self.again.running = set(trials)

    def killed(self, trial: str, text: str) -> str | None:
        self.again.running.discard(trial)
        return self.again.takes({"trial": trial}, OutOfMemoryError(text))

    def begun(self) -> list[str]:
        """Those that begin now, of the ones that wait."""
        names: list[str] = []
        while self.again.has_room and self.again.waiting:
            name = self.again.next(self.again.waiting[0][0]["trial"])["trial"]
            self.again.running.add(name)
            names.append(name)
        return names


def test_as_many_trials_run_as_the_memory_held() -> None:
    running = Running("a", "b", "c", "d")
    assert running.killed("d", said(22.5, 9.0)) and running.again.at_most == 3
    assert not running.begun(), "three run, which is what the memory holds"
    running.again.running.discard("a")
    assert running.begun() == ["d"]


def test_two_that_are_killed_at_once_go_on_one_after_the_other() -> None:
    running, text = Running("a", "b"), said(22.5, 9.0, 9.5)
    assert running.killed("a", text) and running.killed("b", text)
    assert running.again.at_most == 1 and running.begun() == ["a"]
    running.again.running.discard("a")
    assert running.begun() == ["b"]


@pytest.mark.parametrize("others", [0, 2])
def test_a_trial_that_is_killed_again_is_tried_once_alone(others: int) -> None:
    names = ["b", "c"][:others]
    running = Running("a", *names)
    if others:
        assert running.killed("a", said(22.0, 9.0)) and running.again.at_most == 2
        running.again.running.discard("c")
        assert running.begun() == ["a"]
    assert "alone" in str(running.killed("a", said(22.1, 9.0)))
    running.again.running.clear()
    assert running.begun() == ["a"] and not running.again.has_room
    assert running.killed("a", said(22.2, 9.0)) is None and running.again.has_room
