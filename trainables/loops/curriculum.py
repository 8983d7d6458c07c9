"""A curriculum for any training loop: from a difficulty of each instance to batches and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, ValidationError

from trainables.config.keys import CurriculumConfig
from trainables.core.errors import ConfigError, Problem
from trainables.core.validation import problems_of
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.sampler import BatchSampler, easy_first
from trainables.curriculum.weighting import SELF_PACED_WEIGHTS, WEIGHTINGS, ease_of, turned, weights

if TYPE_CHECKING:  # numbers and weights need no PyTorch
    from torch import Tensor, nn

    from trainables.loops.torch_parts import CurriculumBatches, WeightedLoss


class _Keys(CurriculumConfig):
    """The arguments of a Curriculum that are not arrays, with the ranges of the configuration's keys."""

    total_steps: int = Field(ge=1, description="batches of the whole training")
    seed: int = Field(default=0, ge=0)


class Curriculum:
    """Which instances a step of a training sees, and how much each of them counts.

    All of it is a function of (seed, step), the same that `tune-cl train` uses: a resumed training gets the batches of
    an uninterrupted one, and nothing has to be saved.

    difficulty   array [I] of numbers, higher = harder; instance i is row i of the training data
    total_steps  batches of the whole training. With gradient accumulation or several processes, an optimiser step
                 takes more than one batch
    pacing, n, delta, T, stages, final_share
                 how fast the instances open, easiest first (Penha & Hauff 2020, Table 3): delta is the share open at
                 step 0, T the share of total_steps after which all are open, n the root of pacing `root`, stages the
                 number of stages of a pacing that has some, final_share the share of the instances that is ever open
    weighting    none, or difficulty: D of an instance is 1 - its rank in the order, scaled to 0..1
    ease         array [I] in [0, 1] or None: D itself, e.g. from a first-stage run (MacAvaney et al. 2020, Eq. 5-8)
    m            iterations until all weights are 1, may be inf; what an iteration is, is up to you
    anti         hardest first, and weights from 1 - D

    Raises ConfigError with all problems at once.
    """

    def __init__(
        self,
        difficulty: Any,
        total_steps: int,
        pacing: str = "root",
        n: float = 2,
        delta: float = 0.33,
        T: float = 0.9,
        weighting: str = "none",
        m: float = 20,
        anti: bool = False,
        ease: Any = None,
        seed: int = 0,
        stages: int = 3,
        final_share: float = 1.0,
    ):
        given = {key: value for key, value in locals().items() if key in _Keys.model_fields}
        problems = list(_key_problems(given))
        values, wrong_numbers = _numbers("difficulty", difficulty, given="one number for each training instance")
        eases, more = _eases(ease, len(values), weighting)
        if problems := [*problems, *wrong_numbers, *more]:
            raise ConfigError(problems)
        keys = _Keys(**given)
        self.total_steps, self.m = keys.total_steps, keys.m
        self._sampler = BatchSampler(easy_first(values, keys.anti), keys.schedule(keys.total_steps), keys.seed)
        if weighting != "none":
            eases = ease_of(values)
        self.ease = np.ones(len(values)) if eases is None else turned(eases, keys.anti)

    def __len__(self) -> int:
        """Number of instances."""
        return len(self.ease)

    def share(self, step: int) -> float:
        """Share of the instances that is open at a step (from 0), in (0, 1]; it never falls."""
        return self._sampler.schedule.share(step)

    def available(self, step: int) -> np.ndarray:
        """Indices of the instances that are open at a step, easiest first (hardest first if anti), int64; at least
        one. A batch draws from as many as it is large, if fewer are open."""
        pool = self._sampler.pool(step, 1)
        return self._sampler.order[pool.start : pool.stop]

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        """Indices of the instances of a step, int64 [batch_size], drawn uniformly from the open ones; none comes twice
        in a batch, if there are as many."""
        return self._sampler.draw(step, 1, batch_size)[0]

    def weights(self, indices: Any, iteration: int) -> np.ndarray:
        """Weights of instances at an iteration i (from 0), float64 of the shape of `indices`: D + (i / m)(1 - D), and 1
        from iteration m on (MacAvaney et al. 2020, Eq. 3). All are 1 without a weighting."""
        return weights(self.ease[np.asarray(indices)], iteration, self.m)

    def batch_sampler(self, batch_size: int, start_step: int = 0) -> CurriculumBatches:
        """The batches of all steps as a PyTorch batch sampler: DataLoader(data, batch_sampler=...). Its length is
        total_steps; one epoch of such a loader is the whole training. `start_step`: number of steps already trained."""
        from trainables.loops.torch_parts import CurriculumBatches

        return CurriculumBatches(self.batch, self.total_steps, batch_size, start_step)

    def weighted(self, loss: nn.Module | Callable[..., Tensor], iteration: Callable[[], int]) -> WeightedLoss:
        """A loss for the trainers of sentence-transformers that weighs each sample.

        `loss` gives a value for each sample (reduction="none"). Its labels in the training data are pairs [label, D],
        where D is `ease` of the sample. Labels that are not pairs, as in the dev data, leave the loss unweighted.
        `iteration`: called for each batch.
        """
        from trainables.loops.torch_parts import WeightedLoss

        return WeightedLoss(loss, lambda ease: weights(ease, iteration(), self.m))


