"""Example: tune-cl pace root --n 2 --delta .33 --steps 1000 --at 0 250 500 1000 --plot pace.svg

--plot draws the named pacing among all others at the same delta and T."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, inf
from pathlib import Path
from typing import Any

from trainables.config.keys import CurriculumConfig
from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.curriculum.pacing import PACINGS, Schedule
from tune_cl.cli.plots import require_format
from tune_cl.cli.tables import table

READ = ("n", "delta", "stages", "reference")  # of a schedule, besides its steps
OTHERS = tuple((name, n) for name in PACINGS if name != "none" for n in ((2, 5, 10) if name == "root" else (2,)))
PLOTTED = 400  # steps of a plotted curve


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("pacing", metavar="PACING", help=", ".join(PACINGS))
    parser.add_argument("--n", type=float, help="root (default 2)")
    parser.add_argument("--delta", type=float, help="share at the start (default .33)")
    parser.add_argument("--stages", type=int, help="stages of step (default 3)")
    parser.add_argument("--reference", choices=["paper", "code"], help="see curriculum.reference (default paper)")
    parser.add_argument(
        "--steps", type=float, default=1000, help="T, the step at which everything is open (default 1000)"
    )
    parser.add_argument(
        "--at", type=_step, nargs="+", action="extend", help="steps to show (default: at most eleven from 0 to T)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG or SVG: this pacing among all others")


def _step(text: str) -> float:
    """For argparse, which takes a pacing that follows --at for one of its steps."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no step; a pacing stands before --at") from None


def execute(options: Namespace) -> list[dict[str, Any]]:
    given = {key: value for key in READ if (value := getattr(options, key)) is not None}
    schedule = Schedule(options.pacing, options.steps, **given)
    _check(options, schedule)
    if idle := _idle(options, given):
        say(f"note: without effect on pacing {options.pacing}: {', '.join(idle)}")
    if options.plot:
        _plot(options.plot, schedule)
    return [{"step": _whole(step), "share": schedule.share(step)} for step in options.at or _default(options.steps)]


def _idle(options: Namespace, given: Mapping[str, Any]) -> list[str]:
    """The given options that the pacing does not read; a picture of all pacings reads all but the root."""
    reference = options.reference or "paper"
    own = CurriculumConfig(pacing=options.pacing, reference=reference).idle()
    return [f"--{key}" for key in given if key in own and (key == "n" or not options.plot)]


def _default(horizon: float) -> list[float]:
    """Whole steps, as far as T counts steps; with a T of at most 1 they are shares of all steps."""
    if horizon <= 1:
        return [horizon * i / 10 for i in range(11)]
    return sorted({round(ceil(horizon) * i / 10) for i in range(11)})


def _plot(path: Path, schedule: Schedule) -> None:
    """Plots the asked schedule among the others at the same δ and T."""
    from tune_cl.cli.plots import (
        Curve,
        save_curves,  # imports matplotlib
    )

    others = [replace(schedule, pacing=name, n=n) for name, n in OTHERS]
    schedules = [other for other in others if _label(other) != _label(schedule)] + [schedule]
    steps = [1.1 * schedule.horizon * i / PLOTTED for i in range(PLOTTED + 1)]
    curves = [
        Curve(_label(shown), [(step, shown.share(step)) for step in steps], asked=shown is schedule)
        for shown in schedules
    ]
    title = f"Share of the training data available (δ = {schedule.delta:g}, T = {schedule.horizon:g})"
    save_curves(path, title, "step", "share", curves)


def _label(schedule: Schedule) -> str:
    needs = PACINGS[schedule.pacing].needs
    if "n" in needs:
        return f"{schedule.pacing} {schedule.n:g}"
    return f"{schedule.pacing} of {schedule.stages}" if "stages" in needs else schedule.pacing


def _check(options: Namespace, schedule: Schedule) -> None:
    PACINGS[schedule.pacing]  # raises for an unknown name
    if options.plot:
        require_format(options.plot)
    problems = []
    if not 0 < schedule.delta <= 1:
        problems.append(Problem("--delta", f"{schedule.delta:g} is no start share", "a number above 0 and at most 1"))
    if not 1 <= schedule.n < inf:
        problems.append(Problem("--n", f"{schedule.n:g} is no root", "a number of at least 1"))
    if not 2 <= schedule.stages <= 100:
        problems.append(Problem("--stages", f"{schedule.stages} stages are not possible", "2 to 100"))
    if not 0 < options.steps < inf:
        problems.append(Problem("--steps", f"{options.steps:g} is no number of steps", "a number above 0"))
    problems += [
        Problem("--at", f"{step:g} is no step", "steps of at least 0")
        for step in options.at or []
        if not 0 <= step < inf
    ]
    if problems:
        raise ConfigError(problems)


def _whole(step: float) -> int | float:
    return int(step) if step == int(step) else step


def render(document: list[dict[str, Any]]) -> str:
    return table(["step", "share"], ([row["step"], f"{row['share']:.6f}"] for row in document))
