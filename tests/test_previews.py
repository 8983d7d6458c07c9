"""`tune-cl pace` and `tune-cl weigh`: the values that they show."""

from __future__ import annotations

from xml.dom import minidom

import pytest

from tests.support.builders import tiny_data
from tests.support.console import Console
from tests.support.trec_folder import write_trec_folder


def shares(console: Console, options: str) -> dict[float, float]:
    return {row["step"]: row["share"] for row in console.document(f"pace {options}")}


def weights(console: Console, options: str) -> dict[int, float]:
    return {row["iteration"]: row["weight"] for row in console.document(f"weigh --difficulty {options}")}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("root --n 2 --delta .33 --steps 1000 --at 0 125 1000", {0: 0.33, 125: 0.469348, 1000: 1}),
        ("step --stages 4 --delta .1 --steps 100 --at 0 30 99", {0: 0.1, 30: 0.5, 99: 1}),
        ("root --n 1 --delta 1 --stages 100 --at 0 0.5", {0: 1, 0.5: 1}),  # the ends of what is possible
        ("cubic --at 1000 --at 1000.1", {1000: 0.998126, 1000.1: 1}),
        ("cubic --reference code --at 1000", {1000: 0.998126}),
    ],
)
def test_pace_shows_the_shares(options: str, expected: dict[float, float], console: Console) -> None:
    assert shares(console, options) == pytest.approx(expected, abs=1e-6)
    assert shares(console, "cubic --reference code --at 1000.1")[1000.1] < 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (".25 --m 20 --at 0 10 20", {0: 0.25, 10: 0.625, 20: 1}),
        (".25 --m inf --at 99 --anti", {99: 0.75}),
        ("0 --m 1 --at 0", {0: 0}),
        (".5 --at 1 --at 2", {1: 0.525, 2: 0.55}),
        ("0", {i: i / 20 for i in range(0, 21, 2)}),  # eleven iterations from 0 to 20
        ("1 --m 2.5", {0: 1, 1: 1, 2: 1, 3: 1}),
    ],
)
def test_weigh_shows_the_weights(options: str, expected: dict[int, float], console: Console) -> None:
    assert weights(console, options) == pytest.approx(expected)
    assert max(weights(console, "1 --m inf")) == 100


@pytest.mark.parametrize(
    ("steps", "shown"),
    [("", list(range(0, 1001, 100))), ("--steps 8", list(range(9))), ("--steps 3", [0, 1, 2, 3]),
     ("--steps 12.5", [0, 1, 3, 4, 5, 6, 8, 9, 10, 12, 13]), ("--steps 1", [i / 10 for i in range(11)])],
)  # fmt: skip
def test_the_steps_shown_are_steps_that_a_training_has(steps: str, shown: list[float], console: Console) -> None:
    """Of which there are 1000 by default; with T = 1 they are shares of T."""
    found = shares(console, f"root {steps}")
    assert list(found) == pytest.approx(shown) and (shown[-1] == 1 or all(isinstance(step, int) for step in found))
    assert found[0] == 0.33 and found[shown[-1]] == pytest.approx(1)
    assert found.get(500, 0.744614) == pytest.approx(0.744614, abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "idle"),
    [
        ("linear --n 5 --stages 3", "--n, --stages"), ("none --delta 0.1 --n 2", "--n, --delta"),
        ("step --reference code --delta .2", "--delta"), ("root --n 5 --delta .2", ""),
        ("linear --reference code", "--reference"), ("linear", ""),
    ],
)  # fmt: skip
def test_options_that_a_pacing_does_not_read_are_told(asked: str, idle: str, console: Console) -> None:
    assert [note.rpartition(": ")[2] for note in console.notes(f"pace {asked}")] == [idle] * bool(idle)


def test_weigh_shows_the_values_of_a_query_and_draws_them(console: Console) -> None:
    data = tiny_data(queries={"train": 3, "dev": 2, "test": 2}, candidates=5, turns=1)
    folder, query = write_trec_folder(data, console.folder / "data"), data.query_ids[1]
    found = console.document(f"weigh {folder} {query} --output w.svg")
    assert [row["rank"] for row in found["documents"]] == [1, 2, 3, 4, 5]
    assert [row["reciprocal_rank"] for row in found["documents"]] == pytest.approx([1 / rank for rank in range(1, 6)])
    assert all(0 < row["kde"] < 1 for row in found["documents"]) and found["query"] == data.query_text(1)
    picture = minidom.parse(str(console.folder / "w.svg"))
    rings = sum((row["grade"] or 0) > 0 for row in found["documents"])
    assert len(picture.getElementsByTagName("circle")) == 3 * rings > 0
    assert len(picture.getElementsByTagName("path")) == 3
    assert "kde" in console.call(f"weigh {folder} {query}").out
    [error] = console.errors(f"weigh {folder} nobody")
    assert "QUERY: no query 'nobody' in train" in error
    assert console.errors(f"weigh {folder}") == console.errors("weigh") != []
    letor = console.folder / "letor"
    letor.mkdir()
    (letor / "train.txt").write_text("1 qid:a 1:0.5\n0 qid:a 1:0.1\n1 qid:b 1:0.5\n0 qid:b 1:0.2\n")
    [error] = console.errors(f"weigh {letor} a")
    assert "no first-stage ranking" in error
