"""What a delivery asks of MLflow and what it tells it, event by event: the store is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import Metric

from tests.support.tracking_cases import end_event, result_event, root, search_event, trial_event
from tune_cl.history.journal import Event, Journal
from tune_cl.tracking import delivery as module
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.layout import data_set
from tune_cl.tracking.mlflow_store import RunStore

SEARCH = search_event("memory")


class Memory(RunStore):
    """Keeps runs in memory. `fails`: raises TimeoutError after the next call of this method took effect."""

    def __init__(self) -> None:
        self.runs: dict[str, SimpleNamespace] = {}
        self.checks: list[bool] = []
        self.copied: list[tuple[str, str, str | None]] = []
        self.data: dict[str, dict[str, str]] = {}
        self.looks = 0
        self.fails = ""
        self.spend: Callable[[], None] = lambda: None

    def done(self, method: str) -> None:
        self.spend()
        if self.fails == method:
            self.fails = ""
            raise TimeoutError

    def named(self, start: str) -> SimpleNamespace:
        [run] = [run for run in self.runs.values() if run.name.startswith(start) and not run.deleted]
        return run

    def experiment(self, name: str) -> str:
        return "1"

    def tag_experiment(self, experiment: str, key: str, value: str) -> None:
        pass

    def exists(self, run: str) -> bool:
        return run in self.runs

    def tagged(self, experiment: str, tag: str, value: str) -> list[Any]:
        self.looks += 1
        return [run for run in self.runs.values() if run.data.tags.get(tag) == value and not run.deleted]

    def create(self, experiment: str, name: str, tags: Mapping[str, str], start: int) -> str:
        key = f"r{len(self.runs)}"
        data = SimpleNamespace(tags=dict(tags), params={}, metrics={})
        self.runs[key] = SimpleNamespace(
            info=SimpleNamespace(run_id=key), data=data, name=name, deleted=False, points=[], status="RUNNING"
        )
        self.done("create")
        return key

    def log_params(self, run: str, params: Mapping[str, str]) -> None:
        self.runs[run].data.params.update(params)

    def log_tags(self, run: str, tags: Mapping[str, str]) -> None:
        self.runs[run].data.tags.update(tags)

    def log_data(self, run: str, fields: Mapping[str, str]) -> None:
        self.data[run] = dict(fields)

    def log_metrics(self, run: str, metrics: Sequence[Metric], check: bool) -> bool:
        self.checks.append(check)
        held = self.runs[run]
        known = {(key, step) for key, step, _ in held.points} if check else set()
        missing = [metric for metric in metrics if (metric.key, metric.step) not in known]
        held.points += [(metric.key, metric.step, metric.value) for metric in missing]
        held.data.metrics |= {metric.key: metric.value for metric in missing}
        self.done("log_metrics")
        return len(missing) == len(metrics)

    def log_artifact(self, run: str, path: Path, folder: str | None) -> None:
        if self.fails != "log_artifact":
            self.copied.append((run, str(path), folder))
        self.done("log_artifact")

    def set_status(self, run: str, status: str) -> None:
        self.runs[run].status = status

    def finish(self, run: str, status: str, end: int) -> None:
        self.runs[run].status = status

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
        delivery.step()
    return delivery


def anew(delivery: Delivery, clock: Callable[[], float] = lambda: 0.0) -> Delivery:
    """The next process's delivery of the same journal."""
    return Delivery(delivery.journal, "sqlite://", delivery.store, clock)


def dev(run: SimpleNamespace) -> list[tuple[int, float]]:
    return [(step, value) for key, step, value in run.points if key == "dev_mrr_at_10"]


# -- once, and no question without need ---------------------------------------------------------------------------


def test_a_batch_that_failed_and_is_sent_again_in_parts_is_checked_to_its_end(begun: Delivery, store: Memory) -> None:
    for event in (trial_event(0, {}), trial_event(1, {}), result_event(0, 1, 0.5), result_event(1, 1, 0.5)):
        begun.journal.append(event)
    store.fails = "log_metrics"
    with pytest.raises(TimeoutError):
        begun.step()
    ticks = count(0, module.SECONDS)
    begun.clock = lambda: next(ticks)  # from now on a step has time for one event
    assert begun.step() and begun.pending() == 3
    sent(begun)
    assert [dev(store.named(name)) for name in ("t0000", "t0001")] == [[(1, 0.5)], [(1, 0.5)]]


def test_nothing_is_asked_of_mlflow_about_events_that_were_never_sent(begun: Delivery, store: Memory) -> None:
    looks = store.looks
    sent(begun, trial_event(0, {}), result_event(0, 1, 0.5), trial_event(1, {}), result_event(1, 1, 0.5))
    assert store.looks == looks and store.checks == [False, False]


