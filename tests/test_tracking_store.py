"""What is asked of MLflow's stores: experiments in the trash, many runs, databases that are being made."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.tracking_cases import fresh_database
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.tracking import mlflow_store as module
from tune_cl.tracking.mlflow_store import RunStore

pytestmark = pytest.mark.slow

TAG = "tune_cl.search_id"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    folder = fresh_database(tmp_path_factory.mktemp("store"))
    return RunStore(resolve_tracking_uri(folder), (folder / "artifacts").as_uri())


def test_an_experiment_in_the_trash_is_taken_out_again(store: RunStore) -> None:
    """MLflow gives its name to no other experiment, and takes no run into it."""
    made = store.experiment("deleted")
    store.client.delete_experiment(made)
    assert store.experiment("deleted") == made
    store.create(made, "t0000", {}, 1)


def test_all_runs_with_a_tag_are_found_page_by_page(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = store.experiment("pages")
    own = {store.create(experiment, f"t{number}", {TAG: "own"}, number) for number in range(5)}
    store.create(experiment, "other", {TAG: "other"}, 9)
    search = store.client.search_runs

    def two_at_a_time(experiments: list[str], where: str, view: int, most: int, page_token: str | None) -> Any:
        return search(experiments, where, view, 2, page_token=page_token)

    monkeypatch.setattr(store.client, "search_runs", two_at_a_time)
    found = [run.info.run_id for run in store.tagged(experiment, TAG, "own")]
    assert set(found) == own and len(found) == 5


def refuse(error: type[OSError], meanwhile: Any, *_: object) -> None:
    meanwhile()
    raise error


def test_a_database_is_made_where_files_have_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "link", partial(refuse, PermissionError, lambda: None))
    store = RunStore(resolve_tracking_uri(tmp_path), None)
    assert store.experiment("pacing") == store.experiment("pacing")
    assert os.listdir(tmp_path) == ["mlflow.db"]


def test_a_database_that_another_search_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mlflow.db"

    def theirs() -> None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE theirs (id INTEGER)")

    monkeypatch.setattr(module.os, "link", partial(refuse, FileExistsError, theirs))
    module.create_database(resolve_tracking_uri(tmp_path))
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


@pytest.mark.parametrize("address", ["sqlite:///:memory:", "sqlite:///{}/a%20b/mlflow.db", "postgresql://{}/mlflow.db"])
def test_of_other_addresses_no_file_is_made(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow reads a % in its own ways, and no file belongs to the others."""
    monkeypatch.chdir(tmp_path)
    module.create_database(address.format(tmp_path))
    assert not os.listdir(tmp_path)
