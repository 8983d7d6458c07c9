"""What docs/reference.py writes stands in the pages, and is true of the code."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from search_spaces import SPACES
from trainables.config.keys import configuration_fields, ranker_fields
from trainables.core.validation import validate_value
from trainables.rankers import RANKERS
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.space.space_files import read_space

FIELDS = [*configuration_fields(()).items(), *SEARCH_KEYS.items()]
FIELDS += [pair for ranker in RANKERS for pair in ranker_fields(ranker).items()]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).resolve().parents[1] / "docs" / "reference.py"))


def test_pages_and_schema_are_what_the_code_says(script: dict[str, Any]) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in script["PAGES"].glob("*.md")}
    stale = [name for name, text in pages.items() if script["written"](text) != text]
    stale += ["schema.json"] * (script["SCHEMA"].read_text(encoding="utf-8") != script["schema"]())
    assert not stale, f"python docs/reference.py writes {stale} again"
    tables = [found[2] for text in pages.values() for found in script["MADE"].finditer(text)]
    assert sorted(tables) == sorted(script["TABLES"])


def test_the_schema_of_spaces(script: dict[str, Any]) -> None:
    validator = Draft202012Validator(json.loads(script["schema"]()))
    right: list[Any] = [*map(read_space, SPACES.values()), {"curriculum": {"m": "inf", "negatives.pacing": "linear"}}]
    right.append({"training": {"lr": [1e-3, 1e-4], "negative_ranks": [1, 5]}, "data": "docstrings", "ranker": "knrm"})
    wrong = [{"training": {"lrr": 1e-3}}, {"training.lr": {"uniform": [1e-4]}}, {"metric": ["map", "mrr"]}]
    assert all(map(validator.is_valid, right)) and not any(map(validator.is_valid, wrong))


def test_every_shipped_space_has_its_question_and_minutes(script: dict[str, Any]) -> None:
    """A space without either would stop the script; a space that is gone would leave its minutes."""
    assert script["MINUTES"].keys() == script["SPACES"].entries.keys()
    page = (script["PAGES"] / "spaces.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in script["MINUTES"]) and page.count("? |") >= len(script["MINUTES"])


def test_every_key_is_described_and_takes_its_default() -> None:
    for key, field in FIELDS:
        default = field.get_default(call_default_factory=True)
        assert field.description or key == "ranker.name", key
        if default is not None and not field.is_required():
            validate_value(key, field, default)
