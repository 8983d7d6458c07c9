"""A ranker of others scores as transformers and sentence-transformers do: architectures, tokenizers, heads, dense
layers. tests/test_zoo.py has the others, trained and saved."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import processors
from torch import nn

import tune_cl
from trainables.rankers.encoders import train_wordpiece

QUERY = "where does the otter live"
DOCUMENTS = ["the otter lives in rivers", "a kestrel hovers", "otters eat fish and crabs ; they live in holts", "x"]
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
PADDED = {"pad_token_id": 1, "max_position_embeddings": 66, "type_vocab_size": 1}  # as RoBERTa's kin count positions
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
MODERN = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", SMALL),
    "roberta": ("Roberta", SMALL | PADDED),
    "distilbert": ("DistilBert", DISTIL),
    "electra": ("Electra", SMALL | {"embedding_size": 32}),
    "albert": ("Albert", SMALL | {"embedding_size": 16}),
    "deberta-v2": ("DebertaV2", SMALL),
    "mpnet": ("MPNet", SMALL | PADDED),
    "modernbert": ("ModernBert", SMALL | MODERN | {"global_attn_every_n_layers": 1}),
    "xlm-roberta": ("XLMRoberta", SMALL | PADDED),
}


def save_tokenizer(folder: Path, typed: bool, roberta: bool) -> int:
    """Saves a tokenizer with BERT's pairs or RoBERTa's; returns the size of its vocabulary."""
    tokenizer = train_wordpiece([QUERY, *DOCUMENTS] * 5, 120)
    if roberta:
        ends = [("[CLS]", 2), ("[SEP]", 3)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=ends
        )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"},
        pad_token="[UNK]" if roberta else "[PAD]",
        model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if typed else [])],
        model_max_length=64,
    ).save_pretrained(folder)
    return tokenizer.get_vocab_size()


@pytest.mark.parametrize(
    ("architecture", "labels", "typed"),
    [*((name, 1, True) for name in ARCHITECTURES), ("bert", 2, True), ("roberta", 2, False), ("bert", 1, False)],
)
def test_of_a_cross_encoder(architecture: str, labels: int, typed: bool, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    kind, fields = ARCHITECTURES[architecture]
    size = save_tokenizer(tmp_path, typed, "pad_token_id" in fields and fields["pad_token_id"] == 1)
    shape = {"max_position_embeddings": 64, "initializer_range": 0.4, "vocab_size": size, "num_labels": labels} | fields
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**shape)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(tmp_path)
    pairs = [(QUERY, document) for document in DOCUMENTS]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    inputs = tokenizer([QUERY] * len(DOCUMENTS), DOCUMENTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs).logits
    expected = (logits.sigmoid()[:, 0] if labels == 1 else logits.softmax(1)[:, 1]).numpy()
    scores = tune_cl.load_ranker(tmp_path).predict(pairs)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    if labels == 1:
        np.testing.assert_allclose(scores, CrossEncoder(str(tmp_path)).predict(pairs), atol=1e-4)
    order = [row for row, _ in tune_cl.load_ranker(tmp_path).rank(QUERY, DOCUMENTS)]
    assert order == np.argsort(-expected, kind="stable").tolist()


def sentence_transformer(folder: Path, *following: tuple[str, dict[str, Any]], **keys: Any) -> Any:
    """A small SentenceTransformer, saved in `folder / "whole"`. `following`: the modules after the encoder, each the
    name of a class and its arguments."""
    sentences = pytest.importorskip("sentence_transformers")
    models = import_module("sentence_transformers.models")
    size = save_tokenizer(folder / "encoder", True, False)
    torch.manual_seed(1)
    shape: dict[str, Any] = {"vocab_size": size, "initializer_range": 0.4, **SMALL}
    transformers.BertModel(transformers.BertConfig(**shape)).save_pretrained(folder / "encoder")
    made = [getattr(models, name)(**given) for name, given in following]
    whole = sentences.SentenceTransformer(
        modules=[models.Transformer(str(folder / "encoder")), *made], device="cpu", **keys
    )
    whole.save(str(folder / "whole"))
    return whole


def assert_same_scores(theirs: Any, folder: Path) -> None:
    expected = theirs.similarity(theirs.encode_query([QUERY]), theirs.encode_document(DOCUMENTS))[0].numpy()
    scores = tune_cl.load_ranker(folder).predict([(QUERY, document) for document in DOCUMENTS])
    np.testing.assert_allclose(scores, expected, atol=1e-4)


NORMALIZE: tuple[str, dict[str, Any]] = ("Normalize", {})


def pooling(mode: str) -> tuple[str, dict[str, Any]]:
    return "Pooling", {"embedding_dimension": 32, "pooling_mode": mode}


def dense(given: int, out: int, **keys: Any) -> tuple[str, dict[str, Any]]:
    return "Dense", {"in_features": given, "out_features": out} | keys


DENSE: dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]] = {
    "tanh": ([dense(32, 16)], {}),  # as distiluse
    "tanh, same size, normalised": ([dense(32, 32), NORMALIZE], {}),  # as LaBSE
    "identity without bias": ([dense(32, 16, bias=False, activation_function=nn.Identity()), NORMALIZE], {}),  # as GTR
    "two layers": ([dense(32, 64, activation_function=nn.Identity()), dense(64, 8), NORMALIZE], {}),
    "relu, by dot product": ([dense(32, 16, activation_function=nn.ReLU())], {"similarity_fn_name": "dot"}),
    "gelu with a prompt": ([dense(32, 16, activation_function=nn.GELU())], {"prompts": {"query": "find : "}}),
    "prelu, which has a weight": ([dense(32, 16, activation_function=nn.PReLU())], {}),
    "residual": ([dense(32, 32, use_residual=True)], {}),
    "residual of another size": ([dense(32, 16, use_residual=True), NORMALIZE], {}),
}


@pytest.mark.parametrize("name", DENSE)
def test_of_a_sentence_transformer_with_dense_layers(name: str, tmp_path: Path) -> None:
    layers, keys = DENSE[name]
    assert_same_scores(sentence_transformer(tmp_path, pooling("mean"), *layers, **keys), tmp_path / "whole")


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
    sentence_transformer(tmp_path, pooling("mean"), dense(32, 16))
    [config] = (tmp_path / "whole").glob("*_Dense/config.json")
    right = json.loads(config.read_text())
    config.write_text(json.dumps(right | change))
    with pytest.raises(tune_cl.ConfigError, match=rf"error: ranker\.model: .* has a dense layer .*{wrong}"):
        tune_cl.load_ranker(tmp_path / "whole")
    (config.parent / "model.safetensors").rename(config.parent / "pytorch_model.bin")
    config.write_text(json.dumps(right))
    with pytest.raises(tune_cl.ConfigError, match=r"has a dense layer .*no model\.safetensors"):
        tune_cl.load_ranker(tmp_path / "whole")
