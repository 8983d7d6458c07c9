"""Trials of several processes on real Ray: the numbers of one, lost workers, failures, resumes, confirmations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray

from tests.support.builders import tiny_data
from tests.support.training_runs import make_run
from trainables.config.keys import TrainingRun
from trainables.core.errors import WorkFailed
from trainables.training.checkpoint import save_iteration
from trainables.training.materials import Materials, materials_key, prepare
from trainables.training.trainer import Training
from trainables.workers import Group, Workers, WorkersTraining
from tune_cl.ray.session import ray_session

pytestmark = pytest.mark.slow
DATA = tiny_data(queries=24, candidates=6, seed=5)
PRECISE = {"precision": "fp32", "max_iterations": 5}


def run_of(ranker: str = "conv_knrm", seed: int = 1, **training: Any) -> TrainingRun:
    return make_run(ranker, seed, training=PRECISE | training, curriculum={"pacing": "linear"})


def numbers(training: Training | WorkersTraining) -> list[tuple[float, float]]:
    return [(row["train_loss"], row["dev_map"]) for row in training.history]


def finished(training: Any) -> Any:
    while not training.finished:
        training.iterate()
    return training


@pytest.fixture(scope="module")
def materials() -> Materials:
    return prepare(run_of(), DATA)


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    with ray_session(None):
        yield


@pytest.fixture(scope="module")
def shared(session: None, materials: Materials) -> dict[str, Any]:
    with_dropout = run_of("bi_encoder")
    made = {materials_key(run_of()): materials, materials_key(with_dropout): prepare(with_dropout, DATA)}
    return {key: ray.put(one) for key, one in made.items()}


@pytest.fixture(scope="module")
def workers(session: None) -> Iterator[Workers]:
    """Two of half a core, so that trials of other tests find room on two cores."""
    made = Workers(Group(workers=2, cpu=0.5, gpu=0, threads=1))
    yield made
    made.close()


def processes() -> list[psutil.Process]:
    """The workers' processes of this session."""
    below = psutil.Process().children(recursive=True)
    return [one for one in below if any("RayTrainWorker" in part for part in one.cmdline())]


def test_two_workers_compute_the_numbers_of_one_process(
    workers: Workers, shared: dict[str, Any], materials: Materials, tmp_path: Path
) -> None:
    """And go on from the checkpoint of one process, as one process goes on from theirs."""
    whole = finished(Training(run_of(), materials, "cpu"))
    begun = Training(run_of(), materials, "cpu")
    begun.iterate()
    begun.save(tmp_path)
    several = WorkersTraining(workers, run_of(), shared)
    several.load(tmp_path)
    assert several.iteration == 1
    several.iterate()
    state = save_iteration(tmp_path / "states", 2, several.snapshot())
    ended = finished(several)
    assert ended.pop_notes() == [] and "processes: 2" in ended.machine
    np.testing.assert_allclose(numbers(ended), numbers(whole), rtol=1e-3, atol=1e-3)
    assert ended.best_iteration == whole.best_iteration
    alone = Training(run_of(), materials, "cpu")
    alone.load(state)
    assert numbers(alone) == numbers(ended)[:2]
    np.testing.assert_allclose(numbers(finished(alone)), numbers(whole), rtol=1e-3, atol=1e-3)


def test_a_training_that_loses_a_worker_gives_the_numbers_of_an_unbroken_one(
    workers: Workers, shared: dict[str, Any]
) -> None:
    """All start again, from the last checkpoint; the iterations after it are made again."""
    unbroken = finished(WorkersTraining(workers, run_of("bi_encoder", 2), shared))
    training = WorkersTraining(workers, run_of("bi_encoder", 2), shared)
    training.iterate()
    training.snapshot()
    training.iterate()
    processes()[1].kill()
    assert numbers(finished(training)) == numbers(unbroken)
    assert training.pop_notes() == [
        "a process of the training was lost: all of its 2 started again and went on from iteration 1"
    ]


def test_a_loss_that_is_no_number_fails_the_training_and_leaves_the_workers(
    workers: Workers, shared: dict[str, Any]
) -> None:
    before = {one.pid for one in processes()}
    with pytest.raises(WorkFailed, match="training loss became nan in iteration"):
        finished(WorkersTraining(workers, run_of(lr=1e30, clip=1e30), shared))
    WorkersTraining(workers, run_of(), shared).iterate()
    assert {one.pid for one in processes()} == before
