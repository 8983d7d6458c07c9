"""`tune-cl check`: what a search will do, which of it is measured on this machine, and the forecast of hours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.cli_calls import document as document_of
from tests.support.device_state import device_state
from tests.support.report_cases import Case
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingRun
from tune_cl.cli import DONE, main
from tune_cl.cli.commands.check import render
from tune_cl.experiment.forecast import forecast_of
from tune_cl.experiment.load import load_experiment
from tune_cl.ray import slots

OPENED = """
data: data
curriculum: {pacing: {choice: [linear, root]}, n: {choice: [2, 5], when: {curriculum.pacing: root}}}
ranker.name: {choice: [conv_knrm, knrm]}
training: {lr: {loguniform: [1e-4, 1e-2]}, max_iterations: 20}
search: {searcher: tpe, trials: 9}
"""
LATE = """
ranker: conv_knrm
curriculum: {pacing: {choice: [linear, root]}, n: {choice: [2, 5], when: {curriculum.pacing: root}}}
training: {max_iterations: 20}
search: {searcher: tpe, scheduler: asha, trials: 30}
"""
SECONDS = {"conv_knrm": 1.0, "knrm": 3.0, "bert": 50.0}
GRID = ["search={searcher: grid}", "training.lr=0.001"]
Capture = pytest.CaptureFixture[str]
__all__ = ["device_state"]  # a fixture


class Measured(list[TrainingRun]):
    """The trainings that are measured: a ranker has its own pace, and time grows with the batch size."""

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.threads: list[int] = []

    def __call__(self, run: TrainingRun, materials: object, threads: int, device: str) -> float:
        self.append(run)
        self.devices.append(device)
        self.threads.append(threads)
        return SECONDS[run.ranker["name"]] * run.training.batch_size / 16


@pytest.fixture(autouse=True)
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """In a folder with the space `space.yaml` of two rankers and its data, on a machine of two cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("trainables.training.factory.seconds_per_iteration", found := Measured())
    monkeypatch.setattr(slots, "this_machine", lambda: {"CPU": 2, "GPU": 0})
    (tmp_path / "space.yaml").write_text(OPENED)
    write_trec_folder(tiny_data(queries=8, candidates=4, turns=1), tmp_path / "data")
    return found


def document(capfd: Capture, *options: str, space: str = "space.yaml") -> dict[str, Any]:
    return document_of(capfd, "check", space, *(part for option in options for part in ("--set", option)))


def rows(told: dict[str, Any]) -> dict[str, str]:
    """What `check` prints, by the row's name."""
    lines = [re.split(r"  +", line.strip(), maxsplit=1) for line in render(told).splitlines()[2:]]
    return {line[0]: line[-1] for line in lines}


def trials_of(told: dict[str, Any]) -> dict[str, float]:
    return {pace["of"]["ranker.name"]: pace["trials"] for pace in told["paces"]}


