"""Examples:
  tune-cl report quickstart
  tune-cl report quickstart --format latex --output paper/table.tex

html: one file that opens offline, on a phone too: verdict, tables, charts. latex: the table of configurations.
csv, parquet: a row a trial. Works while a search runs, and before and after tune-cl confirm."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from tune_cl.api.search import open_search
from tune_cl.cli.options import add_name
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP

FORMATS = ("html", "latex", "csv", "parquet")


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: STORAGE/NAME/report.html, .tex, ...")
    parser.add_argument("--format", choices=FORMATS, help="default: by the suffix of FILE, else html")
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
    parser.add_argument(
        "--tracking-uri", help="MLflow (default: $MLFLOW_TRACKING_URI, else a SQLite file in the storage)"
    )


def execute(options: Namespace) -> dict[str, Any]:
    search = open_search(options.name, options.storage, options.tracking_uri)
    return {"output": str(search.report(options.output, options.format))}


def render(document: dict[str, Any]) -> str:
    return f"report  {document['output']}"
