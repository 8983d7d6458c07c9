"""From instance rows to batches for the ranker: drawn by the curriculum, then sorted by length within a window."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from trainables.curriculum.sampler import Sampler
from trainables.data.columns import Split
from trainables.data.instances import Batch, Instances
from trainables.randomness import generator
from trainables.rankers.base import RankerModule, TextSide
from trainables.rankers.first_stage import first_stage_for
from trainables.training.materials import Materials


class Batcher:
    """Draws the batches of a training and turns candidate rows into token rows."""

    def __init__(
        self,
        materials: Materials,
        split: Split,
        instances: Instances,
        sampler: Sampler,
        module: RankerModule,
        batch_size: int,
        window: int,
    ):
        self.text: TextSide = materials.text
        self.split, self.instances, self.sampler = split, instances, sampler
        self.module, self.batch_size, self.window = module, batch_size, window
        self.query_of_row = split.query[split.owner]
        self.first_stage = first_stage_for(module, split)

    def batches(self, step: int, count: int) -> Iterator[Batch]:
        """The batches of steps step .. step + count - 1."""
        for start in range(step, step + count, self.window):
            yield from self._window(start, min(self.window, step + count - start))

    def _window(self, step: int, batches: int) -> Iterator[Batch]:
        rows = self.sampler.draw(step, batches, self.batch_size).ravel()
        rng = generator(self.sampler.seed, "negatives", step)
        positive, negative = self.instances.draw(rows, rng)
        if batches > 1:
            by_cost = np.argsort(self._costs(positive, negative), kind="stable")
            rows, positive, negative = rows[by_cost], positive[by_cost], negative[by_cost]
        for index in rng.permutation(batches):
            at = slice(index * self.batch_size, (index + 1) * self.batch_size)
            yield Batch(rows[at], positive[at], negative[at])

    def _costs(self, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
        """Padded length of each sample, that of its longest document."""
        sides = [np.where(side >= 0, side, other) for side, other in ((positive, negative), (negative, positive))]
        return np.maximum(*(self.costs(rows) for rows in sides))

    def costs(self, rows: np.ndarray) -> np.ndarray:
        return self.module.costs(
            self.text.queries, self.text.documents, self.query_of_row[rows], self.split.document[rows]
        )

    def inputs(self, rows: np.ndarray):
        """Tensors of candidate rows for the ranker's forward pass."""
        tensors = self.module.collate(
            self.text.queries, self.text.documents, self.query_of_row[rows], self.split.document[rows]
        )
        if self.first_stage is not None:
            tensors["first_stage"] = torch.from_numpy(self.first_stage[rows])
        return tensors