def _key_problems(given: dict[str, Any]) -> Iterator[Problem]:
    try:
        keys = _Keys(**given)
    except ValidationError as error:
        yield from problems_of(error, _Keys.model_fields)
        return
    if "patience" in PACINGS[keys.pacing].needs:
        wrong = f"'{keys.pacing}' follows dev values, which a loop of your own does not report to it"
        yield Problem("pacing", wrong, "a pacing by steps, e.g. root")
    if WEIGHTINGS[keys.weighting] is not None:
        wrong = f"'{keys.weighting}' reads a first-stage run, which a curriculum of difficulties does not have"
        yield Problem("weighting", wrong, "none or difficulty; or pass its D as ease")
    elif keys.weighting in SELF_PACED_WEIGHTS:
        wrong = f"'{keys.weighting}' is of tune_cl's own trainings"
        yield Problem("weighting", wrong, "none or difficulty")


def _numbers(name: str, values: Any, given: str) -> tuple[np.ndarray, list[Problem]]:
    """The values as float64 [I], or none and what is wrong with them."""
    try:
        if type(values).__module__ == "torch":  # of any type, with a gradient or on a device
            values = values.detach().double().cpu()
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return np.empty(0), [Problem(name, f"{type(values).__name__} that holds no numbers", given)]
    if array.ndim != 1 or not len(array):
        wrong = "empty" if array.ndim == 1 else f"an array of {array.ndim} dimensions"
        return np.empty(0), [Problem(name, wrong, given)]
    missing = np.flatnonzero(np.isnan(array))
    if len(missing):
        return array, [Problem(name, f"{len(missing)} NaN, the first at index {missing[0]}", given)]
    return array, []


def _eases(ease: Any, instances: int, weighting: str) -> tuple[np.ndarray | None, list[Problem]]:
    """D as float64 [I] or None, and what is wrong with it."""
    if ease is None:
        return None, []
    given = "a number from 0 to 1 for each training instance"
    array, problems = _numbers("ease", ease, given)
    if weighting != "none":
        problems.append(Problem("ease", f"given beside weighting '{weighting}'", "one of the two"))
    if not problems and ((array < 0) | (array > 1)).any():
        problems.append(Problem("ease", f"numbers from {array.min():g} to {array.max():g}", given))
    if not problems and instances and len(array) != instances:
        problems.append(Problem("ease", f"{len(array)} numbers for {instances} difficulties", given))
    return array, problems
