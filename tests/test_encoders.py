"""Encoders of all kinds under the bert ranker: each scores as its plain model does. tests/test_classifier_folder.py has
pairs as their tokenizers lay them out, tests/test_zoo.py padding and batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.support.builders import tiny_data
from tests.support.encoder_folders import KINDS, POSITIONS, save_encoder
from trainables.core.errors import ConfigError
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.bert import BertModule
from trainables.rankers.fast.packing import CLS_ALONE, PACKED
from trainables.rankers.ranker import TextSide, Tokens
from trainables.rankers.settings import RankerSettings

BERT = load_ranker("bert")
MAX_LENGTH = 32
DATA = tiny_data(queries=3, candidates=3, turns=1)
QUERIES, DOCUMENTS = np.arange(9) // 3, np.arange(9)


@dataclass(frozen=True)
class Folder:
    kind: str
    path: Path
    tokenizer: Any
    settings: RankerSettings
    text: TextSide

    @property
    def rows(self) -> tuple[Tokens, Tokens, np.ndarray, np.ndarray]:
        return self.text.queries, self.text.documents, QUERIES, DOCUMENTS

    def build(self, **settings: Any) -> BertModule:
        torch.manual_seed(1)
        module = BERT.build(self.text, self.settings.model_copy(update=settings), MAX_LENGTH)
        assert isinstance(module, BertModule)
        return module


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = tmp_path_factory.mktemp(request.param)
    settings = ranker_settings({"name": "bert", "model": str(path)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        tokenizer = save_encoder(request.param, path)
        return Folder(request.param, path, tokenizer, settings, BERT.prepare(DATA, settings, seed=0))


def test_scores_and_gradients_are_those_of_the_plain_model(folder: Folder) -> None:
    module = folder.build(dropout=0.0).double().eval()
    plain = transformers.AutoModel.from_pretrained(folder.path, dtype=torch.float64).eval()
    expected = module.score(plain(**module.padded(*folder.rows)).last_hidden_state[:, 0])
    found = module(**module.collate(*folder.rows))
    torch.testing.assert_close(found, expected)
    weight = torch.linspace(-1, 1, len(QUERIES), dtype=torch.float64)
    (found * weight).sum().backward()
    (expected * weight).sum().backward()
    gradients = {name: parameter.grad for name, parameter in plain.named_parameters() if "pooler" not in name}
    for name, parameter in module.encoder.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients.pop(name), rtol=1e-9, atol=1e-12, msg=name)
    assert not gradients


def test_the_last_layer_computes_cls_alone_where_it_can(folder: Folder) -> None:
    module = folder.build().eval()
    inputs = module.collate(*folder.rows)
    places = inputs.pop("packed_index", None)
    found = module.encoder(**inputs).last_hidden_state.shape[:2]
    assert module.packs is (places is not None) is (folder.kind in PACKED)
    assert found == ((1, len(QUERIES)) if folder.kind in CLS_ALONE else inputs["input_ids"].shape)


def test_bf16_changes_scores_little(folder: Folder) -> None:
    module = folder.build(dropout=0.0).eval()
    inputs = module.collate(*folder.rows)
    with torch.no_grad():
        exact = module(**inputs)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = module(**inputs)
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.02)


@pytest.mark.parametrize("head", ["cls", "classification"])
def test_it_is_restored_without_its_folder(head: str, folder: Folder) -> None:
    module = folder.build(head=head).eval()
    settings = folder.settings.model_copy(update={"model": "gone", "head": head})
    restored = BERT.restore(folder.text.files, settings, MAX_LENGTH).eval()
    restored.load_state_dict(module.state_dict())
    inputs = module.collate(*folder.rows)
    assert torch.equal(module(**inputs), restored(**inputs))


def test_the_pooler_is_the_checkpoints_where_it_has_one(folder: Folder) -> None:
    module = folder.build(head="classification")
    plain = getattr(transformers.AutoModel.from_pretrained(folder.path), "pooler", None)
    assert module.pooler is not None and module.has_own_pooler is (plain is None)
    if plain is not None:
        assert torch.equal(module.pooler.weight, getattr(plain, "dense", plain).weight)
    rates = {id(p): group["lr"] for group in module.parameter_groups(0.5) for p in group["params"]}
    assert set(rates) == {id(parameter) for parameter in module.parameters()}


def test_activations_computed_again_change_no_gradient(folder: Folder) -> None:
    if folder.kind == "albert":
        with pytest.raises(ConfigError, match=r"ranker\.checkpointing: .* cannot compute activations again; false"):
            folder.build(checkpointing=True)
        return
    gradients = []
    for checkpointing in (False, True):
        module = folder.build(checkpointing=checkpointing).double().train()
        assert module.encoder.is_activation_checkpointing is checkpointing
        torch.manual_seed(2)
        module(**module.collate(*folder.rows)).sum().backward()
        gradients.append({name: parameter.grad for name, parameter in module.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)


def test_as_many_tokens_as_there_are_positions(folder: Folder) -> None:
    longest = POSITIONS - 2 if folder.tokenizer.pad_token_id == 1 else POSITIONS
    long = BERT.encode(folder.text.files, folder.settings, [" ".join(f"w{i}" for i in range(100))])
    module = BERT.build(folder.text, folder.settings, longest).eval()
    rows = long, long, np.zeros(1, int), np.zeros(1, int)
    assert module.padded(*rows)["input_ids"].shape == (1, longest)
    assert torch.isfinite(module(**module.collate(*rows))).all()
    with pytest.raises(ConfigError, match=rf"training\.max_length: {longest + 1} tokens, but .* reads {longest};"):
        BERT.build(folder.text, folder.settings, longest + 1)


def test_special_tokens_in_a_text_are_words(folder: Folder) -> None:
    special = {folder.tokenizer.cls_token_id, folder.tokenizer.sep_token_id}
    names = folder.tokenizer.convert_ids_to_tokens(sorted(special))
    tokens = BERT.encode(folder.text.files, folder.settings, [f"so {name} it" for name in names])
    assert special.isdisjoint(tokens.ids.tolist())


@pytest.mark.parametrize(
    ("kind", "wrong"), [("xlnet", r"ends a pair with its \[CLS\] token, as XLNet does"), ("bart", "is not an encoder")]
)
def test_what_has_no_cls_in_front_is_refused(
    kind: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    save_encoder(kind, tmp_path)
    with pytest.raises(ConfigError, match=rf"^error: ranker\.model: .*{wrong}; tiny, the folder"):
        BERT.prepare(DATA, ranker_settings({"name": "bert", "model": str(tmp_path)}), seed=0)
