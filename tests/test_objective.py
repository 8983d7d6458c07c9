"""A user's own training function as a training: reports, checkpoints, how it ends, and what is wrong with it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import linear_trainer
from tests.support.linear_trainer import fails, train
from trainables.config.function import load_objective, objective_of
from trainables.config.objective import OBJECTIVE, validated_objective
from trainables.core.errors import ConfigError, WorkFailed
from trainables.training.calls import TrainingEnded
from trainables.training.conclusion import Conclusion
from trainables.training.objective import FunctionFailed, ObjectiveTraining, PreparedObjective
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import build, from_yaml, to_yaml
from tune_cl.verdict.trainings import ended_result, values_by_query

KEYS = {"ranker.name": "train", "metric": "mrr", "parameters.lr": 0.5, "training.max_iterations": 4}
SPACE = {"parameters": {"lr": {"loguniform": [0.05, 1]}}, "metric": "mrr", "curriculum": {"pacing": "root"}}


def training_of(function: Callable[..., Any], **keys: Any) -> ObjectiveTraining:
    run = validated_objective({OBJECTIVE: "train", **KEYS, **keys})
    return ObjectiveTraining(run, PreparedObjective(objective_of(function)))


def finished(training: ObjectiveTraining) -> ObjectiveTraining:
    while not training.finished:
        training.iterate()
    training.close()
    return training


def devs(training: ObjectiveTraining) -> list[float]:
    return [row["dev_mrr"] for row in training.history]


def experiment(tree: dict[str, Any], function: Callable[..., Any] | None = train) -> Experiment:
    return build("mine", tree, {}, objective=objective_of(function) if function else None)


def problems(tree: dict[str, Any], function: Callable[..., Any] | None = train) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        experiment(tree, function)
    return {one.location: f"{one.wrong}; {one.right}" for one in caught.value.problems}


def test_a_training_that_resumes_from_any_iteration_gives_the_same_numbers(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"curriculum.pacing": "root", "seed": 3}
    whole = finished(training_of(train, **keys))
    for stop in (1, 3, 4):
        cut, again = training_of(train, **keys), training_of(train, **keys)
        for _ in range(stop):
            cut.iterate()
        (tmp_path / str(stop)).mkdir()
        cut.save(tmp_path / str(stop))
        cut.close()
        again.load(tmp_path / str(stop))
        assert devs(finished(again)) == devs(whole)
        assert again.pop_notes() == [] and again.best_iteration == whole.best_iteration
    keys["curriculum.delta"] = 0.1
    assert devs(finished(training_of(train, **keys))) != devs(whole)


def test_the_best_checkpoint_is_asked_for_the_values_of_a_split(tmp_path: Path) -> None:
    training = finished(training_of(train))
    training.save_ranker(tmp_path / "ranker")
    training.restore_ranker(tmp_path / "ranker")
    values, written = training.apply("test", tmp_path)
    weights = np.load(tmp_path / "ranker" / "checkpoint" / "weights.npy")
    expected = linear_trainer.reciprocal_ranks(weights, "test")
    assert values["mrr"].tolist() == [expected[query] for query in sorted(expected)]
    assert written.read_text().splitlines()[0] == "query_id\tmrr"
    assert np.mean(list(linear_trainer.reciprocal_ranks(weights, "dev").values())) == max(devs(training))


def test_the_function_ends_where_the_training_does_and_may_tidy_up() -> None:
    ended = []

    def endless(config: dict[str, Any], trial: Any) -> None:
        try:
            while True:
                try:
                    trial.report({"mrr": 0.5})
                except Exception:  # noqa: BLE001 - the end is not an error: it must pass here
                    ended.append("caught")
        except TrainingEnded:
            ended.append("ended")
            raise
        finally:
            ended.append("tidy")

    keys: dict[str, Any] = {"training.max_iterations": 50, "training.patience": 2}
    by_patience = finished(training_of(endless, **keys))
    assert by_patience.iteration == 3 and ended == ["ended", "tidy"]
    assert finished(training_of(endless)).iteration == 4
    never_called = training_of(endless)
    never_called.close()
    assert len(ended) == 4


def test_iterations_that_are_repeated_count_once(tmp_path: Path) -> None:
    calls = []

    def forgets(config: dict[str, Any], trial: Any) -> None:
        calls.append(trial.checkpoint)
        for iteration in range(4):
            trial.report({"mrr": (iteration + len(calls)) / 10})

    first, second = training_of(forgets), training_of(forgets)
    first.iterate(), first.iterate()
    first.save(tmp_path)
    first.close()
    second.load(tmp_path)
    assert devs(finished(second)) == pytest.approx([0.1, 0.2, 0.4, 0.5]) and calls == [None, None]


def test_what_the_function_raises_is_a_failure_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(FunctionFailed, match="KeyError: 'no such column'") as caught:
        training_of(fails).iterate()
    assert 'raise KeyError("no such column")' in caught.value.trace


@pytest.mark.parametrize(
    ("report", "wrong"),
    [
        ({"map": 0.5}, "map and not 'mrr'"),
        ({"mrr": "high"}, "not a number: mrr"),
        ({"mrr": 0.5, "dev_mrr": 1}, "'dev_mrr' is a name of tune-cl's own"),
        ({"mrr": 0.5, "loss": None}, "not a number: loss"),
        ({"mrr": float("nan")}, "mrr is nan, not a finite number"),
    ],
)
def test_a_report_that_is_wrong(report: dict[str, Any], wrong: str) -> None:
    with pytest.raises(FunctionFailed, match="report: ") as caught:
        training_of(lambda config, trial: trial.report(report)).iterate()
    assert wrong in str(caught.value)


def test_a_report_with_no_folder_or_with_values_by_query() -> None:
    with pytest.raises(FunctionFailed, match="there is no folder"):
        training_of(lambda config, trial: trial.report({"mrr": 1}, "nowhere")).iterate()
    training = training_of(train)
    assert training.iterate()["dev_mrr"] == training.dev_values.mean()
    training.close()


def test_a_split_needs_a_checkpoint_and_values(tmp_path: Path) -> None:
    run = validated_objective({OBJECTIVE: "train", **KEYS})
    without = objective_of(lambda config, trial: trial.report({"mrr": 1}))
    for split, wrong in (("test", "without a checkpoint"), ("dev", "without a checkpoint")):
        with pytest.raises(WorkFailed, match=wrong):
            ObjectiveTraining(run, PreparedObjective(without, by_query_on=split)).iterate()
    for answer, wrong in (
        (3, "returned 3"),
        ({"q": 1.0}, "returned 1 values"),
        ({"q": 1, "r": "x"}, "returned {'q': 1, 'r'"),
    ):
        training = finished(training_of(answering(answer)))
        training.save_ranker(tmp_path / "ranker")
        training.restore_ranker(tmp_path / "ranker")
        with pytest.raises(WorkFailed, match=wrong):
            training.apply("test", tmp_path)


@pytest.mark.parametrize("by_query", [True, False])
def test_dev_needs_no_checkpoint(by_query: bool, tmp_path: Path) -> None:
    """What a training without one reported is its result on dev, where further seeds of a pair are judged."""
    reported = [{"q": 0.25, "r": 0.75}, {"q": 1.0, "r": 0.5}, {"q": 0.0, "r": 0.0}]

    def without(config: dict[str, Any], trial: Any) -> None:
        for values in reported:
            trial.report({"mrr": values if by_query else sum(values.values()) / 2})

    Conclusion(str(tmp_path), "dev").write(finished(training_of(without)))
    result = ended_result(tmp_path, "dev")
    assert result and (result["metrics"], result["dev"]) == ({"mrr": 0.75}, 0.75)
    assert not (tmp_path / "training.json").exists(), "another split needs a training with checkpoints"
    if by_query:
        assert values_by_query(tmp_path, "dev", "mrr") == reported[1]
    else:
        with pytest.raises(WorkFailed, match="mrr by query"):
            values_by_query(tmp_path, "dev", "mrr")
    with pytest.raises(WorkFailed, match="without a checkpoint"):
        Conclusion(str(tmp_path), "test").write(finished(training_of(without)))


def answering(answer: Any) -> Callable[..., Any]:
    return lambda config, trial: answer if trial.split else train(config, trial)


def test_a_curriculum_and_its_difficulty_go_by_name() -> None:
    seen: dict[str, list[int]] = {}

    def names(config: dict[str, Any], trial: Any) -> None:
        difficulty = {"up": np.arange(8), "down": -np.arange(8)}
        ease = {"flat": np.full(8, 0.5)}
        curriculum = trial.curriculum(difficulty, total_steps=10, ease=ease)
        seen["order"], seen["weights"] = curriculum.available(10).tolist(), curriculum.weights([0, 1], 0).tolist()
        trial.report({"mrr": 1})

    keys = {"curriculum.pacing": "linear", "curriculum.scoring": "down", "curriculum.weighting": "flat"}
    finished(training_of(names, **keys))
    assert seen == {"order": list(range(8))[::-1], "weights": [0.5, 0.5]}
    with pytest.raises(FunctionFailed, match="none that is named 'other'; one of up, down"):
        training_of(names, **keys | {"curriculum.scoring": "other"}).iterate()


def test_a_space_of_a_function_has_its_parameters_and_the_keys_of_the_curriculum() -> None:
    made = experiment(SPACE | {"data": "my data", "ranker": "linear"})
    base = made.base.run
    assert base.in_force()["parameters.lr"] == pytest.approx(0.05**0.5) and base.in_force()["data.source"] == "my data"
    assert base.in_force()["curriculum.pacing"] == "none" and "curriculum.delta" not in base.in_force()
    run = made.config({"parameters.lr": 0.1}).run
    assert pickle.loads(pickle.dumps(run)) == run
    assert run.in_force()["curriculum.delta"] == 0.33 and made.config({"parameters.lr": 0.1}).curriculum_end == 18
    again = from_yaml(to_yaml(made), objective_of(train))
    assert again.config({"parameters.lr": 0.1}).run == run
    whole = experiment(SPACE | {"parameters": {"lr": {"uniform": [0, 1]}, "flag": {"choice": [True, False]}, "n": 3}})
    assert whole.base.run.in_force()["parameters.flag"] is True


def test_keys_that_do_not_belong_to_a_function() -> None:
    found = problems(SPACE | {"training": {"lr": 0.1}, "ranker": {"vectors": "x"}, "curriculum": {"pacing": "rot"}})
    assert "did you mean parameters.lr?" in found["training.lr"]
    assert "ranker.vectors" in found and found["curriculum.pacing"].startswith("unknown value 'rot'")
    assert "unknown key" in problems(SPACE, None)["parameters.lr"]
    assert "is not possible" in problems(SPACE | {"metric": "a?b"})["metric"]


def test_a_search_goes_on_with_the_function_that_it_began_with(tmp_path: Path) -> None:
    text = to_yaml(experiment(SPACE))
    record = from_yaml(text).objective
    assert record is not None and record.function is None and record.name == "train"
    with pytest.raises(ConfigError, match="trains by the function train, which is not given"):
        record.required()
    with pytest.raises(ConfigError, match="trains by train, and not by fails"):
        from_yaml(text, objective_of(fails))
    (tmp_path / "own.py").write_text("def f(config, trial):\n    return 1\n")
    with pytest.raises(ConfigError, match="not by f"):
        other = to_yaml(build("x", {"training": {"lr": {"choice": [0.1, 0.2]}}}, {}))
        from_yaml(other, load_objective(f"{tmp_path}/own.py:f"))


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("own.py", "'own.py' names no Python file"),
        ("none.py:f", "'none.py:f' names no Python file"),
        ("own.py:g", "has no function 'g'; known: f, one"),
        ("own.py:NUMBER", "3 is not a function"),
        ("own.py:one", "one cannot be called with two arguments"),
        ("broken.py:f", "cannot be run: ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_wrong_with_the_option(
    option: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("NUMBER = 3\ndef f(config, trial): ...\ndef one(config): ...\n")
    Path("broken.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError) as caught:
        load_objective(option)
    assert wrong in str(caught.value) and len(caught.value.problems) == 1
