"""The training of boosted trees (LambdaMART) in one stage or two: LightGBM continues a booster on other data and under
another objective by its `init_model`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainables.config.keys import TrainingConfig
from trainables.core.errors import WorkFailed
from trainables.core.randomness import generator
from trainables.curriculum.subset import SUBSETS, Labelled
from trainables.data.columns import RankingData, Split, required_split
from trainables.data.combine import drawn_queries
from trainables.evaluation.metrics import Evaluator
from trainables.extras.lambdamart import LambdaMartSettings, TreeObjective, learnable_features, parameters
from trainables.training import checkpoint
from trainables.training.features import FeatureTraining
from trainables.training.prepared import PreparedData
from trainables.training.ranker_folder import OWN, described

if TYPE_CHECKING:
    import lightgbm as lgb  # imported where it is used, for it takes half a second

MODEL = "model.txt"


def read_trees(path: Path) -> lgb.Booster:
    """A booster from its file. Raises ValueError if it is damaged, or was cut short: LightGBM would end the process."""
    import lightgbm as lgb

    text = path.read_text(encoding="utf-8")
    if "\nend of trees\n" not in text:
        raise ValueError(f"{path} ends before its trees do")
    try:
        return lgb.Booster(model_str=text)
    except lgb.basic.LightGBMError as error:
        raise ValueError(str(error)) from error


def cut(booster: lgb.Booster, rounds: int) -> lgb.Booster:
    """A copy with the first `rounds` trees, made through LightGBM's text form, which keeps every number to the bit."""
    import lightgbm as lgb

    return lgb.Booster(model_str=booster.model_to_string(num_iteration=rounds))


LOSS_METRIC = "ndcg@10"  # lambdarank gives no loss of its own: 1 - this metric on training queries is reported
LOSS_QUERIES = 50  # training queries, drawn once, for the loss: scoring all would cost as much as growing the trees


@dataclass(frozen=True)
class Stage:
    """Rounds first + 1 to last, grown under one objective on some candidate rows of the training split, int64 [N]."""

    objective: TreeObjective
    rows: np.ndarray
    first: int
    last: int


def settings_of(run: TrainingConfig) -> LambdaMartSettings:
    settings = run.ranker
    if not isinstance(settings, LambdaMartSettings):
        raise TypeError(f"{run.ranker.name} grows no trees")
    return settings


def stages(run: TrainingConfig, data: RankingData, split: Split) -> list[Stage]:
    """The stages of a training: `curriculum.switch` rounds of the curriculum, then lambdarank on everything.

    The first stage of MSE-t (Ferro et al. 2018) is squared error on the label, that of a subset lambdarank on less
    data; with both, squared error on the subset. With a switch past the last round there is only the first stage.
    """
    curriculum, everything = run.curriculum, np.arange(len(split.document))
    total = run.training.max_iterations * settings_of(run).trees_per_iteration
    objective: TreeObjective = "regression" if curriculum.objective_switch == "mse" else "lambdarank"
    if objective == "lambdarank" and curriculum.subset == "none":
        return [Stage("lambdarank", everything, 0, total)]
    labelled = Labelled(
        split,
        data,
        share=curriculum.subset_share,
        feature=curriculum.feature,
        relevance_level=run.evaluation.relevance_level,
    )
    rows = SUBSETS[curriculum.subset](labelled)
    switch = min(curriculum.switch, total)
    both = [Stage(objective, rows, 0, switch), Stage("lambdarank", everything, switch, total)]
    return [stage for stage in both if stage.first < stage.last]


def add_scores(
    scores: np.ndarray, booster: lgb.Booster, features: np.ndarray, first: int, last: int, step: int
) -> None:
    """Adds trees first + 1 to last, `step` trees at a time, to the scores, float64 [N], of features, float32 [N, F].

    The grouping fixes the rounding: scores added up iteration by iteration equal those of a saved booster.
    """
    for start in range(first, min(last, booster.num_trees()), step):
        count = min(step, last - start)
        scores += booster.predict(features, start_iteration=start, num_iteration=count, raw_score=True)


