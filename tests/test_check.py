"""`tune-cl check`: what a search will do, and which of it is measured on this machine."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.console import Console
from tests.support.device_state import device_state
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig
from trainables.training import device
from tune_cl.api.check import SpaceCheck
from tune_cl.cli.texts import check_text
from tune_cl.ray import concurrency

OPENED = """
data: data
curriculum: {pacing: {choice: [linear, root]}, n: {choice: [2, 5], when: {curriculum.pacing: root}}}
ranker.name: {choice: [conv_knrm, knrm]}
training: {lr: {loguniform: [1e-4, 1e-2]}, max_iterations: 20}
search: {searcher: tpe, trials: 9}
"""
SECONDS = {"conv_knrm": 1.0, "knrm": 3.0, "bert": 50.0}
__all__ = ["device_state"]  # a fixture


class Check:
    """Calls `check`, and has the trainings that it measures: a ranker has its own pace, and time grows with the batch
    size."""

    def __init__(self, console: Console, monkeypatch: pytest.MonkeyPatch):
        self.console, self.monkeypatch = console, monkeypatch
        self.measured: list[TrainingConfig] = []
        self.on: list[tuple[str, int]] = []  # devices and threads

    def measure(self, run: TrainingConfig, prepared: object, threads: int, device: str) -> float:
        self.measured.append(run)
        self.on.append((device, threads))
        return SECONDS[run.ranker.name] * run.training.batch_size / 16

    def machine(self, cpu: int, gpu: int = 0, cuda: bool = True) -> None:
        self.monkeypatch.setattr(concurrency, "this_machine", lambda: {"CPU": cpu, "GPU": gpu})
        kind = "cuda" if cuda and gpu > 0 else "cpu"
        self.monkeypatch.setattr(torch.cuda, "is_available", lambda: kind == "cuda")
        self.monkeypatch.setattr(device, "best_device", lambda: torch.device(kind))

    def __call__(self, *options: str) -> dict[str, Any]:
        return self.console.document("check space.yaml", *(f"--set={option}" for option in options))

    def notes(self, options: str) -> list[str]:
        return self.console.notes(f"check space.yaml {options}")


@pytest.fixture
def check(console: Console, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Of a space of two rankers, on a machine of two cores."""
    made = Check(console, monkeypatch)
    made.machine(2)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("trainables.training.factory.seconds_per_iteration", made.measure)
    (console.folder / "space.yaml").write_text(OPENED)
    write_trec_folder(tiny_data(queries=8, candidates=4, turns=1), console.folder / "data")
    return made


def rows(told: dict[str, Any]) -> dict[str, str]:
    """What `check` prints, by the row's name."""
    shown = check_text(SpaceCheck.model_validate(told)).splitlines()[2:]
    lines = [re.split(r"  +", line.strip(), maxsplit=1) for line in shown]
    return {line[0]: line[-1] for line in lines}


# -- places and what is measured -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "gpu", "most", "expected"),
    [(3, 0, None, 2), (1, 0, 3, 3), (1, 0.4, None, 4), (16, 0, None, 1)],  # the last is more than there is
)
def test_trials_at_a_time_are_as_many_as_both_kinds_of_places_hold(
    cpu: float, gpu: float, most: int | None, expected: int, check: Check
) -> None:
    check.machine(8, 2)
    given = {"resources.cpu": cpu, "resources.gpu": gpu, "max_concurrent": most or "null"}
    assert check(*(f"search.{key}={value}" for key, value in given.items()))["at_a_time"] == expected


def test_a_step_is_measured_where_trials_train(check: Check) -> None:
    check.machine(4, 1)
    one, two = (check(f"search.resources.gpu={gpu}", "ranker=knrm") for gpu in (0, 0.5))
    assert two["hours_at_most"] == pytest.approx(2 * one["hours_at_most"]), "4 trials at a time, and 2"
    check.machine(4, 1, cuda=False)
    assert "GPU" in check.notes("--set search.resources.gpu=1 --set ranker=knrm")[0]
    assert [device for device, _ in check.on] == ["cpu", "cuda", "cpu"]


# -- the cost ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "iterations", "seconds"),
    [
        ([], 180, 60),
        (["search.hours=0.01"], 108, 36),
        (["search.hours=1", "search.resources.gpu=0.75"], 180, 60),
    ],
)
def test_hours_bound_the_cost(
    options: list[str], iterations: int, seconds: float, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SECONDS, "knrm", 1.0)
    check.machine(3, 3)
    told = check(*options)
    assert told["hours_at_most"] * 3600 == pytest.approx(seconds) and told["iterations_at_most"] == 180
    assert told["gpu_hours_at_most"] == pytest.approx(iterations / 3600 * 0.75 if "gpu" in str(options) else 0)


def test_what_comes_before_the_first_trial_counts_for_time_and_gpus(check: Check) -> None:
    """Each ranker is pre-trained, one after another; then two trials at a time share a GPU."""
    check.machine(2, 1)
    told = check("training.pretrain_data=data", "training.pretrain_iterations=10", "search.resources.gpu=0.5")
    before, searched = 10 * 2 * 1, 180 * told["seconds_per_iteration"]
    assert told["hours_at_most"] * 3600 == pytest.approx(before + searched / 2)
    assert told["gpu_hours_at_most"] * 3600 == pytest.approx(0.5 * (before + searched))
    assert told["pretraining_iterations"] == 20
    assert "20 iterations" in rows(told)["pre-training"] and "hours" in rows(told)["GPU"]
    taught = check("curriculum.scoring={choice: [random, model_loss]}", "ranker=knrm")
    assert taught["teacher_iterations"] == 20 and "20 iterations" in rows(taught)["teacher"]
    assert taught["hours_at_most"] * 3600 == pytest.approx((20 + 180 / 2) * 3)


# -- in words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "judged", "rungs"),
    [
        (["scheduler=none"], "None", []),
        (["scheduler=model", "search.promotion=true"], "every iteration", []),
        (["scheduler=asha"], "its own curriculum", [1, 3, 9]),
        (["scheduler=asha", "search.grace=none"], "whether or not", [1, 3, 9]),
        (["scheduler=asha", "search.grace=5"], "iteration 5", [5]),
    ],
)
def test_it_says_when_a_trial_is_judged(changed: list[str], judged: str, rungs: list[int], check: Check) -> None:
    told = check(f"search.{changed[0]}", *changed[1:], "training.max_iterations=10", "ranker=knrm")
    assert told["rungs"] == rungs and judged in str(told["judged"])
    assert (str(told["judged"]) in rows(told)["scheduler"]) == (judged != "None")


def test_of_another_question_it_speaks_of_no_curriculum(check: Check) -> None:
    own = ["curriculum={pacing: none}", "training.loss=hinge", "training.margin={choice: [1, 2]}"]
    own += ["training.lr={loguniform: [.001, .1]}", "baseline={training.margin: 1}", "search.scheduler=asha"]
    told = check(*own)
    shown = rows(told)
    assert "curricul" not in str(shown) and "plain training" not in str(shown)
    assert "training.margin 1" in shown["plain, default"] and "margin=1" in shown["plain trials"]
    assert told["plain"] == "margin=1" and not told["over_curricula"] and check()["over_curricula"]
