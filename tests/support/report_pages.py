"""Reports made and taken apart."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.support.report_cases import Case
from tune_cl.report.facts import report_facts
from tune_cl.report.findings import Findings, gather
from tune_cl.report.page import page

VOID = {"meta"}


LOADING = {"img", "link", "iframe", "object", "embed", "video", "audio", "base", "form", "image", "use"}


class Reader(HTMLParser):
    """Takes a page apart: sections and their text, elements that load something; fails if tags do not nest."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.sections: dict[str, str] = {}
        self.scripts: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "tags left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "section":
            self.sections[str(given["id"])] = ""
        assert not [key for key in given if key.startswith("on")], f"an event handler on {tag}"
        outside = [value for key, value in attrs if key in ("src", "href", "srcset") and not str(value).startswith("#")]
        self.loads += outside + ([tag] if tag in LOADING else [])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif "section" in self.open:
            self.sections[list(self.sections)[-1]] += data


def report(case: Case) -> tuple[Reader, Findings]:
    findings = gather(case.write())
    return Reader(page(report_facts(findings))), findings
