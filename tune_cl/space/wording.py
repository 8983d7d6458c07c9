"""Names for trials and searches on the terminal, in MLflow and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainables.core.prose import short
from trainables.evaluation.metrics import in_words
from tune_cl.results import PLAIN_TRAINING as PLAIN_TRAINING
from tune_cl.results import LabelFree

_CURRICULUM = ("pacing", "n", "scoring", "weighting", "m", "subset", "objective_switch", "switch", "anti")
FIRST = ("ranker.name", *(f"curriculum.{key}" for key in _CURRICULUM))


CAUTION = "Dev scores are biased upwards, because they chose the trial: confirm before you conclude."
OF_CURRICULUM = "curriculum."  # beginning of its keys
DEFAULT = "plain, default"  # the first trial, which has the space's own defaults


def trial_words(point: Mapping[str, Any], params: Mapping[str, Any], plain: bool, first: bool = False) -> str:
    """A trial in words, the same everywhere: the values in force (`params`) of its curriculum and of the keys that the
    space opens, without those turned off, e.g. `pacing=root n=2 scoring=random lr=0.01`. Of a plain trial (`plain`) its
    other keys."""
    if first:
        return DEFAULT
    shown = [key for key in point if key in params and not (plain and key.startswith("curriculum."))]
    shown += [] if plain else [key for key in FIRST[1:] if key in params]
    words = [setting(key, params[key]) for key in in_order(shown) if not off(params[key])]
    return " ".join([*(["plain"] if plain else []), *words]) or "no curriculum"


def setting(key: str, value: Any) -> str:
    """A key with its value, without its section, e.g. `lr=0.02`."""
    name = "ranker" if key == "ranker.name" else key.partition(".")[2] or key
    return f"{name}={str(value).lower() if isinstance(value, bool) else short(value)}"


def baseline_words(baseline: Mapping[str, Any]) -> str:
    """What a search compares with: plain training or, where its question is not about curricula alone, the values of
    `baseline`, e.g. `margin=1`."""
    others = [setting(key, value) for key, value in baseline.items() if not key.startswith(OF_CURRICULUM)]
    if not others:
        return PLAIN_TRAINING
    return " ".join(others) + (" and no curriculum" if len(others) < len(baseline) else "")


def arm_words(arm: str, curricula: bool) -> str:
    """What the trials of an arm are called; `curricula`: whether the question is about these."""
    return "other" if arm == "curriculum" and not curricula else arm


def beginning(words: str) -> str:
    """The words at the beginning of a sentence; a setting stays as it is written."""
    return words if "=" in words.partition(" ")[0] else f"{words[:1].upper()}{words[1:]}"


def not_tuned(plain: str) -> str:
    """That what a search compares with (`baseline_words`) was trained once."""
    return f"{beginning(plain)} was not tuned: another learning rate or loss alone may do as well."


def tuning_words(metric: str, trials: int, opened: list[str], best: float, default: float, plain: str) -> str:
    """What tuning was worth on dev to what the search compares with, in a sentence."""
    searched = f"over {', '.join(key.removeprefix('training.') for key in opened)}" if opened else "alone"
    said = f"Tuning {plain} ({trials} trials {searched})"
    if best <= default:
        return f"{said} found nothing better than its default on dev."
    return f"{said} gained {best - default:.4f} {in_words(metric)} on dev."


def label_free_of(document: Mapping[str, Any]) -> tuple[LabelFree | None, LabelFree | None]:
    """`first_stage` and `label_free`, from a search's state or what trainables/baselines computed."""
    rows = (document.get(key) for key in ("first_stage", "label_free"))
    first_stage, best = (row and LabelFree(label=row["label"], mean=row["mean"]) for row in rows)
    return first_stage, best


def label_free_rows(*found: LabelFree | None) -> list[LabelFree]:
    """One row if first stage and best ranking without training labels are the same, none where nothing is known."""
    return list({row.label: row for row in found if row}.values())


def label_free_words(rows: Sequence[LabelFree], metric: str, split: str) -> str:
    """What is reached without training labels, in a sentence; empty where nothing is known."""
    said = [f"{row.label} has {row.mean:.4f}" for row in rows]
    return f"Without training labels, {' and '.join(said)} {in_words(metric)} on {split}." if rows else ""


def below_label_free(rows: Sequence[LabelFree], metric: str, means: Sequence[float]) -> str:
    """A warning where all these means are below what needs no training labels; else empty."""
    best = max(rows, key=lambda row: row.mean, default=None)
    if best is None or not means or max(means) >= best.mean:
        return ""
    who = {1: "the ranker is", 2: "both rankers are"}.get(len(means), "all rankers are")
    return f"{best.label} alone has {best.mean:.4f} {in_words(metric)}: {who} below what needs no training labels"


def off(value: Any) -> bool:
    """Whether a value turns its key off; 0 is a value."""
    return value is None or value is False or value == "none"


def in_order(keys: Iterable[str]) -> list[str]:
    """Opened keys in the order shown: what best sets trials apart comes first."""
    known = dict.fromkeys(keys)
    return [*(key for key in FIRST if key in known), *(key for key in known if key not in FIRST)]


def rankers(search: Mapping[str, Any]) -> str:
    """All rankers of a search, from its event or its document."""
    return ", ".join(search["rankers"])
