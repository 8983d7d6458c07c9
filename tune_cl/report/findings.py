"""The contents of a report: the journal, the experiment and, if there is one, the confirmation; their statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtrit
from scipy.stats import kendalltau, mannwhitneyu, rankdata

from trainables.core.randomness import generator
from trainables.evaluation.metrics import dev_key
from tune_cl.confirmation.request import last_verdict
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Event, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import (
    RAN_TO_THE_END,
    Dev,
    SearchState,
    TrialState,
    experiment_of,
    over_curricula,
    replay,
)
from tune_cl.report.charts import Interval
from tune_cl.schedulers.scheduler import curriculum_grace
from tune_cl.space.wording import trial_words

Document = dict[str, Any]


@dataclass(frozen=True)
class Reached:
    """One result, in the order of the journal. `iterations`, `seconds`: of the search so far, while it ran."""

    trial: str
    iteration: int
    dev: float
    iterations: int
    seconds: float


@dataclass(frozen=True)
class Findings:
    """One search. `confirmation`: the document of `tune-cl confirm` on test, else that on dev, else None."""

    search_folder: SearchFolder
    experiment: Experiment
    state: SearchState
    reached: list[Reached]
    confirmation: Document | None

    @property
    def metric(self) -> str:
        return self.state.metric

    @cached_property
    def baseline(self) -> tuple[TrialState, Dev] | None:
        """The baseline and its best value on dev."""
        trial = self.state.baseline_trial()
        at = trial.best(self.metric) if trial and trial.outcome != "failed" else None
        return (trial, at) if trial and at else None

    @cached_property
    def ranked(self) -> list[tuple[TrialState, Dev]]:
        """Trials other than the baseline that gave a value and did not fail, best first, in the search's own order."""
        return [(trial, at) for trial, at in self.state.ranked() if not trial.baseline]

    @cached_property
    def with_baseline(self) -> list[tuple[TrialState, Dev]]:
        """The baseline, if it gave a value, then `ranked`."""
        return [*([self.baseline] if self.baseline else []), *self.ranked]

    @cached_property
    def over_curricula(self) -> bool:
        """Whether the search was over curricula, not only over other keys."""
        return over_curricula(self.state)

    @property
    def grows_trees(self) -> bool:
        """Whether the baseline's ranker does."""
        return self.experiment.base_run().grows_trees

    @cached_property
    def ended(self) -> list[tuple[TrialState, Dev]]:
        """The trials in `ranked`, and the baseline, that ran to the end."""
        valid = [*self.ranked, *([self.baseline] if self.baseline else [])]
        return [(trial, at) for trial, at in valid if trial.outcome in RAN_TO_THE_END]

    @property
    def pair(self) -> tuple[TrialState, TrialState] | None:
        """The best trial and the baseline, if both gave a value."""
        return (self.ranked[0][0], self.baseline[0]) if self.ranked and self.baseline else None

    def past_curriculum(self, trial: TrialState) -> int:
        """The iteration with which the trial's curriculum is over; 0 without one."""
        return curriculum_grace(self.experiment.training_run(trial.point))


def gather(search_folder: SearchFolder) -> Findings:
    """Reads a search without locking it, so that a running one can be reported.

    Raises DataError for a damaged journal or confirmation.
    """
    state, reached = _walk(search_folder)
    return Findings(search_folder, experiment_of(state), state, reached, _confirmation(search_folder))


def _walk(search_folder: SearchFolder) -> tuple[SearchState, list[Reached]]:
    """The state after all events, and every result with the search's cost by then."""
    reached: list[Reached] = []

    def seen(state: SearchState, event: Event) -> None:
        if state.iterations > len(reached):  # a result that the journal did not have yet
            dev = event["metrics"].get(dev_key(state.metric), math.nan)
            cost = state.iterations, round(state.seconds, 3)
            reached.append(Reached(event["trial"], event["iteration"], dev, *cost))

    return replay(read_events(search_folder.journal), seen), reached


def _confirmation(search_folder: SearchFolder) -> Document | None:
    """The verdict on test, else the comparison on dev, which also selected the configurations."""
    documents = (last_verdict(search_folder.folder, split) for split in ("test", "dev"))
    return next((document for document in documents if document), None)


def words(trial: TrialState) -> str:
    """A trial's id and its words as on the terminal and in MLflow."""
    return f"{trial.trial} {'baseline' if trial.baseline else trial_words(trial.point, trial.params)}"


FEWEST_TRIALS = 8  # permutations of fewer values are too few
FEWEST_ENDED = 5
PERMUTATIONS = 1000
MOST_GROUPS = 6  # up to so many distinct numbers are a group each; more are cut into thirds


