"""`tune-cl pace` and `tune-cl weigh`: values, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from search_spaces import SPACES
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.weighting import WEIGHTINGS
from tune_cl.cli import BAD_INPUT, DONE, main
from tune_cl.experiment.load import load_experiment
from tune_cl.space.parameters import LogUniform


def document(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == DONE
    return json.loads(capfd.readouterr().out)


def errors(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(list(arguments)) == BAD_INPUT
    return capfd.readouterr().err.splitlines()


def test_pace_takes_stages_and_reference(capfd: pytest.CaptureFixture[str]) -> None:
    rows = document(capfd, "pace", "step", "--stages", "4", "--delta", ".1", "--steps", "100", "--at", "0", "30", "99")
    assert rows == [{"step": 0, "share": 0.1}, {"step": 30, "share": 0.5}, {"step": 99, "share": 1.0}]
    end = ("--at", "1000", "1000.1")
    assert [row["share"] for row in document(capfd, "pace", "cubic", *end)] == pytest.approx([0.998126, 1], abs=1e-6)
    code = [row["share"] for row in document(capfd, "pace", "cubic", "--reference", "code", *end)]
    assert code[0] == pytest.approx(0.998126, abs=1e-6) and code[1] < 1


def test_all_problems_are_reported_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--delta", "0", "--n", ".5", "--stages", "1", "--steps", "0"]
    lines = errors(capfd, "pace", "step", *options)
    assert [line.split(": ")[1] for line in lines] == ["--delta", "--n", "--stages", "--steps"]


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize("option", ["--n", "--steps", "--at"])
def test_a_pacing_reads_finite_numbers(option: str, number: str, capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = errors(capfd, "pace", "root", option, number)
    assert line.startswith(f"error: {option}: {number} ")


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
def test_options_that_a_pacing_does_not_read_are_told(asked: str, idle: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["pace", *asked.split()]) == DONE
    pacing = asked.split()[0]
    assert capfd.readouterr().err == (f"note: without effect on pacing {pacing}: {idle}\n" if idle else "")


@pytest.mark.parametrize(
    ("steps", "shown"),
    [("8", list(range(9))), ("3", [0, 1, 2, 3]), ("12.5", [0, 1, 3, 4, 5, 6, 8, 9, 10, 12, 13]),
     ("1", [i / 10 for i in range(11)])],
)  # fmt: skip
def test_the_steps_shown_are_steps_that_a_training_has(
    steps: str, shown: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    """With T = 1 they are shares of T."""
    found = [row["step"] for row in document(capfd, "pace", "step", "--steps", steps)]
    assert found == pytest.approx(shown) and (found[-1] == 1 or all(isinstance(step, int) for step in found))


def test_everything_is_in_the_space_of_everything() -> None:
    space = load_experiment("everything").space
    for key, registry in (("scoring", SCORINGS), ("pacing", PACINGS), ("weighting", WEIGHTINGS)):
        assert set(space.leaves[f"curriculum.{key}"].values() or ()) == set(registry) - {"file"}, "which needs a file"
    opened = {key.removeprefix("curriculum.") for key in space.leaves}
    assert opened >= {"m", "delta", "T", "n", "stages", "objective_switch", "switch_at"}
    assert set(space.leaves["curriculum.negatives.schedule"].values() or ()) == set(SCHEDULES) - {"groups"}


def test_a_search_of_everything_forecasts_curves_and_tries_the_papers_first() -> None:
    """The scheduler is the one that docs/dev/decisions.md recommends for a search over curricula."""
    experiment = load_experiment("everything")
    assert (experiment.search.scheduler, experiment.search.searcher, len(experiment.search.points)) == (
        "model",
        "tpe",
        3,
    )
    assert experiment.space.leaves["training.lr"] == LogUniform(low=5e-6, high=1e-4)


def test_a_search_of_everything_waits_for_the_objective_to_switch() -> None:
    choice = {"curriculum.pacing": "none", "curriculum.weighting": "none", "curriculum.objective_switch": "mse"}
    assert load_experiment("everything").grace({**choice, "curriculum.switch_at": 0.5}) == 30
    assert "everything" in SPACES


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ranker": "knrm"}, "knrm has 0.01"),
        ({"overrides": ["ranker.name={choice: [knrm, bert, conv_knrm]}"]}, "knrm has 0.01, conv_knrm has 0.001"),
        ({"ranker": "bert"}, None),
        ({"ranker": "knrm", "overrides": ["training.lr=0.005"]}, None),
        ({"ranker": "knrm", "overrides": ["training.lr={loguniform: [5e-6, 1e-4]}"]}, None),
    ],
)
def test_learning_rates_of_another_ranker_than_the_space_is_for_are_told(
    options: dict[str, Any], told: str | None
) -> None:
    """The baseline has the middle of the range, with which a small network hardly learns."""
    notes = [note for note in load_experiment("everything", **options).notes if note.startswith("training.lr")]
    range_ = "training.lr keeps the space's range, 5e-06 to 0.0001, which is for bert"
    assert notes == ([f"{range_}; by default {told}"] if told else [])


def test_what_is_shown_where_nothing_else_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    """Eleven steps from 0 to T = 1000 of root 2, δ .33 (.7446 in the middle), and eleven iterations from 0 to 20."""
    shares = {row["step"]: row["share"] for row in document(capfd, "pace", "root")}
    assert list(shares) == list(range(0, 1001, 100))
    assert [shares[step] for step in (0, 500, 1000)] == pytest.approx([0.33, 0.744614, 1], abs=1e-6)
    weights = {row["iteration"]: row["weight"] for row in document(capfd, "weigh", "--difficulty", "0")}
    assert weights == pytest.approx({i: i / 20 for i in range(0, 21, 2)})
    assert [row["iteration"] for row in document(capfd, "weigh", "--difficulty", "1", "--m", "inf")][-1] == 100
    assert [row["iteration"] for row in document(capfd, "weigh", "--difficulty", "1", "--m", "2.5")] == [0, 1, 2, 3]


def test_the_ends_of_what_is_possible_are_possible(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--n", "1", "--delta", "1", "--stages", "100", "--at", "0", "0.5"]
    assert document(capfd, "pace", "root", *options) == [{"step": 0, "share": 1.0}, {"step": 0.5, "share": 1.0}]
    assert document(capfd, "weigh", "--difficulty", "0", "--m", "1", "--at", "0") == [{"iteration": 0, "weight": 0.0}]
    lines = errors(capfd, "weigh", "--difficulty", "1.01", "--m", ".99", "--at", "-1")
    assert [line.split(": ")[1] for line in lines] == ["--difficulty", "--m", "--at"]
    assert errors(capfd, "pace", "step", "--stages", "101")[0].endswith("101 stages are not possible; 2 to 100")


def test_steps_may_be_asked_for_one_by_one(capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["pace", "linear", "--steps", "10"], ["weigh", "--difficulty", ".5"]):
        together = document(capfd, *command, "--at", "1", "2")
        assert document(capfd, *command, "--at", "1", "--at", "2") == together and len(together) == 2
