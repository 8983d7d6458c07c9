"""The study of effects: its curricula, what is made of its trainings, and the page that is written from them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import evidence, evidence_effects, evidence_page
from trainables.core.errors import DataError, Problem

DATA = Path("data")  # no file of it is read


@pytest.fixture(scope="module")
def parts() -> dict[str, str]:
    return evidence_page.parts(*evidence_page.stored())


def test_the_page_says_what_is_stored(parts: dict[str, str]) -> None:
    page = evidence_page.PAGE.read_text(encoding="utf-8")
    assert [name for name, text in parts.items() if text not in page] == []
    rows = evidence_page.stored()[0]
    assert evidence_page.summary(evidence_page.cells_of(rows)) in evidence_page.README.read_text(encoding="utf-8")


def test_each_row_is_a_planned_cell_with_its_planned_curricula() -> None:
    rows = evidence_page.stored()[0]
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        cell = evidence.Cell(row["data"], row["ranker"], row["labels"])
        experiment = cell.experiment(DATA, 0)
        points = evidence.curricula(experiment, cell)
        names = [int(pair[1:]) for pair in row.get("pairs", ())]
        planned = json.dumps([evidence.settings(experiment, points[pair]) for pair in names])
        assert json.dumps(row.get("settings", [])) == planned


def test_the_groups_are_what_curricula_do() -> None:
    """Settings as they were stored; the published come first in each cell."""
    cells = evidence_page.networks(evidence_page.cells_of(evidence_page.stored()[0]))
    experiment = evidence.Cell("docstrings", "knrm", "clean").experiment(DATA, 0)
    projections = [evidence.projected(experiment, point) for point in evidence.published()]
    assert sum(one is not None for one in projections) == evidence_effects.PUBLISHED
    groups = evidence_page.groups(cells)
    assert [one.curricula for one in groups.values()] == [9 * len(cells), 175, 48, 45, 68]
    settings = [one for cell in cells for one in cell.row["settings"]]
    assert sum(one["curriculum.anti"] and one.get("curriculum.final_share") == 0.7 for one in settings) == 68
    for group in groups.values():
        assert sum(map(group.weight, group.data_sets)) == pytest.approx(1)


def test_a_group_changes_the_mean_of_its_curricula() -> None:
    """The harmful group, in a cell with two seeds, from the values of its trainings."""
    [cell] = [
        cell for cell in evidence_page.cells_of(evidence_page.stored()[0]) if cell.row["name"] == "wikiqa-knrm-hard"
    ]
    values = cell.stored["map"] / evidence_effects.SCALE
    harmful = [
        pair for pair, one in enumerate(cell.row["settings"])
        if one["curriculum.anti"] and one.get("curriculum.final_share") == 0.7
    ]  # fmt: skip
    group = evidence_page.groups([cell])[evidence_effects.HARMFUL]
    assert group.over_cells.mean == pytest.approx((values[0, harmful] - values[1, harmful]).mean())


def test_pooled_is_that_of_dersimonian_laird_and_hartung_knapp() -> None:
    """Two means 0 and 2 with standard error 1: Q = 2, so tau^2 = 1; the mean has variance 1 and one degree of
    freedom."""
    half = evidence_effects.NORMAL
    found = evidence_effects.pooled([0.0, 2.0], [(-half, half), (2 - half, 2 + half)])
    assert (found.mean, found.sd) == pytest.approx((1.0, 1.0))
    assert found.ci95 == pytest.approx((1 - 12.7062, 1 + 12.7062), abs=1e-4)


def test_a_cell_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise DataError(Problem("data.source", "is not there", "a folder"))

    monkeypatch.setattr(evidence, "ROWS", tmp_path / "effects.jsonl")
    monkeypatch.setattr(evidence, "row_of", fail)
    evidence.run_cells(argparse.Namespace(cells=[]))
    rows = evidence_effects.read_rows(tmp_path / "effects.jsonl")
    assert len(rows) == len(evidence.STUDY["cells"])
    assert all("is not there" in row["failed"] for row in rows)
    assert "Failed: wikiqa, KNRM, clean: data.source" in evidence_page.state(rows)
    assert evidence.missing(rows, []) == []
