"""Adapters of peft as models to start from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import tune_cl
from tests.support.zoo import MAKERS, PAIRS
from trainables.core.errors import ConfigError
from trainables.rankers import hub
from trainables.rankers.encoders import encoder_version
from trainables.rankers.folder import read_folder
from trainables.rankers.hub import ADAPTER
from trainables.rankers.settings import BertSettings

KIND = "an adapter of bert, one label"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    transformers.logging.set_verbosity_error()
    MAKERS[KIND](tmp_path / "adapter")
    return tmp_path / "adapter"


def test_scores_are_those_of_peft(folder: Path) -> None:
    base = folder.with_name("adapter-base")
    classifier: Any = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    model = peft.PeftModel.from_pretrained(classifier, folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    with torch.no_grad():
        logits = [model(**tokenizer(*pair, return_tensors="pt")).logits.item() for pair in PAIRS]
    expected = 1 / (1 + np.exp(-np.array(logits)))
    np.testing.assert_allclose(tune_cl.load_ranker(folder).predict(PAIRS), expected, rtol=1e-5, atol=1e-6)


def changed(folder: Path, **fields: Any) -> None:
    path = folder / ADAPTER
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "base": ({"base_model_name_or_path": "org/gone"}, "its base 'org/gone' is neither a folder nor in"),
    "kind": ({"peft_type": "PREFIX_TUNING"}, "is an adapter of kind PREFIX_TUNING"),
    "layers": ({"target_modules": ["query"]}, "does not fit its base"),
    "rank": ({"r": 3}, "cannot be put on"),
    "code": ({"megatron_config": {"x": 1}, "megatron_core": "evil"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_merged_is_one_line(case: str, folder: Path) -> None:
    fields, told = WRONG[case]
    changed(folder, **fields)
    if not told:  # what only names code is not read
        assert read_folder(str(folder)).kind == "classifier"
        return
    with pytest.raises(ConfigError) as caught:
        read_folder(str(folder))
    (problem,) = caught.value.problems
    assert problem.location == "ranker.model" and told in f"{problem.wrong}; {problem.right}"


def test_weights_come_from_the_base_or_the_adapter(folder: Path) -> None:
    base, adapter = (folder.with_name("adapter-base") / "model.safetensors", folder / "adapter_model.safetensors")
    of_base, of_adapter = load_file(base), load_file(adapter)
    assert not any("classifier" in name for name in of_base) and any("classifier" in name for name in of_adapter)
    expected = tune_cl.load_ranker(folder).predict(PAIRS)
    save_file(
        {name: tensor for name, tensor in of_base.items() if "layer.0.output" not in name}, base, {"format": "pt"}
    )
    with pytest.raises(ConfigError, match=r"adapter-base' lacks 4 of its 41 weights \(first: bert.encoder.layer.0"):
        tune_cl.load_ranker(folder)
    save_file(of_base, base, {"format": "pt"})
    np.testing.assert_array_equal(tune_cl.load_ranker(folder).predict(PAIRS), expected)


def cached_as(folder: Path, name: str, cache: Path) -> None:
    """Puts a folder into the hub's cache under a name."""
    entry = cache / f"models--{name.replace('/', '--')}"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs/main").write_text("a" * 40)
    shutil.copytree(folder, entry / "snapshots" / ("a" * 40))


def test_an_adapter_by_its_hub_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    expected = tune_cl.load_ranker(folder).predict(PAIRS)
    changed(folder, base_model_name_or_path="some/base")
    cached_as(folder, "some/adapter", tmp_path / "hub")
    hub.require_model(BertSettings(model="some/adapter"))
    with pytest.raises(ConfigError, match=r"'some/adapter' is an adapter, and its base 'some/base' is neither"):
        read_folder("some/adapter")
    cached_as(folder.with_name("adapter-base"), "some/base", tmp_path / "hub")
    np.testing.assert_array_equal(tune_cl.load_ranker("some/adapter").predict(PAIRS), expected)
    assert encoder_version("some/adapter") == f"commit {'a' * 40}"
