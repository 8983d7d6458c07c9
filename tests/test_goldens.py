"""What readers gave when tests/goldens was written (`benchmarks/goldens.py`), to the last character."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks.goldens import read, written
from trainables.data import load_data
from trainables.loops import instances

pytestmark = pytest.mark.slow

READ = json.loads((Path(__file__).parent / "goldens" / "readers.json").read_text())
FORMS = [name for name in READ if name.startswith("form ")]


@pytest.mark.parametrize("name", sorted(set(READ) - {*FORMS, "docstrings"}))
def test_a_data_set_is_read_as_before(shared: Path, name: str) -> None:
    assert read(shared / name) == READ[name]["read"]


def test_every_form_of_data_is_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "load_data", cache(load_data))  # of which a form's facts are asked one by one
    assert {name: read(folder) for name, folder in written(tmp_path).items()} == {
        name: READ[name]["read"] for name in FORMS
    }
