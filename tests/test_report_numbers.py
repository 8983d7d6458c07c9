"""Numbers that the report shows, against known answers: importance, fairness of early stopping, cost, charts."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support.report_cases import Case, whole
from tests.support.report_pages import Reader, report
from trainables.core.errors import DataError
from tune_cl.experiment.forecast import forecast_of
from tune_cl.report import queries as fairness
from tune_cl.report import trials as curves
from tune_cl.report import trials as trees
from tune_cl.report.findings import PERMUTATIONS, Findings, Importance, gather, importance, rank_agreement, slow_bias
from tune_cl.report.page import page
from tune_cl.report.trials import _how, importances

# -- importance --------------------------------------------------------------------------------------------------


def test_importance_needs_eight_trials() -> None:
    values, dev = list("abababab"), np.arange(8.0)
    assert importance("x", values[:7], dev[:7], values[:7]) is None
    assert importance("x", values, dev, values) is not None


def test_importance_is_eta_squared_of_the_ranks() -> None:
    """Ranks 1 to 8 in the groups {1..4} and {5..8}: 32 of the sum of squares 42 lie between them. The best group is the
    one with the highest mean, however many trials the others have."""
    values = list("aaaabbbb")
    found = importance("x", values, np.arange(8.0) ** 2, values)
    assert found and found.share == pytest.approx(32 / 42) and found.best == "b"
    uneven = list("aaaaaaaab")
    single = importance("x", uneven, np.arange(9.0), uneven)
    assert single and single.best == "b"


def test_the_smallest_p_is_one_of_all_exchanges_and_the_limit_is_that_of_one_in_twenty() -> None:
    clear = importance("x", list("ab" * 20), np.tile([0.0, 1.0], 20) + np.arange(40) / 1000, list("ab" * 20))
    assert clear and clear.p == pytest.approx(1 / (1 + PERMUTATIONS)) and PERMUTATIONS == 1000
    random = np.random.default_rng(2)
    found = [importance(f"k{i}", list("abcd" * 5), random.normal(size=20), list("abcd" * 5)) for i in range(200)]
    above = [each.share > each.chance + 1e-9 for each in found if each]
    assert above == [each.p <= 0.0505 for each in found if each] and any(above)


@pytest.mark.parametrize(("values", "best"), [([1, 2, 3, 4, 5, 6] * 2, "6"), ([1, 2, 3, 4, 5, 6, 7] * 2, "above 5")])
def test_more_than_six_values_of_a_number_are_cut_into_thirds(values: list[int], best: str) -> None:
    found = importance("x", values, np.array(values, float) + np.arange(len(values)) / 100, [str(v) for v in values])
    assert found and found.best == best


def test_parameters_are_told_by_their_share_over_the_trials_of_the_space(tmp_path: Path) -> None:
    findings = gather(whole(tmp_path).write())
    known, passed = importances(findings)
    shares = [one.share for one in known]
    assert shares == sorted(shares, reverse=True) and len(set(shares)) > 1
    assert {one.key: one.trials for one in known}["curriculum.pacing"] == len(findings.ranked), "not the baseline"
    assert {one.key for one in known} | set(passed) == set(findings.experiment.space.leaves)


def test_what_is_beyond_chance_is_so_after_correction() -> None:
    known = [Importance(key, 20, 0.5, 0.3, p, "2") for key, p in (("training.lr", 0.025), ("curriculum.n", 0.026))]
    search = SimpleNamespace(searcher="random")
    state = SimpleNamespace(counts=lambda: {"stopped_early": 0})
    findings = cast(Findings, SimpleNamespace(state=state, experiment=SimpleNamespace(search=search)))
    told = _how(findings, known, [])
    assert told.endswith("Beyond chance after correction for 2 parameters: training.lr. ")
    search.searcher, state.counts = "tpe", lambda: {"stopped_early": 1}
    told = _how(findings, known[1:], ["curriculum.m"])
    assert "for 1 parameters: n. Trials stopped early count with the value they had reached" in told
    assert "Trials sampled by tpe are not independent" in told and told.endswith("Too few trials or values for: m.")


# -- fairness ----------------------------------------------------------------------------------------------------


def test_the_interval_of_tau_is_that_of_fieller_hartley_and_pearson() -> None:
    """The variance of atanh τ is .437 / (n - 4); a perfect order counts as if half a pair were exchanged."""
    final = np.arange(12.0)
    tau, half = 1 - 2 * 5 / 66, 1.96 * math.sqrt(0.437 / 8)
    found = rank_agreement(final[[1, 0, 2, 3, 5, 4, 6, 7, 8, 11, 10, 9]], final)
    assert found and (found.low, found.high) == pytest.approx(
        (math.tanh(math.atanh(tau) - half), math.tanh(math.atanh(tau) + half))
    )
    same = rank_agreement(final, final)
    assert same and same.low == pytest.approx(math.tanh(math.atanh(1 - 1 / 66) - half))


@pytest.mark.parametrize(
    ("past", "slow"), [([1, 1, 1, 4, 4, 4, 4, 8, 8, 8], 3), ([1, 1, 1, 8, 8, 8], 3), ([1, 1, 8, 8], None)]
)
def test_slow_are_those_above_the_median_and_three_a_side_are_needed(past: list[int], slow: int | None) -> None:
    final = np.arange(len(past), dtype=float)
    found = slow_bias(final, final, np.array(past, float))
    assert (found and found.slow) == slow and (not found or found.fast == len(past) - found.slow)


def trials(*dev: list[float], past: list[int] | None = None, **params: list[Any]) -> Findings:
    """Trials that ran to the end with these curves under a scheduler with rungs at 1, 2 and 4."""
    ended = []
    for place, values in enumerate(dev):
        point = {f"curriculum.{key}": of_trials[place] for key, of_trials in params.items()}
        trial = SimpleNamespace(
            trial=f"t{place}", params=point, point=point, baseline=False,
            past=past[place] if past else 0,
            dev=lambda metric, values=values: dict(enumerate(values, 1)),
        )  # fmt: skip
        ended.append((trial, SimpleNamespace(dev=max(value for value in values if value == value))))
    search = SimpleNamespace(scheduler="asha", grace="none")
    space = SimpleNamespace(leaves=[f"curriculum.{key}" for key in params])
    experiment = SimpleNamespace(rungs=[1, 2, 4], search=search, space=space)
    made = SimpleNamespace(metric="map", experiment=experiment, ended=ended, past_curriculum=lambda trial: trial.past)
    return cast(Findings, made)


def cells(text: str) -> list[list[str]]:
    """The rows of a page's first table."""
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]


