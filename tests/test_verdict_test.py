"""The verdict's test: all opponents together, several curricula, looks; its level, its power, and its sentences."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.power import Noise, draw, error_over_looks, found
from tests.support.confirm_documents import made_verdict, opponent, rich_verdict
from trainables.core.randomness import generator
from trainables.evaluation.crossed import UNKNOWN, crossed_tests
from trainables.evaluation.significance import holm
from tune_cl.results import Collapse, FixedSeeds, Look, Role, Verdict
from tune_cl.verdict.power import design_of
from tune_cl.verdict.sentences import badge, notes
from tune_cl.verdict.test import (
    Duel,
    Outcome,
    answer,
    compare,
    leader,
    least_favourable,
    level_of,
    outcomes,
    values_by_cluster,
    values_by_label,
)

NOTHING = "no difference shown"


def made_with(**tests: tuple[float, float]) -> list[Outcome]:
    """By role: a difference and its p."""
    roles: Any = tests
    return [
        Outcome(Duel("a", role, (role,)), UNKNOWN, difference, p, (0.0, 0.0), p)
        for role, (difference, p) in roles.items()
    ]


# -- the tests together --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tests", "verdict", "against"),
    [
        ({"champion": (0.02, 0.01), "twin": (0.01, 0.04), "default": (0.03, 0.001)}, "better", "twin"),
        ({"champion": (0.02, 0.01), "twin": (0.01, 0.06), "default": (0.03, 0.001)}, NOTHING, "twin"),
        ({"champion": (-0.02, 0.01), "twin": (-0.01, 0.04), "default": (0.03, 0.9)}, "worse", "twin"),
        ({"champion": (-0.02, 0.01), "twin": (0.01, 0.6), "default": (0.03, 0.9)}, NOTHING, "champion"),
        ({"champion": (0.0151, 0.02), "twin": (0.01, 0.15), "filter": (-0.0061, 0.046)}, NOTHING, "filter"),
        ({"champion": (-0.02, 0.08), "twin": (-0.001, 0.9), "default": (0.02, 0.001)}, NOTHING, "champion"),
        ({"champion": (0.001, 1.0), "twin": (-0.03, 1.0)}, NOTHING, "twin"),  # both corrected up to 1
        ({"champion": (0.02, 0.01), "twin": (0.01, 0.01), "filter": (0.0, 1.0)}, NOTHING, "filter"),
        ({"champion": (-0.02, 0.01), "twin": (0.03, 0.001), "default": (0.03, 0.001)}, NOTHING, "champion"),
        ({"champion": (0.0, 1.0), "twin": (0.0, 1.0), "default": (0.0, 1.0)}, NOTHING, "champion"),
        ({"champion": (0.1, math.nan), "default": (0.03, 0.001)}, NOTHING, "champion"),
        ({"default": (-0.02, 0.01), "filter": (-0.01, 0.04)}, NOTHING, "default"),
    ],
)  # fmt: skip
def test_better_needs_all_opponents_and_worse_needs_champion_and_twin(
    tests: dict[str, tuple[float, float]], verdict: str, against: str
) -> None:
    made = made_with(**tests)
    assert answer(made) == verdict and least_favourable(made).duel.opponent == against


@given(
    st.dictionaries(
        st.sampled_from(get_args(Role)), st.tuples(st.floats(-0.1, 0.1), st.floats(0, 1)), min_size=1, max_size=4
    )
)
def test_no_verdict_contradicts_an_opponent(tests: dict[str, tuple[float, float]]) -> None:
    made = made_with(**tests)
    if (verdict := answer(made)) == "better":
        assert all(difference > 0 and p <= 0.05 for difference, p in tests.values())
        assert least_favourable(made).p == max(p for _, p in tests.values())
    elif verdict == "worse":
        assert all(tests[role][0] < 0 and tests[role][1] <= 0.05 for role in ("champion", "twin") if role in tests)


def test_the_verdict_is_about_the_better_curriculum_or_the_first() -> None:
    nothing, better = made_with(champion=(-0.02, 0.01)), made_with(champion=(0.02, 0.01))
    assert leader({"a": nothing, "b": better}) == "b" and leader({"a": nothing}) == "a"
    assert leader({"a": nothing, "b": better, "c": made_with(champion=(0.03, 0.02))}) == "c", "the one furthest above"


def values_of(*levels: float, seeds: int = 4, queries: int = 60) -> dict[str, np.ndarray]:
    """Values around these levels."""
    return {
        str(place): level + draw(Noise(), (seeds, queries), generator(place, "values"))
        for place, level in enumerate(levels)
    }


def test_p_is_corrected_by_holm_over_curricula_not_over_opponents() -> None:
    values = values_of(0.5, 0.56, 0.53, 0.58)
    duels = [Duel(str(one), "0", ("champion",)) for one in (1, 2, 3)]
    alone = [one.test.p for of in outcomes(values, duels).values() for one in of]
    together = [one.p for of in outcomes(values, duels).values() for one in of]
    assert together == pytest.approx(holm(np.array(alone)))
    twin = [Duel("1", "0", ("champion",)), Duel("1", "2", ("twin",))]
    assert [one.p for one in outcomes(values, twin)["1"]] == [one.test.p for one in outcomes(values, twin)["1"]]
    assert all(math.isnan(one.p) for one in outcomes({name: v[:1] for name, v in values.items()}, twin)["1"])


def test_a_further_look_has_a_lower_level() -> None:
    assert [level_of(number) for number in range(1, 6)] == [0.05, 0.0063, 0.0024, 0.001, 0.0005]
    values, duel = values_of(0.56, 0.5), [Duel("0", "1", ("champion",))]
    [first], [second] = (outcomes(values, duel, level)["0"] for level in (0.05, 0.0063))
    assert second.p == pytest.approx(first.p * 0.05 / 0.0063) and second.ci95[0] < first.ci95[0]
    assert (second.p < 0.05) == (second.ci95[0] > 0 or second.ci95[1] < 0)


def test_an_opponent_that_varies_little_lends_nothing_to_one_that_varies_much() -> None:
    """The twin shares most of its training with the curriculum; the champion does not."""
    rng = np.random.default_rng(1)
    ours = rng.normal(0.5, 0.1, 300) + rng.normal(0, 0.03, (4, 1)) + rng.normal(0, 0.01, (4, 300))
    champion = ours + rng.normal(0, 0.03, (4, 1)) + rng.normal(0, 0.01, (4, 300)) - 0.02
    twin = ours + rng.normal(0, 0.001, (4, 300)) - 0.02
    alone, beside = (crossed_tests(pairs) for pairs in ([(ours, champion)], [(ours, champion), (ours, twin)]))
    assert alone[0] == beside[0]


def test_compare_is_the_test_of_values_from_anywhere() -> None:
    values = values_of(0.57, 0.5, 0.569)
    own, champion, twin = values.values()
    [alone] = compare(own, champion)
    assert alone.opponents[0].p == outcomes(values, [Duel("0", "1", ("champion",))])["0"][0].p
    [both] = compare(own[None], {"champion": champion, "twin": twin})
    assert both.verdict == NOTHING and both.opponents[0].roles == ("twin",)
    [paired] = compare(own, {"champion": champion}, paired=True)
    assert paired.opponents[0].p != alone.opponents[0].p and paired.fixed_seeds == alone.fixed_seeds
    for wrong, message in (({}, "one or more"), ({"twin": twin[:, :4]}, "twin"), ({"other": twin}, "champion, twin")):
        with pytest.raises(ValueError, match=message):
            compare(own, wrong)


# -- by simulation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spreads", [(0.0, 0.0), (0.03, 0.01)])
def test_all_looks_together_keep_their_level(spreads: tuple[float, float]) -> None:
    """benchmarks/power.py has the table."""
    *_, any_look = error_over_looks(spreads, 100, paired=False, repetitions=800)
    assert any_look <= 0.055 + 3 * math.sqrt(0.055 * 0.945 / 800)


def test_a_verdict_says_how_likely_it_was_to_find_a_gain() -> None:
    shown, said, detectable = found(seeds=5, queries=400, repetitions=200)
    assert said == pytest.approx(shown, abs=0.1) and 0.02 < detectable < 0.06
    values = values_of(0.5, 0.5, seeds=6)
    [one] = outcomes(values, [Duel("0", "1", ("champion",))])["0"]
    design = design_of([one.test], 60, 0.05)
    assert design
    by = design.detectable(6)
    assert design.power(6, by) == pytest.approx(0.8, abs=0.001)
    assert design_of([UNKNOWN], 60, 0.05) is None


# -- in words ------------------------------------------------------------------------------------------------------


def test_no_sentence_claims_more_than_its_test() -> None:
    said = " ".join(rich_verdict().sentences)
    assert said.startswith(
        "No difference shown: 'root n=2' is 0.0040 MAP below its own settings without the curriculum"
    )
    assert "may explain the gain" in said and "gain is that of" not in said
    for part in ("loss=cross_entropy", "in 40 % of cases", "test 2", "Note: a note.",
                 "Over these 3 seeds alone: worse", "Leaving out the pairs"):  # fmt: skip
        assert part in said, part


@pytest.mark.parametrize("verdict", ["better", "worse", NOTHING])
def test_badge_headline_and_table_agree(verdict: Any) -> None:
    made = made_verdict(opponent("champion"), opponent("twin"), verdict=verdict)
    begins = {"better": "Better", "worse": "Worse", NOTHING: "No difference shown"}[verdict]
    assert made.headline.startswith(begins) and str(made).startswith(made.headline)
    assert badge(made) == f"The curriculum: {verdict}"
    assert made.table["roles"].tolist() == ["curriculum", "champion", "twin"]


def test_trainings_that_collapse_are_named_first() -> None:
    collapses = tuple(Collapse(label="root n=2", seed=seed, value=0.1) for seed in (1, 2))
    made = made_verdict(collapses=collapses, verdict=NOTHING)
    assert "'root n=2' with seed 2 (0.1000 on test)" in notes(made, ())[0]


def test_a_verdict_on_dev_or_of_one_seed_says_so() -> None:
    assert badge(made_verdict(split="dev")).startswith("No verdict")
    fixed = FixedSeeds(verdict="better", ci95=(0.0, 0.1), p=0.01)
    one = opponent("champion", p=None, values=(0.5,), sd=None)
    made: Verdict = made_verdict(one, verdict=NOTHING, fixed_seeds=fixed, seeds=(1,), look=Look(), curriculum=one)
    assert "no interval" in made.headline and "Over these 1 seed alone: better" in str(made)


def test_near_duplicate_queries_are_tested_as_one() -> None:
    rows = [("a", seed, f"q{query}", query // 2, 0.1 * query + seed) for seed in (2, 1) for query in range(6)]
    frame = pd.DataFrame(rows, columns=["label", "seed", "query", "cluster", "value"])
    assert values_by_label(frame)["a"][0].tolist() == pytest.approx([2.0, 2.1, 2.2, 2.3, 2.4, 2.5]), "in its order"
    values = values_by_cluster(frame)["a"]
    assert values.shape == (2, 3) and values.mean(axis=1) == pytest.approx([2.25, 1.25])