@dataclass(frozen=True)
class Trees:
    """The trained ranker. `step`: trees of an iteration."""

    booster: lgb.Booster
    step: int

    @property
    def width(self) -> int:
        return self.booster.num_feature()

    def score(self, features: np.ndarray) -> np.ndarray:
        """Scores, float32 [N], of features, float32 [N, F]."""
        return score_features(self.booster, features, self.step)


class TreeTraining(FeatureTraining):
    """State of one training: the booster, which is a function of data, configuration and rounds alone.

    A booster that continues a saved one grows the same trees as one that was never interrupted. If the configuration
    samples rows or features, this still holds, as each iteration then has a random seed of its own.
    """

    def __init__(self, run: TrainingConfig, prepared: PreparedData):
        super().__init__(run, prepared)
        self.settings = settings_of(run)
        self._step = self.settings.trees_per_iteration
        learnable_features(prepared.data)
        self.train = required_split(prepared.data, "train")
        self.stages = stages(run, prepared.data, self.train)
        self.booster: lgb.Booster | None = None
        self.trees: list[int] = []  # after each iteration; fewer than rounds if no further split was possible
        self._growing: tuple[Stage, lgb.Booster] | None = None  # a booster that can go on without being rebuilt
        self._dataset: tuple[np.ndarray, lgb.Dataset] | None = None  # rows of the training split, and their data
        self._dev_features = self.features[self.dev.document]
        self._seen = drawn_queries(self.train, LOSS_QUERIES, "training loss")
        self._seen_features = self.features[self._seen.document]
        self._seen_evaluator = Evaluator(self._seen, prepared.data.document_ids, run.evaluation.relevance_level)
        self._dev_scores = np.zeros(len(self.dev.document))
        self._seen_scores = np.zeros(len(self._seen.document))

    @classmethod
    def notes_on(cls, run: TrainingConfig, data: RankingData) -> tuple[str, ...]:
        """None. Raises DataError for data or features that it cannot use."""
        learnable_features(data)
        stages(run, data, required_split(data, "train"))
        return ()

    @classmethod
    def read_ranker(cls, run: TrainingConfig, folder: Path) -> Trees:
        return Trees(read_trees(folder / MODEL), settings_of(run).trees_per_iteration)

    @property
    def rounds(self) -> int:
        """Boosting rounds done: one tree each, unless no further split was possible."""
        return self.iteration * self._step

    # -- one iteration -------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """Grows `ranker.trees_per_iteration` trees and evaluates on dev; returns the metrics of docs/how-to/mlflow.md.

        Raises WorkFailed where the training data allows no split at all.
        """
        started = time.perf_counter()
        first, last = self.rounds, self.rounds + self._step
        pairs = 0
        for stage in self.stages:
            begin, end = max(first, stage.first), min(last, stage.last)
            if begin < end:
                self._grow(stage, begin, end)
                pairs += len(stage.rows) * (end - begin)
        grown = time.perf_counter() - started
        self.trees.append(self.booster.num_trees() if self.booster else 0)
        self._add_iteration(self.iteration)
        stage = next(stage for stage in self.stages if last <= stage.last)
        scores, share = self._dev_scores.astype(np.float32), len(stage.rows) / len(self.train.document)
        metrics = self.end_iteration(started, scores, self._train_loss(stage), pairs / grown, share)
        return metrics

    def _grow(self, stage: Stage, begin: int, end: int) -> None:
        """Brings the booster from round `begin` to round `end` of a stage."""
        import lightgbm as lgb

        if self._growing and self._growing[0] is stage and not self.settings.draws:
            booster = self._growing[1]
            for _ in range(end - begin):
                if booster.update():  # no split is possible any more
                    break
        else:
            booster = lgb.train(
                self._parameters(stage) | {"num_threads": torch.get_num_threads(), "seed": self._seed(begin)},
                self._stage_data(stage),
                end - begin,
                init_model=self.booster,
                keep_training_booster=True,
            )
        if begin == 0 and booster.dump_model(num_iteration=1)["tree_info"][0]["num_leaves"] < 2:
            raise WorkFailed(
                f"no split of the {len(stage.rows)} training documents is possible; "
                f"a lower ranker.min_data_in_leaf than {self.settings.min_data_in_leaf} may help"
            )
        self.booster, self._growing = booster, (stage, booster)

    def _parameters(self, stage: Stage) -> dict[str, Any]:
        return parameters(self.settings, self.run.training.lr, stage.objective, int(self.train.grade.max()))

    def _seed(self, begin: int) -> int:
        """LightGBM's seed for the trees from round `begin` on."""
        return int(generator(self.run.seed, "trees", begin).integers(2**31)) if self.settings.draws else 0

    def _stage_data(self, stage: Stage) -> lgb.Dataset:
        """The stage's rows, binned; kept for the next stage if it has the same rows, and replaced otherwise."""
        import lightgbm as lgb

        if self._dataset is None or not np.array_equal(self._dataset[0], stage.rows):
            sizes = np.bincount(self.train.owner[stage.rows], minlength=len(self.train))
            dataset = lgb.Dataset(
                self.features[self.train.document[stage.rows]],
                label=np.maximum(self.train.grade[stage.rows], 0),
                group=sizes[sizes > 0],
                free_raw_data=False,  # a booster that continues another first scores the rows with its trees
            )
            self._dataset = stage.rows, dataset
        return self._dataset[1]

    # -- scores --------------------------------------------------------------------------------------------------

    def _add_iteration(self, iteration: int) -> None:
        """Adds the trees of an iteration (from 0) to the scores of dev and of some training candidates."""
        if self.booster is not None:
            first, last = self.trees[iteration - 1] if iteration else 0, self.trees[iteration]
            add_scores(self._dev_scores, self.booster, self._dev_features, first, last, self._step)
            add_scores(self._seen_scores, self.booster, self._seen_features, first, last, self._step)

    def _train_loss(self, stage: Stage) -> float:
        """Loss under the stage's objective on LOSS_QUERIES training queries, whether in the subset or not: mean squared
        error on the label, or 1 - mean nDCG@10."""
        if stage.objective == "regression":
            return float(np.square(self._seen_scores - np.maximum(self._seen.grade, 0)).mean())
        ndcg = self._seen_evaluator(self._seen_scores.astype(np.float32), [LOSS_METRIC])[LOSS_METRIC]
        return 1.0 - float(ndcg.mean())

    def score(self, split: Split) -> np.ndarray:
        """Scores of all candidates of a split with the current trees, float32 [C]."""
        return score_features(self.booster, self.features[split.document], self._step)

    # -- state ---------------------------------------------------------------------------------------------------

    def cut_at_best(self) -> None:
        """Cuts the booster at the best iteration."""
        if self.booster is not None:
            self.booster = cut(self.booster, self.trees[self.best_iteration - 1] if self.best_iteration else 0)

    def save_ranker(self, folder: Path) -> None:
        """Writes the ranker of the best iteration as a folder for `load_saved`, and keeps that ranker only."""
        self.cut_at_best()

        def write(temporary: Path) -> None:
            if self.booster is not None:
                self.booster.save_model(temporary / MODEL)
            checkpoint.write_json(temporary / OWN, described(self.run))

        checkpoint.write_folder(folder, write)

    def restore_ranker(self, folder: Path) -> None:
        """Takes the ranker that `save_ranker` wrote, to score with."""
        self.booster = read_trees(folder / MODEL)

    def save(self, folder: Path) -> None:
        if self.booster is not None:
            (folder / MODEL).write_text(self.booster.model_to_string())
        if self.has_best:
            checkpoint.save_tensors(folder, {checkpoint.DEV: checkpoint.dev_tensors(self.best_scores)})
        checkpoint.write_json(folder / checkpoint.STATE, self.document() | {"trees": list(self.trees)})

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote for the same configuration. Raises DataError for another one."""
        self.trees, self._growing = self.restore_progress(folder)["trees"], None
        grown = any(self.trees) or (folder / MODEL).is_file()
        self.booster = read_trees(folder / MODEL) if grown else None
        for scores in (self._dev_scores, self._seen_scores):
            scores[:] = 0
        for iteration in range(self.iteration):
            self._add_iteration(iteration)


def score_features(booster: lgb.Booster | None, features: np.ndarray, step: int) -> np.ndarray:
    """Scores, float32 [N], of features, float32 [N, F]; summed as in the training, `step` trees at a time."""
    scores = np.zeros(len(features))
    if booster is not None:
        add_scores(scores, booster, features, 0, booster.num_trees(), step)
    return scores.astype(np.float32)
