"""What a delivery asks of MLflow and what it tells it, event by event, whatever fails: the store is in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import Metric

from tests.support.tracking_cases import (
    MORE_OF_FORECAST,
    SECRET,
    end_event,
    result_event,
    root,
    search_event,
    trial_event,
)
from tune_cl.history.events import Event
from tune_cl.history.journal import CURSOR, Journal
from tune_cl.tracking import delivery as module
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import load
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.layout import data_set
from tune_cl.tracking.mlflow_store import Refused, RunStore

SEARCH = search_event("memory")
CLOSING = {"event": "search_end", "best": None, "cost": {}, "seconds": 1.0, "time": 1200.0}


class TimeIsUp(BaseException):
    """The end of a process: nothing catches it."""


class Memory(RunStore):
    """Keeps runs in memory, and one of identical points, as MLflow's stores do. `calls`: the methods that were called.
    The call of the number or method `fails` takes effect, and raises TimeoutError. `loses`: how many of the next points
    that it takes it does not keep."""

    remote = True
    loses = 0

    def __init__(self) -> None:
        self.runs: dict[str, SimpleNamespace] = {}
        self.calls: list[str] = []
        self.copied: list[tuple[str, str, str | None]] = []
        self.fails: str | int = ""
        self.spend: Callable[[], None] = lambda: None

    def done(self, method: str) -> None:
        self.calls.append(method)
        self.spend()
        if self.fails in (method, len(self.calls)):
            self.fails = ""
            raise TimeoutError

    def named(self, start: str) -> SimpleNamespace:
        [run] = [run for run in self.runs.values() if run.name.startswith(start) and not run.deleted]
        return run

    def experiment(self, name: str) -> str:
        self.done("experiment")
        return f"of {name}"

    def tag_experiment(self, experiment: str, key: str, value: str) -> None:
        self.view = (key, value)
        self.done("tag_experiment")

    def exists(self, run: str) -> bool:
        return run in self.runs

    def tagged(self, experiment: str, tag: str, value: str) -> list[Any]:
        assert experiment == "of memory"
        return [run for run in self.runs.values() if run.data.tags.get(tag) == value and not run.deleted]

    def create(self, experiment: str, name: str, tags: Mapping[str, str], start: int) -> str:
        assert experiment == "of memory"
        key = f"r{len(self.runs)}"
        data = SimpleNamespace(tags=dict(tags), params={}, metrics={})
        self.runs[key] = SimpleNamespace(
            info=SimpleNamespace(run_id=key), data=data, name=name, deleted=False, points=[], status="RUNNING",
            times=[start], named=None,
        )  # fmt: skip
        self.done("create")
        return key

    def log_params(self, run: str, params: Mapping[str, str]) -> None:
        self.runs[run].data.params.update(params)
        self.done("log_params")

    def log_tags(self, run: str, tags: Mapping[str, str]) -> None:
        self.runs[run].data.tags.update(tags)
        self.done("log_tags")

    def log_data(self, run: str, fields: Mapping[str, str]) -> None:
        self.runs[run].named = dict(fields)
        self.done("log_data")

    def log_metrics(self, run: str, metrics: Sequence[Metric]) -> None:
        if self.runs[run].deleted:
            raise Refused("it is deleted")
        for metric in metrics:
            point = (metric.key, metric.step, metric.value, metric.timestamp)
            self.loses -= 1
            if point not in self.runs[run].points and self.loses < 0:
                self.runs[run].points.append(point)
            self.runs[run].data.metrics[metric.key] = metric.value
        self.done("log_metrics")

    def steps(self, run: str, metric: str) -> set[int]:
        return {step for name, step, *_ in self.runs[run].points if name == metric}

    def log_artifact(self, run: str, path: Path, folder: str | None) -> None:
        self.copied.append((run, str(path), folder))
        self.done("log_artifact")

    def set_status(self, run: str, status: str) -> None:
        self.runs[run].status = status
        self.done("set_status")

    def finish(self, run: str, status: str, end: int) -> None:
        self.runs[run].status = status
        self.runs[run].times[1:] = [end]
        self.done("finish")

    def delete(self, run: str) -> None:
        self.runs[run].deleted = True


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def begun(tmp_path: Path, store: Memory) -> Iterator[Delivery]:
    """The delivery of a search whose first event is sent."""
    with Journal(tmp_path / "pacing") as journal:
        journal.append(SEARCH)
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


def dev(run: SimpleNamespace) -> list[tuple[int, float]]:
    return [(step, value) for key, step, value, _ in run.points if key == "dev_mrr_at_10"]


def whole_search(folder: Path, trials: int) -> list[Event]:
    """Trials side by side, each of which leaves a file, an interruption, and a session that repeats an iteration."""
    (folder / "run.txt").touch()
    best = {"iteration": 1, "dev": 0.5}
    begins = [trial_event(number, {"curriculum.n": number}) for number in range(trials)]
    results = [result_event(number, iteration, 0.5) for iteration in (1, 2) for number in range(trials)]
    again = [{"event": "interrupted", "time": 1020.0}, {"event": "session", "number": 2, "time": 1030.0}, begins[1]]
    again += [result_event(1, 2, 0.9) | {"time": 1031.0}, result_event(1, 3, 0.75)]
    ends = [end_event(number, "completed", best, str(folder / "run.txt")) for number in range(trials)]
    return [*begins, *results, *again, *ends, CLOSING | {"best": best | {"trial_id": "t0001", "params": {}}}]


def told(store: Memory) -> dict[str, Any]:
    """All that MLflow shows; fails where a run or a step of a metric is there twice."""
    runs = [run for run in store.runs.values() if not run.deleted]
    assert len({run.name for run in runs}) == len(runs)
    for run in runs:
        steps = [(key, step) for key, step, _, _ in run.points]
        assert len(set(steps)) == len(steps)
    shown = {run.name: (vars(run.data), sorted(run.points), run.status, run.times, run.named) for run in runs}
    return shown | {"copied": {(store.runs[run].name, path, folder) for run, path, folder in store.copied}}


def test_both_of_a_pair_name_each_other(begun: Delivery, store: Memory) -> None:
    own, other = {"twins": ["t0001"], "led_by": "plain"}, {"twin": "t0002", "led_by": "curriculum"}
    told = [{}, {"led_by": "plain"}, own, other]
    sent(begun, *(trial_event(number, {}) | pair for number, pair in enumerate(told)))
    tags = [store.named(f"t000{number}").data.tags for number in range(4)]
    assert [tag.get("tune_cl.twin") for tag in tags] == [None, "t0002", "t0001", "t0002"]
    assert [tag.get("tune_cl.led_by") for tag in tags] == [None, "plain", "plain", "curriculum"]


# -- whole and once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [False, True])
def test_whichever_request_is_not_answered_has_one_effect(killed: bool, begun: Delivery, store: Memory) -> None:
    """The same process goes on, or the next one, with the cursor that this one left before it began the step."""
    sent(begun, *whole_search(begun.folder, 3))
    cursor = begun.folder / CURSOR
    for fatal in range(1, len(store.calls) + 1):
        cursor.unlink()
        troubled = Memory()
        last, troubled.fails = Delivery(begun.journal, "sqlite://", troubled), fatal
        while last.pending():
            saved = cursor.read_bytes() if cursor.exists() else b""
            try:
                last.step()
            except TimeoutError:
                if killed:
                    cursor.write_bytes(saved)
                    last = anew(last)
        assert told(troubled) == told(store), f"request {fatal}"


def test_a_slow_mlflow_is_told_in_as_many_sessions_as_it_takes(begun: Delivery, store: Memory) -> None:
    """Each process has time for fifteen requests of a second, of hundreds."""
    now, end, untroubled = [0.0], [0.0], Memory()
    sent(Delivery(begun.journal, "sqlite://other", untroubled), *whole_search(begun.folder, 12))
    (begun.folder / CURSOR).unlink()

    def second() -> None:
        now[0] += 1
        if now[0] > end[0]:
            raise TimeIsUp

    store.spend = second
    for _ in range(30):
        last, end[0] = anew(begun, lambda: now[0]), now[0] + 15
        with suppress(TimeIsUp):
            while last.step():
                saved = (begun.folder / CURSOR).read_bytes()
            break
        (begun.folder / CURSOR).write_bytes(saved)
    assert told(store) == told(untroubled)


def test_what_arrived_before_a_failure_is_not_sent_again(begun: Delivery, store: Memory) -> None:
    for event in (trial_event(0, {}), trial_event(1, {}), result_event(0, 1, 0.5), result_event(1, 1, 0.5)):
        begun.journal.append(event)
    store.fails = "log_metrics"
    with pytest.raises(TimeoutError):
        begun.step()
    assert begun.pending() == 2 and load(begun.journal.path, begun.cursor.target) == begun.cursor
    store.calls.clear()
    sent(begun)
    assert store.calls == ["log_metrics", "log_metrics"]
    assert [dev(store.named(name)) for name in ("t0000", "t0001")] == [[(1, 0.5)], [(1, 0.5)]]


def test_an_older_cursor_or_none_repeats_nothing_and_the_last_one_asks_for_nothing(
    begun: Delivery, store: Memory
) -> None:
    before = (begun.folder / CURSOR).read_bytes()
    sent(begun, *whole_search(begun.folder, 2))
    whole, calls = told(store), len(store.calls)
    sent(anew(begun))
    assert len(store.calls) == calls
    (begun.folder / CURSOR).write_bytes(before)
    sent(anew(begun))
    (begun.folder / CURSOR).unlink()
    sent(anew(begun))
    assert told(store) == whole


def test_another_database_at_the_old_address_is_filled(begun: Delivery, store: Memory) -> None:
    sent(begun, *whole_search(begun.folder, 2))
    other = Memory()
    sent(Delivery(begun.journal, "sqlite://", other))
    assert told(other) == told(store)


def test_of_an_iteration_that_is_reported_twice_the_first_counts(begun: Delivery, store: Memory) -> None:
    """In one step or in two."""
    first, again = result_event(0, 1, 0.25), result_event(0, 1, 0.75) | {"time": 1031.0}
    sent(begun, trial_event(0, {}), first, again, result_event(0, 2, 0.5))
    sent(begun, again, result_event(0, 2, 0.75) | {"time": 1032.0}, result_event(0, 3, 0.5))
    assert dev(store.named("t0000")) == [(1, 0.25), (2, 0.5), (3, 0.5)]


def test_a_trial_s_results_of_a_step_go_in_one_request(begun: Delivery, store: Memory) -> None:
    results = [result_event(number, iteration, 0.5) for iteration in range(1, 10) for number in (0, 1)]
    sent(begun, trial_event(0, {}), trial_event(1, {}), *results)
    assert [store.calls.count(method) for method in ("experiment", "log_metrics")] == [1, 2]
    assert dev(store.named("t0001")) == [(at, 0.5) for at in range(1, 10)]


def test_a_result_has_all_its_values_at_its_iteration_and_time(begun: Delivery, store: Memory) -> None:
    sent(begun, trial_event(0, {}), result_event(0, 2, 0.25))
    assert set(store.named("t0000").points) == {
        ("dev_mrr_at_10", 2, 0.25, 1012_000), ("train_loss", 2, 0.5, 1012_000), ("seconds", 2, 1.0, 1012_000),
        ("available_share", 2, 0.5, 1012_000), ("mean_weight", 2, 1.0, 1012_000),
    }  # fmt: skip


def test_an_event_that_may_still_be_lost_is_not_sent(
    begun: Delivery, store: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the write of a line; and in S3 a machine that is lost before its last lines are in the storage."""
    sent(begun, trial_event(0, {}))

    def interrupted(_: int) -> None:
        assert b'"result"' in begun.journal.path.read_bytes()
        assert not begun.step()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupted)
        begun.journal.append(result_event(0, 1, 0.25) | {"queries": ["q"] * 100})
    sent(begun, {"event": "interrupted", "time": 1020.0})
    assert not store.named("t0000").points and store.named("t0000").status == "KILLED"
    begun.journal.append(result_event(0, 1, 0.5))
    monkeypatch.setattr(Journal, "settled", begun.journal.size)
    begun.journal.append(result_event(0, 2, 0.5))
    assert begun.step() and not begun.step() and begun.pending() == 1 and dev(store.named("t0000")) == [(1, 0.5)]


