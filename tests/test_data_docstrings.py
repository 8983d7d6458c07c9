"""The built-in data: what it takes from sources, and what it promises about contexts and candidates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.data_folders import assert_equal
from trainables.core.randomness import generator
from trainables.data import docstrings as module
from trainables.data.columns import RankingData
from trainables.data.docstrings import (
    CANDIDATES,
    MOST_TURNS,
    Docstring,
    make_data,
    read_folder,
    split_by_module,
    without_shared_parts,
)
from trainables.data.settings import Bm25Config
from trainables.data.words import normalised
from tune_cl.testing.readers import check_data

BM25 = Bm25Config(k1=0.9, b=0.4)
SOURCE = '''"""A module about words.

It has two parts here.
"""

class Thing:
    """A thing to hold.

    Parameters
    ----------
    size : int
        How large it is.

    >>> Thing(3)

    .. versionadded:: 1.0

    ok

    Notes on things follow here.
    """

    def method(self):
        """Does a few things."""
        def inner():
            """Hidden inside a method."""

raise RuntimeError("never run")
'''


def made_up(modules: int = 60, strings: int = 5, parts: int = 7) -> list[Docstring]:
    """Documentation strings over a small vocabulary, with one text that all of them share."""
    rng = generator(1, "made-up docstrings")
    vocabulary = [f"word{i}" for i in range(300)]
    return [
        Docstring("numpy", f"numpy.m{m}", f"numpy.m{m}.f{s}", (*texts, "the same in all of them"))
        for m in range(modules)
        for s in range(strings)
        for texts in [[" ".join(rng.choice(vocabulary, 8)) for _ in range(parts)]]
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> RankingData:
    monkeypatch.setattr(module, "FOLD", 50)
    monkeypatch.setattr(module, "MOST_CONTEXTS", {"test": 40, "dev": 20})
    return make_data(made_up(), BM25)


def test_parts_are_prose_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "words.py").write_text(SOURCE)
    (tmp_path / "tests" / "words.py").write_text(SOURCE)
    found = {each.name: each.parts for each in read_folder("package", tmp_path)}
    assert found == {
        "package.words": ("A module about words.", "It has two parts here."),
        "package.words.Thing": (
            "A thing to hold.",
            "Parameters size : int How large it is.",
            "Notes on things follow here.",
        ),
        "package.words.Thing.method": ("Does a few things.",),
        "package.words.Thing.method.inner": ("Hidden inside a method.",),
    }


def test_modules_and_texts_are_in_one_split_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FOLD", 50)
    splits = without_shared_parts(split_by_module(made_up()))
    assert {name: len(each) for name, each in splits.items()} == {"train": 200, "dev": 50, "test": 50}
    for held in ("module", "parts"):
        values = [
            {str(part) for each in mine for part in np.atleast_1d(getattr(each, held))} for mine in splits.values()
        ]
        assert len(set.union(*values)) == sum(map(len, values)), held
    assert all("the same in all of them" not in each.parts for mine in splits.values() for each in mine)


def test_names_and_parts_that_come_twice_stand_once() -> None:
    first, last = (Docstring("numpy", "numpy.m", "numpy.m.f", (word, "b c d", "e f g")) for word in ("first", "last"))
    assert [each for mine in split_by_module([first, last]).values() for each in mine] == [last]
    string = Docstring("numpy", "m", "m.f", ("One of them.", "and two here", "one of them", "three of them"))
    [kept] = without_shared_parts({"train": [string], "dev": [], "test": []})["train"]
    assert kept.parts == ("One of them.", "and two here", "three of them")


def test_the_right_response_is_the_next_part(small: RankingData) -> None:
    parts = {each.name: list(each.parts) for each in made_up()}
    assert [len(split) for split in small.splits.values()] == [200, 20, 40]
    turns = set()
    for split in small.splits.values():
        for place, query in enumerate(split.query):
            own, utterances = parts[small.query_ids[query]], small.query_utterances(query)
            rows = slice(split.offsets[place], split.offsets[place + 1])
            texts, grades = [small.documents[i] for i in split.document[rows]], split.grade[rows].tolist()
            assert utterances == own[: len(utterances)]
            assert sum(grades) == 1
            assert texts[grades.index(1)] == own[len(utterances)]
            assert len({normalised(text) for text in texts}) == len(texts) == CANDIDATES
            assert len(set(texts) & set(own)) == 1
            turns.add(len(utterances))
    assert turns == set(range(1, MOST_TURNS + 1))


def test_candidates_are_ranked_and_shared_by_no_splits(small: RankingData) -> None:
    check_data(small)
    assert small.splits["test"].score.max() > 0
    held = [set(split.document.tolist()) for split in small.splits.values()]
    assert len(set.union(*held)) == sum(map(len, held))


def test_queries_of_one_module_are_near_duplicates(small: RankingData) -> None:
    modules = [name.rpartition(".")[0] for name in small.query_ids]
    assert small.group is not None and len(set(small.group.tolist())) == len(set(modules)) < len(modules)
    assert len(set(zip(small.group.tolist(), modules, strict=True))) == len(set(modules))


def test_the_same_strings_give_the_same_data(small: RankingData) -> None:
    assert_equal(make_data(made_up(), BM25), small)
