"""The contract of each kind of part as pytest tests; ours run the same over built-in parts.

    from tune_cl.testing import contract, load_plugins
    load_plugins(["mine.py"])
    test_mine = contract("scoring", "mine")

pytest then runs a test for each promise. `check("scoring", "mine")` checks them all without pytest's runner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from trainables.core.plugins import load_plugins as load_plugins
from tune_cl.testing.curricula import PACING, SCORING, WEIGHTING, unchanged
from tune_cl.testing.losses import LOSS, loss_cases
from tune_cl.testing.rankers import RANKER, ranker_case
from tune_cl.testing.readers import READER, reader_case


class Contract(NamedTuple):
    """What a kind of part promises: functions of a case, and the case of a part by its name and settings."""

    promises: tuple[Callable[[Any], None], ...]
    case: Callable[..., AbstractContextManager[Any]]


CONTRACTS = {
    "scoring": Contract(SCORING, unchanged),
    "pacing": Contract(PACING, unchanged),
    "weighting": Contract((*WEIGHTING, *SCORING), unchanged),
    "loss": Contract(LOSS, loss_cases),
    "ranker": Contract(RANKER, ranker_case),
    "reader": Contract(READER, reader_case),
}


def contract(kind: str, names: str | Iterable[str], **settings: Any) -> Callable[..., None]:
    """A test of registered parts, parametrised by name and promise. `settings`: of a ranker, and `lr`, the rate at
    which it must learn 20 pairs of texts in 80 steps; of a reader `folder`, small data of its form."""
    promises, case = CONTRACTS[kind]

    @pytest.mark.parametrize("promise", promises, ids=lambda promise: promise.__name__)
    @pytest.mark.parametrize("name", [names] if isinstance(names, str) else list(names))
    def test(name: str, promise: Callable[[Any], None]) -> None:
        with case(name, **settings) as made:
            promise(made)

    return test


def check(kind: str, name: str, **settings: Any) -> None:
    """Raises AssertionError for the first promise that a registered part does not keep."""
    promises, case = CONTRACTS[kind]
    with case(name, **settings) as made:
        for promise in promises:
            promise(made)
