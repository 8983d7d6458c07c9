"""Toys whose trials consist of several processes of Ray Train that compute nothing and note where they are."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from threading import Thread
from typing import Any

import ray
import ray.train
from ray.train import RunConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from tests.support.toys import Toy
from trainables.command_queue import Group
from trainables.workers import scaling_of


def note_place(config: dict[str, str]) -> None:
    """What each process of the group does: it notes its node and GPUs, and stays until the trial ends."""
    rank = ray.train.get_context().get_world_rank()
    place = {"node": ray.get_runtime_context().get_node_id(), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", "")}
    note = Path(config["trial"]) / f"{rank}.json"
    note.with_suffix(".part").write_text(json.dumps(place))
    note.with_suffix(".part").rename(note)
    while not (Path(config["trial"]) / "end").exists():
        time.sleep(0.05)


class Grouped(Toy):
    """The first step waits until all processes of the trial are there, and the last one ends them."""

    def setup(self, config: dict[str, Any], prepared: dict[str, Any], group: Group | None = None, **_: Any) -> None:
        assert group is not None
        self.group = group
        super().setup(config, {key: ray.get(one) for key, one in prepared.items()})

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.places = Path(self.folder) / f"{new_config['trial']}.places"
        self.places.mkdir(exist_ok=True)
        self.thread = Thread(target=self.run_group)
        self.thread.start()
        return super().reset_config(new_config)

    def run_group(self) -> None:
        DataParallelTrainer(
            note_place,
            train_loop_config={"trial": str(self.places)},
            scaling_config=scaling_of(self.group),
            run_config=RunConfig(name="toy", storage_path=str(self.places)),
        ).fit()

    def step(self) -> dict[str, Any]:
        while len(list(self.places.glob("*.json"))) < self.group.workers:
            time.sleep(0.05)
        result = super().step()
        if result["done"]:
            (self.places / "end").touch()
            self.thread.join()
        return result
