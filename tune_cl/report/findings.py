"""What a report is made of: the journal, the experiment and, if there is one, the confirmation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from trainables.evaluation.metrics import dev_key
from tune_cl.configurations import over_curricula
from tune_cl.confirmation.request import last_verdict
from tune_cl.experiment import Experiment
from tune_cl.journal import Event, read_events
from tune_cl.place import Place
from tune_cl.search.schedulers.grace import curriculum_grace
from tune_cl.state import RAN_TO_THE_END, Dev, SearchState, TrialState, over_shared_seeds, replay
from tune_cl.wording import in_terms, trial_words

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

    place: Place
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
    def standings(self) -> list[tuple[TrialState, float, int]]:
        """The baseline, then the best trial of each configuration in `ranked`, with the dev value that ranks it and the
        number of seeds that this is a mean of (`search.repeats`)."""
        finals = self.state.finals() if self.state.repeats else {}
        found: dict[str, tuple[TrialState, float, int]] = {}
        for trial, at in [*([self.baseline] if self.baseline else []), *self.ranked]:
            values = finals.get(trial.configuration, [at.dev])
            found.setdefault(trial.configuration, (trial, fmean(values), len(values)))
        return list(found.values())

    def above(self, trial: TrialState, dev: float) -> float | None:
        """By how much a trial is above the baseline: over the seeds that both configurations have, else by `dev`. None
        without a baseline."""
        if not self.baseline:
            return None
        baseline, at = self.baseline
        own, other = (self._by_seed.get(one.configuration, {}) for one in (trial, baseline))
        difference = over_shared_seeds(own, other)
        return dev - at.dev if difference is None else difference

    @cached_property
    def _by_seed(self) -> dict[str, dict[int, float]]:
        return self.state.by_seed()

    @cached_property
    def over_curricula(self) -> bool:
        """Whether the search was over curricula, not only over other keys."""
        return over_curricula(self.state)

    @property
    def grows_trees(self) -> bool:
        """Whether the baseline's ranker does."""
        return self.experiment.base_run().grows_trees

    def in_terms(self, text: str) -> str:
        """A sentence about curricula, in other words if the search was not over curricula."""
        return in_terms(text, self.over_curricula)

    def signs(self, entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """A legend's entries, their texts `in_terms`."""
        return [(role, self.in_terms(text)) for role, text in entries]

    @cached_property
    def ended(self) -> list[tuple[TrialState, Dev]]:
        """The trials in `ranked`, and the baseline, that ran to the end, without repeats: seeds of a configuration are
        no independent trials."""
        known = [*self.ranked, *([self.baseline] if self.baseline else [])]
        return [(trial, at) for trial, at in known if trial.outcome in RAN_TO_THE_END and not trial.repeat_of]

    @cached_property
    def pairs(self) -> list[tuple[TrialState, TrialState]]:
        """Trials of the best configuration and of the baseline under the same seeds, in the order of the trials; none
        that failed or gave no value."""
        if not (self.ranked and self.baseline):
            return []
        best, plain = (self._trainings(trial.configuration) for trial, _ in (self.ranked[0], self.baseline))
        return [(trial, plain[seed]) for seed, trial in best.items() if seed in plain]

    def _trainings(self, configuration: str) -> dict[int, TrialState]:
        """The trials of a configuration by seed."""
        own = [trial for trial in self.state.by_number() if trial.configuration == configuration]
        return {trial.seed: trial for trial in own if trial.outcome != "failed" and trial.best(self.metric)}

    def past_curriculum(self, trial: TrialState) -> int:
        """The iteration with which the trial's curriculum is over; 0 without one."""
        return curriculum_grace(self.experiment.training_run(trial.chosen))


def gather(place: Place) -> Findings:
    """Reads a search without holding it, so that a running one can be reported.

    Raises DataError for a damaged journal or confirmation.
    """
    state, reached = _walk(place)
    return Findings(place, Experiment.from_yaml(state.yaml), state, reached, _confirmation(place))


def _walk(place: Place) -> tuple[SearchState, list[Reached]]:
    """The state after all events, and every result with the search's cost by then."""
    reached: list[Reached] = []

    def seen(state: SearchState, event: Event) -> None:
        if state.iterations > len(reached):  # a result that the journal did not have yet
            dev = event["metrics"].get(dev_key(state.metric), math.nan)
            cost = state.iterations, round(state.seconds, 3)
            reached.append(Reached(event["trial"], event["iteration"], dev, *cost))

    return replay(read_events(place.journal), seen), reached


def _confirmation(place: Place) -> Document | None:
    """The verdict on test; without one, what was found on dev, where the configurations were chosen."""
    found = (last_verdict(place.folder, split) for split in ("test", "dev"))
    return next((document for document in found if document), None)


def words(trial: TrialState) -> str:
    """A trial's id and its words as on the terminal and in MLflow."""
    return f"{trial.trial} {'baseline' if trial.baseline else trial_words(trial.chosen, trial.params)}"
