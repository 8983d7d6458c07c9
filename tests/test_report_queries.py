"""What the report says about single queries and kinds of queries, and its tables for people and for papers."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support.report_cases import QUERIES, Case, whole
from tests.support.report_pages import report
from tests.support.scored_data import make_data
from trainables.core.randomness import generator
from trainables.evaluation.trec_files import write_per_query
from tune_cl.history.journal import read_events
from tune_cl.report import queries
from tune_cl.report import queries as per_query
from tune_cl.report.charts import MOST_BARS
from tune_cl.report.findings import Findings, gather, words
from tune_cl.report.formats import latex, latex_table, trials_csv
from tune_cl.report.queries import PerQuery, by_domain, by_length, by_turns
from tune_cl.report.verdict_section import rows
from tune_cl.tracking.layout import trial_name

RANKED = [("zero", 0), ("one", 1), ("two", 2)]


def values_of(contexts: list[list[str]], best: list[float], baseline: list[float], **other: Any) -> PerQuery:
    """Values of queries with these utterances, each with candidates of grades 0, 1 and 2."""
    data = replace(make_data(contexts, [RANKED] * len(contexts)), **other)
    return PerQuery(data, "train", "the best", np.arange(len(contexts)), np.array(best), np.array(baseline))


def members(groups: per_query.Groups) -> dict[str, list[int]]:
    return {name: np.flatnonzero(member).tolist() for name, member in groups}


# -- kinds of queries --------------------------------------------------------------------------------------------


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


def test_groups_show_the_best_beside_plain_training() -> None:
    values = values_of([["a"], ["a"], ["a", "b"]], [0.5, 0.7, 0.9], [0.1, 0.3, 0.2])
    findings = SimpleNamespace(metric="map")
    shown = "".join(queries.groups_section(cast(Findings, findings), values))
    assert "1 turn (2), best: 0.6000" in shown and "1 turn (2), baseline: 0.2000" in shown
    assert "2 turns (1), best: 0.9000" in shown
    assert shown.count("<figure") == 1, "a chart of turns, the only kind with two groups"
    assert "By domain: all queries are in one group (all)." in shown and "By number of turns: all" not in shown


# -- single queries ----------------------------------------------------------------------------------------------


def changes(values: PerQuery, level: int) -> str:
    run = SimpleNamespace(evaluation=SimpleNamespace(relevance_level=level))
    findings = SimpleNamespace(metric="map", experiment=SimpleNamespace(base_ranker=lambda: run, objective=None))
    return "".join(queries.changes_section(cast(Findings, findings), values))


def test_the_five_that_gained_and_lost_most_are_told_and_none_that_did_not() -> None:
    best = [0.9, 0.8, 0.7, 0.6, 0.55, 0.52, 0.5, 0.4, 0.2]
    shown = changes(values_of([["text"]] * 9, best, [0.5] * 9), 1)
    gained, lost = shown.split("Lost most")
    assert re.findall(r">q(\d), 1 turn<", gained) == ["0", "1", "2", "3", "4"]
    assert re.findall(r">q(\d), 1 turn<", lost) == ["8", "7"]
    assert "+0.400" in gained and "(0.500 → 0.900)" in gained and "-0.300" in lost and "(0.500 → 0.200)" in lost
    assert "Lost most: none." in changes(values_of([["text"]], [0.6], [0.5]), 1)
    few = changes(values_of([["text"]] * 3, [0.6, 0.5, 0.4], [0.5] * 3), 1)
    assert re.findall(r">q(\d), 1 turn<", few) == ["0", "2"], "one that gained, one that lost"


@pytest.mark.parametrize(("level", "text"), [(1, "one"), (2, "two"), (3, "no candidate of this query is relevant")])
def test_the_relevant_text_is_the_first_of_the_configured_level(level: int, text: str) -> None:
    assert f"<b>Relevant </b>{text}</p>" in changes(values_of([["text"]], [0.6], [0.5]), level)


def test_values_of_several_seeds_are_their_mean_where_all_have_the_query(tmp_path: Path) -> None:
    files = [tmp_path / f"{seed}.tsv" for seed in (1, 2)]
    for file, names, values in zip(files, (["a", "b"], ["b", "a", "c"]), ([0.2, 0.4], [0.8, 0.6, 1.0]), strict=True):
        write_per_query(file, names, {"map": np.array(values), "p@1": np.ones(len(names))})
    assert per_query._mean(files, "map") == pytest.approx({"a": 0.4, "b": 0.6})
    assert per_query._mean(files[::-1], "map") == pytest.approx({"a": 0.4, "b": 0.6})
    assert per_query._mean(files[1:], "map") == {"b": 0.8, "a": 0.6, "c": 1.0}


def test_values_and_texts_are_those_of_the_query_though_not_every_one_has_values() -> None:
    """Values of rows 1 and 3 of four, which hold the queries 2 and 0 of the data."""
    contexts = [["first"], ["second", "second"], ["third", "third", "third"], ["fourth"]]
    candidates = [[("wrong", 0), (f"right {row} " + "x" * 90, 1), (f"also {row}", 1)] for row in range(4)]
    data = make_data(contexts, candidates)
    split = replace(data.splits["train"], query=np.array([3, 2, 1, 0], np.int32))
    values = PerQuery(replace(data, splits={"train": split}), "train", "", np.array([1, 3]), np.ones(2), np.zeros(2))
    shown = changes(values, 1)
    assert re.findall(r">(q\d, \d turns?)<", shown) == ["q2, 3 turns", "q0, 1 turn"]
    assert re.findall(r"<b>Query </b>(.*?)</p>", shown) == ["third third third", "first"]
    assert re.findall(r"<b>Relevant </b>(.*?)</p>", shown) == [f"right {row} {'x' * 90}" for row in (1, 3)], "all of it"
    findings = SimpleNamespace(metric="map")
    assert "; 2 queries of train." in "".join(queries.groups_section(cast(Findings, findings), values))


def test_a_pair_is_told_by_its_class_and_its_second_sentence() -> None:
    data = make_data([["one"], ["two"]], [[("like one", 1)], [("unlike two", 0)]])
    data = replace(data, task="classification", classes=("different", "duplicate"))
    shown = changes(PerQuery(data, "train", "", np.arange(2), np.array([0.9, 0.8]), np.zeros(2)), 1)
    assert "<b>Duplicate </b>like one</p>" in shown and "<b>Different </b>unlike two</p>" in shown


def test_queries_with_equal_changes_keep_the_order_of_the_data() -> None:
    shown = changes(values_of([["text"]] * 40, [0.9, 0.6] * 20, [0.5] * 40), 1)
    assert re.findall(r">q(\d+), 1 turn<", shown) == ["0", "2", "4", "6", "8"]


def test_many_queries_share_bars_and_the_title_says_how_many() -> None:
    assert "Each query of train" in changes(values_of([["text"]] * 2, [0.6] * 2, [0.5] * 2), 1)
    many = values_of([["text"]] * (MOST_BARS + 1), [0.6] * (MOST_BARS + 1), [0.5] * (MOST_BARS + 1))
    assert "Queries of train: each bar is the mean of 2 neighbouring queries" in changes(many, 1)
    few = replace(many, row=many.row[:9], best=many.best[:9], baseline=many.baseline[:9])
    assert "Each query of train" in changes(few, 1), "as many as have values"


# -- where they come from ----------------------------------------------------------------------------------------


def test_a_confirmation_s_best_is_held_against_its_baseline(tmp_path: Path) -> None:
    case = whole(tmp_path, others=2)
    case.confirm()
    found = per_query.per_query(gather(case.write()))

    def mean(place: int) -> np.ndarray:
        return np.mean([generator(10 * place + seed, "per query").random(QUERIES) for seed in (1, 2, 3)], axis=0)

    assert (found.split, found.label) == ("test", "root n=2, turns, means over 3 seeds")
    assert found.best == pytest.approx(mean(1)) and found.baseline == pytest.approx(mean(0))


def test_data_that_changed_since_the_search_is_not_shown_beside_its_values(tmp_path: Path) -> None:
    case = whole(tmp_path, others=2)
    read = case.events[0]["data"]["digest"]
    findings = gather(case.write())
    for digest, fits in ((read, True), ("another", False), (None, True)):
        findings.state.data["digest"] = digest
        told = queries.values_of(findings)
        assert isinstance(told, PerQuery) == fits and (fits or "has changed since the search" in str(told))


def one_beside_the_baseline(folder: Path, names: list[str]) -> Findings:
    """A search with one trial, whose baseline left values of the named queries."""
    case = Case(folder)
    case.add([0.5], "baseline")
    case.add([0.6], "completed")
    file = case.search_folder.folder / "trials" / "t0000" / "dev.per_query.tsv"
    write_per_query(file, names, {"map": np.full(len(names), 0.25)})
    return gather(case.write())


def test_only_queries_that_both_have_are_compared(tmp_path: Path) -> None:
    found = per_query.per_query(one_beside_the_baseline(tmp_path, ["dev-7", "dev-2"]))
    assert found.row.tolist() == [2, 7] and found.baseline.tolist() == [0.25, 0.25]
    assert [found.data.query_ids[query] for query in found.query] == ["dev-2", "dev-7"]


def test_files_of_other_queries_are_told(tmp_path: Path) -> None:
    told = queries.values_of(one_beside_the_baseline(tmp_path, ["other"]))
    assert "dev.per_query.tsv: holds no query of dev; files of a search on this data." in str(told)


def test_queries_are_read_by_the_metric_of_the_search(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5], "baseline")
    best = case.add([0.6], "completed")
    for trial, value in (("t0000", 0.25), (best, 0.75)):
        file = case.search_folder.folder / "trials" / trial / "dev.per_query.tsv"
        names = [f"dev-{number}" for number in range(12)]
        write_per_query(file, names, {"map": np.full(12, value), "p@1": np.zeros(12)})
    found = per_query.per_query(gather(case.write()))
    assert found.differences == pytest.approx([0.5] * 12)


# -- tables ------------------------------------------------------------------------------------------------------


def test_before_a_confirmation_ten_trials_stand_beside_the_baseline(tmp_path: Path) -> None:
    sections, findings = report(whole(tmp_path))
    best = [trial.trial for trial, _ in findings.ranked]
    assert [row.label.split()[0] for row in rows(findings)] == ["t0000", *best[:10]]
    assert f"Not shown: {len(best) - 10} more; " in sections.sections["configurations"]
    assert "one seed each, so no SD and no test" in sections.sections["configurations"]
    assert f"It is the best of {len(best)} trials." in sections.sections["verdict"]


def test_without_a_baseline_ten_trials_stand_alone(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.9], "failed", "it broke")
    for number in range(11):
        case.add([0.3 + number / 100], "completed")
    found = rows(gather(case.write()))
    assert len(found) == 10 and all(row.difference is None for row in found)


def test_trials_are_told_apart_by_what_the_space_opens(tmp_path: Path) -> None:
    """In the words of the terminal and of MLflow."""
    findings = gather(whole(tmp_path, others=2).write())
    for event in (event for event in read_events(findings.search_folder.journal) if event["event"] == "trial"):
        assert words(findings.state.trials[event["trial"]]) == trial_name(event)
    labels = [row.label for row in rows(findings)]
    assert labels[0] == "t0000 baseline" and "delta=" in labels[1]


def test_a_tie_with_plain_training_is_not_above_it(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.5], "baseline")
    case.add([0.5], "completed")
    verdict = report(case)[0].sections["verdict"]
    assert "against 0.5000 of the baseline (+0.0000). No trial was above the baseline on dev." in verdict


def test_a_p_of_exactly_a_twentieth_is_shown_for_new_seeds(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm(p_new=0.05)
    verdict = report(case)[0].sections["verdict"]
    assert verdict.startswith("VerdictYes: 'root n=2, turns' is better than the baseline, by 0.1000 map ")


def test_no_is_said_of_a_curriculum_that_is_worse_than_without_it(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm(verdict="worse")
    file = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(file.read_text())
    ablation = {"label": "baseline", "difference": -0.2, "p_adjusted": 0.001, "p_new_adjusted": 0.01, "mean": 0.6}
    ablation |= {"trial_id": "t0000", "sd": 0.0, "runs": [{}] * 3, "ci95_new": [-0.3, -0.1]}
    worse = {"difference": -0.1, "marks": "", "also_differs": ["training.lr"], "ablation": ablation}
    document["configurations"] = [document["configurations"][0] | worse]
    file.write_text(json.dumps(document))
    sections = report(case)[0].sections
    assert sections["verdict"].startswith("VerdictNo: 'root n=2, turns' is worse than the baseline")
    assert sections["configurations"].startswith("Configurationsconfigurationmap on test")
    assert sections["configurations"].count("worth") == 1, "the ablation stands in the second table alone"


def test_what_is_no_other_curriculum_is_said_to_be_none(tmp_path: Path) -> None:
    case = whole(tmp_path)
    case.confirm()
    file = case.search_folder.folder / "confirmation" / "test.json"
    document = json.loads(file.read_text())
    document["configurations"][0] |= {"also_differs": ["training.lr"], "has_curriculum": False}
    file.write_text(json.dumps(document))
    told = "It has no other curriculum than the baseline: what differs is training.lr."
    assert told in report(case)[0].sections["verdict"]


def test_latex_escapes_what_it_would_read() -> None:
    assert latex("a_b 50% {x} #1 $2 ~^\\") == (
        r"a\_b 50\% \{x\} \#1 \$2 \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_latex_names_the_split_and_sets_the_highest_mean_bold(tmp_path: Path) -> None:
    case = whole(tmp_path)
    assert "& map (dev) &" in latex_table(gather(case.write()))
    case.confirm()
    text = latex_table(gather(case.search_folder))
    assert "& map (test) &" in text and "% search toy; seeds 1, 2, 3\n" in text
    assert re.findall(r"\\textbf\{([\d.]+)\}", text) == ["0.6000"]


def test_csv_has_facts_and_parameters_to_the_last_digit(tmp_path: Path) -> None:
    findings = gather(whole(tmp_path).write())
    text = trials_csv(findings)
    lines = list(csv.DictReader(io.StringIO(text)))
    head = text.splitlines()[0].split(",")
    assert len(set(head)) == len(head) and head[:8] == [
        "trial", "outcome", "reason", "seed", "baseline", "iterations", "best_dev", "best_iteration",
    ]  # fmt: skip
    first, second = lines[0], lines[1]
    assert (first["seed"], first["baseline"], first["iterations"], first["best_iteration"]) == ("0", "true", "8", "3")
    assert second["baseline"] == "false"
    params = findings.state.trials[second["trial"]].params
    assert float(second["curriculum.delta"]) == params["curriculum.delta"]
