"""`search.repeats`: promising configurations train again under other seeds before new ones are asked for.

As in ParamILS (Hutter et al. 2009, section 3.2), a challenger replaces the incumbent only once it has as many runs.
The k-th training of every configuration, the baseline included, has the same seed, so that differences are paired by
seed and query. However many trials run at a time, the baseline trains under all seeds before anything else is repeated:
no other configuration is compared earlier, and none gets more seeds. All this is a function of events: a journal
replayed through `started`, `result` and `ended` gives the same one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtr

from trainables.core.randomness import generator

LEVEL = 0.2  # a configuration worse than the incumbent at this significance level gets no further seed
LOWEST_SEED = 2**20  # confirmations use seeds from 1 on, which must not be those that a configuration was selected by


def seed_of(search_seed: int, training: int) -> int:
    """Seed of a configuration's trainings by number: the first (0) has the search's own, as all have without
    repeats."""
    if training == 0:
        return search_seed
    return int(generator(search_seed, "repeat", training).integers(LOWEST_SEED, 2**31))


@dataclass
class Repeats:
    """Which configurations get another seed. A configuration goes by the id of its first trial.

    seeds     the most trainings of a configuration; 1: none is repeated
    baseline  the configuration that gets all seeds at once
    values    by configuration, then by training (from 0) that ran to its end: values of the dev queries at its best
              iteration, float64 [Q]
    due       configurations that are to train again, in the order in which this was decided; one that is to train
              several times is listed as often
    """

    seeds: int
    baseline: str
    values: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    due: list[str] = field(default_factory=list)
    trainings: Counter[str] = field(default_factory=Counter)  # started so far, by configuration
    _put_off: list[str] = field(default_factory=list)  # ended, to be compared once the baseline has all its seeds
    _open: dict[str, tuple[str, int]] = field(default_factory=dict)  # open trial -> its configuration and training
    _running: dict[str, dict[int, Sequence[float]]] = field(default_factory=dict)  # trial -> iteration -> query values

    def started(self, trial: str, configuration: str) -> None:
        """Another training of the configuration has started."""
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
        """A training ended. `best`: its best iteration; None if it failed or was stopped, after which its
        configuration gets no seed. Returns the configurations that now get no further one, without the baseline."""
        queries, (_, training) = self._running.pop(trial, {}), self._open.pop(trial)
        if best is not None:
            self.values.setdefault(configuration, {})[training] = np.asarray(queries[best], np.float64)
        elif configuration == self.baseline:
            self.due = [name for name in self.due if name != configuration]
        else:
            return [configuration]
        if configuration != self.baseline:
            self._put_off.append(configuration)
        return [] if self._baseline_trains() else self._decide()

    def _baseline_trains(self) -> bool:
        """Whether the baseline has unfinished seeds."""
        return self.baseline in self.due or any(name == self.baseline for name, _ in self._open.values())

    def _decide(self) -> list[str]:
        """Compares those that were put off: each is due again, or gets no further seed. Returns the latter."""
        compared, self._put_off = self._put_off, []
        again = [name for name in compared if self.trainings[name] < self.seeds and self.may_win(name)]
        self.due += again
        return [name for name in compared if name not in again]

    def goes_on(self, configuration: str) -> bool:
        """Whether a training of the configuration runs or may come."""
        is_open = any(name == configuration for name, _ in self._open.values())
        return is_open or configuration in self.due or configuration in self._put_off

    def incumbent(self) -> str:
        """The configuration with the highest mean among those with the most seeds; the earliest wins a tie."""
        return max(self.values, key=lambda name: (len(self.values[name]), np.mean(list(self.values[name].values()))))

    def may_win(self, configuration: str) -> bool:
        """Whether the configuration is the incumbent or not significantly below it at LEVEL, by a one-sided paired
        t-test over queries, of means over the seeds that both have; true if they share none."""
        own, other = self.values[configuration], self.values[self.incumbent()]
        differences = [own[training] - other[training] for training in own.keys() & other.keys()]
        return not differences or chance_of_no_less(np.mean(differences, axis=0)) >= LEVEL


def chance_of_no_less(differences: np.ndarray) -> float:
    """p of the one-sided paired t-test against mean(differences [Q]) < 0; without any spread 1 or 0, by the sign."""
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return float(stdtr(len(differences) - 1, mean / error)) if error else float(mean >= 0)
