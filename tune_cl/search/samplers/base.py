"""What samplers share: the protocol, trials tried first, no configuration twice; random search and grid.

What `ask` answers is a function of the seed, the trial's number, and what `replay`, `tell` and `warm_up` were given
before: a sampler rebuilt from a journal through them goes on as the one that was lost would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Protocol

from trainables.randomness import generator
from tune_cl.search.space import Flat, Space, identity

Outcome = Literal["completed", "pruned", "failed"]
REDRAWS = 20
CHANCES = 200  # draws by chance where a model keeps to what was tried; only then is a finite space walked


@dataclass(frozen=True)
class Observation:
    """A finished trial of an earlier search. `value`: the metric's best value on dev where it is `comparable` with
    those of this search, else how many standard deviations it was above the mean of its own search."""

    chosen: Flat
    value: float
    comparable: bool


class Sampler(Protocol):
    def ask(self, number: int) -> Flat | None:
        """Flat values of the opened keys for trial `number`, none that another began with; None when all have been."""
        ...

    def replay(self, number: int, chosen: Flat) -> None:
        """Trial `number` has begun with these values: what `ask` answered, now or in a session before."""
        ...

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        """How the trial ended (pruned: stopped early). `values`: the metric by iteration, higher = better."""
        ...

    def warm_up(self, observations: Sequence[Observation]) -> None:
        """What earlier searches found; comes before the first trial."""
        ...


class Uninformed:
    """What searchers that learn nothing from results share. `first`: configurations that trials 1, 2, ... try."""

    redraws = REDRAWS

    def __init__(self, space: Space, seed: int, first: Sequence[Flat] = ()):
        self.space, self.seed = space, seed
        self.first = list(first)
        self.chosen: dict[int, Flat] = {}

    def ask(self, number: int) -> Flat | None:
        return dict(self.first[number - 1]) if self.given(number) else self.propose(number)

    def given(self, number: int) -> bool:
        """Whether the trial is one of those tried first."""
        return 0 < number <= len(self.first)

    def propose(self, number: int) -> Flat | None:
        """`ask` behind the trials tried first."""
        raise NotImplementedError

    def replay(self, number: int, chosen: Flat) -> None:
        self.chosen[number] = dict(chosen)

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        """Results change nothing."""

    def warm_up(self, observations: Sequence[Observation]) -> None:
        """Results change nothing."""

    def tried(self) -> set[tuple[tuple[str, object], ...]]:
        return {identity(chosen) for chosen in self.chosen.values()}

    def ask_new(self, number: int, draw: Callable[[int], Flat]) -> Flat | None:
        """The first of `draw(0)`, `draw(1)`, ... not tried before; then one by chance; then any untried one of a finite
        space. In a continuous one whose values all keep to what was tried, that is tried again."""
        tried = self.tried()
        draws = (draw(attempt) for attempt in range(self.redraws))
        chances = (self.space.sample(generator(self.seed, "untried", number, chance)) for chance in range(CHANCES))
        new = next((chosen for chosen in chain(draws, chances) if identity(chosen) not in tried), None)
        if new is not None:
            return new
        return draw(0) if self.space.continuous else self._untried(number)

    def _untried(self, number: int) -> Flat | None:
        tried = self.tried()
        left = [chosen for chosen in self.space.grid() if identity(chosen) not in tried]
        return left[generator(self.seed, "untried", number).integers(len(left))] if left else None


class RandomSampler(Uninformed):
    """Independent draws; trial `number` draws the same whatever was asked before, unless that was tried already."""

    def propose(self, number: int) -> Flat | None:
        return self.ask_new(number, lambda attempt: self.draw(number, attempt))

    def draw(self, number: int, attempt: int) -> Flat:
        return self.space.sample(generator(self.seed, "sampler", number, attempt))


class GridSampler(Uninformed):
    """Every combination once, in the order of the space file. Raises ConfigError for a continuous leaf."""

    def propose(self, number: int) -> Flat | None:
        tried = self.tried()
        return next((chosen for chosen in self.space.grid() if identity(chosen) not in tried), None)
