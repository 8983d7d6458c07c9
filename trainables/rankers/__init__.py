"""Rankers by name. Modules load on first use: naming a ranker must not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainables.errors import ConfigError, Problem
from trainables.registry import Entry, Registry

if TYPE_CHECKING:
    from trainables.rankers.base import Ranker, RankerSettings

RANKERS: Registry[str] = Registry(
    "ranker.name",
    Entry(
        "bert",
        "trainables.rankers.bert:Bert",
        "cross-encoder over any Hugging Face encoder",
        "MacAvaney et al. 2020; Penha & Hauff 2020",
    ),
    Entry(
        "conv_knrm",
        "trainables.rankers.conv_knrm:ConvKnrm",
        "kernels over soft matches of 1- to 3-grams",
        "Dai et al. 2018; MacAvaney et al. 2020",
    ),
)


def load_ranker(name: str) -> Ranker:
    """The ranker registered under a name."""
    module, _, attribute = RANKERS[name].partition(":")
    return getattr(import_module(module), attribute)()


def ranker_settings(keys: Mapping[str, Any]) -> RankerSettings:
    """Validated `ranker.*` keys; pydantic's ValidationError names the wrong ones."""
    name = keys.get("name")
    if not isinstance(name, str):
        raise ConfigError(Problem("ranker.name", "missing", f"one of {', '.join(RANKERS)}"))
    return load_ranker(name).Settings.model_validate(dict(keys))
