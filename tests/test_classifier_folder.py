"""Saved `bert` rankers as other libraries read them: transformers, sentence-transformers and tune_cl give equal
scores, whatever the architecture and the head."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.support.builders import tiny_data
from tests.support.encoder_folders import KINDS, save_encoder
from tests.support.faults import flip_the_last_bit
from tests.support.zoo import classifier
from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError
from trainables.rankers import load_ranker
from trainables.rankers.bert import BertModule
from trainables.rankers.ranker import TextSide
from trainables.training.factory import load_saved
from trainables.training.prepared import ranker_of
from trainables.training.ranker_folder import is_shared_form
from trainables.training.saved_ranker import load_ranker_folder, load_weights, write_ranker

BERT = load_ranker("bert")
DATA = tiny_data(queries=3, candidates=3, turns=1)
MAX_LENGTH = 20
QUERIES = ["w1 w2 w3", "so", "w9 [SEP]", ""]
DOCUMENTS = ["w3 w2 w1 w50", "said w9 so it is " * 12, "[CLS] w4", "w5"]
OWN_FORM = {(kind, "classification") for kind in ("electra", "distilbert", "modernbert")}


@dataclass(frozen=True)
class Encoder:
    kind: str
    path: Path

    def run(self, **ranker: object) -> TrainingRun:
        keys = {"name": "bert", "model": str(self.path), **ranker}
        return TrainingRun.model_validate({"ranker": keys, "training": {"max_length": MAX_LENGTH}})


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    path = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        save_encoder(request.param, path)
        yield Encoder(request.param, path)


def module_of(run: TrainingRun, outputs: int = 1, shaken: bool = True) -> tuple[BertModule, TextSide]:
    """A module as a training may leave it: no weight is 0 or 1 any more."""
    ranker, settings = ranker_of(run)
    text = ranker.prepare(DATA, settings, seed=0)
    torch.manual_seed(3)
    module = ranker.build(text, settings, run.training.max_length, outputs)
    assert isinstance(module, BertModule)
    with torch.no_grad():
        for parameter in module.parameters() if shaken else ():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module, text


def our_scores(folder: Path) -> np.ndarray:
    rows = np.arange(len(QUERIES))
    return load_ranker_folder(folder).score(QUERIES, DOCUMENTS, rows, rows, precision="fp32")


def their_logits(folder: Path) -> np.ndarray:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    options = {} if tokenizer.split_special_tokens else {"max_length": MAX_LENGTH, "split_special_tokens": True}
    inputs = tokenizer(QUERIES, DOCUMENTS, padding=True, truncation=True, return_tensors="pt", **options)
    assert inputs["input_ids"].shape[1] == MAX_LENGTH
    if "token_type_ids" not in inspect.signature(model.forward).parameters:
        inputs.pop("token_type_ids", None)
    with torch.no_grad():
        return model(**inputs).logits.numpy()


@pytest.mark.parametrize(
    ("head", "classes"),
    [("cls", ()), ("classification", ()), ("cls", ("no", "maybe", "yes"))],
    ids=["cls", "two-classes", "three-classes"],
)
def test_transformers_gives_equal_scores(encoder: Encoder, head: str, classes: tuple[str, ...], tmp_path: Path) -> None:
    run = encoder.run(head=head)
    module, text = module_of(run, len(classes) or 1)
    write_ranker(run, module, text, tmp_path / "ranker", classes)
    assert is_shared_form(tmp_path / "ranker") is ((encoder.kind, head) not in OWN_FORM)
    ours = our_scores(tmp_path / "ranker")
    assert ours.shape == ((4, 3) if classes else (4,))
    assert len(np.unique(ours)) == ours.size
    weights = load_weights(tmp_path / "ranker", run)
    assert weights.keys() == module.state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in module.state_dict().items())
    if is_shared_form(tmp_path / "ranker"):
        logits = their_logits(tmp_path / "ranker")
        assert (logits if classes else logits[:, 0]) == pytest.approx(ours, abs=1e-4)


def test_damaged_weights_are_noticed_in_either_form(encoder: Encoder, tmp_path: Path) -> None:
    run = encoder.run()
    module, text = module_of(run)
    write_ranker(run, module, text, tmp_path / "ranker")
    flip_the_last_bit(tmp_path / "ranker" / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.safetensors is not as it was written"):
        load_weights(tmp_path / "ranker", run)


def test_training_goes_on_from_a_cross_encoder_with_its_head(encoder: Encoder, tmp_path: Path) -> None:
    """Of transformers, and of ours, whose linear head stays one layer."""
    config = transformers.AutoConfig.from_pretrained(encoder.path, num_labels=2)
    torch.manual_seed(5)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).write_bytes((encoder.path / name).read_bytes())
    run = Encoder(encoder.kind, tmp_path / "theirs").run(head="pretrained")
    module, text = module_of(run, shaken=False)
    write_ranker(run, module, text, tmp_path / "saved")
    logits = their_logits(tmp_path / "theirs")
    assert our_scores(tmp_path / "saved") == pytest.approx(logits[:, 1] - logits[:, 0], abs=1e-4)
    assert their_logits(tmp_path / "saved")[:, 0] == pytest.approx(logits[:, 1] - logits[:, 0], abs=1e-4)
    rates = {id(p): group["lr"] for group in module.parameter_groups(0.5) for p in group["params"]}
    assert set(rates) == {id(parameter) for parameter in module.parameters()} and set(rates.values()) == {0.5}


@pytest.mark.parametrize("head", ["cls", "classification"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "deberta-v3"])
def test_training_goes_on_from_a_ranker_of_ours(kind: str, head: str, tmp_path: Path) -> None:
    save_encoder(kind, tmp_path / "encoder")
    run = Encoder(kind, tmp_path / "encoder").run(head=head)
    module, text = module_of(run)
    write_ranker(run, module, text, tmp_path / "first")
    longer = Encoder(kind, tmp_path / "first").run(head="pretrained")
    longer = longer.model_copy(update={"training": run.training.model_copy(update={"max_length": MAX_LENGTH + 1})})
    again, text = module_of(longer, shaken=False)
    assert (again.pooler is None) is (head == "cls")
    write_ranker(longer, again, text, tmp_path / "second")
    short = [0, 2, 3]  # the other is cut at the training's length
    assert our_scores(tmp_path / "second")[short] == pytest.approx(our_scores(tmp_path / "first")[short], abs=1e-5)


def test_a_head_that_cannot_be_taken_is_the_users_to_mend(tmp_path: Path) -> None:
    save_encoder("bert", tmp_path)
    with pytest.raises(
        ConfigError, match=r"^error: ranker\.head: .* is not a cross-encoder: .*; cls or classification"
    ):
        module_of(Encoder("bert", tmp_path).run(head="pretrained"))


LACKING: dict[str, tuple[Callable[[str], str | None], dict[str, object], str]] = {
    "a head that was not saved": (
        lambda name: name if "classifier" not in name else None, {},
        "lacks 2 of its 41 weights (first: classifier.weight); ranker.head: cls or classification",
    ),
    "other names": (
        lambda name: f"model.{name}", {}, "lacks 41 of its 41 weights (first: bert.embeddings.word_embeddings.weight)",
    ),
    "a layer under other names": (
        lambda name: name.replace("layer.1.attention", "layer.1.mixer"), {"auto_map": {"AutoModel": "code.Model"}},
        "lacks 10 of its 41 weights (first: bert.encoder.layer.1.attention.self.query.weight), and needs code of its "
        "own (auto_map)",
    ),
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
    encoder = Encoder("bert", tmp_path)
    with pytest.raises(ConfigError) as caught:
        module_of(encoder.run(head="pretrained"))
    assert wrong in str(caught.value)
    if fields or case == "other names":  # not of the head alone
        with pytest.raises(ConfigError, match=r"lacks \d+ of its 39 weights"):
            module_of(encoder.run())
    else:
        module_of(encoder.run())


@pytest.mark.parametrize("head", ["cls", "classification"])
def test_a_new_head_needs_the_encoder_alone(head: str, tmp_path: Path) -> None:
    """Language models of BERT's kind are saved without a pooler, and bare encoders without a head."""
    save_encoder("bert", tmp_path)
    whole = load_file(tmp_path / "model.safetensors")
    kept = {name: tensor for name, tensor in whole.items() if "pooler" not in name}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    assert len(kept) == len(whole) - 2
    module, _ = module_of(Encoder("bert", tmp_path).run(head=head), shaken=False)
    assert torch.equal(
        module.encoder.get_parameter("embeddings.word_embeddings.weight"), kept["embeddings.word_embeddings.weight"]
    )


@pytest.mark.parametrize(
    ("labels", "activation", "wrong"),
    [(3, None, "has 3 labels, not 1 or 2"), (1, "evil.Code", "asks for the activation 'evil.Code'")],
)
def test_cross_encoders_that_cannot_rank_are_refused(
    labels: int, activation: str | None, wrong: str, tmp_path: Path
) -> None:
    classifier("bert", labels, activation)(tmp_path)
    with pytest.raises(ConfigError, match=wrong):
        load_saved(tmp_path)
