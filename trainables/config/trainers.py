"""Training functions that a plug-in registers by name: `ranker: NAME` in a space trains by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trainables.config.function import Objective, objective_of
from trainables.core.errors import ConfigError
from trainables.core.registry import Part, Registry

TRAINERS: Registry[Objective] = Registry("ranker.name", open_to_plugins=True)


def trainer(name: str, summary: str = "", source: str = "") -> Callable[[Part], Part]:
    """Registers a training function `(config, trial)` (docs/how-to/own-trainer.md) as a ranker.

    A space that says `ranker: NAME` trains by it; its own keys are `parameters.*`. `tune-cl run --objective
    FILE.py:FUNCTION` is the short form, without a name.
    """

    def value(function: Any) -> Objective:
        try:
            return objective_of(function)
        except ConfigError as error:
            raise ValueError("; ".join(f"{one.wrong}; {one.right}" for one in error.problems)) from None

    return TRAINERS.decorator(name, summary, source, value)


def trainer_of(configuration: Mapping[str, Any]) -> Objective | None:
    """The function that a configuration's `ranker` names, as written: a name, a mapping or a dotted key."""
    ranker = configuration.get("ranker.name", configuration.get("ranker"))
    name = ranker.get("name") if isinstance(ranker, Mapping) else ranker
    return TRAINERS[name] if isinstance(name, str) and name in TRAINERS else None
