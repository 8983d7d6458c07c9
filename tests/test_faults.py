"""Faults of the driver, its disk and its checkpoints, counted exactly; trainings are simulated or tiny."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests.support.tiny_trial import run_in, tiny_trial
from tests.support.toy_search import ToyTrainer, experiment, summary
from tests.support.tracking_cases import delivered, fresh_database, search_event
from trainables import ranker_trainable
from trainables.core.errors import WorkFailed
from trainables.ranker_trainable import RankerTrainable
from trainables.training.checkpoint import TENSORS
from trainables.training.prepared import prepare, prepared_key
from tune_cl.experiment.arms import ARMS
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.inputs import RankerArtifacts as Artifacts

__all__ = ["experiment"]  # a fixture


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return resolve_tracking_uri(fresh_database(tmp_path_factory.mktemp("database")))


def in_mlflow(uri: str, journal: Path) -> dict[str, list[tuple[int, float]]]:
    """The dev value's points by trial, each run's as they were sent; fails if a trial has two runs."""
    client = MlflowClient(uri)
    search = next(read_events(journal))
    experiment = client.get_experiment_by_name(search["space"])
    assert experiment is not None
    found: dict[str, list[tuple[int, float]]] = {}
    for run in client.search_runs([experiment.experiment_id]):
        if (trial := run.data.tags.get("tune_cl.trial_id")) is not None:
            assert trial not in found, f"two runs of {trial}"
            points = client.get_metric_history(run.info.run_id, "dev_map")
            found[trial] = sorted((point.step, point.value) for point in points)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_driver_killed_at_a_random_byte_goes_on_exactly(
    seed: int, experiment: Experiment, database: str, tmp_path: Path
) -> None:
    """The journal may end within a line, and MLflow has events up to some point before that."""
    whole = ToyTrainer(tmp_path / "whole", experiment).work()
    expected = summary(tmp_path / "whole")
    begun, _, rest = (tmp_path / "whole" / FILE).read_text().partition("\n")
    known = {key: value for key, value in json.loads(begun).items() if value}
    search = search_event("") | known | {"space": f"bytes-{seed}"}
    written = f"{json.dumps(search)}\n{rest}".encode()
    rng = random.Random(seed)
    told, end = sorted(rng.randrange(written.index(b"\n") + 1, len(written)) for _ in range(2))
    journal = tmp_path / "cut" / FILE
    journal.parent.mkdir()
    journal.write_bytes(written[:told])
    delivered(journal, database)
    journal.write_bytes(written[:end])
    resumed = ToyTrainer(journal.parent, experiment).work()
    assert summary(journal.parent) == expected
    for arm in ARMS:
        theirs, ours = (search.progress.schedulers[arm] for search in (resumed.search, whole.search))
        assert vars(theirs) == vars(ours)
    delivered(journal, database)
    assert in_mlflow(database, journal) == {trial: sorted(dev.items()) for trial, (*_, dev) in expected.items()}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tiny_trial(tmp_path_factory.mktemp("data"))


def trained(config: dict[str, Any], folder: Path, checkpoint: Path | None = None) -> list[dict[str, Any]]:
    """Results up to the end; each leaves a checkpoint in `folder`."""
    trainable, results = RankerTrainable(config | {"checkpoint": str(checkpoint) if checkpoint else None}), []
    while not (results and results[-1]["done"]):
        results.append(trainable.step())
        to = folder / f"checkpoint_{results[-1]['iteration']:06d}"
        to.mkdir(parents=True)
        trainable.save_checkpoint(str(to))
    return results


def test_a_training_that_cannot_be_made_fails_at_once_and_the_next_begins(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune must not retry it: a ranker that does not fit will not fit the second time either."""

    def refuse(*_: Any) -> None:
        raise WorkFailed("does not fit")

    with monkeypatch.context() as patch:
        patch.setattr(ranker_trainable, "make_training", refuse)
        trainable = RankerTrainable(config | {"checkpoint": None})
        result = trainable.train()
        assert (result["failed"], result["done"]) == ("does not fit", True)
        trainable.save(str(tmp_path))
        trainable.load_checkpoint(str(tmp_path))  # as Tune restores a trial whose process died
    assert trainable.reset_config(config | {"checkpoint": None}) and "failed" not in trainable.step()


def dev(results: list[dict[str, Any]]) -> dict[int, float]:
    return {result["iteration"]: result["dev_map"] for result in results}


def plant_pickle(folder: Path) -> None:
    """A pickle that makes a folder when it is read."""
    for name in (TENSORS, "state.json"):
        (folder / name).write_bytes(f"cos\nmkdir\n(S'{folder}/executed'\ntR.".encode())


@pytest.mark.parametrize("damage", [plant_pickle, shutil.rmtree])
def test_a_trial_whose_checkpoint_is_damaged_begins_anew_and_says_so(
    damage: Callable[[Path], None], config: dict[str, Any], tmp_path: Path
) -> None:
    whole = trained(config, tmp_path / "a")
    assert not any("note" in result for result in whole)
    last = tmp_path / "a" / "checkpoint_000004"
    damage(last)
    again = trained(config, tmp_path / "b", last)
    assert dev(again) == dev(whole) and "checkpoint_000004 is damaged" in again[0]["note"]
    assert not list(tmp_path.rglob("executed"))


@pytest.mark.parametrize("whole", [1, 0])
def test_a_trial_whose_last_checkpoint_is_damaged_as_it_ends_leaves_files_of_the_one_before(
    whole: int, config: dict[str, Any], experiment: Experiment, tmp_path: Path
) -> None:
    """Ray keeps its last two checkpoints, of which `whole` are undamaged; the search goes on in any case."""
    run = run_in(config)
    trained(config, tmp_path / "ray")
    artifacts = Artifacts(tmp_path / "trials", {prepared_key(run): prepare(run)})
    kept = [tmp_path / "ray" / f"checkpoint_{number:06d}" for number in (3, 4)]
    for folder in kept[whole:]:
        (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes()[:-7])
    trainer = ToyTrainer(tmp_path / "a", experiment)
    trainer.search.artifacts = lambda trial, checkpoint, _: artifacts(trial, checkpoint, run)
    trainer.search.next_trial()
    for iteration, folder in zip((3, 4), kept, strict=True):
        trainer.search.checkpoint("t0000", iteration, str(folder))
    trainer.search.ended("t0000")
    trial = trainer.search.state.trials["t0000"]
    ranker = trainer.search.from_sound_checkpoint(trial, lambda checkpoint: artifacts.ranker(checkpoint, run))
    trainer.journal.close()
    assert trial.outcome == "baseline"
    assert trial.artifacts == (str(tmp_path / "trials" / "t0000") if whole else None)
    assert ranker == (str(tmp_path / "trials" / "best-ranker") if whole else None)
    notes = [event["text"] for event in read_events(trainer.journal.path) if event["event"] == "note"]
    damaged = [str(folder) for folder in reversed(kept[whole:])] * 2  # once for its files, once for its ranker
    assert [text.split(" is damaged")[0] for text in notes] == damaged
    assert (tmp_path / "trials" / "t0000" / "dev.per_query.tsv").exists() == bool(whole)
