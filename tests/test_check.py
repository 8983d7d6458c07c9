"""What `tune-cl check` forecasts if trials reserve GPUs, or if there are GPUs that they do not reserve."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.device_state import device_state
from tests.support.report_cases import Case
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingRun
from tune_cl.cli import BAD_INPUT, DONE, main
from tune_cl.cli.commands.check import _at_a_time, _by_topic, _in_short, _scheduler, _threads, _time
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.search_keys import Resources, SearchConfig
from tune_cl.ray import slots as places

OPENED = """
data: data
curriculum: {pacing: {choice: [linear, root]}, n: {choice: [2, 5], when: {curriculum.pacing: root}}}
ranker.name: {choice: [conv_knrm, knrm]}
training: {lr: {loguniform: [1e-4, 1e-2]}, max_iterations: 20}
search: {searcher: tpe, trials: 9}
"""
__all__ = ["device_state"]  # a fixture


@pytest.mark.parametrize(
    ("cpu", "gpu", "most", "expected"),
    [
        (1, 0, None, 8), (3, 0, None, 2), (1, 0, 3, 3), (1, 0, 30, 8),
        (1, 1, None, 2), (1, 0.4, None, 4), (4, 0.25, None, 2), (0, 0.5, None, 4), (1, 1, 1, 1),
        (1, 3, None, 1), (16, 0, None, 1),  # more than there is: `run` would refuse
    ],
)  # fmt: skip
def test_trials_at_a_time_are_as_many_as_both_kinds_of_places_hold(
    cpu: float, gpu: float, most: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "this_machine", lambda: {"CPU": 8, "GPU": 2})
    search = SearchConfig(resources=Resources(cpu=cpu, gpu=gpu), max_concurrent=most)
    assert _at_a_time(search) == expected


def quickstart(folder: Path, *overrides: str) -> list[str]:
    """Arguments of `tune-cl` that check the space on data of two dozen queries."""
    data = write_trec_folder(tiny_data(queries=8, candidates=4, turns=1), folder / "data")
    given = [part for override in overrides for part in ("--set", override)]
    return ["check", "quickstart", "--data", str(data), *given, "--json"]


def test_a_step_is_measured_where_trials_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        "trainables.training.factory.seconds_per_iteration",
        lambda run, materials, threads, device: seen.append(device) or 3600.0,
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(places, "this_machine", lambda: {"CPU": 4, "GPU": 1})
    told, hours = [], []
    for gpu in (0, 0.5):
        assert main(quickstart(tmp_path, f"search.resources.gpu={gpu}")) == DONE
        shown = capfd.readouterr()
        told.append(shown.err)
        hours.append(json.loads(shown.out)["hours_forecast"])
    assert seen == ["cpu", "cuda"] and hours[1] == pytest.approx(2 * hours[0]), "4 trials at a time, and 2"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(quickstart(tmp_path, "search.resources.gpu=1")) == DONE
    note = "note: a trial reserves a GPU, but this machine has none: a step is measured on its CPU\n"
    assert seen[2] == "cpu" and capfd.readouterr().err == note and note not in told


# -- what it tells -------------------------------------------------------------------------------------------------


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A space of two rankers, in the working folder; nothing is measured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("trainables.training.factory.seconds_per_iteration", lambda *_, **__: 1.0)
    (tmp_path / "space.yaml").write_text(OPENED)
    write_trec_folder(tiny_data(queries=8, candidates=4, turns=1), tmp_path / "data")
    return "space.yaml"


def rows(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """What `check` prints, by the row's name."""
    assert main(["check", *arguments]) == DONE
    lines = [re.split(r"  +", line.strip(), maxsplit=1) for line in capfd.readouterr().out.splitlines()[2:]]
    return {line[0]: line[-1] for line in lines}


def test_the_baseline_is_told_with_the_values_that_it_takes_of_all_opened_keys(
    space: str, capfd: pytest.CaptureFixture[str]
) -> None:
    told = "curriculum.pacing none, curriculum.weighting none, ranker.name conv_knrm, training.lr 0.001"
    assert rows(capfd, space)["baseline"] == f"{told}; never stopped early"
    other = rows(capfd, space, "--set", "baseline={ranker.name: knrm, curriculum.anti: true}")["baseline"]
    assert "curriculum.anti true, ranker.name knrm, training.lr 0.001; " in other


# -- warm starts ---------------------------------------------------------------------------------------------------


def test_a_warm_start_is_refused_as_run_refuses_it(
    space: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = []
    for command in ("run", "check"):
        assert main([command, space, "--set", "search.warm_start=[before]"]) == BAD_INPUT
        told.append(capfd.readouterr().err.splitlines()[-1])
    assert told[0] == told[1] and "search.warm_start[0]: no search 'before' in " in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "space.yaml"], "nothing is written"