def test_a_rung_knows_the_best_value_up_to_it_and_none_behind_it() -> None:
    falls = trials([0.3, math.nan, 0.1, 0.2, 0.9])
    [(trial, _)] = falls.ended
    assert [fairness._until(falls, trial, rung) for rung in (1, 2, 4, 5)] == [0.3, 0.3, 0.3, 0.9]
    late = trials([math.nan, 0.5])
    assert math.isnan(fairness._until(late, late.ended[0][0], 1))


def test_the_table_of_rungs_counts_trials_with_a_value_and_their_tau() -> None:
    """At 1 two of ten pairs are in the wrong order; the sixth trial has no value until 2."""
    early = [[0.2], [0.1], [0.3], [0.5], [0.4], [math.nan]]
    whole_order = trials(*([*first, 0.6 + place / 10] for place, first in enumerate(early)))
    count, tau, interval = fairness._agreement(whole_order, whole_order.ended, 1)
    assert (count, tau) == (5, f"{1 - 2 * 2 / 10:.2f}")
    low, high = (float(end) for end in str(interval).strip("[]").split(", "))
    assert low < 0.6 < high
    assert fairness._agreement(whole_order, whole_order.ended, 2)[:2] == (6, "1.00")
    few = trials([0.1], [0.2], [0.3], [0.4])
    assert fairness._agreement(few, few.ended, 1) == (4, "–", "too few, or all equal")


def test_groups_of_five_and_more_are_split_by_pacing_and_by_m() -> None:
    pacing, m = ["root"] * 5 + ["linear"] * 4, [2.0] * 4 + [4.0] * 5
    found = trials(*([place / 10, place / 5] for place in range(9)), pacing=pacing, m=m)
    [told] = fairness._splits(found)
    assert [row[:3] for row in cells(told)[1:]] == [
        [group, rung, "5"] for group in ("m 4", "pacing root") for rung in ("1", "2", "4")
    ]
    found.ended[0][0].baseline = True  # plain training is in no group
    assert [row[0] for row in cells(fairness._splits(found)[0])[1:]] == ["m 4"] * 3


