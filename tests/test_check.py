"""`tune-cl check`: what a search will do, and which of it is measured on this machine."""

from __future__ import annotations

import os
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
    """Calls `check`, in which an iteration of a ranker takes its SECONDS on these devices."""

    def __init__(self, console: Console, monkeypatch: pytest.MonkeyPatch):
        self.console, self.monkeypatch = console, monkeypatch
        self.devices: list[str] = []

    def measure(self, run: TrainingConfig, prepared: object, threads: int, device: str) -> float:
        assert "CUBLAS_WORKSPACE_CONFIG" in os.environ, "without it no training repeats on a GPU"
        self.devices.append(device)
        return SECONDS[run.ranker.name]

    def machine(self, cpu: int, gpu: int = 0, cuda: bool = True) -> None:
        self.monkeypatch.setattr(concurrency, "this_machine", lambda: {"CPU": cpu, "GPU": gpu})
        kind = "cuda" if cuda and gpu > 0 else "cpu"
        self.monkeypatch.setattr(torch.cuda, "is_available", lambda: kind == "cuda")
        self.monkeypatch.setattr(device, "best_device", lambda: torch.device(kind))

    def __call__(self, *options: str) -> dict[str, Any]:
        return self.console.document("check space.yaml", *(f"--set={option}" for option in options))


@pytest.fixture
def check(console: Console, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Of a space of two rankers, on a machine of two cores."""
    made = Check(console, monkeypatch)
    made.machine(2)
    monkeypatch.setattr("trainables.training.factory.seconds_per_iteration", made.measure)
    (console.folder / "space.yaml").write_text(OPENED)
    write_trec_folder(tiny_data(queries=8, candidates=4, turns=1), console.folder / "data")
    return made


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
    check("search.resources.gpu=1", "ranker=knrm")
    assert check.devices == ["cpu", "cuda", "cpu"]
    notes = check.console.notes("check space.yaml --set search.resources.gpu=2 --set ranker=knrm")
    assert [note for note in notes if note.startswith("search.resources.gpu: ")]


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
    taught = check("curriculum.scoring={choice: [random, model_loss]}", "ranker=knrm")
    assert taught["teacher_iterations"] == 20
    assert taught["hours_at_most"] * 3600 == pytest.approx((20 + 180 / 2) * 3)


def test_of_another_question_it_speaks_of_no_curriculum(check: Check) -> None:
    own = ["curriculum={pacing: none}", "training.loss=hinge", "training.margin={choice: [1, 2]}"]
    own += ["training.lr={loguniform: [.001, .1]}", "baseline={training.margin: 1}"]
    told = check(*own)
    shown = check_text(SpaceCheck.model_validate(told))
    assert "curricul" not in shown and "plain training" not in shown and "with margin=1" in shown
    assert told["plain"] == "margin=1" and not told["over_curricula"] and check()["over_curricula"]


@pytest.mark.parametrize(
    ("curriculum", "said"),
    [
        ("{pacing: {choice: [linear, root]}, delta: 1}", "2 of 2 curricula are plain training"),
        ("{pacing: linear, delta: {choice: [0.3, 0.5]}, final_share: 0.5}", "1 of 2 curricula is a filter"),
        (
            "{pacing: {choice: [none, linear]}, weighting: kde, m: 5, delta: {choice: [0.3, 0.6]}}",
            "1 of 4 curricula is equal",
        ),
        ("{pacing: {choice: [linear, root]}, delta: 0.3}", ""),
    ],
)
def test_curricula_that_can_show_nothing_are_named(check: Check, curriculum: str, said: str) -> None:
    (check.console.folder / "space.yaml").write_text(f"data: data\nranker: knrm\ncurriculum: {curriculum}\n")
    notes = [note for note in check.console.notes("check space.yaml") if "curricula" in note]
    assert len(notes) == bool(said) and all(said in note for note in notes)
