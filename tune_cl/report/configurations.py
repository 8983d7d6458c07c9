"""The tables of configurations, and of what each one's curriculum is worth."""

from __future__ import annotations

import math
from dataclasses import replace

from tune_cl.confirmation.verdict import p_heading
from tune_cl.report.findings import Document, Findings
from tune_cl.report.markup import Html, number, paragraph, signed, table, tag
from tune_cl.report.verdict import configurations_section, confirmed_row, tested


def tables_section(findings: Findings) -> list[Html]:
    """The best trials on dev; once confirmed, the configurations with trial ids, then those with an ablation beside
    it."""
    return [*configurations_section(_with_ids(findings)), *_ablations_section(findings)]


def _with_ids(findings: Findings) -> Findings:
    """The findings, with confirmed configurations named by trial id and label."""
    confirmed = findings.confirmation
    if confirmed is None:
        return findings
    baseline, *others = (
        entry | {"label": named(entry)} for entry in (confirmed["baseline"], *confirmed["configurations"])
    )
    return replace(findings, confirmation=confirmed | {"baseline": baseline, "configurations": others})


def named(entry: Document) -> str:
    """The trial id, then the label, as on the terminal."""
    return f"{entry['trial_id']} {entry['label']}"


def ablations(findings: Findings) -> list[tuple[Document, Document]]:
    """The confirmed configurations that were also trained without their curriculum, each with that ablation."""
    entries = (findings.confirmation or {}).get("configurations", [])
    return [(entry, entry["ablation"]) for entry in entries if "ablation" in entry]


def mean(entry: Document) -> str:
    """The mean and, if there are several seeds, in brackets the standard deviation over them."""
    spread = "" if entry["sd"] is None or math.isnan(entry["sd"]) else f" ({number(entry['sd'])})"
    return f"{number(entry['mean'])}{spread}"


def _ablations_section(findings: Findings) -> list[Html]:
    pairs = ablations(findings)
    if not pairs:
        return []
    columns = ["configuration", "without its curriculum", f"{findings.metric} without it",
               "difference", "95 % interval", p_heading(findings.confirmation or {})]  # fmt: skip
    note = (
        "Each configuration against itself without its curriculum: the same values of all other keys, and the "
        "baseline's curriculum. † above that at 95 %, ‡ at 99 % confidence after correction, which is over the rows of "
        "this table."
    )
    return [tag("h3", "What the curriculum is worth"), table(columns, map(_row, pairs), range(2, 6)), paragraph(note)]


def _row(pair: tuple[Document, Document]) -> tuple[object, ...]:
    names = (tag("div", named(each), class_="wide") for each in pair)
    row = confirmed_row(pair[1])
    difference = tag("span", signed(row.difference), tag("sup", row.marks) if row.marks else None)
    return *names, mean(pair[1]), difference, *tested(row)
