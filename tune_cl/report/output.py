"""Writes the report on a search to a file, as a page, a LaTeX table or a table of trials, and has it sent to MLflow."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError, Problem, WorkFailed, nearest
from trainables.core.files import output_file, require_file, write_text
from trainables.core.prose import say, visible
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.document import MainFacts, ReportFacts, Written
from tune_cl.report.facts import main_facts, report_facts
from tune_cl.report.findings import Findings, gather
from tune_cl.report.page import artifact_event, page
from tune_cl.report.wording import plain
from tune_cl.tracking.writer import MlflowWriter, finish

FORMATS = {"html": ".html", "csv": ".csv", "parquet": ".parquet"}
COPIES = "reports"  # in the search's folder: copies of reports that were written elsewhere
FORMULA = re.compile(r"\s*([=@]|[-+](?!(\d+\.?\d*(e[-+]?\d+)?|inf)$))")  # to a spreadsheet; not a number with a sign
TRACKING_SECONDS = 20.0  # for which the report waits for MLflow


def form_of(output: Path | None) -> str:
    """The format that a file's suffix stands for; html for any other."""
    suffix = output.suffix if output else ""
    return next((form for form, own in FORMATS.items() if own == suffix), "html")


def write_output(search_folder: SearchFolder, output: Path | None, form: str | None = None) -> Written:
    """Writes the report (`form`: one of FORMATS, by default that of the file's suffix) to a file, by default in the
    search's folder. Raises ConfigError for another format or a file that cannot be written, DataError for a damaged
    search."""
    form = form or form_of(output)
    if form not in FORMATS:
        raise ConfigError(Problem("format", f"unknown format '{form}'", nearest(form, FORMATS)))
    output = output or search_folder.folder / f"report{FORMATS[form]}"
    require_file("--output", output)
    findings = gather(search_folder)
    facts = report_facts(findings) if form == "html" else main_facts(findings)
    text = _text(form, findings, facts)
    with output_file(output) as file:
        write_text(file, text)
    tracked(search_folder, output, text)
    return Written(output, facts)


def _text(form: str, findings: Findings, facts: MainFacts) -> str | bytes:
    if isinstance(facts, ReportFacts):
        return page(facts)
    return trials_csv(findings) if form == "csv" else trials_parquet(findings)


def tracked(search_folder: SearchFolder, output: Path, text: str | bytes) -> None:
    """Sends the file, which contains the text, to MLflow as an artifact of the search. A failure is only printed."""
    try:
        with search_folder.open(watch=0) as journal:
            journal.append(artifact_event(_in_folder(search_folder, output, text)))
            writer = MlflowWriter(journal, search_folder.tracking_uri)
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


LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "†": r"\dag{}", "‡": r"\ddag{}", "–": "--",
}  # fmt: skip
COLUMNS = (
    "trial", "arm", "twin", "led_by", "outcome", "reason", "seed", "baseline", "iterations", "best_dev",
    "best_iteration",
)  # fmt: skip


def latex(text: str) -> str:
    """The text on one line, escaped for LaTeX."""
    return "".join(LATEX.get(character, character) for character in visible(" ".join(text.split())))


def trials_csv(findings: Findings) -> str:
    """A row for each trial: how it ended, its best dev value and the parameters in force; absent ones are empty."""
    trials = findings.state.by_number()
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params if key not in COLUMNS))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, [*COLUMNS, *keys]))
    for trial in trials:
        at = trial.best(findings.metric)
        facts: list[Any] = [trial.trial, trial.arm, trial.twin or "", trial.led_by or ""]
        facts += [trial.outcome or "running", trial.reason or "", trial.seed]
        facts += [plain(trial.baseline), trial.iterations, repr(at.dev) if at else "", at.iteration if at else ""]
        values = [_value(trial.params[key]) if key in trial.params else "" for key in keys]
        writer.writerow(map(_cell, [*facts, *values]))
    return out.getvalue()


def trials_parquet(findings: Findings) -> bytes:
    """The table of `trials_csv` as Parquet, its columns typed."""
    import pandas as pd

    return pd.read_csv(io.StringIO(trials_csv(findings))).to_parquet(index=False)


def _cell(value: Any) -> str:
    """As text that commands neither a terminal nor a spreadsheet, which would run what begins as a formula."""
    text = visible(str(value))
    return f"'{text}" if FORMULA.match(text) else text


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, float) else plain(value)
