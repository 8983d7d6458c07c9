"""How a search looks in MLflow: names, tags and values of its runs. Pure functions of journal events."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from statistics import fmean, stdev
from typing import Any

from trainables.config.keys import flatten
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.arms import PLAIN
from tune_cl.history.journal import Event
from tune_cl.history.tracking_uri import masked
from tune_cl.space.wording import rankers, trial_words

PARENT = "search"  # key of the parent run; a child's is its trial id, `confirmation_key` or `configuration_key`
PARAM_LENGTH = 6000  # mlflow.utils.validation.MAX_PARAM_VAL_LENGTH
TAG_LENGTH = 5000  # the smallest limit of the stores that MLflow supports
NAME_LENGTH = 250  # of a run, in the tables of every store
REFUSED = re.compile(r"[^\w/. :-]")  # signs in the name of a metric


def digest(*parts: Any) -> str:
    """16 hexadecimal digits for values of JSON."""
    return sha256(json.dumps(parts).encode()).hexdigest()[:16]


def search_id(search: Event) -> str:
    """An id that tells this search from any other of the same name, on any server."""
    return digest(search["name"], search["storage"], search["time"])


def milliseconds(seconds: float) -> int:
    """A time for MLflow, 1 or more: it reads an end at 0 as now."""
    return max(1, round(seconds * 1000))


def metric_name(name: str) -> str:
    """A metric's name as MLflow takes it: without signs such as @ or %, and as the path of a file, without // or .."""
    allowed = REFUSED.sub("_", name.replace("@", "_at_")).replace("..", "__")
    return posixpath.normpath(allowed).lstrip("/")[:NAME_LENGTH] or "_"


def text(value: Any) -> str:
    """A value in a form that YAML and `--set` accept: true, inf, null, [1, 2]."""
    if isinstance(value, bool | list | dict) or value is None:
        return json.dumps(value)
    return str(value)


def cut(value: str, length: int) -> str:
    """The value in at most `length` characters."""
    return value if len(value) <= length else value[: length - 3] + "..."


def parameters(params: Mapping[str, Any]) -> dict[str, str]:
    """Flat parameters as MLflow stores them: text of at most PARAM_LENGTH characters, secrets hidden."""
    return {key: cut(masked(text(value)), PARAM_LENGTH) for key, value in params.items()}


def tags(values: Mapping[str, Any]) -> dict[str, str]:
    """Tags under `tune_cl.`: nested mappings become dotted names, None is left out, secrets are hidden."""
    flat = {key: value for key, value in flatten(values).items() if value is not None}
    return {f"tune_cl.{key}": cut(masked(text(value)), TAG_LENGTH) for key, value in flat.items()}


def run_tags(search: Event, key: str) -> dict[str, str]:
    """Tags that every run has; `tune_cl.key` identifies it."""
    of_search = search_id(search)
    return tags({"search": search["name"], "search_id": of_search, "key": f"{of_search}/{key}"})


def search_tags(search: Event) -> dict[str, str]:
    """Tags of the parent run from the event `search`."""
    values = {key: search.get(key) for key in ("metric", "seed", "baseline", "yaml", "git_commit")}
    values["versions"] = ", ".join(f"{package} {version}" for package, version in search["versions"].items())
    values |= {"kind": "search", "ranker": rankers(search)}
    values |= {"data": search["data"]["name"], "data_digest": search["data"]["digest"]}
    source = {"mlflow.source.name": f"tune-cl run {search['space']}", "mlflow.source.type": "LOCAL"}
    return tags(values) | run_tags(search, PARENT) | source


def trial_tags(search: Event, trial: Event) -> dict[str, str]:
    """Tags of a child run from the event `trial`."""
    values = {"kind": "trial", "trial_id": trial["trial"], "seed": trial["seed"], "baseline": trial["baseline"]}
    values |= {"arm": trial["arm"], "twin": trial.get("twin"), "repeats": trial.get("repeats")}
    return tags(values) | run_tags(search, trial["trial"])


def confirmation_tags(search: Event, confirmation: Event) -> dict[str, str]:
    """Tags of a child run from the event `confirmation`."""
    values = {"kind": "confirmation", "label": confirmation["label"], "seed": confirmation["seed"]}
    return tags(values | {"trial_id": confirmation.get("trial")}) | run_tags(search, confirmation_key(confirmation))


def confirmation_key(confirmation: Event) -> str:
    return f"confirmation-{digest(confirmation['label'], confirmation['seed'])}"


def configuration_key(verdict: Event, label: str) -> str:
    return f"verdict-{digest(verdict['split'], label)}"


def configuration_tags(search: Event, key: str, compared: Mapping[str, Any]) -> dict[str, str]:
    """Tags of the run of a configuration that a verdict compares."""
    values = {"kind": "configuration", "label": compared["label"], "role": compared["roles"]}
    return tags(values | {"trial_id": compared["trial_id"]}) | run_tags(search, key)


def over_seeds(values: Sequence[float], name: str) -> dict[str, float]:
    """Mean, number of trainings and, of two or more, sample standard deviation, as metrics."""
    deviation = {f"{name}_sd": stdev(values)} if len(values) > 1 else {}
    return {f"{name}_mean": fmean(values), f"{name}_n": float(len(values)), **deviation}


def trial_name(trial: Event) -> str:
    """Run name: the trial id and the trial's words as on the terminal, e.g. `t0003 plain ranker=knrm lr=0.0005`."""
    words = trial_words(trial["chosen"], trial["params"], trial["arm"] == PLAIN, trial["baseline"])
    return f"{trial['trial']} {words}"


def confirmation_name(confirmation: Event) -> str:
    """Run name, e.g. `t0003 seed 2 pacing=root n=2 scoring=turns`: lists cut names off at the end."""
    return f"{confirmation.get('trial') or 'confirm'} seed {confirmation['seed']} {confirmation['label']}"


def best_name(search: Event) -> str:
    """Name of the metric that holds one value for a whole run."""
    return metric_name(f"best_{dev_key(search['metric'])}")


def summary(search: Event, end: Event) -> str:
    """The parent run's description (Markdown): the best trial, its parameters, and the time taken."""
    best = end["best"]
    lines = [f"Search of `{search['space']}` over {search['data']['name']} with {rankers(search)}."]
    if best:
        reached = f"dev {search['metric']} {best['dev']:.4f} at iteration {best['iteration']}"
        lines += ["", f"Best of all trials: **{best['trial_id']}**, {reached}."]
        lines += ["", "| parameter | value |", "|---|---|"]
        lines += [f"| {key} | {cut(text(value), 200)} |" for key, value in best.get("params", {}).items()]
    lines += ["", f"Took {end['seconds']:.0f} s."]
    return "\n".join(lines)
