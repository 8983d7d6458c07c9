"""The configured curriculum over a training's instances: when each comes, how much it counts, under which loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from trainables.config.keys import TrainingConfig
from trainables.core.randomness import generator
from trainables.curriculum.negatives import Negatives
from trainables.curriculum.sampler import BatchSampler, easy_first
from trainables.curriculum.scoring import CONSTANT, Scored, difficulty
from trainables.curriculum.weighting import (
    CODE_EPSILON,
    SELF_PACED_WEIGHTS,
    WEIGHTINGS,
    Losses,
    Weigher,
    ease_of,
    losses_of,
    values_of,
)
from trainables.data.columns import RankingData, Split
from trainables.data.instances import Batch, Instances
from trainables.rankers.first_stage import first_stage_for
from trainables.rankers.ranker import RankerModule, TextSide
from trainables.training.prepared import PreparedData

DIFFICULTY = "difficulty"
WINDOW = 8  # batches that are drawn together and sorted by length


@dataclass
class TrainingCurriculum:
    """Sampler, weigher and negatives of one training. `refreshed`: difficulty float64 [I] that replaced the first one,
    which a resumed training cannot compute anew; or None."""

    sampler: BatchSampler
    weigher: Weigher
    negatives: Negatives
    refreshed: np.ndarray | None = None
    notes: tuple[str, ...] = ()  # what the user should know of it

    def follow(self, dev: Sequence[float]) -> None:
        """Paces the next iteration by the dev values of all before it."""
        self.sampler.schedule = self.sampler.schedule.after(dev)
        self.negatives = self.negatives.after(dev)

    def reads_difficulty(self, step: int, iteration: int) -> bool:
        """Whether the instances' difficulty still decides anything at a step."""
        weighs = self.weigher.reads_difficulty and iteration < self.weigher.m
        return weighs or self.sampler.schedule.share(step) < 1

    def refresh(self, difficulty: np.ndarray) -> None:
        """Switches to another difficulty of the same instances."""
        self.refreshed = difficulty
        self.sampler.order = easy_first(difficulty, self.weigher.anti)
        self.weigher = self.weigher.with_difficulty(difficulty)


def make_curriculum(
    run: TrainingConfig, prepared: PreparedData, split: Split, negatives: Negatives
) -> TrainingCurriculum:
    """The configured curriculum over the training instances. Orders and weights are those of the last negatives."""
    instances, settings = negatives.instances, run.curriculum
    hardness = np.zeros(len(instances))
    notes: tuple[str, ...] = ()
    if settings.reads_scoring:
        scored = scored_of(run, prepared.data, split, instances, prepared.given_teachers())
        hardness = difficulty(settings.scoring, scored)[0]
        if len(hardness) > 1 and np.ptp(hardness) == 0:
            notes = (f"{CONSTANT} (scoring {settings.scoring}: {hardness[0]:g}), so their order means nothing",)
    sampler = BatchSampler(easy_first(hardness, settings.anti), settings.schedule(total_steps(run)), run.seed)
    return TrainingCurriculum(sampler, make_weigher(run, split, instances, hardness), negatives, notes=notes)


def scored_of(
    run: TrainingConfig,
    data: RankingData,
    split: Split,
    instances: Instances,
    teachers: Mapping[str, Callable[[], np.ndarray]] | None = None,
) -> Scored:
    """What the configured scoring reads. `teachers`: what returns teachers' scores of the split, by field of Scored."""
    settings = run.curriculum
    return Scored(
        data,
        split,
        instances,
        seed=run.seed,
        reference=settings.reference,
        relevance_level=run.evaluation.relevance_level,
        vectors=settings.vectors,
        file=settings.file,
        **(teachers or {}),
    )