def test_what_warms_a_search_up_is_told_from_the_storage(
    space: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    case = Case(tmp_path / "elsewhere", "before")
    case.add([0.3, 0.4], "baseline")
    case.add([0.3, 0.5], "completed")
    storage = str(case.write().storage)
    assert main(["check", space, "--set", "search.warm_start=[before]", "--storage", storage]) == DONE
    assert "note: before: " in capfd.readouterr().err


# -- budgets -------------------------------------------------------------------------------------------------------


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
    options: list[str],
    ends: str | None,
    expected: int,
    seconds: float,
    space: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tune_cl.cli.commands.check._at_a_time", lambda search: 3)
    changed = [part for option in options for part in ("--set", option)]
    assert main(["check", space, *changed, "--json"]) == DONE
    told = json.loads(capfd.readouterr().out)
    assert told["ends_by"] == ends and told["iterations_expected"] == expected
    assert told["hours_forecast"] * 3600 == pytest.approx(seconds)
    assert told["gpu_hours_forecast"] == pytest.approx(expected / 3600 * 0.75 if "gpu" in str(options) else 0)


def test_budgets_are_told_in_a_row(space: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "budgets" not in rows(capfd, space)
    told = rows(capfd, space, "--set", "search.iterations=50", "--set", "search.hours=2")
    keys = "search.hours 2, search.iterations 50"
    assert told["budgets"] == f"{keys}: the first that is reached ends the search; by this forecast search.iterations"
    assert told["trials"] == "9, the baseline included, of at most 20 iterations"
    told = rows(capfd, space, "--set", "search.hours=2")
    assert told["budgets"] == "search.hours 2: the first that is reached ends the search; by this forecast none is"


# -- several rankers -----------------------------------------------------------------------------------------------

SECONDS = {"conv_knrm": 1.0, "knrm": 3.0, "bert": 50.0}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[TrainingRun]:
    """The trainings that are measured; a ranker has its own pace, and time grows with the batch size."""
    seen: list[TrainingRun] = []

    def pace(run: TrainingRun, *_: Any, **__: Any) -> float:
        seen.append(run)
        return SECONDS[run.ranker["name"]] * run.training.batch_size / 16

    monkeypatch.setattr("trainables.training.factory.seconds_per_iteration", pace)
    monkeypatch.setattr("tune_cl.cli.commands.check._at_a_time", lambda search: 2)
    return seen


def document(capfd: pytest.CaptureFixture[str], space: str, *options: str) -> dict[str, Any]:
    changed = [part for option in options for part in ("--set", option)]
    assert main(["check", space, *changed, "--json"]) == DONE
    return json.loads(capfd.readouterr().out)


GRID = ["search={searcher: grid}", "training.lr=0.001"]


def test_each_ranker_is_measured_and_weighs_by_its_trials(
    space: str, measured: list[TrainingRun], capfd: pytest.CaptureFixture[str]
) -> None:
    told = document(capfd, space, *GRID)
    assert [(run.ranker["name"], run.curriculum.pacing) for run in measured] == [
        ("conv_knrm", "none"),
        ("knrm", "none"),
    ]
    assert told["trials"] == 7 and told["iterations_expected"] == 140
    assert told["hours_forecast"] * 3600 == pytest.approx(20 * (4 * 1 + 3 * 3) / 2)
    assert told["seconds_per_iteration"] == pytest.approx((4 * 1 + 3 * 3) / 7)
    assert told["paces"] == [
        {"of": {"ranker.name": "knrm"}, "seconds_per_iteration": 3.0, "trials": pytest.approx(3)},
        {"of": {"ranker.name": "conv_knrm"}, "seconds_per_iteration": 1.0, "trials": pytest.approx(4)},
    ]
    changed = [part for option in GRID for part in ("--set", option)]
    told = rows(capfd, space, *changed)
    assert told["an iteration"] == "knrm 3 s (3 trials), conv_knrm 1 s (4 trials)"
    assert told["time here"] == "about 2 min without start-up, 2 at a time, 1.86 s an iteration on average"
    assert "an iteration" not in rows(capfd, space, "--ranker", "knrm", *changed)


def test_a_grid_that_is_cut_short_comes_to_its_first_points(
    space: str, measured: list[TrainingRun], capfd: pytest.CaptureFixture[str]
) -> None:
    order = ["ranker.name={choice: [knrm, conv_knrm]}", "search.points=[{ranker.name: conv_knrm}]"]
    told = document(capfd, space, "search={searcher: grid, trials: 3}", "training.lr=0.001", *order)
    trials = {pace["of"]["ranker.name"]: pace["trials"] for pace in told["paces"]}
    assert trials == {"knrm": pytest.approx(1 + 1), "conv_knrm": pytest.approx(1)}, "the baseline, point, first of all"
    told = document(capfd, space, "search={searcher: grid, trials: 4}", "training.lr=0.001", order[0])
    trials = {pace["of"]["ranker.name"]: pace["trials"] for pace in told["paces"]}
    assert trials == {"knrm": pytest.approx(1 + 2), "conv_knrm": pytest.approx(1)}


def test_a_sampler_weighs_rankers_by_priors_and_conditions(
    space: str, measured: list[TrainingRun], capfd: pytest.CaptureFixture[str]
) -> None:
    told = document(
        capfd, space, "ranker.name={choice: [conv_knrm, knrm, bert], prior: [3, 1, 0]}", "search.trials=101"
    )
    trials = {pace["of"]["ranker.name"]: pace["trials"] for pace in told["paces"]}
    shares = {"conv_knrm": 1 / 6 + 3 / 8, "knrm": 1 / 6 + 1 / 8, "bert": 1 / 6}
    drawn = 99  # one trial is the baseline, one the prior's most likely choice
    assert trials["conv_knrm"] == pytest.approx(2 + drawn * shares["conv_knrm"], abs=4)
    assert trials["knrm"] == pytest.approx(drawn * shares["knrm"], abs=4)
    assert trials["bert"] == pytest.approx(drawn * shares["bert"], abs=4)
    mean = sum(trials[name] * seconds for name, seconds in SECONDS.items()) / 101
    assert told["seconds_per_iteration"] == pytest.approx(mean)


def test_what_else_decides_the_pace_is_measured_while_it_makes_few_kinds(
    space: str, measured: list[TrainingRun], capfd: pytest.CaptureFixture[str]
) -> None:
    rankers = "ranker.name={choice: [knrm, bert]}"
    models = "ranker.model={choice: [tiny], when: {ranker.name: bert}}"
    changed = [part for one in (rankers, models, "training.batch_size={choice: [16, 32]}") for part in ("--set", one)]
    told = rows(capfd, space, *changed)["an iteration"]
    assert [part.partition(" (")[0] for part in told.split(", ")] == [
        "bert tiny batch_size 32 100 s", "bert tiny batch_size 16 50 s", "knrm batch_size 32 6 s",
        "knrm batch_size 16 3 s",
    ]  # fmt: skip
    measured.clear()
    many = "training.batch_size={choice: [1, 2, 4, 8, 16, 32, 64]}"
    assert len(document(capfd, space, rankers, models, many)["paces"]) == len(measured) == 2


def test_before_the_first_trial_each_ranker_is_pre_trained_at_its_own_pace(
    space: str, measured: list[TrainingRun], capfd: pytest.CaptureFixture[str]
) -> None:
    told = document(capfd, space, "training.pretrain_data=data", "training.pretrain_iterations=10")
    assert told["pretraining_iterations"] == 20
    assert told["hours_forecast"] * 3600 == pytest.approx(10 * (1 + 3) + 180 * told["seconds_per_iteration"] / 2)


@pytest.mark.parametrize(
    ("changed", "judged", "rungs"),
    [
        (["search.scheduler=none"], None, []),
        (["search.scheduler=model", "search.promotion=true"], "after every iteration, inside its curriculum too", []),
        (["search.scheduler=asha"], "not before its own curriculum is over", [1, 2, 4, 8]),
        (["search.scheduler=asha", "search.grace=none"], "whether or not its curriculum is over", [1, 2, 4, 8]),
        (["search.scheduler=asha", "search.grace=5"], "not before iteration 5", [5]),
    ],
)
def test_check_says_when_a_trial_is_judged(changed: list[str], judged: str | None, rungs: list[int]) -> None:
    told = _in_short(load_experiment("quickstart", changed))
    assert (told["judged"], told["rungs"]) == (judged, rungs)
    assert (f"trials are compared: {judged}" in _scheduler(told)) == (judged is not None)


@pytest.mark.parametrize(
    ("hours", "told"),
    [(2.0, "about 2.0 hours"), (1.99, "about 119 min"), (2 / 60, "about 2 min"), (119 / 3600, "about 119 s")],
)
def test_times_are_told_in_a_unit_of_their_size(hours: float, told: str) -> None:
    assert _time(hours) == told


def test_a_trial_has_the_threads_of_its_cores_as_far_as_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert [_threads(Resources(cpu=cpu)) for cpu in (0, 0.5, 1, 2.9, 8, 64)] == [1, 1, 1, 2, 8, 8]


def test_what_comes_before_the_first_trial_counts_for_time_and_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """10 s per iteration; pre-training first, on its own, then two trials at a time on half a GPU each."""
    monkeypatch.setattr(
        "trainables.training.factory.seconds_per_iteration", lambda run, materials, threads, device: 10.0
    )
    monkeypatch.setattr("tune_cl.cli.commands.check._at_a_time", lambda search: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    pretrained = f"training.pretrain_data={tmp_path / 'data'}", "training.pretrain_iterations=7"
    assert main(quickstart(tmp_path, "search.resources.gpu=0.5", *pretrained)) == DONE
    found = json.loads(capfd.readouterr().out)
    assert found["pretraining_iterations"] == 7
    searched = found["iterations_expected"] * 10 / 3600
    assert found["hours_forecast"] == pytest.approx(70 / 3600 + searched / 2)
    assert found["gpu_hours_forecast"] == pytest.approx(0.5 * (70 / 3600 + searched))
    told = _by_topic(found)
    assert told["trials"] == "10, the baseline included, of at most 10 iterations"
    assert told["pre-training"] == "at most 7 iterations before the first trial" and told["GPU"].endswith(" hours")
    assert told["iterations"] == f"100 at most, about {found['iterations_expected']} expected"
    assert _by_topic(found | {"iterations_expected": 100})["iterations"] == "100 at most"
