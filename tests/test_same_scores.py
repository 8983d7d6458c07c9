"""A ranker of others scores as sentence-transformers does: heads, tokenizers, dense layers. tests/test_zoo.py has every
kind of model, trained and saved, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tune_cl
from tests.support.zoo import (
    BERT,
    DOCUMENTS,
    NORMALIZE,
    PAIRS,
    QUERY,
    SIZES,
    Make,
    classifier,
    dense,
    pooling,
    sentences,
    transformer,
    untyped,
)

CROSS_ENCODERS: dict[str, Make] = {
    "two labels of roberta": classifier("roberta", 2),
    "no token types": transformer("Bert", untyped, "AutoModelForSequenceClassification", **SIZES, num_labels=1),
}


@pytest.mark.parametrize("name", CROSS_ENCODERS)
def test_of_a_cross_encoder(name: str, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    CROSS_ENCODERS[name](tmp_path)
    expected = CrossEncoder(str(tmp_path), device="cpu").predict(PAIRS)
    if expected.ndim == 2:
        expected = torch.from_numpy(expected).softmax(1)[:, 1].numpy()
    ranker = tune_cl.load_ranker(tmp_path)
    np.testing.assert_allclose(ranker.predict(PAIRS), expected, atol=1e-4)
    assert [row for row, _ in ranker.rank(QUERY, DOCUMENTS)] == np.argsort(-expected, kind="stable").tolist()


DENSE: dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]] = {
    "tanh, same size, normalised": ([dense(32, 32), NORMALIZE], {}),  # as LaBSE
    "identity without bias": ([dense(32, 16, bias=False, activation_function=nn.Identity()), NORMALIZE], {}),  # as GTR
    "two layers": ([dense(32, 64, activation_function=nn.Identity()), dense(64, 8), NORMALIZE], {}),
    "gelu with a prompt": ([dense(32, 16, activation_function=nn.GELU())], {"prompts": {"query": "find : "}}),
    "prelu, which has a weight": ([dense(32, 16, activation_function=nn.PReLU())], {}),
    "residual of another size": ([dense(32, 16, use_residual=True), NORMALIZE], {}),
}


@pytest.mark.parametrize("name", DENSE)
def test_of_a_sentence_transformer_with_dense_layers(name: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    layers, keys = DENSE[name]
    sentences(BERT, pooling("mean"), *layers, **keys)(tmp_path)
    theirs = SentenceTransformer(str(tmp_path), device="cpu")
    expected = theirs.similarity(theirs.encode_query([QUERY]), theirs.encode_document(DOCUMENTS))[0].numpy()
    np.testing.assert_allclose(tune_cl.load_ranker(tmp_path).predict(PAIRS), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"activation_function": "os.system"}, "activation 'os.system'"),
        ({"activation_function": "torch.nn.modules.linear.Linear"}, "cannot be read"),
        ({"activation_function": "mine.Swish"}, "activation 'mine.Swish'"),
        ({"module_input_name": "token_embeddings"}, "something else than the vector of a text"),
        ({"in_features": 31}, "size mismatch"),
        ({"in_features": None}, "cannot be read"),
    ],
)
def test_a_dense_layer_that_cannot_be_computed_is_refused(change: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    sentences(BERT, pooling("mean"), dense(32, 16))(tmp_path)
    [config] = tmp_path.glob("*_Dense/config.json")
    right = json.loads(config.read_text())
    config.write_text(json.dumps(right | change))
    with pytest.raises(tune_cl.ConfigError, match=rf"error: ranker\.model: .* has a dense layer .*{wrong}"):
        tune_cl.load_ranker(tmp_path)
    (config.parent / "model.safetensors").rename(config.parent / "pytorch_model.bin")
    config.write_text(json.dumps(right))
    with pytest.raises(tune_cl.ConfigError, match=r"has a dense layer .*no model\.safetensors"):
        tune_cl.load_ranker(tmp_path)
