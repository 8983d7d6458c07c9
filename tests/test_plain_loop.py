"""Five steps of a training are those of a plain loop over a model of transformers, which knows nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.nn import functional

from tests.support.builders import tiny_data
from tests.support.zoo import OF_PAIRS, answering, causal, chatting, classifier
from trainables.config.keys import validated
from trainables.training.prepared import prepare
from trainables.training.trainer import Training

pytestmark = pytest.mark.slow

STEPS, RATE, LENGTH = 5, 1e-3, 44
DATA = tiny_data(queries=12, candidates=4, turns=1)
CALM = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
Score = Callable[[Any, Any, list[str], list[str]], Tensor]


def of_classifier(model: Any, tokenizer: Any, queries: list[str], documents: list[str]) -> Tensor:
    inputs = tokenizer(queries, documents, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
    return model(**inputs).logits[:, 0]


def of_vectors(model: Any, tokenizer: Any, queries: list[str], documents: list[str]) -> Tensor:
    vectors = []
    for texts in (queries, documents):
        inputs = tokenizer(texts, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
        mask = inputs["attention_mask"][:, :, None]
        vectors.append((model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1))
    return functional.cosine_similarity(*vectors, dim=1)


def of_answers(model: Any, tokenizer: Any, queries: list[str], documents: list[str]) -> Tensor:
    chats = [
        [
            {"role": "system", "content": "find it"},
            {"role": "query", "content": query},
            {"role": "document", "content": document},
        ]
        for query, document in zip(queries, documents, strict=True)
    ]
    texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
    tokenizer.padding_side = "left"
    inputs = tokenizer(texts, padding=True, return_tensors="pt", add_special_tokens=False)
    positions = (inputs["attention_mask"].cumsum(1) - 1).clamp_min(0)
    ids = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "position_ids": positions}
    yes, no = tokenizer.convert_tokens_to_ids(["1", "0"])
    logits = model(**ids).logits[:, -1]
    return logits[:, yes] - logits[:, no]


KINDS: dict[str, tuple[Callable[[Path], None], dict[str, Any], Any, Score]] = {
    "cross-encoder": (
        classifier("bert", **CALM),
        {"name": "bert", "head": "pretrained"},
        transformers.AutoModelForSequenceClassification,
        of_classifier,
    ),
    "bi-encoder": (classifier("bert", **CALM), {"name": "bi_encoder"}, transformers.AutoModel, of_vectors),
    "language model": (
        answering(chatting(causal("qwen3"), OF_PAIRS), "1", "0"),
        {"name": "bert", "head": "pretrained"},
        transformers.AutoModelForCausalLM,
        of_answers,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_five_steps_are_those_of_a_plain_loop(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    make, keys, plain, score = KINDS[kind]
    make(tmp_path)
    settings = {"batches_per_iteration": STEPS, "batch_size": 4, "lr": RATE, "max_length": LENGTH, "loss": "hinge"}
    if kind == "language model":
        settings["max_length"] = 200
    run = validated({"ranker": keys | {"model": str(tmp_path)}, "training": settings | {"precision": "fp32"}})
    training = Training(run, prepare(run, DATA), device="cpu")
    batches = list(training.batcher.batches(0, STEPS))
    training.iterate()
    model, tokenizer = plain.from_pretrained(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    split = training.batcher.split
    for batch in batches:
        scores = []
        for rows in (batch.positive, batch.negative.reshape(len(batch.positive))):
            queries = [DATA.query_text(int(query)) for query in split.query[split.owner[rows]]]
            scores.append(
                score(model, tokenizer, queries, [str(DATA.documents[int(row)]) for row in split.document[rows]])
            )
        loss = (run.training.margin - scores[0] + scores[1]).relu().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), run.training.clip)
        optimizer.step()
    trained = dict(training.module.named_parameters())
    compared = 0
    for name, weight in model.named_parameters():
        if f"model.0.model.{name}" in trained and not name.endswith("key.bias"):  # whose gradient is rounding alone
            torch.testing.assert_close(trained[f"model.0.model.{name}"], weight, rtol=1e-5, atol=1e-5, msg=name)
            compared += 1
    assert compared > 20
