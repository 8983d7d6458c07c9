"""The report on how fair early stopping was, and on the Pareto set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.report_cases import SPACE, Case
from tests.support.report_pages import report
from trainables.core.randomness import generator
from tune_cl.report.findings import gather
from tune_cl.report.queries import _early_and_final, audited
from tune_cl.search.analysis import Priced, priced


def stopped_and_audited(folder: Path, late: float) -> Case:
    """Six trials let through, five audited whose values rise by `late` after iteration 2, three only stopped."""
    case = Case(folder)
    case.add([0.4] * 8, "baseline")
    for number in range(6):
        level = 0.5 + number / 100
        case.add([level - 0.1, level - 0.05, level - 0.04, *[level] * 5], "completed")
    for number in range(5):
        level = 0.2 + number / 100
        case.add([level, level, *[level + late] * 6], "completed", audit=2)
    for _ in range(3):
        case.add([0.1, 0.1], "stopped_early", "not among the best at iteration 2")
    case.finish()
    return case


def test_audited_trials_tell_what_the_stops_would_have_cost(tmp_path: Path) -> None:
    reader, findings = report(stopped_and_audited(tmp_path, late=0.5))
    told = reader.sections["ranking"]
    assert len(audited(findings)) == 5
    assert "stopped 3 of 15 trials early. It would have stopped 5 more" in told
    assert "Of the 5 audited trials 5 ended above the best trial that was let through (0.5500)" in told
    assert "Stopping would have lost 0.1900 map" in told


def test_an_audit_that_found_nothing_says_so(tmp_path: Path) -> None:
    reader, _ = report(stopped_and_audited(tmp_path, late=0.01))
    assert "Stopping lost nothing among them: the best of them ended at 0.2500" in reader.sections["ranking"]


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
    assert "search.audit: N finishes up to N of them" in told


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


def test_the_pareto_set_is_drawn_and_listed(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4, 0.3, 0.3], "baseline")
    case.add([0.3, 0.5, 0.4], "completed")
    case.add([0.3, 0.3, 0.45], "completed")
    reader, _ = report(case)
    told = reader.sections["tradeoff"]
    assert "t0000" in told and "t0001" in told and "t0002" not in told
    assert any("t0002" in tip and "0.4500 after 3 iterations, 3.0 s" in tip for tip in reader.tips)


def test_a_trial_that_failed_is_not_in_the_pareto_set(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4], "baseline")
    case.add([0.9], "failed", "it broke")
    assert [trial.trial_id for trial in priced(gather(case.write()).state)] == ["t0000"]


def test_what_a_trial_took_counts_from_its_first_training_on(tmp_path: Path) -> None:
    """Its dev values begin after iteration 1, with another trial's weights; its cost counts from the start."""
    case = Case(tmp_path)
    case.add([0.6, 0.5, 0.4], "baseline")
    state = gather(case.write()).state
    state.trials["t0000"].offset = 1
    assert priced(state) == [Priced("t0000", 0.5, 2, 2.0)]


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


def scaled(folder: Path) -> Case:
    """Twelve trials that start anew after rungs 1, 2 and 4, where each is as good as in the end; within the whole
    training the best ones begin worst."""
    case = Case(folder, space=SPACE.replace("grace: curriculum", "grace: scaled"))
    case.add([0.4] * 8, "baseline")
    for number in range(1, 13):
        level, trial = 0.3 + number / 100, case.add([0.3 + number / 100])
        begun = next(event for event in case.events if event["event"] == "trial" and event["trial"] == trial)
        iteration = 1
        for dev in ([level - 0.02, level], [level - 0.05] * 3 + [level], [0.2 - number / 100] * 4 + [level] * 4):
            case._tell("pause", trial, iteration=iteration, reason="waits")
            case.events.append(begun | {"anew": True})
            for value in dev:
                iteration += 1
                metrics = {"dev_map": value, "train_loss": 1.0, "available_share": 1.0, "seconds": 1.0}
                case._tell("result", trial, iteration=iteration, metrics=metrics)
        case._tell("end", trial, outcome="completed", reason=None, audit=None, artifacts=None, best=None)
    case.finish()
    return case


def test_under_grace_scaled_the_trainings_planned_for_a_rung_are_ranked(tmp_path: Path) -> None:
    case = scaled(tmp_path)
    reader, findings = report(case)
    for rung in findings.experiment.rungs:
        early, final, _ = _early_and_final(findings, findings.ended, rung)
        assert len(early) == 12 and early.tolist() == final.tolist()
    assert "search.audit" not in reader.sections["ranking"]


def test_budgets_are_not_the_scheduler(tmp_path: Path) -> None:
    case = stopped_and_audited(tmp_path, late=0.5)
    case.events.pop()
    case.add([0.1], "stopped_early", "search.iterations are used up")
    case.add([0.1], "stopped_early", "did not go on from iteration 1")
    case.finish()
    told = report(case)[0].sections["ranking"]
    assert "stopped 4 of 17 trials early. 1 more ended early because search.iterations are used up." in told


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
    assert told in said and ("search.audit: N" in said) == ("asha" in keys)


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
