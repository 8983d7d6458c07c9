"""The contents of a report: the journal, the experiment and, if there is one, the confirmation; their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tune_cl.experiment.experiment import CURRICULUM, PLAIN, Experiment
from tune_cl.history.journal import read_events
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
from tune_cl.results import Effects, SearchResult, Verdict
from tune_cl.search_result import search_result
from tune_cl.verdict.files import last_verdict
from tune_cl.verdict.pairs import last_effects, search_effects


@dataclass(frozen=True)
class Findings:
    """One search. `confirmation`: the verdict on test, else that on dev, else None."""

    search_folder: SearchFolder
    experiment: Experiment
    state: SearchState
    confirmation: Verdict | None

    @property
    def metric(self) -> str:
        return self.state.metric

    @property
    def baseline(self) -> tuple[TrialState, Dev] | None:
        """The best plain trial and its best value on dev."""
        return next(iter(self.plain), None)

    @cached_property
    def plain(self) -> list[tuple[TrialState, Dev]]:
        """Plain trials that gave a value and did not fail, best first, in the search's own order."""
        return self.state.ranked_of(PLAIN)

    @cached_property
    def ranked(self) -> list[tuple[TrialState, Dev]]:
        """Like `plain`, for the other trials."""
        return self.state.ranked_of(CURRICULUM)

    @property
    def tuned(self) -> bool:
        """Whether there are plain trials besides the default."""
        return len(self.state.trials_of(PLAIN)) > 1

    @cached_property
    def result(self) -> SearchResult | None:
        """What the search has come to; None before any trial has given a value."""
        return search_result(self.state, self.search_folder) if self.plain or self.ranked else None

    @cached_property
    def over_curricula(self) -> bool:
        """Whether the search was over curricula, not only over other keys."""
        return over_curricula(self.state)

    @cached_property
    def ended(self) -> list[tuple[TrialState, Dev]]:
        """The trials of both arms with a value that ran to the end."""
        return [(trial, at) for trial, at in (*self.ranked, *self.plain) if trial.outcome in RAN_TO_THE_END]

    @property
    def pair(self) -> tuple[TrialState, TrialState] | None:
        """The best trial of the curriculum arm and the best plain one."""
        return (self.ranked[0][0], self.baseline[0]) if self.ranked and self.baseline else None

    @cached_property
    def effects(self) -> Effects | None:
        """What curricula change over all pairs: by the last `tune-cl effects`, else on dev."""
        return last_effects(self.search_folder.folder) or search_effects(self.state, self.experiment)

    def past_curriculum(self, trial: TrialState) -> int:
        """The iteration with which the trial's curriculum is over; 0 without one."""
        return self.experiment.config(trial.point).curriculum_end


def gather(search_folder: SearchFolder) -> Findings:
    """Reads a search without locking it, so that a running one can be reported.

    Raises DataError for a damaged journal or confirmation.
    """
    state = replay(read_events(search_folder.journal))
    verdicts = (last_verdict(search_folder.folder, split) for split in ("test", "dev"))
    return Findings(search_folder, experiment_of(state), state, next(filter(None, verdicts), None))
