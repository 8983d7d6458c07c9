"""What a verdict and a search say: facts in, parts out; and each renderer's text of one with all that there may be."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.confirm_documents import figures_of, made_verdict, opponent_of, row_of, run_of, runs_of
from tests.support.story_cases import GOLDENS, RENDERED, rich_verdict
from tests.support.terminal import Terminal, result
from tune_cl.cli import command_of
from tune_cl.confirmation.decisions import collapses, in_two_groups, untaught_runs
from tune_cl.confirmation.verdict import NOT_SHOWN, Fair, VerdictFacts, verdict_of
from tune_cl.report.story import badge, explanations, headline, notes, of_search, of_verdict, opponent, shared_gain
from tune_cl.results import LabelFree, SearchResult

UNKNOWN = math.nan, math.nan
BELOW = opponent_of("champion", **figures_of(-0.0092, 0.02, 0.02))
UNDECIDED = opponent_of("twin", **figures_of(-0.001, 0.8, 0.8))


@pytest.mark.parametrize("name", RENDERED)
def test_every_renderer_shows_the_story_as_it_was_approved(name: str) -> None:
    assert RENDERED[name]() == (GOLDENS / name).read_text(), "python -m tests.support.story_cases, if it is meant"


def test_on_a_terminal_sentences_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = command_of("confirm").render(rich_verdict())
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = command_of("confirm").render(rich_verdict())
    first, told = whole.partition("\n\n")[0].splitlines(), shown.partition("\n\n")[0].splitlines()
    assert len(first[1]) > 60 >= max(map(len, told)) and " ".join(told) == " ".join(first)
    assert shown.splitlines()[-1] == whole.splitlines()[-1], "a command to copy"


def test_a_verdict_is_read_back_from_its_json() -> None:
    found = replace(rich_verdict(), default=None)
    assert verdict_of(found.document) == found
    for name in ("seeds", "asked", "components", "fair"):
        with pytest.raises(ValueError, match=f"lacks {name}"):
            verdict_of({key: value for key, value in found.document.items() if key != name})


# -- the verdict ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "word"), [("better", "helps"), (NOT_SHOWN, "No evidence"), ("worse", "harms")])
def test_a_badge_has_a_subject(verdict: str, word: str) -> None:
    found = made_verdict(row_of(0.01, 0.01), verdict=verdict)
    assert word in badge(found) and "the curriculum" in badge(found).lower()
    assert "curriculum" not in badge(replace(found, plain="with margin=1"))
    assert badge(replace(found, split="dev")).startswith("No verdict")


@pytest.mark.parametrize(
    ("verdict", "row", "told"),
    [
        ("better", row_of(0.0123, 0.01, 0.003, ci95_new=(0.004, 0.0206)),
         "Better: 'root' is 0.0123 MAP above plain training, tuned over 6 trials (lr) (95 % CI +0.0040 to +0.0206), "
         "for new queries and new trainings (p = 0.003, 3 seeds, 12 queries)."),
        ("worse", row_of(-0.0123, 0.02, 0.03, ci95_new=(-0.02, -0.004)),
         "Worse: 'root' is 0.0123 MAP below plain training, tuned over 6 trials (lr) (95 % CI -0.0200 to -0.0040), "
         "for new queries and new trainings (p = 0.03, 3 seeds, 12 queries)."),
        ("better", row_of(0.01, 0.02, 0.02, runs=1, ci95_new=(0.001, 0.02), seed_matters=False),
         "Better: 'root' is 0.0100 MAP above plain training, tuned over 6 trials (lr) (95 % CI +0.0010 to +0.0200), "
         "for new queries; the seed changes nothing (p = 0.02, 1 seed, 12 queries)."),
    ],
)  # fmt: skip
def test_the_headline_names_opponent_size_and_what_it_holds_for(verdict: str, row: Any, told: str) -> None:
    assert headline(made_verdict(row, verdict=verdict)) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "CI -0.0172 to +0.0011 (p"),
        ({"ci95_new": (-0.0172, -0.0011), "p_new_adjusted": 0.076}, "-0.0172 to -0.0011, uncorrected"),
        ({"ci95_new": (-0.0172, -0.0011), "p_new_adjusted": 0.02, "opponents": (BELOW,)}, "recommended another"),
        (
            {"ci95_new": (-0.0172, -0.0011), "p_new_adjusted": 0.02, "opponents": (BELOW, UNDECIDED)},
            "-0.0172 to -0.0011, but it is not significantly below its own settings without the curriculum (p",
        ),
        ({"ci95_new": (0.0011, 0.0172), "p_new_adjusted": 0.076}, "+0.0011 to +0.0172, uncorrected"),
        ({"ci95_new": (0.0, 0.0), "p_new_adjusted": 1.0}, "all equal"),
        ({"ci95_new": UNKNOWN, "p_new_adjusted": math.nan}, "all equal"),
        ({"ci95_new": UNKNOWN, "p_new_adjusted": math.nan, "runs": runs_of(1)}, "; one seed says"),
    ],
)
def test_where_no_difference_is_shown_the_interval_does_not_say_that_one_is(changes: dict[str, Any], told: str) -> None:
    """The interval is of one configuration, the test of all."""
    row = replace(row_of(-0.0092, 0.3, 0.09, ci95_new=(-0.0172, 0.0011)), **changes)
    said = headline(made_verdict(row, row, verdict=NOT_SHOWN))
    assert told in said and ("p = " in said) == (row.p > 0)
    assert "Holm over 2 configurations" in said


def test_the_headline_says_what_was_drawn_once_or_anew_and_how_many_clusters_there_are() -> None:
    better = made_verdict(row_of(0.01, 0.01, ci95_new=(0.001, 0.02)))
    assert "new trainings and new teachers" in headline(replace(better, teachers="anew"))
    for verdict in ("better", NOT_SHOWN):
        once = headline(replace(better, verdict=verdict, teachers="once", noise="once"))
        assert "with this one teacher and this draw of the label noise" in once
    assert "12 queries in 5 clusters)" in headline(replace(better, clusters=5))


@pytest.mark.parametrize(
    ("needed", "more"), [(9, "; 9 seeds would be needed to detect the observed 0.0123."), (None, ".")]
)
def test_what_is_not_shown_is_told_with_what_could_be(needed: int | None, more: str) -> None:
    found = made_verdict(row_of(0.0123, 0.01, 0.2), verdict=NOT_SHOWN, these_seeds="better")
    told = explanations(replace(found, detectable=0.018, seeds_needed=needed))
    assert told == [
        "They may still differ.",
        f"Minimum detectable difference: 0.0180 MAP (3 seeds, 80 % power){more}",
        "Over these 3 seeds alone 'root' is better (p = 0.01); other seeds may differ.",
    ]


def test_a_gain_that_the_twin_shares_is_explained_by_the_settings_of_both() -> None:
    """The newcomer's case: only the curriculum's arm drew the loss that helps."""
    row = rich_verdict().leader
    assert shared_gain(rich_verdict()) in explanations(rich_verdict())
    beaten = replace(row.opponents[1], difference=0.004, size=0.004, p_new_adjusted=0.01)
    clear = replace(rich_verdict(), configurations=(replace(row, opponents=(row.opponents[0], beaten)),))
    assert shared_gain(clear) == "", "where the twin is beaten the gain is the curriculum's"


@pytest.mark.parametrize("verdict", ["better", NOT_SHOWN, "worse"])
def test_another_question_names_its_baseline_and_no_curriculum(verdict: str) -> None:
    tests = {"champion": (0.01, 0.02), "twin": (0.004, 0.6), "default": (0.02, 0.01)}
    rows = tuple(opponent_of(role, **figures_of(size, 0.02, p)) for role, (size, p) in tests.items())
    for one in rows:
        lead = row_of(one.size, 0.02, one.p, against=one.label, opponents=rows, has_curriculum=False)
        fair = Fair(True, ("training.lr",), {"plain": 5, "curriculum": 4})
        found = made_verdict(lead, verdict=verdict, plain="with margin=1", fair=fair)
        told = " ".join(of_verdict(found)[0].sentences)
        assert "margin=1" in told and "curricul" not in told and "plain" not in told
    untuned = replace(found, fair=replace(fair, tuned=False))
    assert opponent(untuned, rows[0]) == "margin=1 as given (not tuned)"


# -- notes ---------------------------------------------------------------------------------------------------------


def test_an_arm_that_fails_under_some_seeds_or_learns_nothing_is_named() -> None:
    values = {"baseline": np.array([[0.2] * 4] * 3 + [[0.6] * 4] * 2), "root": np.linspace(0.5, 0.6, 20).reshape(5, 4)}
    rows = [
        replace(row_of(0, 1, label=label), runs=tuple(run_of(seed, dev=dev) for seed in (3, 4)))
        for label, dev in (("baseline", 0.48), ("root", 0.2))
    ]
    low = untaught_runs(rows, [0.5, 0.52, 0.51, 0.49])
    assert [(one.label, one.seed, one.dev) for one in low] == [("root", 3, 0.2), ("root", 4, 0.2)]
    assert untaught_runs(rows, [0.5, 0.52]) == (), "two trials say nothing of what is usual"
    found = made_verdict(row_of(0.0123, 0.01, runs=5), two_groups=in_two_groups(values), untaught=low)
    unsteady, learned = notes(found)
    assert unsteady.startswith("'baseline' fails")
    assert "'root' with seed 3 and 4" in learned and "0.2000" in learned


def _fallen(fell: dict[int, float], runs: int) -> VerdictFacts:
    """Plain trainings collapsed, by seed."""
    of_seeds = tuple(run_of(seed, fell.get(seed, 0.59)) for seed in range(1, runs + 1))
    values = {"baseline": np.array([[run.value] * 4 for run in of_seeds]), "root": np.full((runs, 4), 0.6)}
    opponents = (opponent_of("champion", **figures_of(0.01, 0.01, 0.2)),)
    row = row_of(0.0123, 0.01, 0.2, runs=runs, opponents=(replace(opponents[0], runs=of_seeds),))
    return made_verdict(row, verdict=NOT_SHOWN, collapsed=collapses(values, range(1, runs + 1)))


def test_collapses_are_told_first_and_few_seeds_of_such_trainings_are_too_few() -> None:
    found = _fallen({3: 0.465, 7: 0.468}, runs=10)
    assert [(one.label, one.seed) for one in found.collapsed] == [("baseline", 3), ("baseline", 7)]
    assert notes(found)[0].startswith("trainings collapsed") and not found.too_few_seeds, "eight sound seeds"
    assert not _fallen({2: 0.465}, runs=7).too_few_seeds and not _fallen({}, runs=3).too_few_seeds
    few = _fallen({2: 0.465}, runs=6)
    assert few.too_few_seeds and "(seed 2 of 'baseline')" in headline(few)


def test_how_often_trainings_fail_is_said_once_three_of_a_configuration_collapsed() -> None:
    """Then the verdict is one on the means, failures and all."""
    found = _fallen({3: 0.465, 7: 0.468, 9: 0.46}, runs=10)
    [said] = notes(found)
    assert "3 of 10 of 'baseline', 0 of 10 of 'root'" in said and "without" not in said
    assert not found.too_few_seeds and "too few" not in headline(_fallen({2: 0.46, 3: 0.46, 5: 0.46}, runs=7))


@pytest.mark.parametrize(("mean", "below"), [(0.52, True), (0.505, False)])
def test_what_needs_no_labels_stands_beside_the_verdict(mean: float, below: bool) -> None:
    first = LabelFree(label="BM25", mean=0.49)
    found = made_verdict(row_of(0.0123, 0.01), first_stage=first, label_free=LabelFree(label="SDM", mean=mean))
    assert [note.startswith(f"SDM alone has {mean:.4f}") for note in notes(found)] == [True] * below
    table = of_verdict(found)[1].table
    assert table and [row[:3] for row in table.rows[:2]] == [("", "BM25", "0.4900"), ("", "SDM", f"{mean:.4f}")]
    same = of_verdict(replace(found, label_free=first))[1].table
    assert same and [row[1] for row in same.rows] == ["BM25", "baseline", "root"], "one row where they are the same"


# -- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "correction", "told"), [(1, "holm", False), (2, "none", False), (2, "holm", True), (3, "bh", True)]
)
def test_where_p_is_corrected_and_intervals_are_not_it_is_said(rows: int, correction: str, told: bool) -> None:
    found = made_verdict(*[row_of(0.01, 0.02)] * rows, correction=correction)
    trainings, tests = of_verdict(found)[1:]
    assert (f"p is corrected for all {rows}." in " ".join(tests.sentences)) == told
    assert trainings.table and trainings.table.rows[-1] == ("t0001", "root", "0.5123", "0.0125")
    assert tests.table and tests.table.columns[4] == ("p" if correction == "none" else "p adjusted")
    assert tests.table.rows[0] == ("t0001", "t0000 champion", "+0.0100", "[-0.0200, +0.0400]", "0.040", "")
    [alone] = [part for part in of_verdict(made_verdict(row_of(0.01, 0.02, runs=1))) if part.title == "MAP on test"]
    assert alone.table and "SD" not in alone.table.columns, "one seed has no spread"


# -- a search ------------------------------------------------------------------------------------------------------


def told(found: SearchResult) -> str:
    return " ".join(sentence for part in of_search(found) for sentence in part.sentences)


def table_of(found: SearchResult) -> dict[str, tuple[str, ...]]:
    [table] = [part.table for part in of_search(found) if part.table]
    return {row[0]: row[1:] for row in (table.columns, *table.rows)}


def test_the_best_trial_stands_beside_the_default_with_the_keys_that_differ() -> None:
    found = table_of(result(0.5, 0.4))
    assert found[""] == ("best curriculum (t0001)", "plain, default (t0000)") and found["dev x"] == ("0.5000", "0.4000")
    assert found["training.lr"] == ("3e-05", "0.001") and found["curriculum.m"] == ("10", "–"), "with their own digits"
    assert "curriculum.anti" not in found
    assert table_of(result(0.4, 0.45, best_curriculum=None))[""] == ("plain, default (t0000)",)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (result(0.5, 0.4), "The best curriculum was 0.1000 x above plain training as given on dev."),
        (result(0.4, 0.45), "No curriculum beat plain training as given on dev: the best, t0001, was 0.0500 x below."),
        (result(0.45, 0.45), "the best, t0001, was equal in x to four digits."),
        (result(0.5, 0.4, tuned=0.45), "Tuning plain training (2 trials over lr) gained 0.0500 x on dev. "
         "The best curriculum was 0.0500 x above tuned plain training on dev."),
        (result(0.44, 0.4, tuned=0.45), "No curriculum beat tuned plain training"),
        (result(0.5, 0.4, tuned=0.4), "found nothing better than its default"),
        (result(0.5, 0.4, tuned=0.45), "4 trials, 2 plain and 2 with a curriculum (1 stopped early, 0 failed)"),
        (result(0.5, 0.4), "Plain training was not tuned"),
        (result(0.4, 0.45, best_curriculum=None), "No trial but plain training as given gave a dev value"),
        (result(0.5, 0.4, best_plain=None, default=None), "There is no dev value of plain training as given"),
        (result(0.5, 0.4, tuned=0.45, plain="margin=1"), "The best other trial was 0.0500 x above tuned margin=1"),
        (result(0.5, 0.4, first_stage=LabelFree(label="BM25", mean=0.45), label_free=LabelFree(label="SDM", mean=0.47)),
         "BM25 has 0.4500 and SDM has 0.4700 x on dev."),
    ],
)  # fmt: skip
def test_a_search_says_what_tuning_and_what_the_curriculum_were_worth(found: SearchResult, said: str) -> None:
    assert said in told(found)


@pytest.mark.parametrize("none", [False, True])
def test_a_search_without_curricula_speaks_of_none(none: bool) -> None:
    best = {"best_curriculum": None} if none else {}
    found = result(0.4, 0.45, plain=None, **best)
    assert "curriculum" not in told(found) and "plain training" not in told(found)
    other = result(0.4, 0.45, plain="margin=1", **best)
    assert "curriculum" not in told(other) and "plain training" not in told(other).lower()
    assert "margin=1" in told(other) and (none or "margin=1 was not tuned" in told(other))
