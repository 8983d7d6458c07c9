"""What a report is made from: the journal, the result of the search, and the verdict if there is one."""

from __future__ import annotations

from dataclasses import dataclass

from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, experiment_of, replay
from tune_cl.results import Effects, SearchResult, Verdict
from tune_cl.search_result import recorded_run_id, search_result
from tune_cl.verdict.files import last_effects, last_verdict


@dataclass(frozen=True)
class Contents:
    """One search. result: None before any trial has a dev value; verdict: on test, else on dev, else None; effects: by
    the last `tune-cl effects`, else those of the search's own pairs."""

    search_folder: SearchFolder
    state: SearchState
    experiment: Experiment
    result: SearchResult | None
    effects: Effects | None
    verdict: Verdict | None


def contents_of(search_folder: SearchFolder) -> Contents:
    """Reads a search without locking it, so that a running one can be reported. Raises DataError for a damaged journal
    or verdict."""
    state = replay(read_events(search_folder.journal))
    folder = search_folder.folder
    result = None
    if state.best():
        result = search_result(state, search_folder, recorded_run_id(search_folder))
    effects = last_effects(folder) or (result.effects if result else None)
    verdict = last_verdict(folder)
    return Contents(search_folder, state, experiment_of(state), result, effects, verdict)
