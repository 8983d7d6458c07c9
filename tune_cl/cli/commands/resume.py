"""Example: tune-cl resume quickstart

Nothing finished is repeated; open trials continue from their last checkpoint. For a finished search, only what MLflow
lacks is sent."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from trainables.core.prose import say
from tune_cl.cli import search_result as result
from tune_cl.cli.options import add_name, add_session, require_ray, tracking_uri_of
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import existing_search_folder
from tune_cl.history.state import replay

render = result.render


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    add_session(parser)


def execute(options: Namespace) -> dict[str, Any]:
    search_folder = existing_search_folder(options.storage, options.name)
    tracking_uri = tracking_uri_of(options, search_folder)
    search_folder = replace(search_folder, tracking_uri=tracking_uri)
    require_ray(options)
    if replay(read_events(search_folder.journal)).end:
        say(f"'{search_folder.name}' is finished; completing its report and MLflow's records")
    from tune_cl.run_search import resume_search  # imports Ray and torch

    return resume_search(search_folder, tracking_uri, options.address)