def test_a_machine_that_is_not_alone_checks_a_run_until_it_lacks_a_whole_batch(begun: Delivery, store: Memory) -> None:
    """What another machine has sent since is not in this journal."""
    begun.journal.complete = False  # pyright: ignore[reportAttributeAccessIssue]
    sent(begun, trial_event(0, {}), result_event(0, 1, 0.5))
    assert store.checks == [False], "its own run has none"
    tags = {"tune_cl.key": layout.run_key(SEARCH, "t0001")}
    theirs = store.create("1", "t0001 theirs", tags, 0)
    store.log_metrics(theirs, [Metric("dev_mrr@10", 0.5, 0, 9), Metric("dev_mrr_at_10", 0.5, 0, 1)], False)
    store.checks.clear()
    sent(begun, trial_event(1, {}), result_event(1, 1, 0.5))
    sent(begun, result_event(1, 2, 0.75))
    sent(begun, result_event(1, 3, 0.5))
    assert store.checks == [True, True, False] and dev(store.runs[theirs]) == [(1, 0.5), (2, 0.75), (3, 0.5)]


def test_a_run_that_is_found_has_the_same_parameters_and_the_most_values(begun: Delivery, store: Memory) -> None:
    """Parameters may be there cut, or not yet."""
    long = "x" * (module.COMPARED + 1)
    held = [{"n": "2", "long": long}, {"n": "1", "long": long[: module.COMPARED]}, {"n": "1"}, {}]
    for number, params in enumerate(held):
        run = store.create("1", f"old {number}", {"tune_cl.key": layout.run_key(SEARCH, "t0001")}, 0)
        store.log_params(run, params)
        points = [Metric(f"m{metric}", 0.5, 0, 1) for metric in range(2 if number == 2 else 1)]
        store.log_metrics(run, points, False)
    begun.journal.append(trial_event(1, {"n": 1, "long": long}))
    again = sent(anew(begun))
    assert [run.deleted for run in store.runs.values() if run.name.startswith("old")] == [True, False, False, False]
    assert store.runs[again.cursor.runs["t0001"]].name == "old 2"


def test_the_end_of_a_search_deletes_runs_that_others_replaced_and_no_more(begun: Delivery, store: Memory) -> None:
    def tags(search: Event, key: str) -> dict[str, str]:
        return layout.child_tags(search, key)

    other = SEARCH | {"storage": "elsewhere"}
    for name, told in (
        ("stray", tags(SEARCH, "t0000")),
        ("unknown", tags(SEARCH, "t0007")),
        ("other", tags(other, "t0000")),
    ):
        store.create("1", name, told, 0)
    stray, unknown, others = list(store.runs.values())[-3:]
    closing = {"event": "search_end", "best": None, "cost": {}, "seconds": 1.0, "time": 1200.0}
    sent(begun, trial_event(0, {}), closing)
    assert (stray.deleted, unknown.deleted, others.deleted) == (True, False, False)


def test_a_step_takes_a_part_of_a_long_journal(begun: Delivery) -> None:
    for number in range(module.CHUNK + 1):
        begun.journal.append({"event": "note", "time": float(number)})
    assert begun.step() and begun.pending() == 1


