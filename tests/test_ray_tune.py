"""What our adaptors take from Ray's books, on Ray's own trial objects; no Ray runs."""

from __future__ import annotations

from typing import Any

import pytest
from ray.tune.experiment import Trial

from tune_cl.search.ray_tune import KEPT, _folder, _Rungs


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
        assert one.get_json_state()  # Ray's snapshot at the end
    assert running.config["run"] == {"seed": 1} and running.last_result["training_iteration"] == 12
    assert rungs.alive == [new, running]


def test_a_trial_keeps_two_checkpoints_and_no_means_of_its_last_results(rungs: _Rungs) -> None:
    one = trial(0)
    rungs.on_trial_add(None, one)
    reported(one, 12)
    assert one.run_metadata.checkpoint_manager.checkpoint_config.num_to_keep == KEPT
    assert set(one.metric_analysis["dev_map"]) == {"max", "min", "avg", "last"}


def test_a_trial_that_goes_on_has_a_folder_of_its_own() -> None:
    first, again = trial(7), trial(7)
    assert _folder(first).startswith("t0007-") and _folder(first) != _folder(again)
