"""MLflow's SQLite store: what may be done twice, how databases are made, and how a search looks in one."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache

from tests.support.commands import on_path
from tests.support.tracking_cases import (
    caught_up,
    fresh_database,
    in_mlflow,
    journal_of,
    promised,
    recorded,
    search_event,
)
from tune_cl.history.journal import Journal
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.tracking import layout
from tune_cl.tracking import mlflow_store as module
from tune_cl.tracking.mlflow_store import METRICS, RunStore
from tune_cl.tracking.writer import MlflowWriter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TAG = "tune_cl.search_id"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh_database(tmp_path_factory.mktemp("database"))


@pytest.fixture(scope="module")
def store(database: Path) -> RunStore:
    return RunStore(resolve_tracking_uri(database), (database / "artifacts").as_uri())


def test_what_is_done_again_changes_nothing(store: RunStore, tmp_path: Path) -> None:
    """Delivery relies on it, also for values that are not numbers, and for batches in several requests."""
    (tmp_path / "a.txt").write_text("a")
    values = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1 / 3, *map(float, range(METRICS))]
    points = [Metric("dev_map", value, 1000 + step, step) for step, value in enumerate(values)]
    params = {f"key.{number}": str(number) for number in range(250)}
    data = {"name": "docstrings", "digest": "sha-1", "source_type": "local", "source": "{}"}
    run = store.create(store.experiment("again"), "t0000", {TAG: "own"}, 1000)
    for part in (points[:3], points, points[1:]):
        store.tag_experiment(store.experiment("again"), "tag", "value")
        store.log_metrics(run, part)
        store.log_params(run, params)
        store.log_tags(run, params)
        store.log_data(run, data)
        store.log_artifact(run, tmp_path / "a.txt", None)
        store.set_status(run, "RUNNING")
        store.finish(run, "FINISHED", layout.milliseconds(-5.0))
    [found] = store.tagged(store.experiment("again"), TAG, "own")
    history = sorted(store.client.get_metric_history(run, "dev_map"), key=lambda point: point.step)
    assert [point.step for point in history] == list(range(len(points)))
    assert math.isnan(history[0].value) and history[5].value == 1 / 3
    assert found.data.params == params and found.data.tags.items() >= params.items()
    assert (found.info.status, found.info.start_time, found.info.end_time) == ("FINISHED", 1000, 1)
    assert found.inputs is not None and len(found.inputs.dataset_inputs) == 1
    assert [file.path for file in store.client.list_artifacts(run)] == ["a.txt"]
    assert run not in _artifact_repos_cache, "MLflow would keep 10 KiB a run"


def test_what_may_never_be_done_is_refused(store: RunStore) -> None:
    run, deleted = (store.create(store.experiment("refusals"), name, {}, 1) for name in ("t0000", "t0001"))
    store.log_params(run, {"n": "1"})
    store.delete(deleted)
    for impossible in (
        lambda: store.log_params(run, {"n": "2"}),
        lambda: store.log_metrics("no-such-run", [Metric("dev_map", 0.5, 1, 1)]),
        lambda: store.log_metrics(deleted, [Metric("dev_map", 0.5, 1, 1)]),
    ):
        with pytest.raises(MlflowException) as refused:
            impossible()
        assert store.refusal(refused.value) is not None
    assert store.exists(run) and store.exists(deleted) and not store.exists("no-such-run")


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


# -- databases that are made ----------------------------------------------------------------------------------------


def test_a_database_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill or a full disk may come, after which MLflow would not go on with half of its tables; files may have no
    hard links."""
    uri = f"sqlite:///{tmp_path}/storage/mlflow.db?timeout=3"

    def half(tracking_uri: str) -> None:
        Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
        raise OSError("cut short")

    def no_links(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch, pytest.raises(OSError, match="cut short"):
        patch.setattr(module, "MlflowClient", half)
        RunStore(uri, None)
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "link", no_links)
        made = RunStore(uri, None).experiment("pacing")
    assert RunStore(uri, None).experiment("pacing") == made
    assert os.listdir(tmp_path / "storage") == ["mlflow.db"]


def test_a_database_that_another_search_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_by_another(*_: object) -> None:
        (tmp_path / "mlflow.db").write_bytes(b"theirs")
        raise FileExistsError

    monkeypatch.setattr(module, "MlflowClient", lambda tracking_uri: None)
    monkeypatch.setattr(module.os, "link", made_by_another)
    module.create_database(resolve_tracking_uri(tmp_path))
    assert (tmp_path / "mlflow.db").read_bytes() == b"theirs"


