"""Configurations compared by their parameters in force, whatever the seed: searches, their confirmations and reports do
so alike."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tune_cl.search.space import Flat, identity
from tune_cl.state import SearchState

CURRICULUM = "curriculum."


def seedless(params: Mapping[str, Any]) -> Flat:
    """Parameters without the seed, with lists for tuples, as in the trials' parameters, which come from the journal."""
    values = {key: value for key, value in params.items() if key != "seed"}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def training_key(params: Mapping[str, Any]) -> Hashable:
    """Equal for equal parameters, whatever the seed."""
    values = seedless(params).items()
    return identity({key: tuple(value) if isinstance(value, list) else value for key, value in values})


def differences(ours: Flat, theirs: Flat) -> dict[str, Any]:
    """Whether a configuration (`ours`) and the baseline (`theirs`) differ in their curricula, and the keys in force
    outside the curriculum in which they differ. Parameters are as from `seedless`."""
    differing = [key for key in {**ours, **theirs} if key not in ours or key not in theirs or ours[key] != theirs[key]]
    also = [key for key in differing if not key.startswith(CURRICULUM)]
    return {"has_curriculum": len(also) < len(differing), "also_differs": also}


def over_curricula(state: SearchState) -> bool:
    """Whether trials chose among curricula or have another one than the baseline; else the search was over other keys
    only. True as long as there are no trials to tell."""
    baseline = state.baseline_trial()
    others = [trial for trial in state.by_number() if not trial.baseline]
    if not (baseline and others) or any(key.startswith(CURRICULUM) for trial in others for key in trial.chosen):
        return True
    return differences(seedless(others[0].params), seedless(baseline.params))["has_curriculum"]
