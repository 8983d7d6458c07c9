"""Encoders of all kinds under the bert ranker: each scores as its plain model does, and so does its saved folder in
sentence-transformers. tests/test_zoo.py has padding and batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.support.builders import tiny_data
from tests.support.encoder_folders import KINDS, POSITIONS, save_encoder
from tests.support.zoo import classifier
from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.bert import BertModule
from trainables.rankers.fast.packing import CLS_ALONE, PACKED
from trainables.rankers.ranker import TextSide, Tokens
from trainables.rankers.settings import RankerSettings
from trainables.training.factory import load_saved
from trainables.training.saved_ranker import load_ranker_folder, write_ranker

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
    expected = module.score(plain(**module.padded(*folder.rows)).last_hidden_state[:, 0])[:, 0]
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
    assert module.packs is (places is not None) is (folder.kind in PACKED)
    if folder.kind in CLS_ALONE:
        shapes: list[torch.Size] = []
        output = module.encoder.get_submodule("encoder.layer.1.output")
        output.register_forward_hook(lambda _, __, states: shapes.append(states.shape))
        module(**inputs, packed_index=places)
        assert shapes == [(1, len(QUERIES), 32)]


def test_the_pooler_is_the_checkpoints_where_it_has_one(folder: Folder) -> None:
    module = folder.build(head="classification")
    plain = getattr(transformers.AutoModel.from_pretrained(folder.path), "pooler", None)
    assert module.pooler is not None
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


def test_what_has_no_cls_in_front_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    save_encoder("xlnet", tmp_path)
    with pytest.raises(ConfigError, match=r"^error: ranker\.model: does not begin a pair with a \[CLS\] token"):
        BERT.prepare(DATA, ranker_settings({"name": "bert", "model": str(tmp_path)}), seed=0)


SAVED = [("cls", ()), ("classification", ()), ("cls", ("no", "maybe", "yes"))]


@pytest.mark.parametrize(("head", "classes"), SAVED, ids=["cls", "two-classes", "three-classes"])
def test_the_saved_ranker_scores_in_sentence_transformers(
    head: str, classes: tuple[str, ...], folder: Folder, tmp_path: Path
) -> None:
    import sentence_transformers

    keys = {"name": "bert", "model": str(folder.path), "head": head}
    run = TrainingConfig.model_validate({"ranker": keys, "training": {"max_length": 20}})
    torch.manual_seed(3)
    module = BERT.build(folder.text, run.ranker, 20, len(classes) or 1)
    with torch.no_grad():
        for parameter in module.parameters():  # as a training may leave it: no weight is 0 or 1 any more
            parameter.add_(0.1 * torch.randn_like(parameter))
    write_ranker(run, module, folder.text, tmp_path / "ranker", classes)
    queries = ["w1 w2 w3", "so", "w9 [SEP]", ""]
    documents = ["w3 w2 w1 w50", "said w9 so it is " * 12, "[CLS] w4", "w5"]
    ours = load_ranker_folder(tmp_path / "ranker").score(queries, documents, *[np.arange(4)] * 2, precision="fp32")
    assert ours.shape == ((4, 3) if classes else (4,)) and len(np.unique(ours)) == ours.size
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "ranker"), device="cpu")
    assert theirs.predict(list(zip(queries, documents, strict=True))) == pytest.approx(ours, abs=1e-5)
    before = module.eval()(**module.collate(*folder.rows)).detach()
    again = load_ranker_folder(tmp_path / "ranker").module.eval()
    torch.testing.assert_close(again(**again.collate(*folder.rows)), before, rtol=1e-5, atol=1e-6)


LACKING: dict[str, tuple[Callable[[str], str | None], dict[str, object], str]] = {
    "a head that was not saved": (
        lambda name: name if "classifier" not in name else None, {},
        "lacks 2 of its 41 weights (first: classifier.weight); all weights",
    ),
    "other names": (
        lambda name: f"model.{name}", {}, "lacks 41 of its 41 weights (first: bert.embeddings.word_embeddings.weight)",
    ),
    "a layer under other names": (
        lambda name: name.replace("layer.1.attention", "layer.1.mixer"), {"auto_map": {"AutoModel": "code.Model"}},
        "lacks 10 of its 41 weights (first: bert.encoder.layer.1.attention.self.query.weight), and needs code of its "
        "own (auto_map)",
    ),
    "another vocabulary": (lambda name: name, {"vocab_size": 900}, "and its config.json asks for [900, 32]"),
}  # fmt: skip


@pytest.mark.parametrize("case", LACKING)
def test_weights_that_the_files_lack_are_named(case: str, tmp_path: Path) -> None:
    renamed, fields, wrong = LACKING[case]
    classifier("bert")(tmp_path)
    file, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = {new: tensor for name, tensor in load_file(file).items() if (new := renamed(name)) is not None}
    save_file(tensors, file, {"format": "pt"})
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))
    with pytest.raises(ConfigError) as caught:
        load_saved(tmp_path)
    assert wrong in str(caught.value)


def test_rows_of_a_head_are_matched_to_the_classes_by_name(tmp_path: Path) -> None:
    classifier("bert", 3)(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    labels = {"0": "Yes", "1": "no", "2": "maybe"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": labels, "label2id": {}}))
    settings = ranker_settings({"name": "bert", "model": str(tmp_path), "head": "pretrained"})
    files = BERT.prepare(DATA, settings, seed=0).files
    rows = load_file(tmp_path / "model.safetensors")["classifier.weight"]

    def built(classes: list[str]) -> BertModule:
        text = TextSide(Tokens.of(()), Tokens.of(()), {**files, "classes.json": json.dumps(classes)})
        module = BERT.build(text, settings, MAX_LENGTH, 3)
        assert isinstance(module, BertModule)
        return module

    assert torch.equal(built(["maybe", "no", "yes"]).score.weight, rows[[2, 1, 0]])
    with pytest.raises(ConfigError, match=r"the labels of .* are yes, no, maybe, and the data's a, b, c"):
        built(["a", "b", "c"])
