"""What a delivery asks of MLflow and what it tells it, event by event, whatever fails: the store is in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.journal_events import end, result, trial
from tests.support.memory_store import Memory, by_name
from tests.support.tracking_cases import SECRET, delivered, journal_of, promised, recorded, search_event
from tune_cl.history.events import Event
from tune_cl.history.journal import CURSOR, Journal
from tune_cl.tracking import delivery as module
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import load
from tune_cl.tracking.delivery import Delivery

SEARCH, *REST = recorded()
INTERRUPTED = {"event": "interrupted", "time": 1020.0}
CLOSING = {"event": "search_end", "best": None, "cost": {}, "seconds": 1.0, "time": 1200.0}


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def begun(tmp_path: Path, store: Memory) -> Iterator[Delivery]:
    """The delivery of a search whose first event is sent."""
    journal_of(tmp_path / "pacing", [SEARCH])
    with Journal(tmp_path / "pacing") as journal:
        yield sent(Delivery(journal, "sqlite://", store, clock=lambda: 0.0))


def sent(delivery: Delivery, *events: Event) -> Delivery:
    for event in events:
        delivery.journal.append(event)
    while delivery.pending():
        with suppress(TimeoutError):
            delivery.step()
    return delivery


def anew(delivery: Delivery, clock: Callable[[], float] = lambda: 0.0) -> Delivery:
    """The next process's delivery of the same journal."""
    return Delivery(delivery.journal, "sqlite://", delivery.store, clock)


def dev(store: Memory, trial: str) -> list[tuple[int, float]]:
    return store.named(trial).metric("dev_mrr_at_10")


# -- what MLflow shows ----------------------------------------------------------------------------------------------


def test_mlflow_shows_the_promised_names(begun: Delivery, store: Memory) -> None:
    sent(begun, *REST)
    runs, root = by_name(store.runs), "t0001 pacing=root n=2 scoring=turns anti=true"
    assert set(runs) == {"pacing", "t0000 plain, default", root, "t0002 weighting=kde m=inf", "t0003 plain",
                         "t0001 seed 8 root 2"}  # fmt: skip
    parent, trained, confirmed = runs["pacing"], runs[root], runs["t0001 seed 8 root 2"]
    search = {"search": "pacing", "search_id": layout.search_id(SEARCH)}
    assert parent.tags == search | {
        "kind": "search", "key": f"{search['search_id']}/search", "ranker": "knrm", "metric": "mrr@10", "seed": "7",
        "baseline": "t0000", "yaml": SEARCH["yaml"], "versions": "ray 2.60.0, torch 2.13.0", "git_commit": "c0ffee",
        "data": "wikiqa", "data_digest": SEARCH["data"]["digest"], "best_trial": "t0001", "cost.gpu_hours": "2.5",
        "cost.seconds": "100.0", "forecast.gpu_hours": "1.5", "forecast.hours_forecast": "0.5",
        "forecast.iterations_expected": "8", "forecast.seconds_per_iteration": "1.0",
        "forecast.cpu_hours_forecast": "0.5", "forecast.gpu_hours_forecast": "0.0",
    }  # fmt: skip
    assert store.named("pacing").tags["mlflow.source.git.commit"] == "c0ffee"
    description = store.named("pacing").tags["mlflow.note.content"]
    assert "**t0001**, dev mrr@10 0.7500" in description and "| curriculum.pacing | root |" in description
    assert parent.points == {("best_dev_mrr_at_10", 2, "0.75", 1200_000)}
    assert (parent.status, parent.start, parent.end) == ("FINISHED", 1000_000, 1200_000)
    assert parent.files == {"search.yaml", "report.html", "best_checkpoint"}
    assert trained.tags == search | {
        "kind": "trial", "key": f"{search['search_id']}/t0001", "trial_id": "t0001", "seed": "7", "baseline": "false",
        "arm": "curriculum", "twin": "t0003", "machine": "cpu", "outcome": "completed", "parent": "pacing",
    }  # fmt: skip
    assert trained.params == {"curriculum.pacing": "root", "curriculum.n": "2", "curriculum.scoring": "turns",
                              "curriculum.anti": "true"}  # fmt: skip
    assert dev(store, "t0001 pacing") == [(1, 0.5), (2, 0.75), (3, 0.5)], "of iteration 2, the first result"
    assert trained.points > {("train_loss", 2, "0.5", 1012_000), ("best_dev_mrr_at_10", 2, "0.75", 1041_000)}
    assert (trained.status, trained.start, trained.end) == ("FINISHED", 1002_000, 1041_000)
    assert trained.files == {"run.dev.txt"}
    assert runs["t0002 weighting=kde m=inf"].params["curriculum.m"] == "inf"
    failed = runs["t0003 plain"]
    assert failed.status == "FAILED" and failed.tags["reason"] == "it broke"
    assert failed.tags["twin"] == "t0001" and failed.tags["led_by"] == "curriculum"
    named = {"name": "wikiqa", "digest": "0123456789abcdef" * 2 + "0123", "source_type": "local"}
    assert parent.data == trained.data == named | {"source": '{"uri": "/data/wikiqa"}'}
    assert confirmed.tags.items() >= {"kind": "confirmation", "trial_id": "t0001", "parent": "pacing"}.items()
    assert confirmed.params == trained.params and ("test_mrr_at_10", 0, "0.5", 1300_000) in confirmed.points
    assert (confirmed.start, confirmed.end) == (1297_000, 1300_000), "it began as long ago as it took"


