"""What keeps a report from being made whole, left or sent costs that alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.report_cases import Case, whole
from tests.support.report_pages import report
from trainables.core.errors import WorkFailed
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report import page as file
from tune_cl.report import queries as per_query
from tune_cl.report.output import tracked


def raising(error: Exception) -> Any:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


@pytest.mark.parametrize("error", [ValueError("no logarithm of 0"), KeyError("n"), OSError("full")], ids=repr)
def test_a_result_stands_without_its_report(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a chart that fails would end a search that is done, at each resume again."""
    search_folder = Case(tmp_path).write()
    monkeypatch.setattr(file, "page", raising(error))
    with Journal(search_folder.folder) as journal:
        file.write_report(search_folder, journal)
    told = capsys.readouterr().err
    assert told.startswith(f"no report: {error}; ") and "tune-cl report toy" in told
    assert [event["event"] for event in read_events(search_folder.journal)] == ["search"]


def test_data_that_cannot_be_had_costs_the_sections_about_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ir_datasets without a network."""
    monkeypatch.setattr(per_query, "load_data", raising(WorkFailed("ir_datasets: no network")))
    sections = report(whole(tmp_path, others=2))[0].sections
    for name in ("groups", "queries"):
        assert "There are no values of single queries to show: ir_datasets: no network." in sections[name]
    assert "Best on dev so far" in sections["verdict"]


@pytest.mark.parametrize("at", ["open", "append"])
def test_storage_that_is_away_only_keeps_a_report_from_mlflow(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    search_folder = Case(tmp_path).write()
    monkeypatch.setattr(*((SearchFolder, "open") if at == "open" else (Journal, "append")), raising(OSError("NETWORK")))
    tracked(replace(search_folder, tracking_uri="sqlite://"), search_folder.folder / "report.html", "<html>")
    assert capsys.readouterr().err == "not logged to MLflow: NETWORK\n"


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (("failed", "completed"), "The baseline has given no dev value."),
        (("baseline", None), "There are no values of single queries yet: they come with the end of t0001."),
    ],
)
def test_why_there_are_no_single_queries_is_said_in_plain_words(
    ends: tuple[str, str | None], told: str, tmp_path: Path
) -> None:
    case = Case(tmp_path)
    for outcome in ends:
        case.add([0.3], outcome)
    sections = report(case)[0].sections
    for name in ("groups", "queries"):
        assert sections[name].endswith(told) and ";" not in sections[name]
