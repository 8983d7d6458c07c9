"""Style and behaviour of the page, which contains both, so that it opens without a network."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

from trainables.core.files import write_text
from trainables.core.prose import visible
from tune_cl.history.journal import Event, Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState
from tune_cl.report.findings import Findings, gather
from tune_cl.report.markup import Html, paragraph, tag
from tune_cl.report.queries import changes_section, groups_section, ranking_section, values_of
from tune_cl.report.trials import (
    cost_section,
    learning_section,
    pacing_section,
    parameters_section,
    repeat_section,
    spent_section,
    tradeoff_section,
    trees_section,
)
from tune_cl.report.verdict_section import tables_section, verdict_section

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --card: #f5f6f8; --text: #1a1f25; --muted: #57616c; --rule: #d6dbe1;
  --trial: #9aa5b1; --best: #c2410c; --baseline: #1d4ed8; --good: #15803d; --bad: #b91c1c; --low: #b3bcc7;
  --shade: #0005; --under: var(--bg); }
@media (prefers-color-scheme: dark) { :root { --bg: #12161b; --card: #1b2129; --text: #e6e9ed; --muted: #9da7b3;
  --rule: #353e49; --trial: #5d6977; --best: #fb923c; --baseline: #6ea8fe; --good: #4ade80; --bad: #f87171;
  --low: #4b5563; --shade: #fff5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 1rem; background: var(--bg); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; } .muted, figcaption + p, figure p { color: var(--muted); font-size: .9rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem .9rem; margin: 1rem 0; font-size: .9rem; }
a { color: var(--baseline); }
pre { background: var(--card); padding: .6rem .8rem; border-radius: 6px; overflow-x: auto; font-size: .85rem; }
.verdict { border-left: 6px solid var(--muted); background: var(--card); padding: .6rem 1rem; border-radius: 6px; }
.verdict.better { border-color: var(--good); } .verdict.worse { border-color: var(--bad); }
.verdict strong { font-size: 1.25rem; display: block; }
.charts { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 534px)); }
figure { margin: 0; min-width: 0; max-width: 534px; } figcaption { font-weight: 600; margin-bottom: .2rem; }
svg { display: block; width: 100%; height: auto; background: var(--card); border-radius: 6px; }
svg text { fill: var(--muted); font-size: 12.5px; } svg text.axis, svg text.name { fill: var(--text); }
svg text.halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
@media (max-width: 520px) { svg text { font-size: 14.5px; } }
.grid { stroke: var(--rule); } .zero { stroke: var(--muted); }
.level { stroke: var(--baseline); stroke-dasharray: 5 4; }
.line path { fill: none; } .line .hit { stroke: transparent; stroke-width: 9; pointer-events: stroke; }
.stroke { stroke: var(--trial); stroke-width: 1.3; stroke-linejoin: round; } .failed .stroke { stroke-dasharray: 2 3; }
.best .stroke { stroke: var(--best); stroke-width: 2.6; }
.baseline .stroke { stroke: var(--baseline); stroke-width: 2.6; }
.way .stroke { stroke: color-mix(in oklab, var(--best) var(--mix), var(--low)); stroke-width: 1.8; }
.line.hot .stroke { stroke: var(--text); stroke-width: 3; }
.curriculum { fill: var(--trial); stroke: var(--card); } .best .curriculum { fill: var(--best); }
.found, .ring { fill: var(--card); stroke: var(--best); stroke-width: 2; } .ring { stroke: var(--muted); }
.line .cross { stroke: var(--muted); stroke-width: 1.5; } .best .cross { stroke: var(--best); }
.interval .bar { stroke-width: 2.5; } .interval.best .bar { stroke: var(--best); }
.interval.best .dot { fill: var(--best); }
.interval.baseline .bar { stroke: var(--baseline); } .interval.baseline .dot { fill: var(--baseline); }
.share.trial { fill: var(--trial); } .share.best { fill: var(--best); }
.chance { stroke: var(--text); stroke-width: 2; stroke-dasharray: 3 2; }
.gain { fill: var(--best); } .loss { fill: var(--baseline); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .3rem 0; padding: 0;
  font-size: .85rem; color: var(--muted); }
.key { display: inline-block; width: 1.3em; height: 0; margin-right: .4em; vertical-align: middle;
  border-top: 3px solid var(--trial); } .key.best { border-color: var(--best); }
.key.baseline { border-color: var(--baseline); } .key.level { border-top: 2px dashed var(--baseline); }
.key.chance { border-top: 2px dashed var(--text); } .key.failed { border-top: 2px dotted var(--trial); }
.key.curriculum, .key.found { width: .7em; height: .7em; border: 0; border-radius: 50%; background: var(--trial); }
.key.found { background: none; border: 2px solid var(--best); }
.key.cross { border: 0; height: auto; width: auto; vertical-align: baseline; } .key.cross::before { content: "✕"; }
.scroll { overflow-x: auto; background: no-repeat local left / 2.5rem 100%
    linear-gradient(90deg, var(--under) 40%, transparent),
  no-repeat local right / 2.5rem 100% linear-gradient(270deg, var(--under) 40%, transparent),
  no-repeat left top / .9rem calc(100% - 1px) linear-gradient(90deg, var(--shade), transparent),
  no-repeat right top / .9rem calc(100% - 1px) linear-gradient(270deg, var(--shade), transparent); }
table { border-collapse: collapse; font-size: .9rem; overflow-wrap: normal; }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
.wide { min-width: 7rem; max-width: 34rem; overflow-wrap: break-word; }
sup { line-height: 0; } .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
details { background: var(--card); --under: var(--card); border-radius: 6px; padding: .5rem .8rem; margin: .4rem 0; }
details p { font-size: .92rem; } summary { cursor: pointer; } summary b { font-variant-numeric: tabular-nums; }
#tip { position: fixed; z-index: 1; display: none; max-width: 18rem; padding: .3rem .5rem; border-radius: 4px;
  background: var(--text); color: var(--bg); font-size: .8rem; pointer-events: none; }
@media print { body { max-width: none; } figure, details { break-inside: avoid; } }
"""

