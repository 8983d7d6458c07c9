"""LoRA adapters and learning rates by layer, on small encoders of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from tests.support.builders import tiny_data
from tests.support.encoder_folders import KINDS, save_encoder
from trainables.config.keys import TrainingConfig, validated
from trainables.core.errors import ConfigError
from trainables.rankers.bert import BertModule
from trainables.rankers.ranker import RankerModule, TextSide
from trainables.training.factory import make_training
from trainables.training.prepared import PreparedData, prepare, ranker_of
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.trainer import Training

DATA = tiny_data(queries=8, candidates=4, turns=1)
ROWS = np.arange(8)


@dataclass(frozen=True)
class Encoder:
    kind: str
    path: Path

    def run(self, training: dict[str, Any] | None = None, **ranker: Any) -> TrainingConfig:
        keys = {
            "max_iterations": 2,
            "batches_per_iteration": 2,
            "batch_size": 4,
            "max_length": 24,
            "lr": 0.01,
            "precision": "fp32",
        }
        return validated(
            {"ranker": {"name": "bert", "model": str(self.path), **ranker}, "training": keys | (training or {})}
        )

    def prepared(self, **ranker: Any) -> PreparedData:
        return prepare(self.run(**ranker), DATA)

    def build(self, **ranker: Any) -> tuple[BertModule, TextSide]:
        network, settings = ranker_of(self.run(**ranker))
        text = network.prepare(DATA, settings, seed=0)
        torch.manual_seed(1)
        module = network.build(text, settings, 24)
        assert isinstance(module, BertModule)
        return module, text


@contextmanager
def saved(kind: str, folders: pytest.TempPathFactory) -> Iterator[Encoder]:
    path = folders.mktemp(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("XDG_CACHE_HOME", str(folders.mktemp("cache")))
        save_encoder(kind, path)
        yield Encoder(kind, path)


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    with saved(request.param, tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module", params=["bert", "modernbert", "deberta-v3"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    """One with a last layer of its own making, one that is packed otherwise, and one that is padded."""
    with saved(request.param, tmp_path_factory) as made:
        yield made


def scores(module: RankerModule, text: TextSide) -> torch.Tensor:
    with torch.no_grad():
        return module.eval()(**module.collate(text.queries, text.documents, ROWS, ROWS))


LORA = {"rank": 2}


def test_adapters_change_no_score_at_first_and_merge_into_the_weights(encoder: Encoder) -> None:
    plain, text = encoder.build()
    module, _ = encoder.build(lora=LORA)
    before = scores(plain, text)
    torch.testing.assert_close(scores(module, text), before, rtol=1e-5, atol=1e-6)
    trained = [name for name, parameter in module.encoder.named_parameters() if parameter.requires_grad]
    assert trained and all("lora_" in name for name in trained)
    assert module.score.weight.requires_grad
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    changed = scores(module, text)
    assert (changed - before).abs().max() > 1e-3
    module.merge_adapters()
    torch.testing.assert_close(scores(module, text), changed, rtol=1e-4, atol=1e-5)
    assert module.state_dict().keys() == plain.state_dict().keys()


def test_a_training_of_adapters_resumes_exactly_and_is_saved_without_them(trained: Encoder, tmp_path: Path) -> None:
    run, prepared = trained.run(lora=LORA), trained.prepared()

    def new() -> Training:
        training = make_training(run, prepared, device="cpu")
        assert isinstance(training, Training)
        return training

    whole, first, second = new(), new(), new()
    losses = [whole.iterate()["train_loss"] for _ in range(2)]
    first.iterate()
    (tmp_path / "state").mkdir()
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    assert second.iterate()["train_loss"] == losses[1]
    dev = whole.dev
    expected = whole.best_scores
    whole.save_ranker(tmp_path / "ranker")
    np.testing.assert_allclose(whole.score(dev), expected, rtol=1e-4, atol=1e-5)
    loaded = load_ranker_folder(tmp_path / "ranker")
    np.testing.assert_array_equal(loaded.score_split(DATA, "dev"), whole.score(dev))
    again = new()
    again.restore_ranker(tmp_path / "ranker")
    np.testing.assert_array_equal(again.score(dev), whole.score(dev))
    theirs = CrossEncoder(str(tmp_path / "ranker"), device="cpu")
    pair = DATA.query_text(int(dev.query[0])), str(DATA.documents[int(dev.document[0])])
    assert float(theirs.predict(pair)) == pytest.approx(float(whole.score(dev)[0]), abs=1e-4)


def test_targets_that_name_no_layer_are_an_error_that_lists_the_names(encoder: Encoder) -> None:
    linear = {
        name.rpartition(".")[2]
        for name, part in encoder.build()[0].encoder.named_modules()
        if isinstance(part, torch.nn.Linear)
    }
    with pytest.raises(ConfigError) as caught:
        encoder.build(lora={"rank": 2, "targets": ["q_proj", "nothing"]})
    (problem,) = caught.value.problems
    assert problem.location == "ranker.lora.targets"
    assert problem.wrong == "no linear layer of the model is named 'q_proj', 'nothing'"
    assert set(problem.right.removeprefix("some of ").removesuffix("; null: all").split(", ")) == linear
    target = sorted(linear)[0]
    module, _ = encoder.build(lora={"rank": 2, "targets": [target]})
    adapted = {name.split(".lora_")[0].rpartition(".")[2] for name, _ in module.named_parameters() if "lora_" in name}
    assert adapted == {target}


@pytest.mark.parametrize("count", [0, 1])
def test_embeddings_and_the_first_layers_are_not_trained(count: int, encoder: Encoder) -> None:
    run = encoder.run(freeze=count)
    if encoder.kind == "albert":
        with pytest.raises(ConfigError, match=r"ranker\.freeze: the layers of the model share their weights"):
            encoder.build(freeze=count)
        return
    training = make_training(run, encoder.prepared(), device="cpu")
    assert isinstance(training, Training)
    before = {name: tensor.clone() for name, tensor in training.module.state_dict().items()}
    training.iterate()
    changed = {name for name, tensor in training.module.state_dict().items() if not torch.equal(tensor, before[name])}
    of_optimiser = {id(parameter) for group in training.optimizer.param_groups for parameter in group["params"]}
    for name, parameter in training.module.named_parameters():
        name = name.removeprefix("model.0.model.")
        part = name.split(".")
        layers = [int(number) for number in part[:5] if number.isdigit()]
        frozen = part[0].startswith("embed") or bool(layers and layers[0] < count)
        assert parameter.requires_grad is not frozen, name
        assert not (frozen and (f"model.0.model.{name}" in changed or id(parameter) in of_optimiser)), name
    plain, text = encoder.build()
    torch.testing.assert_close(scores(encoder.build(freeze=count)[0], text), scores(plain, text), rtol=0, atol=0)
