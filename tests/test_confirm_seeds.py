"""What a confirmation says of new seeds: where the seed changes nothing, and where a race chose by the seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.confirm_cases import LocalCrew, confirm, crew, searched
from tests.letor_data import letor_data, letor_text
from tests.report_cases import whole
from tests.test_confirm_command import document_of, row_of
from tests.test_report import report
from trainables.config import validated
from trainables.data import load_data
from tune_cl.commands.confirm import in_words, of_curriculum
from tune_cl.experiment import load_experiment
from tune_cl.journal import Journal
from tune_cl.place import Place

__all__ = ["crew"]  # fixture
TREES = """
ranker: {name: lambdamart, leaves: 4, min_data_in_leaf: 2, trees_per_iteration: 2, bagging_fraction: %s}
curriculum: {objective_switch: {choice: [none, mse]}, switch: 2}
training: {max_iterations: 2}
baseline: {curriculum.objective_switch: none}
seed: 2
"""
SQUARED = {"curriculum.objective_switch": "mse"}


def trees(folder: Path, bagging: float) -> Place:
    """A search over LambdaMART's first stage that has ended."""
    (folder / "letor").mkdir()
    for split, name in {"train": "train.txt", "dev": "vali.txt", "test": "test.txt"}.items():
        (folder / "letor" / name).write_text(letor_text(letor_data(), split))
    (folder / "trees.yaml").write_text(TREES % bagging)
    experiment = load_experiment(str(folder / "trees.yaml"), data=str(folder / "letor"))
    place = Place(folder / "runs", "toy")
    choices = [experiment.baseline_choice(), SQUARED]
    with Journal(place.folder) as journal:
        for event in searched(experiment, load_data(experiment.base_run().data).digest, place, choices):
            journal.append(event)
    return place


@pytest.mark.parametrize("seeds", [1, 3])
def test_where_the_seed_changes_nothing_p_both_is_p_value_however_often_the_same_is_trained(
    tmp_path: Path, crew: type[LocalCrew], capsys: Any, seeds: int
) -> None:
    document = confirm(trees(tmp_path, 1), seeds=seeds)
    [row] = document["configurations"]
    assert len({run["value"] for run in row["runs"]}) == 1 and len(row["runs"]) == seeds
    assert not row["seed_matters"] and 0 < row["p_value"] < 1
    assert (row["p_both"], row["p_both_adjusted"]) == (row["p_value"], row["p_adjusted"])
    told = capsys.readouterr().err
    assert ("the seed changes nothing in these trainings: --seeds 1 tells as much" in told) == (seeds > 1)
    assert "shows nothing of how much the seed matters" not in told


def test_where_trees_grow_on_samples_the_seed_is_one_of_a_sample(
    tmp_path: Path, crew: type[LocalCrew], capsys: Any
) -> None:
    [row] = confirm(trees(tmp_path, 0.5), seeds=2)["configurations"]
    assert row["seed_matters"] and row["p_both"] > row["p_value"]
    assert "the seed changes nothing" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ranker", "drawn"),
    [("conv_knrm", True), ("lambdamart", False), ({"name": "lambdamart", "feature_fraction": 0.5}, True)],
)
def test_only_trees_on_everything_draw_nothing(ranker: Any, drawn: bool) -> None:
    assert validated({"ranker": ranker}).draws is drawn


def test_no_other_seed_is_spoken_of_where_none_would_show_something_else() -> None:
    row = row_of(0.01, 0.02, p_both=0.02, runs=1, marks="†", seed_matters=False)
    told = in_words(document_of(row))
    assert told.endswith(
        "; Holm over 1 configuration). The seed changes nothing in these trainings, so it holds for any."
    )
    ablation = row_of(0.01, 0.02, p_both=0.02, seed_matters=False, label="plain")
    assert "seeds as a sample" not in of_curriculum(row_of(0.01, 0.02, also_differs=["x"], ablation=ablation), "map")


def test_the_report_says_yes_where_the_seed_changes_nothing(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm(verdict="better", p_both=0.002)
    path = case.place.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    document["configurations"][0]["seed_matters"] = False
    path.write_text(json.dumps(document))
    told = report(case)[0].sections["verdict"]
    assert told.startswith("VerdictYes: a curriculum beats plain training")
    assert "The seed changes nothing in these trainings" in told and "other seeds: p" not in told
