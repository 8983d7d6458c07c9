"""Example: tune-cl searches --storage s3://BUCKET/runs"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from trainables.core.errors import DataError
from trainables.core.prose import say
from tune_cl.api.search import Search
from tune_cl.cli.tables import table
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import (
    DEFAULT_STORAGE,
    STORAGE_HELP,
    SearchFolder,
    existing_search_folder,
    search_folder_of,
)
from tune_cl.history.state import replay

COLUMNS = ("name", "data", "trials", "state", "verdict")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)


def execute(options: Namespace) -> list[dict[str, Any]]:
    """Raises ConfigError for a storage that cannot be used."""
    names = search_folder_of(options.storage, "").search_names()
    return [_entry(options.storage, name) for name in sorted(names)]


def _entry(storage: str, name: str) -> dict[str, Any]:
    """A search in one line; of one that is damaged, what is wrong is said."""
    try:
        return _described(existing_search_folder(storage, name))
    except DataError as error:
        say("\n".join(error.lines()))
        return {"name": name, "data": None, "trials": None, "state": "damaged", "verdict": None}


def _described(search_folder: SearchFolder) -> dict[str, Any]:
    state, verdict = replay(read_events(search_folder.journal)), Search(search_folder).verdict
    return {
        "name": search_folder.name,
        "data": state.data["name"],
        "trials": len(state.trials),
        "state": "finished" if state.end else "not finished",
        "verdict": verdict.verdict if verdict else None,
    }


def render(document: list[dict[str, Any]]) -> str:
    if not document:
        return "no searches here yet; tune-cl run starts one"
    return table(COLUMNS, ([row[name] for name in COLUMNS] for row in document))