def mean_interval(values: np.ndarray) -> Interval:
    """Mean of [Q] values with its 95 % interval by Student's t, NaN for fewer than two."""
    mean = float(values.mean()) if len(values) else math.nan
    if len(values) < 2:
        return Interval(mean, math.nan, math.nan)
    half = float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Importance:
    """How much of the differences between trials goes with one parameter.

    share    between-group share of the variance of the trials' dev ranks (η² of Kruskal & Wallis 1952), 0 to 1
    chance   what the share stays below in 95 of 100 random permutations of the dev values
    p        share of the permutations that give at least `share`
    best     the group with the highest mean rank
    """

    key: str
    trials: int
    share: float
    chance: float
    p: float
    best: str


def importance(key: str, values: Sequence[object], dev: np.ndarray, shown: Sequence[str]) -> Importance | None:
    """Importance of a parameter from the N trials in which it exists; None if these are fewer than FEWEST_TRIALS, or
    all have one value of it or one dev value.

    values   [N] the parameter's values; `shown` [N] the same as text
    dev      [N] best dev values
    """
    if len(values) < FEWEST_TRIALS or len(set(dev.tolist())) < 2:
        return None
    names, groups = _groups(values, shown)
    if len(names) < 2:
        return None
    ranks = rankdata(dev)
    random = generator(0, f"importance {key}")
    orders = np.vstack([ranks, random.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)])
    member = np.eye(len(names))[groups]
    sizes = member.sum(axis=0)
    between = ((orders @ member) ** 2 / sizes).sum(axis=1) - ranks.sum() ** 2 / len(ranks)
    shares = between / ((ranks - ranks.mean()) ** 2).sum()
    share, chance = float(shares[0]), float(np.quantile(shares[1:], 0.95))
    p = float((1 + (shares[1:] >= share - 1e-12).sum()) / (1 + PERMUTATIONS))
    return Importance(key, len(values), share, chance, p, names[int(np.argmax(ranks @ member / sizes))])


def _groups(values: Sequence[object], shown: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Names of the groups, and the group of each trial [N]: one for each value, or thirds of many numbers."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(values) or len(set(numbers)) <= MOST_GROUPS:
        names, groups = np.unique(np.array(shown, dtype=object).astype(str), return_inverse=True)
        return names.tolist(), groups
    edges = np.quantile(numbers, [1 / 3, 2 / 3], method="inverted_cdf")  # no interpolation: inf - inf is NaN
    names = [f"up to {edges[0]:.3g}", f"{edges[0]:.3g} to {edges[1]:.3g}", f"above {edges[1]:.3g}"]
    thirds, groups = np.unique(np.searchsorted(edges, np.array(numbers)), return_inverse=True)
    return [names[third] for third in thirds], groups  # a third is empty if many trials have the same value


@dataclass(frozen=True)
class RankAgreement:
    """Kendall's τ-b, over `trials` trials, between the values at one iteration and the final ones."""

    trials: int
    tau: float
    low: float
    high: float


def rank_agreement(early: np.ndarray, final: np.ndarray) -> RankAgreement | None:
    """τ with a 95 % interval: atanh τ has the variance .437 / (n - 4) (Fieller, Hartley & Pearson 1957).

    For the interval, τ = ±1 is reduced by half an exchanged pair, because a handful of trials never proves perfection.
    None for fewer than FEWEST_ENDED trials, or if all early or all final values are equal.
    """
    n = len(final)
    if n < FEWEST_ENDED:
        return None
    tau = float(np.asarray(kendalltau(early, final))[0])
    if math.isnan(tau):
        return None
    limit = 1 - 2 / (n * (n - 1))
    centre, half = math.atanh(min(max(tau, -limit), limit)), 1.96 * math.sqrt(0.437 / (n - 4))
    low, high = math.tanh(centre - half), math.tanh(centre + half)
    return RankAgreement(n, tau, min(low, tau), max(high, tau))


@dataclass(frozen=True)
class SlowBias:
    """By how many `ranks` trials with long curricula stood lower early than at the end, minus that of the others."""

    slow: int
    fast: int
    ranks: float
    p: float


def slow_bias(early: np.ndarray, final: np.ndarray, past: np.ndarray) -> SlowBias | None:
    """Whether stopping early is unfair to slow curricula, by Mann & Whitney's test of the change of rank.

    `past` [N]: where each trial's curriculum ends; those above the median are slow. None for fewer than 3 a side.
    """
    slow = past > np.median(past)
    if min(slow.sum(), (~slow).sum()) < 3:
        return None
    lost = rankdata(-early) - rankdata(-final)
    p = float(mannwhitneyu(lost[slow], lost[~slow])[1])
    return SlowBias(int(slow.sum()), int((~slow).sum()), float(lost[slow].mean() - lost[~slow].mean()), p)
