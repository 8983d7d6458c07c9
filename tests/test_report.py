"""The report: every section, whatever the search went through; one file that loads nothing and keeps text as text."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.report_cases import HOSTILE, Case, whole
from tests.support.report_pages import Reader, report
from tests.support.tracking_cases import fresh_database
from tune_cl.cli import main
from tune_cl.history.journal import Journal, read_events
from tune_cl.report import trials as curves
from tune_cl.report.charts import Scale, path, scale
from tune_cl.report.findings import gather, mean_interval, rank_agreement, slow_bias
from tune_cl.report.formats import latex_table, trials_csv
from tune_cl.report.output import tracked
from tune_cl.report.page import SCRIPT, STYLE, TITLES, page


def test_every_section_is_there_and_the_verdict_is_first(tmp_path: Path) -> None:
    found, _ = report(whole(tmp_path))
    assert list(found.sections) == list(TITLES)
    assert all(len(text) > 80 for text in found.sections.values())
    assert found.tags.count("svg") == 6  # curves, 2 costs, length, pacing, differences


def test_the_page_loads_nothing_and_runs_only_its_own_script(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    found, findings = report(case)
    assert found.loads == [] and len(found.scripts) == 1
    assert not [word for word in ("http", "url(", "@import", "fetch") if word in STYLE + SCRIPT]
    assert "default-src 'none'" in page(findings)[:500] and len(page(findings).encode()) < 100_000


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    found, _ = report(case)
    assert HOSTILE in found.sections["configurations"], "a label"
    assert HOSTILE in found.sections["learning"], "the reason of a failure"
    assert found.sections["queries"].count(HOSTILE) >= 10, "queries and documents"
    assert "alert" not in "".join(found.scripts) and "img" not in found.tags


def test_before_a_confirmation_the_page_says_that_there_is_no_verdict(tmp_path: Path) -> None:
    case = whole(tmp_path)
    found, findings = report(case)
    verdict = found.sections["verdict"]
    trial, at = findings.ranked[0]
    assert "No verdict yet" in verdict and "looks better than it is" in verdict
    assert f"{trial.trial} " in verdict and f"{at.dev:.4f}" in verdict and "0.4500" in verdict
    assert f"confirm toy --storage {case.search_folder.storage}" in verdict
    assert "queries of dev" in found.sections["groups"]


@pytest.mark.parametrize("ended", [True, False])
def test_a_baseline_alone_is_enough(tmp_path: Path, ended: bool) -> None:
    case = Case(tmp_path)
    case.add([0.3, 0.4], "baseline")
    if ended:
        case.finish()
    found, _ = report(case)
    verdict = found.sections["verdict"]
    assert "No trial besides the baseline has given a dev value" in verdict
    assert "tune-cl confirm" not in verdict, "would find nothing to confirm"
    assert ("tune-cl resume toy" in verdict) == (not ended)
    for name in ("groups", "queries"):
        assert found.sections[name].endswith("No trial besides the baseline has given a dev value.")
    assert "Too few trials ran to the end (1)" in found.sections["ranking"]


def test_one_trial_beside_the_baseline_is_reported(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5, 0.6], "baseline")
    case.add([0.3, 0.4], "completed")
    found, _ = report(case)
    assert "No trial was above the baseline" in found.sections["verdict"]


@pytest.mark.parametrize("outcome", ["failed", "completed"])
def test_a_search_without_any_value_is_reported(tmp_path: Path, outcome: str) -> None:
    case = Case(tmp_path)
    case.add([math.nan], "baseline")
    case.add([math.nan], outcome, "it broke")
    found, _ = report(case)
    assert "No trial has given a dev value yet" in found.sections["configurations"]


def test_a_search_that_has_just_begun_is_reported(tmp_path: Path) -> None:
    found, _ = report(Case(tmp_path))
    assert list(found.sections) == list(TITLES)


def test_failed_trials_and_values_that_are_no_numbers_do_not_count(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.add([0.99], "failed", "it broke")
    findings = gather(case.write())
    assert max(at.dev for _, at in findings.ranked) < 0.99
    assert all(not math.isnan(at.dev) for _, at in findings.ranked)
    assert "0.9900" not in Reader(page(findings)).sections["progress"]


def test_curves_mark_the_end_of_each_curriculum_and_early_stops(tmp_path: Path) -> None:
    found, findings = report(whole(tmp_path))
    past = {trial.trial for trial, _ in findings.ranked if trial.iterations >= 4}
    assert {tip.split()[0] for tip in found.tips if "curriculum over at iteration 4" in tip} == past
    stopped = {trial.trial for trial, _ in findings.ranked if trial.outcome == "stopped_early"}
    assert stopped and {tip.split()[0] for tip in found.tips if tip.endswith(": stopped early")} == stopped


def test_cost_counts_the_iterations_of_all_trials_until_each_best(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5, 0.5], "baseline")
    case.add([0.3, 0.4], "completed")
    case.add([0.35, 0.6], "completed")
    found, _ = report(case)
    rises = [tip for tip in found.tips if "of the search" in tip][:3]
    assert [tip.split(" by ")[0] for tip in rises] == ["0.3000", "0.4000", "0.6000"]
    assert [tip.split("after ")[1].split(" it")[0] for tip in rises] == ["3", "4", "6"]


def test_queries_that_changed_most_are_shown_with_their_texts(tmp_path: Path) -> None:
    found, findings = report(whole(tmp_path))
    text = found.sections["queries"]
    assert "Gained most" in text and "Lost most" in text and "the right one" in text
    assert text.index("Gained most") < text.index("Lost most")
    assert text.count("Query ") == 10 or text.count("dev-") >= 6
    assert findings.ranked[0][0].trial in text


def test_without_the_data_the_rest_is_still_reported(tmp_path: Path) -> None:
    case = whole(tmp_path)
    (tmp_path / "data" / "collection.tsv").write_text("r\tanother\nw\ttext\n")
    found, _ = report(case)
    assert "has changed since the search" in found.sections["groups"]
    assert list(found.sections) == list(TITLES)


def test_of_many_trials_only_the_best_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MOST_LINES", 10)
    found, findings = report(whole(tmp_path, others=30))
    learning = [tip for tip in found.tips if tip.startswith("t0") and ": best 0." in tip]
    drawn = {tip.split()[0] for tip in learning}
    assert drawn == {"t0000"} | {trial.trial for trial, _ in findings.ranked[:10]}
    assert "Not drawn: 23 of 34 trials" in found.sections["learning"]


# -- other formats -----------------------------------------------------------------------------------------------


def test_latex_is_the_papers_table(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    text = latex_table(gather(case.write()))
    assert r"\toprule" in text and r"\bottomrule" in text
    [row] = [line for line in text.splitlines() if line.startswith("root")]
    assert row == r"root n=2, turns & \textbf{0.6000}\textsuperscript{\ddag{}} (0.0123) & $+0.1000$ & $0.030$ \\"
    hostile = next(line for line in text.splitlines() if "alert" in line)
    assert r"\& " in hostile and hostile.count(" & ") == 3
    assert {line.count(" & ") for line in text.splitlines() if line.endswith(r"\\")} == {3}


def test_the_page_has_the_highest_mean_in_bold(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    assert "<b>0.6000</b><sup>‡</sup> (0.0123)" in page(gather(case.write()))


def test_latex_before_a_confirmation_has_no_marks(tmp_path: Path) -> None:
    text = latex_table(gather(whole(tmp_path).write()))
    assert "not confirmed" in text and r"\dag" not in text and text.count(r"\textbf") == 1


def test_csv_has_a_row_a_trial_and_leaves_absent_parameters_empty(tmp_path: Path) -> None:
    findings = gather(whole(tmp_path).write())
    rows = list(csv.DictReader(io.StringIO(trials_csv(findings))))
    assert len(rows) == len(findings.state.trials)
    assert [row["outcome"] for row in rows[-3:]] == ["failed", "completed", "running"]
    assert (
        rows[0]["curriculum.pacing"] == "none" and rows[0]["curriculum.delta"] == "" and rows[0]["best_dev"] == "0.45"
    )
    for row in rows:
        assert (row["curriculum.n"] != "") == (row["curriculum.pacing"] == "root")
    best = max(
        (row for row in rows if row["best_dev"] and row["outcome"] != "failed"), key=lambda r: float(r["best_dev"])
    )
    assert float(best["best_dev"]) >= findings.ranked[0][1].dev


# -- the command -------------------------------------------------------------------------------------------------


def test_an_unknown_search_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Case(tmp_path).write()
    assert main(["report", "tyo", "--storage", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: NAME: no search 'tyo'") and "toy" in error
    assert not list((tmp_path / "runs").glob("**/report.*"))


def test_a_format_has_its_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tune_cl.report.output.tracked", lambda search_folder, output, text: None)
    search_folder = whole(tmp_path, others=2).write()
    for form, name in (("html", "report.html"), ("latex", "report.tex"), ("csv", "report.csv")):
        assert main(["report", "toy", "--storage", str(search_folder.storage), "--format", form]) == 0
        assert (
            capfd.readouterr().out == f"report  {search_folder.folder / name}\n"
            and (search_folder.folder / name).is_file()
        )


def test_a_folder_as_output_is_bad_usage(tmp_path: Path) -> None:
    search_folder = Case(tmp_path).write()
    assert main(["report", "toy", "--storage", str(search_folder.storage), "--output", str(tmp_path)]) == 2


def test_a_damaged_confirmation_is_told_by_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path)
    case.confirm()
    search_folder = case.write()
    (search_folder.folder / "confirmation" / "test.json").write_text("{}")
    assert main(["report", "toy", "--storage", str(search_folder.storage)]) == 2
    assert "confirmation/test.json: lacks baseline" in capsys.readouterr().err


def test_the_command_writes_the_file_and_mlflow_gets_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from mlflow.tracking import MlflowClient

    search_folder = whole(tmp_path, others=2).write()
    fresh_database(search_folder.storage)
    assert main(["report", "toy", "--storage", str(search_folder.storage), "--json"]) == 0
    output = json.loads(capfd.readouterr().out)["output"]
    assert output == str(search_folder.folder / "report.html") and Path(output).read_text().startswith(
        "<!doctype html>"
    )
    client = MlflowClient(tracking_uri=f"sqlite:///{search_folder.storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("toy")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`tune_cl.kind` = 'search'")
    assert "report.html" in [file.path for file in client.list_artifacts(runs[0].info.run_id)]


def test_a_running_search_is_reported_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search_folder = whole(tmp_path, others=2).write()
    before = list(read_events(search_folder.journal))
    with Journal(search_folder.folder):
        assert main(["report", "toy", "--storage", str(search_folder.storage), "--format", "csv"]) == 0
    assert "not logged to MLflow: search 'toy' is in use" in capsys.readouterr().err
    assert (search_folder.folder / "report.csv").exists() and len(list(read_events(search_folder.journal))) == len(
        before
    )


def test_tracking_that_cannot_be_reached_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tune_cl.report.output.TRACKING_SECONDS", 0.1)
    search_folder = replace(Case(tmp_path).write(), tracking_uri="http://user:secret@127.0.0.1:9")
    tracked(search_folder, search_folder.journal, "")
    told = capsys.readouterr().err
    assert "have not reached MLflow" in told and "resume toy" in told and "secret" not in told


# -- numbers -----------------------------------------------------------------------------------------------------


def test_rank_agreement_has_an_interval_that_holds_it() -> None:
    final = np.arange(12.0)
    same, turned = rank_agreement(final, final), rank_agreement(final, -final)
    assert same and (same.tau, same.high) == pytest.approx((1, 1)) and 0.7 < same.low < 1
    assert turned and (turned.tau, turned.low) == pytest.approx((-1, -1))
    swapped = rank_agreement(final[[1, 0, 2, 3, 5, 4, 6, 7, 8, 11, 10, 9]], final)
    assert swapped and swapped.tau == pytest.approx(1 - 2 * 5 / 66) and swapped.low < swapped.tau < swapped.high
    assert rank_agreement(final[:4], final[:4]) is None and rank_agreement(np.ones(9), np.arange(9.0)) is None


def test_an_early_look_that_wrongs_slow_curricula_is_seen() -> None:
    final, past = np.arange(10.0), np.array([1.0] * 5 + [8.0] * 5)
    found = slow_bias(np.where(past > 1, final - 5.5, final + 5), final, past)
    assert found and found.ranks == pytest.approx(10) and found.p < 0.05
    fair = slow_bias(final, final, past)
    assert fair and fair.ranks == 0 and fair.p > 0.05
    assert slow_bias(final[:5], final[:5], past[:5]) is None


def test_intervals_are_students() -> None:
    found = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert (found.mean, found.low, found.high) == pytest.approx((2, 2 - 2.4841, 2 + 2.4841), abs=1e-3)
    assert math.isnan(mean_interval(np.array([1.0])).low)
    assert mean_interval(np.array([1.0, 3.0])).high == pytest.approx(2 + 12.7062, abs=1e-3), "two are enough"


@pytest.mark.parametrize("span", [(0, 1), (0.41, 0.47), (1, 130), (-3e-7, 2e-7), (0.5, 0.5)])
def test_ticks_are_round_and_inside(span: tuple[float, float]) -> None:
    axis = scale(span, 0, 100)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 6 and all(axis.low <= tick <= axis.high for tick in ticks)


def test_lines_break_where_there_is_no_value() -> None:
    assert path([(0, 1), (1, math.nan), (2, 3), (3, 4)]) == "M0 1M2 3L3 4"
    assert Scale(0, 10, 100, 200)(5) == 150
