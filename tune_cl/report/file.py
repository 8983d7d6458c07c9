"""The report as a file of its search, and as an artifact in MLflow."""

from __future__ import annotations

from pathlib import Path

from trainables.evaluation.files import write_text
from tune_cl.journal import Event, Journal
from tune_cl.place import Place
from tune_cl.report.findings import gather
from tune_cl.report.page import page

NAME = "report"  # of the file, before its suffix


def leave_report(place: Place, journal: Journal) -> None:
    """Writes report.html into the search's folder, as it stands now, and has it sent to MLflow."""
    path = place.folder / f"{NAME}.html"
    write_text(path, page(gather(place)))
    journal.append(artifact_event(path))


def artifact_event(path: Path) -> Event:
    return {"event": "artifact", "path": str(path.resolve())}
