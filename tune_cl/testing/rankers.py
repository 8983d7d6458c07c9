"""What every ranker that is a network over texts promises, whatever its architecture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trainables.core.errors import ConfigError
from trainables.data.columns import RankingData
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.ranker import Ranker, RankerModule, TextSide, Tokens
from trainables.rankers.settings import RankerSettings
from tune_cl.testing.data import tiny_data

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

    def restored(self, module: RankerModule, outputs: int = 1) -> RankerModule:
        """The network as it is made again from its saved folder."""
        classes = [f"class {index}" for index in range(outputs)] if outputs > 1 else []
        with TemporaryDirectory() as place:
            files = dict(self.ranker.write(module, self.text.files, classes, Path(place)))
            return self.ranker.open(Path(place), files, self.settings, MAX_LENGTH, outputs)[0]

    def encode(self, texts: Any) -> Tokens:
        return self.ranker.encode(self.text.files, self.settings, texts)

    def inputs(self, module: RankerModule) -> dict[str, Tensor]:
        return inputs(module, self.text.queries, self.text.documents, *self.pairs)

    def score(self, module: RankerModule, queries: np.ndarray, documents: np.ndarray) -> Tensor:
        return score(module, self.text.queries, self.text.documents, queries, documents)


def ranker_case(name: str, lr: float = RATE, **settings: Any) -> Case:
    ranker, keys, data = load_ranker(name), ranker_settings({"name": name, **settings}), tiny_data(5, candidates=4)
    return Case(ranker, keys, data, ranker.prepare(data, keys, seed=0), lr)


def inputs(module: RankerModule, queries: Tokens, documents: Tokens, *rows: np.ndarray) -> dict[str, Tensor]:
    """Tensors of pairs for `forward`; a made-up first-stage score is a function of the pair."""
    tensors = module.collate(queries, documents, *rows)
    if module.reads_first_stage:
        tensors["first_stage"] = torch.from_numpy(np.sin(rows[0] + 7.0 * rows[1]).astype(np.float32))
    return tensors


def score(module: RankerModule, queries: Tokens, documents: Tokens, *rows: np.ndarray) -> Tensor:
    with torch.no_grad():
        return module.eval()(**inputs(module, queries, documents, *rows))


def gives_one_float32_score_a_pair(case: Case) -> None:
    scores = case.score(case.build(), *case.pairs)
    assert scores.shape == (len(case.pairs[0]),) and scores.dtype == torch.float32
    assert scores.std() > 0, "scores of different pairs differ"
    with torch.autocast("cpu", torch.bfloat16):
        scores = case.score(case.build(), *case.pairs)
    assert scores.dtype == torch.float32 and torch.isfinite(scores).all(), "scores in bf16 are finite float32"


def scores_each_pair_alone(case: Case, module: RankerModule | None = None) -> None:
    """Neither padding nor the other pairs of a batch change a score."""
    module, (queries, documents) = module or case.build(), case.pairs
    together = case.score(module, queries, documents)
    alone = torch.cat([case.score(module, queries[[i]], documents[[i]]) for i in range(len(queries))])
    assert torch.allclose(together, alone, NEAR, NEAR)
    order = np.random.default_rng(0).permutation(len(queries))
    assert torch.allclose(case.score(module, queries[order], documents[order]), together[order], NEAR, NEAR)


def gives_logits_of_classes_or_refuses(case: Case) -> None:
    first_stage = case.build().reads_first_stage
    try:
        module = case.build(outputs=CLASSES)
    except ConfigError:
        return
    assert not first_stage, "classes have no first-stage score, which is a ConfigError"
    logits = case.score(module, *case.pairs)
    assert logits.shape == (len(case.pairs[0]), CLASSES) and logits.dtype == torch.float32
    assert torch.allclose(case.score(case.restored(module, CLASSES), *case.pairs), logits, NEAR, NEAR)
    scores_each_pair_alone(case, module)


def is_the_same_under_a_seed(case: Case) -> None:
    scores = []
    for module in (case.build(1), case.build(1)):
        torch.manual_seed(3)
        scores.append(module.train()(**case.inputs(module)).detach())
    assert torch.equal(*scores), "the same seed gives the same network and the same dropout"


def prepares_the_same_again(case: Case) -> None:
    again = case.ranker.prepare(case.data, case.settings, seed=0)
    assert dict(again.files) == dict(case.text.files)
    for one, other in ((again.queries, case.text.queries), (again.documents, case.text.documents)):
        assert one.ids.dtype == np.int32, "token ids are int32"
        assert np.array_equal(one.ids, other.ids) and np.array_equal(one.offsets, other.offsets)
    for name, array in case.text.arrays.items():
        assert np.array_equal(again.arrays[name], array)
    recorder: Any = Recorder(case.settings)
    case.ranker.prepare(case.data, recorder, seed=1)
    assert recorder.read <= case.settings.text_keys, "what is prepared depends on `text_keys` alone"


def trains_all_its_parameters(case: Case) -> None:
    module = case.build().train()
    module(**case.inputs(module)).sigmoid().sum().backward()
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    for name, parameter in trained.items():
        gradient = parameter.grad
        assert gradient is not None and gradient.any(), f"a gradient reaches {name}"
        assert torch.isfinite(gradient).all(), f"the gradient of {name} is finite"
    grouped = [id(parameter) for group in module.parameter_groups(1e-3) for parameter in group["params"]]
    assert sorted(grouped) == sorted(map(id, trained.values())), "`parameter_groups` has each parameter once"


def scores_alike_when_saved(case: Case) -> None:
    module = case.build()
    restored, expected = case.restored(module), case.score(module, *case.pairs)
    assert torch.allclose(case.score(restored, *case.pairs), expected, NEAR, NEAR)
    queries, documents = case.encode(case.data.query_texts()), case.encode(case.data.documents)
    again = score(restored, queries, documents, *case.pairs)
    assert torch.allclose(again, expected, NEAR, NEAR), (
        "`encode` with a saved ranker's files reads texts as `prepare` did"
    )


def reads_new_words_and_empty_texts(case: Case) -> None:
    module = case.build().train()
    texts = case.encode(["", "never seen", "w1 w2 w3", "☃ 日本"])
    assert len(texts) == 4, "`encode` gives one row a text"
    scores = module(**inputs(module, texts, texts, np.arange(4).repeat(4), np.tile(np.arange(4), 4)))
    scores.sum().backward()
    assert torch.isfinite(scores).all()
    assert all(torch.isfinite(one.grad).all() for one in module.parameters() if one.grad is not None)


def has_costs(case: Case) -> None:
    module = case.build()
    texts = case.encode(["", "w1 w2", " ".join(f"w{i}" for i in range(100))])
    rows = np.zeros(3, int), np.arange(3)
    costs = module.costs(texts, texts, *rows)
    assert costs.shape == (3,) and costs[0] > 0 and (np.diff(costs) > 0).all(), "longer texts cost more"
    assert costs[2] == MAX_LENGTH, "no text costs more than max_length, and a long one just that"
    assert module.collate(texts, texts, *rows), "what `costs` has counted can be collated"


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
    assert ((scores[:, None] > scores)[better]).all(), f"{STEPS} steps at a rate of {case.lr:g} are enough"


RANKER = (
    gives_one_float32_score_a_pair,
    scores_each_pair_alone,
    gives_logits_of_classes_or_refuses,
    is_the_same_under_a_seed,
    prepares_the_same_again,
    trains_all_its_parameters,
    scores_alike_when_saved,
    reads_new_words_and_empty_texts,
    has_costs,
    learns_the_order_of_twenty_pairs,
)
