"""What MLflow holds of a search, in a SQLite store: the promised names, and all of it once, whatever fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.support.journal_events import end, result, trial
from tests.support.tracking_cases import (
    caught_up,
    delivered,
    fresh_database,
    in_mlflow,
    journal_of,
    promised,
    recorded,
    runs_of,
    search_event,
)
from tune_cl.history.journal import Journal
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.tracking import layout
from tune_cl.tracking import store as module
from tune_cl.tracking.mirror import Mirror
from tune_cl.tracking.record import read_record
from tune_cl.tracking.store import connect, create_database
from tune_cl.tracking.writer import MlflowWriter, finish

ROOT = "t0001 pacing=root n=2 scoring=turns anti=true"
CALLS = (
    "get_experiment_by_name", "create_experiment", "search_runs", "create_run", "log_batch", "update_run",
    "set_terminated", "log_artifact", "log_artifacts",
)  # fmt: skip


def faulty(uri: str, fails: Callable[[int, str], str | None], calls: list[str] | None = None) -> MlflowClient:
    """A client that is away in calls chosen by `fails(number, name)`: "before" the work was done, or "after"; their
    names are added to `calls`."""
    client, names = connect(uri), [] if calls is None else calls

    def wrapped(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            names.append(name)
            when = fails(len(names), name)
            if when == "before":
                raise TimeoutError("away")
            answer = method(*arguments, **options)
            if when == "after":
                raise TimeoutError("away")
            return answer

        return call

    for name in CALLS:
        setattr(client, name, wrapped(name, getattr(client, name)))
    return client


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return resolve_tracking_uri(fresh_database(tmp_path))


def test_mlflow_shows_the_promised_names(uri: str, tmp_path: Path) -> None:
    search, *rest = recorded()
    delivered(journal_of(tmp_path / "pacing", [search, *rest]), uri)
    runs = in_mlflow(uri, "quickstart")
    assert set(runs) == {"pacing", "t0000 plain, default", ROOT, "t0002 weighting=kde m=inf", "t0003 plain",
                         "t0001 seed 8 root 2"}  # fmt: skip
    parent, trained, confirmed, failed = runs["pacing"], runs[ROOT], runs["t0001 seed 8 root 2"], runs["t0003 plain"]
    assert parent.tags.items() >= {"kind": "search", "search": "pacing", "seed": "7", "best_trial": "t0001"}.items()
    assert ("best_dev_mrr_at_10", 2, "0.75", 1200_000) in parent.points
    assert (parent.status, parent.start, parent.end) == ("FINISHED", 1000_000, 1200_000)
    assert parent.files == {"search.yaml", "report.html", "best_checkpoint"}
    assert trained.tags == {
        "kind": "trial", "search": "pacing", "search_id": layout.search_id(search), "seed": "7", "baseline": "false",
        "key": f"{layout.search_id(search)}/t0001", "trial_id": "t0001", "arm": "curriculum", "twin": "t0003",
        "machine": "cpu", "outcome": "completed", "parent": "pacing",
    }  # fmt: skip
    assert trained.params == {"curriculum.pacing": "root", "curriculum.n": "2", "curriculum.scoring": "turns",
                              "curriculum.anti": "true"}  # fmt: skip
    assert trained.metric("dev_mrr_at_10") == [(1, 0.5), (2, 0.75), (3, 0.5)]
    assert trained.points > {("train_loss", 2, "0.5", 1012_000), ("best_dev_mrr_at_10", 2, "0.75", 1041_000)}
    assert (trained.status, trained.start, trained.end) == ("FINISHED", 1002_000, 1041_000)
    assert trained.files == {"run.dev.txt"}
    assert runs["t0002 weighting=kde m=inf"].params["curriculum.m"] == "inf"
    assert failed.status == "FAILED" and failed.tags["reason"] == "it broke" and failed.tags["twin"] == "t0001"
    assert confirmed.tags.items() >= {"kind": "confirmation", "trial_id": "t0001", "parent": "pacing"}.items()
    assert confirmed.params == trained.params and ("test_mrr_at_10", 0, "0.5", 1300_000) in confirmed.points
    assert (confirmed.start, confirmed.end) == (1297_000, 1300_000), "it began as long ago as it took"


def sent(mirror: Mirror) -> None:
    """Sends until nothing is left, as the writer does: again after each failure."""
    for _ in range(1000):
        with suppress(TimeoutError):
            if not mirror.step():
                return
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("every", [5, 7])
def test_what_is_not_answered_is_sent_again_and_is_there_once(every: int, when: str, uri: str, tmp_path: Path) -> None:
    """Each few calls fail, fewer of them later, so that it gets further each time."""
    client = faulty(uri, lambda number, _: when if number % (every + number // 20) == 0 else None)
    with Journal(journal_of(tmp_path / "pacing", recorded("faulty")).parent) as journal:
        sent(Mirror(journal, uri, client))
    assert in_mlflow(uri, "faulty") == promised(tmp_path)


@pytest.mark.slow
def test_a_process_that_is_killed_after_any_event_leaves_the_rest_to_the_next(uri: str, tmp_path: Path) -> None:
    """And one that is killed within a step repeats it."""
    for number, event in enumerate(recorded("killed")):
        with Journal(journal_of(tmp_path / "pacing", [event]).parent) as journal:
            killed_at = {number % 4 + 3}
            client = faulty(uri, lambda call, _, at=killed_at: "after" if call in at else None)
            with suppress(TimeoutError):
                Mirror(journal, uri, client).step()
    delivered(tmp_path / "pacing" / "journal.jsonl", uri)
    assert in_mlflow(uri, "killed") == promised(tmp_path)


def test_what_mlflow_has_is_not_sent_again(uri: str, tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "pacing", recorded("again"))
    delivered(journal, uri)
    names: list[str] = []
    delivered(journal, uri, faulty(uri, lambda *_: None, names))
    assert names == ["get_experiment_by_name", "search_runs"]


def test_a_stop_and_the_next_session_are_told_of_the_search_and_of_trials_that_have_not_ended(
    uri: str, tmp_path: Path
) -> None:
    stopped = {"event": "interrupted", "time": 1020.0}
    for events, statuses in (
        ([search_event("stop"), trial(0), trial(1), end(0, "completed"), stopped], ["KILLED", "FINISHED", "KILLED"]),
        ([{"event": "session", "number": 2, "time": 1300.0}], ["RUNNING", "FINISHED", "RUNNING"]),
    ):
        delivered(journal_of(tmp_path / "pacing", events), uri)
        assert [run.status for _, run in sorted(in_mlflow(uri, "stop").items())] == statuses


def test_a_run_that_the_user_deletes_stays_deleted_and_stops_no_other(uri: str, tmp_path: Path) -> None:
    client = MlflowClient(tracking_uri=uri)
    delivered(journal_of(tmp_path / "pacing", [search_event("deleted"), trial(0), trial(1)]), uri)
    [deleted] = [run for run in runs_of(client, "deleted") if run.info.run_name.startswith("t0000")]
    client.delete_run(deleted.info.run_id)
    later = [result(0, 1, 0.5), result(1, 1, 0.5), end(0, "baseline"), end(1, "completed")]
    delivered(journal_of(tmp_path / "pacing", later), uri)
    runs = in_mlflow(uri, "deleted")
    assert [name[:5] for name in sorted(runs)] == ["pacin", "t0001"]
    assert runs[sorted(runs)[1]].metric("dev_mrr_at_10") == [(1, 0.5)]


def test_what_mlflow_refuses_is_said_once_and_the_rest_arrives(
    uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = trial(0, n=2) | {"time": 2.5}  # MLflow lets no parameter change
    journal = journal_of(tmp_path / "pacing", [search_event("refused"), trial(0, n=1), other, result(0, 1, 0.5)])
    calls: list[str] = []
    failing = faulty(uri, lambda number, _: "before" if number == 9 else None, calls)
    with Journal(journal.parent) as opened:
        sent(Mirror(opened, uri, failing))
    assert len(calls) > 12
    assert in_mlflow(uri, "refused")["t0000 plain, default"].metric("dev_mrr_at_10") == [(1, 0.5)]
    [message] = caplog.messages
    assert message.startswith("MLflow refuses event 'trial' of t0000: ")


# -- the thread ------------------------------------------------------------------------------------------------------


def test_the_thread_sends_all_and_leaves_a_record_without_passwords(uri: str, tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "pacing", recorded("thread"))
    assert caught_up(journal, uri) == 0
    record = read_record(journal.parent, uri)
    assert record is not None and record.sent == journal.stat().st_size
    assert MlflowClient(tracking_uri=uri).get_run(record.run_id).info.run_name == "pacing"
    assert read_record(journal.parent, "sqlite:///elsewhere.db") is None
    (journal.parent / "mlflow.json").write_text(
        record.model_copy(update={"tracking_uri": "http://***@h"}).model_dump_json()
    )
    assert read_record(journal.parent, "http://me:secret@h") is not None


def test_an_outage_is_said_once_and_over_when_all_is_sent(
    uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    away = {"create_run"}
    with Journal(journal_of(tmp_path / "pacing", [search_event("outage"), trial(0)]).parent) as journal:
        writer = MlflowWriter(journal, "http://me:secret@here")
        writer._mirror = Mirror(journal, uri, faulty(uri, lambda _, name: "before" if name in away else None))
        assert not writer.attempt() and not writer.attempt() and writer.trouble == "TimeoutError: away"
        finish(writer, "tune-cl resume pacing", timeout=0.2)
        unsent = "2 events have not reached MLflow (TimeoutError: away); send them later with: tune-cl resume pacing\n"
        assert capfd.readouterr().err == unsent
        away.clear()
        writer.join(10)
        assert writer.attempt() or writer.all_sent()
    assert len(in_mlflow(uri, "outage")) == 2
    assert caplog.messages[0] == "tracking waits for MLflow at http://***@here: TimeoutError: away"
    assert len(caplog.messages) <= 2


@pytest.mark.slow
def test_a_database_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill or a full disk may come, after which MLflow would not go on with half of its tables."""
    uri = f"sqlite:///{tmp_path}/storage/mlflow.db?timeout=3"

    def half(tracking_uri: str) -> None:
        Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half")
        raise OSError("cut short")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="cut short"):
        patch.setattr(module, "MlflowClient", half)
        create_database(uri)
    client = connect(uri)
    made = module.experiment_id(client, "pacing", None)
    assert module.experiment_id(connect(uri), "pacing", None) == made
    assert {path.name for path in (tmp_path / "storage").iterdir()} == {"mlflow.db", ".mlflow.db.lock"}
