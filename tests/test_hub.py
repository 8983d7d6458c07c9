"""Names of the hub where there is no hub: an answer within seconds, and what the cache has still works."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from tests.support.console import Console
from tests.support.encoder_folders import save_encoder
from trainables.core import hub as reach
from trainables.core.errors import ConfigError
from trainables.rankers.library import loaded
from tune_cl.cli import FAILED

NOWHERE = "http://127.0.0.1:9"
ASKED = reach._asked


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
    monkeypatch.setattr(reach, "_asked", lambda endpoint: False)
    reach._answers.cache_clear()


def test_a_name_of_a_hub_that_cannot_be_reached_is_refused_at_once_in_one_line() -> None:
    started = time.perf_counter()
    with pytest.raises(ConfigError) as refused:
        loaded(SentenceTransformer, "someone/model")
    assert time.perf_counter() - started < 5
    (line,) = str(refused.value).splitlines()
    wrong = f"'someone/model' is not a folder and not in the cache, and the hub ({NOWHERE}) does not answer"
    assert line.startswith(f"error: ranker.model: {wrong}; tiny, or a folder")


@pytest.mark.parametrize("command", [["train"], ["run", "quickstart"], ["check", "quickstart"]])
def test_a_command_refuses_it_before_it_loads_anything(command: list[str], console: Console) -> None:
    options = ["--data", "docstrings", "--ranker", "bert", "--set", "ranker.model=someone/model"]
    (line,) = console.errors("", *command, *options)
    assert line.startswith("error: ranker.model: 'someone/model' is not a folder and not in the cache, and the hub")


def test_a_dataset_of_a_hub_that_cannot_be_reached_is_refused_in_one_line(console: Console) -> None:
    started = time.perf_counter()
    *_, line = console.call("data hf:someone/data", status=FAILED).err.splitlines()
    why = f"it is not in its cache, and the hub ({NOWHERE}) does not answer"
    assert line == f"error: datasets could not get 'someone/data': {why}"
    assert time.perf_counter() - started < 5


def test_an_encoder_in_the_cache_is_used_without_a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    entry = tmp_path / "hub/models--some--encoder"
    save_encoder("bert", tmp_path / "bert")
    shutil.copytree(tmp_path / "bert", entry / "snapshots" / ("a" * 40))
    (entry / "refs").mkdir()
    (entry / "refs/main").write_text("a" * 40)
    started = time.perf_counter()
    assert loaded(SentenceTransformer, "some/encoder").get_embedding_dimension() == 32
    assert time.perf_counter() - started < 5


@pytest.mark.slow
def test_a_hub_that_never_answers_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PATIENCE", 0.5)
    monkeypatch.setattr(reach, "_asked", ASKED)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.perf_counter()
        assert not reach.hub_answers() and not reach.hub_answers()
        assert 0.4 < time.perf_counter() - started < 2
