"""`search.repeats`: promising configurations train again under other seeds before new ones are asked for.

A race (Hutter et al. 2009, "ParamILS", section 3.2: a challenger replaces the incumbent only once it has as many runs).
The k-th training of every configuration has the same seed, the baseline's included, so that differences are paired by
seed and query. Pure functions of events: a journal replayed through `begun`, `result` and `ended` gives the same race.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtr

from trainables.randomness import generator

LEVEL = 0.2  # a configuration less likely than this to be no worse than the incumbent gets no further seed
LOWEST_SEED = 2**20  # confirmations use seeds from 1 on, and must not see those that a configuration was chosen by


def seed_of(search_seed: int, training: int) -> int:
    """Seed of a configuration's trainings: the first (0) has the search's own, as every trial without repeats."""
    if training == 0:
        return search_seed
    return int(generator(search_seed, "repeat", training).integers(LOWEST_SEED, 2**31))


@dataclass
class Race:
    """Which configurations get another seed. A configuration goes by the id of its first trial.

    seeds   a configuration's trainings at most; 1: none is repeated
    values  dev queries' values of its trainings that ran to the end, each at its best iteration, float64 [Q], by seed
    due     configurations that are to train again, in the order in which they came to it
    """

    seeds: int
    values: dict[str, list[np.ndarray]] = field(default_factory=dict)
    due: list[str] = field(default_factory=list)
    _running: dict[str, dict[int, Sequence[float]]] = field(default_factory=dict)  # queries by trial, by iteration

    def begun(self, configuration: str) -> None:
        """Another training of the configuration has begun."""
        self.due.remove(configuration)

    def result(self, trial: str, iteration: int, queries: Sequence[float]) -> None:
        """The dev queries' values [Q] after an iteration of a trial."""
        self._running.setdefault(trial, {})[iteration] = queries

    def ended(self, trial: str, configuration: str, best: int | None) -> bool:
        """A training ended; `best`: its best iteration, None if it counts for nothing, having failed or been stopped.
        Whether the configuration trains again: it is then due."""
        queries = self._running.pop(trial, {})
        if best is None:
            return False
        self.values.setdefault(configuration, []).append(np.asarray(queries[best], np.float64))
        again = len(self.values[configuration]) < self.seeds and self.may_win(configuration)
        if again:
            self.due.append(configuration)
        return again

    def incumbent(self) -> str:
        """The configuration with the highest mean among those with the most seeds; the earliest wins a tie."""
        return max(self.values, key=lambda name: (len(self.values[name]), float(np.mean(self.values[name]))))

    def may_win(self, configuration: str) -> bool:
        """Whether the configuration is the incumbent, or not below it at LEVEL: a one-sided paired t-test over
        queries, of means over the seeds that both have."""
        own, other = self.values[configuration], self.values[self.incumbent()]
        together = min(len(own), len(other))
        return chance_of_no_less(np.mean(own[:together], axis=0) - np.mean(other[:together], axis=0)) >= LEVEL


def chance_of_no_less(differences: np.ndarray) -> float:
    """p of the one-sided paired t-test against mean(differences) < 0, [Q]; without any spread 1 or 0 by the sign."""
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return float(stdtr(len(differences) - 1, mean / error)) if error else float(mean >= 0)