@pytest.mark.parametrize("owed", [True, False])
def test_progress_is_noted_every_other_second_of_slow_requests(
    owed: bool, begun: Delivery, store: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, saves = [0.0], []
    save = Cursor.save
    monkeypatch.setattr(Cursor, "save", lambda cursor, folder: (saves.append(now[0]), save(cursor, folder)))
    delivery = anew(begun, lambda: now[0])
    if owed:
        for number in range(6):
            (delivery.folder / f"{number}.html").touch()
            delivery.journal.append({"event": "artifact", "path": str(delivery.folder / f"{number}.html")})
    else:
        sent(delivery, *(trial_event(number, {}) for number in range(6)))
        for number in range(6):
            delivery.journal.append(result_event(number, 1, 0.5))
    store.spend = lambda: now.__setitem__(0, now[0] + 1)
    sent(delivery)
    assert [at for at in saves if at] == [2.0, 4.0, 6.0, 6.0]


# -- artifacts ------------------------------------------------------------------------------------------------------


def test_artifacts_are_copied_once_wherever_the_search_lies_now(begun: Delivery, store: Memory, tmp_path: Path) -> None:
    (tmp_path / "pacing" / "trials" / "t0001").mkdir(parents=True)
    moved = {"event": "artifact", "path": f"/earlier/{tmp_path.name}/pacing/trials/t0001"}
    store.copied.clear()
    for event in (moved, moved):
        begun.journal.append(event)
    assert begun.step() and begun.step() and not begun.step()
    assert store.copied == [(begun.cursor.runs["search"], str(tmp_path / "pacing" / "trials" / "t0001"), None)]
    assert load(begun.journal.path, begun.cursor.target).owed == []


def test_an_artifact_that_failed_comes_last_in_the_next_process_too(begun: Delivery, store: Memory) -> None:
    for name in ("a", "b"):
        (begun.folder / name).touch()
        begun.journal.append({"event": "artifact", "path": str(begun.folder / name)})
    begun.step()
    store.fails = "log_artifact"
    with pytest.raises(TimeoutError):
        begun.step()
    assert [Path(path).name for _, path, _ in anew(begun).cursor.owed] == ["b", "a"]


def test_the_space_beside_a_search_stays_as_it_is(tmp_path: Path, store: Memory) -> None:
    with Journal(tmp_path / "pacing") as journal:
        journal.append(SEARCH)
        (tmp_path / "pacing" / "search.yaml").write_text("seed: 7  # mine\n")
        sent(Delivery(journal, "sqlite://", store))
    assert (tmp_path / "pacing" / "search.yaml").read_text() == "seed: 7  # mine\n"


# -- what is told ---------------------------------------------------------------------------------------------------


def test_the_end_of_a_search_tells_the_best_trial_and_the_cost(begun: Delivery, store: Memory) -> None:
    best = {"trial_id": "t0001", "params": root(2), "dev": 0.0, "iteration": 2}
    closing = {"event": "search_end", "best": best, "cost": {"gpu_hours": 2.5}, "seconds": 100.0, "time": 1200.0,
               "checkpoint": str(begun.folder)}  # fmt: skip
    forecast = {"event": "forecast", "hours_forecast": 0.5, "time": 1015.0}
    ended = end_event(1, "failed", {"iteration": 2, "dev": 0.0})
    store.copied.clear()
    sent(begun, forecast, trial_event(1, root(2)), ended, closing)
    run, trial = store.named("pacing"), store.named("t0001")
    assert run.points == trial.points == [("best_dev_mrr_at_10", 2, 0.0)], "a value of zero is one"
    told = {"best_trial": "t0001", "cost.seconds": "100.0", "cost.gpu_hours": "2.5", "forecast.hours_forecast": "0.5"}
    assert run.data.tags.items() >= {f"tune_cl.{key}": value for key, value in told.items()}.items()
    assert store.copied == [(begun.cursor.runs["search"], str(begun.folder), "best_checkpoint")]
    assert (run.status, trial.status) == ("FINISHED", "FAILED")


def test_a_stop_and_the_next_session_are_told_of_the_search_and_of_trials_that_have_not_ended(
    begun: Delivery, store: Memory
) -> None:
    trials = [trial_event(0, {}), trial_event(1, {}), trial_event(1, {})]
    sent(begun, *trials, end_event(0, "completed", None), {"event": "interrupted", "time": 1200.0})
    runs = [store.named(name) for name in ("pacing", "t0000", "t0001")]
    assert [run.status for run in runs] == ["KILLED", "FINISHED", "KILLED"]
    sent(begun, {"event": "session", "number": 2, "time": 1300.0})
    assert [run.status for run in runs] == ["RUNNING", "FINISHED", "RUNNING"] and begun.cursor.open == ["t0001"]


def test_a_confirmation_has_its_parameters_and_its_values_at_step_zero(begun: Delivery, store: Memory) -> None:
    confirmed = {"event": "confirmation", "label": "root 2", "trial": "t0001", "params": root(2), "seed": 8,
                 "metrics": {"test_mrr@10": 0.5, "seconds": 3.0}, "time": 1300.0}  # fmt: skip
    run = store.runs[sent(begun, confirmed).cursor.runs[layout.confirmation_key(confirmed)]]
    assert run.data.params["curriculum.n"] == "2" and ("test_mrr_at_10", 0, 0.5) in run.points
    assert run.data.tags["tune_cl.trial_id"] == "t0001" and run.status == "FINISHED"


def test_the_data_is_named_on_the_search_and_on_its_trials(begun: Delivery, store: Memory) -> None:
    begun.journal.append(trial_event(0, {}))
    sent(begun)
    assert list(store.data) == [begun.cursor.runs["search"], begun.cursor.runs["t0000"]]
    fields = {"name": "docstrings", "digest": "sha-1", "source_type": "local", "source": '{"uri": "docstrings"}'}
    assert all(one == fields for one in store.data.values())


def test_the_source_of_the_data_is_that_of_the_space() -> None:
    of_folder = SEARCH | {"yaml": "data: {source: /data/wikiqa}", "data": {"name": "wikiqa", "digest": "f" * 64}}
    assert data_set(of_folder)["source"] == '{"uri": "/data/wikiqa"}' and len(data_set(of_folder)["digest"]) == 36
