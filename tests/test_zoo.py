"""Every kind of model under every ranker: its scores are those of transformers and sentence-transformers before it is
trained, after it, and once it is saved for these; or it is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.support.builders import tiny_data
from tests.support.zoo import DOCUMENTS, MAKERS, PAIRS, QUERY
from tests.support.zoo_table import EQUAL, NEW, OWN, RANKERS, TABLE
from trainables.config.keys import TrainingRun, validated
from trainables.core.errors import ConfigError, DataError
from trainables.extras.prompt import DecoderSettings, Prompt
from trainables.rankers import load_ranker
from trainables.rankers.folder import read_folder
from trainables.rankers.hub import ADAPTER
from trainables.training.factory import load_saved, training_notes
from trainables.training.prepared import prepare
from trainables.training.ranker_folder import is_shared_form, require_ranker
from trainables.training.saved_ranker import SavedRanker
from trainables.training.trainer import Training

pytestmark = pytest.mark.slow

DATA = tiny_data(queries=4, candidates=3, turns=1)
CLOSE = {"rtol": 1e-5, "atol": 2e-5}
CELLS = [(kind, ranker) for kind in MAKERS for ranker in RANKERS]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {}


@pytest.fixture
def folder(
    request: pytest.FixtureRequest,
    folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers.logging.set_verbosity_error()
    kind = request.node.callspec.params["kind"]
    if kind not in folders:
        folders[kind] = tmp_path_factory.mktemp("model")
        MAKERS[kind](folders[kind])
    return folders[kind]


def run_of(ranker: str, folder: Path, expected: str) -> TrainingRun:
    keys: dict[str, Any] = {"name": ranker, "model": str(folder)}
    if ranker == "bert" and expected == EQUAL and read_folder(str(folder)).kind in ("classifier", "seq2seq"):
        keys["head"] = "pretrained"
    endless = ranker == "decoder" or read_folder(str(folder)).kind == "seq2seq"
    length = 280 if endless else 44  # so that no pair is cut
    training = {"batches_per_iteration": 2, "batch_size": 4, "lr": 1e-3, "max_length": length, "precision": "fp32"}
    return validated({"ranker": keys, "training": training})


def ours(folder: Path) -> tuple[SavedRanker, np.ndarray]:
    ranker = load_saved(folder)
    assert isinstance(ranker, SavedRanker)
    rows = np.arange(len(PAIRS))
    scores = ranker.score([QUERY] * len(PAIRS), DOCUMENTS, rows, rows)
    alone = [ranker.score([QUERY], [text], rows[:1], rows[:1])[0] for text in DOCUMENTS]
    np.testing.assert_allclose(scores, alone, **CLOSE)  # neither padding nor the batch changes a score
    assert len(np.unique(scores)) == len(scores)
    return ranker, ranker.shown(scores)


def theirs(folder: Path, ranker: str, **model: Any) -> np.ndarray:
    """Scores by sentence-transformers, a text at a time, so that padding plays no part. `model`: how it loads one
    that is stored in half precision."""
    import sentence_transformers as st

    if ranker == "bi_encoder":
        model = st.SentenceTransformer(str(folder), device="cpu", model_kwargs=model)
        query, documents = model.encode_query([QUERY]), model.encode_document(DOCUMENTS, batch_size=1)
        return model.similarity(query, documents)[0].numpy()
    found = read_folder(str(folder))
    if found.kind == "decoder" and found.words is None:
        return asked(folder)
    if found.kind == "seq2seq":
        return answered(folder)
    scores = st.CrossEncoder(str(folder), device="cpu", model_kwargs=model).predict(PAIRS, batch_size=1)
    if scores.ndim == 2 and scores.shape[1] == 2:
        return torch.from_numpy(scores).softmax(1)[:, 1].numpy()
    return scores


def asked(folder: Path) -> np.ndarray:
    """What a language model answers to the whole prompt, a pair at a time, by transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    files = load_ranker("decoder").files(DecoderSettings(model=str(folder)), False)
    prompt, words = Prompt.from_json(files["prompt.json"]), json.loads(files["words.json"])[:2]
    with torch.no_grad():
        texts = [tokenizer(prompt.whole(*pair), add_special_tokens=False, return_tensors="pt") for pair in PAIRS]
        logits = torch.stack([model(input_ids=text["input_ids"]).logits[0, -1, words] for text in texts])
    return (logits[:, 0] - logits[:, 1]).sigmoid().numpy()


def answered(folder: Path) -> np.ndarray:
    """What monoT5 answers to its prompt, a pair at a time, by transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    yes, no = (tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("true", "false"))
    with torch.no_grad():
        texts = [tokenizer(f"Query: {q} Document: {d} Relevant:", return_tensors="pt")["input_ids"] for q, d in PAIRS]
        start = torch.tensor([[model.config.decoder_start_token_id]])
        logits = torch.stack([model(input_ids=text, decoder_input_ids=start).logits[0, 0] for text in texts])
    return (logits[:, yes] - logits[:, no]).numpy()


@pytest.mark.parametrize(("kind", "ranker"), CELLS)
def test_scores_are_equal_or_the_model_is_refused(kind: str, ranker: str, folder: Path, tmp_path: Path) -> None:
    expected = TABLE[kind][RANKERS.index(ranker)]
    if expected not in (EQUAL, NEW, OWN):
        with pytest.raises((ConfigError, DataError)) as refused:
            trained(ranker, folder, tmp_path / "saved", expected)
        assert expected in str(refused.value) and len(str(refused.value).splitlines()) == 1
        return
    if expected == EQUAL and scores_untrained(ranker, folder):
        require_ranker(folder)
        np.testing.assert_allclose(ours(folder)[1], theirs(folder, ranker, dtype=torch.float32), **CLOSE)
    training = trained(ranker, folder, tmp_path / "saved", expected)
    assert is_shared_form(tmp_path / "saved") is (expected != OWN)
    saved, scores = ours(tmp_path / "saved")
    if expected != OWN:
        np.testing.assert_allclose(scores, theirs(tmp_path / "saved", ranker), **CLOSE)
    split = training.prepared.data.splits["dev"]
    np.testing.assert_allclose(saved.score_split(DATA, "dev"), training.score(split), **CLOSE)


def scores_untrained(ranker: str, folder: Path) -> bool:
    """Whether both can: sentence-transformers reads no classifier's adapter (but tests/test_merged.py)."""
    kind = read_folder(str(folder)).kind
    if ranker == "bert" and (folder / ADAPTER).is_file():
        return False
    able = {"bert": ("classifier", "seq2seq"), "bi_encoder": ("sentences",), "decoder": ("decoder", "classifier")}
    return kind in able[ranker]


def trained(ranker: str, folder: Path, output: Path, expected: str) -> Training:
    run = run_of(ranker, folder, expected)
    prepared = prepare(run, DATA)
    training_notes(run, prepared)
    training = Training(run, prepared, device="cpu")
    before = {name: tensor.clone() for name, tensor in training.module.state_dict().items()}
    assert np.isfinite(training.iterate()["train_loss"])
    assert any(not torch.equal(tensor, before[name]) for name, tensor in training.module.state_dict().items())
    training.save_ranker(output)
    return training
