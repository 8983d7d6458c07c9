"""The training loop: it learns, is reproducible, resumes exactly, and leaves a ranker that reads new texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.builders import tiny_data
from tests.support.training_runs import make_run, start
from trainables.core.errors import DataError, WorkFailed
from trainables.data.columns import required_split
from trainables.evaluation.metrics import Evaluator
from trainables.training.checkpoint import (
    latest_iteration,
    save_iteration,
)
from trainables.training.losses import LOSSES, LossSettings
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.trainer import Training, decayed, rate_factor


@pytest.fixture(scope="module")
def data():
    return tiny_data(queries=24, candidates=6, seed=5)


def numbers(training: Training) -> list[tuple[float, float]]:
    """What must repeat exactly: dev value and loss of each iteration (times are not)."""
    return [(row["dev_map"], row["train_loss"]) for row in training.history]


def finish(training: Training) -> Training:
    while not training.finished:
        training.iterate()
    return training


def test_the_seed_decides_the_numbers(data) -> None:
    assert numbers(finish(start(make_run(seed=3), data))) == numbers(finish(start(make_run(seed=3), data)))
    assert numbers(finish(start(make_run(seed=3), data))) != numbers(finish(start(make_run(seed=4), data)))


def test_training_learns(data) -> None:
    training = start(
        make_run("bert", training={"max_iterations": 8, "batches_per_iteration": 8, "batch_size": 16}), data
    )
    train = required_split(data, "train")
    evaluator = Evaluator(train, data.document_ids)
    assert evaluator(training.score(train), ["map"])["map"].mean() < 0.7
    finish(training)
    assert evaluator(training.score(train), ["map"])["map"].mean() > 0.9


def test_patience_ends_a_training(data) -> None:
    training = start(make_run(training={"max_iterations": 50, "patience": 2, "lr": 1e-9}), data)
    finish(training)
    assert training.iteration == training.best_iteration + 2 < 50


def test_a_loss_that_is_no_number_is_a_failure_with_advice(data) -> None:
    training = start(make_run(), data)
    with torch.no_grad():
        next(p for p in training.module.parameters() if p.requires_grad).fill_(float("nan"))
    with pytest.raises(WorkFailed, match=r"training loss became nan in iteration 1; a lower training.lr"):
        training.iterate()


def test_state_of_another_configuration_is_refused(data, tmp_path: Path) -> None:
    training = start(make_run(seed=1), data)
    training.iterate()
    training.save(tmp_path)
    with pytest.raises(DataError, match="another configuration"):
        start(make_run(seed=2), data).load(tmp_path)


def test_a_folder_that_is_no_ranker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a trained ranker; a folder with"):
        load_ranker_folder(tmp_path)
    (tmp_path / "ranker").mkdir()
    with pytest.raises(DataError, match=f"is not a trained ranker; {tmp_path / 'ranker'}"):
        load_ranker_folder(tmp_path)
    (tmp_path / "tune_cl.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        load_ranker_folder(tmp_path)


def test_only_the_newest_state_is_kept_and_it_is_whole(tmp_path: Path) -> None:
    for iteration in (1, 2, 11):
        save_iteration(tmp_path, iteration, lambda folder: (folder / "a").write_text(folder.name) and None)
    assert [path.name for path in tmp_path.iterdir()] == ["iteration-00011"]

    def killed(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_iteration(tmp_path, 12, killed)
    latest = latest_iteration(tmp_path)
    assert latest is not None and list(tmp_path.iterdir()) == [latest]
    assert latest.name == "iteration-00011"


def test_batches_sorted_by_length_hold_the_samples_of_unsorted_ones(data) -> None:
    run = make_run(training={"negatives": "all"})
    plain, windowed = (start(run, data).batcher for _ in range(2))
    plain.window = 1
    pairs = [
        sorted(
            zip(
                np.concatenate([b.positive for b in batches]),
                np.concatenate([b.negative for b in batches]),
                strict=True,
            )
        )
        for batches in (list(plain.batches(0, 4)), list(windowed.batches(0, 4)))
    ]
    assert pairs[0] == pairs[1]
    spans = [np.ptp(windowed._costs(b.positive, b.negative)) for b in windowed.batches(0, 4)]
    unsorted = [np.ptp(plain._costs(b.positive, b.negative)) for b in plain.batches(0, 4)]
    assert sum(spans) < sum(unsorted)


def test_negatives_are_drawn_anew_by_seed_and_step(data) -> None:
    """The instances are the same each time; only the negatives drawn for them differ."""

    def negatives(seed: int, step: int) -> list[int]:
        batcher = start(make_run(), data).batcher
        batcher.seed = seed
        batcher.curriculum.sampler.draw = lambda step, batches, size: np.arange(len(batcher.instances))[None]
        [batch] = batcher.batches(step, 1)
        return batch.negative.tolist()

    assert negatives(1, 0) == negatives(1, 0)
    assert negatives(1, 0) != negatives(2, 0) and negatives(1, 0) != negatives(1, 1)


@pytest.mark.parametrize(("name", "expected"), [("pairwise", 0.26894), ("cross_entropy", 0.31326), ("hinge", 0.5)])
def test_known_pairwise_losses(name: str, expected: float) -> None:
    loss = LOSSES[name].function(torch.tensor([2.0]), torch.tensor([1.0]), LossSettings(margin=1.5))
    assert float(loss) == pytest.approx(expected, abs=1e-5)


def test_smoothed_labels_give_each_document_its_share_of_the_target() -> None:
    """Szegedy et al. 2016, section 7: of two documents the positive keeps 1 - ε / 2; of N, 1 - ε + ε / N."""
    smooth, plain = LossSettings(label_smoothing=0.2), LossSettings(label_smoothing=0.0)
    pair = (torch.tensor([2.0]), torch.tensor([1.0]))  # -log of their probabilities: .31326 and 1.31326
    assert float(LOSSES["cross_entropy"].function(*pair, smooth)) == pytest.approx(
        0.9 * 0.31326 + 0.1 * 1.31326, abs=1e-5
    )
    of_two = LOSSES["softmax"].function(torch.stack(pair, 1), None, smooth)
    torch.testing.assert_close(of_two, LOSSES["cross_entropy"].function(*pair, smooth))
    scores = torch.randn(50, 8, generator=torch.Generator().manual_seed(0)) * 5
    target = torch.full((8,), 0.2 / 8)
    target[0] += 0.8
    expected = torch.nn.functional.cross_entropy(scores, target.expand(50, 8), reduction="none")
    torch.testing.assert_close(LOSSES["softmax"].function(scores, None, smooth), expected)
    assert torch.equal(LOSSES["softmax"].function(scores, None, plain), -scores.log_softmax(1)[:, 0])
    unsmoothed = LOSSES["cross_entropy"].function(scores[:, 0], scores[:, 1], plain)
    assert torch.equal(unsmoothed, torch.nn.functional.softplus(scores[:, 1] - scores[:, 0]))


def test_rate_rises_then_falls() -> None:
    run = make_run(training={"warmup": 0.25, "schedule": "linear", "max_iterations": 4, "batches_per_iteration": 5})
    rates = [rate_factor(run, step) for step in range(20)]
    assert np.argmax(rates) == 5 and rates[5] == pytest.approx(1)
    assert (np.diff(rates[:6]) > 0).all() and (np.diff(rates[5:]) < 0).all() and rates[-1] > 0
    assert rate_factor(make_run(), 11) == 1


def test_the_cosine_is_that_of_transformers() -> None:
    from transformers import get_cosine_schedule_with_warmup

    run = make_run(training={"warmup": 0.25, "schedule": "cosine", "max_iterations": 4, "batches_per_iteration": 5})
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_cosine_schedule_with_warmup(optimizer, 5, 20).lr_lambdas[0]
    assert [rate_factor(run, step) for step in range(5, 20)] == pytest.approx([theirs(step) for step in range(5, 20)])
    assert rate_factor(run, 0) < rate_factor(run, 4) < 1


def test_biases_and_norms_do_not_decay() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.RMSNorm(4))
    groups = decayed(module, [{"params": list(module.parameters()), "lr": 0.5}], 0.1)
    spared = {id(p) for group in groups if group.get("weight_decay") == 0 for p in group["params"]}
    assert spared == {id(p) for p in module.parameters()} - {id(module[0].weight)}
    assert [group["lr"] for group in groups] == [0.5, 0.5]
    plain = [{"params": list(module.parameters()), "lr": 0.5}]
    assert decayed(module, plain, 0.0) is plain
