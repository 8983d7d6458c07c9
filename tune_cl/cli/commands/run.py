"""Examples:
  tune-cl run quickstart
  tune-cl run penha2020_pacing --data ../data/msdialog --ranker bert --set ranker.model=bert-base-uncased
  tune-cl run my_space.yaml --trials 40 --address auto --storage /shared/runs

tune-cl check forecasts what a search will do and cost; tune-cl resume continues one that was stopped."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.api.search import run
from tune_cl.cli import search_result as result
from tune_cl.cli.options import (
    add_experiment,
    add_objective,
    add_overrides,
    add_session,
    experiment_options,
    objective_option,
    session_options,
)

render = result.render


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    parser.add_argument("--name", help="of the search (default: the space's name, numbered where it is taken)")
    add_objective(parser)
    add_session(parser)
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    own = {"name": options.name, "storage": options.storage, "objective": objective_option(options)}
    return run(**experiment_options(options), **own, **session_options(options)).document
