"""Keys and values of earlier versions that this one does not have: the line that says so, and what to make of the
searches that were written with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.core.errors import Problem


@dataclass(frozen=True)
class Gone:
    """since    the first version without it
    default  of a key: its value where nobody set it; of a value: what stands in its place
    instead  what a user does today
    """

    since: str
    default: Any
    instead: str


KEYS: dict[str, Gone] = {
    "curriculum.feature_cutoff": Gone("0.2", 10, "left out; subset feature_ndcg reads nDCG@10"),
    "curriculum.refresh": Gone("0.2", 1, "left out; scoring self_paced orders again in each iteration"),
    "curriculum.sampling": Gone("0.2", "with_replacement", "left out; each batch is an independent draw"),
    "curriculum.teacher.early_iterations": Gone("0.2", 2, "left out; scoring el2n reads teachers after 2 iterations"),
    "curriculum.teacher.folds": Gone("0.2", 5, "left out; scoring crossfit_loss divides into 5 parts"),
    "curriculum.teacher.runs": Gone("0.2", 3, "left out; scoring el2n averages over 3 teachers"),
    "curriculum.warm": Gone("0.2", 0.0, "left out; all of a batch comes from what is available"),
    "curriculum.weight_reduction": Gone("0.2", "auto", "left out; curriculum.reference says how weights are reduced"),
    "evaluation.smoothing": Gone("0.2", 1, "left out; the dev value of an iteration is its own"),
    "ranker.character_filters": Gone("0.2", 100, "left out; bidaf_t reads 25 characters of a word by 100 filters"),
    "ranker.character_size": Gone("0.2", 8, "left out; bidaf_t reads 25 characters of a word by 100 filters"),
    "ranker.character_width": Gone("0.2", 5, "left out; bidaf_t reads 25 characters of a word by 100 filters"),
    "ranker.characters": Gone("0.2", 25, "left out; bidaf_t reads 25 characters of a word by 100 filters"),
    "ranker.sigmoid": Gone("0.2", 1.0, "left out; the logistic loss has LightGBM's steepness, 1"),
    "ranker.unknown_deviation": Gone("0.2", None, "left out; random vectors have the spread of the known ones"),
    "search.audit": Gone("0.2", 0, "left out; search.scheduler: none shows what every trial comes to"),
    "search.compare": Gone("0.2", "value", "left out; trials are compared by their best dev value"),
    "search.cost": Gone("0.2", None, "left out; search.hours or search.iterations is a budget"),
    "search.interval": Gone("0.2", 2, "left out; it was of search.scheduler: pbt alone"),
    "search.price.cpu_hour": Gone("0.2", 0, "left out; check and report give hours"),
    "search.price.gpu_hour": Gone("0.2", 0, "left out; check and report give hours"),
    "search.repeats": Gone("0.2", 1, "left out; tune-cl confirm trains the best configurations with several seeds"),
    "search.resources.shard": Gone("0.2", False, "left out; LoRA (ranker.lora.rank) makes a large model fit"),
    "search.stop_when.margin": Gone("0.2", 0.001, "left out; search.hours or search.iterations is a budget"),
    "search.stop_when.probability": Gone("0.2", None, "left out; search.hours or search.iterations is a budget"),
    "search.warm_discount": Gone("0.2", 0.5, "left out; values of a search on other data count half"),
    "training.average_horizon": Gone("0.2", 3.0, "left out; the average has a horizon of 3 iterations"),
    "training.window": Gone("0.2", 8, "left out; eight batches are drawn together and sorted by length"),
}
VALUES: dict[tuple[str, str], Gone] = {  # by key and value
    ("search.grace", "scaled"): Gone("0.2", "curriculum", "curriculum, none or a number of iterations"),
    ("search.scheduler", "pbt"): Gone("0.2", "none", "none, asha, hyperband, median or model"),
}
SAME_KEYS = {"baseline": "", "curriculum.teacher.ranker": "ranker."}
"""Sections with the keys of others, and what these begin with."""


def gone_key(key: str) -> Problem | None:
    """The problem of a key that an earlier version had; None for any other."""
    gone = KEYS.get(key.removeprefix("baseline."))
    return gone and Problem(key, f"gone since version {gone.since}", gone.instead)


def gone_value(key: str, value: Any) -> Problem | None:
    """The problem of a value that a key could have in an earlier version; None for any other."""
    gone = VALUES.get((key, value)) if isinstance(value, str) else None
    return gone and Problem(key, f"'{value}' is gone since version {gone.since}", gone.instead)


def without_gone(tree: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Any], list[str]]:
    """The mapping of a space that an earlier version wrote, without what is gone; and which of it was in use, as
    KEY=VALUE."""
    kept: dict[str, Any] = {}
    used: list[str] = []
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in KEYS:
            used += [] if value == KEYS[key].default else [f"{key}={value}"]
        elif isinstance(value, Mapping):
            kept[name], inside = without_gone(value, SAME_KEYS.get(key, f"{key}."))
            used += inside
        elif gone_value(key, value):
            kept[name] = VALUES[key, value].default
            used.append(f"{key}={value}")
        else:
            kept[name] = value
    return kept, used
