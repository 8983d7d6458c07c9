"""The report on how fair early stopping was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.report_cases import SPACE, Case
from tests.support.report_pages import report
from trainables.core.randomness import generator


def test_rungs_are_split_by_pacing(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4] * 8, "baseline")
    random = generator(5, "curves")
    for _ in range(24):
        case.add((0.3 + random.random(8) / 10).tolist(), "completed")
    reader, findings = report(case)
    told = reader.sections["ranking"]
    for pacing in ("linear", "root", "geometric"):
        count = sum(trial.params.get("curriculum.pacing") == pacing for trial, _ in findings.ended)
        assert (f"pacing {pacing}" in told) == (count >= 5)


def test_rungs_are_split_by_what_the_space_opens(tmp_path: Path) -> None:
    pacings = "pacing: {{choice: [linear, root, geometric]}}"
    assert pacings in SPACE
    switches = "objective_switch: {{choice: [mse, pointwise]}}\n  pacing: root"
    case = Case(tmp_path, space=SPACE.replace(pacings, switches))
    case.add([0.4] * 8, "baseline")
    random = generator(5, "curves")
    for _ in range(4):  # with the baseline enough for τ, but not for two values
        case.add((0.3 + random.random(8) / 10).tolist(), "completed")
    assert "No split by objective_switch: no value has 5 trials" in report(case)[0].sections["ranking"]
    for _ in range(20):
        case.add((0.3 + random.random(8) / 10).tolist(), "completed")
    told = report(case)[0].sections["ranking"]
    assert "Split by objective_switch" in told and "pacing root" not in told
    assert "objective_switch mse" in told and "objective_switch pointwise" in told


TREES = """
data: FOLDER
ranker: {{name: lambdamart, leaves: 4, trees_per_iteration: 10, min_data_in_leaf: 1}}
metric: map
curriculum:
  subset: {{choice: [label_extremes, relevant_count]}}
  switch: {{choice: [20, 60]}}
training: {{max_iterations: 8}}
baseline: {{curriculum.subset: none}}
search: {{searcher: random, trials: 16}}
"""
GRACE = "scheduler: asha, reduction_factor: 2, grace: curriculum"


def test_budgets_are_not_the_scheduler(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4] * 8, "baseline")
    for _ in range(3):
        case.add([0.1, 0.1], "stopped_early", "not among the best at iteration 2")
    case.add([0.1], "stopped_early", "search.iterations are used up")
    case.add([0.1], "stopped_early", "did not go on from iteration 1")
    case.finish()
    told = report(case)[0].sections["ranking"]
    assert "stopped 4 of 6 trials early. 1 more ended early because search.iterations are used up." in told


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (GRACE, "would be unfair to slow curricula without this grace"),
        (GRACE.replace("curriculum", "none"), "stopping early is unfair to slow curricula."),
        ("scheduler: none", "stopping early would be unfair to slow curricula."),
    ],
)
def test_what_is_unfair_to_slow_curricula(tmp_path: Path, keys: str, told: str) -> None:
    """Trials with a curriculum begin low; more of them than of the plain ones are in the space's draws."""
    space = SPACE.replace(GRACE, keys).replace("  T: 0.5", "  T: {{choice: [0.2, 0.9]}}")
    case = Case(tmp_path, space=space)
    case.add([0.4] * 8, "baseline")
    for number in range(1, 25):
        choice = case.experiment.space.sample(generator(7, "report trial", number))
        late = choice["curriculum.T"] == 0.9
        case.add(
            [0.1 + number / 1000 if late else 0.2 + number / 1000] * 4 + [0.3 + number / 1000 + 0.1 * late] * 4,
            "completed",
        )
    case.finish()
    said = report(case)[0].sections["ranking"]
    assert told in said and ("would have ended is not known" in said) == ("asha" in keys)


def test_a_report_on_trees_speaks_of_no_batches(tmp_path: Path) -> None:
    lines = "".join(f"{row % 3} qid:{row // 6} 1:{row % 5} 2:{row % 7}\n" for row in range(72))
    (tmp_path / "letor").mkdir()
    for split in ("train", "vali", "test"):
        (tmp_path / "letor" / f"{split}.txt").write_text(lines)
    case = Case(tmp_path, space=TREES.replace("FOLDER", str(tmp_path / "letor")))
    case.add([0.4] * 8, "baseline")
    case.add([0.4] * 8, "completed")
    case.finish()
    page, findings = report(case)
    assert findings.grows_trees
    assert "the trees of each iteration" in page.sections["pacing"] and "length" not in page.sections["pacing"]
    assert "curriculum over (switch)" in page.sections["learning"]
