"""Readers give what they gave when tests/goldens was written (`benchmarks/goldens.py`), to the last digit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.goldens import OPTIONS, compare, flat, forms, read

STORED = json.loads((Path(__file__).parent / "goldens" / "readers.json").read_text())["facts"]
RETRIEVED = {"trec/nfcorpus", "cacm by bm25", "cacm in bigrams", "form pairs without negatives"}  # by Lucene: slow
FORMS = {name for name in STORED if name.startswith("form ")} - RETRIEVED


def is_as_stored(name: str, found: object) -> None:
    assert dict(flat(json.loads(json.dumps(found)), name)) == dict(flat(STORED[name], name))


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_form_of_data_is_read_as_stored(tmp_path: Path, name: str) -> None:
    is_as_stored(name, read(forms(tmp_path)[name]))


@pytest.mark.parametrize("name", sorted(STORED.keys() - RETRIEVED - FORMS))
def test_a_data_set_is_read_as_stored(shared: Path, name: str) -> None:
    folder, keys = OPTIONS.get(name, (name, {}))
    is_as_stored(name, read(shared / folder, **keys))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RETRIEVED))
def test_retrieved_candidates_are_as_stored(tmp_path: Path, shared: Path, name: str) -> None:
    folder, keys = OPTIONS.get(name, (name, {}))
    is_as_stored(name, read(forms(tmp_path).get(name, shared / folder), **keys))


@pytest.mark.parametrize(
    ("now", "same"),
    [
        ({"a": [1, 0.3], "b": None}, True),
        ({"a": [1.0, 0.3], "b": float("nan"), "new": 5}, True),
        ({"a": [1, 0.1 + 0.2], "b": None}, False),
        ({"a": [1], "b": None}, False),
        ({"a": {"failed": "DataError"}, "b": None}, False),
    ],
)
def test_a_last_digit_counts_and_what_is_new_does_not(now: dict[str, object], same: bool) -> None:
    assert compare("part", {"a": [1, 0.3], "b": None}, now) == same
