"""The facts of the report about kinds of queries, single queries, and how fair early stopping was."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support.report_cases import QUERIES, Case, whole
from tests.support.scored_data import make_data
from trainables.core.errors import WorkFailed
from trainables.core.randomness import generator
from trainables.evaluation.trec_files import write_per_query
from tune_cl.report import queries
from tune_cl.report.charts import MOST_BARS, Line, Mark, Scale, bars, frame, line_chart, path, scale, strip_chart
from tune_cl.report.document import QueriesPart
from tune_cl.report.findings import Findings, gather
from tune_cl.report.page import TEMPLATES
from tune_cl.report.queries import Groups, PerQuery, by_domain, by_length, by_turns, per_query, single_queries
from tune_cl.report.stopping import stopping
from tune_cl.schedulers import SCHEDULERS

RANKED = [("zero", 0), ("one", 1), ("two", 2)]


def values_of(contexts: list[list[str]], best: list[float], baseline: list[float], **other: Any) -> PerQuery:
    """Values of queries with these utterances, each with candidates of grades 0, 1 and 2."""
    data = replace(make_data(contexts, [RANKED] * len(contexts)), **other)
    return PerQuery(data, "train", "the best", np.arange(len(contexts)), np.array(best), np.array(baseline))


def members(groups: Groups) -> dict[str, list[int]]:
    return {name: np.flatnonzero(member).tolist() for name, member in groups}


# -- kinds of queries ----------------------------------------------------------------------------------------------


def test_eight_turns_and_more_are_one_group() -> None:
    contexts = [["word"] * turns for turns in (1, 2, 7, 8, 9, 12, 2)]
    assert members(by_turns(values_of(contexts, [0.0] * 7, [0.0] * 7))) == {
        "1 turn": [0], "2 turns": [1, 6], "7 turns": [2], "8 or more turns": [3, 4, 5],
    }  # fmt: skip


def test_the_twelve_largest_domains_are_shown_largest_first() -> None:
    domain = np.array([number for number in range(13) for _ in range(1 if number < 2 else number)], np.int16)
    zeros = [0.0] * len(domain)
    names = ("", *(f"d{number}" for number in range(1, 13)))
    groups = by_domain(values_of([["word"]] * len(domain), zeros, zeros, domain=domain, domains=names))
    assert [name for name, _ in groups] == [f"d{number}" for number in range(12, 1, -1)] + ["(no name)"]
    assert [int(member.sum()) for _, member in groups] == [*range(12, 1, -1), 1]


def test_lengths_are_mean_words_of_an_utterance_in_thirds() -> None:
    """Means 1, 2, 3 and 4: the thirds end at 2 and at 3, which belong to the third below."""
    contexts = [["a"], ["a b c", "a"], ["a b c"], ["a b c d", "a b c d"]]
    assert members(by_length(values_of(contexts, [0.0] * 4, [0.0] * 4))) == {
        "to 2": [0, 1], "2 to 3": [2], "over 3": [3],
    }  # fmt: skip
    same = by_length(values_of([["a b"]] * 3, [0.0] * 3, [0.0] * 3))
    assert members(same) == {"to 2": [0, 1, 2]}, "no empty groups"


def queries_of(values: PerQuery, level: int = 1) -> tuple[QueriesPart, str]:
    """The facts of single queries, and the sections that are drawn from them."""
    run = SimpleNamespace(evaluation=SimpleNamespace(relevance_level=level))
    findings = SimpleNamespace(experiment=SimpleNamespace(base_ranker=run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "values_of", lambda findings: values)
        found = single_queries(cast(Findings, findings))
    assert isinstance(found, QueriesPart)
    drawn = sections("groups", "queries", queries=found, metric="map", over_curricula=True)
    assert all(one.id in drawn for one in (*found.gained, *found.lost))
    return found, drawn


def sections(*names: str, **facts: Any) -> str:
    module: Any = TEMPLATES.get_template("sections.html").module
    return "".join(getattr(module, name)(facts) for name in names)


def test_groups_show_the_best_beside_plain_training() -> None:
    found, drawn = queries_of(values_of([["a"], ["a"], ["a", "b"]], [0.5, 0.7, 0.9], [0.1, 0.3, 0.2]))
    one, two = found.kinds[0].groups
    assert (one.name, one.queries, one.best.mean, one.baseline.mean) == (
        "1 turn", 2, pytest.approx(0.6), pytest.approx(0.2),
    )  # fmt: skip
    assert (two.name, two.best.mean) == ("2 turns", 0.9) and [len(kind.groups) for kind in found.kinds]
    assert drawn.count("<figcaption>By") == 1, "a chart of turns, the only kind with two groups"


# -- single queries ------------------------------------------------------------------------------------------------


def test_the_five_that_gained_and_lost_most_are_told_and_none_that_did_not() -> None:
    best = [0.9, 0.8, 0.7, 0.6, 0.55, 0.52, 0.5, 0.4, 0.2]
    found, _ = queries_of(values_of([["text"]] * 9, best, [0.5] * 9))
    assert [one.id for one in found.gained] == ["q0", "q1", "q2", "q3", "q4"]
    assert [one.id for one in found.lost] == ["q8", "q7"]
    first, last = found.gained[0], found.lost[0]
    assert (first.difference, first.baseline, first.best) == (pytest.approx(0.4), 0.5, 0.9)
    assert last.difference == pytest.approx(-0.3)
    few, _ = queries_of(values_of([["text"]] * 3, [0.6, 0.5, 0.4], [0.5] * 3))
    assert [one.id for one in (*few.gained, *few.lost)] == ["q0", "q2"], "one that gained, one that lost"
    many, _ = queries_of(values_of([["text"]] * 40, [0.9, 0.6] * 20, [0.5] * 40))
    assert [one.id for one in many.gained] == ["q0", "q2", "q4", "q6", "q8"], "equal ones in the data's order"


@pytest.mark.parametrize(("level", "shown"), [(1, "one"), (2, "two"), (3, "no candidate of this query is relevant")])
def test_the_relevant_text_is_the_first_of_the_configured_level(level: int, shown: str) -> None:
    [one] = queries_of(values_of([["text"]], [0.6], [0.5]), level)[0].gained
    assert (one.answer_is, one.answer) == ("Relevant", shown)


def test_values_and_texts_are_those_of_the_query_though_not_every_one_has_values() -> None:
    """Values of rows 1 and 3 of four, which hold the queries 2 and 0 of the data."""
    contexts = [["first"], ["second", "second"], ["third", "third", "third"], ["fourth"]]
    candidates = [[("wrong", 0), (f"right {row} " + "x" * 90, 1), (f"also {row}", 1)] for row in range(4)]
    data = make_data(contexts, candidates)
    split = replace(data.splits["train"], query=np.array([3, 2, 1, 0], np.int32))
    values = PerQuery(replace(data, splits={"train": split}), "train", "", np.array([1, 3]), np.ones(2), np.zeros(2))
    assert [(one.id, one.turns, one.text, one.answer) for one in queries_of(values)[0].gained] == [
        ("q2", 3, "third third third", f"right 1 {'x' * 90}"), ("q0", 1, "first", f"right 3 {'x' * 90}"),
    ]  # fmt: skip


def test_a_pair_is_told_by_its_class_and_its_second_sentence() -> None:
    data = make_data([["one"], ["two"]], [[("like one", 1)], [("unlike two", 0)]])
    data = replace(data, task="classification", classes=("different", "duplicate"))
    found, _ = queries_of(PerQuery(data, "train", "", np.arange(2), np.array([0.9, 0.8]), np.zeros(2)))
    assert [(one.answer_is, one.answer) for one in found.gained] == (
        [("Duplicate", "like one"), ("Different", "unlike two")]
    )


def test_many_queries_share_bars() -> None:
    heights = bars(np.arange(1.0, MOST_BARS + 2))
    assert (len(heights), heights[0], heights[-1]) == (MOST_BARS // 2 + 1, MOST_BARS + 0.5, 1), "one in the last"
    assert bars(np.array([1.0, -2.0, 4.0, 0.0, 3.0])) == [4, 3, 1, 0, -2], "the largest gain first"


# -- where they come from ------------------------------------------------------------------------------------------


def test_a_confirmation_s_best_is_held_against_its_baseline(tmp_path: Path) -> None:
    """By means over the seeds, of the queries that all files have."""
    case = whole(tmp_path, others=2)
    case.confirm()
    findings = gather(case.write())

    def mean(place: int) -> np.ndarray:
        return np.mean([generator(10 * place + seed, "per query").random(QUERIES) for seed in (1, 2, 3)], axis=0)

    found = per_query(findings)
    assert found.split == "test" and found.label.startswith("root n=2, turns") and "3 seeds" in found.label
    assert found.best == pytest.approx(mean(1)) and found.baseline == pytest.approx(mean(0))
    lacking = case.search_folder.folder / "trials" / "confirmed-1-2" / "test.per_query.tsv"
    lacking.write_text("".join(line for line in lacking.open() if not line.startswith("test-0\t")))
    found = per_query(findings)
    assert found.row.tolist() == list(range(1, QUERIES)) and found.best == pytest.approx(mean(1)[1:])


def test_data_that_changed_or_cannot_be_had_is_not_shown_beside_the_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = whole(tmp_path, others=2)
    read, findings = case.events[0]["data"]["digest"], gather(case.write())
    for digest, fits in ((read, True), ("another", False), (None, True)):
        findings.state.data["digest"] = digest
        told = queries.values_of(findings)
        assert isinstance(told, PerQuery) == fits and (fits or "has changed" in str(told))

    def away(*_: Any) -> None:
        raise WorkFailed("ir_datasets: no network")

    monkeypatch.setattr(queries, "load_data", away)
    assert "no network" in str(queries.values_of(findings))


def one_beside_the_baseline(folder: Path, names: list[str]) -> Findings:
    """A search with one trial, whose baseline left values of the named queries."""
    case = Case(folder)
    case.add([0.5], "baseline")
    case.add([0.6], "completed")
    file = case.search_folder.folder / "trials" / "t0000" / "dev.per_query.tsv"
    write_per_query(file, names, {"p@1": np.zeros(len(names)), "map": np.full(len(names), 0.25)})
    return gather(case.write())


def test_only_queries_that_both_have_are_compared_by_the_metric_of_the_search(tmp_path: Path) -> None:
    found = per_query(one_beside_the_baseline(tmp_path, ["dev-7", "dev-2"]))
    assert found.row.tolist() == [2, 7] and found.baseline.tolist() == [0.25, 0.25]
    assert [found.data.query_ids[query] for query in found.query] == ["dev-2", "dev-7"]
    assert found.differences == pytest.approx(found.best - 0.25)


def test_files_of_other_queries_are_told(tmp_path: Path) -> None:
    told = str(queries.values_of(one_beside_the_baseline(tmp_path, ["other"])))
    assert "dev.per_query.tsv: " in told and "query" in told.partition("tsv: ")[2]


@pytest.mark.parametrize(
    ("ends", "who"),
    [(("failed", "completed"), "No plain trial"), (("baseline",), "but plain ones"), (("baseline", None), "t0001")],
)
def test_why_there_are_no_single_queries_is_told(ends: tuple[str | None, ...], who: str, tmp_path: Path) -> None:
    case = Case(tmp_path)
    for outcome in ends:
        case.add([0.3], outcome)
    assert who in str(queries.values_of(gather(case.write())))


# -- fairness ------------------------------------------------------------------------------------------------------


def trials(
    *dev: list[float],
    past: list[int] | None = None,
    scheduler: str = "asha",
    grace: str = "none",
    reasons: list[str] | None = None,
    **params: list[Any],
) -> Findings:
    """Trials that ran to the end with these curves under a scheduler with rungs at 1, 2 and 4; `reasons`: why others
    were stopped early."""
    ended = []
    for place, values in enumerate(dev):
        point = {f"curriculum.{key}": of_trials[place] for key, of_trials in params.items()}
        trial = SimpleNamespace(
            trial=f"t{place}", params=point, point=point, arm="curriculum",
            past=past[place] if past else 0, outcome="completed", reason=None,
            dev=lambda metric, values=values: dict(enumerate(values, 1)),
        )  # fmt: skip
        ended.append((trial, SimpleNamespace(dev=max(value for value in values if value == value))))
    stopped = [SimpleNamespace(outcome="stopped_early", reason=reason) for reason in reasons or []]
    everyone = [*(trial for trial, _ in ended), *stopped]
    state = SimpleNamespace(trials=everyone, by_number=lambda: everyone)
    experiment = SimpleNamespace(
        rungs=[1, 2, 4], search=SimpleNamespace(scheduler=scheduler, grace=grace),
        compares_inside_curricula=SCHEDULERS[scheduler].knows_graces,
        space=SimpleNamespace(leaves=[f"curriculum.{key}" for key in params]),
    )  # fmt: skip
    made = SimpleNamespace(
        metric="map", experiment=experiment, ended=ended, state=state, past_curriculum=lambda trial: trial.past
    )
    return cast(Findings, made)


def rungs(found: Findings, of: str = "rungs") -> list[tuple[Any, ...]]:
    rows = getattr(stopping(found), of)
    return [(*([row.with_] if row.with_ else []), row.rung, row.trials, row.tau) for row in rows]


def test_a_rung_knows_the_best_value_up_to_it_and_none_behind_it() -> None:
    curves = [[(5 - place) / 10, 0.0, math.nan, 1.0 + place] for place in range(5)]
    assert [tau for *_, tau in rungs(trials(*curves))] == pytest.approx([-1, -1, 1])


def test_the_table_of_rungs_counts_trials_with_a_value_and_their_tau() -> None:
    """At 1 two of ten pairs are in the wrong order; the sixth trial has no value until 2."""
    early = [[0.2], [0.1], [0.3], [0.5], [0.4], [math.nan]]
    found = stopping(trials(*([*each, 0.6 + place / 10] for place, each in enumerate(early))))
    first, second, _ = found.rungs
    assert (first.trials, first.tau) == (5, pytest.approx(0.6)) and (second.trials, second.tau) == (
        6, pytest.approx(1),
    )  # fmt: skip
    assert first.ci95[0] < 0.6 < first.ci95[1]
    few = trials(*([*each, 0.6 + place / 10] for place, each in enumerate([*early[1:], [math.nan]])))
    assert rungs(few)[0] == (1, 4, None) and sections("stopping", stopping=stopping(few))


def test_groups_of_five_and_more_are_split_by_pacing_and_by_m() -> None:
    pacing, m = ["root"] * 5 + ["linear"] * 4, [2.0] * 4 + [4.0] * 5
    found = trials(*([place / 10, place / 5] for place in range(9)), pacing=pacing, m=m)
    assert [row[:3] for row in rungs(found, "splits")] == [
        (group, rung, 5) for group in ("m 4", "pacing root") for rung in (1, 2, 4)
    ]
    found.ended[0][0].arm = "plain"  # plain training is in no group
    assert [row[0] for row in rungs(found, "splits")] == ["m 4"] * 3
    few = stopping(trials(*([place / 10] for place in range(5)), objective_switch=["mse"] * 4 + ["pointwise"]))
    assert (few.splits, few.split_by) == ([], ["objective_switch"]) and sections("stopping", stopping=few)


@pytest.mark.parametrize(
    ("early", "grace", "scheduler", "shown"),
    [
        ([0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4], "none", "asha", "is unfair"),
        ([0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4], "curriculum", "asha", "without this grace"),
        ([0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4], "none", "none", "would be unfair to slow curricula."),
        ([0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4], "curriculum", "model", "is unfair"),
        ([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], "none", "asha", "no bias"),
        ([0.1, 0.5, 0.2, 0.6, 0.3, 0.7, 0.4, 0.8], "none", "asha", "no bias"),
    ],
)
def test_slow_curricula_are_compared_at_the_first_rung(
    early: list[float], grace: str, scheduler: str, shown: str
) -> None:
    """The slow four end above the quick four. At iteration 1 they are below them, or not; later it does not matter."""
    curves = [[value, 1 + place / 10] for place, value in enumerate(early)]
    found = trials(*curves, past=[1] * 4 + [8] * 4, scheduler=scheduler, grace=grace)
    told = stopping(found)
    assert shown in told.slow and told.lets_through == (scheduler != "none")


def test_a_bias_for_slow_curricula_is_none_against_them() -> None:
    curves = [[value, 1 - place / 10] for place, value in enumerate([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])]
    told = stopping(trials(*curves, past=[1] * 4 + [8] * 4)).slow
    assert "p 0.0" in told and "no bias" in told


@pytest.mark.parametrize(
    ("scheduler", "grace", "promotion", "told"),
    [
        ("asha", "curriculum", True, "No trial was"),
        ("asha", "2", True, "search.grace: 2"),
        ("model", "curriculum", True, "Trials were compared"),
        ("model", "2", False, "search.grace: 2"),
    ],
)
def test_it_says_when_trials_were_compared_and_budgets_are_not_the_scheduler(
    scheduler: str, grace: str, promotion: bool, told: str
) -> None:
    reasons = ["not among the best"] * 4 + ["search.iterations are used up"]
    found = trials([0.5], scheduler=scheduler, grace=grace, reasons=reasons)
    inside = promotion and SCHEDULERS[scheduler].knows_graces
    found.experiment.compares_inside_curricula = inside  # type: ignore[misc]
    shown = stopping(found).stopped
    assert "stopped 4 of 6" in shown and "1 more ended" in shown and told in shown


@pytest.mark.parametrize("others", [3, 4])
def test_five_trials_that_ran_to_the_end_are_ranked_and_stopped_ones_do_not_count(others: int, tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.1, 0.2, 0.3], "baseline")
    for place in range(others):
        case.add([place / 10, place / 5], "completed")
    case.add([0.9], "stopped_early")
    case.add([0.8])
    found = gather(case.write())
    assert len(found.ended) == others + 1 and bool(rungs(found)) == (others == 4)


# -- drawings ------------------------------------------------------------------------------------------------------


def test_lines_break_where_there_is_no_value() -> None:
    assert path([(0, 1), (1, math.nan), (2, 3), (3, math.inf), (4, 5), (5, 6)]) == "M0 1M2 3M4 5L5 6"


def test_axes_hold_one_value_no_value_and_an_infinite_one() -> None:
    one, none, endless = scale([1000.0], 0, 100), scale([], 0, 100), scale([1.0, math.inf, math.nan, 2.0], 0, 100)
    assert one(1000.0) == 50 == none(0.5) and 0 < endless(1.0) < endless(2.0) < 100


@pytest.mark.parametrize("span", [(0, 1), (0.41, 0.47), (1, 130), (-3e-7, 2e-7), (0.5, 0.5)])
def test_ticks_are_round_and_inside(span: tuple[float, float]) -> None:
    axis = scale(span, 0, 100)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 6 and all(axis.low <= tick <= axis.high for tick in ticks)


def test_ticks_are_one_two_or_five_apart_and_counts_have_whole_ones() -> None:
    assert Scale(0.5, 9.5, 0, 100).ticks(5) == [2, 4, 6, 8]
    assert Scale(0.3, 0.9, 0, 100).ticks(3) == [0.4, 0.6, 0.8], "a third of it is a hair above .2 in floating point"
    few = scale([1, 2, 3], 0, 100)
    parts = "".join(frame(few, scale([0.0, 1.0], 250, 0), "iteration", "map", 250))
    assert re.findall(r'text-anchor="middle">([^<]*)<', parts) == ["1", "2", "3"]


def test_the_best_lies_above_plain_training_and_that_above_the_others() -> None:
    marks = [Mark((1, 0.1), "curriculum", "over"), Mark((2, math.nan), "curriculum", "never")]
    roles = ["best", "failed", "baseline", "trial"]
    chart = line_chart([Line(role, role, "", [(1, 0.1), (2, 0.2)], marks) for role in roles], "iteration", "map")
    assert re.findall(r'data-trial="(\w+)"', chart) == ["failed", "trial", "baseline", "best"], "drawn later, on top"
    assert "over" in chart and "never" not in chart and "nan" not in chart


def test_queries_that_gained_and_lost_are_counted_and_drawn_above_and_below_zero() -> None:
    drawn = strip_chart([0.1, 0.0, -0.2, 0.0, 0.3, 0.0], "map")
    gain, loss = (re.findall(rf'd="([^"]*)" class="{role}"', drawn)[0] for role in ("gain", "loss"))
    assert (gain.count("M"), loss.count("M")) == (2, 1)
