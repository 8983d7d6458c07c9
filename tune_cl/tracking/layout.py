"""How a search looks in MLflow: names, tags and values of its runs. Pure functions of journal events."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from statistics import fmean, stdev
from typing import Any

import yaml

from trainables.config.keys import flatten
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.arms import PLAIN
from tune_cl.history.events import ConfirmationEvent, SearchEndEvent, SearchEvent, TrialEvent
from tune_cl.history.tracking_uri import masked
from tune_cl.space.wording import in_order, rankers, trial_words

PARENT = "search"  # key of the parent run; a child's is its trial id, or `confirmation_key`
PARAM_LENGTH = 6000  # mlflow.utils.validation.MAX_PARAM_VAL_LENGTH
TAG_LENGTH = 5000  # the smallest limit of the stores that MLflow supports
DATA_NAME_LENGTH, DIGEST_LENGTH = 500, 36  # of a data set
NAME_LENGTH = 250  # of a run, in the tables of every store
COLUMNS = tuple(f"curriculum.{key}" for key in ("pacing", "n", "scoring", "delta", "T", "weighting", "m"))
REFUSED = re.compile(r"[^\w/. :-]")  # signs in the name of a metric
FEWEST_COLUMNS, MOST_COLUMNS = 3, 24  # of the prepared view: with fewer opened keys, COLUMNS are shown as well
STATUS = {"failed": "FAILED"}  # by a trial's outcome; for any other it is FINISHED


def search_id(search: SearchEvent) -> str:
    """An id that tells this search from any other of the same name, on any server."""
    return sha256(json.dumps([search["name"], search["storage"], search["time"]]).encode()).hexdigest()[:16]


def milliseconds(seconds: float) -> int:
    """A time for MLflow, 1 or more: it refuses points from before 1970, where a wrong clock may be, and reads an end
    at 0 as now."""
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


def run_key(search: SearchEvent, key: str) -> str:
    """The value of the tag `tune_cl.key`, which identifies a run."""
    return f"{search_id(search)}/{key}"


def search_tags(search: SearchEvent) -> dict[str, str]:
    """Tags of the parent run from the event `search`."""
    keys = ("metric", "seed", "baseline", "yaml", "git_commit")
    versions = ", ".join(f"{package} {version}" for package, version in search["versions"].items())
    values = {"kind": "search", "search": search["name"], "search_id": search_id(search), "versions": versions}
    values |= {"key": run_key(search, PARENT), "ranker": rankers(search)}
    values |= {"data": search["data"]["name"], "data_digest": search["data"]["digest"]}
    git_commit = search.get("git_commit")
    commit = {"mlflow.source.git.commit": git_commit} if git_commit else {}
    source = {"mlflow.source.name": f"tune-cl run {search['space']}", "mlflow.source.type": "LOCAL"}
    return tags(values | {key: search.get(key) for key in keys}) | commit | source


def data_set(search: SearchEvent) -> dict[str, str]:
    """The search's data as MLflow's data set: name, digest (at most as long as MLflow stores) and source."""
    given = (yaml.safe_load(search["yaml"]) or {}).get("data", "docstrings")
    source = str(given.get("source", "docstrings") if isinstance(given, Mapping) else given)
    data = search["data"]
    fields = {"name": cut(str(data["name"]), DATA_NAME_LENGTH), "digest": str(data["digest"])[:DIGEST_LENGTH]}
    return fields | {"source_type": "local", "source": json.dumps({"uri": masked(source)})}


def trial_tags(search: SearchEvent, trial: TrialEvent) -> dict[str, str]:
    """Tags of a child run from the event `trial`."""
    values = {"kind": "trial", "trial_id": trial["trial"], "seed": trial["seed"], "baseline": trial["baseline"]}
    values |= {"arm": trial["arm"], "twin": trial.get("twin"), "repeats": trial.get("repeats")}
    return tags(values) | child_tags(search, trial["trial"])


def confirmation_tags(search: SearchEvent, confirmation: ConfirmationEvent) -> dict[str, str]:
    """Tags of a child run from the event `confirmation`."""
    values = {"kind": "confirmation", "label": confirmation["label"], "seed": confirmation["seed"]}
    return tags(values | {"trial_id": confirmation.get("trial")}) | child_tags(search, confirmation_key(confirmation))


def compared_run(search: SearchEvent, split: str, row: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """Key, name and tags of the run of a configuration that a verdict compares. row: of the event `verdict`."""
    key = f"verdict-{sha256(json.dumps([split, row['label']]).encode()).hexdigest()[:16]}"
    values = {"kind": "configuration", "label": row["label"], "role": ", ".join(row["roles"]), "trial_id": row["trial"]}
    return key, f"{', '.join(row['roles'])}: {row['label']}", tags(values) | child_tags(search, key)


def summary_of(values: Sequence[float], split: str, metric: str) -> dict[str, float]:
    """Mean, sample standard deviation (with two trainings or more) and number of trainings, as metrics."""
    name = f"{split}_{metric}"
    found = {f"{name}_mean": fmean(values), f"{name}_n": float(len(values))}
    return found | ({f"{name}_sd": stdev(values)} if len(values) > 1 else {})


def child_tags(search: SearchEvent, key: str) -> dict[str, str]:
    return tags({"search": search["name"], "search_id": search_id(search), "key": run_key(search, key)})


def confirmation_key(confirmation: ConfirmationEvent) -> str:
    digest = sha256(json.dumps([confirmation["label"], confirmation["seed"]]).encode()).hexdigest()[:16]
    return f"confirmation-{digest}"


def trial_name(trial: TrialEvent) -> str:
    """Run name: the trial id and the trial's words as on the terminal, e.g. `t0003 plain ranker=knrm lr=0.0005`."""
    words = trial_words(trial["chosen"], trial["params"], trial["arm"] == PLAIN, trial["baseline"])
    return f"{trial['trial']} {words}"


