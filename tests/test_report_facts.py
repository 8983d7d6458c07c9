"""The facts of the report: what it tells of the verdict, of configurations and of trials. Whole ones, as a page and in
LaTeX, are goldens (tests/support/story_cases.py)."""

from __future__ import annotations

import csv
import io
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape

from tests.support.report_cases import HOSTILE, Case, whole
from tune_cl.confirmation.verdict import VerdictFacts, last_verdict
from tune_cl.history.journal import read_events
from tune_cl.report import facts as module
from tune_cl.report.charts import learning_chart
from tune_cl.report.document import MainFacts, ReportFacts, TwinRow
from tune_cl.report.facts import main_facts, report_facts
from tune_cl.report.findings import Findings, gather, mean_interval
from tune_cl.report.output import latex, latex_table, trials_csv
from tune_cl.report.page import page
from tune_cl.report.stopping import rank_agreement, slow_bias
from tune_cl.report.story import of_verdict, on_dev
from tune_cl.report.wording import cut, number, p_value, plain
from tune_cl.results import LabelFree
from tune_cl.tracking.layout import trial_name

BM25 = LabelFree(label="BM25", mean=0.7)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A search with all that there may be, and a confirmation of it."""
    made = whole(tmp_path_factory.mktemp("whole"))
    made.confirm()
    made.write()
    return made


@pytest.fixture(scope="module")
def searched(case: Case) -> Findings:
    """Before the confirmation."""
    return replace(gather(case.search_folder), confirmation=None)


@pytest.fixture(scope="module")
def before(searched: Findings) -> ReportFacts:
    return report_facts(searched)


@pytest.fixture
def verdict(case: Case) -> VerdictFacts:
    found = last_verdict(case.search_folder.folder, "test")
    assert found
    return found


def made(folder: Path, *trials: tuple[list[float], str | None], ended: bool = False) -> ReportFacts:
    """A small search: dev values and outcomes, the baseline first."""
    case = Case(folder)
    for dev, outcome in trials:
        case.add(dev, outcome)
    if ended:
        case.finish()
    return report_facts(gather(case.write()))


def after(searched: Findings, verdict: VerdictFacts) -> MainFacts:
    """The facts once confirmed; a page can be drawn from them."""
    found = main_facts(replace(searched, confirmation=verdict))
    assert found.verdict.badge in page(replace(report_facts(searched), **vars(found)))
    return found


# -- before a confirmation -----------------------------------------------------------------------------------------


def test_before_a_confirmation_the_best_on_dev_is_named_and_no_verdict(searched: Findings, before: ReportFacts) -> None:
    assert before.verdict is None and searched.result and before.on_dev == on_dev(searched.result)
    [confirm] = (step.do.partition("tune-cl ")[2].split() for step in before.next)
    storage = ["--storage", str(searched.search_folder.storage)]
    assert confirm == ["confirm", "toy", *storage]


@pytest.mark.parametrize("ended", [True, False])
def test_a_baseline_alone_has_nothing_to_confirm(tmp_path: Path, ended: bool) -> None:
    steps = [step.do for step in made(tmp_path, ([0.3, 0.4], "baseline"), ended=ended).next]
    assert not steps if ended else ["resume toy" in step for step in steps] == [True]


def test_failed_trials_and_values_that_are_no_numbers_do_not_count(tmp_path: Path) -> None:
    found = made(tmp_path, ([0.5], "baseline"), ([0.99], "failed"), ([math.nan, 0.4], "completed"))
    assert [(row.trial_id, row.mean) for row in found.configurations] == [("t0000", 0.5), ("t0002", 0.4)]


def test_without_a_baseline_ten_trials_stand_alone(tmp_path: Path) -> None:
    trials = [([0.9], "failed"), *(([0.3 + place / 100], "completed") for place in range(11))]
    rows = made(tmp_path, *trials).configurations
    assert len(rows) == 10 and all(row.difference is None for row in rows)


def test_trials_are_named_as_on_the_terminal_and_in_mlflow(searched: Findings, before: ReportFacts) -> None:
    names = {curve.trial: curve.name for curve in before.curves}
    for event in (event for event in read_events(searched.search_folder.journal) if event["event"] == "trial"):
        assert names.get(event["trial"], trial_name(event)) == trial_name(event)


def test_a_curriculum_stands_beside_its_twin(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4, 0.5], "baseline")
    curriculum, failed = case.add([0.45, 0.52], "completed"), case.add([0.3], "completed")
    case.add([0.1], "failed", "no memory", lr=0.02)
    begun = {event["trial"]: event for event in case.events if event["event"] == "trial"}
    begun[curriculum] |= {"twin": "t0000", "led_by": "curriculum"}
    begun["t0003"] |= {"twins": [failed], "led_by": "plain"}
    findings = gather(case.write())
    shown = report_facts(findings)
    twins = {row.trial_id: row.twin for row in shown.configurations}
    assert twins["t0000"] is None and twins[curriculum] == TwinRow("t0000", 0.5, pytest.approx(0.02), None)
    assert twins[failed] == TwinRow("t0003", None, None, "failed")
    assert {curve.trial: curve.twin for curve in shown.curves}[failed] == "t0003"
    assert 'data-twin="t0003"' in learning_chart(shown)
    assert f"t0003, the twin of {failed}, failed." in main_facts(findings).on_dev


def test_trials_are_shown_by_arm_and_tuning_apart_from_the_curriculum(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.45], "baseline")
    for lr in (0.02, 0.03):
        case.add([0.3 + lr, 0.48 + lr], "completed", lr=lr)
        case.add([0.2 + lr, 0.60 - lr], "completed")
    findings = gather(case.write())
    found = report_facts(findings)
    assert len(found.on_dev) == 2 and ["confirm" in step.do for step in found.next] == [True]
    rows = found.configurations
    assert [row.trial_id for row in rows] == ["t0003", "t0001", "t0000", "t0002", "t0004"]
    assert [row.difference for row in rows] == pytest.approx([None, -0.01, -0.06, 0.07, 0.06])
    roles = {curve.trial: curve.role for curve in found.curves}
    assert [roles[f"t000{number}"] for number in range(5)] == ["plain", "plain", "best", "baseline", "trial"]
    assert found.plain_is_tuned and page(found)
    arms = [row["arm"] for row in csv.DictReader(io.StringIO(trials_csv(findings)))]
    assert arms == ["plain", "plain", "curriculum", "plain", "curriculum"]


def test_dev_curves_of_what_was_confirmed_are_means_over_seeds(searched: Findings, verdict: VerdictFacts) -> None:
    """Up to the iteration that every seed has reached."""
    assert after(searched, verdict).verdict.curves == []

    def with_curves(row: Any) -> Any:
        runs = [
            replace(run, dev_by_iteration=(0.1 + seed / 10, 0.3, 0.5)[: 2 + seed % 2])
            for seed, run in enumerate(row.runs)
        ]
        return replace(row, runs=tuple(runs))

    rows = [replace(row, opponents=tuple(map(with_curves, row.opponents))) for row in verdict.configurations]
    found = replace(verdict, configurations=tuple(map(with_curves, rows)))
    curves = after(searched, found).verdict.curves
    assert [curve.role for curve in curves] == ["baseline", "best", "best"]
    assert all(curve.dev == pytest.approx({1: 0.2, 2: 0.3}) for curve in curves)


# -- the verdict ---------------------------------------------------------------------------------------------------


def test_the_page_tells_the_parts_of_the_verdict_each_once(searched: Findings, verdict: VerdictFacts) -> None:
    drawn = page(replace(report_facts(searched), **vars(after(searched, verdict))))
    for part in of_verdict(verdict):
        assert f">{escape(part.title)}<" in drawn
        assert [text for text in part.sentences if drawn.count(f">{escape(text)}<") != 1] == []
    assert "confirm toy" not in drawn.partition("<nav>")[0] and drawn.count('class="dot seed"') == 9


def test_a_report_gives_no_verdict_on_dev_and_prefers_that_on_test(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.confirm(split="dev", p_new=0.001)
    folder = case.search_folder.folder / "confirmation"
    on_dev = (folder / "test.json").rename(folder / "dev.json")
    found = main_facts(gather(search_folder := case.write())).verdict
    assert (found.split, found.colour) == ("dev", "")
    case.confirm(p_new=0.001)
    os.utime(folder / "test.json", (1000, 1000))
    os.utime(on_dev, (2000, 2000))
    found = main_facts(gather(search_folder)).verdict
    assert (found.split, found.colour) == ("test", "better")


# -- tables of a confirmation --------------------------------------------------------------------------------------


def test_what_needs_no_labels_stands_above_the_baseline(searched: Findings, verdict: VerdictFacts) -> None:
    label_free = {"first_stage": {"label": "BM25", "mean": 0.7}, "label_free": {"label": "BM25", "mean": 0.7}}
    found = after(
        searched,
        replace(verdict, first_stage=BM25, label_free=BM25),
    )
    assert [(row.name, row.trial_id) for row in found.configurations[:1]] == [("BM25", None)]
    assert found.configurations[0].best and "BM25 & " in latex_table(found)
    on_dev = main_facts(replace(searched, state=replace(searched.state, label_free=label_free)))
    first, second, *_ = on_dev.configurations
    assert (first.name, first.mean, first.best, second.trial_id) == ("BM25", 0.7, False, "t0000")


# -- trials --------------------------------------------------------------------------------------------------------


def test_curves_mark_the_end_of_each_curriculum_and_early_stops(searched: Findings, before: ReportFacts) -> None:
    drawn, curves = learning_chart(before), before.curves
    past = [curve for curve in curves if curve.curriculum_over in curve.dev]
    assert {curve.trial for curve in past} == {trial.trial for trial, _ in searched.ranked if trial.iterations >= 4}
    stopped = [curve for curve in curves if curve.outcome == "stopped_early"]
    assert stopped and drawn.count(": stopped early") == len(stopped)
    assert HOSTILE in before.failures[0].reason


def test_of_many_trials_only_the_best_are_drawn(
    searched: Findings, before: ReportFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {curve.role for curve in before.curves} == {"baseline", "best", "failed", "trial"}
    monkeypatch.setattr(module, "MOST_LINES", 10)
    found = report_facts(searched)
    best = [trial.trial for trial, _ in searched.ranked[:10]]
    assert [curve.trial for curve in found.curves] == ["t0000", *best]


TREES = """
data: FOLDER
ranker: {{name: lambdamart, leaves: 4, trees_per_iteration: 10, min_data_in_leaf: 1}}
curriculum: {{subset: {{choice: [label_extremes, relevant_count]}}, switch: {{choice: [20, 60]}}}}
training: {{max_iterations: 8}}
baseline: {{curriculum.subset: none}}
search: {{searcher: random, trials: 16}}
"""


def test_a_report_on_trees_speaks_of_no_batches(tmp_path: Path) -> None:
    lines = "".join(f"{row % 3} qid:{row // 6} 1:{row % 5} 2:{row % 7}\n" for row in range(72))
    (tmp_path / "letor").mkdir()
    for split in ("train", "vali", "test"):
        (tmp_path / "letor" / f"{split}.txt").write_text(lines)
    case = Case(tmp_path, space=TREES.replace("FOLDER", str(tmp_path / "letor")))
    for outcome in ("baseline", "completed"):
        case.add([0.4] * 8, outcome)
    found = report_facts(gather(case.write()))
    assert found.reads_features and [row.trees for row in found.trees] == [20, 30, 50, 60, 80]
    assert "Batches" not in page(found) and "(switch)" in page(found)


@pytest.mark.parametrize(("name", "new"), [("toy", "again"), ("again", "once-more")])
def test_how_to_do_it_again_takes_a_name_that_is_free(name: str, new: str, tmp_path: Path) -> None:
    case = Case(tmp_path, name)
    again = report_facts(gather(case.write())).again
    run, confirm, _ = again.commands
    assert f"tune-cl run search.yaml --name {new} " in run and f"confirm {new} " in confirm
    assert f"(digest {case.events[0]['data']['digest'][:16]})" in again.with_["data"]


# -- other formats -------------------------------------------------------------------------------------------------


def test_latex_escapes_what_it_would_read() -> None:
    assert latex("a_b 50% {x} #1 $2 ~^\\") == (
        r"a\_b 50\% \{x\} \#1 \$2 \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_csv_has_a_row_a_trial_and_leaves_absent_parameters_empty(searched: Findings) -> None:
    found = list(csv.DictReader(io.StringIO(trials_csv(searched))))
    assert list(found[0])[:11] == [
        "trial", "arm", "twin", "led_by", "outcome", "reason", "seed", "baseline", "iterations", "best_dev",
        "best_iteration",
    ]  # fmt: skip
    assert list(found[0].values())[:11] == ["t0000", "plain", "", "", "baseline", "", "0", "true", "8", "0.45", "3"]
    assert found[0]["curriculum.pacing"] == "none" and found[0]["curriculum.delta"] == ""
    assert len(found) == len(searched.state.trials)
    assert [row["outcome"] for row in found[-3:]] == ["failed", "completed", "running"]
    assert all((row["curriculum.n"] != "") == (row["curriculum.pacing"] == "root") for row in found)
    params = searched.state.trials[found[1]["trial"]].params
    assert float(found[1]["curriculum.delta"]) == params["curriculum.delta"], "to the last digit"


def test_texts_of_others_command_neither_a_spreadsheet_nor_a_terminal(searched: Findings) -> None:
    texts = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "-0.5", "+1e-05", "-inf", "a\x1b[31m"]
    trial = replace(searched.state.trials["t0000"], params=dict(zip("abcdefghi", texts, strict=True)))
    findings = replace(searched, state=replace(searched.state, trials={"t0000": trial}))
    [row] = csv.DictReader(io.StringIO(trials_csv(findings)))
    cells = ["'=1+1", "'+1+1", "'-1+1", "'@SUM(A1)", "'\t=1", "-0.5", "+1e-05", "-inf", r"a\u001b[31m"]
    assert [row[key] for key in "abcdefghi"] == cells
    assert latex("a\x1b[31m") == r"a\textbackslash{}u001b[31m"
    drawn = page(replace(report_facts(searched), search="a\x1b[31m"))
    assert r"a\u001b[31m" in drawn and "\x1b" not in drawn


# -- numbers -------------------------------------------------------------------------------------------------------


def test_numbers_for_reading() -> None:
    assert [number(value) for value in (0.12345, math.nan, None)] == ["0.1235", "–", "–"]
    assert [p_value(p) for p in (0.0009, 0.001, 0.0123, 1.0, None)] == ["< 0.001", "0.001", "0.012", "1.000", "–"]
    assert [plain(value) for value in (0.000123456, 3, True, None, "x")] == ["0.0001235", "3", "true", "null", "x"]
    assert [cut("four", 4), cut("fives", 4)] == ["four", "fiv…"]


def test_intervals_are_students() -> None:
    found = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert (found.mean, found.low, found.high) == pytest.approx((2, 2 - 2.4841, 2 + 2.4841), abs=1e-3)
    assert math.isnan(mean_interval(np.array([1.0])).low)
    assert mean_interval(np.array([1.0, 3.0])).high == pytest.approx(2 + 12.7062, abs=1e-3), "two are enough"


def test_the_interval_of_tau_is_that_of_fieller_hartley_and_pearson() -> None:
    """The variance of atanh τ is .437 / (n - 4); a perfect order counts as if half a pair were exchanged."""
    final = np.arange(12.0)
    tau, half = 1 - 2 * 5 / 66, 1.96 * math.sqrt(0.437 / 8)
    found = rank_agreement(final[[1, 0, 2, 3, 5, 4, 6, 7, 8, 11, 10, 9]], final)
    ends = math.tanh(math.atanh(tau) - half), math.tanh(math.atanh(tau) + half)
    assert found and (found.tau, found.low, found.high) == pytest.approx((tau, *ends))
    same, turned = rank_agreement(final, final), rank_agreement(final, -final)
    assert same and (same.tau, same.high) == pytest.approx((1, 1))
    assert same.low == pytest.approx(math.tanh(math.atanh(1 - 1 / 66) - half))
    assert turned and (turned.tau, turned.low) == pytest.approx((-1, -1))
    assert rank_agreement(final[:4], final[:4]) is None and rank_agreement(np.ones(9), np.arange(9.0)) is None


def test_an_early_look_that_wrongs_slow_curricula_is_seen() -> None:
    final, past = np.arange(10.0), np.array([1.0] * 5 + [8.0] * 5)
    found = slow_bias(np.where(past > 1, final - 5.5, final + 5), final, past)
    assert found and found.ranks == pytest.approx(10) and found.p < 0.05
    fair = slow_bias(final, final, past)
    assert fair and fair.ranks == 0 and fair.p > 0.05


@pytest.mark.parametrize(
    ("past", "slow"), [([1, 1, 1, 4, 4, 4, 4, 8, 8, 8], 3), ([1, 1, 1, 8, 8, 8], 3), ([1, 1, 8, 8], None)]
)
def test_slow_are_those_above_the_median_and_three_a_side_are_needed(past: list[int], slow: int | None) -> None:
    final = np.arange(len(past), dtype=float)
    found = slow_bias(final, final, np.array(past, float))
    assert (found and found.slow) == slow and (not found or found.fast == len(past) - found.slow)
