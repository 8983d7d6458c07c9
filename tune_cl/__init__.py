"""tune_cl: finds the training curriculum that really improves a neural ranker.

A name is imported when it is first used, so `import tune_cl` takes no time. Each name has a line in `HOMES` and one for
type checkers below it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

HOMES = {  # the module that each public name comes from
    "load_plugins": "trainables.core.plugins",
    "loss": "trainables.training.losses",
    "pacing": "trainables.curriculum.pacing",
    "ranker": "trainables.rankers.registration",
    "reader": "trainables.data.readers",
    "scoring": "trainables.curriculum.scoring",
    "weighting": "trainables.curriculum.weighting",
}
if TYPE_CHECKING:
    from trainables.core.plugins import load_plugins as load_plugins
    from trainables.curriculum.pacing import pacing as pacing
    from trainables.curriculum.scoring import scoring as scoring
    from trainables.curriculum.weighting import weighting as weighting
    from trainables.data.readers import reader as reader
    from trainables.rankers.registration import ranker as ranker
    from trainables.training.losses import loss as loss

__all__ = list(HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'tune_cl' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