def test_a_request_that_takes_effect_after_it_was_given_up_leaves_no_run(begun: Delivery, store: Memory) -> None:
    """The run that it creates is empty, and goes at the end of the search; those of other searches stay."""
    late = {"tune_cl.search_id": layout.search_id(SEARCH), "tune_cl.key": layout.run_key(SEARCH, "t0000")}
    others = SEARCH | {"storage": "elsewhere"}
    sent(begun, trial_event(0, {}), result_event(0, 1, 0.5))
    for name, tags in (
        ("t0000 late", late),
        ("unknown", late | {"tune_cl.key": layout.run_key(SEARCH, "t0007")}),
        ("other", layout.child_tags(others, "t0000")),
    ):
        store.create("of memory", name, tags, 0)
    (begun.folder / CURSOR).unlink()
    again = sent(anew(begun), CLOSING)
    assert store.runs[again.cursor.runs["t0000"]].name == "t0000 plain, default"
    assert [run.name for run in store.runs.values() if run.deleted] == ["t0000 late"]


def test_a_step_takes_a_part_of_a_long_journal_and_two_seconds(begun: Delivery, store: Memory) -> None:
    now, machine = [100.0], {"event": "machine", "trial": "t0000", "text": "cpu", "time": 1020.0}
    last = sent(anew(begun, lambda: now[0]), trial_event(0, {}))
    store.spend = lambda: now.__setitem__(0, now[0] + 1)
    for _ in range(3):
        begun.journal.append(machine)
    assert last.step() and last.pending() == 1 and store.named("t0000").data.tags["tune_cl.machine"] == "cpu"
    for number in range(module.CHUNK):
        begun.journal.append({"event": "note", "trial": "t0000", "text": "", "time": float(number)})
    assert last.step() and last.pending() == 1


