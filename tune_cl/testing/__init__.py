"""The contract of each kind of part as pytest tests; ours run the same over built-in parts.

    from tune_cl.testing import contract, load_plugins
    load_plugins(["mine.py"])
    test_mine = contract("scoring", "mine")

pytest then runs a test for each promise. `check("scoring", "mine")` checks them all without pytest's runner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from trainables.core.plugins import load_plugins as load_plugins
from tune_cl.testing.curricula import PACING, SCORING, WEIGHTING
from tune_cl.testing.losses import LOSS, loss_cases
from tune_cl.testing.rankers import RANKER, ranker_case
from tune_cl.testing.readers import READER, reader_case

PROMISES: dict[str, tuple[Callable[[Any], None], ...]] = {
    "scoring": SCORING,
    "pacing": PACING,
    "weighting": (*WEIGHTING, *SCORING),
    "loss": LOSS,
    "ranker": RANKER,
    "reader": READER,
}
CASES: dict[str, Callable[..., Any]] = {"loss": loss_cases, "ranker": ranker_case, "reader": reader_case}
"""What the promises of a kind are checked on; of other kinds the part's name."""


def contract(kind: str, names: str | Iterable[str], **settings: Any) -> Callable[..., None]:
    """A test of registered parts, parametrised by name and promise. `settings`: of a ranker, and `lr`, the rate at
    which it must learn 20 pairs of texts in 80 steps; of a reader `folder`, small data of its form."""

    @pytest.mark.parametrize("promise", PROMISES[kind], ids=lambda promise: promise.__name__)
    @pytest.mark.parametrize("name", [names] if isinstance(names, str) else list(names))
    def test(name: str, promise: Callable[[Any], None]) -> None:
        promise(CASES.get(kind, str)(name, **settings))

    return test


def check(kind: str, name: str, **settings: Any) -> None:
    """Raises AssertionError for the first promise that a registered part does not keep."""
    case = CASES.get(kind, str)(name, **settings)
    for promise in PROMISES[kind]:
        promise(case)
