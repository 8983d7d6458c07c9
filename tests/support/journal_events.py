"""Events of a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import to_yaml
from tune_cl.history.journal import Event
from tune_cl.search.phases import planned_arms

ARMS: dict[str, Any] = {  # what a search tells of its arms
    "opened": [],
    "compares": True,
    "arms": {arm: {"trials": trials, "opened": []} for arm, trials in (("plain", 1), ("curriculum", 4))},
}
SEARCH: Event = {
    "event": "search", "name": "s", "space": "quickstart", "data": {"name": "docstrings", "digest": "abc"},
    "ranker": "knrm", "rankers": ["knrm"], "metric": "mrr@10", "seed": 7, "baseline": "t0000",
    "yaml": "seed: 7\n",
    "versions": {"ray": "2.60"}, "git_commit": None, "tracking_uri": "", "storage": "runs", "time": 1.0,
    **ARMS,
}  # fmt: skip


def search_event(experiment: Experiment, storage: Path, name: str = "toy", **other: Any) -> Any:
    """The first event of a search over an experiment."""
    compares, opened = experiment.arms.compares, [*experiment.space.parameters]
    told = {"arms": planned_arms(experiment), "compares": compares, "opened": opened}
    made = {"name": name, "space": "toy", "data": {"name": "none", "digest": ""}, "storage": str(storage), "seed": 0}
    made |= {"ranker": "conv_knrm", "rankers": ["conv_knrm"], "yaml": to_yaml(experiment)}
    made["metric"] = experiment.base.run.metric
    return SEARCH | made | told | {"time": 0.0} | other


def trial(number: int, **params: Any) -> Event:
    base = {"number": number, "params": params, "chosen": {}, "seed": 7, "baseline": number == 0, "time": 2.0}
    base["arm"] = "plain" if number == 0 else "curriculum"
    return {"event": "trial", "trial": f"t{number:04d}", **base}


def result(number: int, iteration: int, dev: float) -> Event:
    metrics = {"dev_mrr@10": dev, "train_loss": 0.5, "seconds": 1.0}
    return {"event": "result", "trial": f"t{number:04d}", "iteration": iteration, "metrics": metrics, "time": 3.0}


def end(number: int, outcome: str) -> Event:
    return {"event": "end", "trial": f"t{number:04d}", "outcome": outcome, "reason": None, "time": 4.0}
