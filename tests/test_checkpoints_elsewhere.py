"""Checkpoints at an address: a server of S3 on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from ray import tune

import tune_cl
from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from trainables.core import storage
from trainables.core.errors import ConfigError, Interrupted
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.state import replay

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket; `address(folder)` of it."""
    for name, value in {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    _, port = server.get_host_and_port()
    s3: Any = boto3.resource("s3", endpoint_url=f"http://127.0.0.1:{port}")
    made = s3.create_bucket(Bucket="runs")
    made.address = lambda folder: f"s3://runs/{folder}?scheme=http&endpoint_override=127.0.0.1:{port}"
    yield made
    server.stop()


class Results(tune.Callback):
    """Trial and iteration of each result. Stops the search as Ctrl-C does after so many."""

    def __init__(self, most: int):
        self.most = most
        self.heard: list[tuple[str, int]] = []

    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict[str, Any], **_: Any) -> None:
        self.heard.append((trial.config["trial"], result["iteration"]))
        if len(self.heard) == self.most:
            raise KeyboardInterrupt


def test_a_search_with_checkpoints_in_s3_goes_on_from_them(bucket: Any, tmp_path: Path) -> None:
    data = write_trec_folder(
        tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), tmp_path / "d"
    )
    (tmp_path / "toy.yaml").write_text(SPACE)
    runs, address, first, second = tmp_path / "runs", bucket.address("searches"), Results(5), Results(99)
    fresh_database(runs)
    with pytest.raises(Interrupted):
        tune_cl.run(
            str(tmp_path / "toy.yaml"), data=data, name="toy", trials=2, max_iterations=3, storage=runs,
            checkpoints=address, callbacks=[first], progress=False,
        )  # fmt: skip
    resumed = tune_cl.open_search("toy", storage=runs).resume(progress=False, callbacks=[second])
    assert first.heard[:4] == [("t0000", 1), ("t0000", 2), ("t0000", 3), ("t0001", 1)]
    assert {trial for trial, _ in second.heard} == {"t0001"} and second.heard[0][1] > 1
    trials = replay(read_events(runs / "toy" / FILE)).by_number()
    assert [trial.iterations for trial in trials] == [3, 3]
    assert all(path.startswith("s3://runs/searches/toy/session-") for path in trials[1].saved)
    left = [trial.trial for trial in trials if any(map(storage.exists, trial.saved))]
    assert left == [resumed.result.best] and not (runs / "toy" / "ray").exists()
    for wrong in (address, "s3://me:secret@runs/x", "s3://other-bucket/x?scheme=http&endpoint_override=127.0.0.1:1"):
        with pytest.raises(ConfigError, match="--checkpoints") as refused:
            storage.checkpoints_of("toy", wrong)
        assert "secret" not in str(refused.value)
