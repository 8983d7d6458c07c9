"""Example: tune-cl pace root --n 2 --delta .33 --steps 1000 --at 0 250 500 1000"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from trainables.curriculum.pacing import PACINGS
from trainables.errors import ConfigError, Problem
from tune_cl.commands.tables import table


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("pacing", metavar="PACING", help=", ".join(PACINGS))
    parser.add_argument("--n", type=float, default=2, help="root (default 2)")
    parser.add_argument("--delta", type=float, default=0.33, help="share at the start (default .33)")
    parser.add_argument(
        "--steps", type=float, default=1000, help="T, the step at which everything is open (default 1000)"
    )
    parser.add_argument("--at", type=float, nargs="+", help="steps to show (default: eleven from 0 to T)")


def execute(options: Namespace) -> list[dict[str, Any]]:
    pacing = PACINGS[options.pacing]
    _check(options)
    steps = options.at or [options.steps * i / 10 for i in range(11)]
    return [
        {"step": _whole(step), "share": pacing.share(step, options.steps, options.delta, options.n)} for step in steps
    ]


def _check(options: Namespace) -> None:
    problems = []
    if not 0 < options.delta <= 1:
        problems.append(Problem("--delta", f"{options.delta:g} is no start share", "a number above 0 and at most 1"))
    if options.n < 1:
        problems.append(Problem("--n", f"{options.n:g} is no root", "a number of at least 1"))
    if options.steps <= 0:
        problems.append(Problem("--steps", f"{options.steps:g} is no number of steps", "a number above 0"))
    problems += [
        Problem("--at", f"{step:g} lies before the start", "steps of at least 0")
        for step in options.at or []
        if step < 0
    ]
    if problems:
        raise ConfigError(problems)


def _whole(step: float) -> int | float:
    return int(step) if step == int(step) else step


def render(document: list[dict[str, Any]]) -> str:
    return table(["step", "share"], ([row["step"], f"{row['share']:.6f}"] for row in document))
