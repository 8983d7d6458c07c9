"""Examples:
  tune-cl report quickstart
  tune-cl report quickstart --format latex --output paper/table.tex

html: one file that opens offline, on a phone too: verdict, tables, charts. latex: the table of configurations.
csv: a row a trial. Works while a search runs, and before and after tune-cl confirm."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError, WorkFailed
from trainables.core.files import output_file, require_file, write_text
from trainables.core.prose import say
from tune_cl.cli.options import add_name, tracking_uri_of
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP, SearchFolder, existing_search_folder

SUFFIXES = {"html": ".html", "latex": ".tex", "csv": ".csv"}
COPIES = "reports"  # in the search's folder: copies of reports that were written elsewhere
TRACKING_SECONDS = 20.0  # for which the report waits for MLflow


def add_arguments(parser: ArgumentParser) -> None:
    add_name(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: STORAGE/NAME/report.html, .tex or .csv")
    parser.add_argument("--format", choices=list(SUFFIXES), default="html", help="default html")
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
    parser.add_argument(
        "--tracking-uri", help="MLflow (default: $MLFLOW_TRACKING_URI, else a SQLite file in the storage)"
    )


def execute(options: Namespace) -> dict[str, Any]:
    search_folder = existing_search_folder(options.storage, options.name)
    tracking_uri = tracking_uri_of(options, search_folder)
    search_folder = replace(search_folder, tracking_uri=tracking_uri)
    output = options.output or search_folder.folder / f"report{SUFFIXES[options.format]}"
    require_file("--output", output)
    from tune_cl.report.findings import gather  # imports SciPy and the experiment: usage errors come first

    findings = gather(search_folder)
    text = _text(findings, options.format)
    with output_file(output) as file:
        write_text(file, text)
    tracked(search_folder, output, text, tracking_uri)
    return {"output": str(output)}


def _in_folder(search_folder: SearchFolder, output: Path, text: str) -> Path:
    """The file, or a copy of it in the search's folder: MLflow gets only files from there."""
    if output.resolve().is_relative_to(search_folder.folder.resolve()):
        return output
    copy = search_folder.folder / COPIES / output.name
    write_text(copy, text)
    return copy


def _text(findings: Any, form: str) -> str:
    from tune_cl.report.formats import latex_table, trials_csv
    from tune_cl.report.page import page

    return {"html": page, "latex": latex_table, "csv": trials_csv}[form](findings)


def tracked(search_folder: SearchFolder, output: Path, text: str, uri: str) -> None:
    """Sends the file, which contains the text, to MLflow as an artifact of the search. A failure is only printed."""
    from tune_cl.report.page import artifact_event
    from tune_cl.tracking.writer import MlflowWriter, finish

    try:
        with search_folder.open(watch=0) as journal:
            journal.append(artifact_event(_in_folder(search_folder, output, text)))
            writer = MlflowWriter(journal, uri)
            writer.start()
            finish(writer, search_folder.command("resume"), TRACKING_SECONDS)
    except ConfigError as error:
        say(f"not logged to MLflow: {error.problems[0].wrong}")
    except (OSError, WorkFailed) as error:
        say(f"not logged to MLflow: {error}")


def render(document: dict[str, Any]) -> str:
    return f"report  {document['output']}"
