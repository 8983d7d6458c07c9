"""A ranker of others scores as transformers and sentence-transformers do: architectures, tokenizers, heads, prompts."""

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


@pytest.mark.parametrize("typed", [True, False], ids=["types", "no types"])
@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
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


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("prompts", [{}, {"query": "find : ", "document": "text : "}, {"query": "where "}])
def test_of_a_sentence_transformer(pooling: str, normalised: bool, prompts: dict[str, str], tmp_path: Path) -> None:
    sentences = pytest.importorskip("sentence_transformers")
    encoder, folder = tmp_path / "encoder", tmp_path / "whole"
    size = save_tokenizer(encoder, True, False)
    torch.manual_seed(1)
    shape: dict[str, Any] = {"vocab_size": size, "initializer_range": 0.4, **SMALL}
    transformers.BertModel(transformers.BertConfig(**shape)).save_pretrained(encoder)
    models = import_module("sentence_transformers.models")
    parts = [models.Transformer(str(encoder)), models.Pooling(32, pooling_mode=pooling)]
    whole = sentences.SentenceTransformer(
        modules=[*parts, *([models.Normalize()] if normalised else [])], prompts=prompts, device="cpu"
    )
    whole.save(str(folder))
    asked, read = whole.encode_query([QUERY]), whole.encode_document(DOCUMENTS)
    expected = whole.similarity(asked, read)[0].numpy()
    scores = tune_cl.load_ranker(folder).predict([(QUERY, document) for document in DOCUMENTS])
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_sentence_transformer_with_a_dense_layer_is_refused(tmp_path: Path) -> None:
    modules = [{"idx": n, "name": str(n), "path": f"{n}_{kind}", "type": f"sentence_transformers.models.{kind}"}
               for n, kind in enumerate(("Transformer", "Pooling", "Dense"))]  # fmt: skip
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(tune_cl.ConfigError, match="is made of Transformer, Pooling, Dense"):
        tune_cl.load_ranker(tmp_path)


@pytest.mark.parametrize(
    ("documents", "place"),
    [("one text", "documents"), ([None], r"documents\[0\]"), (["a", float("nan")], r"documents\[1\]")],
)
def test_what_is_no_text_is_named(documents: Any, place: str, tmp_path: Path) -> None:
    from tests.support.tiny_ranker import save_tiny_bert

    ranker = tune_cl.load_ranker(save_tiny_bert(tmp_path / "ranker"))
    with pytest.raises(tune_cl.DataError, match=f"error: {place}: "):
        ranker.rank("w1", documents)
    if not isinstance(documents, str):
        with pytest.raises(tune_cl.DataError, match=r"error: pairs\[\d\]: "):
            ranker.predict([("w1", document) for document in documents])
