"""`search.repeats`: promising configurations train again under other seeds before new ones are asked for.

A race (Hutter et al. 2009, "ParamILS", section 3.2: a challenger replaces the incumbent only once it has as many runs).
The k-th training of every configuration has the same seed, the baseline's included, so that differences are paired by
seed and query. The baseline trains under all seeds before anything else is repeated, however many trials run at a time:
no other configuration is judged before, and none comes to have more seeds. Pure functions of events: a journal replayed
through `begun`, `result` and `ended` gives the same race.
"""

from __future__ import annotations

import math
from collections import Counter
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

    seeds     a configuration's trainings at most; 1: none is repeated
    baseline  the configuration that gets all of them at once
    values    dev queries' values of its trainings that ran to the end, each at its best iteration, float64 [Q], by
              training, from 0
    due       configurations that are to train again, in the order in which they came to it; one that is to train
              several times at once stands there as often
    """

    seeds: int
    baseline: str
    values: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    due: list[str] = field(default_factory=list)
    trainings: Counter[str] = field(default_factory=Counter)  # begun so far, by configuration
    _put_off: list[str] = field(default_factory=list)  # came to an end before the baseline had all its seeds
    _open: dict[str, tuple[str, int]] = field(default_factory=dict)  # configuration and training of trials not ended
    _running: dict[str, dict[int, Sequence[float]]] = field(default_factory=dict)  # queries by trial, by iteration

    def begun(self, trial: str, configuration: str) -> None:
        """Another training of the configuration has begun."""
        training = self.trainings[configuration]
        self._open[trial] = configuration, training
        self.trainings[configuration] += 1
        if training:
            self.due.remove(configuration)
        elif configuration == self.baseline:
            self.due += [configuration] * (self.seeds - 1)

    def result(self, trial: str, iteration: int, queries: Sequence[float]) -> None:
        """The dev queries' values [Q] after an iteration of a trial."""
        self._running.setdefault(trial, {})[iteration] = queries

    def ended(self, trial: str, configuration: str, best: int | None) -> list[str]:
        """A training ended; `best`: its best iteration, None if it counts for nothing, having failed or been stopped,
        which ends its configuration's race. Those whose race is over by this, the baseline left out."""
        queries, (_, training) = self._running.pop(trial, {}), self._open.pop(trial)
        if best is not None:
            self.values.setdefault(configuration, {})[training] = np.asarray(queries[best], np.float64)
        elif configuration == self.baseline:
            self.due = [name for name in self.due if name != configuration]
        else:
            return [configuration]
        if configuration != self.baseline:
            self._put_off.append(configuration)
        return [] if self._baseline_trains() else self._judge()

    def _baseline_trains(self) -> bool:
        """Whether the baseline has seeds to come."""
        return self.baseline in self.due or any(name == self.baseline for name, _ in self._open.values())

    def _judge(self) -> list[str]:
        """Those that were put off are due again, or their race is over."""
        judged, self._put_off = self._put_off, []
        again = [name for name in judged if self.trainings[name] < self.seeds and self.may_win(name)]
        self.due += again
        return [name for name in judged if name not in again]

    def incumbent(self) -> str:
        """The configuration with the highest mean among those with the most seeds; the earliest wins a tie."""
        return max(self.values, key=lambda name: (len(self.values[name]), np.mean(list(self.values[name].values()))))

    def may_win(self, configuration: str) -> bool:
        """Whether the configuration is the incumbent, or not below it at LEVEL: a one-sided paired t-test over
        queries, of means over the seeds that both have; without such a seed nothing is against it."""
        own, other = self.values[configuration], self.values[self.incumbent()]
        differences = [own[training] - other[training] for training in own.keys() & other.keys()]
        return not differences or chance_of_no_less(np.mean(differences, axis=0)) >= LEVEL


def chance_of_no_less(differences: np.ndarray) -> float:
    """p of the one-sided paired t-test against mean(differences) < 0, [Q]; without any spread 1 or 0 by the sign."""
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return float(stdtr(len(differences) - 1, mean / error)) if error else float(mean >= 0)
