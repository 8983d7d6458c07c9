"""Names for trials and searches on the terminal, in MLflow and in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tune_cl.space.space import short

_CURRICULUM = ("pacing", "n", "scoring", "weighting", "m", "subset", "objective_switch")
WORDED = ("ranker.name", *(f"curriculum.{key}" for key in _CURRICULUM))
BARE = tuple(key for key in WORDED if key != "curriculum.m")  # shown by their values alone
NAMED = (*_CURRICULUM, "switch", "anti")  # in `curriculum`


CAUTION = "The best of many trials on one seed looks better than it is: this is no verdict yet."
NOT_TUNED = "Plain training was not tuned: another learning rate or loss alone may do as well."
DEFAULT = "plain, default"  # the first trial, which has the space's own defaults


def trial_words(point: Mapping[str, Any], params: Mapping[str, Any], plain: bool, first: bool) -> str:
    """A trial in words: its arm if that is the plain one, then the opened keys that are in force for it (`params`) or,
    if these say nothing, its curriculum."""
    if first:
        return DEFAULT
    words = describe({key: value for key, value in point.items() if key in params}, curriculum(params))
    return f"plain, {words}" if plain else words


def tuning_words(metric: str, trials: int, opened: list[str], best: float, default: float) -> str:
    """What tuning plain training was worth on dev, in a sentence."""
    searched = f"over {', '.join(key.removeprefix('training.') for key in opened)}" if opened else "alone"
    said = f"Tuning plain training ({trials} trials {searched})"
    if best <= default:
        return f"{said} found nothing better than its default on dev."
    return f"{said} was worth {best - default:+.4f} {metric} on dev."


def label_free_rows(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The first stage and the best ranking without training labels, of a document or a search's state; one row if they
    are the same, none where nothing is known."""
    rows = [row for key in ("first_stage", "label_free") if (row := document.get(key))]
    return list({row["label"]: row for row in rows}.values())


def label_free_words(document: Mapping[str, Any], metric: str, split: str) -> str:
    """What is reached without training labels, in a sentence; empty where nothing is known."""
    rows = [f"{row['label']} has {row['mean']:.4f}" for row in label_free_rows(document)]
    return f"Without training labels, {' and '.join(rows)} {metric} on {split}." if rows else ""


def below_label_free(document: Mapping[str, Any], metric: str, means: Sequence[float]) -> str:
    """A warning where all these means are below what needs no training labels; else empty."""
    best = max(label_free_rows(document), key=lambda row: row["mean"], default=None)
    if best is None or not means or max(means) >= best["mean"]:
        return ""
    who = {1: "the ranker is", 2: "both rankers are"}.get(len(means), "all rankers are")
    return f"{best['label']} alone has {best['mean']:.4f} {metric}: {who} below what needs no training labels"


def describe(point: Mapping[str, Any], otherwise: str = "") -> str:
    """Opened keys on a line, e.g. `root 2 random reciprocal_rank m=4 delta=0.3`, without those turned off."""
    said = {key: short(point[key]) for key in in_order(point) if not off(point[key])}
    words = [value if key in BARE else f"{key.partition('.')[2] or key}={value}" for key, value in said.items()]
    return " ".join("anti" if word == "anti=True" else word for word in words) or otherwise or "no curriculum"


def off(value: Any) -> bool:
    """Whether a value turns its key off; 0 is a value."""
    return value is None or value is False or value == "none"


def in_order(keys: Mapping[str, Any] | list[str]) -> list[str]:
    """Opened keys in the order shown: what best tells trials apart comes first."""
    return [*(key for key in WORDED if key in keys), *(key for key in keys if key not in WORDED)]


def curriculum(params: Mapping[str, Any]) -> str:
    """The curriculum among flat parameters in a few words; empty if there is none."""

    def value_of(key: str) -> str:
        value = params.get(f"curriculum.{key}")
        return "" if off(value) else f"{value:g}" if isinstance(value, float) else str(value)

    words = [value_of("pacing"), value_of("n"), value_of("scoring")]
    if value_of("weighting"):
        words += [value_of("weighting"), f"m={value_of('m')}"]
    words += [value_of("subset"), value_of("objective_switch"), f"t={value_of('switch')}" if value_of("switch") else ""]
    words += ["anti" if value_of("anti") else ""]
    return " ".join(filter(None, words))


def rankers(search: Mapping[str, Any]) -> str:
    """All rankers of a search, from its event or its document."""
    return ", ".join(search["rankers"])
