"""Training a cross-encoder with losses of lists: us against sentence-transformers' CrossEncoderTrainer.

    python benchmarks/list_training.py ../shared/data/answers/wikiqa [--steps 8] [--repeats 2] [--threads 2] [--json]

The BERT of bert_training.py in fp32, 4 lists of a relevant document and 7 others a step, AdamW. For each loss that both
have, both train the same number of steps on the same lists, in turns; margin_mse reads random numbers as the teacher's
scores. Only the loop of steps is timed. Ends in an error if steps or documents differ. The losses' values are not
compared: theirs have other units (logarithms to base 2, sums). Needs the extra `bench`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from bert_training import LENGTH, MODEL, RATE, Turn, ours, parsed
from datasets import Dataset  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from devices import required_device
from peer_trainer import options_of, trained
from sentence_transformers.cross_encoder import (  # pyright: ignore[reportMissingImports]  # of the `bench` extra
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    losses,
)
from side_by_side import Comparison, tell

from trainables.config.keys import unflatten, validated
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

LISTS, NEGATIVES = 4, 7
THEIRS = {
    "listnet": losses.ListNetLoss,
    "ranknet": losses.RankNetLoss,
    "lambdaloss": losses.LambdaLoss,
    "margin_mse": losses.MarginMSELoss,
}


@dataclass(frozen=True)
class Lists:
    """One round's lists: the relevant document first, labels or a teacher's scores beside."""

    queries: list[str]
    documents: list[list[str]]
    labels: list[list[float]]

    def dataset(self, loss: str) -> Dataset:
        if loss != "margin_mse":
            return Dataset.from_dict({"query": self.queries, "docs": self.documents, "labels": self.labels})
        columns = {f"document{at}": [texts[at] for texts in self.documents] for at in range(1 + NEGATIVES)}
        return Dataset.from_dict({"query": self.queries, **columns, "label": self.labels})


def our_training(data: str, loss: str, steps: int, prepared: PreparedData | None, device: torch.device) -> Training:
    keys = {
        "data.source": data,
        "ranker.name": "bert",
        "ranker.model": MODEL,
        "ranker.head": "classification",
        "training.loss": loss,
        "training.negatives": NEGATIVES,
        "training.lr": RATE,
        "training.max_length": LENGTH,
        "training.batch_size": LISTS,
        "training.batches_per_iteration": steps,
        "training.precision": "fp32",
        "training.max_iterations": 1000,
    }
    run = validated(unflatten(keys))
    prepared = prepared or prepare(run)
    if loss == "margin_mse":
        count = len(prepared.data.splits["train"].document)
        prepared = replace(
            prepared, teachers={"teacher": np.random.default_rng(0).normal(size=count).astype(np.float32)}
        )
    return Training(run, prepared, str(device))


def lists_of(training: Training) -> Lists:
    """The lists that the next turn of a training draws."""
    steps = training.run.training.batches_per_iteration
    batches = list(training.batcher.batches(training.iteration * steps, steps))
    rows = np.concatenate([np.column_stack([batch.positive, batch.negative]) for batch in batches])
    split, data, teacher = training.batcher.split, training.prepared.data, training.prepared.teachers.get("teacher")
    labels = split.grade.clip(0).astype(float) if teacher is None else teacher
    return Lists(
        [data.query_text(int(query)) for query in training.batcher.query_of_row[rows[:, 0]]],
        [[str(data.documents[int(document)]) for document in split.document[row]] for row in rows],
        labels[rows].tolist(),
    )


def theirs(loss: str, folder: Path, device: torch.device) -> Callable[[Lists], Turn]:
    """CrossEncoderTrainer, its model kept from turn to turn."""
    model = CrossEncoder(MODEL, num_labels=1, max_length=LENGTH, device=str(device), local_files_only=True)
    options = options_of(CrossEncoderTrainingArguments, folder, LISTS, RATE, device)
    function: Any = THEIRS[loss](model)

    def turn(lists: Lists) -> Turn:
        dataset = lists.dataset(loss)
        seconds, done = trained(CrossEncoderTrainer, model, options, dataset, device, loss=function)
        return Turn(seconds, done.global_step, len(dataset) * (1 + NEGATIVES), done.training_loss)

    return turn


def main() -> int:
    options = parsed(__doc__)
    device, prepared, wrong = required_device(options.device), None, 0
    for loss in THEIRS:
        training = our_training(options.data, loss, options.steps, prepared, device)
        prepared = prepared or training.prepared
        turns: list[tuple[Turn, Turn]] = []
        with TemporaryDirectory() as folder:
            train, peer = ours(training), theirs(loss, Path(folder), device)
            for _ in range(options.repeats + 1):  # the first round does not count
                lists = lists_of(training)
                turns.append((train(lists), peer(lists)))
                print(f"{loss}: {turns[-1]}", file=sys.stderr, flush=True)
        wrong += any((we.steps, we.pairs) != (they.steps, they.pairs) for we, they in turns)
        name = f"BERT on {Path(options.data).name}, {options.steps} steps of {LISTS} lists of {1 + NEGATIVES}, {loss}"
        taken = [[pair[side].seconds for pair in turns[1:]] for side in (0, 1)]
        tell(Comparison(name, f"sentence-transformers {version('sentence-transformers')}", *taken), options.json)
    if wrong:
        print(f"error: {wrong} losses were trained on other numbers of steps or documents", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
