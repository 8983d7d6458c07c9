"""The state of a search that the panel shows."""

from __future__ import annotations

from tests.support.journal_events import ARMS
from tune_cl.history.journal import Event
from tune_cl.history.state import SearchState, replay


def trial(number: int, dev: float, outcome: str | None = None, paused: bool = False) -> list[Event]:
    """A trial with one iteration, as a journal holds it."""
    params = {"curriculum.pacing": "step" if number else "none", "ranker.name": "conv_knrm", "training.lr": 0.001}
    chosen = {"curriculum.delta": 0.3, "curriculum.pacing": "step", "curriculum.T": 0.4} if number else {}
    told = {"number": number, "params": params | chosen, "chosen": chosen, "seed": 0, "baseline": not number}
    told |= {"arm": "curriculum" if number else "plain"}
    events: list[Event] = [{"event": "trial"} | told]
    events += [{"event": "result", "iteration": 1, "metrics": {"dev_map": dev, "seconds": 1.0}}]
    events += [{"event": "pause"}] if paused else []
    events += [{"event": "end", "outcome": outcome}] if outcome else []
    return [event | {"trial": f"t{number:04}", "time": 1.0} for event in events]


def state_of(trials: list[list[Event]]) -> SearchState:
    begun = {"event": "search", "name": "toy", "space": "toy", "data": {}, "metric": "map", "seed": 0}
    begun |= {"ranker": "conv_knrm", "rankers": ["conv_knrm"]}
    begun |= ARMS | {"baseline": "t0000", "yaml": "", "storage": "", "time": 0.0}
    return replay([begun, *(event for one in trials for event in one)])
