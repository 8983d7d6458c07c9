"""The switch points of Ferro et al. (2018), t = 100, 200, 300, 400 of T = 500 trees, with the first stage shared,
against four separate LightGBM trainings: 1,400 trees instead of 2,000.

    python benchmarks/lambdamart_prefixes.py [FOLDER] [--json] [--curriculum mse|relevant_count]

Ours run once one after the other with all threads, and once as in a search: as many at a time as there are cores, with
a thread each. LightGBM's run one after the other with all threads, as in a script.
FOLDER is a LETOR folder; without one the data are made up. Both sides bin the data once in each training, again where
a stage has other rows, and evaluate on dev, since a switch point is chosen there: ours as always, LightGBM by its own
nDCG@10. Both sides' scores of the training data must be equal to the bit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lightgbm as lgb
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from side_by_side import compare, tell

from tests.support.letor_data import letor_data
from trainables.config.keys import TrainingRun
from trainables.config.rules import validated
from trainables.data import load_data
from trainables.data.columns import RankingData, Split
from trainables.data.settings import DataConfig
from trainables.extras.lambdamart import learnable_features, parameters
from trainables.extras.trees import TreeTraining, settings_of, stages
from trainables.training.prepared import NO_TEXTS, PreparedData

SWITCHES, TREES, STEP = (100, 200, 300, 400), 500, 50
CURRICULA = {"mse": {"objective_switch": "mse"}, "relevant_count": {"subset": "relevant_count"}}


def run_of(curriculum: str, switch: int) -> TrainingRun:
    ranker = {"name": "lambdamart", "leaves": 64, "trees_per_iteration": STEP}
    training = {"lr": 0.05, "max_iterations": TREES // STEP, "patience": TREES}
    keys = {**CURRICULA[curriculum], "switch": switch}
    return validated({"ranker": ranker, "training": training, "curriculum": keys, "metric": "ndcg@10"})


def ours(data: RankingData, curriculum: str, at_once: int) -> list[lgb.Booster]:
    """The trees of each training, from an empty cache; trainings that run at once share the cores."""
    threads, before = torch.get_num_threads(), os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        os.environ["XDG_CACHE_HOME"] = folder
        torch.set_num_threads(max(1, threads // at_once))
        try:
            apply = map if at_once == 1 else pool.map  # a second thread with OpenMP threads of its own slows each
            return list(apply(lambda switch: _trained(data, run_of(curriculum, switch)), SWITCHES))
        finally:
            torch.set_num_threads(threads)
            del os.environ["XDG_CACHE_HOME"]
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before


def _trained(data: RankingData, run: TrainingRun) -> lgb.Booster:
    training = TreeTraining(run, PreparedData(data, NO_TEXTS))
    while not training.finished:
        training.iterate()
    assert training.booster is not None
    return training.booster


def separate(data: RankingData, curriculum: str) -> list[lgb.Booster]:
    """The same by LightGBM alone."""
    return [_by_lightgbm(data, run_of(curriculum, switch)) for switch in SWITCHES]


def _by_lightgbm(data: RankingData, run: TrainingRun) -> lgb.Booster:
    train, dev = data.splits["train"], data.splits["dev"]
    booster = rows = judged = binned = None
    for stage in stages(run, data, train):
        if binned is None or not np.array_equal(binned, stage.rows):
            rows, binned = dataset(data, train, stage.rows), stage.rows
            judged = dataset(data, dev, np.arange(len(dev.document)), rows)
        assert rows is not None and judged is not None
        keys = parameters(settings_of(run), run.training.lr, stage.objective, int(train.grade.max()))
        keys |= {"num_threads": torch.get_num_threads(), "seed": 0, "metric": "ndcg", "eval_at": [10]}
        booster = lgb.train(keys, rows, stage.last - stage.first, [judged], init_model=booster)
    assert booster is not None
    return booster


def dataset(data: RankingData, split: Split, rows: np.ndarray, reference: lgb.Dataset | None = None) -> lgb.Dataset:
    """Some candidate rows of a split, in the bins of another data set if one is given."""
    features = learnable_features(data)[split.document[rows]]
    sizes = np.bincount(split.owner[rows], minlength=len(split))
    return lgb.Dataset(features, split.grade[rows], reference, group=sizes[sizes > 0], free_raw_data=False)


def require_equal(data: RankingData, mine: list[lgb.Booster], theirs: list[lgb.Booster]) -> None:
    features = learnable_features(data)[data.splits["train"].document]
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one.predict(features), other.predict(features))


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
    cores = torch.get_num_threads()
    for at_once in (1, cores):
        found: dict[str, list[lgb.Booster]] = {}
        how = f"{at_once} at a time" if at_once > 1 else "one after the other"
        comparison = compare(
            f"LambdaMART, {options.curriculum} first, 4 switch points of {TREES} trees, {how}",
            f"4 separate LightGBM trainings, {cores} threads",
            lambda at_once=at_once, found=found: found.update(ours=ours(data, options.curriculum, at_once)),
            lambda found=found: found.update(theirs=separate(data, options.curriculum)),
            options.repeats,
            warm_up=0,
        )
        require_equal(data, found["ours"], found["theirs"])
        tell(comparison, options.json)


if __name__ == "__main__":
    main()
