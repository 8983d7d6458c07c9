"""Trials of several processes on real Ray: the numbers of one, lost workers, failures, resumes, confirmations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray

from tests.support.builders import tiny_data
from tests.support.confirm_cases import confirm_run, read_values
from tests.support.panel_states import state_of
from tests.support.toy_trainable import search_event
from tests.support.training_runs import make_run
from trainables.command_queue import Group, new_cleaner
from trainables.config.keys import TrainingRun
from trainables.core.errors import WorkFailed
from trainables.training.checkpoint import save_iteration
from trainables.training.prepared import PreparedData, prepare, prepared_key
from trainables.training.trainer import Training
from trainables.workers import Workers, WorkersTraining
from tune_cl.confirmation.request import Configuration, SeedRun
from tune_cl.confirmation.trainings import Trainings
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.journal import FILE, Journal, read_events
from tune_cl.history.state import SearchState
from tune_cl.ray import tuner as ray_tune
from tune_cl.search.driver import SearchDriver

pytestmark = pytest.mark.slow
CPUS = 2  # of the local Ray: a training takes two
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
def prepared() -> PreparedData:
    return prepare(run_of(), DATA)


@pytest.fixture(scope="module")
def shared(local_ray: str, prepared: PreparedData) -> dict[str, Any]:
    with_dropout = run_of("bi_encoder")
    made = {prepared_key(run_of()): prepared, prepared_key(with_dropout): prepare(with_dropout, DATA)}
    return {key: ray.put(one) for key, one in made.items()}


@pytest.fixture(scope="module")
def workers(local_ray: str) -> Iterator[Workers]:
    made = Workers(Group(workers=2, cpu=1, gpu=0, threads=1), new_cleaner())
    yield made
    made.close()


def processes(name: str = "RayTrainWorker") -> list[psutil.Process]:
    """The workers' processes of this session, or others of Ray's."""
    below = psutil.Process().children(recursive=True)
    return [one for one in below if any(name in part for part in one.cmdline())]


def test_two_workers_compute_the_numbers_of_one_process(
    workers: Workers, shared: dict[str, Any], prepared: PreparedData, tmp_path: Path
) -> None:
    """And go on from the checkpoint of one process, as one process goes on from theirs."""
    whole = finished(Training(run_of(), prepared, "cpu"))
    begun = Training(run_of(), prepared, "cpu")
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
    alone = Training(run_of(), prepared, "cpu")
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


SEARCH = """
data: docstrings
ranker: {name: conv_knrm, vector_size: 16, filters: 8}
curriculum: {pacing: linear, delta: {uniform: [0.1, 0.9]}}
training: {lr: [1e-3, 5e-4], max_iterations: 4, batches_per_iteration: 2, batch_size: 8, precision: fp32}
search: {trials: 4, scheduler: asha, grace: 1, reduction_factor: 2, resources: {workers: 2}}
"""


class Killed(Exception):
    """The driver died."""


def test_a_search_with_trials_of_two_processes_survives_the_loss_of_one_and_of_its_driver(
    workers: Workers, tmp_path: Path
) -> None:
    """And pauses and goes on. The numbers are those of trials of one process."""
    killed: list[psutil.Process] = []

    def kill_once(state: SearchState) -> None:
        if not killed and state.iterations >= 2 and (found := processes("Trainable")):
            killed.append(found[0])
            found[0].kill()

    def die(state: SearchState) -> None:
        kill_once(state)
        if state.iterations == 6:
            raise Killed

    workers.close()  # else it would wait for their cores
    (tmp_path / "space.yaml").write_text(SEARCH)
    experiment = load_experiment(str(tmp_path / "space.yaml"))
    prepared = prepare(experiment.base_ranker, DATA)
    folder, shared = tmp_path / "search", {prepared_key(experiment.base_ranker): prepared}

    def session(watch: Callable[[SearchState], None]) -> SearchState:
        with Journal(folder) as journal:
            if not journal.path.stat().st_size:
                journal.append(search_event(experiment, folder))
            search = SearchDriver(experiment, journal, 1, lambda trial, checkpoint, run: Path(checkpoint), watch)
            resources = experiment.search.resources
            ray_tune.run_trials(
                search,
                shared,
                resources,
                str(folder),
                f"session-{search.state.iterations}",
                lambda: 1,
            )
            return search.state

    with pytest.raises(Killed):
        session(die)
    trials = session(kill_once).by_number()
    assert len(killed) == 1 and trials[0].outcome == "baseline"
    assert [trial.arm for trial in trials] == ["plain", "curriculum", "curriculum", "plain"]
    assert [trials[1].twin, trials[2].twin] == ["t0000", "t0003"], "one rate is the default's, the other is new"
    events = read_events(folder / FILE)
    assert any(event["event"] == "pause" for event in events), "no trial paused"
    assert any("processes: 2" in event["text"] for event in events if event["event"] == "machine")
    for trial in trials:
        alone = Training(experiment.ranker_run(trial.point, trial.seed), prepared, "cpu")
        for iteration in sorted(trial.results):
            alone.iterate()
            seen, expected = trial.results[iteration], alone.history[-1]
            place = f"{trial.trial}, iteration {iteration}"
            # gradients are summed in another order: 1e-7 grows to 3e-2 in four iterations; other batches differ by 1e-1
            near = {1: 1e-5, 2: 1e-3}.get(iteration, 5e-2)
            assert seen["train_loss"] == pytest.approx(expected["train_loss"], rel=near), place
            if iteration == 1:
                assert seen["dev_map"] == pytest.approx(expected["dev_map"], abs=1e-3), place


def test_a_confirmation_trains_with_two_processes_what_one_would(
    workers: Workers, prepared: PreparedData, tmp_path: Path
) -> None:
    """Both trainings by the same two."""
    workers.close()
    configuration, resources = Configuration("plain", "t0000", {}, {}), Resources(workers=2)
    runs = [SeedRun(configuration, seed, run_of(seed=seed), "test", tmp_path / str(seed)) for seed in (1, 2)]
    ended: list[str | None] = []
    shown: list[SearchState] = []
    with Journal(tmp_path / "journal") as journal:
        trainings = Trainings(
            iter([runs]), journal, resources, {}, lambda run, why: ended.append(why), state_of([]), shown.append
        )
        shared = {prepared_key(run_of()): prepared}
        ray_tune.run_trials(trainings, shared, resources, str(tmp_path / "ray"), "confirmation", lambda: 1)
    assert ended == [None, None]
    assert [trial.outcome for trial in shown[-1].by_number()] == ["completed", "completed"]
    confirm_run(run_of(), prepared, tmp_path / "alone", "test")
    values = [read_values(tmp_path / name, "test", "map") for name in ("1", "alone")]
    np.testing.assert_allclose(*values, atol=1e-3)
    files = [{path.name for path in (tmp_path / name).rglob("*")} for name in ("1", "alone")]
    assert files[0] == files[1]
