"""Bi-encoders: saved for sentence-transformers, begun from its folders, each text encoded once. tests/test_zoo.py has
the scores of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.encoder_folders import TEXTS, save_encoder
from tests.support.training_runs import make_run, start, start_without_dropout
from trainables.config.keys import TrainingConfig, validated
from trainables.core.errors import ConfigError
from trainables.rankers import load_ranker
from trainables.rankers.ranker import DualEncoder, TextSide, Tokens
from trainables.training.factory import load_saved
from trainables.training.prepared import prepare
from trainables.training.saved_ranker import SavedRanker, write_ranker
from trainables.training.trainer import Training

QUERIES = ["w1 w2", "so it is", "w7 said w30 w31 w32 w33 w34 w35 w36 w37 w38 w39 w40 w41 w42"]
MAX_LENGTH = 16
EVERY = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)


@pytest.fixture(scope="module")
def data():
    return tiny_data(queries=24, candidates=6, seed=5)


def saved_ranker(folder: Path, kind: str, **ranker: Any) -> SavedRanker:
    """A bi_encoder over a small encoder of the kind, written to and read from `folder`/ranker."""
    save_encoder(kind, folder / "encoder")
    run = TrainingConfig.model_validate(
        {
            "ranker": {"name": "bi_encoder", "model": str(folder / "encoder"), "keep": "first", **ranker},
            "training": {"max_length": MAX_LENGTH},
        }
    )
    bi_encoder, settings = load_ranker("bi_encoder"), run.ranker
    text = bi_encoder.prepare(tiny_data(queries=4), settings, seed=0)
    module = bi_encoder.build(text, settings, MAX_LENGTH)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in module.parameters():  # else all texts would have nearly the same vector
            weight.add_(torch.randn_like(weight), alpha=0.2)
    write_ranker(run, module, text, folder / "ranker")
    return load(folder / "ranker")


def load(folder: Path) -> SavedRanker:
    ranker = load_saved(folder)
    assert isinstance(ranker, SavedRanker)
    return ranker


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"in_batch_negatives": True, "loss": "softmax"}, {"micro_batch": 2}])
def test_prompts_lengths_dimensions_and_adapters_are_trained_and_saved(more: dict[str, Any], tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    save_encoder("bert", tmp_path / "encoder")
    keys = {"query_prompt": "so w1 ", "document_prompt": "said ", "query_length": 8, "dimensions": [6, 20]}
    ranker = {"name": "bi_encoder", "model": str(tmp_path / "encoder"), "lora": {"rank": 2}, **keys}
    training = {"max_length": MAX_LENGTH, "batches_per_iteration": 2, "batch_size": 4, "precision": "fp32", **more}
    run = validated({"ranker": ranker, "training": training})
    whole = Training(run, prepare(run, tiny_data(queries=8, turns=1)), device="cpu")
    assert whole.module.training is True
    inputs = whole.batcher.inputs(np.arange(3))
    assert whole.module(**inputs).shape == (2, 3), "a score for each number of dimensions"
    assert np.isfinite(whole.iterate()["train_loss"])
    whole.save_ranker(tmp_path / "ranker")
    theirs = SentenceTransformer(str(tmp_path / "ranker"))
    assert theirs.truncate_dim == 20 and theirs.prompts == {"query": "so w1 ", "document": "said "}
    scores = theirs.similarity(theirs.encode_query(QUERIES), theirs.encode_document(TEXTS[:5])).numpy()
    ours = load(tmp_path / "ranker").score(QUERIES, TEXTS[:5], *EVERY)
    assert ours.reshape(3, 5) == pytest.approx(scores, abs=1e-5)


def test_the_similarity_of_the_folder_is_the_default(tmp_path: Path) -> None:
    saved_ranker(tmp_path, "bert", similarity="dot")
    (tmp_path / "ranker" / "tune_cl.json").unlink()
    keys = {"name": "bi_encoder", "model": str(tmp_path / "ranker")}
    run = validated({"ranker": keys, "training": {"max_length": MAX_LENGTH, "loss": "softmax", "negatives": 2}})
    training = Training(run, prepare(run, tiny_data(queries=4)), device="cpu")
    assert run.temperature == 1 and not training.module.normalised
    run = validated({"ranker": keys | {"similarity": "cosine"}, "training": {"max_length": MAX_LENGTH}})
    assert Training(run, prepare(run, tiny_data(queries=4)), device="cpu").module.normalised


def test_more_dimensions_than_a_vector_has_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ranker\.dimensions: 33, and the vectors have 32; at most 32"):
        saved_ranker(tmp_path, "bert", dimensions=33)


@pytest.mark.parametrize(
    ("name", "change", "wrong"),
    [
        ("modules.json", {"type": "mine.Normalize"}, "cannot be loaded .*mine.Normalize"),
        ("modules.json", {"path": "../elsewhere", "idx": 0}, "cannot be loaded"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "euclidean"}, "compares by 'euclidean'"),
    ],
)
def test_models_with_other_parts_are_refused(name: str, change: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    saved_ranker(tmp_path, "bert")
    folder = tmp_path / "ranker"
    (folder / "tune_cl.json").unlink()
    document = json.loads((folder / name).read_text())
    part = document[change.get("idx", -1)] if isinstance(document, list) else document
    part.update(change)
    (folder / name).write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=rf"^error: ranker\.model: .* {wrong}"):
        load_saved(folder)


def test_evaluation_encodes_each_text_once(data, monkeypatch: pytest.MonkeyPatch) -> None:
    training = start(make_run("bi_encoder", training={"precision": "fp32"}), data)
    module, dev = training.module, data.splits["dev"]
    assert isinstance(module, DualEncoder)
    encoded: list[int] = []
    collate = module.collate_texts

    def counting(queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray) -> Any:
        encoded.append(len(query_rows) + len(document_rows))
        return collate(queries, documents, query_rows, document_rows)

    monkeypatch.setattr(module, "collate_texts", counting)
    scores = training.score(dev)
    assert sum(encoded) == len(np.unique(dev.query)) + len(np.unique(dev.document))
    text: TextSide = training.prepared.text
    with torch.no_grad():
        inputs = module.collate(text.queries, text.documents, dev.query[dev.owner], dev.document)
        assert scores == pytest.approx(module(**inputs).numpy(), abs=1e-5)


@pytest.mark.parametrize(("loss", "tempered"), [("softmax", True), ("pairwise", False)])
def test_the_temperature_divides_scores_in_the_loss(loss: str, tempered: bool, data) -> None:
    def first_loss(**training: Any) -> float:
        keys = {"loss": loss, "negatives": 2, "max_iterations": 1, "batches_per_iteration": 1}
        run = make_run("bert", training=keys | training)
        return start_without_dropout(run, prepare(run, data)).iterate()["train_loss"]

    assert first_loss() == first_loss(temperature=1.0)
    assert (first_loss(temperature=0.1) != first_loss()) is tempered