def test_a_stop_and_the_next_session_are_told_of_the_search_and_of_trials_that_have_not_ended(
    begun: Delivery, store: Memory
) -> None:
    ended = end(0, "completed") | {"best": {"iteration": 2, "dev": 0.0}}
    sent(begun, trial(0), trial(1), trial(1), ended, INTERRUPTED)
    runs = [store.named(name) for name in ("pacing", "t0000", "t0001")]
    assert [run.status for run in runs] == ["KILLED", "FINISHED", "KILLED"]
    sent(begun, {"event": "session", "number": 2, "time": 1300.0})
    assert [run.status for run in runs] == ["RUNNING", "FINISHED", "RUNNING"] and begun.cursor.open == ["t0001"]
    sent(begun, INTERRUPTED, trial(1))
    assert [run.status for run in runs] == ["KILLED", "FINISHED", "RUNNING"]
    assert runs[1].metric("best_dev_mrr_at_10") == [(2, 0.0)], "a value of zero is one"


def test_a_name_is_no_longer_than_every_server_takes(begun: Delivery, store: Memory) -> None:
    keys = {f"ranker.key{number}": number for number in range(90)}
    sent(begun, trial(1, **keys) | {"chosen": keys})
    name = store.named("t0001").name
    assert name.startswith("t0001 key0=0 key1=1 ") and len(name) == layout.NAME_LENGTH


def test_secrets_stay_out_of_the_runs_and_of_the_space_beside_them(tmp_path: Path, store: Memory) -> None:
    address, hidden = f"http://me:{SECRET}@mlflow.example.org", "http://***@mlflow.example.org"
    search = search_event("memory", yaml=f"data: {address}/x\n", tracking_uri=address)
    failed = end(0, "failed") | {"reason": f"no {address}"}
    journal = journal_of(tmp_path / "pacing", [search, trial(0, **{"data.source": f"{address}/data"}), failed])
    delivered(journal, address, store)
    assert SECRET not in str(store.runs) + (journal.parent / CURSOR).read_text()
    run = store.named("t0000")
    assert run.params == {"data.source": f"{hidden}/data"} and run.tags["tune_cl.reason"] == f"no {hidden}"
    assert (tmp_path / "pacing" / "search.yaml").read_text() == f"data: {hidden}/x\n"


