"""MLflow shows the journal, complete and once, whatever fails in between: real servers, real databases."""

from __future__ import annotations

import json
import math
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache

from tests.support.tracking_cases import (
    SECRET,
    Snapshot,
    at_home,
    caught_up,
    database,
    delivered,
    delivery_of,
    end_event,
    events,
    expected,
    journal_of,
    one_trial,
    result_event,
    search_event,
    snapshot,
    trial_event,
)
from trainables.core.errors import ConfigError
from tune_cl.history.journal import Journal
from tune_cl.history.tracking_uri import artifact_location, masked, resolve_tracking_uri
from tune_cl.tracking import layout
from tune_cl.tracking.mlflow_store import RunStore

pytestmark = pytest.mark.slow

__all__ = ["database", "expected"]  # fixtures


class Killed(BaseException):
    """The death of the process: nothing catches it."""


METHODS = (
    "create_experiment",
    "create_run",
    "log_batch",
    "update_run",
    "set_terminated",
    "log_artifact",
    "log_artifacts",
)


def mortal(fatal_call: int) -> type[RunStore]:
    """A store whose process dies right after its n-th writing call took effect, before anything could record it."""

    class Mortal(RunStore):
        def __init__(self, uri: str, artifacts: str | None):
            super().__init__(uri, artifacts)
            self.calls = 0
            for name in METHODS:
                setattr(self.client, name, self.counted(getattr(self.client, name)))

        def counted(self, method: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                self.calls += 1
                answer = method(*args, **options)
                if self.calls == fatal_call:
                    raise Killed
                return answer

            return call

    return Mortal


def test_death_after_any_call_loses_and_repeats_nothing(database: Path, tmp_path: Path) -> None:
    """One search per writing call: the writer dies there, another goes on. One trial is enough for every call."""
    uri, call = resolve_tracking_uri(database), 0
    delivered(journal_of(tmp_path / "whole", one_trial("whole", database)), uri)
    while True:
        call += 1
        space = f"death-{call}"
        journal = journal_of(tmp_path / space, one_trial(space, database))
        try:
            delivered(journal, uri, mortal(call))
            break  # there are fewer calls than that
        except Killed:
            delivered(journal, uri)
        assert snapshot(uri, space) == snapshot(uri, "whole"), f"death {call}"
    assert call > 20


def test_mlflow_keeps_nothing_of_runs_whose_artifacts_it_has(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    store = RunStore(uri, artifact_location(uri, tmp_path))
    run = store.create(store.experiment("artifacts"), "one", {}, 1000)
    (tmp_path / "a.txt").write_text("a")
    store.log_artifact(run, tmp_path / "a.txt", None)
    assert [file.path for file in store.client.list_artifacts(run)] == ["a.txt"]
    store.log_artifact(run, tmp_path / "a.txt", "again")
    assert run not in _artifact_repos_cache


def test_request_that_takes_effect_after_it_was_given_up_leaves_no_run(
    database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    """Every run's first request times out, and creates its run only after the second one did."""

    class Late(RunStore):
        def create(self, *request: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            if request not in self.given_up:
                self.given_up.append(request)
                raise TimeoutError
            run = super().create(*request)
            super().create(*request)
            return run

        given_up: list[Any] = []  # noqa: RUF012 - of one test

    uri = resolve_tracking_uri(database)
    with Journal(journal_of(tmp_path / "pacing", events("late", database)[:-1]).parent) as journal:
        delivery = delivery_of(journal, uri, Late)
        while delivery.pending():
            with suppress(TimeoutError):
                delivery.step()
    assert len(Late.given_up) == 5
    assert snapshot(uri, "late") == {name: run for name, run in expected.items() if " seed 8 " not in name}


def test_events_as_they_come_give_the_same(database: Path, expected: Snapshot, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    told = events("live", database)
    with Journal(tmp_path / "pacing") as journal:
        journal.append(told[0])
        delivery = delivery_of(journal, uri)
        for event in told[1:]:
            journal.append(at_home(event, tmp_path / "pacing"))
            delivery.step()
        while delivery.pending():
            delivery.step()
    assert snapshot(uri, "live") == expected


def test_an_event_that_is_taken_back_is_not_sent(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a write whose line the writer could see: had it been sent, the cursor would be past the next event."""
    uri = resolve_tracking_uri(database)
    with Journal(tmp_path / "pacing") as journal:
        for event in events("taken", database)[:4]:
            journal.append(event)
        delivery = delivery_of(journal, uri)

        def interrupted(_: int) -> None:
            assert b'"result"' in journal.path.read_bytes()
            while delivery.step():
                pass
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "fsync", interrupted)
            journal.append(result_event(0, 1, 0.25) | {"queries": ["q"] * 100})
        journal.append({"event": "interrupted", "time": 1020.0})
        while delivery.pending():
            delivery.step()
    runs = snapshot(uri, "taken")
    assert {run["status"] for run in runs.values()} == {"KILLED"}
    assert not any(run["metrics"] for run in runs.values())


@pytest.mark.parametrize("keep", [None, 0, 5])
def test_older_cursor_or_none_repeats_nothing(
    database: Path, expected: Snapshot, keep: int | None, tmp_path: Path
) -> None:
    uri, space = resolve_tracking_uri(database), f"cursor-{keep}"
    told = events(space, database)
    folder = tmp_path / "pacing"
    if keep is not None:
        delivered(journal_of(folder, told[: keep + 1]), uri)
        shutil.copy(folder / "tracking.json", tmp_path)
        told = told[keep + 1 :]
    journal = journal_of(folder, told)
    delivered(journal, uri)
    if keep is None:
        (folder / "tracking.json").unlink()
    else:
        shutil.copy(tmp_path / "tracking.json", folder)
    delivered(journal, uri)
    assert snapshot(uri, space) == expected


def test_restart_on_a_delivered_journal_sends_nothing(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    journal = journal_of(tmp_path / "pacing", events("restart", database))
    delivered(journal, uri)
    delivered(journal, uri, mortal(1))  # any writing call would raise


def test_database_that_was_replaced_is_filled_again(expected: Snapshot, database: Path, tmp_path: Path) -> None:
    """First by another database at the same address, then by one at another address."""
    journal = journal_of(tmp_path / "pacing", events("replaced", database))
    uri, other = resolve_tracking_uri(tmp_path), resolve_tracking_uri(database)
    for _ in range(2):
        shutil.copy(database / "mlflow.db", tmp_path / "mlflow.db")
        delivered(journal, uri)
        assert snapshot(uri, "replaced") == expected
    delivered(journal, other)
    assert snapshot(other, "replaced") == expected


def test_what_mlflow_refuses_does_not_hold_up_the_rest(
    database: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = resolve_tracking_uri(database)
    told = events("refused", database)
    folder = tmp_path / "pacing"
    first = delivered(journal_of(folder, told[:6]), uri)
    first.store.delete(first.cursor.runs["t0001"])
    gone = {"event": "artifact", "path": str(folder / "gone.html")}
    delivered(journal_of(folder, [*told[6:], gone]), uri)
    runs = snapshot(uri, "refused")
    assert "t0001 root 2 turns anti" not in runs and runs["t0002 kde m=inf"]["status"] == "FINISHED"
    assert "MLflow refuses results of t0001" in caplog.text or "event 'interrupted'" in caplog.text
    assert "gone.html: it is not there any more" in caplog.text


def test_secrets_stay_out_of_the_runs_and_of_the_space_beside_them(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    address = f"http://me:{SECRET}@mlflow.example.org"
    told = [
        search_event("secrets", yaml=f"data: {address}/x\n", tracking_uri=address),
        trial_event(0, {"data.source": f"{address}/data"}),
        end_event(0, "failed", None) | {"reason": f"cannot read {address}/data"},
    ]
    delivered(journal_of(tmp_path / "pacing", told), uri)
    runs = snapshot(uri, "secrets")
    assert SECRET not in str(runs)
    assert runs["t0000 baseline"]["params"] == {"data.source": "http://***@mlflow.example.org/data"}
    assert (tmp_path / "pacing" / "search.yaml").read_text() == "data: http://***@mlflow.example.org/x\n"
    assert runs["t0000 baseline"]["tags"]["tune_cl.reason"] == "cannot read http://***@mlflow.example.org/data"


def test_wide_trials_go_in_several_requests(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    params = {f"key.{number}": number for number in range(250)} | {"long": "x" * 7000}
    results = [result_event(0, iteration, 0.5) for iteration in range(1, 401)]
    delivered(journal_of(tmp_path / "pacing", [search_event("wide"), trial_event(0, params), *results]), uri)
    run = snapshot(uri, "wide")["t0000 baseline"]
    assert len(run["params"]) == 251 and len(run["params"]["long"]) == 6000
    assert run["tags"]["tune_cl.cut_parameters"] == "long"
    assert [step for step, _ in run["metrics"]["train_loss"]] == list(range(1, 401))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@db:5432/x", "postgresql://***@db:5432/x"),
        ("http://u:p@ss@host/a and http://token@host", "http://***@host/a and http://***@host"),
        ("postgresql://db/x?password=p&ssl=on", "postgresql://db/x?password=***&ssl=on"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
        ("mail me@host or http://host/a@b", "mail me@host or http://host/a@b"),
    ],
)
def test_masked_hides_credentials_only(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_tracking_uri_flag_then_environment_then_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert resolve_tracking_uri(Path("runs")) == f"sqlite:///{tmp_path}/runs/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///rel.db?timeout=3")  # other commands may start elsewhere
    assert resolve_tracking_uri(Path("runs")) == f"sqlite:///{tmp_path}/rel.db?timeout=3"
    in_memory = ("sqlite://", "sqlite:///:memory:", "sqlite:///file:runs?mode=memory&uri=true")
    for same in ("sqlite:////abs/rel.db", *in_memory, "postgresql:///runs"):
        assert resolve_tracking_uri(Path("runs"), same) == same
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert resolve_tracking_uri(Path("runs")) == "http://server:5000"
    assert resolve_tracking_uri(Path("runs"), "databricks") == "databricks"
    with pytest.raises(ConfigError, match=r"--tracking-uri: the search's journal names postgresql://db/x, .*; --tr"):
        resolve_tracking_uri(Path("runs"), None, "postgresql://db/x")
    for own in ("http://server:5000", f"sqlite:///{tmp_path}/runs/mlflow.db"):
        assert resolve_tracking_uri(Path("runs"), None, own) == own
    hidden = "postgresql://***@db/x"  # as in a journal: without the secret
    assert resolve_tracking_uri(Path("runs"), None, hidden) == "http://server:5000"
    for server in ("http://server:5000", "https://server", "databricks", "databricks://profile"):
        assert artifact_location(server, Path("runs")) is None, "the server decides"
    with pytest.raises(ConfigError, match=r"--tracking-uri: MLflow knows no 'foo://server'"):
        resolve_tracking_uri(Path("runs"), "foo://server")
    with pytest.raises(ConfigError, match=r"--tracking-uri: './mlruns' is a folder"):
        resolve_tracking_uri(Path("runs"), "./mlruns")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:///x")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI: 'file:///x' is a folder"):
        resolve_tracking_uri(Path("runs"))


@pytest.mark.parametrize("name", ["a?b", "a%20b"])
def test_a_storage_where_mlflow_would_not_find_its_database_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigError, match=r"--storage: MLflow would not find .*; a folder without, or --tracking-uri"):
        resolve_tracking_uri(tmp_path / name)
    assert resolve_tracking_uri(tmp_path / name, "http://server:5000") == "http://server:5000"
    resolve_tracking_uri(tmp_path / "100% a#b")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (None, "null"), (math.inf, "inf"), (0.001, "0.001"), ([1, 2], "[1, 2]"), ("a", "a")],
)
def test_parameter_values_read_as_yaml(value: object, shown: str) -> None:
    assert layout.parameters({"key": value}) == {"key": shown}


def test_prepared_view_lists_the_trials_of_this_search_best_first(database: Path, tmp_path: Path) -> None:
    """Two searches share the experiment; each has a view of its own, whose filter and order MLflow understands."""
    uri = resolve_tracking_uri(database)
    other = [event | ({"storage": "elsewhere", "name": "other"} if event["event"] == "search" else {})
             for event in events("view", database)]  # fmt: skip
    for name, told in (("pacing", events("view", database)), ("other", other)):
        assert caught_up(journal_of(tmp_path / name, told), uri) == 0
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
