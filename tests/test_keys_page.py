"""docs/reference/keys.md names every configuration key of the code with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trainables.config.keys import NEEDS, configuration_fields, ranker_fields
from trainables.core.registry import Registry
from trainables.core.validation import expected, validate_value
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES
from tune_cl.experiment.resolution import TEXTS
from tune_cl.experiment.search_keys import SEARCH_KEYS, SEARCH_NEEDS
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "keys.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| (.*?) \|", TEXT, re.MULTILINE)
DEFAULTS = dict(ROWS)
VALUES = dict(re.findall(r"^\| `([^`]+)` \| .*? \| (.*?) \|", TEXT, re.MULTILINE))
NAMES = dict(re.findall(r"^\| (an? [\w ]+) \| ([^|]+) \|", TEXT, re.MULTILINE))
FIELDS = {**configuration_fields(()), **SEARCH_KEYS}


def written(value: Any) -> str:
    """A default as YAML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def test_every_key_stands_on_the_page_once() -> None:
    keys = [key for key, _ in ROWS]
    assert len(keys) == len(set(keys))
    assert set(keys) == {*configuration_fields(RANKERS), *SEARCH_KEYS, *TEXTS, "baseline"}


@pytest.mark.parametrize("key", FIELDS)
def test_the_page_has_the_default(key: str) -> None:
    assert DEFAULTS[key] == written(FIELDS[key].get_default(call_default_factory=True))


def test_every_default_is_a_value_that_its_key_takes() -> None:
    of_rankers = [pair for ranker in RANKERS for pair in ranker_fields(ranker).items()]
    for key, field in [*FIELDS.items(), *of_rankers]:
        default = field.get_default(call_default_factory=True)
        if default is not None and not field.is_required():
            validate_value(key, field, default)


@pytest.mark.parametrize("key", [key for key in FIELDS if "number" in VALUES[key]])
def test_the_page_has_the_range_that_a_wrong_number_is_told(key: str) -> None:
    """But for `inf`, which two keys take as well, and for `one of`."""
    told = expected(FIELDS[key].annotation, FIELDS[key].metadata).removeprefix("one of ")
    assert told.replace(", or ", " or ") == VALUES[key].removesuffix(", or inf").replace(", or ", " or ")


def test_the_page_has_what_each_key_needs_to_have_an_effect() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| .*? \| .*? \| .*? \| (.*?) ?\|$", TEXT, re.MULTILINE)
    assert {key: words for key, words in rows if words} == NEEDS | SEARCH_NEEDS


@pytest.mark.parametrize("ranker", RANKERS)
def test_the_page_has_the_default_of_each_ranker(ranker: str) -> None:
    """Where rankers differ, the page has: VALUE (`ranker`, `ranker`); VALUE (...)."""
    for key, field in ranker_fields(ranker).items():
        if key != "ranker.name":
            parts = DEFAULTS[key].split("; ")
            told = [part for part in parts if f"`{ranker}`" in part] or parts
            assert [part.partition(" (`")[0] for part in told] == [written(field.get_default())], key


@pytest.mark.parametrize(
    ("values", "registry"),
    [
        ("a scoring", SCORINGS),
        ("a pacing", PACINGS),
        ("a weighting", WEIGHTINGS),
        ("a schedule of negatives", SCHEDULES),
        ("a loss", LOSSES),
        ("a ranker", RANKERS),
        ("a searcher", SEARCHERS),
        ("a scheduler", SCHEDULERS),
    ],
)
def test_the_page_has_the_names_to_choose_from(values: str, registry: Registry[Any]) -> None:
    assert set(NAMES[values].split(", ")) == set(registry)