def test_the_space_beside_a_search_is_sent_as_it_is(tmp_path: Path, store: Memory) -> None:
    journal = journal_of(tmp_path / "pacing", [SEARCH])
    space = journal.parent / "search.yaml"
    space.write_text("seed: 7  # mine\n")
    delivered(journal, "sqlite://", store)
    assert space.read_text() == "seed: 7  # mine\n" and store.copied == [space]


# -- whole and once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True])
def test_whichever_request_is_not_answered_has_one_effect(killed: bool, begun: Delivery, store: Memory) -> None:
    """The same process goes on, or the next one, with the cursor that this one left before it began the step."""
    sent(begun, *REST)
    cursor = begun.folder / CURSOR
    for fatal in range(1, len(store.calls) + 1):
        cursor.unlink()
        troubled = Memory()
        last, troubled.fails = Delivery(begun.journal, "sqlite://", troubled), {fatal}
        while last.pending():
            saved = cursor.read_bytes() if cursor.exists() else b""
            try:
                last.step()
            except TimeoutError:
                if killed:
                    cursor.write_bytes(saved)
                    last = anew(last)
        assert by_name(troubled.runs) == by_name(store.runs), f"request {fatal}"


def test_events_as_they_come_give_the_same_as_all_at_once(begun: Delivery, store: Memory, tmp_path: Path) -> None:
    for event in REST:
        sent(begun, event)
    assert by_name(store.runs) == promised(tmp_path)


def test_what_arrived_before_a_failure_is_not_sent_again(begun: Delivery, store: Memory) -> None:
    """And the results of a trial go in one request."""
    for event in (trial(0), trial(1), *(result(number, step, 0.5) for step in (1, 2, 3) for number in (0, 1))):
        begun.journal.append(event)
    store.fails = {"log_metrics"}
    with pytest.raises(TimeoutError):
        begun.step()
    assert begun.pending() == 6 and load(begun.journal.path, begun.cursor.target) == begun.cursor
    store.fails = ()
    store.calls.clear()
    sent(begun)
    assert store.calls == ["log_metrics", "log_metrics"]
    assert dev(store, "t0000") == dev(store, "t0001") == [(1, 0.5), (2, 0.5), (3, 0.5)]


def test_an_older_cursor_or_none_repeats_nothing_and_another_database_is_filled(begun: Delivery, store: Memory) -> None:
    cursor = begun.folder / CURSOR
    before = cursor.read_bytes()
    sent(begun, *REST)
    whole, calls = by_name(store.runs), len(store.calls)
    sent(anew(begun))
    assert len(store.calls) == calls, "the last cursor asks for nothing"
    cursor.write_bytes(before)
    sent(anew(begun))
    cursor.unlink()
    sent(anew(begun))
    another = Memory()
    sent(Delivery(begun.journal, "sqlite://", another))
    assert by_name(store.runs) == by_name(another.runs) == whole


