"""What a search does not read is said before it begins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment

pytestmark = pytest.mark.usefixtures("every_draw")

SPACE = """
ranker: conv_knrm
curriculum: {scoring: turns, pacing: {choice: [none, root]}}
training: {loss: pairwise}
"""


def of(folder: Path, *overrides: str) -> Experiment:
    (folder / "toy.yaml").write_text(SPACE)
    return load_experiment(str(folder / "toy.yaml"), overrides)


def unread(experiment: Experiment) -> list[str]:
    begin = "without effect on this search: "
    notes = [note for note in experiment.notes if note.startswith(begin)]
    return re.sub(r" \(needs [^)]*\)", "", notes[0].removeprefix(begin)).split(", ") if notes else []


@pytest.mark.parametrize(
    ("key", "value", "beside"),
    [
        ("search.reduction_factor", "4", "search.scheduler=asha"),
        ("search.grace", "2", "search.scheduler=model"),
        ("search.grace", "none", "search.scheduler=model"),
        ("search.first_rung", "2", "search.scheduler=asha"),
        ("search.startup_trials", "3", "search.searcher=tpe"),
        ("search.startup_trials", "3", "search.searcher=gp"),
        ("curriculum.m", "5", "curriculum.weighting=reciprocal_rank"),
        ("curriculum.delta", "0.2", "curriculum.T=0.1"),
        ("training.margin", "3", "training.loss=hinge"),
    ],
)
def test_a_key_is_named_where_nothing_reads_it(key: str, value: str, beside: str, tmp_path: Path) -> None:
    given = f"{key}={value}"
    opened = "training.lr={choice: [0.1, 0.2]}"
    assert unread(of(tmp_path, given, beside, opened)) == []
    none = ["curriculum.pacing=none"] if key == "curriculum.delta" else []
    assert unread(of(tmp_path, given, *none, opened)) == [key]


def test_a_first_rung_gives_way_to_a_number_as_grace(tmp_path: Path) -> None:
    keys = ["search.scheduler=asha", "search.first_rung=2"]
    assert unread(of(tmp_path, *keys)) == []
    assert unread(of(tmp_path, *keys, "search.grace=3")) == ["search.first_rung"]


def test_what_some_trials_read_is_not_named(tmp_path: Path) -> None:
    assert unread(of(tmp_path, "curriculum.scoring=random")) == [], "root reads it, the baseline does not"


@pytest.mark.parametrize(
    ("trials", "startup", "told"), [(16, 8, True), (18, 8, False), (1, 8, False), (3, "auto", False)]
)
def test_a_searcher_that_never_models_the_space_says_so(
    trials: int, startup: int | str, told: bool, tmp_path: Path
) -> None:
    """Half of the trials are curricula."""
    overrides = ["search.searcher=tpe", f"search.trials={trials}", "training.lr={uniform: [0.1, 0.2]}"]
    overrides += [f"search.startup_trials={startup}"]
    expected = (
        "search.searcher: tpe models the space after 8 trials of an arm (search.startup_trials), so all 8 of the "
        "curriculum arm are chosen at random"
    )
    assert (expected in of(tmp_path, *overrides).notes) == told
    assert not any("at random" in note for note in of(tmp_path, *overrides[1:3]).notes), "random is meant to be"
