"""The main parts of the report as HTML for the output of a notebook's cell."""

from __future__ import annotations

from dataclasses import replace

from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.charts import tag
from tune_cl.report.findings import Document, gather
from tune_cl.report.markup import Markup
from tune_cl.report.page import STYLE
from tune_cl.report.trials import learning_section
from tune_cl.report.verdict_section import tables_section, verdict_section

MOST = 640  # pixels that a drawing is wide
CLASS = "tune-cl"  # of the element whose contents have the report's style, and nothing else of the notebook


def search_html(search_folder: SearchFolder) -> str:
    """Verdict or best trials on dev, and the learning curves."""
    findings = gather(search_folder)
    return fragment(verdict_section(findings, in_python=True), *tables_section(findings), *learning_section(findings))


def verdict_html(search_folder: SearchFolder, confirmation: Document) -> str:
    """The verdict of a confirmation and its table."""
    findings = replace(gather(search_folder), confirmation=confirmation)
    return fragment(verdict_section(findings), *tables_section(findings))


def fragment(*parts: Markup) -> str:
    """The parts with the report's style: its rules for the page apply to the element around them."""
    rules = STYLE.replace(":root {", "& {").replace("body {", "& {")
    style = Markup(f".{CLASS} {{ {rules} svg {{ max-width: {MOST}px; }} }}")
    return str(tag("div", tag("style", style), *parts, class_=CLASS))
