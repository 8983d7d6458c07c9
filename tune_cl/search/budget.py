"""When a whole search ends: `search.hours`, `search.iterations`.

When a budget is used up, running trials stop at their next result and no further trial starts; the baseline is never
stopped.
"""

from __future__ import annotations

import time

from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.search_keys import SearchConfig
from tune_cl.history.state import SearchState


def budgets(search: SearchConfig) -> dict[str, float]:
    """What may end a search before its trials are used up, by key."""
    keys = {"search.hours": search.hours, "search.iterations": search.iterations}
    return {key: limit for key, limit in keys.items() if limit is not None}


def used_up(experiment: Experiment, state: SearchState) -> str | None:
    """Which budget is used up, in words; None while some of each is left."""
    used = {"search.hours": hours_so_far(state), "search.iterations": state.iterations}
    over = (key for key, limit in budgets(experiment.search).items() if used[key] >= limit)
    return next((f"{key} are used up" for key in over), None)


def hours_so_far(state: SearchState) -> float:
    """Hours of all sessions up to now, without the time between them."""
    return (state.seconds + max(0.0, time.time() - state.time)) / 3600