SCRIPT = """
const tip = document.getElementById("tip");
function point(event) {
  const at = event.target.closest("[data-tip]");
  document.querySelectorAll(".hot").forEach(line => line.classList.remove("hot"));
  tip.style.display = at ? "block" : "none";
  if (!at) return;
  const line = at.closest("[data-trial]");
  if (line) document.querySelectorAll(".line[data-trial]").forEach(other =>
    other.classList.toggle("hot", other.dataset.trial === line.dataset.trial));
  tip.textContent = at.dataset.tip;
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
document.addEventListener("pointerover", point);
document.addEventListener("click", point);
"""


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


NAME = "report"  # of the file, before its suffix


def leave_report(search_folder: SearchFolder, journal: Journal) -> None:
    """Writes report.html on the search's present state into its folder, and has it sent to MLflow. A failure is only
    printed: the result stands without it."""
    path = report_file(search_folder)
    try:
        write_text(path, page(gather(search_folder)))
    except Exception as error:  # noqa: BLE001 - a chart that fails must not take the result with it
        print(visible(f"no report: {error}; {search_folder.command('report')} tries again"), file=sys.stderr)
        return
    journal.append(artifact_event(path))


def report_left(search_folder: SearchFolder, state: SearchState) -> bool:
    """Whether a finished search has its report, announced to MLflow since its end: not an earlier one."""
    path = report_file(search_folder)
    return path.exists() and path.name in {Path(artifact).name for artifact in state.artifacts}


def report_file(search_folder: SearchFolder) -> Path:
    return search_folder.folder / f"{NAME}.html"


def artifact_event(path: Path) -> Event:
    return {"event": "artifact", "path": str(path.resolve())}
