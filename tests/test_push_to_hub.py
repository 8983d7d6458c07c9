"""Rankers on the hub of Hugging Face: what their cards say to it, and that they arrive whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

import tune_cl
from tests.support.builders import tiny_data
from tests.support.encoder_folders import save_encoder
from tests.support.hub_server import TOKEN, Hub, local_hub
from tests.support.trec_folder import write_trec_folder
from trainables.core import hub as reach
from trainables.core.errors import ConfigError

pytestmark = pytest.mark.slow  # a server

SMALL = {"training.max_iterations": 1, "training.batches_per_iteration": 2, "training.max_length": 24}
PAIRS = [("a query", "a document"), ("another", "one more document")]
BASE_CARD = "---\nlicense: apache-2.0\nbase_model: someone/encoder\n---\n# An encoder\n"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # its client is not Python's
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with local_hub() as there:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", there.address)
        yield there
    reach._answers.cache_clear()


@pytest.fixture
def ranker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tune_cl.Ranker:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = write_trec_folder(tiny_data(queries=6, turns=1), tmp_path / "data")
    save_encoder("bert", tmp_path / "start")
    (tmp_path / "start/README.md").write_text(BASE_CARD)
    keys = SMALL | {"ranker.model": str(tmp_path / "start")}
    tune_cl.train(data=data, ranker="bi_encoder", overrides=keys, output=tmp_path / "out", progress=False, test=True)
    return tune_cl.load_ranker(tmp_path / "out/ranker")


def test_the_card_tells_the_hub_start_and_license(ranker: tune_cl.Ranker) -> None:
    card = ModelCard.load(ranker.folder / "README.md")
    data = card.data
    assert (data.library_name, data.license, data.base_model) == (
        "sentence-transformers", "apache-2.0", "someone/encoder",
    )  # fmt: skip
    assert data.pipeline_tag == "sentence-similarity" and "| test map | " in card.text


def test_a_ranker_arrives_whole(ranker: tune_cl.Ranker, hub: Hub, tmp_path: Path) -> None:
    address = ranker.push_to_hub("tester/mine", private=True, license="mit")
    assert address == f"{hub.address}/tester/mine" and hub.private == {"tester/mine"}
    here = {
        str(path.relative_to(ranker.folder)): path.read_bytes() for path in ranker.folder.rglob("*") if path.is_file()
    }
    files = hub.repositories["tester/mine"]
    assert files == here | {"tune_cl.json": files["tune_cl.json"]} and b"license: mit" in files["README.md"]
    assert b"apache" not in files["README.md"]
    for name, content in files.items():
        (tmp_path / "fetched" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fetched" / name).write_bytes(content)
    shutil.copytree(tmp_path / "fetched", tmp_path / "again")
    fetched = tune_cl.load_ranker(tmp_path / "again")
    np.testing.assert_array_equal(fetched.predict(PAIRS), ranker.predict(PAIRS))
    ranker.push_to_hub("tester/mine")
    assert sum(request.endswith("/commit/main") for request in hub.requests) == 2


def test_what_is_uploaded_says_nothing_of_this_machine(ranker: tune_cl.Ranker, hub: Hub, tmp_path: Path) -> None:
    where, here = str(tmp_path), json.loads((ranker.folder / "tune_cl.json").read_text())
    assert here["run"]["data"]["source"] == f"{where}/data" and here["run"]["ranker"]["model"] == f"{where}/start"
    ranker.push_to_hub("tester/mine")
    files = hub.repositories["tester/mine"]
    assert [name for name, content in files.items() if where.encode() in content] == []
    there = json.loads(files["tune_cl.json"])
    assert there["run"]["data"]["source"] == "data" and there["run"]["ranker"]["model"] == "start"
    assert json.loads((ranker.folder / "tune_cl.json").read_text()) == here


def test_a_hub_that_refuses_is_one_line(ranker: tune_cl.Ranker, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
    with pytest.raises(
        ConfigError, match=r"^error: push_to_hub: the hub refuses 'tester/mine' \(.*401.*; hf auth login"
    ):
        ranker.push_to_hub("tester/mine")
    with pytest.raises(ConfigError, match=r"push_to_hub: 'a/b/c' is not a name of the hub; NAME or ORGANISATION/NAME"):
        ranker.push_to_hub("a/b/c")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"push_to_hub: nothing is uploaded: HF_HUB_OFFLINE is set; "):
        ranker.push_to_hub("tester/mine")
    assert not hub.repositories
