"""What `run` and `resume` show at the end: the best trial beside the baseline, and commands that can be copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from tests.support.report_cases import Case
from tests.support.terminal import result
from tests.support.unsent_events import LeftBehind
from trainables.core.errors import Interrupted
from tune_cl import run_search as runner
from tune_cl.cli.texts import result_text
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import replay
from tune_cl.results import SearchResult
from tune_cl.search_result import search_result

CLUSTER = "10.0.0.7:6379"


FOLDER = SearchFolder(Path("/tmp/runs"), "x", tracking_uri="http://here")


def render(found: SearchResult, **other: Any) -> str:
    return result_text(found, FOLDER, **other)


def commands(shown: str) -> dict[str, list[str]]:
    """The arguments of each command of ours that is shown, by its name."""
    lines = [line.partition("tune-cl ")[2] for line in shown.splitlines() if "tune-cl " in line]
    return {split(line)[0]: split(line)[1:] for line in lines}


def test_the_trials_are_opened_at_the_server_or_with_one() -> None:
    assert "http://here" in render(result(0.5, 0.4, tracking_uri="http://here"))
    elsewhere = "sqlite:////tmp/my runs/mlflow.db"
    found = result(0.5, 0.4, tracking_uri=elsewhere)
    shown = result_text(found, replace(FOLDER, tracking_uri=elsewhere))
    assert f"mlflow ui --backend-store-uri '{elsewhere}'" in shown


def test_a_result_of_the_baseline_alone_has_nothing_to_confirm() -> None:
    shown = render(result(0.4, 0.45, best_curriculum=None))
    assert "confirm" not in commands(shown) and "report" in commands(shown)


def test_the_best_ranker_is_used_if_there_is_one() -> None:
    found = result(0.5, 0.4)
    assert commands(render(found))["rerank"] == [found.checkpoint, "--data", "DATA"]
    lost = result(0.5, 0.4, checkpoint=None)
    assert "rerank" not in commands(render(lost)), "every checkpoint was lost or damaged"


def test_the_result_of_a_search_names_the_best_of_all_and_the_best_curriculum(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.6], "baseline")
    for dev in (0.4, 0.5):
        case.add([0.3, dev], "completed")
    search_folder = case.write()
    found = search_result(replay(case.events), search_folder)
    assert (found.best, found.best_curriculum, found.best_plain, found.default) == ("t0000", "t0002", "t0000", "t0000")
    opened = {"curriculum.pacing", "curriculum.n", "curriculum.delta", "curriculum.scoring"}
    assert all(set(trial.params) <= opened for trial in found.trials)
    assert found.configuration["curriculum.T"] == 0.5 and not opened & set(found.configuration)
    assert commands(result_text(found, search_folder))["confirm"][0] == "toy"


def test_a_default_that_failed_has_no_value_to_compare_with(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.6], "failed", "its process ended")
    case.add([0.3, 0.5], "completed")
    found = search_result(replay(case.events), case.write())
    assert (found.best, found.best_plain, found.default) == ("t0001", None, None)


# -- a search that is done, called again ---------------------------------------------------------------------------


@pytest.fixture
def search_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchFolder:
    """A search whose trials are done, while MLflow is away."""
    monkeypatch.setattr(runner, "MlflowWriter", LeftBehind)
    case = Case(tmp_path)
    case.add([0.3, 0.4], "baseline")
    case.add([0.3, 0.5], "completed")
    case.finish()
    return case.write()


def test_it_is_confirmed_where_it_ran_and_sent_from_anywhere(
    search_folder: SearchFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "write_report", lambda search_folder, journal: None)
    found = runner.resume_search(replace(search_folder, tracking_uri="sqlite://"), CLUSTER)
    storage = ["--storage", str(search_folder.storage)]
    text = result_text(found, replace(search_folder, tracking_uri="sqlite://"), CLUSTER)
    shown = commands("\n".join(line for line in text.splitlines() if "--plan" not in line))
    tracking = ["--tracking-uri", "sqlite://"]  # not the storage's own: the next commands need it too
    assert commands(capsys.readouterr().err)["resume"] == ["toy", *storage, *tracking], "only tracking is left"
    assert shown["confirm"] == ["toy", *storage, *tracking, "--address", CLUSTER]
    assert shown["report"] == ["toy", *storage, *tracking]
    assert split(search_folder.command("resume", "a b:1"))[-2:] == ["--address", "a b:1"]


@pytest.mark.parametrize("written", [False, True])
def test_it_is_reported_by_the_next_resume_where_it_was_stopped_before_its_report(
    written: bool, search_folder: SearchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    if written:  # by a process that was killed before it could say so
        (search_folder.folder / "report.html").write_text("whole")
    told: list[SearchFolder] = []

    def note(found: SearchFolder, journal: Journal) -> None:
        told.append(found)

    before = [event["event"] for event in read_events(search_folder.journal)].count("interrupted")
    monkeypatch.setattr(runner, "write_report", stop)
    search_folder = replace(search_folder, tracking_uri="sqlite://")
    with pytest.raises(Interrupted):
        runner.resume_search(search_folder, None)
    monkeypatch.setattr(runner, "write_report", note)
    runner.resume_search(search_folder, None)
    assert told == [search_folder]
    assert [event["event"] for event in read_events(search_folder.journal)].count("interrupted") == before
