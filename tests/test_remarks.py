"""What is said of a search's results, with its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from tests.support.builders import tiny_data
from tests.support.report_cases import SPACE, Case
from trainables.config.keys import TrainingConfig
from trainables.curriculum.scoring import CONSTANT
from trainables.training.prepared import prepare
from trainables.training.trainer import Training
from tune_cl.history.state import experiment_of, replay
from tune_cl.results import Remark
from tune_cl.search.remarks import end_of, grouped, idle, in_count, remarks
from tune_cl.space.parameters import Parameter, choice


@pytest.mark.parametrize(
    ("parameter", "value", "end"),
    [
        (choice(1e-3, 3e-4, 3e-3), 3e-3, 1),
        (choice(1e-3, 3e-4, 3e-3), 3e-4, -1),
        (choice(1e-3, 3e-4, 3e-3), 1e-3, 0),
        (choice(1e-3, 1e-2), 1e-2, 0),  # two values are not a range
        (choice("a", "b", "c"), "a", 0),
        (choice(True, False), True, 0),
        (Parameter(FloatDistribution(1e-4, 1e-2, log=True)), 9.9e-3, 1),
        (Parameter(FloatDistribution(1e-4, 1e-2, log=True)), 1e-3, 0),
        (Parameter(FloatDistribution(0.2, 0.6)), 0.21, -1),
        (Parameter(IntDistribution(1, 5)), 5, 1),
        (choice(2, 4, float("inf")), float("inf"), 0),
    ],
)
def test_a_value_at_the_end_of_its_range(parameter: Parameter, value: Any, end: int) -> None:
    assert end_of(parameter, value) == end


def training(**curriculum: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(
        {"ranker": {"name": "conv_knrm"}, "curriculum": curriculum, "training": {"max_iterations": 8}}
    )


def trees(switch: int) -> TrainingConfig:
    ranker, curriculum = (
        {"name": "lambdamart", "trees_per_iteration": 10},
        {"objective_switch": "mse", "switch": switch},
    )
    return TrainingConfig.model_validate(
        {"ranker": ranker, "curriculum": curriculum, "training": {"max_iterations": 5}}
    )


def test_curricula_that_do_nothing() -> None:
    assert "first step" in str(idle(training(pacing="linear", delta=1.0, T=0.5)))
    acting = [training(pacing="linear", delta=0.9, T=0.5), training(weighting="kde", m=4), training()]
    acting.append(training(pacing="linear", delta=1.0, weighting="kde", m=4))
    assert [idle(run) for run in acting] == [None] * 4
    assert "50" in str(idle(trees(50))) and idle(trees(49)) is None


def test_one_failure_is_told_once_with_all_that_failed() -> None:
    reasons = {"t1": "nan", "t2": "ValueError: x (traceback: /a)", "t3": "ValueError: x (traceback: /b)", "t4": None}
    assert grouped(reasons) == {
        "ValueError: x (traceback: /a)": ["t2", "t3"], "nan": ["t1"], "no reason given": ["t4"],
    }  # fmt: skip


def test_what_failed_alike_is_counted() -> None:
    assert in_count(["a"]) == "a"
    assert in_count(list("abcde")).startswith("5 ")


def of(case: Case) -> dict[str, Remark]:
    state = replay(case.events)
    return {remark.kind: remark for remark in remarks(state, experiment_of(state))}


def test_a_search_without_anything_odd_has_no_remarks(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.4, 0.39, 0.38], "baseline")
    case.add([0.3, 0.45, 0.44, 0.43], "completed")
    case.events[-1] |= {"outcome": "stopped_early"}
    assert not of(case).keys() - {"end of range"}


def test_the_end_of_a_range_is_no_news_where_all_values_do_as_well(tmp_path: Path) -> None:
    found = []
    for last in (0.4, 0.3):
        rates = "training: {{lr: {{choice: [0.001, 0.002, 0.003]}}, "
        (folder := tmp_path / str(last)).mkdir()
        case = Case(folder, space=SPACE.replace("training: {{", rates))
        case.add([last], "baseline")
        case.add([0.4], "completed", lr=0.003)
        found.append("end of range" in of(case))
    assert found == [False, True]


def test_what_is_odd_about_a_search_is_remarked_on(tmp_path: Path) -> None:
    case = Case(tmp_path)
    rising = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    case.add([*rising[:6], 0.1, 0.4], "baseline")
    case.add(rising, "completed")
    for _ in range(3):
        case.add([0.1], "failed", "the training loss became nan")
    label_free = {"label": "BM25", "mean": 0.7}
    case.events.append({"event": "label_free", "first_stage": label_free, "label_free": label_free, "time": case.time})
    found = of(case)
    assert {"below label-free", "last iteration", "failures"} <= found.keys()
    assert next(iter(found)) == "below label-free" and found["below label-free"].warning, (
        "what matters most comes first"
    )
    assert found["last iteration"].trials == ("t0001", "t0000") and "8 of 8" in found["last iteration"].text
    assert found["failures"].trials == ("t0002", "t0003", "t0004")


def test_a_difficulty_that_is_the_same_for_all_is_noted() -> None:
    data = tiny_data(turns=1)
    run = TrainingConfig.model_validate(
        {
            "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": 4},
            "curriculum": {"pacing": "root", "scoring": "turns"},
            "training": {"max_iterations": 1},
        }
    )
    assert any(CONSTANT in note for note in Training(run, prepare(run, data), device="cpu").pop_notes())
    varied = run.model_copy(update={"curriculum": run.curriculum.model_copy(update={"scoring": "random"})})
    assert Training(varied, prepare(varied, data), device="cpu").pop_notes() == []
