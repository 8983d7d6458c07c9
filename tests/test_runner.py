"""A session of a search around its trials: what stops it between two steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.tracking_cases import journal_of, one_trial
from tests.support.trec_folder import write_trec_folder
from tests.support.unsent_events import LeftBehind
from trainables.core.errors import ConfigError, Interrupted
from tune_cl import run_search as runner
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder, new_search_folder
from tune_cl.history.state import SearchState, replay

*SO_FAR, THE_END = one_trial("toy")


def test_a_name_that_was_taken_while_the_data_was_read_is_refused(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy.yaml").write_text(SPACE)
    first, second = (
        load_experiment(str(tmp_path / "toy.yaml"), [f"seed={seed}"], data=str(tiny_folder)) for seed in (1, 2)
    )
    monkeypatch.setattr(runner, "_session", lambda *_: {})
    storage = str(tmp_path / "runs")
    search_folder, same = new_search_folder(storage, None, "toy"), new_search_folder(storage, None, "toy")
    runner.start_search(first, search_folder, None)
    before = search_folder.journal.read_bytes()
    with pytest.raises(
        ConfigError, match=r"--name: a search 'toy' exists in .*runs; .*tune-cl resume toy .*, or another"
    ):
        runner.start_search(second, same, None)
    assert search_folder.journal.read_bytes() == before


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["tune_cl.run_search.inputs_of", "tune_cl.inputs.RankerInputs.notes"])
def test_what_is_stopped_before_its_trials_says_how_to_go_on_once_there_is_a_search(
    at: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data, BM25 and a teacher can take hours."""
    (tmp_path / "toy.yaml").write_text(SPACE)
    experiment = load_experiment(str(tmp_path / "toy.yaml"), data=str(tiny_folder))
    search_folder = replace(new_search_folder(str(tmp_path / "runs"), None, "toy"), tracking_uri="sqlite://")
    command = f"Go on with: .*tune-cl resume toy --storage {tmp_path / 'runs'} --tracking-uri sqlite://$"
    with monkeypatch.context() as patch:
        patch.setattr(at, interrupted)
        if at.endswith("inputs_of"):  # no search yet
            with pytest.raises(KeyboardInterrupt):
                runner.start_search(experiment, search_folder, None)
            assert not search_folder.exists()
            patch.undo()
            patch.setattr(runner, "_session", interrupted)
        with pytest.raises(Interrupted, match=command):
            runner.start_search(experiment, search_folder, None)
    assert kinds(search_folder) == ["search"]
    monkeypatch.setattr(at, interrupted)
    with pytest.raises(Interrupted, match=command):
        runner.resume_search(search_folder, None)
    with pytest.raises(Interrupted, match=command.replace("$", " --address auto$")):
        runner.resume_search(search_folder, "auto")


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    return write_trec_folder(tiny_data(queries=6, candidates=4, turns=1), tmp_path / "data")


@pytest.fixture
def search_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchFolder:
    """A search whose trial has ended, while MLflow is away."""
    monkeypatch.setattr(runner, "MlflowWriter", LeftBehind)
    found = SearchFolder(tmp_path, "toy")
    journal_of(found.folder, SO_FAR)
    return found


def sit(search_folder: SearchFolder, ended: bool = True) -> dict[str, Any]:
    """A session of a search whose trials have ended, or have not."""
    quiet: Any = SimpleNamespace(notes=())
    inputs: Any = None if ended else SimpleNamespace(notes=list, warnings=list)
    with Journal(search_folder.folder) as journal:
        return runner._session(quiet, search_folder, journal, inputs, None)


def kinds(search_folder: SearchFolder) -> list[str]:
    return [event["event"] for event in read_events(search_folder.journal)]


@pytest.mark.parametrize("at_its_end", [True, False])
def test_a_search_that_is_interrupted_is_told_to_be_so_unless_it_has_ended(
    at_its_end: bool, search_folder: SearchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its end is told, in the moment before `_run` returns the state, MLflow would show it as KILLED for ever. The
    other one reads its journal."""

    def run(experiment: Any, search_folder: SearchFolder, journal: Journal, *_: Any) -> SearchState:
        journal.append(THE_END)
        raise KeyboardInterrupt

    def once(_: Any) -> SearchState:
        monkeypatch.setattr(runner, "replay", replay)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, *(("_run", run) if at_its_end else ("replay", once)))
    with pytest.raises(KeyboardInterrupt):
        sit(search_folder, ended=not at_its_end)
    assert kinds(search_folder)[-1] == ("search_end" if at_its_end else "interrupted")


def test_a_report_of_before_the_end_is_not_the_search_s(
    search_folder: SearchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tune-cl report` wrote it while trials ran; the process was killed before it wrote the one at the end."""
    report = search_folder.folder / "report.html"
    report.write_text("so far")
    made = {"event": "artifact", "path": str(report)}
    journal_of(search_folder.folder, [made, THE_END])

    def leave(search_folder: SearchFolder, journal: Journal) -> None:
        report.write_text("at the end")
        journal.append(made)

    monkeypatch.setattr(runner, "write_report", leave)
    for _ in range(2):
        sit(search_folder)
        assert report.read_text() == "at the end" and kinds(search_folder)[-2:] == ["search_end", "artifact"]