@pytest.mark.parametrize("loses", [1, 2, 10**6])
def test_points_that_were_taken_and_not_kept_are_sent_again(
    loses: int, begun: Delivery, store: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Something before the server answered in its place. One that keeps none holds up nothing for ever."""
    sent(begun, trial_event(0, {}))
    results = [result_event(0, iteration, iteration / 10) for iteration in (1, 2, 3)]
    store.loses = loses
    sent(begun, *results)
    assert len(dev(store.named("t0000"))) < 3
    begun.journal.append(end_event(0, "completed", {"iteration": 3, "dev": 0.3}))
    for _ in range(10):
        with suppress(ConnectionError):
            begun.step()
    kept = [(1, 0.1), (2, 0.2), (3, 0.3)] if loses < 10 else []
    assert sorted(dev(store.named("t0000"))) == kept and store.named("t0000").status == "FINISHED"
    assert ("MLflow lacks 3 points of t0000 that it took" in caplog.text) is (not kept)


def test_what_mlflow_refuses_is_said_and_holds_up_nothing_else(
    begun: Delivery, store: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """A user has deleted a run; an artifact is gone."""
    sent(begun, trial_event(0, {}), trial_event(1, {}))
    store.named("t0000").deleted = True
    best, gone = {"iteration": 1, "dev": 0.5}, {"event": "artifact", "path": str(begun.folder / "gone.html")}
    results = [result_event(0, 1, 0.5), result_event(0, 2, 0.5), result_event(1, 1, 0.5)]
    sent(begun, *results, end_event(0, "completed", best), gone, end_event(1, "completed", best), CLOSING)
    assert [text.partition(":")[0].partition(" /")[0] for text in caplog.messages] == [
        "MLflow refuses results of t0000", "MLflow refuses event 'end' of t0000", "MLflow refuses"
    ]  # fmt: skip
    assert caplog.messages[-1].endswith("gone.html: it is not there any more") and begun.cursor.open == []
    assert dev(store.named("t0001")) == [(1, 0.5)] and store.named("pacing").status == "FINISHED"


# -- artifacts ------------------------------------------------------------------------------------------------------


def test_artifacts_are_copied_once_wherever_the_search_lies_now(begun: Delivery, store: Memory, tmp_path: Path) -> None:
    (tmp_path / "pacing" / "trials" / "t0001").mkdir(parents=True)
    moved = {"event": "artifact", "path": f"/earlier/{tmp_path.name}/pacing/trials/t0001"}
    store.copied.clear()
    for event in (moved, moved):
        begun.journal.append(event)
    assert begun.step() and begun.step() and not begun.step()
    assert store.copied == [(begun.cursor.runs["search"], str(tmp_path / "pacing" / "trials" / "t0001"), None)]
    assert load(begun.journal.path, begun.cursor.target).artifacts == []


def test_an_artifact_that_failed_comes_after_events_and_the_others_in_the_next_process_too(
    begun: Delivery, store: Memory
) -> None:
    for name in ("a", "b"):
        (begun.folder / name).touch()
        begun.journal.append({"event": "artifact", "path": str(begun.folder / name)})
    begun.step()
    store.fails = "log_artifact"
    with pytest.raises(TimeoutError):
        begun.step()
    begun.journal.append(trial_event(0, {}))
    again = anew(begun)
    assert [Path(path).name for _, path, _ in again.cursor.artifacts] == ["b", "a"]
    assert again.step() and len(again.cursor.artifacts) == 2 and store.named("t0000")


def test_the_space_beside_a_search_is_sent_as_it_is(tmp_path: Path, store: Memory) -> None:
    space = tmp_path / "pacing" / "search.yaml"
    with Journal(tmp_path / "pacing") as journal:
        journal.append(SEARCH)
        space.write_text("seed: 7  # mine\n")
        sent(Delivery(journal, "sqlite://", store))
    assert space.read_text() == "seed: 7  # mine\n" and store.copied == [("r0", str(space), None)]
    assert store.view == layout.view(SEARCH)


# -- what is told ---------------------------------------------------------------------------------------------------


def test_the_end_of_a_search_tells_the_best_trial_and_the_cost(begun: Delivery, store: Memory) -> None:
    best = {"trial_id": "t0001", "params": root(2), "dev": 0.0, "iteration": 2}
    closing = {"event": "search_end", "best": best, "cost": {"gpu_hours": 2.5}, "seconds": 100.0, "time": 1200.0,
               "checkpoint": str(begun.folder)}  # fmt: skip
    forecast = {"event": "forecast", "hours_forecast": 0.5, **MORE_OF_FORECAST, "time": 1015.0}
    ended = end_event(1, "failed", {"iteration": 2, "dev": 0.0})
    store.copied.clear()
    sent(begun, forecast, trial_event(1, root(2)), ended, closing)
    run, trial = store.named("pacing"), store.named("t0001")
    assert run.points == [("best_dev_mrr_at_10", 2, 0.0, 1200_000)], "a value of zero is one"
    assert trial.points == [("best_dev_mrr_at_10", 2, 0.0, 1100_000)]
    told = {"best_trial": "t0001", "cost.seconds": "100.0", "cost.gpu_hours": "2.5", "forecast.hours_forecast": "0.5"}
    assert run.data.tags.items() >= {f"tune_cl.{key}": value for key, value in told.items()}.items()
    assert store.copied == [(begun.cursor.runs["search"], str(begun.folder), "best_checkpoint")]
    assert (run.status, run.times, trial.status, trial.times) == (
        "FINISHED", [1000_000, 1200_000], "FAILED", [1002_000, 1100_000]
    )  # fmt: skip


def test_a_stop_and_the_next_session_are_told_of_the_search_and_of_trials_that_have_not_ended(
    begun: Delivery, store: Memory
) -> None:
    trials = [trial_event(0, {}), trial_event(1, {}), trial_event(1, {})]
    sent(begun, *trials, end_event(0, "completed", None), {"event": "interrupted", "time": 1200.0})
    runs = [store.named(name) for name in ("pacing", "t0000", "t0001")]
    assert [run.status for run in runs] == ["KILLED", "FINISHED", "KILLED"]
    sent(begun, {"event": "session", "number": 2, "time": 1300.0})
    assert [run.status for run in runs] == ["RUNNING", "FINISHED", "RUNNING"] and begun.cursor.open == ["t0001"]
    sent(begun, {"event": "interrupted", "time": 1400.0}, trial_event(1, {}))
    assert [run.status for run in runs] == ["KILLED", "FINISHED", "RUNNING"]


def test_a_confirmation_has_its_parameters_and_its_values_at_step_zero(begun: Delivery, store: Memory) -> None:
    confirmed = {"event": "confirmation", "label": "root 2", "trial": "t0001", "params": root(2), "seed": 8,
                 "metrics": {"test_mrr@10": 0.5, "seconds": 3.0}, "time": 1300.0}  # fmt: skip
    run = store.runs[sent(begun, confirmed).cursor.runs[layout.confirmation_key(confirmed)]]
    assert run.data.params["curriculum.n"] == "2" and ("test_mrr_at_10", 0, 0.5, 1300_000) in run.points
    assert run.data.tags["tune_cl.trial_id"] == "t0001" and run.data.tags["mlflow.parentRunId"] == "r0"
    assert (run.status, run.times) == ("FINISHED", [1297_000, 1300_000]), "it began as long ago as it took"


def test_a_look_is_a_point_of_the_search_at_as_many_steps_as_seeds(begun: Delivery, store: Memory) -> None:
    look = {"event": "look", "split": "test", "seeds": 3, "difference": 0.5, "p_new": 0.25, "boundary": 0.125}
    sent(begun, look | {"max_seeds": 9, "label": "root", "decision": "continue", "time": 1300.0})
    assert {point[:3] for point in store.named("pacing").points} == {
        ("confirm_test_difference", 3, 0.5), ("confirm_test_p_new", 3, 0.25), ("confirm_test_boundary", 3, 0.125)
    }  # fmt: skip


def test_secrets_stay_out_of_the_runs_and_of_the_space_beside_them(tmp_path: Path, store: Memory) -> None:
    address, hidden = f"http://me:{SECRET}@mlflow.example.org", "http://***@mlflow.example.org"
    told = [
        trial_event(0, {"data.source": f"{address}/data"}),
        end_event(0, "failed", None) | {"reason": f"no {address}"},
    ]
    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("memory", yaml=f"data: {address}/x\n", tracking_uri=address))
        sent(Delivery(journal, address, store), *told)
        assert SECRET not in str(store.runs) + (journal.path.parent / CURSOR).read_text()
    run = store.named("t0000")
    assert run.data.params == {"data.source": f"{hidden}/data"} and run.data.tags["tune_cl.reason"] == f"no {hidden}"
    assert (tmp_path / "pacing" / "search.yaml").read_text() == f"data: {hidden}/x\n"


def test_a_name_is_no_longer_than_every_server_takes(begun: Delivery, store: Memory) -> None:
    keys = {f"ranker.key{number}": number for number in range(90)}
    sent(begun, trial_event(1, keys) | {"chosen": keys})
    name = store.named("t0001").name
    assert name.startswith("t0001 key0=0 key1=1 ") and len(name) == layout.NAME_LENGTH


def test_the_data_is_named_on_the_search_and_on_its_trials(begun: Delivery, store: Memory) -> None:
    sent(begun, trial_event(0, {}))
    fields = {"name": "docstrings", "digest": "sha-1", "source_type": "local", "source": '{"uri": "docstrings"}'}
    assert [run.named for run in store.runs.values()] == [fields, fields]


def test_the_source_of_the_data_is_that_of_the_space() -> None:
    of_folder = SEARCH | {"yaml": "data: {source: /data/wikiqa}", "data": {"name": "wikiqa", "digest": "f" * 64}}
    assert data_set(of_folder)["source"] == '{"uri": "/data/wikiqa"}' and len(data_set(of_folder)["digest"]) == 36
