"""The report as one HTML page, which contains its style and script, so that it opens without a network."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from trainables.core.files import write_text
from trainables.core.prose import say
from tune_cl.history.journal import Event, Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.findings import Findings, gather
from tune_cl.report.markup import TEMPLATES, Markup
from tune_cl.report.queries import changes_section, groups_section, ranking_section, values_of
from tune_cl.report.trials import (
    cost_section,
    learning_section,
    pacing_section,
    parameters_section,
    repeat_section,
    spent_section,
    trees_section,
)
from tune_cl.report.verdict_section import tables_section, verdict_section

FILES = Path(__file__).parent / "templates"
STYLE = (FILES / "page.css").read_text(encoding="utf-8")
SCRIPT = (FILES / "page.js").read_text(encoding="utf-8")
TITLES = {
    "verdict": "Verdict",
    "configurations": "Configurations",
    "learning": "Learning curves",
    "progress": "Optimisation history",
    "parameters": "Parameters",
    "groups": "Kinds of queries",
    "pacing": "Training data as used",
    "cost": "What the search cost",
    "queries": "Per-query differences",
    "ranking": "Was early stopping fair?",
    "again": "Reproduce",
}
UNFOLDED = ("configurations", "learning")  # of the sections that fold


def page(findings: Findings) -> str:
    """The report as an HTML document."""
    values = values_of(findings)
    contents = {
        "verdict": [verdict_section(findings)],
        "configurations": tables_section(findings),
        "learning": [*learning_section(findings), *trees_section(findings)],
        "progress": cost_section(findings),
        "parameters": parameters_section(findings),
        "groups": groups_section(findings, values),
        "pacing": pacing_section(findings),
        "cost": spent_section(findings),
        "queries": changes_section(findings, values),
        "ranking": ranking_section(findings),
        "again": repeat_section(findings),
    }
    state, search = findings.state, findings.experiment
    return TEMPLATES.get_template("page.html").render(
        name=state.name,
        summary=f"{', '.join(search.rankers)} on {state.data.get('name', 'its data')}: {len(state.trials)} trials, "
        f"{state.iterations} iterations, searched by {search.search.searcher} with scheduler "
        f"{search.search.scheduler}.",
        description=search.description,
        unfolded=UNFOLDED,
        sections=[(key, TITLES[key], parts) for key, parts in contents.items()],
        style=Markup(STYLE),
        script=Markup(SCRIPT),
        digest=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def write_report(search_folder: SearchFolder, journal: Journal) -> None:
    """Writes report.html on the search's present state into its folder, and has it sent to MLflow. A failure is only
    printed, because the result stands without a report."""
    path = search_folder.report
    try:
        write_text(path, page(gather(search_folder)))
    except Exception as error:  # noqa: BLE001 - a chart that fails must not take the result with it
        say(f"no report: {error}; {search_folder.command('report')} tries again", whole=True)
        return
    journal.append(artifact_event(path))


def artifact_event(path: Path) -> Event:
    return {"event": "artifact", "path": str(path.resolve())}