def confirmation_name(confirmation: ConfirmationEvent) -> str:
    """Run name, e.g. `t0003 seed 2 pacing=root n=2 scoring=turns`: lists cut names off at the end."""
    return f"{confirmation.get('trial') or 'confirm'} seed {confirmation['seed']} {confirmation['label']}"


def view(search: SearchEvent) -> tuple[str, str]:
    """The experiment's tag, and its value, that MLflow 3's pages read as a shared view: trials by arm, best first."""
    best = f"metrics.`{best_name(search)}`"
    columns = [best, *(f"params.`{key}`" for key in _columns(search)), "tags.`tune_cl.outcome`"]
    by_arm = {"aggregateFunction": "max", "groupByKeys": [{"mode": "tag", "groupByData": "tune_cl.arm"}]}
    trials = f"tags.`tune_cl.search_id` = '{search_id(search)}' AND tags.`tune_cl.kind` = 'trial'"
    state = {
        "searchFilter": trials,
        "orderByKey": best,
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "groupBy": by_arm if search["compares"] else None,
    }
    return f"mlflow.sharedViewState.{search_id(search)}", json.dumps(state)


def _columns(search: SearchEvent) -> list[str]:
    """The parameters in the view: the keys that the search opens; if these are few, COLUMNS as well."""
    opened = in_order(search["opened"])
    usual = [] if len(opened) >= FEWEST_COLUMNS else [key for key in COLUMNS if key not in opened]
    return [*opened, *usual][:MOST_COLUMNS]


def view_path(search: SearchEvent, experiment: str) -> str:
    """The path of that view below the address of an MLflow server."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={search_id(search)}&workflowType=machine_learning"


def best_name(search: SearchEvent) -> str:
    """Name of the metric that holds one value for a whole run."""
    return metric_name(f"best_{dev_key(search['metric'])}")


def summary(search: SearchEvent, end: SearchEndEvent) -> str:
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