@pytest.mark.parametrize(
    ("early", "told"),
    [
        ([0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4], ("8.0 ranks worse", "stopping early is unfair to slow curricula")),
        ([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], ("0.0 ranks better", "no bias against them is shown")),
    ],
)
def test_slow_curricula_are_compared_at_the_first_rung(early: list[float], told: tuple[str, str]) -> None:
    """The slow four end above the quick four. At iteration 1 they are below them, or not; later it does not matter."""
    curves = [[value, 1 + place / 10] for place, value in enumerate(early)]
    [shown] = fairness._slow(trials(*curves, past=[1] * 4 + [8] * 4))
    assert "At iteration 1 the 4 trials with the longer curricula" in shown
    assert all(words in shown for words in told)


def test_a_bias_for_slow_curricula_is_none_against_them() -> None:
    curves = [[value, 1 - place / 10] for place, value in enumerate([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])]
    [shown] = fairness._slow(trials(*curves, past=[1] * 4 + [8] * 4))
    assert "ranks better" in shown and "p 0.0" in shown and "no bias against them is shown" in shown


@pytest.mark.parametrize("others", [3, 4])
def test_five_trials_that_ran_to_the_end_are_ranked_and_stopped_ones_do_not_count(others: int, tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.1, 0.2, 0.3], "baseline")
    for place in range(others):
        case.add([place / 10, place / 5], "completed")
    case.add([0.9], "stopped_early")
    case.add([0.8])
    ranking = report(case)[0].sections["ranking"]
    assert ("Too few trials ran to the end (4)" in ranking) == (others == 3)
    assert ("over 5 trials. Only trials that were let through" in ranking) == (others == 4)


def test_without_a_scheduler_all_ran_to_the_end() -> None:
    found = trials([0.5])
    found.experiment.search.scheduler = "none"  # type: ignore[misc]
    told = "Rank correlation of the best value up to each rung with the final one, over 1 trials."
    assert fairness._over_whom(found) == told


def test_a_bias_that_may_be_chance_is_not_shown() -> None:
    """Slow trials were two places worse on average, with p about .2."""
    curves = [[value, 1 + place / 10] for place, value in enumerate([0.1, 0.5, 0.2, 0.6, 0.3, 0.7, 0.4, 0.8])]
    [shown] = fairness._slow(trials(*curves, past=[1] * 4 + [8] * 4))
    p = re.search(r"p (0\.\d+)", shown)
    assert p and 0.05 < float(p[1]) < 0.5 and "ranks worse" in shown and "no bias against them is shown" in shown


# -- cost --------------------------------------------------------------------------------------------------------


def test_cost_stands_beside_its_forecast(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.events[0]["forecast"] |= {"hours_forecast": 0.5, "cpu_hours_forecast": 1.25}
    case.add([0.5, 0.5], "baseline")
    case.add([0.3, 0.4, 0.35], "completed")
    forecast = forecast_of(case.experiment)
    told = cells("".join(curves.spent_section(gather(case.write()))))[1:]
    assert told[:3] == [
        ["trials", "16", "2"],
        ["iterations, expected", str(forecast["iterations_expected"]), "5"],
        ["iterations, at most", str(forecast["iterations_at_most"]), "5"],
    ]
    assert told[3][:2] == ["seconds, from start to end", "1,800"]
    assert told[4:] == [["CPU hours reserved by trials", "1.250", "–"], ["GPU hours reserved by trials", "–", "–"]]
    assert "has not come to its end" in "".join(curves.spent_section(gather(case.search_folder)))


def test_hours_are_those_of_the_search_s_end(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5], "baseline")
    case.finish()
    section = "".join(curves.spent_section(gather(case.write())))
    assert [row[2] for row in cells(section)[-2:]] == ["0.500", "0.000"] and "its end" not in section


def charts_of(section: Any, module: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    drawn: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "line_chart", lambda *given: drawn.append(given) or "")
    section()
    return drawn


