"""The facts of the report: what it tells of the verdict, of configurations and of trials."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.report_cases import HOSTILE, Case, whole
from tests.support.report_pages import tables, text, tips
from tune_cl.confirmation.verdict import ON_DEV
from tune_cl.experiment.forecast import forecast_of
from tune_cl.history.journal import read_events
from tune_cl.report import trials
from tune_cl.report.findings import Findings, gather, mean_interval, rank_agreement, slow_bias, words
from tune_cl.report.formats import latex, latex_table, trials_csv
from tune_cl.report.markup import cut, number, p_value, plain
from tune_cl.report.trials import (
    cost_section,
    learning_section,
    over_seeds,
    pacing_section,
    repeat_section,
    spent_section,
)
from tune_cl.report.verdict_section import rows, tables_section, verdict_section
from tune_cl.tracking.layout import trial_name

ABLATION = {"label": "plain, lr=0.02", "trial_id": "t0003", "mean": 0.5678, "sd": 0.0321, "runs": [{}] * 3,
            "difference": 0.0322, "ci95_new": [0.01, 0.05], "p_adjusted": 0.001, "p_new_adjusted": 0.004,
            "marks": "‡"}  # fmt: skip


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


@pytest.fixture
def document(case: Case) -> dict[str, Any]:
    """The confirmation, for a test to change."""
    return json.loads((case.search_folder.folder / "confirmation" / "test.json").read_text())


def made(folder: Path, *trials: tuple[list[float], str | None], ended: bool = False) -> Findings:
    """A small search: dev values and outcomes, the baseline first."""
    case = Case(folder)
    for dev, outcome in trials:
        case.add(dev, outcome)
    if ended:
        case.finish()
    return gather(case.write())


def told(searched: Findings, document: dict[str, Any]) -> str:
    return text(verdict_section(replace(searched, confirmation=document)))


# -- before a confirmation -----------------------------------------------------------------------------------------


def test_before_a_confirmation_the_best_on_dev_is_named_and_no_verdict(searched: Findings) -> None:
    shown, (trial, at) = text(verdict_section(searched)), searched.ranked[0]
    assert shown.startswith("No verdict yet") and f"{trial.trial} " in shown and f"{at.dev:.4f}" in shown
    assert "was not tuned" in shown and "tune-cl tune-plain toy" in shown
    assert "0.4500" in shown and f"best of {len(searched.ranked)} trials" in shown
    assert f"confirm toy --storage {searched.search_folder.storage}" in shown


@pytest.mark.parametrize("ended", [True, False])
def test_a_baseline_alone_has_nothing_to_confirm(tmp_path: Path, ended: bool) -> None:
    shown = text(verdict_section(made(tmp_path, ([0.3, 0.4], "baseline"), ended=ended)))
    assert "tune-cl confirm" not in shown and ("tune-cl resume toy" in shown) == (not ended)


def test_a_tie_with_plain_training_is_not_above_it(tmp_path: Path) -> None:
    shown = text(verdict_section(made(tmp_path, ([0.5], "baseline"), ([0.5], "completed"))))
    assert "(+0.0000)" in shown and "best of" not in shown


def test_failed_trials_and_values_that_are_no_numbers_do_not_count(tmp_path: Path) -> None:
    found = made(tmp_path, ([0.5], "baseline"), ([0.99], "failed"), ([math.nan, 0.4], "completed"))
    assert [(trial.trial, at.dev, at.iteration) for trial, at in found.ranked] == [("t0002", 0.4, 2)]
    assert "0.9900" not in text(*cost_section(found), *tables_section(found))


def test_before_a_confirmation_ten_trials_stand_beside_the_baseline(searched: Findings) -> None:
    best = [trial.trial for trial, _ in searched.ranked]
    assert [row.label.split()[0] for row in rows(searched)] == ["t0000", *best[:10]]
    assert f"Not shown: {len(best) - 10} more" in text(*tables_section(searched))
    assert rows(searched)[1].difference == pytest.approx(searched.ranked[0][1].dev - 0.45)


def test_without_a_baseline_ten_trials_stand_alone(tmp_path: Path) -> None:
    found = rows(made(tmp_path, ([0.9], "failed"), *(([0.3 + place / 100], "completed") for place in range(11))))
    assert len(found) == 10 and all(row.difference is None for row in found)


def test_trials_are_named_as_on_the_terminal_and_in_mlflow(searched: Findings) -> None:
    for event in (event for event in read_events(searched.search_folder.journal) if event["event"] == "trial"):
        assert words(searched.state.trials[event["trial"]]) == trial_name(event)
    labels = [row.label for row in rows(searched)]
    assert labels[0] == "t0000 plain, default" and "delta=" in labels[1]


def test_trials_are_shown_by_arm_and_tuning_apart_from_the_curriculum(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.45], "baseline")
    leaves = {"training.lr": {"loguniform": [0.001, 0.1]}}
    case.events.append({"event": "tune_plain", "trials": 2, "leaves": leaves, "time": case.time})
    for lr in (0.02, 0.03):
        case.add([0.3 + lr, 0.48 + lr], "completed", lr=lr)
        case.add([0.2 + lr, 0.60 - lr], "completed")
    found = gather(case.write())
    shown = text(verdict_section(found))
    assert (
        "tune-plain" not in shown
        and "(3 trials over lr) gained 0.0600 MAP on dev" in shown
        and "+0.0700" in shown
        and "best of 2" in shown
    )
    assert "t0003 plain lr=0.03" in shown
    assert [row.label.split()[0] for row in rows(found)] == ["t0003", "t0001", "t0000", "t0002", "t0004"]
    assert [row.difference for row in rows(found)] == pytest.approx([None, -0.01, -0.06, 0.07, 0.06])
    assert [trials.role(found, trial) for trial in found.state.by_number()] == [
        "plain", "plain", "best", "baseline", "trial"
    ]  # fmt: skip
    assert all(word in text(*learning_section(found)) for word in ("other plain trials", "best curriculum"))
    assert "best plain trial so far" in text(*cost_section(found))
    assert [row["arm"] for row in csv.DictReader(io.StringIO(trials_csv(found)))] == (
        ["plain", "plain", "curriculum", "plain", "curriculum"]
    )


def test_dev_curves_of_what_was_confirmed_are_means_over_seeds(searched: Findings, document: dict[str, Any]) -> None:
    """Up to the iteration that every seed has reached; without curves, as in earlier versions, none is drawn."""
    assert over_seeds(searched) == [] and over_seeds(replace(searched, confirmation=document)) == []
    rows = [document["baseline"], *document["configurations"]]
    for row in rows:
        for seed, run in enumerate(row["runs"]):
            run["dev_by_iteration"] = [0.1 + seed / 10, 0.3, 0.5][: 2 + seed % 2]
    (shown,) = over_seeds(replace(searched, confirmation=document))
    assert shown.count('class="line baseline"') == 1 and shown.count('class="line best"') == len(rows) - 1


# -- the verdict ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "headline"), [("better", "Better"), ("no difference shown", "Not significant"), ("worse", "Worse")]
)
def test_with_a_confirmation_its_verdict_stands_first(
    searched: Findings, document: dict[str, Any], verdict: str, headline: str
) -> None:
    shown = told(searched, document | {"verdict": verdict})
    assert shown.startswith(f"{headline}+0.1000 MAP") and "confirm toy" not in shown
    assert "95 % CI +0.0050 to +0.2100" in shown and "3 seeds, 12 queries" in shown and "Seeds 1, 2, 3" in shown
    for fact in ("+0.1000", "p = 0.03", "12 queries", "Holm"):
        assert shown.count(fact) == 1, "each once"


def test_what_holds_for_these_seeds_alone_stands_in_the_small_print(
    searched: Findings, document: dict[str, Any]
) -> None:
    shown = told(searched, document | {"verdict": "no difference shown"})
    assert "0.0180 MAP" in shown and "needs 4 seeds" in shown
    assert "alone 'root n=2, turns' is better (p = 0.002)" in shown and "no proof of equality" in shown


@pytest.mark.parametrize(
    ("verdict", "difference", "ablation", "headline"),
    [
        ("better", 0.1, None, "Better than"),
        ("worse", -0.1, None, "Worse than"),
        ("better", 0.1, {"difference": 0.07, "p_new_adjusted": 0.01}, "Better"),
        ("better", 0.1, {"difference": 0.07, "p_new_adjusted": 0.05}, "Better"),
        ("better", 0.1, {"difference": 0.02, "p_new_adjusted": 0.3}, "Better than"),
        ("better", 0.1, {"difference": -0.02, "p_new_adjusted": 0.01}, "Better than"),
        ("worse", -0.1, {"difference": -0.2, "p_new_adjusted": 0.01}, "Worse"),
    ],
)
def test_yes_is_said_of_a_curriculum_only_where_other_keys_cannot_be_the_reason(
    searched: Findings, document: dict[str, Any], verdict: str, difference: float, ablation: Any, headline: str
) -> None:
    row = document["configurations"][0]
    row |= {"also_differs": ["training.lr"], "difference": difference, "marks": "‡" if difference > 0 else ""}
    document["configurations"] = [row]
    if ablation:
        row["ablation"] = ABLATION | ablation
    shown = told(searched, document | {"verdict": verdict, "these_seeds": verdict})
    assert (
        shown.startswith(headline if " " in headline else f"{headline}{difference:+.4f}") and "training.lr too" in shown
    )
    assert (f"{ablation['difference']:+.4f}" in shown) if ablation else ("--ablate" in shown)


def test_what_is_no_other_curriculum_is_said_to_be_none(searched: Findings, document: dict[str, Any]) -> None:
    document["configurations"][0] |= {"also_differs": ["training.lr"], "has_curriculum": False}
    assert "differs is training.lr." in (shown := told(searched, document)) and "no other curriculum" in shown


def test_a_search_over_other_keys_alone_speaks_of_no_curriculum(tmp_path: Path) -> None:
    case = whole(tmp_path, others=2)
    for event in case.events:
        if event["event"] == "trial":
            event["chosen"] = {"training.lr": 0.001 * (1 + event["number"])}
            event["params"] = {"curriculum.pacing": "none", "ranker.name": "conv_knrm", **event["chosen"]}
            event["chosen"] |= {"curriculum.pacing": "none"} if event["baseline"] else {}
    case.confirm()
    found = gather(case.write())
    assert found.confirmation is not None
    for row in found.confirmation["configurations"]:
        row |= {"also_differs": ["training.lr"], "has_curriculum": False}
    for shown in (told(found, found.confirmation), text(verdict_section(replace(found, confirmation=None)))):
        assert "curricul" not in shown
    assert told(found, found.confirmation).startswith("Better+")


def test_where_the_seed_changes_nothing_new_trainings_are_not_spoken_of(
    searched: Findings, document: dict[str, Any]
) -> None:
    document["configurations"][0] |= {"seed_matters": False, "p_new_adjusted": 0.002}
    shown = told(searched, document)
    assert shown.startswith("Better+") and "new trainings" not in shown and "seed changes nothing" in shown


def test_what_an_earlier_version_found_speaks_of_its_seeds(tmp_path: Path) -> None:
    """Its verdict and marks took the seeds as given; it is asked for again without what is gone."""
    case = Case(tmp_path)
    case.confirm(asked={"top": 2, "seeds": 3, "race": True, "ablate": True})
    path = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(path.read_text())
    for key in ("these_seeds", "detectable", "seeds_needed"):
        del document[key]
    for row in document["configurations"]:
        for key in ("p_new", "p_new_adjusted", "ci95_new"):
            del row[key]
    path.write_text(json.dumps(document))
    found = gather(case.write())
    shown = text(verdict_section(found))
    assert shown.startswith("Not significant+") and "alone 'root n=2, turns' is better" in shown
    assert [row.marks for row in rows(found)] == ["", "", ""]
    assert "confirm again " in (again := text(*repeat_section(found)))
    assert "--top 2 --seeds 3 --split test --correction holm --ablate" in again


def test_a_report_gives_no_verdict_on_dev_and_prefers_that_on_test(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.confirm(split="dev", p_new=0.001)
    folder = case.search_folder.folder / "confirmation"
    on_dev = (folder / "test.json").rename(folder / "dev.json")
    shown = verdict_section(found := gather(case.write()))
    assert text(shown).startswith("No verdict: ") and ON_DEV[1:] in text(shown) and "verdict better" not in shown
    case.confirm(p_new=0.001)
    os.utime(folder / "test.json", (1000, 1000))
    os.utime(on_dev, (2000, 2000))
    shown = verdict_section(gather(found.search_folder))
    assert text(shown).startswith("Better+") and "verdict better" in shown


# -- tables of a confirmation --------------------------------------------------------------------------------------


def test_confirmed_configurations_have_their_trial_ids_and_marks(searched: Findings, document: dict[str, Any]) -> None:
    shown = "".join(tables_section(replace(searched, confirmation=document)))
    assert [row[:3] for row in tables(shown)[0][1:3]] == [
        ["t0000 baseline", "0.5000 (0.0123)", "–"], ["t0001 root n=2, turns", "0.6000‡ (0.0123)", "+0.1000"],
    ]  # fmt: skip
    assert "<b>0.6000</b>" in shown and shown.count("<b>") == 1 and len(tables(shown)) == 1
    assert "t0001" not in told(searched, document), "sentences go by the label"
    verdict = verdict_section(replace(searched, confirmation=document))
    assert verdict.count('class="dot seed"') == 9, "three configurations of three seeds"


def test_what_needs_no_labels_stands_above_the_baseline(searched: Findings, document: dict[str, Any]) -> None:
    label_free = {"first_stage": {"label": "BM25", "mean": 0.7}, "label_free": {"label": "BM25", "mean": 0.7}}
    found = replace(searched, confirmation=document | label_free)
    shown = "".join(tables_section(found))
    assert [row[:2] for row in tables(shown)[0][1:3]] == [["BM25", "0.7000"], ["t0000 baseline", "0.5000 (0.0123)"]]
    assert "<b>0.7000</b>" in shown and "BM25 alone has 0.7000" in told(searched, document | label_free)
    assert "BM25 & " in latex_table(found) and "over 3 seeds" in text(shown)
    on_dev = replace(searched, state=replace(searched.state, label_free=label_free))
    assert tables("".join(tables_section(on_dev)))[0][1][:2] == ["BM25", "0.7000"]


def test_ablations_stand_beside_their_configurations_with_their_own_differences(
    searched: Findings, document: dict[str, Any]
) -> None:
    document["configurations"][0] |= {"ablation": ABLATION, "also_differs": ["training.lr"]}
    found = replace(searched, confirmation=document)
    first, second = tables("".join(tables_section(found)))
    assert "0.5678" not in str(first)
    assert second[1:] == [["t0001 root n=2, turns", "t0003 plain, lr=0.02", "0.5678 (0.0321)", "+0.0322‡",
                           "[+0.0100, +0.0500]", "0.004"]]  # fmt: skip
    line = r"root n=2, turns & plain, lr=0.02 & 0.5678 (0.0321) & $+0.0322$\textsuperscript{\ddag{}} & $0.004$ \\"
    assert line in latex_table(found).splitlines() and latex_table(found).count(r"\begin{tabular}") == 2


@pytest.mark.parametrize(("correction", "column", "head"), [("none", "p", "$p$"), ("holm", "p adjusted", "(adjusted)")])
def test_p_values_that_were_not_corrected_are_not_called_adjusted(
    searched: Findings, document: dict[str, Any], correction: str, column: str, head: str
) -> None:
    found = replace(searched, confirmation=document | {"correction": correction})
    assert tables("".join(tables_section(found)))[0][0][-1] == column
    assert head in latex_table(found) and ("no correction" in text(verdict_section(found))) == (correction == "none")


def test_looks_and_who_got_no_more_seeds_are_shown(searched: Findings, document: dict[str, Any]) -> None:
    look = {"label": "root n=2, turns", "difference": 0.1, "p_new": 0.0004, "boundary": 0.0011, "decision": "better"}
    document |= {"looks": [look | {"seeds": 3}], "dropped": [{"label": "linear, turns", "seeds": [1, 2, 3]}]}
    found = replace(searched, confirmation=document)
    assert tables("".join(tables_section(found)))[1][1] == [
        "3", "root n=2, turns", "+0.1000", "< 0.001", "0.0011", "better",
    ]  # fmt: skip
    assert "after 1, 2, 3" in text(verdict_section(found))


# -- trials --------------------------------------------------------------------------------------------------------


def test_curves_mark_the_end_of_each_curriculum_and_early_stops(searched: Findings) -> None:
    shown = tips("".join(learning_section(searched)))
    past = {trial.trial for trial, _ in searched.ranked if trial.iterations >= 4}
    assert {tip.split()[0] for tip in shown if tip.endswith("over at iteration 4")} == past
    stopped = {trial.trial for trial, _ in searched.ranked if trial.outcome == "stopped_early"}
    assert stopped and {tip.split()[0] for tip in shown if tip.endswith(": stopped early")} == stopped
    assert HOSTILE in text(*learning_section(searched)), "why a trial failed"


def test_of_many_trials_only_the_best_are_drawn(searched: Findings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {trials.role(searched, trial) for trial in trials.drawn(searched)} == {"baseline", "best", "failed", "trial"}
    monkeypatch.setattr(trials, "MOST_LINES", 10)
    drawn = [trial.trial for trial in trials.drawn(searched)]
    assert drawn == ["t0000", *(trial.trial for trial, _ in searched.ranked[:10])]
    assert f"{len(searched.state.trials) - 11} of {len(searched.state.trials)}" in text(*pacing_section(searched))


def test_cost_counts_the_iterations_of_all_trials_until_each_best(tmp_path: Path) -> None:
    found = made(tmp_path, ([0.5, 0.5], "baseline"), ([0.3, 0.4], "completed"), ([0.35, 0.6], "completed"))
    rises = [tip for tip in tips("".join(cost_section(found))) if " by " in tip][:3]
    assert [tip.split(" by ")[0] for tip in rises] == ["0.3000", "0.4000", "0.6000"]
    assert [tip.split("after ")[1].split(" it")[0] for tip in rises] == ["3", "4", "6"]


def test_cost_stands_beside_its_forecast(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5, 0.5], "baseline")
    case.add([0.3, 0.4, 0.35], "completed")
    forecast = forecast_of(case.experiment)
    assert tables("".join(spent_section(gather(case.write()))))[0][1:4] == [
        ["trials", "16", "2"],
        ["iterations, expected", str(forecast["iterations_expected"]), "5"],
        ["iterations, at most", str(forecast["iterations_at_most"]), "5"],
    ]


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
    found = gather(case.write())
    assert found.grows_trees and "Batches" not in text(*pacing_section(found))
    assert "(switch)" in text(*learning_section(found))


@pytest.mark.parametrize(("name", "new"), [("toy", "again"), ("again", "once-more")])
def test_how_to_do_it_again_takes_a_name_that_is_free(name: str, new: str, tmp_path: Path) -> None:
    case = Case(tmp_path, name)
    shown = "".join(repeat_section(gather(case.write())))
    assert f"tune-cl run search.yaml --name {new} " in shown and f"confirm {new} " in shown
    assert f"(digest {case.events[0]['data']['digest'][:16]})" in shown


# -- other formats -------------------------------------------------------------------------------------------------


def test_latex_is_the_papers_table(searched: Findings, document: dict[str, Any]) -> None:
    table = latex_table(replace(searched, confirmation=document))
    assert r"\toprule" in table and "& map (test) &" in table and "seeds 1, 2, 3\n" in table
    [row] = [line for line in table.splitlines() if line.startswith("root")]
    assert row == r"root n=2, turns & \textbf{0.6000}\textsuperscript{\ddag{}} (0.0123) & $+0.1000$ & $0.030$ \\"
    assert r"\& " in table and {line.count(" & ") for line in table.splitlines() if line.endswith(r"\\")} == {3}
    before = latex_table(searched)
    assert "& map (dev) &" in before and r"\dag" not in before and before.count(r"\textbf") == 1


def test_latex_escapes_what_it_would_read() -> None:
    assert latex("a_b 50% {x} #1 $2 ~^\\") == (
        r"a\_b 50\% \{x\} \#1 \$2 \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_csv_has_a_row_a_trial_and_leaves_absent_parameters_empty(searched: Findings) -> None:
    found = list(csv.DictReader(io.StringIO(trials_csv(searched))))
    assert list(found[0])[:9] == [
        "trial", "arm", "outcome", "reason", "seed", "baseline", "iterations", "best_dev", "best_iteration",
    ]  # fmt: skip
    assert list(found[0].values())[:9] == ["t0000", "plain", "baseline", "", "0", "true", "8", "0.45", "3"]
    assert found[0]["curriculum.pacing"] == "none" and found[0]["curriculum.delta"] == ""
    assert len(found) == len(searched.state.trials)
    assert [row["outcome"] for row in found[-3:]] == ["failed", "completed", "running"]
    assert all((row["curriculum.n"] != "") == (row["curriculum.pacing"] == "root") for row in found)
    params = searched.state.trials[found[1]["trial"]].params
    assert float(found[1]["curriculum.delta"]) == params["curriculum.delta"], "to the last digit"


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
