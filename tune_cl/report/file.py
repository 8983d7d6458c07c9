"""The report as a file in its search's folder, and as an artifact in MLflow."""

from __future__ import annotations

import sys
from pathlib import Path

from trainables.files import write_text
from trainables.prose import visible
from tune_cl.journal import Event, Journal
from tune_cl.place import Place
from tune_cl.report.findings import gather
from tune_cl.report.page import page
from tune_cl.state import SearchState

NAME = "report"  # of the file, before its suffix


def leave_report(place: Place, journal: Journal) -> None:
    """Writes report.html on the search's present state into its folder, and has it sent to MLflow. A failure is only
    printed: the result stands without it."""
    path = report_file(place)
    try:
        write_text(path, page(gather(place)))
    except Exception as error:  # noqa: BLE001 - a chart that fails must not take the result with it
        print(visible(f"no report: {error}; {place.command('report')} tries again"), file=sys.stderr)
        return
    journal.append(artifact_event(path))


def report_left(place: Place, state: SearchState) -> bool:
    """Whether a finished search has its report, announced to MLflow since its end: not an earlier one."""
    path = report_file(place)
    return path.exists() and path.name in {Path(artifact).name for artifact in state.artifacts}


def report_file(place: Place) -> Path:
    return place.folder / f"{NAME}.html"


def artifact_event(path: Path) -> Event:
    return {"event": "artifact", "path": str(path.resolve())}
