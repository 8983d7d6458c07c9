"""A search's folder that a stranger hands over sends no other file away, and to no other address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tests.support.report_cases import Case
from tests.support.tracking_cases import fresh_database
from trainables.core.errors import DataError
from tune_cl.cli import main
from tune_cl.history.events import Event
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder, own_checkpoint
from tune_cl.history.state import replay
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.ray.tuner import drop_foreign_checkpoints

SECRET = "the user's own"


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("tune_cl.report.output.TRACKING_SECONDS", 100.0)
    case = Case(tmp_path)
    fresh_database(case.search_folder.storage)
    case.add([0.3, 0.4], "baseline")
    case.finish()
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text(SECRET)
    return case


def sent(search_folder: SearchFolder) -> list[str]:
    """The names of all artifacts that MLflow got."""
    client = MlflowClient(tracking_uri=resolve_tracking_uri(search_folder.storage))
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    return sorted(file.path for run in runs for file in client.list_artifacts(run.info.run_id))


def test_report_sends_no_file_from_outside(
    case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "private"
    climbing = f"{case.search_folder.folder}/trials/../../../private/key"
    case.events += [{"event": "artifact", "path": path} for path in (f"{outside}/key", str(outside), climbing)]
    case.events[-4]["checkpoint"] = str(outside)
    place = case.write()
    assert main(["report", "toy", "--storage", str(place.storage)]) == 0
    assert sent(place) == ["dev.per_query.tsv", "report.html", "search.yaml"]
    stores = (path for path in place.storage.rglob("*") if path.is_file())
    assert not [path for path in stores if SECRET.encode() in path.read_bytes()]
    assert f"MLflow refuses {outside}/key: is not below the search's folder {place.folder}" in caplog.text


def linked_file(folder: Path, outside: Path) -> Path:
    (folder / "trials" / "table.tsv").symlink_to(outside / "key")
    return folder / "trials" / "table.tsv"


def linked_folder(folder: Path, outside: Path) -> Path:
    (folder / "ray").symlink_to(outside)
    return folder / "ray"


def linked_lock(folder: Path, outside: Path) -> Path:
    (folder / "journal.lock").unlink()
    (folder / "journal.lock").symlink_to(outside / "key")
    return folder / "journal.lock"


@pytest.mark.parametrize("command", ["report", "resume", "confirm"])
@pytest.mark.parametrize("link", [linked_file, linked_folder, linked_lock])
def test_links_that_lead_out_are_refused(
    link: Callable[[Path, Path], Path], command: str, case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = case.write()
    path = link(place.folder, tmp_path / "private")
    assert main([command, "toy", "--storage", str(place.storage)]) == 2
    wrong = f"error: {path}: a link that leads out of the search's folder to {path.resolve()}; remove it\n"
    assert capfd.readouterr().err == wrong
    assert (tmp_path / "private" / "key").read_text() == SECRET


def test_links_within_the_folder_are_fine(case: Case) -> None:
    place = case.write()
    (place.folder / "best").symlink_to(place.folder / "trials")
    assert main(["report", "toy", "--storage", str(place.storage)]) == 0


@pytest.mark.parametrize("command", ["report", "resume", "confirm"])
def test_an_address_of_others_is_refused(command: str, case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    case.events[0]["tracking_uri"] = "http://127.0.0.1:9"
    place = case.write()
    before = sorted(place.folder.rglob("*"))
    assert main([command, "toy", "--storage", str(place.storage)]) == 2
    wrong = "the search's journal names http://127.0.0.1:9, which is neither MLFLOW_TRACKING_URI nor in this storage"
    right = "--tracking-uri http://127.0.0.1:9 if that is where you want it sent, or another address of yours"
    assert capfd.readouterr().err == f"error: --tracking-uri: {wrong}; {right}\n"
    assert sorted(place.folder.rglob("*")) == before


def test_an_address_that_the_user_gives_is_used_and_printed(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{fresh_database(tmp_path)}/mlflow.db"
    case.events[0]["tracking_uri"] = uri
    place = case.write()
    assert main(["report", "toy", "--storage", str(place.storage), "--tracking-uri", uri]) == 0
    assert sent(SearchFolder(tmp_path, "toy")) == ["dev.per_query.tsv", "report.html", "search.yaml"]
    command = SearchFolder(place.storage, "toy", tracking_uri=uri).command("resume")
    assert command.endswith(f"resume toy --storage {place.storage} --tracking-uri {uri}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert main(["report", "toy", "--storage", str(place.storage)]) == 0
    assert "--tracking-uri" not in SearchFolder(place.storage, "toy", tracking_uri=uri).command("resume")


def test_a_report_that_was_written_elsewhere_is_sent_from_a_copy(case: Case, tmp_path: Path) -> None:
    place = case.write()
    output = tmp_path / "paper" / "table.tex"
    options = ["--storage", str(place.storage), "--format", "latex", "--output", str(output)]
    assert main(["report", "toy", *options]) == 0
    assert "table.tex" in sent(place)
    assert (place.folder / "reports" / "table.tex").read_text() == output.read_text()


def test_a_forecast_of_text_is_named(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    case.events[0]["forecast"] = {"trials": "many"}
    place = case.write()
    assert main(["report", "toy", "--storage", str(place.storage)]) == 2
    assert "journal.jsonl:1: event 'search': 'forecast' is {'trials': 'many'}; " in capfd.readouterr().err


@pytest.mark.parametrize("trial", ["../../private", "/tmp/private", "..", ""])
def test_a_trial_cannot_be_named_so_that_its_files_lie_elsewhere(trial: str, case: Case) -> None:
    event: Event = next(event for event in case.events if event["event"] == "trial")
    with pytest.raises(DataError, match="is not a valid folder name; a journal as tune-cl wrote it"):
        replay([case.events[0], event | {"trial": trial}])


def test_the_report_reads_values_of_queries_only_from_the_folder(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case.confirm()
    place = case.write()
    verdict = place.folder / "confirmation" / "test.json"
    verdict.write_text(verdict.read_text().replace(str(place.folder / "trials"), str(tmp_path / "private")))
    assert main(["report", "toy", "--storage", str(place.storage)]) == 0
    assert "is not below the search" in (place.folder / "report.html").read_text()


def test_checkpoints_of_others_are_neither_read_nor_deleted(case: Case, tmp_path: Path) -> None:
    own = case.search_folder.folder / "ray" / "t0000" / "checkpoint_000001"
    own.mkdir(parents=True)
    (case.search_folder.folder / "ray" / "out").symlink_to(tmp_path / "private")
    through_link = case.search_folder.folder / "ray" / "out" / "checkpoint_000000"
    foreign = [str(tmp_path / "private"), "s3://bucket/x?endpoint_override=127.0.0.1:9", str(through_link)]
    case.events += [
        {"event": "checkpoint", "trial": "t0000", "iteration": iteration, "path": path}
        for iteration, path in enumerate([*foreign, str(own)], 1)
    ]
    state = replay(case.events)
    assert drop_foreign_checkpoints(state, case.search_folder) == foreign
    assert state.trials["t0000"].checkpoints == {4: str(own)}


def test_checkpoints_of_a_copied_search_are_those_of_the_copy(tmp_path: Path) -> None:
    search_folder = SearchFolder(tmp_path / "runs", "toy")
    copied = search_folder.folder / "ray" / "checkpoint_000001"
    copied.mkdir(parents=True)
    assert own_checkpoint("/elsewhere/toy/ray/checkpoint_000001", search_folder) == str(copied)


def test_checkpoints_in_s3_are_below_the_prefix_and_asked_of_the_users_server(tmp_path: Path) -> None:
    search_folder = SearchFolder(tmp_path, "toy", "s3://bucket/runs?endpoint_override=mine:1")
    mine = "s3://bucket/runs/toy/ray/t0000/checkpoint_000001?endpoint_override=mine:1"
    assert own_checkpoint(mine, search_folder) == mine
    assert own_checkpoint(mine.replace("mine:1", "theirs:2"), search_folder) == mine
    for other in ("s3://other/runs/toy/ray/c", "s3://bucket/runs/toy/../x", "s3://bucket/runs/toy/%2e%2e/x", "/tmp/c"):
        assert own_checkpoint(other, search_folder) is None


def test_a_journal_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    for name in ("journal.lock", "journal.jsonl"):
        (tmp_path / "theirs").write_text(SECRET)
        (tmp_path / "toy" / name).symlink_to(tmp_path / "theirs")
        with pytest.raises(Exception, match=f"^error: .*{name}: not a regular file, or a link to one; remove it$"):
            Journal(tmp_path / "toy")
        assert (tmp_path / "theirs").read_text() == SECRET
        (tmp_path / "toy" / name).unlink()