def make_weigher(run: TrainingConfig, split: Split, instances: Instances, difficulty: np.ndarray) -> Weigher:
    """The configured weighting. `difficulty`: of each instance, for weightings that read it."""
    settings, code = run.curriculum, run.curriculum.reference == "code"
    weigher = Weigher(settings.m, settings.anti, instances.pairwise, epsilon=CODE_EPSILON if code else 0.0)
    if settings.weighting == DIFFICULTY:
        return replace(weigher, ease=ease_of(difficulty))
    if settings.weighting in SELF_PACED_WEIGHTS:
        losses = losses_of(difficulty, settings.anti)
        return replace(weigher, losses=Losses(losses, settings.delta, SELF_PACED_WEIGHTS[settings.weighting]))
    if WEIGHTINGS[settings.weighting] is None:
        return weigher
    value = values_of(settings.weighting, split, code)
    # Relevant is s > 0 (Eqs. 6, 8, 10), s being what the loss learns: the grade, or whether it reaches the level.
    level = 1 if code or run.training.loss == "mse" else run.evaluation.relevance_level
    return replace(weigher, value=value, relevant=split.grade >= level)


def objective(run: TrainingConfig, step: int) -> str:
    """The loss in force at an optimiser step (from 0): `curriculum.objective_switch` until `switch_at` of all steps."""
    settings = run.curriculum
    if settings.objective_switch != "none" and step < settings.switch_at * total_steps(run) - 1e-9:
        return settings.objective_switch
    return run.training.loss


def total_steps(run: TrainingConfig) -> int:
    """Optimiser steps of a training that does not end early."""
    return run.training.max_iterations * run.training.batches_per_iteration


class Batcher:
    """Draws the batches of a training and turns candidate rows into token rows."""

    def __init__(
        self,
        prepared: PreparedData,
        split: Split,
        curriculum: TrainingCurriculum,
        module: RankerModule,
        batch_size: int,
    ):
        self.text: TextSide = prepared.text
        self.split, self.curriculum, self.instances = split, curriculum, curriculum.negatives.instances
        self.seed = curriculum.sampler.seed  # of the draws of negatives too
        self.module, self.batch_size, self.window = module, batch_size, WINDOW
        self.query_of_row = split.query[split.owner]
        self.first_stage = first_stage_for(module, split)
        self.features: torch.Tensor | None = None  # of all candidates, where training does not change them

    def batches(self, step: int, count: int) -> Iterator[Batch]:
        """The batches of steps step .. step + count - 1."""
        for start in range(step, step + count, self.window):
            yield from self._window(start, min(self.window, step + count - start))

    def _window(self, step: int, batches: int) -> Iterator[Batch]:
        rows = self.curriculum.sampler.draw(step, batches, self.batch_size).ravel()
        rng = generator(self.seed, "negatives", step)
        positive, negative = self.curriculum.negatives.at(step).draw(rows, rng)
        if batches > 1:
            by_cost = np.argsort(self._costs(positive, negative), kind="stable")
            rows, positive, negative = rows[by_cost], positive[by_cost], negative[by_cost]
        for index in rng.permutation(batches):
            at = slice(index * self.batch_size, (index + 1) * self.batch_size)
            yield Batch(rows[at], positive[at], negative[at])

    def _costs(self, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
        """Padded length of each sample, that of its longest document."""
        if negative.ndim > 1:
            rows = np.concatenate([positive[:, None], negative], axis=1)
            return self.costs(rows.ravel()).reshape(rows.shape).max(1)
        sides = [np.where(side >= 0, side, other) for side, other in ((positive, negative), (negative, positive))]
        return np.maximum(*(self.costs(rows) for rows in sides))

    def costs(self, rows: np.ndarray) -> np.ndarray:
        return self.module.costs(
            self.text.queries, self.text.documents, self.query_of_row[rows], self.split.document[rows]
        )

    def inputs(self, rows: np.ndarray):
        """Tensors of candidate rows for the ranker's forward pass."""
        if self.features is not None:
            tensors = {"features": self.features[torch.from_numpy(rows)]}
        else:
            tensors = self.module.collate(
                self.text.queries, self.text.documents, self.query_of_row[rows], self.split.document[rows]
            )
        if self.first_stage is not None:
            tensors["first_stage"] = torch.from_numpy(self.first_stage[rows])
        return tensors
