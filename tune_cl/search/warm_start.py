"""`search.warm_start`: results of earlier searches as observations for the sampler of a new one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from trainables.core.errors import ConfigError, Problem, nearest
from tune_cl.experiment.experiment import PLAIN, Arm, Experiment
from tune_cl.history.events import WarmStartEvent
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import RAN_TO_THE_END, SearchState, as_point, experiment_of, replay
from tune_cl.samplers import Observation


def warm_start(experiment: Experiment, digest: str, search_folder: SearchFolder) -> WarmStartEvent | None:
    """`warm_start_event` from the storage of a search folder; in S3, after updating this machine's copies."""
    for earlier in experiment.search.warm_start:
        replace(search_folder, name=earlier).pull()
    return warm_start_event(experiment, digest, search_folder.storage)


def warm_start_event(experiment: Experiment, digest: str, storage: Path) -> WarmStartEvent | None:
    """The journal's event for the searches in `search.warm_start`; None if it names none.

    `digest`: that of the new search's data. Raises ConfigError for a search that does not exist, DataError for a
    damaged journal.
    """
    names = experiment.search.warm_start
    if not names:
        return None
    journals = [_journal(f"search.warm_start[{index}]", name, storage) for index, name in enumerate(names)]
    sources, observations = [], []
    for journal in journals:
        state = replay(read_events(journal))
        seen = observed(experiment, digest, state)
        finished = sum(trial.outcome in RAN_TO_THE_END for trial in state.trials.values())
        counts = {"observations": len(seen), "dropped": finished - len(seen)}
        sources.append({"search": state.name, "seeds": sorted(state.search_seeds), **counts})
        observations += [{"arm": arm, **_recorded(observation)} for arm, observation in seen]
    return {"event": "warm_start", "sources": sources, "observations": observations, "time": time.time()}


def _recorded(observation: Observation) -> dict[str, Any]:
    return {"chosen": observation.point, "value": observation.value, "comparable": observation.comparable}


def observation_of(recorded: Mapping[str, Any]) -> Observation:
    """An observation as the journal has it."""
    return Observation(as_point(recorded["chosen"]), recorded["value"], recorded["comparable"])


def notes_of(event: WarmStartEvent) -> list[str]:
    """What came of each earlier search, in words."""
    return [
        f"{source['search']}: {source['observations']} finished trials warm the search up"
        + (f", {source['dropped']} are outside its space or without a spread of values" if source["dropped"] else "")
        for source in event["sources"]
    ]


def observed(experiment: Experiment, digest: str, state: SearchState) -> list[tuple[Arm, Observation]]:
    """The finished trials of an earlier search that lie in the space of their arm.

    Parameters that the space does not open are ignored. Values stay as they are if both searches have the same data,
    ranker, metric, evaluation and iterations; else they become standard scores within their search.
    """
    trials = [(trial, at.dev) for trial, at in state.finished()]
    comparable = _comparable(experiment, digest, state)
    values = [dev for _, dev in trials]
    mean, spread = (0.0, 1.0) if comparable or not values else (fmean(values), pstdev(values))
    if not spread:
        return []
    observations = []
    for trial, dev in trials:
        space = experiment.plain_space if trial.arm == PLAIN and experiment.tunes_plain else experiment.space
        point = space.within(as_point(trial.params) | trial.point)
        if point is not None:
            observations.append((trial.arm, Observation(point, (dev - mean) / spread, comparable)))
    return observations


def _comparable(experiment: Experiment, digest: str, state: SearchState) -> bool:
    new, old = experiment.base_run, experiment_of(state).base_run
    return bool(digest) and (
        state.data["digest"],
        state.metric,
        state.ranker,
        old.evaluation,
        old.training.max_iterations,
    ) == (
        digest,
        experiment.metric,
        new.ranker["name"],
        new.evaluation,
        new.training.max_iterations,
    )


def _journal(location: str, name: str, storage: Path) -> Path:
    """The journal of a search, named by its name in the storage or by the path of its folder."""
    for folder in (storage / name, Path(name)):
        if (folder / FILE).is_file():
            return folder / FILE
    names = [path.parent.name for path in storage.glob(f"*/{FILE}")]
    right = nearest(name, names) if names else "the path of the earlier search's folder"
    raise ConfigError(Problem(location, f"no search '{name}' in {storage}", right))
