"""What samplers share (the protocol, configurations tried first, no configuration twice); random search and grid.

The answer of `ask` depends only on the seed, the trial's number, and what `replay`, `tell` and `warm_up` were given
before: a sampler rebuilt through these from a journal goes on exactly as the lost one would have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Protocol

from trainables.core.randomness import generator
from tune_cl.space.space import Flat, Space, identity

Outcome = Literal["completed", "pruned", "failed"]
REDRAWS = 20
CHANCES = 200  # random draws when a model suggests only what was tried; only after them is a finite space walked


@dataclass(frozen=True)
class Observation:
    """A finished trial of an earlier search. `value`: its best value of the metric on dev if that is `comparable` with
    the values of this search, else how many standard deviations it lies above the mean of its own search."""

    point: Flat
    value: float
    comparable: bool


class Sampler(Protocol):
    def ask(self, number: int) -> Flat | None:
        """Flat values of the opened keys for trial `number`, which no trial has had yet; None if there are none."""
        ...

    def replay(self, number: int, point: Flat) -> None:
        """Trial `number` has started with these values, which `ask` answered now or in an earlier session."""
        ...

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        """How the trial ended (pruned: stopped early). `values`: the metric by iteration, higher = better."""
        ...

    def warm_up(self, observations: Sequence[Observation]) -> None:
        """What earlier searches found, before the first trial."""
        ...

    def tell_apart(self, effect: Callable[[Flat], Hashable], had: Flat) -> None:
        """Points of equal `effect` train in the same way, such as two that differ in a key that nothing reads. `had`:
        the point of a training that is no trial of the sampler's, the baseline."""
        ...


class Uninformed(ABC):
    """A sampler that learns nothing from results. `first`: configurations that trials 1, 2, ... try."""

    redraws = REDRAWS

    def __init__(self, space: Space, seed: int, first: Sequence[Flat] = ()):
        self.space, self.seed = space, seed
        self.first = list(first)
        self.points: dict[int, Flat] = {}
        self.effect: Callable[[Flat], Hashable] = identity
        self.had: list[Flat] = []

    def tell_apart(self, effect: Callable[[Flat], Hashable], had: Flat) -> None:
        effects: dict[Hashable, Hashable] = {}

        def remembered(point: Flat) -> Hashable:
            key = identity(point)
            if key not in effects:
                effects[key] = effect(point)
            return effects[key]

        self.effect, self.had = remembered, [had]

    def ask(self, number: int) -> Flat | None:
        return dict(self.first[number - 1]) if self.given(number) else self.propose(number)

    def given(self, number: int) -> bool:
        """Whether the trial tries one of `first`."""
        return 0 < number <= len(self.first)

    @abstractmethod
    def propose(self, number: int) -> Flat | None:
        """`ask` for the trials after `first`."""

    def replay(self, number: int, point: Flat) -> None:
        self.points[number] = dict(point)

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:  # noqa: B027
        """Results change nothing."""

    def warm_up(self, observations: Sequence[Observation]) -> None:  # noqa: B027
        """Results change nothing."""

    def tried(self) -> set[tuple[tuple[str, object], ...]]:
        return {identity(point) for point in self.points.values()}

    def ask_new(self, number: int, draw: Callable[[int], Flat]) -> Flat | None:
        """The first of `draw(0)`, `draw(1)`, ... with a new effect; else a random draw; else any untried configuration
        of a finite space. In a continuous space where all draws were tried, `draw(0)` again."""
        tried = {self.effect(point) for point in (*self.had, *self.points.values())}
        draws = (draw(attempt) for attempt in range(self.redraws))
        chances = (self.space.sample(generator(self.seed, "untried", number, chance)) for chance in range(CHANCES))
        new = next((point for point in chain(draws, chances) if self.effect(point) not in tried), None)
        if new is not None:
            return new
        return draw(0) if self.space.continuous else self._untried(number)

    def _untried(self, number: int) -> Flat | None:
        untried = list(self.rest())
        return untried[generator(self.seed, "untried", number).integers(len(untried))] if untried else None

    def rest(self) -> Iterator[Flat]:
        """The configurations of a finite space that no trial has had, without those that train as the baseline."""
        tried, out = self.tried(), {self.effect(point) for point in self.had}
        return (point for point in self.space.grid() if identity(point) not in tried and self.effect(point) not in out)


class RandomSampler(Uninformed):
    """Independent draws. Trial `number` draws the same whatever was asked before, unless that has been tried."""

    def propose(self, number: int) -> Flat | None:
        return self.ask_new(number, lambda attempt: self.draw(number, attempt))

    def draw(self, number: int, attempt: int) -> Flat:
        return self.space.sample(generator(self.seed, "sampler", number, attempt))


class GridSampler(Uninformed):
    """Every combination once, in the order of the space file. Raises ConfigError for a continuous leaf."""

    def propose(self, number: int) -> Flat | None:
        return next(self.rest(), None)
