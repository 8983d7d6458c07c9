"""Writes the report on a search to a file, and has it sent to MLflow."""

from __future__ import annotations

from pathlib import Path

from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.files import output_file, require_file, write_text
from trainables.core.prose import say
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.contents import contents_of
from tune_cl.report.page import artifact_event, page
from tune_cl.results import Written
from tune_cl.tracking.writer import MlflowWriter, finish

COPIES = "reports"  # in the search's folder: copies of reports that were written elsewhere
TRACKING_SECONDS = 20.0  # for which the report waits for MLflow
ENDINGS = (".html", ".htm")


def write_output(search_folder: SearchFolder, output: Path | None) -> Written:
    """Writes the report to a file, by default in the search's folder. Raises ConfigError for a name that does not end
    in .html or a file that cannot be written, DataError for a damaged search."""
    output = output or search_folder.report
    if output.suffix.lower() not in ENDINGS:
        right = "a name that ends in .html; search.trials and verdict.table are DataFrames, --paper writes LaTeX"
        raise ConfigError(Problem("--output", f"{output} is no page", right))
    require_file("--output", output)
    contents = contents_of(search_folder)
    text = page(contents)
    with output_file(output) as file:
        write_text(file, text)
    tracked(search_folder, output, text)
    return Written(output=str(output), result=contents.result, verdict=contents.verdict)


def tracked(search_folder: SearchFolder, output: Path, text: str) -> None:
    """Sends the file, which contains the text, to MLflow as an artifact of the search. A failure is only printed."""
    try:
        with search_folder.open() as journal:
            journal.append(artifact_event(_in_folder(search_folder, output, text)))
            writer = MlflowWriter(journal, search_folder.tracking_uri)
            finish(writer, search_folder.command("resume"), TRACKING_SECONDS)
    except ConfigError as error:
        say(f"not logged to MLflow: {error.problems[0].wrong}")
    except (OSError, WorkFailed) as error:
        say(f"not logged to MLflow: {error}")


def _in_folder(search_folder: SearchFolder, output: Path, text: str) -> Path:
    """The file, or a copy of it in the search's folder: MLflow gets only files from there."""
    if output.resolve().is_relative_to(search_folder.folder.resolve()):
        return output
    copy = search_folder.folder / COPIES / output.name
    write_text(copy, text)
    return copy