# -- places and what is measured -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "gpu", "most", "expected"),
    [
        (1, 0, None, 8), (3, 0, None, 2), (1, 0, 3, 3), (1, 0, 30, 8),
        (1, 1, None, 2), (1, 0.4, None, 4), (4, 0.25, None, 2), (0, 0.5, None, 4), (1, 1, 1, 1),
        (1, 3, None, 1), (16, 0, None, 1),  # more than there is: `run` would refuse
    ],
)  # fmt: skip
def test_trials_at_a_time_are_as_many_as_both_kinds_of_places_hold(
    cpu: float, gpu: float, most: int | None, expected: int, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setattr(slots, "this_machine", lambda: {"CPU": 8, "GPU": 2})
    given = [f"search.resources.cpu={cpu}", f"search.resources.gpu={gpu}", f"search.max_concurrent={most or 'null'}"]
    assert document(capfd, *given)["at_a_time"] == expected


def test_a_step_is_measured_where_trials_train(
    measured: Measured, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(slots, "this_machine", lambda: {"CPU": 4, "GPU": 1})
    one, two = (document(capfd, f"search.resources.gpu={gpu}", "ranker=knrm") for gpu in (0, 0.5))
    assert measured.devices == ["cpu", "cuda"]
    assert two["hours_forecast"] == pytest.approx(2 * one["hours_forecast"]), "4 trials at a time, and 2"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["check", "space.yaml", "--set", "search.resources.gpu=1", "--set", "ranker=knrm"]) == DONE
    assert measured.devices[2] == "cpu" and "note: a trial reserves a GPU" in capfd.readouterr().err


@pytest.mark.parametrize(("cpu", "threads"), [(0.5, 1), (1, 1), (2.9, 2), (8, 8), (64, 8)])
def test_a_trial_has_the_threads_of_its_cores_as_far_as_there_are_any(
    cpu: float, threads: int, measured: Measured, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    document(capfd, f"search.resources.cpu={cpu}")
    assert set(measured.threads) == {threads}


def test_what_this_machine_lacks_is_noted(capfd: Capture) -> None:
    assert main(["check", "space.yaml", "--set", "search.resources.cpu=4096"]) == DONE
    assert "note: search.resources.cpu: " in capfd.readouterr().err


def test_what_warms_a_search_up_is_told_from_the_storage(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "elsewhere").mkdir()
    case = Case(tmp_path / "elsewhere", "before")
    case.add([0.3, 0.4], "baseline")
    case.add([0.3, 0.5], "completed")
    storage = str(case.write().storage)
    assert main(["check", "space.yaml", "--set", "search.warm_start=[before]", "--storage", storage]) == DONE
    assert "note: before: " in capfd.readouterr().err


# -- the forecast --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "ends", "expected", "seconds"),
    [
        ([], None, 180, 60),
        (["search.hours=0.01", "search.iterations=170"], "search.hours", 108, 36),
        (["search.hours=1", "search.iterations=50"], "search.iterations", 50, 20),  # the baseline's
        (["search.hours=1", "search.resources.gpu=0.75"], None, 180, 60),
    ],
)
def test_budgets_cut_what_is_forecast(
    options: list[str], ends: str | None, expected: int, seconds: float, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setitem(SECONDS, "knrm", 1.0)
    monkeypatch.setattr(slots, "this_machine", lambda: {"CPU": 3, "GPU": 3})
    told = document(capfd, *options)
    assert told["ends_by"] == ends and told["iterations_expected"] == expected
    assert told["hours_forecast"] * 3600 == pytest.approx(seconds)
    assert told["gpu_hours_forecast"] == pytest.approx(expected / 3600 * 0.75 if "gpu" in str(options) else 0)
    assert set(told["budgets"]) == {option.partition("=")[0] for option in options} - {"search.resources.gpu"}
    assert (str(ends) in rows(told).get("budgets", "None none")) or ends is None


def test_each_ranker_is_measured_and_weighs_by_its_trials(measured: Measured, capfd: Capture) -> None:
    told = document(capfd, *GRID)
    assert [(run.ranker["name"], run.curriculum.pacing) for run in measured] == [
        ("conv_knrm", "none"),
        ("knrm", "none"),
    ]
    assert told["trials"] == 8 and told["iterations_expected"] == 160
    assert told["hours_forecast"] * 3600 == pytest.approx(20 * (4 * 1 + 4 * 3) / 2)
    assert told["seconds_per_iteration"] == pytest.approx((4 * 1 + 4 * 3) / 8)
    assert told["paces"] == [
        {"of": {"ranker.name": "knrm"}, "seconds_per_iteration": 3.0, "trials": pytest.approx(4)},
        {"of": {"ranker.name": "conv_knrm"}, "seconds_per_iteration": 1.0, "trials": pytest.approx(4)},
    ]
    assert rows(told)["an iteration"] == "knrm 3 s (4 trials), conv_knrm 1 s (4 trials)"
    assert "an iteration" not in rows(document(capfd, *GRID, "ranker=knrm"))


def test_a_grid_that_is_cut_short_comes_to_its_first_points(capfd: Capture) -> None:
    """Behind plain trials of both rankers, and a point of its own."""
    order, point = "ranker.name={choice: [knrm, conv_knrm]}", "search.points=[{ranker.name: conv_knrm}]"
    told = document(capfd, "search={searcher: grid, trials: 3}", "training.lr=0.001", order, point)
    assert trials_of(told) == {"knrm": pytest.approx(1), "conv_knrm": pytest.approx(1 + 1)}
    told = document(capfd, "search={searcher: grid, trials: 4}", "training.lr=0.001", order)
    assert trials_of(told) == {"knrm": pytest.approx(1 + 1), "conv_knrm": pytest.approx(1 + 1)}


def test_a_sampler_weighs_rankers_by_priors_and_conditions(capfd: Capture) -> None:
    told = document(capfd, "ranker.name={choice: [conv_knrm, knrm, bert], prior: [3, 1, 0]}", "search.trials=101")
    trials = trials_of(told)
    drawn = 99  # one trial is the baseline, one the prior's most likely choice
    assert trials["conv_knrm"] == pytest.approx(2 + drawn * (1 / 6 + 3 / 8), abs=4)
    assert trials["knrm"] == pytest.approx(drawn * (1 / 6 + 1 / 8), abs=4)
    assert trials["bert"] == pytest.approx(drawn / 6, abs=4)
    mean = sum(trials[name] * seconds for name, seconds in SECONDS.items()) / 101
    assert told["seconds_per_iteration"] == pytest.approx(mean)


def test_what_else_decides_the_pace_is_measured_while_it_makes_few_kinds(measured: Measured, capfd: Capture) -> None:
    rankers = ["ranker.name={choice: [knrm, bert]}", "ranker.model={choice: [tiny], when: {ranker.name: bert}}"]
    told = document(capfd, *rankers, "training.batch_size={choice: [16, 32]}")
    kinds = [(*pace["of"].values(), pace["seconds_per_iteration"]) for pace in told["paces"]]
    assert kinds == [("bert", "tiny", 32, 100), ("bert", "tiny", 16, 50), ("knrm", 32, 6), ("knrm", 16, 3)]
    assert rows(told)["an iteration"].startswith("bert tiny batch_size 32 100 s (")
    measured.clear()
    many = "training.batch_size={choice: [1, 2, 4, 8, 16, 32, 64]}"
    assert len(document(capfd, *rankers, many)["paces"]) == len(measured) == 2


def test_what_comes_before_the_first_trial_counts_for_time_and_gpus(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    """Each ranker is pre-trained at its own pace, one after another; then two trials at a time share a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(slots, "this_machine", lambda: {"CPU": 2, "GPU": 1})
    pretrained = ["training.pretrain_data=data", "training.pretrain_iterations=10", "search.resources.gpu=0.5"]
    told = document(capfd, *pretrained)
    assert told["pretraining_iterations"] == 20
    before, searched = 10 * (1 + 3), 180 * told["seconds_per_iteration"]
    assert told["hours_forecast"] * 3600 == pytest.approx(before + searched / 2)
    assert told["gpu_hours_forecast"] * 3600 == pytest.approx(0.5 * (before + searched))
    assert "20 iterations" in rows(told)["pre-training"] and "hours" in rows(told)["GPU"]
    taught = document(capfd, "curriculum.scoring={choice: [random, model_loss]}", "ranker=knrm")
    assert taught["teacher_iterations"] == 20 and "20 iterations" in rows(taught)["teacher"]
    assert taught["hours_forecast"] * 3600 == pytest.approx((20 + 180 / 2) * 3)


# -- in words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "judged", "rungs"),
    [
        (["search.scheduler=none"], None, []),
        (["search.scheduler=model", "search.promotion=true"], "every iteration", []),
        (["search.scheduler=asha"], "curriculum is over", [1, 3, 9]),
        (["search.scheduler=asha", "search.grace=none"], "whether or not", [1, 3, 9]),
        (["search.scheduler=asha", "search.grace=5"], "iteration 5", [5]),
    ],
)
def test_it_says_when_a_trial_is_judged(
    changed: list[str], judged: str | None, rungs: list[int], capfd: Capture
) -> None:
    told = document(capfd, *changed, "training.max_iterations=10", "ranker=knrm")
    assert told["rungs"] == rungs and (judged or "None") in str(told["judged"])
    assert (str(told["judged"]) in rows(told)["scheduler"]) == (judged is not None)


def test_the_rows_say_what_a_search_will_do(capfd: Capture) -> None:
    told = document(capfd, "curriculum.T=.2", "search={scheduler: asha, reduction_factor: 4}", "training.lr=0.001")
    shown = rows(told)
    assert "conv_knrm, knrm" in shown["trains"] and "map" in shown["trains"]
    assert [int(number) for number in re.findall(r"\d+", shown["opens"])] == [3, 1, 6], (
        "keys, conditional, combinations"
    )
    assert shown["trials"].startswith("8, ") and "20 iterations" in shown["trials"]
    assert shown["plain trials"] == "2 of them, over ranker.name"
    opened = {"plain": ["ranker.name"], "curriculum": ["curriculum.pacing", "curriculum.n", "ranker.name"]}
    assert {arm: told["arms"][arm]["opened"] for arm in opened} == opened
    assert "1/4" in shown["scheduler"] and "1, 4, 16" in shown["scheduler"]
    assert f"{told['at_a_time']} at a time" in shown["time here"]
    assert not shown.keys() & {"priors", "GPU", "steps", "pre-training", "teacher", "budgets"}
    some = rows(told | {"iterations_at_most": 100, "iterations_expected": 90})["iterations"]
    assert "100" in some and "90" in some and "90" not in rows(told | {"iterations_expected": 1000})["iterations"]


def test_the_baseline_has_values_of_all_opened_keys(capfd: Capture) -> None:
    told = document(capfd)
    plain = {"curriculum.pacing": "none", "curriculum.weighting": "none", "ranker.name": "conv_knrm"}
    assert told["baseline"] == plain | {"training.lr": pytest.approx(1e-3)}
    assert all(f"{key} {value}" in rows(told)["plain, default"] for key, value in plain.items())
    other = document(capfd, "baseline={ranker.name: knrm, curriculum.anti: true}")["baseline"]
    assert (other["ranker.name"], other["curriculum.anti"]) == ("knrm", True)


@pytest.mark.parametrize(
    ("hours", "told"), [(2.0, "2.0 hours"), (1.99, "119 min"), (2 / 60, "2 min"), (119 / 3600, "119 s")]
)
def test_times_are_told_in_a_unit_of_their_size(hours: float, told: str, capfd: Capture) -> None:
    assert told in rows(document(capfd) | {"hours_forecast": hours})["time here"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ([], "asha curriculum.T 0.9 20 1, 3, 9"),
        (["search.scheduler=hyperband"], "hyperband 18"),
        (["curriculum.T={uniform: [.5, .9]}"], "asha 1"),
        (["curriculum.T=.2", "curriculum.weighting=kde", "curriculum.m=12"], "curriculum.m 12 20"),
        (["search.scheduler=median", "curriculum.T=1"], "median 20"),
        (["search.first_rung=20"], "rung 20"),
    ],
)
def test_a_scheduler_that_can_end_no_trial_is_told(changed: list[str], words: str) -> None:
    Path("late.yaml").write_text(LATE)
    experiment = load_experiment("late.yaml", changed)
    [note] = experiment.notes
    assert " ends no trial here" in note and all(word in note for word in words.split(" "))
    forecast = forecast_of(experiment)
    assert forecast["iterations_expected"] == forecast["iterations_at_most"]


@pytest.mark.parametrize(
    "changed",
    ["search.scheduler=none", "search.grace=none", "search.grace=5", "curriculum.T=.4", "search.scheduler=median",
     "search.scheduler=model", "curriculum.T={uniform: [.2, .9]}", "curriculum.pacing={choice: [none, root]}",
     "training.max_iterations=1"],
)  # fmt: skip
def test_a_scheduler_that_may_end_trials_is_not_remarked_on(changed: str) -> None:
    Path("late.yaml").write_text(LATE)
    assert load_experiment("late.yaml", [changed]).notes == ()
