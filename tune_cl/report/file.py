"""The report as a file of its search, and as an artifact in MLflow."""

from __future__ import annotations

import sys
from pathlib import Path

from trainables.errors import UserError
from trainables.files import write_text
from tune_cl.journal import Event, Journal
from tune_cl.place import Place
from tune_cl.report.findings import gather
from tune_cl.report.page import page
from tune_cl.state import SearchState

NAME = "report"  # of the file, before its suffix


def leave_report(place: Place, journal: Journal) -> None:
    """Writes report.html into the search's folder, as it stands now, and has it sent to MLflow. What keeps it from that
    is said: the result stands without it."""
    path = report_file(place)
    try:
        write_text(path, page(gather(place)))
    except (OSError, UserError) as error:
        print(f"no report: {error}; {place.command('report')} makes it", file=sys.stderr)
        return
    journal.append(artifact_event(path))


def report_left(place: Place, state: SearchState) -> bool:
    """Whether the search that is done has a report, and MLflow was promised it: not one of before its end."""
    path = report_file(place)
    return path.exists() and path.name in {Path(artifact).name for artifact in state.artifacts}


def report_file(place: Place) -> Path:
    return place.folder / f"{NAME}.html"


def artifact_event(path: Path) -> Event:
    return {"event": "artifact", "path": str(path.resolve())}
