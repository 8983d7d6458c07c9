"""The recorded results of the studies, the studies as they stand, and the page that is written from both."""

from __future__ import annotations

from benchmarks import evidence, evidence_page


def test_each_result_is_one_of_a_study_as_it_stands() -> None:
    """A study that was changed after its first result would have results of searches that it does not name."""
    planned = {cell.identity for cell in evidence.all_cells()}
    found = [row["identity"] for row in evidence_page.searches(evidence_page.read_rows())]
    assert len(found) == len(set(found)) and set(found) <= planned


def test_the_page_says_what_was_found() -> None:
    rows = evidence_page.read_rows()
    page, planned = evidence_page.PAGE.read_text(encoding="utf-8"), len(evidence.all_cells())
    assert evidence_page.answer(rows, planned) in page
    assert [line for line in evidence_page.tables(rows) if line not in page] == []
    assert evidence_page.which_queries(rows) in page
    assert evidence_page.counts(rows, planned) in evidence_page.README.read_text(encoding="utf-8")
