"""Example: tune-cl pace root --n 2 --delta .33 --steps 1000 --at 0 250 500 1000"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from math import ceil, inf
from typing import Any

from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.curriculum.pacing import PACINGS, Schedule
from tune_cl.cli.tables import table

READ = ("n", "delta", "stages", "reference", "final_share")  # of a schedule, besides its steps


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("pacing", metavar="PACING", help=", ".join(PACINGS))
    parser.add_argument("--n", type=float, help="root (default 2)")
    parser.add_argument("--delta", type=float, help="fraction at the start (default .33)")
    parser.add_argument("--stages", type=int, help="stages of a pacing that has stages (default 3)")
    parser.add_argument("--final-share", type=float, help="fraction of the data ever used (default 1)")
    parser.add_argument("--reference", choices=["paper", "code"], help="see curriculum.reference (default paper)")
    parser.add_argument(
        "--steps", type=float, default=1000, help="T, the step at which everything is open (default 1000)"
    )
    parser.add_argument(
        "--at", type=_step, nargs="+", action="extend", help="steps to show (default: at most eleven from 0 to T)"
    )


def _step(text: str) -> float:
    """A step; argparse takes a pacing that follows --at as one, too."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a step; PACING comes before --at") from None


def execute(options: Namespace) -> list[dict[str, Any]]:
    given = {key: value for key in READ if (value := getattr(options, key)) is not None}
    schedule = Schedule(options.pacing, options.steps, **given)
    _check(options, schedule)
    if idle := _idle(options, given):
        say(f"note: without effect on pacing {options.pacing}: {', '.join(idle)}")
    if "patience" in PACINGS[options.pacing].needs:
        say(f"note: {options.pacing} opens more whenever dev stops rising; these fractions are without that")
    return [{"step": _whole(step), "share": schedule.share(step)} for step in options.at or _default(options.steps)]


def _idle(options: Namespace, given: Mapping[str, Any]) -> list[str]:
    """The given options that the pacing does not read."""
    curriculum = {"pacing": options.pacing, "reference": options.reference or "paper"}
    active = TrainingRun.model_validate({"curriculum": curriculum}).in_force()
    return [f"--{key.replace('_', '-')}" for key in given if f"curriculum.{key}" not in active]


def _default(horizon: float) -> list[float]:
    """Whole steps, as far as T counts steps; with a T of at most 1 they are shares of all steps."""
    if horizon <= 1:
        return [horizon * i / 10 for i in range(11)]
    return sorted({round(ceil(horizon) * i / 10) for i in range(11)})


def _check(options: Namespace, schedule: Schedule) -> None:
    PACINGS[schedule.pacing]  # raises for an unknown name
    problems = []
    if not 0 < schedule.delta <= 1:
        problems.append(Problem("--delta", f"{schedule.delta:g} is not a fraction", "a number above 0 and at most 1"))
    if not 0 < schedule.final_share <= 1:
        wrong = f"{schedule.final_share:g} is not a fraction"
        problems.append(Problem("--final-share", wrong, "a number above 0 and at most 1"))
    if not 1 <= schedule.n < inf:
        problems.append(Problem("--n", f"{schedule.n:g} is not a root", "a number of at least 1"))
    if not 2 <= schedule.stages <= 100:
        problems.append(Problem("--stages", f"{schedule.stages} stages are not possible", "2 to 100"))
    if not 0 < options.steps < inf:
        problems.append(Problem("--steps", f"{options.steps:g} is not a number of steps", "a number above 0"))
    problems += [
        Problem("--at", f"{step:g} is not a step", "steps of at least 0")
        for step in options.at or []
        if not 0 <= step < inf
    ]
    if problems:
        raise ConfigError(problems)


def _whole(step: float) -> int | float:
    return int(step) if step == int(step) else step


def render(document: list[dict[str, Any]]) -> str:
    return table(["step", "share"], ([row["step"], f"{row['share']:.6f}"] for row in document))
