"""What samplers share (the protocol, no configuration twice); random search and grid.

The answer of `ask` depends only on the seed, the trial's number, and what `replay`, `tell` and `compare` were given
before: a sampler rebuilt through these from a journal goes on exactly as the lost one would have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import chain
from typing import Any

from trainables.core.randomness import generator
from tune_cl.space.parameters import Parameter
from tune_cl.space.space import Flat, Space, identity

REDRAWS = 20
CHANCES = 200  # random draws when a model suggests only what was tried; only after them is a finite space walked


def spread(seed: int, key: str, leaf: Parameter, number: int) -> Any:
    """The leaf's value in trial `number` (from 1) where trials are to cover it: each option of a choice once, and each
    part of a range, in a random order, before any comes again."""
    block, place = divmod(number + leaf.parts - 1, leaf.parts)
    part = generator(seed, f"order of {key}", block).permutation(leaf.parts)[place]
    return leaf.at((int(part) + generator(seed, f"place of {key}", number).random()) / leaf.parts)


class Sampler(ABC):
    """`startup_trials`: how many a sampler that models the space draws at random first."""

    def __init__(self, space: Space, seed: int, startup_trials: int = 8):
        self.space, self.seed, self.startup_trials = space, seed, startup_trials
        self.points: dict[int, Flat] = {}
        self.effect: Callable[[Flat], Hashable] = identity
        self.excluded: list[Flat] = []

    def set_effect(self, effect: Callable[[Flat], Hashable], baseline: Flat) -> None:
        """Has points of equal `effect` count as the same: they train in the same way, such as two that differ in a key
        that nothing reads. `baseline`: a point whose training is not a trial of the sampler's."""
        effects: dict[Hashable, Hashable] = {}

        def remembered(point: Flat) -> Hashable:
            key = identity(point)
            if key not in effects:
                effects[key] = effect(point)
            return effects[key]

        self.effect, self.excluded = remembered, [baseline]

    @abstractmethod
    def ask(self, number: int, fixed: Flat | None = None) -> Flat | None:
        """Flat values of the opened keys for trial `number` (from 1), which no trial has had yet; None if there are
        none. `fixed`: values that the keys named there have in this trial, wherever they exist."""

    def replay(self, number: int, point: Flat) -> None:
        """Trial `number` has started with these values, which `ask` answered now or in an earlier session."""
        self.points[number] = dict(point)

    def tell(self, number: int, values: Mapping[int, float], outcome: str) -> None:  # noqa: B027
        """How the trial ended: completed, stopped_early or failed. `values`: the metric by iteration, higher =
        better."""

    def compare(self, number: int, reference: float) -> None:  # noqa: B027
        """What the trial's twin reached, which has the values that both share: the metric, higher = better."""

    def ask_new(self, number: int, draw: Callable[[int], Flat], fixed: Flat) -> Flat | None:
        """The first of `draw(0)`, `draw(1)`, ... with a new effect; else a random draw; else any untried configuration
        of a finite space. In a continuous space where all draws were tried, `draw(0)` again."""
        space = self.space.fixing(fixed)
        tried = {self.effect(point) for point in (*self.excluded, *self.points.values())}
        draws = (draw(attempt) for attempt in range(REDRAWS))
        chances = (space.sample(generator(self.seed, "untried", number, chance)) for chance in range(CHANCES))
        new = next((point for point in chain(draws, chances) if self.effect(point) not in tried), None)
        if new is not None:
            return new
        if space.continuous:
            return draw(0)
        untried = list(self.untried(fixed))
        return untried[generator(self.seed, "untried", number).integers(len(untried))] if untried else None

    def untried(self, fixed: Flat) -> Iterator[Flat]:
        """The configurations of a finite space that no trial has had, without those that train as the baseline."""
        tried = {identity(point) for point in self.points.values()}
        out = {self.effect(point) for point in self.excluded}
        points = self.space.fixing(fixed).grid()
        return (point for point in points if identity(point) not in tried and self.effect(point) not in out)


class RandomSampler(Sampler):
    """Draws that cover each key (`spread`); whatever has been tried is drawn independently. Trial `number` draws the
    same whatever was asked before."""

    def ask(self, number: int, fixed: Flat | None = None) -> Flat | None:
        fixed = fixed or {}
        space = self.space.fixing(fixed)

        def draw(attempt: int) -> Flat:
            rng = generator(self.seed, "sampler", number, attempt)

            def value(key: str, leaf: Parameter) -> Any:
                return spread(self.seed, key, leaf, number) if attempt == 0 else leaf.draw(rng)

            return space.fill(value)

        return self.ask_new(number, draw, fixed)


class GridSampler(Sampler):
    """Every combination once, in the order of the space file. Raises ConfigError for a continuous leaf."""

    def ask(self, number: int, fixed: Flat | None = None) -> Flat | None:
        return next(self.untried(fixed or {}), None)
