"""Which training instances a step sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from trainables.core.randomness import generator
from trainables.curriculum.pacing import Schedule


@dataclass
class Deck:
    """What sampling without replacement remembers: positions of the order that this pass has not drawn yet.

    cards   int64 [I]; the first `size` are in the deck, in no order
    opened  positions below this have joined the pass
    """

    cards: np.ndarray
    size: int = 0
    opened: int = 0

    def deal(self, rng: np.random.Generator, pool: range, count: int) -> np.ndarray:
        """Draws `count` positions from the pool, int64 [count]; each comes once before any comes again.

        Positions that open in the middle of a pass join it, those that close leave it. A batch that spans two passes
        may hold a position twice. Takes O(count) time, and O(pool) once per pass; O(pool) where positions close.
        """
        self._leave(pool)
        self._join(pool)
        dealt = []
        while count:
            if not self.size:
                self.opened = 0
                self._join(pool)
            drawn = self._draw_out(rng, min(count, self.size))
            dealt.append(drawn)
            count -= len(drawn)
        return np.concatenate(dealt) if dealt else np.empty(0, np.int64)

    def _leave(self, pool: range) -> None:
        if pool.start:
            cards = self.cards[: self.size]
            remaining = cards[cards >= pool.start]
            self.size = len(remaining)
            self.cards[: self.size] = remaining

    def _join(self, pool: range) -> None:
        first = max(self.opened, pool.start)
        new = max(0, pool.stop - first)
        self.cards[self.size : self.size + new] = np.arange(first, first + new)
        self.size, self.opened = self.size + new, first + new

    def _draw_out(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Takes random cards; the last cards of the deck fill the gaps."""
        at = rng.choice(self.size, count, replace=False, shuffle=False)
        drawn = self.cards[at]
        self.size -= count
        gaps = at[at < self.size]
        last = np.ones(count, bool)
        last[at[at >= self.size] - self.size] = False
        self.cards[gaps] = self.cards[self.size : self.size + count][last]
        return drawn


@dataclass
class Sampler:
    """Draws batches from the open part of an order.

    order        int64 [I]: instance rows, easiest first (hardest first if anti)
    replacement  True: batches are independent draws; False: see Deck
    warm         share of each batch that is drawn from the whole order at all times
    """

    order: np.ndarray
    schedule: Schedule
    seed: int
    replacement: bool = True
    warm: float = 0.0
    deck: Deck = field(init=False)

    def __post_init__(self) -> None:
        self.deck = Deck(np.empty(0 if self.replacement else len(self.order), np.int64))

    def pool(self, step: int, batch_size: int) -> range:
        """Positions of the order open at a step: never fewer than a batch, if there are as many."""
        size = len(self.order)
        start, end = self.schedule.bounds(step)
        low = min(int(start * size), max(0, size - batch_size))
        return range(low, min(size, max(low + batch_size, int(end * size))))

    def draw(self, step: int, batches: int, batch_size: int) -> np.ndarray:
        """Instance rows for the next `batches` steps, int64 [batches, batch_size].

        All are drawn from the pool of the first of these steps, so the batches can be rearranged by length without any
        instance coming before its time. With replacement, each batch is an independent uniform draw, a function of
        (seed, step) alone, as in Penha & Hauff's code; within a batch there is no replacement.
        """
        pool = self.pool(step, batch_size)
        return self.order[np.stack([self._batch(step + i, pool, batch_size) for i in range(batches)])]

    def _batch(self, step: int, pool: range, size: int) -> np.ndarray:
        """Positions in the order; on average, warm · size of them are drawn from the whole order."""
        deal: Callable[[np.random.Generator, range, int], np.ndarray] = _uniform if self.replacement else self.deck.deal
        rng = generator(self.seed, "batch", step)
        if not self.warm:
            return deal(rng, pool, size)
        warm_rng = generator(self.seed, "warm", step)
        warm = int(self.warm * size + warm_rng.random())
        return np.concatenate([_uniform(warm_rng, range(len(self.order)), warm), deal(rng, pool, size - warm)])

    def reorder(self, order: np.ndarray) -> None:
        """Switches to another order of the same instances; a pass without replacement begins anew."""
        self.order = order
        self.deck.size = self.deck.opened = 0

    def state(self) -> dict[str, np.ndarray]:
        """What a resumed sampler needs besides its arguments; empty with replacement."""
        if self.replacement:
            return {}
        return {"deck": self.deck.cards[: self.deck.size].copy(), "opened": np.asarray([self.deck.opened])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of `state`."""
        if not self.replacement:
            cards = state["deck"]
            self.deck.cards[: len(cards)] = cards
            self.deck.size, self.deck.opened = len(cards), int(state["opened"][0])


def easy_first(difficulty: np.ndarray, anti: bool = False) -> np.ndarray:
    """Instance rows by rising difficulty (falling if anti); ties keep their order."""
    return np.argsort(-difficulty if anti else difficulty, kind="stable")


def _uniform(rng: np.random.Generator, pool: range, size: int) -> np.ndarray:
    return pool.start + rng.choice(len(pool), size, replace=len(pool) < size, shuffle=False)
