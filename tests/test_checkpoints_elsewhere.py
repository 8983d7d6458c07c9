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
    made = boto3.resource("s3", endpoint_url=f"http://127.0.0.1:{port}").create_bucket(Bucket="runs")
    made.address = lambda folder: f"s3://runs/{folder}?scheme=http&endpoint_override=127.0.0.1:{port}"
    yield made
    server.stop()


class StopsAfter(tune.Callback):
    """As Ctrl-C after so many results."""

    def __init__(self, results: int):
        self.left = results

    def on_trial_result(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_search_with_checkpoints_in_s3_goes_on_from_them(bucket: Any, tmp_path: Path) -> None:
    data = write_trec_folder(
        tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), tmp_path / "d"
    )
    (tmp_path / "toy.yaml").write_text(SPACE)
    fresh_database(tmp_path / "runs")
    options: dict[str, Any] = {"data": data, "trials": 2, "max_iterations": 3, "progress": False}
    options |= {"storage": tmp_path / "runs"}
    unbroken = tune_cl.run(str(tmp_path / "toy.yaml"), name="here", **options)
    with pytest.raises(Interrupted):
        address, stop = bucket.address("searches"), StopsAfter(5)
        tune_cl.run(str(tmp_path / "toy.yaml"), name="there", checkpoints=address, callbacks=[stop], **options)
    resumed = tune_cl.open_search("there", storage=tmp_path / "runs").resume(progress=False)
    assert resumed.trials.drop(columns="seconds").equals(unbroken.trials.drop(columns="seconds"))
    state = replay(read_events(tmp_path / "runs" / "there" / FILE))
    [t0, t1] = state.by_number()
    assert all(path.startswith("s3://runs/searches/there/session-") for path in t1.every_checkpoint)
    best = resumed.result.best
    kept = [trial.trial for trial in (t0, t1) if any(map(storage.exists, trial.every_checkpoint))]
    assert kept == [best] and not (tmp_path / "runs" / "there" / "ray").exists()
    for wrong in (address, "s3://me:secret@runs/x", "s3://other-bucket/x?scheme=http&endpoint_override=127.0.0.1:1"):
        with pytest.raises(ConfigError, match="--checkpoints") as refused:
            storage.checkpoints_of("there", wrong)
        assert "secret" not in str(refused.value)