def test_only_rises_above_all_before_are_drawn_and_a_repeated_result_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path)
    case.add([0.5, 0.45], "baseline")
    case.add([0.3, 0.4], "completed")
    case.events.insert(-1, dict(case.events[-2]))  # a trial going on from a checkpoint reports its last result again
    case.add([0.4, 0.6], "completed")
    case.add([0.9], "failed", "it broke")
    findings = gather(case.write())
    over_iterations, over_seconds = charts_of(lambda: curves.cost_section(findings), curves, monkeypatch)
    [line] = over_iterations[0]
    assert line.points == [(3, 0.3), (4, 0.4), (6, 0.6), (7, 0.6)]
    assert over_iterations[4] == over_seconds[4] == 0.5, "the dashed line: plain training at its best"
    assert [at for at, _ in over_seconds[0][0].points] == sorted(at for at, _ in over_seconds[0][0].points)


def test_shares_that_were_open_all_the_time_are_no_chart(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3], "baseline")
    for event in case.events:
        if event["event"] == "result":
            event["metrics"]["available_share"] = 1.0
    assert "Every trial had all training data" in report(case)[0].sections["pacing"]


# -- what is read ------------------------------------------------------------------------------------------------


def test_a_baseline_that_failed_is_nothing_to_compare_with(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.9], "failed", "it broke")
    case.add([0.3], "completed")
    findings = gather(case.write())
    assert findings.baseline is None and [trial.trial for trial, _ in findings.ended] == ["t0001"]
    assert "The baseline gave no dev value" in Reader(page(findings)).sections["verdict"]


def test_ten_failures_are_told_and_the_others_counted(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.3], "baseline")
    for place in range(12):
        case.add([], "failed", f"reason {place}.")
    told = report(case)[0].sections["learning"]
    assert "12 failed; the first 10:" in told and "reason 9." in told and "reason 10." not in told


def test_failed_trials_are_drawn_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert curves.MOST_LINES == 250
    case = Case(tmp_path)
    case.add([0.3], "baseline")
    for dev, outcome in (([0.4], "completed"), ([0.5], "completed"), ([0.1], "failed"), ([0.2], "failed")):
        case.add(dev, outcome, "it broke")
    findings = gather(case.write())
    drawn = {}
    for most in (4, 3, 2, 1):
        monkeypatch.setattr(curves, "MOST_LINES", most)
        drawn[most] = [trial.trial for trial in curves.drawn(findings)]
        left = "".join(curves._not_drawn(findings) or "")
        assert left == ("" if most == 4 else f"<p>Not drawn: {4 - most} of 5 trials.</p>")
    assert drawn == {
        4: ["t0000", "t0002", "t0001", "t0003", "t0004"], 3: ["t0000", "t0002", "t0001", "t0003"],
        2: ["t0000", "t0002", "t0001"], 1: ["t0000", "t0002"],
    }  # fmt: skip


@pytest.mark.parametrize("lacking", ["split", "seeds", "baseline", "configurations", "verdict"])
def test_a_confirmation_without_a_part_is_damaged(lacking: str, tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.confirm()
    place = case.write()
    file = place.folder / "confirmation" / "test.json"
    file.write_text(file.read_text().replace(f'"{lacking}":', '"other":'))
    with pytest.raises(DataError, match=f"test.json: lacks {lacking}"):
        gather(place)


# -- trees -------------------------------------------------------------------------------------------------------


def test_trees_are_counted_by_each_training_s_own_number_an_iteration() -> None:
    """Plain training, with 5 trees per iteration, reaches .5 with 10; what it never reaches takes more than its 15."""

    def trial(trees_each: int, dev: list[float], baseline: bool = False) -> Any:
        results = dict(enumerate(dev, 1))
        params = {trees.TREES: trees_each}
        return SimpleNamespace(
            trial="t1", params=params, point={}, results=results, baseline=baseline, dev=lambda metric: results
        )

    plain, best = trial(5, [0.3, 0.5, 0.6], baseline=True), trial(10, [0.5, 0.7])
    findings = cast(Findings, SimpleNamespace(metric="map", pair=(best, plain)))
    [shown] = trees.trees_section(findings)
    assert cells(shown)[1:] == [["10", "0.5000", "10", "1.00"], ["20", "0.7000", "more than 15", "–"]]
