"""A search behind Ray Tune's interfaces: results, checkpoints, and what Ray keeps of trials."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, cast

import pytest
from ray.tune import Checkpoint, ExperimentAnalysis
from ray.tune.experiment import Trial
from ray.tune.logger import TBXLoggerCallback

import tune_cl
from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from trainables.training.conclusion import RUN
from tune_cl.process import stoppable
from tune_cl.ray.tuner import Decisions, Order, Recorder, Session
from tune_cl.search.trials import Trials


class Heard:
    """What a search is told."""

    def __init__(self, recorded: dict[str, list[str]] | None = None) -> None:
        self.checkpoints: list[tuple[str, int, str]] = []
        self.results: list[tuple[str, int]] = []
        self.earlier = recorded or {}
        self.broken: Exception | None = None

    def recorded(self) -> dict[str, list[str]]:
        return self.earlier

    def unneeded(self) -> list[str]:
        return []

    def checkpoint(self, *told: Any) -> None:
        self.checkpoints.append(told)

    def result(self, trial: str, metrics: dict[str, Any]) -> bool:
        if self.broken:
            raise self.broken
        self.results.append((trial, metrics["iteration"]))
        return metrics["iteration"] < 2


def session(folder: Path, heard: Heard) -> Session:
    return Session(cast(Trials, heard), lambda: 1, str(folder))


def trial(number: int, checkpoint: str | None = None) -> Any:
    config = {"trial": f"t{number:04d}", "checkpoint": checkpoint, "training.lr": 0.1, RUN: "{}"}
    made = Trial("a trainable", stub=True, config=config)
    made.evaluated_params = dict(config)
    return made


def reported(ray_trial: Any, count: int) -> None:
    for number in range(1, count + 1):
        ray_trial.update_last_result({"training_iteration": number, "dev_map": 0.5, "trial_id": ray_trial.trial_id})


def test_each_result_is_heard_once_and_an_error_ends_the_search(tmp_path: Path) -> None:
    heard = Heard()
    shared = session(tmp_path, heard)
    shared.names["ray-1"] = "t0001"
    decisions, recorder = Decisions(shared), Recorder(shared)
    assert [decisions("ray-1", {"iteration": at, "done": at == 3}) for at in (1, 2, 3)] == [False, True, True]
    assert heard.results == [("t0001", 1), ("t0001", 2), ("t0001", 3)]
    heard.broken = OSError("the disk is full")
    assert not decisions("ray-1", {"iteration": 4})
    heard.broken = None
    assert not decisions("ray-1", {"iteration": 5}) and len(heard.results) == 3, "nothing is heard after an error"
    with pytest.raises(OSError, match="the disk is full"):
        recorder.on_step_end(1, [])


def test_a_signal_whose_exception_was_lost_ends_the_search_at_rays_next_step(tmp_path: Path) -> None:
    recorder = Recorder(session(tmp_path, Heard()))
    with stoppable():
        recorder.on_step_end(1, [])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            recorder.on_step_end(2, [])


def test_two_checkpoints_are_kept_and_the_one_that_a_trial_began_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a pause a trial is a new one to Ray, and a process that takes it over after a failure begins with the
    checkpoint of the pause. Those of a copied search's original are nobody's."""
    folders = [tmp_path / str(number) for number in range(7)]
    for folder in folders[1:]:
        folder.mkdir()
    folders[0].touch()  # cannot be deleted as a folder
    earlier = [*map(str, folders[:3])]
    heard = Heard({"t0000": ["/elsewhere/1", *earlier]})
    recorder = Recorder(session(tmp_path, heard))
    one = trial(0, checkpoint=earlier[1])
    for number in range(3, 7):
        one.update_last_result({"iteration": number, "training_iteration": number, "trial_id": one.trial_id})
        recorder.on_checkpoint(number, [one], one, Checkpoint(str(folders[number])))
    assert [told[1] for told in heard.checkpoints] == [3, 4, 5, 6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "5", "6"]
    assert [Path(address).name for address in recorder.session.saved["t0000"]] == ["1", "5", "6"]
    [told] = caplog.messages
    assert told.startswith(f"the old checkpoint {folders[0]} could not be deleted: ")


def test_a_trial_that_has_ended_keeps_its_parameters_and_its_last_result() -> None:
    order = Order()
    ended, running, new = map(trial, range(3))
    for one in (ended, running):
        order.on_trial_add(None, one)
        reported(one, 12)
    ended.set_status(Trial.TERMINATED)
    order.on_trial_add(None, new)
    assert ended.config == {"trial": "t0000", "checkpoint": None, "training.lr": 0.1}
    assert ended.last_result["dev_map"] == 0.5 and ended.metric_analysis == ended.evaluated_params == {}
    assert ended.get_json_state()  # as Ray does for its snapshot at the end
    assert running.config[RUN] and order.alive == [new, running]
    assert len({id(one.placement_group_factory) for one in (ended, running, new)}) == 1


def test_a_trial_keeps_no_means_of_its_last_results() -> None:
    one = trial(0)
    Order().on_trial_add(None, one)
    reported(one, 12)
    assert set(one.metric_analysis["dev_map"]) == {"max", "min", "avg", "last"}


@pytest.mark.slow
def test_a_search_takes_rays_loggers_and_is_read_by_its_analysis(tmp_path: Path) -> None:
    data = write_trec_folder(
        tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), tmp_path / "d"
    )
    (tmp_path / "toy.yaml").write_text(SPACE)
    fresh_database(tmp_path / "runs")
    searched = tune_cl.run(
        str(tmp_path / "toy.yaml"), data=data, name="toy", trials=2, max_iterations=2, storage=tmp_path / "runs",
        callbacks=[TBXLoggerCallback()], progress=False,
    )  # fmt: skip
    folder = tmp_path / "runs" / "toy" / "ray" / "session-1"
    assert len(list(folder.glob("*/events.out.tfevents.*"))) == 2
    analysis = ExperimentAnalysis(str(folder))
    configs = {config["trial"]: config for config in analysis.get_all_configs().values()}
    by_trial = searched.trials.set_index("trial_id")
    assert set(configs) == set(by_trial.index)
    assert {name: config["curriculum.pacing"] for name, config in configs.items()} == dict(
        by_trial["curriculum.pacing"]
    )
    assert not any(isinstance(value, dict) for config in configs.values() for value in config.values())
    table = analysis.dataframe(metric="dev_map", mode="max").set_index("config/trial")
    assert dict(table["dev_map"]) == pytest.approx(dict(by_trial.dev))
