"""Example: tune-cl tune-plain penha2020_pacing --trials 12

A curriculum is only as good as the plain training that it beats. Adds trials without a curriculum to a search that has
only one, over the keys that its space searches outside baseline, else over learning rate, loss and batch size."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.api.search import open_search
from tune_cl.cli import search_result as result
from tune_cl.cli.options import add_name, add_objective, add_session, objective_option

render = result.render


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("--trials", type=int, help="plain trials to add (default: as many as make the arms equal)")
    add_objective(parser)
    add_session(parser)


def execute(options: Namespace) -> dict[str, Any]:
    search = open_search(options.name, options.storage, options.tracking_uri)
    objective = objective_option(options)
    own = {"allow_open_ray": options.allow_open_ray, "objective": objective}
    return search.tune_plain(options.trials, options.address, **own).document
