"""The commands that a search prints name the cluster it ran on, if what they do needs one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.tracking_cases import journal_of, one_trial
from tests.support.unsent_events import LeftBehind
from trainables.core.errors import Interrupted
from tune_cl import run_search as runner
from tune_cl.cli.search_result import render
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState

CLUSTER = "10.0.0.7:6379"


def session(
    folder: Path, address: str | None, monkeypatch: pytest.MonkeyPatch, interrupted: bool = False
) -> dict[str, Any]:
    """A session of a search whose trials are done, or interrupted, at once; MLflow is away."""

    def run(
        experiment: Any, search_folder: Any, journal: Any, materials: Any, address: Any, state: SearchState, panel: Any
    ) -> SearchState:
        if interrupted:
            raise KeyboardInterrupt
        return state

    monkeypatch.setattr(runner, "MlflowWriter", LeftBehind)
    monkeypatch.setattr(runner, "_run", run)
    monkeypatch.setattr(runner, "write_report", lambda search_folder, journal: None)
    quiet: Any = SimpleNamespace(notes=())
    inputs: Any = SimpleNamespace(notes=list)
    search_folder = SearchFolder(folder, "toy")
    search_folder.folder.mkdir(parents=True)
    told = [event for event in one_trial("toy", search_folder.folder) if event["event"] != "search_end"]
    journal_of(search_folder.folder, told)
    with Journal(search_folder.folder) as journal:
        return runner._session(quiet, search_folder, journal, inputs, "sqlite://", address)


@pytest.mark.parametrize(("address", "option"), [("auto", " --address auto"), (None, "")])
def test_a_search_that_was_stopped_goes_on_where_it_ran(
    address: str | None,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Interrupted) as stopped:
        session(tmp_path / "runs", address, monkeypatch, interrupted=True)
    assert str(stopped.value).endswith(f"tune-cl resume toy --storage {tmp_path / 'runs'}{option}")
    assert capsys.readouterr().err.endswith(f"--storage {tmp_path / 'runs'}{option}\n")


def test_a_search_that_is_done_is_confirmed_where_it_ran_and_sent_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = session(tmp_path / "runs", CLUSTER, monkeypatch)
    storage = f"--storage {tmp_path / 'runs'}"
    assert capsys.readouterr().err.endswith(f"tune-cl resume toy {storage}\n")
    lines = render(document).splitlines()
    (confirm,) = (line for line in lines if "tune-cl confirm" in line)
    (report,) = (line for line in lines if "tune-cl report" in line)
    tracking = "--tracking-uri sqlite://"  # not the storage's own: the next commands need it too
    assert confirm.endswith(f" {storage} {tracking} --address {CLUSTER}")
    assert report.endswith(f" {storage} {tracking}")
    assert document["address"] == CLUSTER


def test_addresses_are_quoted(tmp_path: Path) -> None:
    assert SearchFolder(tmp_path, "toy").command("resume", "a b:1").endswith(" --address 'a b:1'")


@pytest.mark.parametrize("written", [False, True])
def test_a_search_stopped_between_its_end_and_its_report_ends_with_the_next_resume(
    written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "MlflowWriter", LeftBehind)
    search_folder = SearchFolder(tmp_path, "toy")
    search_folder.folder.mkdir(parents=True)
    path = journal_of(search_folder.folder, one_trial("toy", search_folder.folder))
    interrupted = [event["event"] for event in read_events(path)].count("interrupted")
    told: list[SearchFolder] = []
    if written:  # by a process that was killed before it could say so
        (search_folder.folder / "report.html").write_text("whole")
    for leave in (stop, lambda search_folder, journal: told.append(search_folder)):
        monkeypatch.setattr(runner, "write_report", leave)
        with Journal(search_folder.folder) as journal:
            try:
                runner._session(cast(Experiment, None), search_folder, journal, None, "sqlite://", None)
            except Interrupted:
                assert not told
    assert told == [search_folder]
    assert [event["event"] for event in read_events(path)].count("interrupted") == interrupted
