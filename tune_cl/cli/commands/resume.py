"""Example: tune-cl resume quickstart

Nothing finished is repeated; open trials continue from their last checkpoint. For a finished search, only what MLflow
lacks is sent."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.api.search import open_search
from tune_cl.cli import search_result as result
from tune_cl.cli.options import add_name, add_objective, add_session, objective_option

render = result.render


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    add_objective(parser)
    add_session(parser)
    parser.add_argument("--retry-failed", action="store_true", help="train failed trials again")


def execute(options: Namespace) -> dict[str, Any]:
    search = open_search(options.name, options.storage, options.tracking_uri)
    objective = objective_option(options)
    how = {"allow_open_ray": options.allow_open_ray, "retry_failed": options.retry_failed}
    return search.resume(options.address, objective=objective, **how).document
