"""What our adaptors remove from Ray's records, on Ray's own trial objects; no Ray runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from ray.train._internal.session import _TrainingResult
from ray.tune import Checkpoint
from ray.tune.experiment import Trial

from tune_cl.ray.tuner import CHECKPOINTS_PER_TRIAL, Deletions, _folder, _Recorder, _Rungs
from tune_cl.search.driver import SearchDriver

pytestmark = pytest.mark.slow


def trial(number: int) -> Any:
    made = Trial("a trainable", stub=True, config={"trial": f"t{number:04d}", "run": {"seed": 1}})
    made.evaluated_params = {"run/seed": 1}
    return made


def reported(ray_trial: Any, count: int) -> None:
    for number in range(1, count + 1):
        ray_trial.update_last_result({"training_iteration": number, "dev_map": 0.5, "trial_id": ray_trial.trial_id})


@pytest.fixture
def rungs() -> _Rungs:
    made = _Rungs()
    made.alive = []
    return made


def test_a_trial_that_has_ended_keeps_its_id_and_little_else(rungs: _Rungs) -> None:
    ended, failed, running, new = map(trial, range(4))
    for one in (ended, failed, running):
        rungs.on_trial_add(None, one)
        reported(one, 12)
    ended.set_status(Trial.TERMINATED)
    failed.set_status(Trial.ERROR)
    running.set_status(Trial.RUNNING)
    rungs.on_trial_add(None, new)
    for number, one in enumerate((ended, failed)):
        assert one.config == one._Trial__unresolved_config == {"trial": f"t{number:04d}"}
        assert one.run_metadata.last_result == one.metric_analysis == one.evaluated_params == {}
        assert one.experiment_tag == "" and one.run_metadata.checkpoint_manager.best_checkpoint_results == []
        assert one.get_json_state()  # as Ray does for its snapshot at the end
    assert running.config["run"] == {"seed": 1} and running.last_result["training_iteration"] == 12
    assert rungs.alive == [new, running]
    assert len({id(one.placement_group_factory) for one in (ended, failed, running, new)}) == 1


class Told:
    """The checkpoints that a search is told about."""

    def __init__(self) -> None:
        self.checkpoints: list[tuple[str, int, str]] = []

    def checkpoint(self, *told: Any) -> None:
        self.checkpoints.append(told)


def test_a_trial_keeps_two_checkpoints_and_the_others_are_to_be_deleted(rungs: _Rungs, tmp_path: Path) -> None:
    one, old, search = trial(0), Deletions(), Told()
    rungs.on_trial_add(None, one)
    recorder = _Recorder.beside(_Rungs.of(cast("SearchDriver", search), []), str(tmp_path), old)
    for number in range(1, 6):
        one.update_last_result({"training_iteration": number, "iteration": number, "trial_id": one.trial_id})
        saved = Checkpoint(str(tmp_path / str(number)))
        recorder.on_checkpoint(number, [one], one, saved)
        one.run_metadata.checkpoint_manager.register_checkpoint(_TrainingResult(saved, {}))
    assert [told[1] for told in search.checkpoints] == [1, 2, 3, 4, 5]
    books = one.run_metadata.checkpoint_manager.best_checkpoint_results
    assert [Path(kept.checkpoint.path).name for kept in books] == ["4", "5"] and len(books) == CHECKPOINTS_PER_TRIAL
    assert [Path(old.get() or "").name for _ in range(old.qsize())] == ["1", "2", "3"]


def test_of_a_trial_that_goes_on_the_checkpoint_of_the_pause_is_kept_too(rungs: _Rungs, tmp_path: Path) -> None:
    """A process that takes the trial over after a failure begins with it."""
    old, number, left = Deletions(), 0, []
    recorder = _Recorder.beside(_Rungs.of(cast("SearchDriver", Told()), []), str(tmp_path), old)
    for _ in range(3):  # each time as a new trial of Ray's
        one = trial(0)
        rungs.on_trial_add(None, one)
        for _ in range(3):
            number += 1
            one.update_last_result({"training_iteration": number, "iteration": number, "trial_id": one.trial_id})
            recorder.on_checkpoint(number, [one], one, Checkpoint(str(tmp_path / str(number))))
            left.append([Path(address).name for _, address in recorder.checkpoints[one.config["trial"]]])
    assert left == [
        ["1"], ["1", "2"], ["2", "3"], ["3", "4"], ["3", "4", "5"], ["3", "5", "6"], ["6", "7"], ["6", "7", "8"],
        ["6", "8", "9"],
    ]  # fmt: skip
    assert [Path(old.get() or "").name for _ in range(old.qsize())] == ["1", "2", "4", "3", "5", "7"]


def test_a_trial_keeps_no_means_of_its_last_results(rungs: _Rungs) -> None:
    one = trial(0)
    rungs.on_trial_add(None, one)
    reported(one, 12)
    assert set(one.metric_analysis["dev_map"]) == {"max", "min", "avg", "last"}


def test_a_trial_that_goes_on_has_a_folder_of_its_own() -> None:
    first, again = trial(7), trial(7)
    assert _folder(first).startswith("t0007-") and _folder(first) != _folder(again)
