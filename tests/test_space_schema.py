"""The schema of search spaces takes the shipped spaces, and none of the mistakes in them."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from search_spaces import SPACES
from tune_cl.experiment.space_schema import space_schema
from tune_cl.space.space_files import find_space, read_space


@pytest.fixture
def schema() -> Draft202012Validator:
    document = space_schema()
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def test_the_shipped_spaces_name_the_schema_beside_them_and_fit(schema: Draft202012Validator) -> None:
    for name in SPACES:
        assert find_space(name).read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=schema.json\n")
        assert [error.message for error in schema.iter_errors(read_space(find_space(name))[0])] == [], name


@pytest.mark.parametrize(
    ("space", "fits"),
    [
        ({"training": {"lr": [1e-3, 1e-4], "negative_ranks": [1, 5]}, "data": "docstrings", "ranker": "knrm"}, True),
        (
            {"curriculum.teacher.ranker": "bert", "parameters.depth": {"int": [1, 3]}, "baseline": {"training.lr": 1}},
            True,
        ),
        ({"curriculum": {"m": "inf", "negatives.pacing": "linear"}, "search": {"resources.gpu": 0.5}}, True),
        ({"training": {"lrr": 1e-3}}, False),
        ({"training.lr": {"uniform": [1e-4]}}, False),
        ({"curriculum.pacing": {"choice": ["rooot"]}}, False),
        ({"metric": ["map", "mrr"]}, False),
        ({"training.lr": {"when": {"curriculum.pacing": "root"}}}, False),
    ],
)
def test_a_key_takes_a_value_or_a_range(space: dict[str, Any], fits: bool, schema: Draft202012Validator) -> None:
    assert schema.is_valid(space) == fits
