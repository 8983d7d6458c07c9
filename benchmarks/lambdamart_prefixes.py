"""The switch points of Ferro et al. (2018), t = 100, 200, 300, 400 of T = 500 trees, with their first stage shared, and
as four separate LightGBM trainings: 1,400 trees instead of 2,000.

    python benchmarks/lambdamart_prefixes.py [FOLDER] [--json] [--curriculum mse|relevant_count]

FOLDER is a LETOR folder; without one the data are made up. Both sides bin the data once a training, evaluate nothing
on dev but what a training of ours always evaluates, and their rankings of the training data must be equal to the bit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import lightgbm as lgb
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from side_by_side import compare, tell

from tests.letor_data import letor_data
from trainables.config import DataConfig, TrainingRun, validated
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.rankers.lambdamart import parameters, require_features
from trainables.training.materials import NO_TEXTS, Materials
from trainables.training.trees import TreeTraining, settings_of, stages

SWITCHES, TREES, STEP = (100, 200, 300, 400), 500, 50
CURRICULA = {"mse": {"objective_switch": "mse"}, "relevant_count": {"subset": "relevant_count"}}


def run_of(curriculum: str, switch: int) -> TrainingRun:
    ranker = {"name": "lambdamart", "leaves": 64, "trees_per_iteration": STEP}
    training = {"lr": 0.05, "max_iterations": TREES // STEP, "patience": TREES}
    keys = {**CURRICULA[curriculum], "switch": switch}
    return validated({"ranker": ranker, "training": training, "curriculum": keys, "metric": "ndcg@10"})


def ours(data: RankingData, curriculum: str) -> list[np.ndarray]:
    """Scores of the training data after each of the trainings, from an empty cache."""
    before = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            return [_trained(data, run_of(curriculum, switch)) for switch in SWITCHES]
        finally:
            del os.environ["XDG_CACHE_HOME"]
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before


def _trained(data: RankingData, run: TrainingRun) -> np.ndarray:
    training = TreeTraining(run, Materials(data, NO_TEXTS))
    while not training.finished:
        training.iterate()
    assert training.booster is not None
    return np.asarray(training.booster.predict(features_of(data)))


def separate(data: RankingData, curriculum: str) -> list[np.ndarray]:
    """The same by LightGBM alone."""
    return [_by_lightgbm(data, run_of(curriculum, switch)) for switch in SWITCHES]


def _by_lightgbm(data: RankingData, run: TrainingRun) -> np.ndarray:
    split, features = data.splits["train"], features_of(data)
    booster = None
    for stage in stages(run, data, split):
        sizes = np.bincount(split.owner[stage.rows], minlength=len(split))
        rows = lgb.Dataset(features[stage.rows], split.grade[stage.rows], group=sizes[sizes > 0], free_raw_data=False)
        keys = parameters(settings_of(run), run.training.lr, stage.objective, int(split.grade.max()))
        threads = {"num_threads": torch.get_num_threads(), "seed": 0}
        booster = lgb.train(keys | threads, rows, stage.last - stage.first, init_model=booster)
    assert booster is not None
    return np.asarray(booster.predict(features))


def features_of(data: RankingData) -> np.ndarray:
    return require_features(data)[data.splits["train"].document]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="a LETOR folder")
    parser.add_argument("--curriculum", choices=CURRICULA, default="mse")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.folder:
        data = load_data(DataConfig(source=options.folder))
    else:
        data = letor_data({"train": 300, "dev": 40, "test": 1}, candidates=40, width=64)
    found: list[list[np.ndarray]] = []
    comparison = compare(
        f"LambdaMART, {options.curriculum} first, 4 switch points of {TREES} trees",
        "4 separate LightGBM trainings",
        lambda: found.append(ours(data, options.curriculum)),
        lambda: found.append(separate(data, options.curriculum)),
        options.repeats,
        warm_up=0,
    )
    for mine, theirs in zip(found[0], found[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    tell(comparison, options.json)


if __name__ == "__main__":
    main()
