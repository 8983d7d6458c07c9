"""The whole page: one file that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib

from tune_cl.report.assets import SCRIPT, STYLE
from tune_cl.report.configurations import tables_section
from tune_cl.report.curves import cost_section, learning_section, pacing_section, spent_section
from tune_cl.report.fairness import ranking_section
from tune_cl.report.findings import Findings
from tune_cl.report.markup import Html, paragraph, tag
from tune_cl.report.parameters import parameters_section, repeat_section
from tune_cl.report.queries import changes_section, groups_section, values_of
from tune_cl.report.tradeoff import tradeoff_section
from tune_cl.report.trees import trees_section
from tune_cl.report.verdict import verdict_section

TITLES = {
    "verdict": "Verdict",
    "configurations": "Configurations",
    "learning": "Learning curves",
    "progress": "How soon the search found it",
    "tradeoff": "What each trial cost",
    "parameters": "Parameters",
    "groups": "Kinds of queries",
    "pacing": "Training data as used",
    "cost": "What the search cost",
    "queries": "Single queries",
    "ranking": "Was early stopping fair?",
    "again": "Do it again",
}


def page(findings: Findings) -> str:
    """The report as an HTML document."""
    values = values_of(findings)
    contents = {
        "verdict": verdict_section(findings),
        "configurations": tables_section(findings),
        "learning": [*learning_section(findings), *trees_section(findings)],
        "progress": cost_section(findings),
        "tradeoff": tradeoff_section(findings),
        "parameters": parameters_section(findings),
        "groups": groups_section(findings, values),
        "pacing": pacing_section(findings),
        "cost": spent_section(findings),
        "queries": changes_section(findings, values),
        "ranking": ranking_section(findings),
        "again": repeat_section(findings),
    }
    sections = [tag("section", tag("h2", TITLES[key]), body, id=key) for key, body in contents.items()]
    sections.insert(1, tag("nav", *(tag("a", TITLES[key], href=f"#{key}") for key in list(contents)[1:])))
    body = tag("body", _title(findings), *sections, tag("div", id="tip"), tag("script", Html(SCRIPT)))
    return f'<!doctype html>\n<html lang="en">{_head(findings)}{body}</html>\n'


def _title(findings: Findings) -> Html:
    state, search = findings.state, findings.experiment
    told = (
        f"{', '.join(search.rankers)} on {state.data.get('name', 'its data')}: {len(state.trials)} trials, "
        f"{state.iterations} iterations, searched by {search.search.searcher} with scheduler {search.search.scheduler}."
    )
    return tag("header", tag("h1", f"Search {state.name}"), paragraph(told), paragraph(search.description))


def _head(findings: Findings) -> Html:
    """The head. Whatever the data contains, its policy lets the browser load nothing and run only our script."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    metas = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    )
    title = tag("title", f"{findings.state.name}: tune-cl report")
    return tag("head", Html(metas), title, tag("style", Html(STYLE)))
