"""Tables of token vectors (StaticEmbedding, model2vec) as bi-encoders. tests/test_zoo.py has their scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import tune_cl
from tests.support.builders import tiny_data
from trainables.config.keys import validated
from trainables.core.errors import ConfigError
from trainables.rankers.encoders import encoder_version, train_wordpiece
from trainables.training.factory import training_notes
from trainables.training.prepared import prepare
from trainables.training.trainer import Training

TEXTS = [f"w{i} so it is w{i * 7 % 40}" for i in range(40)]
LONG = " ".join(f"w{i % 40}" for i in range(60))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A StaticEmbedding in a folder of its own, as earlier versions of sentence-transformers save it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    part = tmp_path / "model/0_StaticEmbedding"
    part.mkdir(parents=True)
    tokenizer = train_wordpiece(TEXTS, 200)
    tokenizer.save(str(part / "tokenizer.json"))
    generator = torch.Generator().manual_seed(0)
    save_file(
        {"embedding.weight": torch.randn(tokenizer.get_vocab_size(), 16, generator=generator)},
        part / "model.safetensors",
    )
    kind = "sentence_transformers.models.StaticEmbedding"
    listed = [{"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": kind}]
    (tmp_path / "model/modules.json").write_text(json.dumps(listed))
    return tmp_path / "model"


def training(folder: Path, **keys: Any) -> Training:
    more = {"batches_per_iteration": 2, "batch_size": 4, "max_length": 20, "precision": "fp32", "lr": 0.1}
    run = validated({"ranker": {"name": "bi_encoder", "model": str(folder), **keys}, "training": more})
    prepared = prepare(run, tiny_data(queries=6, candidates=4, turns=1))
    training_notes(run, prepared)
    return Training(run, prepared, device="cpu")


def test_long_texts_are_cut_for_other_libraries_too(folder: Path, tmp_path: Path) -> None:
    trained = training(folder)
    trained.iterate()
    trained.save_ranker(tmp_path / "ranker")
    tokenizer = Tokenizer.from_file(str(tmp_path / "ranker/tokenizer.json"))
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in ("w1 w2", LONG)]
    assert [len(one) for one in ids] == [len(ids[0]), 20]
    table = load_file(tmp_path / "ranker/model.safetensors")["embedding.weight"]
    query, document = (torch.nn.functional.normalize(table[one].mean(0), dim=0) for one in ids)
    assert tune_cl.load_ranker(tmp_path / "ranker").predict([("w1 w2", LONG)])[0] == pytest.approx(
        float(query @ document), abs=1e-6
    )
    (tmp_path / "ranker/tune_cl.json").unlink()  # as one of others: the tokenizer says the length
    assert tune_cl.load_ranker(tmp_path / "ranker").predict([("w1 w2", LONG)])[0] == pytest.approx(
        float(query @ document), abs=1e-6
    )


def test_a_text_without_tokens_has_the_vector_0(folder: Path) -> None:
    scores = tune_cl.load_ranker(folder).predict([("", "w1"), ("w1", ""), ("", "")])
    np.testing.assert_array_equal(scores, 0)


def test_other_vectors_are_another_encoder(folder: Path) -> None:
    before, path = encoder_version(str(folder)), folder / "0_StaticEmbedding/model.safetensors"
    save_file({"embedding.weight": load_file(path)["embedding.weight"] + 1}, path)
    assert before is not None and encoder_version(str(folder)) != before


@pytest.mark.parametrize(
    ("keys", "place", "told"),
    [
        ({"lora": {"rank": 2}}, "ranker.lora.rank", "2, but '{}' is a table of token vectors, which has no layers"),
        ({"freeze": 0}, "ranker.freeze", "0, but '{}' is a table"),
        ({"checkpointing": True}, "ranker.checkpointing", "True, but '{}' is a table"),
        ({"query_length": 9}, "ranker.query_length", "whose saved form has one length for all texts"),
        ({"pooling": "max"}, "ranker.pooling", "'max', but '{}' was trained with mean"),
        ({"dimensions": 17}, "ranker.dimensions", "17, and the vectors have 16"),
    ],
)
def test_keys_that_do_not_fit_are_refused_in_one_line(
    keys: dict[str, Any], place: str, told: str, folder: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        training(folder, **keys)
    (problem,) = refused.value.problems
    assert problem.location == place and told.format(folder) in problem.wrong


def shortened(path: Path) -> None:
    save_file({"embedding.weight": load_file(path)["embedding.weight"][:9].contiguous()}, path)


WRONG: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no vectors": ("model.safetensors", Path.unlink, "and has no model.safetensors"),
    "no tokenizer": ("tokenizer.json", Path.unlink, "and has no tokenizer.json"),
    "other file": ("model.safetensors", lambda path: path.write_text("x"), "has a model.safetensors that cannot be"),
    "other tokenizer": ("tokenizer.json", lambda path: path.write_text("{}"), "has a tokenizer.json that cannot be"),
    "other tensors": ("model.safetensors", lambda path: save_file({"x": torch.ones(2, 2)}, path), "cannot be read"),
    "whole numbers": (
        "model.safetensors",
        lambda path: save_file({"embedding.weight": torch.ones(200, 2, dtype=torch.int8)}, path),
        "a table of shape [200, 2], torch.int8",
    ),
    "too few vectors": ("model.safetensors", shortened, "and vectors of 9"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_damaged_folder_ends_in_one_line(case: str, folder: Path) -> None:
    name, damage, told = WRONG[case]
    damage(folder / "0_StaticEmbedding" / name)
    with pytest.raises(ConfigError) as refused:
        training(folder)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"error: ranker.model: '{folder}' ") and told in line