def test_an_event_that_may_still_be_lost_is_not_sent(
    begun: Delivery, store: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the write of a line; and in S3 a machine that is lost before its last lines are in the storage."""
    sent(begun, trial(0))

    def interrupted(_: int) -> None:
        assert b'"result"' in begun.journal.path.read_bytes()
        assert not begun.step()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupted)
        begun.journal.append(result(0, 1, 0.25) | {"queries": ["q"] * 100})
    sent(begun, INTERRUPTED)
    assert not store.named("t0000").points and store.named("t0000").status == "KILLED"
    begun.journal.append(result(0, 1, 0.5))
    monkeypatch.setattr(Journal, "settled", begun.journal.size)
    begun.journal.append(result(0, 2, 0.5))
    assert begun.step() and not begun.step() and begun.pending() == 1 and dev(store, "t0000") == [(1, 0.5)]


def test_a_request_that_takes_effect_after_it_was_given_up_leaves_no_run(begun: Delivery, store: Memory) -> None:
    """The run that it creates is empty, and goes at the end of the search; those of other searches stay."""
    late = {"tune_cl.search_id": layout.search_id(SEARCH), "tune_cl.key": layout.run_key(SEARCH, "t0000")}
    unknown = late | {"tune_cl.key": layout.run_key(SEARCH, "t0007")}
    others = layout.child_tags(SEARCH | {"storage": "elsewhere"}, "t0000")
    sent(begun, trial(0), result(0, 1, 0.5))
    for name, tags in (("late", late), ("unknown", unknown), ("other", others)):
        store.create("", name, tags, 0)
    (begun.folder / CURSOR).unlink()
    again = sent(anew(begun), CLOSING)
    assert store.runs[again.cursor.runs["t0000"]].name == "t0000 plain, default"
    assert [run.name for run in store.deleted.values()] == ["late"]


def test_a_step_takes_a_part_of_a_long_journal_and_two_seconds(begun: Delivery, store: Memory) -> None:
    now, machine = [100.0], {"event": "machine", "trial": "t0000", "text": "cpu", "time": 1020.0}
    last = sent(anew(begun, lambda: now[0]), trial(0))
    store.spend = lambda: now.__setitem__(0, now[0] + 1)
    for _ in range(3):
        begun.journal.append(machine)
    assert last.step() and last.pending() == 1
    for number in range(module.CHUNK):
        begun.journal.append({"event": "note", "trial": "t0000", "text": "", "time": float(number)})
    assert last.step() and last.pending() == 1


@pytest.mark.parametrize("loses", [1, 2, 10**6])
def test_points_that_were_taken_and_not_kept_are_sent_again(
    loses: int, begun: Delivery, store: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Something before the server answered in its place. One that keeps none holds up nothing for ever."""
    store.loses = loses
    sent(begun, trial(0), *(result(0, iteration, iteration / 10) for iteration in (1, 2, 3)))
    assert len(dev(store, "t0000")) < 3
    begun.journal.append(end(0, "completed"))
    for _ in range(10):
        with suppress(ConnectionError):
            begun.step()
    kept = [(1, 0.1), (2, 0.2), (3, 0.3)] if loses < 10 else []
    assert dev(store, "t0000") == kept and store.named("t0000").status == "FINISHED"
    assert ("MLflow lacks 3 points of t0000 that it took" in caplog.text) is (not kept)


def test_what_mlflow_refuses_is_said_and_holds_up_nothing_else(
    begun: Delivery, store: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """A user has deleted a run; an artifact is gone."""
    sent(begun, trial(0), trial(1))
    store.delete(begun.cursor.runs["t0000"])
    gone = {"event": "artifact", "path": str(begun.folder / "gone.html")}
    results = [result(0, 1, 0.5), result(0, 2, 0.5), result(1, 1, 0.5)]
    sent(begun, *results, INTERRUPTED, end(0, "completed"), gone, end(1, "completed"), CLOSING)
    assert [text.partition(":")[0].partition(" /")[0] for text in caplog.messages] == [
        "MLflow refuses results of t0000", "MLflow refuses status of t0000", "MLflow refuses event 'end' of t0000",
        "MLflow refuses",
    ]  # fmt: skip
    assert caplog.messages[-1].endswith("gone.html: it is not there any more") and begun.cursor.open == []
    assert dev(store, "t0001") == [(1, 0.5)] and store.named("pacing").status == "FINISHED"


def test_an_artifact_is_copied_once_and_one_that_fails_comes_after_events_and_the_others(
    begun: Delivery, store: Memory
) -> None:
    """In the next process, too."""
    store.copied.clear()
    paths = [begun.folder / "report.html", begun.folder / "trials" / "t0001"]
    for path in (*paths, *paths):
        begun.journal.append({"event": "artifact", "path": str(path)})
    begun.step()
    store.fails = {"log_artifact"}
    with pytest.raises(TimeoutError):
        begun.step()
    store.fails = ()
    begun.journal.append(trial(0))
    again = anew(begun)
    assert [Path(path) for _, path, _ in again.cursor.artifacts] == paths[::-1]
    assert again.step() and len(again.cursor.artifacts) == 2 and store.named("t0000")
    sent(again)
    assert store.copied == [paths[0], paths[1], paths[0]]
