"""A training that is saved and goes on gives the numbers of an unbroken one, bit by bit, whatever it trains; and the
ranker that it leaves scores texts as it did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.pair_data import load_pairs
from tests.support.training_runs import RANKERS
from trainables.config.keys import TrainingConfig, validated
from trainables.data.columns import RankingData
from trainables.training.losses import LOSSES
from trainables.training.prepared import PreparedData, prepare
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.trainer import Training

SHORT = {"max_iterations": 4, "batches_per_iteration": 3, "batch_size": 8, "lr": 1e-3, "precision": "fp32"}
PACED = {"pacing": "root", "scoring": "context_words", "weighting": "normalized_score", "m": 3}
HARD = {"loss": "softmax", "negatives": 2, "hard_negatives": "first_stage", "negative_ranks": [1, 3]}
BY_TEACHER = HARD | {"hard_negatives": "teacher"}
IN_BATCH = {"loss": "softmax", "negatives": 2, "in_batch_negatives": True, "batch_size": 6}
BERT = {"head": "classification", "passages": "average", "checkpointing": True, "head_lr": 1e-2}
LONG = {"max_length": 12, "micro_batch": 3, "warmup": 0.2, "schedule": "linear", "max_iterations": 2}

CURRICULA: dict[str, dict[str, Any]] = {
    "pacing": {"pacing": "linear", "scoring": "context_words"},
    "stages": {"pacing": "step", "scoring": "turns"},
    "kde": {"weighting": "kde", "m": 4},
    "weights by difficulty": {"weighting": "difficulty", "scoring": "context_words", "anti": True},
    "self-paced weights": {"weighting": "self_paced_linear", "scoring": "self_paced", "m": 5},
    "objective switch": {"objective_switch": "pointwise", "switch_at": 0.5},
    "squared error first": {"objective_switch": "mse", "switch_at": 0.7},
    "self-paced": {"pacing": "linear", "scoring": "self_paced", "delta": 0.2, "T": 0.5},
    "self-paced all": {"pacing": "root", "scoring": "self_paced", "weighting": "difficulty", "delta": 0.2},
    "adaptive": {"pacing": "adaptive", "scoring": "context_words", "delta": 0.2, "stages": 4, "patience": 1, "T": 1},
    "one pass": {"pacing": "one_pass", "scoring": "turns"},
    "final share": {"pacing": "competence", "scoring": "context_words", "final_share": 0.6},
    "self-paced part": {"pacing": "baby_steps", "scoring": "self_paced", "final_share": 0.7},
    "code": {"pacing": "cubic", "weighting": "reciprocal_rank", "reference": "code"},
}
NEGATIVES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ranks": (HARD, {"negatives": {"schedule": "ranks"}, "T": 0.8}),
    "ranks from a start": (BY_TEACHER, {"negatives": {"schedule": "ranks", "start": [5, 8], "pacing": "root"}}),
    "sources": (BY_TEACHER, {"negatives": {"schedule": "sources", "pacing": "baby_steps"}, "T": 1}),
    "groups": (
        {"loss": "cl_drd", "negatives": 5, "hard_negatives": "random"},
        {"negatives": {"schedule": "groups"}, "delta": 0.2, "T": 1},
    ),
    "by dev": (HARD, {"negatives": {"schedule": "ranks", "pacing": "adaptive"}, "patience": 1, "T": 1}),
    "with an order": (
        HARD,
        {"negatives": {"schedule": "ranks"}, "pacing": "linear", "scoring": "context_words", "final_share": 0.7},
    ),
    "self-paced sources": (
        HARD,
        {"negatives": {"schedule": "sources", "pacing": "step"}, "pacing": "linear", "scoring": "self_paced"},
    ),
}


def run_of(ranker: dict[str, Any], training: dict[str, Any], curriculum: dict[str, Any], **more: Any) -> TrainingConfig:
    return validated({"ranker": ranker, "training": SHORT | training, "curriculum": curriculum, "seed": 1, **more})


def cases() -> dict[str, TrainingConfig]:
    conv_knrm = RANKERS["conv_knrm"]
    found = {f"{name}, {loss}": run_of(keys, {"loss": loss}, PACED) for name, keys in RANKERS.items()
             for loss in ("pointwise", "pairwise")}  # fmt: skip
    found |= {f"loss {name}": run_of(conv_knrm, {"loss": name, "negatives": 3}, {})
              for name, loss in LOSSES.items() if loss.kind == "listwise"}  # fmt: skip
    found |= {f"curriculum: {name}": run_of(conv_knrm, {}, keys) for name, keys in CURRICULA.items()}
    found |= {f"negatives: {name}": run_of(conv_knrm, *keys) for name, keys in NEGATIVES.items()}
    found["in batch"] = run_of(RANKERS["bi_encoder"], IN_BATCH, PACED)
    found["in batch, in parts"] = run_of(RANKERS["bi_encoder"], IN_BATCH | {"micro_batch": 2}, PACED)
    found["bert with all its options"] = run_of(RANKERS["bert"] | BERT, LONG, {})
    for scoring in ("response_words", "self_paced", "model_margin"):
        paced = {"pacing": "linear", "scoring": scoring, "weighting": "difficulty", "m": 3}
        mlp = {"name": "embedding_mlp", "vector_size": 16}
        found[f"classes, {scoring}"] = run_of(mlp, {"loss": "cross_entropy", "lr": 1e-2}, paced, metric="accuracy")
    return found


CASES = cases()


@pytest.fixture(scope="module")
def ranking() -> RankingData:
    return tiny_data(queries=24, candidates=9, seed=5)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> RankingData:
    return load_pairs(tmp_path_factory.mktemp("pairs"))


def prepared(run: TrainingConfig, data: RankingData) -> PreparedData:
    """With a made-up teacher."""
    made, classes = prepare(run, data), len(data.classes) or 1
    scores = np.sin(np.arange(len(data.splits["train"].document) * classes)).astype(np.float32)
    return replace(made, teachers={"teacher": scores.reshape(-1, classes) if data.classes else scores})


def finish(training: Training) -> list[list[float]]:
    while not training.finished:
        training.iterate()
    metric = f"dev_{training.run.metric}"
    return [[row[key] for key in (metric, "train_loss", "available_share", "mean_weight")] for row in training.history]


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_training_gives_the_numbers_of_an_unbroken_one(
    case: str, ranking: RankingData, pairs: RankingData, tmp_path: Path
) -> None:
    run, data = CASES[case], pairs if CASES[case].metric == "accuracy" else ranking
    given = prepared(run, data)
    unbroken, first, second = (Training(run, given, "cpu") for _ in range(3))
    first.iterate()
    if first.run.training.max_iterations > 2:
        first.iterate()
    (tmp_path / "state").mkdir()
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    expected = finish(unbroken)
    assert finish(second) == expected
    assert second.best_iteration == unbroken.best_iteration
    assert all(torch.equal(second.best_weights[name], weight) for name, weight in unbroken.best_weights.items())
    assert np.array_equal(second.best_scores, unbroken.best_scores)
    second.save_ranker(tmp_path / "ranker")
    saved, dev = load_ranker_folder(tmp_path / "ranker"), data.splits["dev"]
    scores = saved.score(data.query_texts(), data.documents, dev.query[dev.owner], dev.document)
    assert scores == pytest.approx(unbroken.best_scores, abs=1e-5)


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith(("curriculum", "negatives"))])
def test_each_curriculum_changes_the_training(case: str, ranking: RankingData) -> None:
    run = CASES[case]
    tree = run.model_dump()["curriculum"]
    plain = {key: value for key, value in tree.items() if key != "negatives"} if case.startswith("negatives") else {}
    without = run_of(RANKERS["conv_knrm"], run.training.model_dump(exclude_none=True), plain)
    given = prepared(run, ranking)
    assert finish(Training(run, given, "cpu")) != finish(Training(without, given, "cpu"))
