"""`tune-cl pace` and `tune-cl weigh`: the values that they show."""

from __future__ import annotations

import pytest

from tests.support.cli_calls import document
from tune_cl.cli import DONE, main

Capture = pytest.CaptureFixture[str]


def shares(capfd: Capture, *options: str) -> dict[float, float]:
    return {row["step"]: row["share"] for row in document(capfd, "pace", *options)}


def weights(capfd: Capture, *options: str) -> dict[int, float]:
    return {row["iteration"]: row["weight"] for row in document(capfd, "weigh", "--difficulty", *options)}


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
def test_pace_shows_the_shares(options: str, expected: dict[float, float], capfd: Capture) -> None:
    assert shares(capfd, *options.split()) == pytest.approx(expected, abs=1e-6)
    assert shares(capfd, "cubic", "--reference", "code", "--at", "1000.1")[1000.1] < 1


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
def test_weigh_shows_the_weights(options: str, expected: dict[int, float], capfd: Capture) -> None:
    assert weights(capfd, *options.split()) == pytest.approx(expected)
    assert max(weights(capfd, "1", "--m", "inf")) == 100


@pytest.mark.parametrize(
    ("steps", "shown"),
    [("1000", list(range(0, 1001, 100))), ("8", list(range(9))), ("3", [0, 1, 2, 3]),
     ("12.5", [0, 1, 3, 4, 5, 6, 8, 9, 10, 12, 13]), ("1", [i / 10 for i in range(11)])],
)  # fmt: skip
def test_the_steps_shown_are_steps_that_a_training_has(steps: str, shown: list[float], capfd: Capture) -> None:
    """Of which there are 1000 by default; with T = 1 they are shares of T."""
    found = shares(capfd, "root", *([] if steps == "1000" else ["--steps", steps]))
    assert list(found) == pytest.approx(shown) and (steps == "1" or all(isinstance(step, int) for step in found))
    assert found[0] == 0.33 and found[shown[-1]] == pytest.approx(1)
    assert found.get(500, 0.744614) == pytest.approx(0.744614, abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "idle"),
    [
        ("linear --n 5 --stages 3", "--n, --stages"),
        ("none --delta 0.1 --n 2", "--n, --delta"),
        ("step --reference code --delta .2", "--delta"),
        ("root --n 5 --delta .2", ""),
        ("linear --reference code", "--reference"),
        ("linear", ""),
    ],
)
def test_options_that_a_pacing_does_not_read_are_told(asked: str, idle: str, capfd: Capture) -> None:
    assert main(["pace", *asked.split()]) == DONE
    told = capfd.readouterr().err
    assert told.startswith("note: ") == bool(idle) and told.rstrip().endswith(f": {idle}" if idle else "")
