"""Example: tune-cl weigh --difficulty .25 --m 20 --at 0 5 10 20

W(t, i) = D + (i / m)(1 - D) until iteration m, then 1 (MacAvaney et al. 2020, Eq. 3). In that paper the
difficulty D is 1 for the easiest samples; --anti turns it round."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.curriculum.weighting import weights
from tune_cl.cli.tables import table


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--difficulty", type=float, required=True, metavar="D", help="in [0, 1], 1 = easiest")
    parser.add_argument("--m", type=float, default=20, help="iterations until all weights are 1, or inf (default 20)")
    parser.add_argument(
        "--at",
        type=int,
        nargs="+",
        action="extend",
        metavar="I",
        help="iterations, counted from 0 (default: 0 to m, eleven of them)",
    )
    parser.add_argument("--anti", action="store_true", help="hard samples weigh more")


def execute(options: Namespace) -> list[dict[str, Any]]:
    _check(options)
    iterations = options.at if options.at is not None else _default(options.m)
    ease = np.asarray(1 - options.difficulty if options.anti else options.difficulty)
    return [{"iteration": i, "weight": float(weights(ease, i, options.m))} for i in iterations]


def _default(m: float) -> list[int]:
    last = 100 if math.isinf(m) else math.ceil(m)
    return sorted({round(last * i / 10) for i in range(11)})


def _check(options: Namespace) -> None:
    problems = []
    if not 0 <= options.difficulty <= 1:
        problems.append(Problem("--difficulty", f"{options.difficulty:g} is out of range", "a number in [0, 1]"))
    if not options.m >= 1:
        problems.append(Problem("--m", f"{options.m:g} is below 1", "a number of iterations of at least 1, or inf"))
    problems += [
        Problem("--at", f"{i} is before the start", "iterations of at least 0") for i in options.at or [] if i < 0
    ]
    if problems:
        raise ConfigError(problems)


def render(document: list[dict[str, Any]]) -> str:
    return table(["iteration", "weight"], ([row["iteration"], f"{row['weight']:.6f}"] for row in document))
