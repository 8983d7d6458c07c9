"""What every ranker that is a network over texts keeps to, whatever its architecture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from trainables.core.errors import ConfigError
from trainables.data.columns import RankingData
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.ranker import Ranker, RankerModule, TextSide, Tokens
from trainables.rankers.settings import RankerSettings
from tune_cl.testing.promises import alike, promise
from tune_cl.testing.tiny_data import tiny_data

MAX_LENGTH = 32
CLASSES = 3
NEAR = 1e-5
RATE, STEPS = 2e-3, 80  # of the training that must learn twenty pairs


class Recorder:
    """Settings that remember which of their keys were read."""

    def __init__(self, settings: RankerSettings):
        self.settings, self.read = settings, set()

    def __getattr__(self, key: str) -> object:
        self.read.add(key)
        return getattr(self.settings, key)


@dataclass(frozen=True)
class Case:
    """A ranker on tiny data, and all training pairs of that data as rows. `lr`: with which it learns them."""

    ranker: Ranker
    settings: RankerSettings
    data: RankingData
    text: TextSide
    lr: float = RATE

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        train = self.data.splits["train"]
        return train.query[train.owner], train.document

    def build(self, seed: int = 0, outputs: int = 1) -> RankerModule:
        torch.manual_seed(seed)
        return self.ranker.build(self.text, self.settings, MAX_LENGTH, outputs)

    def score(self, module: RankerModule, query_rows: np.ndarray, document_rows: np.ndarray) -> Tensor:
        return score(module, self.text.queries, self.text.documents, query_rows, document_rows)

    def inputs(self, module: RankerModule) -> dict[str, Tensor]:
        return inputs(module, self.text.queries, self.text.documents, *self.pairs)


@contextmanager
def ranker_case(name: str, lr: float = RATE, **settings: Any) -> Iterator[Case]:
    """A case, while which PyTorch uses deterministic algorithms alone."""
    ranker, keys, data = load_ranker(name), ranker_settings({"name": name, **settings}), tiny_data(5, candidates=4)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield Case(ranker, keys, data, ranker.prepare(data, keys, seed=0), lr)
    finally:
        torch.use_deterministic_algorithms(before)


def inputs(
    module: RankerModule, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
) -> dict[str, Tensor]:
    """Tensors of pairs for `forward`; a made-up first-stage score is a function of the pair."""
    tensors = module.collate(queries, documents, query_rows, document_rows)
    if module.reads_first_stage:
        tensors["first_stage"] = torch.from_numpy(np.sin(query_rows + 7.0 * document_rows).astype(np.float32))
    return tensors


def score(
    module: RankerModule, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
) -> Tensor:
    with torch.no_grad():
        return module.eval()(**inputs(module, queries, documents, query_rows, document_rows))


def gives_one_float32_score_a_pair(case: Case) -> None:
    scores = case.score(case.build(), *case.pairs)
    form = tuple(scores.shape), scores.dtype
    promise(form == ((len(case.pairs[0]),), torch.float32), f"one float32 score a pair, and there is {form}")
    promise(scores.std() > 0, "scores of different pairs differ")


def ignores_padding_and_the_rest_of_the_batch(case: Case) -> None:
    module, (queries, documents) = case.build(), case.pairs
    together = case.score(module, queries, documents)
    alone = torch.cat([case.score(module, queries[[i]], documents[[i]]) for i in range(len(queries))])
    promise(alike(together, alone, NEAR), "neither padding nor the other pairs of a batch change a score")
    order = np.random.default_rng(0).permutation(len(queries))
    shuffled = case.score(module, queries[order], documents[order])
    promise(alike(shuffled, together[order], NEAR), "the order of a batch changes no score")


def keeps_the_contract_for_classes(case: Case) -> None:
    """Logits of classes, or a ConfigError for them."""
    first_stage, (queries, documents) = case.build().reads_first_stage, case.pairs
    try:
        module = case.build(outputs=CLASSES)
    except ConfigError:
        return
    promise(not first_stage, "classes have no first-stage score, which is a ConfigError")
    logits = case.score(module, queries, documents)
    promise(logits.shape == (len(queries), CLASSES), "outputs=K gives logits [B, K]")
    promise(logits.dtype == torch.float32, "logits are float32")
    alone = torch.cat([case.score(module, queries[[i]], documents[[i]]) for i in range(len(queries))])
    promise(alike(logits, alone, NEAR), "neither padding nor the other pairs of a batch change logits")
    restored = case.ranker.restore(case.text.files, case.settings, MAX_LENGTH, CLASSES)
    restored.load_state_dict(module.state_dict())
    promise(torch.equal(case.score(restored, queries, documents), logits), "`restore` with outputs=K gives the same")
    module.train()(**case.inputs(module)).softmax(1)[:, 0].sum().backward()
    for name, parameter in module.named_parameters():
        promise(not parameter.requires_grad or parameter.grad is not None, f"a gradient reaches {name}")


def is_finite_in_bf16(case: Case) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        scores = case.score(case.build(), *case.pairs)
    promise(scores.dtype == torch.float32 and torch.isfinite(scores).all(), "scores in bf16 are float32 and finite")


def is_the_same_under_a_seed(case: Case) -> None:
    scores = []
    for module in (case.build(1), case.build(1)):
        torch.manual_seed(3)
        scores.append(module.train()(**case.inputs(module)).detach())
    promise(torch.equal(*scores), "the same seed gives the same network and the same dropout")


def prepares_the_same_again(case: Case) -> None:
    again = case.ranker.prepare(case.data, case.settings, seed=0)
    promise(dict(again.files) == dict(case.text.files), "`prepare` gives the same files again")
    for one, other in ((again.queries, case.text.queries), (again.documents, case.text.documents)):
        promise(one.ids.dtype == np.int32, "token ids are int32")
        promise(alike(one.ids, other.ids) and alike(one.offsets, other.offsets), "`prepare` gives the same tokens")
    for name, array in case.text.arrays.items():
        promise(alike(again.arrays[name], array), f"`prepare` gives the same array {name} again")


def reads_only_the_declared_settings(case: Case) -> None:
    recorder: Any = Recorder(case.settings)
    case.ranker.prepare(case.data, recorder, seed=1)
    extra = sorted(recorder.read - case.settings.text_keys)
    promise(not extra, f"`prepare` reads the settings in text_keys alone, and it reads {', '.join(extra)}")


def trains_all_its_parameters(case: Case) -> None:
    module = case.build().train()
    module(**case.inputs(module)).sigmoid().sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            gradient = parameter.grad
            promise(gradient is not None and gradient.any(), f"a gradient reaches {name}")
            promise(gradient is not None and torch.isfinite(gradient).all(), f"the gradient of {name} is finite")
    grouped = [id(parameter) for group in module.parameter_groups(1e-3) for parameter in group["params"]]
    trained = sorted(id(parameter) for parameter in module.parameters() if parameter.requires_grad)
    promise(sorted(grouped) == trained, "`parameter_groups` holds each trained parameter once")


def scores_alike_when_saved(case: Case) -> None:
    module, (queries, documents) = case.build(), case.pairs
    restored = case.ranker.restore(case.text.files, case.settings, MAX_LENGTH)
    with TemporaryDirectory() as folder:
        save_file(module.state_dict(), f"{folder}/model.safetensors")
        restored.load_state_dict(load_file(f"{folder}/model.safetensors"))
    expected = case.score(module, queries, documents)
    promise(torch.equal(case.score(restored, queries, documents), expected), "a restored network scores the same")
    read = [
        case.ranker.encode(case.text.files, case.settings, texts)
        for texts in (case.data.query_texts(), case.data.documents)
    ]
    again = score(restored, read[0], read[1], queries, documents)
    promise(torch.equal(again, expected), "`encode` with a saved ranker's files reads texts as `prepare` did")


def bears_new_words_and_empty_texts(case: Case) -> None:
    module = case.build().train()
    texts = case.ranker.encode(case.text.files, case.settings, ["", "never seen", "w1 w2 w3", "☃ 日本"])
    promise(len(texts) == 4, "`encode` gives one row a text")
    rows = np.arange(4).repeat(4), np.tile(np.arange(4), 4)
    scores = module(**inputs(module, texts, texts, *rows))
    scores.sum().backward()
    promise(torch.isfinite(scores).all(), "new words and empty texts have finite scores")
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    promise(all(torch.isfinite(gradient).all() for gradient in gradients), "and finite gradients")


def has_costs(case: Case) -> None:
    module = case.build()
    long = " ".join(f"w{i}" for i in range(100))
    texts = case.ranker.encode(case.text.files, case.settings, ["", "w1 w2", long])
    rows = np.zeros(3, int), np.arange(3)
    costs = module.costs(texts, texts, *rows)
    promise(costs.shape == (3,) and costs[0] > 0, "`costs` gives each pair a positive length")
    promise(np.all(np.diff(costs) > 0), "longer texts cost more")
    promise(costs[2] == MAX_LENGTH, f"no text costs more than max_length, {MAX_LENGTH}, and a long one just that")
    promise(module.collate(texts, texts, *rows), "what `costs` has counted can be collated")


def learns_the_order_of_twenty_pairs(case: Case) -> None:
    module = case.build().train()
    split = case.data.splits["train"]
    relevant = split.grade == 1
    better = torch.from_numpy((split.owner[:, None] == split.owner) & relevant[:, None] & ~relevant)
    optimizer = torch.optim.AdamW(module.parameter_groups(case.lr))
    tensors = case.inputs(module)
    for _ in range(STEPS):
        optimizer.zero_grad()
        scores = module(**tensors)
        functional.softplus(scores - scores[:, None])[better].mean().backward()
        optimizer.step()
    scores = case.score(module, *case.pairs)
    promise(
        ((scores[:, None] > scores)[better]).all(),
        f"{STEPS} steps at a rate of {case.lr:g} teach it the order of {len(relevant)} pairs",
    )


RANKER_CONTRACT = (
    gives_one_float32_score_a_pair,
    ignores_padding_and_the_rest_of_the_batch,
    keeps_the_contract_for_classes,
    is_finite_in_bf16,
    is_the_same_under_a_seed,
    prepares_the_same_again,
    reads_only_the_declared_settings,
    trains_all_its_parameters,
    scores_alike_when_saved,
    bears_new_words_and_empty_texts,
    has_costs,
    learns_the_order_of_twenty_pairs,
)


def check_ranker(name: str, lr: float = RATE, **settings: Any) -> None:
    """Checks that a registered ranker, under `settings`, keeps to what all rankers promise; it must learn 20 pairs of
    texts in 80 steps at the rate `lr`. Raises AssertionError saying what does not hold."""
    with ranker_case(name, lr, **settings) as case:
        for contract in RANKER_CONTRACT:
            contract(case)
