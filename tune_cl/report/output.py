"""Writes the results of a search to a file, in one of several formats, and has it sent to MLflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainables.core.errors import ConfigError, Problem, WorkFailed, nearest
from trainables.core.files import output_file, require_file, write_text
from trainables.core.prose import say
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.findings import Findings, gather
from tune_cl.report.formats import latex_table, trials_csv, trials_parquet
from tune_cl.report.page import artifact_event, page
from tune_cl.tracking.writer import MlflowWriter, finish

FORMATS: dict[str, tuple[str, Callable[[Findings], str | bytes]]] = {
    "html": (".html", page),
    "latex": (".tex", latex_table),
    "csv": (".csv", trials_csv),
    "parquet": (".parquet", trials_parquet),
}
COPIES = "reports"  # in the search's folder: copies of reports that were written elsewhere
TRACKING_SECONDS = 20.0  # for which the report waits for MLflow


def form_of(output: Path | None) -> str:
    """The format that a file's suffix stands for; html for any other."""
    suffix = output.suffix if output else ""
    return next((form for form, (own, _) in FORMATS.items() if own == suffix), "html")


def write_output(search_folder: SearchFolder, output: Path | None, form: str | None = None) -> Path:
    """Writes the report (`form`: one of FORMATS, by default that of the file's suffix) to a file, by default in the
    search's folder; returns its path. Raises ConfigError for another format or a file that cannot be written, DataError
    for a damaged search."""
    form = form or form_of(output)
    if form not in FORMATS:
        raise ConfigError(Problem("format", f"unknown format '{form}'", nearest(form, FORMATS)))
    suffix, text_of = FORMATS[form]
    output = output or search_folder.folder / f"report{suffix}"
    require_file("--output", output)
    text = text_of(gather(search_folder))
    with output_file(output) as file:
        write_text(file, text)
    tracked(search_folder, output, text)
    return output


def tracked(search_folder: SearchFolder, output: Path, text: str | bytes) -> None:
    """Sends the file, which contains the text, to MLflow as an artifact of the search. A failure is only printed."""
    try:
        with search_folder.open(watch=0) as journal:
            journal.append(artifact_event(_in_folder(search_folder, output, text)))
            writer = MlflowWriter(journal, search_folder.tracking_uri)
            writer.start()
            finish(writer, search_folder.command("resume"), TRACKING_SECONDS)
    except ConfigError as error:
        say(f"not logged to MLflow: {error.problems[0].wrong}")
    except (OSError, WorkFailed) as error:
        say(f"not logged to MLflow: {error}")


def _in_folder(search_folder: SearchFolder, output: Path, text: str | bytes) -> Path:
    """The file, or a copy of it in the search's folder: MLflow gets only files from there."""
    if output.resolve().is_relative_to(search_folder.folder.resolve()):
        return output
    copy = search_folder.folder / COPIES / output.name
    write_text(copy, text)
    return copy
