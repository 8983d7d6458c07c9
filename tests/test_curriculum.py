"""The curriculum inside a training: exact resuming of all of it, switched objectives, self-pacing, keys in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.scored_data import split_of
from trainables.config.keys import TrainingConfig
from trainables.data.instances import make_instances
from trainables.training import losses
from trainables.training.batching import make_weigher, objective
from trainables.training.losses import LossSettings
from trainables.training.prepared import prepare
from trainables.training.trainer import Training


def make_run(loss: str = "pairwise", iterations: int = 5, **curriculum: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(
        {
            "ranker": {"name": "conv_knrm", "vector_size": 16, "filters": 8},
            "training": {
                "loss": loss,
                "max_iterations": iterations,
                "batches_per_iteration": 3,
                "batch_size": 8,
            },
            "curriculum": curriculum,
            "seed": 1,
        }
    )


@pytest.fixture(scope="module")
def data():
    return tiny_data(queries=24, candidates=6, seed=5)


def start(run: TrainingConfig, data) -> Training:
    return Training(run, prepare(run, data), device="cpu")


def finish(training: Training) -> Training:
    while not training.finished:
        training.iterate()
    return training


def numbers(training: Training) -> list[tuple[float, ...]]:
    keys = ("dev_map", "train_loss", "available_share", "mean_weight")
    return [tuple(row[key] for key in keys) for row in training.history]


@pytest.mark.parametrize("pacing", ["linear", "root", "geometric", "step", "competence"])
def test_a_curriculum_that_closes_nothing_is_plain_training(pacing: str, data) -> None:
    nothing = make_run(pacing=pacing, delta=1.0, scoring="random")
    assert numbers(finish(start(nothing, data))) == numbers(finish(start(make_run(), data)))


def test_adaptive_opens_after_the_iterations_that_brought_nothing(data) -> None:
    """A learning rate so low that dev does not move: from the second iteration on, each brings no better value."""
    keys = {"pacing": "adaptive", "delta": 0.2, "stages": 5, "patience": 1, "T": 1.0}
    run = make_run(**keys)
    still = run.model_copy(update={"training": run.training.model_copy(update={"lr": 1e-12})})
    shares = [row["available_share"] for row in finish(start(still, data)).history]
    assert shares == pytest.approx([0.2, 0.2, 0.4, 0.6, 0.8])


def test_a_final_share_leaves_the_hardest_out(data) -> None:
    run = make_run(pacing="linear", scoring="context_words", delta=0.5, final_share=0.5, T=0.2)
    training = start(run, data)
    rows = training.curriculum.sampler.draw(10**6, 200, 8)
    hardest = training.curriculum.sampler.order[len(training.curriculum.sampler.order) // 2 :]
    assert not set(rows.ravel()) & set(hardest.tolist())
    assert finish(training).history[-1]["available_share"] == 0.5


def test_a_pair_under_a_pointwise_loss_has_the_mean_of_its_documents(data) -> None:
    training = start(make_run(), data)
    batch = next(training.batcher.batches(0, 1))
    score = torch.linspace(-1, 1, len(training.batcher.split.document))
    rows = training._rows(batch)
    per_sample = training._losses(rows, score[rows.ravel()], "pointwise")
    of = [losses.pointwise(score[rows], torch.full((8,), grade), LossSettings())
          for rows, grade in ((batch.positive, 1), (batch.negative, 0))]  # fmt: skip
    assert torch.allclose(per_sample, (of[0] + of[1]) / 2)


def test_squared_error_is_on_the_grade_itself() -> None:
    loss = losses.mse(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([4, 1, -1]), LossSettings())
    assert loss.tolist() == [9, 0, 1]


def test_per_sample_weights_and_the_product_of_means() -> None:
    per_sample, weight = torch.tensor([0.1, 0.9]), torch.tensor([1.0, 0.2])
    assert float(losses.reduced(per_sample, weight, batch_mean=False)) == pytest.approx(0.14)
    assert float(losses.reduced(per_sample, weight, batch_mean=True)) == pytest.approx(0.30)


@pytest.mark.parametrize("anti", [False, True])
def test_self_paced_learning_orders_by_the_rankers_own_loss(anti: bool, data) -> None:
    training = start(make_run(pacing="linear", scoring="self_paced", delta=0.2, T=1.0, anti=anti), data)
    training.iterate()
    before = training.curriculum.sampler.order.copy()
    losses_now = training._instance_losses(3)
    training.iterate()
    order = training.curriculum.sampler.order
    assert not np.array_equal(order, before)
    assert (np.diff(losses_now[order[::-1]] if anti else losses_now[order]) >= 0).all()


def test_self_paced_weights_follow_the_rankers_own_loss(data) -> None:
    training = start(make_run(weighting="self_paced_mixture", scoring="self_paced", delta=0.5, m=9), data)
    training.iterate()
    losses_now = training._instance_losses(3)
    training.iterate()
    weighed = training.curriculum.weigher.losses
    assert weighed.loss.tolist() == losses_now.tolist() and weighed.threshold == np.quantile(losses_now, 0.5)
    assert training.history[1]["mean_weight"] < 1


def test_self_paced_learning_ends_with_the_curriculum(data) -> None:
    training = start(make_run(pacing="linear", scoring="self_paced", T=0.2), data)
    training.iterate()
    order = training.curriculum.sampler.order.copy()
    finish(training)
    assert np.array_equal(order, training.curriculum.sampler.order)


def test_the_code_weighs_what_is_outside_the_run_and_takes_every_grade_for_relevant() -> None:
    split = replace(split_of([2.0, 1.0, float("nan")]), grade=np.array([1, 2, 2], np.int16))
    found = {}
    for reference in ("paper", "code"):
        run = make_run(weighting="reciprocal_rank", reference=reference)
        run = run.model_copy(update={"evaluation": run.evaluation.model_copy(update={"relevance_level": 2})})
        found[reference] = make_weigher(run, split, make_instances(split, False, "all", 2), np.zeros(3))
    paper, code = found["paper"], found["code"]
    assert (paper.relevant.tolist(), code.relevant.tolist()) == ([False, True, True], [True, True, True])
    assert (paper.value.tolist(), code.value.tolist()) == ([1, 0.5, 0], [1, 0.5, 0.001])
    assert (paper.epsilon, code.epsilon) == (0, 1e-8)
    graded = run.model_copy(update={"training": run.training.model_copy(update={"loss": "mse"})})
    graded = graded.model_copy(update={"curriculum": make_run(weighting="reciprocal_rank").curriculum})
    weigher = make_weigher(graded, split, make_instances(split, False, "all", 2), np.zeros(3))
    assert weigher.relevant.tolist() == [True, True, True], "s > 0, where s is the grade that is learnt"


def test_the_objective_switches_at_its_share_of_the_steps() -> None:
    """.55 of 3,200 steps are 1,760, but slightly more in floating point."""
    few = make_run(objective_switch="mse", switch_at=0.4)  # of 15 steps
    assert [objective(few, step) for step in (0, 5, 6, 14)] == ["mse", "mse", "pairwise", "pairwise"]
    assert objective(make_run("hinge"), 0) == "hinge"
    run = make_run("pairwise", objective_switch="mse", switch_at=0.55)
    sizes = {"max_iterations": 100, "batches_per_iteration": 32}
    run = run.model_copy(update={"training": run.training.model_copy(update=sizes)})
    assert [objective(run, step) for step in (1759, 1760)] == ["mse", "pairwise"]
