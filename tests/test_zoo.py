"""Every kind of model: its scores are those of sentence-transformers before it is trained, after it, and once it is
saved; or it is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.support.builders import tiny_data
from tests.support.zoo import DOCUMENTS, MAKERS, PAIRS, QUERY
from tests.support.zoo_table import RANKERS, REFUSED
from trainables.config.keys import TrainingConfig, validated
from trainables.core.errors import ConfigError, DataError
from trainables.rankers.hub import ADAPTER
from trainables.training.factory import load_saved, training_notes
from trainables.training.prepared import prepare
from trainables.training.ranker_folder import is_shared_form
from trainables.training.saved_ranker import SavedRanker, ranker_keys
from trainables.training.trainer import Training

pytestmark = pytest.mark.slow

DATA = tiny_data(queries=4, candidates=3, turns=1)
CLOSE = {"rtol": 1e-5, "atol": 2e-5}
LENGTH = 44  # so that no pair is cut


@pytest.fixture(scope="module")
def folders() -> dict[str, Path]:
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


def own_ranker(folder: Path) -> str | None:
    """The ranker that a model is without training."""
    try:
        return ranker_keys(str(folder))["name"]
    except ConfigError:
        return None


def ours(folder: Path) -> np.ndarray:
    ranker = load_saved(folder)
    assert isinstance(ranker, SavedRanker)
    rows = np.arange(len(PAIRS))
    scores = ranker.score([QUERY] * len(PAIRS), DOCUMENTS, rows, rows)
    alone = [ranker.score([QUERY], [text], rows[:1], rows[:1])[0] for text in DOCUMENTS]
    np.testing.assert_allclose(scores, alone, **CLOSE)  # neither padding nor the batch changes a score
    assert len(np.unique(scores)) == len(scores)
    return ranker.shown(scores)


def theirs(folder: Path, ranker: str) -> np.ndarray:
    """Scores by sentence-transformers, a text at a time, so that padding plays no part."""
    import sentence_transformers as st

    half: dict[str, Any] = {"model_kwargs": {"dtype": torch.float32}, "device": "cpu"}
    if ranker == "bi_encoder":
        model = st.SentenceTransformer(str(folder), **half)
        query, documents = model.encode_query([QUERY]), model.encode_document(DOCUMENTS, batch_size=1)
        return model.similarity(query, documents)[0].numpy()
    scores = st.CrossEncoder(str(folder), **half).predict(PAIRS, batch_size=1)
    two = scores.ndim == 2 and scores.shape[1] == 2
    return torch.from_numpy(scores).softmax(1)[:, 1].numpy() if two else scores


def run_of(ranker: str, folder: Path) -> TrainingConfig:
    keys: dict[str, Any] = {"name": ranker, "model": str(folder)}
    if ranker == "bert" and own_ranker(folder) == "bert":
        keys["head"] = "pretrained"
    training = {"batches_per_iteration": 2, "batch_size": 4, "lr": 1e-3, "max_length": LENGTH, "precision": "fp32"}
    return validated({"ranker": keys, "training": training})


def trained(ranker: str, folder: Path, output: Path) -> Training:
    run = run_of(ranker, folder)
    prepared = prepare(run, DATA)
    training_notes(run, prepared)
    training = Training(run, prepared, device="cpu")
    before = {name: tensor.clone() for name, tensor in training.module.state_dict().items()}
    assert np.isfinite(training.iterate()["train_loss"])
    assert any(not torch.equal(tensor, before[name]) for name, tensor in training.module.state_dict().items())
    training.save_ranker(output)
    return training


CELLS = [  # a template of pairs alone shows no text of its own to a bi-encoder
    (kind, ranker)
    for kind in MAKERS
    for ranker in RANKERS
    if ranker == "bert" or not kind.startswith("CrossEncoder of a language model")
]


@pytest.mark.parametrize(("kind", "ranker"), CELLS)
def test_scores_are_the_librarys_or_the_model_is_refused(kind: str, ranker: str, folder: Path, tmp_path: Path) -> None:
    if words := REFUSED.get(kind, (None, None))[RANKERS.index(ranker)]:
        with pytest.raises((ConfigError, DataError)) as refused:
            trained(ranker, folder, tmp_path / "saved")
        assert words in str(refused.value) and len(str(refused.value).splitlines()) == 1
        return
    if own_ranker(folder) == ranker and not (folder / ADAPTER).is_file():  # which the library reads in modules alone
        np.testing.assert_allclose(ours(folder), theirs(folder, ranker), **CLOSE)
    training = trained(ranker, folder, tmp_path / "saved")
    assert is_shared_form(tmp_path / "saved")
    np.testing.assert_allclose(ours(tmp_path / "saved"), theirs(tmp_path / "saved", ranker), **CLOSE)
    saved = load_saved(tmp_path / "saved")
    assert isinstance(saved, SavedRanker)
    split = training.prepared.data.splits["dev"]
    np.testing.assert_allclose(saved.score_split(DATA, "dev"), training.score(split), **CLOSE)
