"""Examples:
  tune-cl run quickstart
  tune-cl run penha2020_pacing --data ../data/msdialog --ranker bert --set ranker.model=bert-base-uncased
  tune-cl run my_space.yaml --trials 40 --address auto --storage /shared/runs

tune-cl check forecasts what a search will do and cost; tune-cl resume continues one that was stopped."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from tune_cl.cli import search_result as result
from tune_cl.cli.options import add_experiment, add_overrides, add_session, experiment_of, in_any_folder, require_ray
from tune_cl.history.search_folder import new_search_folder
from tune_cl.history.tracking_uri import resolve_tracking_uri

render = result.render


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    parser.add_argument("--name", help="of the search (default: the space's name, numbered where it is taken)")
    add_session(parser)
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    experiment = in_any_folder(experiment_of(options))
    search_folder = new_search_folder(options.storage, options.name, experiment.name)
    tracking_uri = resolve_tracking_uri(search_folder.storage, options.tracking_uri)
    search_folder = replace(search_folder, tracking_uri=tracking_uri)
    require_ray(options)
    from tune_cl.run_search import start_search  # imports Ray and torch: only after the input is checked

    return start_search(experiment, search_folder, tracking_uri, options.address)
