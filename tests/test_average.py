"""What is evaluated and saved instead of the last step's weights: their average."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.training_runs import RANKERS, make_run, start
from trainables.config.keys import TrainingRun
from trainables.config.rules import validated
from trainables.core.errors import ConfigError
from trainables.data.columns import RankingData, required_split
from trainables.data.instances import Batch
from trainables.training.average import HORIZON
from trainables.training.prepared import prepare
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.trainer import Training

EMA: dict[str, Any] = {"average": "ema", "lr": 1e-2, "max_iterations": 5}


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=24, candidates=6, seed=5)


def averaged_run(ranker: str = "conv_knrm", **training: Any) -> TrainingRun:
    return make_run(ranker, training=EMA | training)


def finished(training: Any) -> Any:
    while not training.finished:
        training.iterate()
    return training


def dev(training: Training) -> list[float]:
    return [row["dev_map"] for row in training.history]


class Noted(Training):
    """Notes its weights after each step."""

    def _step(self, step: int, batch: Batch) -> tuple[torch.Tensor, float, int]:
        result = super()._step(step, batch)
        self.noted = [*getattr(self, "noted", ()), self.flat()]
        return result

    def flat(self) -> np.ndarray:
        weights = (weight for weight in self.module.parameters() if weight.requires_grad)
        return np.concatenate([weight.detach().numpy().astype(np.float64).ravel() for weight in weights])


def test_the_average_is_what_its_formula_says(data: RankingData) -> None:
    run = averaged_run()
    training = finished(Noted(run, prepare(run, data), "cpu"))
    steps = HORIZON * run.training.batches_per_iteration
    expected = np.zeros_like(training.noted[0])
    for number, weights in enumerate(training.noted, 1):
        share = max(1 / number, 1 - math.exp(-1 / steps))
        expected = (1 - share) * expected + share * weights
    with training.average.applied():
        assert training.flat() == pytest.approx(expected, abs=1e-5)
    assert np.array_equal(training.flat(), training.noted[-1])


def test_an_average_changes_no_step_only_what_is_evaluated(data: RankingData) -> None:
    plain, averaged = (finished(start(averaged_run(average=name), data)) for name in ("none", "ema"))
    assert [row["train_loss"] for row in averaged.history] == [row["train_loss"] for row in plain.history]
    assert dev(averaged) != dev(plain)


@pytest.mark.parametrize("ranker", RANKERS)
def test_the_saved_ranker_is_the_average(ranker: str, data: RankingData, tmp_path: Path) -> None:
    training = finished(start(averaged_run(ranker), data))
    training.save_ranker(tmp_path / "ranker")
    split = required_split(data, "dev")
    saved = load_ranker_folder(tmp_path / "ranker")
    scores = saved.score(data.query_texts(), data.documents, split.query[split.owner], split.document)
    assert scores == pytest.approx(training.best_scores, abs=1e-5)
    assert training.evaluate(scores) == pytest.approx(max(dev(training)))


@pytest.mark.parametrize("ranker", RANKERS)
def test_a_resumed_training_gives_the_numbers_of_an_unbroken_one(
    ranker: str, data: RankingData, tmp_path: Path
) -> None:
    run = averaged_run(ranker)
    unbroken, first, second = (start(run, data) for _ in range(3))
    finished(unbroken)
    first.iterate()
    first.iterate()
    write = first.snapshot()
    first.iterate()  # the snapshot holds what was before
    write(tmp_path)
    second.load(tmp_path)
    assert second.iteration == 2
    finished(second)
    assert dev(second) == dev(unbroken) and second.best_iteration == unbroken.best_iteration
    assert np.array_equal(second.dev_values, unbroken.dev_values)
    assert all(torch.equal(second.best_weights[name], weight) for name, weight in unbroken.best_weights.items())


def test_trees_have_no_weights_to_average_and_no_labels_to_smooth() -> None:
    with pytest.raises(ConfigError) as raised:
        validated({"ranker": "lambdamart", "training": {"average": "ema", "label_smoothing": 0.1}})
    assert [str(problem) for problem in raised.value.problems] == [
        "error: training.average: lambdamart has no weights to average; none, or a ranker that is a network over texts",
        "error: training.label_smoothing: lambdamart has no distribution of labels to smooth; "
        "0, or a ranker that is a network over texts",
    ]
