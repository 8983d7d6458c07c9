"""The report as one HTML page, which contains its style and script, so that it opens without a network; and its main
sections for the cells of a notebook. templates/ draws both from the facts."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from trainables.core.files import write_text
from trainables.core.prose import counted, say, visible
from trainables.evaluation.metrics import in_words
from tune_cl.history.events import ArtifactEvent
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report import charts, wording
from tune_cl.report.document import EffectsSection, ReportFacts
from tune_cl.report.facts import effects_facts, main_facts, report_facts
from tune_cl.report.findings import gather
from tune_cl.results import Effects, Verdict
from tune_cl.space.wording import CAUTION, DEFAULT, PLAIN_TRAINING

FILES = Path(__file__).parent / "templates"
STYLE = (FILES / "page.css").read_text(encoding="utf-8")
SCRIPT = (FILES / "page.js").read_text(encoding="utf-8")
TITLES = {
    "configurations": "Configurations",
    "effects": "What curricula change",
    "learning": "Learning curves",
    "pacing": "Training data as used",
    "cost": "What the search cost",
    "again": "Reproduce",
}  # after the verdict, which is always there
UNFOLDED = ("configurations", "effects", "learning")  # of the sections that fold
MOST = 640  # pixels that a drawing in a notebook is wide
CLASS = "tune-cl"  # of the element whose contents have the report's style, and nothing else of the notebook
TEMPLATES = Environment(loader=FileSystemLoader(FILES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
TEMPLATES.globals |= {
    draw.__name__: draw
    for draw in (
        charts.forest_chart,
        charts.learning_chart,
        charts.pacing_chart,
        charts.seed_chart,
    )
}
TEMPLATES.globals |= {"CAUTION": CAUTION, "DEFAULT": DEFAULT, "figures": wording.figures}
TEMPLATES.filters |= {
    "number": wording.number,
    "signed": wording.signed,
    "p": wording.p_value,
    "interval": wording.interval_words,
    "spread": wording.spread,
    "amount": wording.amount,
    "cut": wording.cut,
    "measure": in_words,
    "counted": counted,
    "spaced": lambda name: name.replace("_", " "),
}
TEMPLATES.tests["holds_back"] = lambda share: any(value < 1 for value in share.values())


def page(facts: ReportFacts) -> str:
    """The report as an HTML document."""
    drawn = TEMPLATES.get_template("page.html").render(
        f=facts,
        titles=TITLES if facts.over_curricula else TITLES | {"effects": "What the settings change"},
        unfolded=UNFOLDED,
        style=Markup(STYLE),
        script=Markup(SCRIPT),
        digest=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )
    return visible(drawn)


def search_html(search_folder: SearchFolder) -> str:
    """For a notebook: verdict or best trials on dev, what curricula change, and the learning curves."""
    sections = "verdict", "configurations", "effects", "learning"
    return _fragment(main_facts(gather(search_folder), in_python=True), *sections)


def effects_html(found: Effects) -> str:
    """For a notebook: what curricula change."""
    over_curricula = found.plain == PLAIN_TRAINING
    section = EffectsSection(metric=found.metric, over_curricula=over_curricula, effects=effects_facts(found))
    return _fragment(section, "effects")


def verdict_html(search_folder: SearchFolder, confirmation: Verdict) -> str:
    """For a notebook: the verdict of a confirmation and its table."""
    findings = replace(gather(search_folder), confirmation=confirmation)
    return _fragment(main_facts(findings), "verdict", "configurations")


def _fragment(facts: EffectsSection, *sections: str) -> str:
    """Sections with the report's style: its rules for the page apply to the element around them."""
    drawn: Any = TEMPLATES.get_template("sections.html").module
    rules = STYLE.replace(":root {", "& {").replace("body {", "& {")
    style = Markup(f".{CLASS} {{ {rules} svg {{ max-width: {MOST}px; }} }}")
    parts = [getattr(drawn, name)(facts) for name in sections]
    return str(charts.tag("div", charts.tag("style", style), *parts, class_=CLASS))


def write_report(search_folder: SearchFolder, journal: Journal) -> None:
    """Writes report.html on the search's present state into its folder, and has it sent to MLflow. A failure is only
    printed, because the result stands without a report."""
    path = search_folder.report
    try:
        write_text(path, page(report_facts(gather(search_folder))))
    except Exception as error:  # noqa: BLE001 - a chart that fails must not take the result with it
        say(f"no report: {error}; {search_folder.command('report')} tries again", whole=True)
        return
    journal.append(artifact_event(path))


def artifact_event(path: Path) -> ArtifactEvent:
    return {"event": "artifact", "path": str(path.resolve())}
