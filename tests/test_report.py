"""The report as a page that loads nothing and keeps text as text, as other files, and as a command."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest

from tests.support.confirm_cases import data, search_folder
from tests.support.report_cases import HOSTILE, Case, whole
from tests.support.report_pages import Reader, report
from tests.support.tracking_cases import fresh_database
from trainables.core.errors import ConfigError
from tune_cl.api.search import Search
from tune_cl.cli import main
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report import page as file
from tune_cl.report.facts import report_facts
from tune_cl.report.findings import Findings
from tune_cl.report.output import form_of, tracked
from tune_cl.report.page import SCRIPT, STYLE, TITLES, page

__all__ = ["data", "search_folder"]  # fixtures


# -- the page ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reader, Findings]:
    """A search with all that there may be, confirmed."""
    case = whole(tmp_path_factory.mktemp("whole"))
    case.confirm()
    return report(case)


def test_the_page_loads_nothing_and_runs_only_its_own_script(confirmed: tuple[Reader, Findings]) -> None:
    found, findings = confirmed
    assert list(found.sections) == ["verdict", *TITLES] and all(len(text) > 80 for text in found.sections.values())
    assert found.loads == [] and len(found.scripts) == 1
    assert not [word for word in ("http", "url(", "@import", "fetch") if word in STYLE + SCRIPT]
    drawn = page(report_facts(findings))
    assert "default-src 'none'" in drawn[:500] and len(drawn.encode()) < 100_000


def test_hostile_texts_stay_texts(confirmed: tuple[Reader, Findings]) -> None:
    found, _ = confirmed
    assert HOSTILE in found.sections["learning"], "the reason of a failure"
    assert "alert" not in "".join(found.scripts) and "img" not in found.tags


@pytest.mark.parametrize("outcomes", [(), ("baseline",), ("baseline", "failed"), ("baseline", "completed")])
def test_a_search_without_any_value_is_reported(tmp_path: Path, outcomes: tuple[str, ...]) -> None:
    case = Case(tmp_path)
    for outcome in outcomes:
        case.add([math.nan], outcome)
    found, findings = report(case)
    assert list(found.sections) == ["verdict", *TITLES] and findings.plain == []


# -- other formats -------------------------------------------------------------------------------------------------


def test_optuna_reads_the_study_back(search_folder: SearchFolder, tmp_path: Path) -> None:
    search, storage = Search(search_folder), f"sqlite:///{tmp_path}/optuna.db"
    search.to_optuna(storage)
    study = optuna.load_study(study_name="toy", storage=storage)
    rows = search.trials.set_index("trial_id")
    assert [trial.user_attrs["trial_id"] for trial in study.trials] == list(rows.index)
    for trial in study.trials:
        row = rows.loc[trial.user_attrs["trial_id"]]
        failed = row.outcome == "failed"
        assert (trial.state is optuna.trial.TrialState.FAIL) is failed
        assert failed or trial.value == pytest.approx(row.dev)
        assert len(trial.intermediate_values) == (0 if failed and not trial.intermediate_values else row.iterations)
    assert study.best_trial.user_attrs["trial_id"] == search.result.best
    root = next(trial for trial in study.trials if trial.params.get("curriculum.pacing") == "root")
    assert root.params["curriculum.n"] in (2, 10) and set(root.distributions) == set(root.params)
    with pytest.raises(ConfigError, match="has a study 'toy'"):
        search.to_optuna(storage)


def test_the_suffix_decides_on_the_format(
    search_folder: SearchFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tune_cl.report.output.tracked", lambda search_folder, output, text: None)
    search = Search(search_folder)
    table = pd.read_parquet(search.report(tmp_path / "trials.parquet", progress=False))
    assert list(table["trial"]) == list(search.trials.trial_id)
    assert [form_of(Path(name)) for name in ("a.csv", "a.tex", "a.html", "a")] == ["csv", "html", "html", "html"]


# -- the command ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_reported_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path)
    case.confirm()
    folder, storage = case.write().folder, str(case.search_folder.storage)
    assert main(["report", "tyo", "--storage", storage]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: NAME: ") and "'tyo'" in error and "toy" in error
    assert main(["report", "toy", "--storage", storage, "--output", str(tmp_path)]) == 2
    (folder / "confirmation" / "test.json").write_text("{}")
    assert main(["report", "toy", "--storage", storage]) == 2
    err = capsys.readouterr().err
    assert "confirmation/test.json: " in err
    assert not list(Path(storage).glob("**/report.*"))


def test_a_format_has_its_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tune_cl.report.output.tracked", lambda search_folder, output, text: None)
    folder, storage = (search_folder := Case(tmp_path).write()).folder, str(search_folder.storage)
    for form, name in (("html", "report.html"), ("csv", "report.csv")):
        assert main(["report", "toy", "--storage", storage, "--format", form]) == 0
        assert capfd.readouterr().out == f"report  {folder / name}\n" and (folder / name).is_file()


def test_the_command_writes_the_file_and_mlflow_gets_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from mlflow.tracking import MlflowClient

    search_folder = Case(tmp_path).write()
    fresh_database(search_folder.storage)
    assert main(["report", "toy", "--storage", str(search_folder.storage), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    output = document.pop("output")
    assert output == str(search_folder.folder / "report.html")
    assert document["search"] == "toy" and document["verdict"] is None
    assert Path(output).read_text().startswith("<!doctype html>")
    client = MlflowClient(tracking_uri=f"sqlite:///{search_folder.storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("toy")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`tune_cl.kind` = 'search'")
    assert "report.html" in [file.path for file in client.list_artifacts(runs[0].info.run_id)]


# -- what keeps a report from being made, left or sent costs that alone ----------------------------------------------


def raising(error: Exception) -> Any:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


@pytest.mark.parametrize("error", [ValueError("no logarithm of 0"), OSError("full")], ids=repr)
def test_a_result_stands_without_its_report(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a chart that fails would end a search that is done, at each resume again."""
    search_folder = Case(tmp_path).write()
    monkeypatch.setattr(file, "page", raising(error))
    with Journal(search_folder.folder) as journal:
        file.write_report(search_folder, journal)
    told = capsys.readouterr().err
    assert str(error) in told and "report toy" in told
    assert [event["event"] for event in read_events(search_folder.journal)] == ["search"]


def test_a_running_search_is_reported_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search_folder = Case(tmp_path).write()
    before = search_folder.journal.read_text()
    with Journal(search_folder.folder):
        assert main(["report", "toy", "--storage", str(search_folder.storage), "--format", "csv"]) == 0
    assert "'toy'" in capsys.readouterr().err
    assert (search_folder.folder / "report.csv").exists() and search_folder.journal.read_text() == before


def test_tracking_that_cannot_be_reached_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tune_cl.report.output.TRACKING_SECONDS", 0.1)
    search_folder = replace(Case(tmp_path).write(), tracking_uri="http://user:secret@127.0.0.1:9")
    tracked(search_folder, search_folder.journal, "")
    told = capsys.readouterr().err
    assert "MLflow" in told and "resume toy" in told and "secret" not in told


@pytest.mark.parametrize("at", ["open", "append"])
def test_storage_that_is_away_only_keeps_a_report_from_mlflow(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    search_folder = Case(tmp_path).write()
    monkeypatch.setattr(*((SearchFolder, "open") if at == "open" else (Journal, "append")), raising(OSError("NETWORK")))
    tracked(replace(search_folder, tracking_uri="sqlite://"), search_folder.folder / "report.html", "<html>")
    [line] = capsys.readouterr().err.splitlines()
    assert "MLflow" in line and "NETWORK" in line