@pytest.mark.parametrize("address", ["sqlite:///:memory:", "sqlite:///{}/a%20b/mlflow.db", "postgresql://{}/mlflow.db"])
def test_of_other_addresses_no_file_is_made(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow reads a % in its own ways, and no file belongs to the others."""
    monkeypatch.chdir(tmp_path)
    module.create_database(address.format(tmp_path))
    assert not os.listdir(tmp_path)


def test_a_fresh_database_is_made_quietly_beside_the_runs(tmp_path: Path) -> None:
    """In a process of its own, started elsewhere: nothing on stderr, nothing in the working directory."""
    journal = journal_of(tmp_path / "runs" / "pacing", recorded())
    (tmp_path / "elsewhere").mkdir()
    program = (
        "import sys, pathlib; from tune_cl.ray.environment import own_environment; "
        "from tune_cl.history.journal import Journal; "
        "from tune_cl.tracking.writer import MlflowWriter; "
        "assert 'mlflow' not in sys.modules, 'the driver would wait for the import'; "
        "own_environment().__enter__(); "
        "writer = MlflowWriter(Journal(pathlib.Path(sys.argv[1]).parent), sys.argv[2]); writer.start(); "
        "sys.exit(writer.close(300.0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(journal), resolve_tracking_uri(tmp_path / "runs")], check=False,
        cwd=tmp_path / "elsewhere", capture_output=True, text=True, env=os.environ | {"PYTHONPATH": on_path(str(ROOT))},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list((tmp_path / "elsewhere").iterdir())
    kept = sorted(path.name for path in (tmp_path / "runs" / "mlartifacts").glob("*/artifacts/*"))
    assert kept == ["best_checkpoint", "report.html", "run.dev.txt", "search.yaml"]


def test_what_a_database_refuses_is_said_once_in_its_own_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """MLflow would print a traceback at each attempt, and SQLAlchemy puts advice to programmers before the reason."""
    uri = resolve_tracking_uri(fresh_database(tmp_path))
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as broken:
        broken.execute("DROP TABLE runs")
    with Journal(journal_of(tmp_path / "pacing", [search_event("never")]).parent) as journal:
        writer = MlflowWriter(journal, uri)
        assert not writer.attempt() and not writer.attempt()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"tracking waits for MLflow at {uri}: OperationalError: no such ")
    assert "Traceback" not in capfd.readouterr().err


# -- a search in MLflow ---------------------------------------------------------------------------------------------


def test_mlflow_holds_what_the_store_in_memory_holds(database: Path, tmp_path: Path) -> None:
    """So what is tested with that store holds for MLflow's database."""
    uri = resolve_tracking_uri(database)
    assert caught_up(journal_of(tmp_path / "pacing", recorded("held")), uri) == 0
    assert in_mlflow(uri, "held") == promised(tmp_path)


def test_prepared_view_lists_the_trials_of_this_search_best_first(database: Path, tmp_path: Path) -> None:
    """Two searches share the experiment; each has a view of its own, whose filter and order MLflow understands."""
    uri = resolve_tracking_uri(database)
    other = recorded("view", storage="elsewhere", name="other")
    for told in (recorded("view"), other):
        assert caught_up(journal_of(tmp_path / told[0]["name"], told), uri) == 0
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("view")
    assert experiment is not None
    tag, _ = layout.view(other[0])
    view = json.loads(experiment.tags[tag])
    order = f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"
    found = client.search_runs([experiment.experiment_id], view["searchFilter"], order_by=[order])
    assert [run.data.tags["tune_cl.trial_id"] for run in found] == ["t0001", "t0000", "t0002", "t0003"]
    assert {run.data.tags["tune_cl.search"] for run in found} == {"other"}
    assert layout.view_path(other[0], "3").startswith(f"#/experiments/3/runs?viewStateShareKey={tag.split('.')[-1]}&")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development", "as pages need"


def test_a_search_whose_user_asks_for_system_metrics_has_them(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "true")
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.2")
    uri = resolve_tracking_uri(database)
    with Journal(journal_of(tmp_path / "pacing", [search_event("watched")]).parent) as journal:
        writer = MlflowWriter(journal, uri, poll=0.1)
        writer.start()
        deadline = time.monotonic() + 60
        while not (writer.run_id and system_metrics(uri, writer.run_id)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert writer.run_id and "system/cpu_utilization_percentage" in system_metrics(uri, writer.run_id)
        assert writer.close() == 0 and writer.trouble is None


def system_metrics(uri: str, run: str) -> list[str]:
    return [name for name in MlflowClient(uri).get_run(run).data.metrics if name.startswith("system/")]
