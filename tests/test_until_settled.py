"""`tune-cl confirm --until-settled`: when it ends, what the looks may spend, and what a kill changes: nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from tests.support.confirm_cases import LABELS, confirm, confirmed, confirmed_folder, data, state_of, trainer
from trainables.core.errors import Interrupted
from trainables.core.randomness import generator
from trainables.evaluation.significance import Components, CrossedTest
from tune_cl import run_confirmation as runner
from tune_cl.confirmation import looks
from tune_cl.confirmation.intersection import Opposed
from tune_cl.confirmation.looks import (
    bias_adjusted,
    boundary,
    conditional_power,
    look_at,
    nominal_levels,
    overall,
    reading_levels,
)
from tune_cl.confirmation.verdict import corrected_tests, power_of
from tune_cl.history.search_folder import SearchFolder
from tune_cl.space.wording import DEFAULT

__all__ = ["confirmed", "confirmed_folder", "data", "trainer"]  # fixtures


def test_levels_spend_what_they_may() -> None:
    """Against the normal distribution of the looks in several dimensions, by scipy's quadrature."""
    levels = nominal_levels((1, 2, 3), 3, exponent=2.0)
    bounds, times = -ndtri(levels / 2), np.arange(1, 4) / 3
    for count in (2, 3):
        time = times[:count]
        correlation = np.sqrt(np.minimum.outer(time, time) / np.maximum.outer(time, time))
        inside = multivariate_normal(np.zeros(count), correlation, abseps=1e-6).cdf(
            bounds[:count], lower_limit=-bounds[:count]
        )
        assert 1 - inside == pytest.approx(0.05 * time[-1] ** 2, abs=1e-4)
    assert levels[0] == pytest.approx(0.05 / 9, rel=1e-3)


def test_levels_are_as_in_the_literature() -> None:
    """Bounds of the power family t^2, five looks at two-sided .05: 3.09 at the first, near 2.11 at the last."""
    bounds = -ndtri(nominal_levels((1, 2, 3, 4, 5), 5, exponent=2.0) / 2)
    assert bounds == pytest.approx([3.0902, 2.714, 2.473, 2.281, 2.114], abs=2e-3)


@settings(max_examples=20)
@given(st.sampled_from((3, 4, 20)), st.data())
def test_an_overall_p_is_at_most_5_percent_exactly_at_the_boundary(most: int, drawn: st.DataObject) -> None:
    seeds = drawn.draw(st.integers(3, most))
    level = boundary(seeds, most)
    assert overall(level * 0.999, seeds, most) < 0.05 < overall(min(level * 1.001, 1), seeds, most)


@given(st.floats(1e-6, 1), st.integers(3, 20))
def test_looking_often_never_makes_p_smaller(p: float, seeds: int) -> None:
    assert p <= overall(p, seeds, 20) <= 1


def test_one_look_at_the_end_costs_nothing() -> None:
    assert overall(0.03, 3, 3) == pytest.approx(0.03, rel=1e-3)


def test_readings_spend_a_tenth_more_than_the_first() -> None:
    """Against the normal distribution of the readings in several dimensions."""
    levels = reading_levels((5, 10, 20))
    assert reading_levels((5,)) == pytest.approx([0.05], rel=1e-3) and levels[0] == pytest.approx(0.05, rel=1e-3)
    time, bounds = np.array([5, 10, 20]) / 20, -ndtri(levels / 2)
    correlation = np.sqrt(np.minimum.outer(time, time) / np.maximum.outer(time, time))
    inside = multivariate_normal(np.zeros(3), cast(Any, correlation), abseps=1e-6).cdf(bounds, lower_limit=-bounds)
    assert 1 - inside == pytest.approx(0.05375, abs=1e-4)


@given(st.lists(st.integers(2, 40), min_size=2, max_size=4, unique=True).map(sorted), st.floats(-0.02, 0.02))
@settings(max_examples=10)
def test_a_further_reading_knows_of_those_before(readings: list[int], mean: float) -> None:
    judged = [_judged([mean], 4, noise=0.05)["a"].tests["plain"]]
    assert looks.at_reading(judged, readings[:1]) == judged
    [one], level = looks.at_reading(judged, readings), float(reading_levels(tuple(readings))[-1])
    assert one.test.new.p >= judged[0].test.new.p and level < 0.05
    assert (one.test.new.p <= 0.05) == (one.test.new.ci95[0] > 0 or one.test.new.ci95[1] < 0)


@given(st.floats(1e-4, 0.2), st.sampled_from((5, 20)), st.floats(0, 1e-3), st.floats(0, 1e-3))
@settings(max_examples=30)
def test_what_remains_of_a_size_is_smaller_of_the_same_sign_and_nothing_is_lost_of_clear_ones(
    difference: float, most: int, of_seed: float, of_query: float
) -> None:
    new = CrossedTest(0.01, (0.0, 0.0), Components(of_seed, of_query, 0.05))
    left = bias_adjusted(difference, new, 800, most)
    error = math.sqrt((of_seed + 0.05 / 800) / most + of_query / 800)
    assert 0 < left <= difference * 1.02 and bias_adjusted(-difference, new, 800, most) == -left
    assert left >= 0.25 * difference and (difference > 3 * error or left < 0.9 * difference)


def test_a_size_without_noise_of_seeds_stays() -> None:
    assert bias_adjusted(0.01, CrossedTest(0.0, (0.0, 0.0), Components(0.0, 0.01, 0.0)), 800, 20) == 0.01


def test_conditional_power_known_answers() -> None:
    """Only seeds vary: with 4 of 16 seeds, error .01/4 at the end, difference 1.96 x .0025: an even chance."""
    only_seeds = Components(1e-4, 0.0, 0.0)
    above, below = conditional_power(np.array(1.959964 * 0.0025), only_seeds, 100, 4, 16, 0.05)
    assert above == pytest.approx(0.5, abs=1e-6)
    assert below < 0.02
    # Only queries vary: nothing that further seeds bring can change the test.
    only_queries = Components(0.0, 0.01, 0.0)
    shown = [float(conditional_power(np.array(each), only_queries, 100, 4, 16, 0.05)[0]) for each in (0.019, 0.02)]
    assert shown == [0.0, 1.0]


def _judged(means: list[float], seeds: int, noise: float = 0.005) -> dict[str, Any]:
    rng = generator(1, "looks")
    baseline = rng.normal(0.5, 0.01, (seeds, 200))
    pairs = [(baseline + mean + rng.normal(0, noise, (seeds, 200)), baseline) for mean in means]
    return _opposed("abc", pairs)


def _opposed(labels: str, pairs: list[Any]) -> dict[str, Opposed]:
    """Each configuration against the champion alone."""
    tests = corrected_tests(pairs, "holm")
    return {
        label: Opposed({"plain": ("champion",)}, {"plain": test}) for label, test in zip(labels, tests, strict=False)
    }


def test_a_clear_difference_is_settled_at_the_first_look() -> None:
    found = look_at(_judged([0.0, 0.05], 3), "a", 200, 3, 20)
    assert (found.decision, found.label, found.seeds) == ("better", "b", 3)
    assert found.p_new <= found.boundary


def test_only_the_recommended_one_can_make_it_worse() -> None:
    judged = _judged([-0.05, 0.0], 3)
    assert look_at(judged, "a", 200, 3, 20).decision == "worse"
    found = look_at(judged, "b", 200, 3, 20)
    assert found.decision != "worse"
    assert "a" in found.hopeless


def test_a_worse_recommended_one_does_not_end_it_while_another_may_be_better() -> None:
    """More seeds may show the second one, whose trainings differ more."""
    rng = generator(5, "looks")
    baseline = rng.normal(0.5, 0.01, (6, 200))
    promising = baseline + 0.03 + np.linspace(-0.07, 0.07, 6)[:, None] + rng.normal(0, 0.005, (6, 200))
    worse = baseline - 0.05 + rng.normal(0, 0.005, (6, 200))
    judged = _opposed("ab", [(worse, baseline), (promising, baseline)])
    found = look_at(judged, "a", 200, 6, 20)
    assert (found.label, found.decision) == ("a", "continue") and found.p_new <= found.boundary
    assert look_at(judged, "a", 200, 6, 6).decision == "worse"


def test_a_look_names_the_configuration_that_is_better_not_one_that_is_more_clearly_worse() -> None:
    found = look_at(_judged([-0.2, 0.05], 3), "a", 200, 3, 20)
    assert (found.label, found.decision) == ("b", "better") and found.difference > 0


def test_what_hardly_differs_is_hopeless_where_seeds_hardly_matter() -> None:
    baseline = generator(2, "looks").normal(0.5, 0.1, (4, 150))
    queries = generator(3, "looks").normal(0, 0.1, 150)
    pair = (baseline + queries - queries.mean() + 0.001 + generator(4, "l").normal(0, 0.01, (4, 150)), baseline)
    found = look_at(_opposed("a", [pair]), "a", 150, 4, 20)
    assert found.decision == "hopeless"


def test_better_ends_it_only_against_every_opponent_and_one_that_cannot_be_beaten_makes_it_hopeless() -> None:
    far, close = _judged([0.05, 0.0], 3).values()
    weak, strong = far.tests["plain"], close.tests["plain"]
    both = Opposed({"plain": ("champion",), "own": ("twin",)}, {"plain": weak, "own": strong})
    found = look_at({"a": both}, "a", 200, 3, 20)
    assert found.decision != "better" and found.against == "own"
    same = Opposed({"plain": ("champion",), "own": ("twin",)}, {"plain": weak, "own": weak})
    assert look_at({"a": same}, "a", 200, 3, 20).decision == "better"


def test_the_last_look_decides() -> None:
    judged = _judged([0.0, 0.0], 5, noise=0.2)
    assert look_at(judged, "a", 200, 5, 5).decision == "no difference shown"


def test_differences_that_are_all_equal_are_no_verdict() -> None:
    baseline = np.tile(np.linspace(0, 1, 50), (3, 1))
    found = look_at(_opposed("a", [(baseline + 0.01, baseline)]), "a", 50, 3, 20)
    assert found.decision == "continue"
    assert math.isnan(found.p_new)
    assert "no test" in found.in_words() and "nan" not in found.in_words()


def test_differences_without_variance_say_nothing_of_what_could_be_shown() -> None:
    values = generator(5, "looks").random((3, 50))
    [same] = corrected_tests([(values, values)], "holm")
    assert power_of(same, 3, 50, 0.05, True) == {"detectable": None, "seeds_needed": None, "components": None}


def test_intervals_exclude_zero_exactly_where_the_look_rejects() -> None:
    for mean in np.linspace(-0.01, 0.01, 21):
        judged = _judged([float(mean)], 4, noise=0.05)["a"].tests["plain"]
        [one] = looks.at_look([judged], 4, 12)
        low, high = one.test.new.ci95
        assert (one.test.new.p <= 0.05) == (low > 0 or high < 0)


# -- with real trainings of a tiny ranker; two seeds are trained already --------------------------------------------


def test_looks_are_in_document_and_journal(confirmed_folder: SearchFolder, trainer: Any) -> None:
    document = confirm(confirmed_folder, until_settled=True, max_seeds=5, top=2)
    seeds = [look["seeds"] for look in document["looks"]]
    assert seeds == list(range(3, seeds[-1] + 1)) and len(document["seeds"]) == seeds[-1]
    assert all(look["decision"] == "continue" for look in document["looks"][:-1])
    assert document["looks"][-1]["decision"] != "continue"
    assert [look["seeds"] for look in state_of(confirmed_folder).looks] == seeds
    assert {row["label"] for row in document["configurations"]} | {one["label"] for one in document["dropped"]}


def test_p_values_follow_the_looks(
    confirmed_folder: SearchFolder, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the end, so that a fixed design with the same seeds can be asked for."""
    monkeypatch.setattr(looks, "LEAST_POWER", 0.0)
    document = confirm(confirmed_folder, until_settled=True, max_seeds=4, top=1)
    fixed = confirm(confirmed_folder, seeds=4, top=1)
    [row], [alone] = (each["configurations"][0]["opponents"][:1] for each in (document, fixed))
    assert row["p_new"] == pytest.approx(overall(alone["p_new"], 4, 4))
    assert row["ci95_new"][0] < alone["ci95_new"][0]
    assert (row["p_new"] <= 0.05) == (row["ci95_new"][0] > 0 or row["ci95_new"][1] < 0)
    assert any("was read" in note for note in fixed["notes"])


def test_a_killed_one_goes_on(confirmed_folder: SearchFolder, trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LEAST_POWER", 0.0)
    trainer.left = 5  # the first look has been taken
    with pytest.raises(Interrupted) as stop:
        confirm(confirmed_folder, until_settled=True, max_seeds=5, top=2, each=True)
    assert "--until-settled --max-seeds 5" in str(stop.value)
    assert [look["seeds"] for look in state_of(confirmed_folder).looks] == [3]
    trainer.left = 1000
    again = confirm(confirmed_folder, until_settled=True, max_seeds=5, top=2, each=True)
    assert len(trainer.trained) == len(set(trainer.trained))
    assert [look["seeds"] for look in state_of(confirmed_folder).looks] == [one["seeds"] for one in again["looks"]]


def test_who_is_hopeless_gets_no_more_seeds(
    confirmed_folder: SearchFolder, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hopeless(tests: Any, recommended: str, queries: int, seeds: int, most: int) -> looks.Look:
        found = look_at(tests, recommended, queries, seeds, most)
        return found if seeds == most else replace(found, decision="continue", hopeless=frozenset({LABELS[0]}))

    monkeypatch.setattr(runner, "look_at", hopeless)
    document = confirm(confirmed_folder, until_settled=True, max_seeds=4, top=2, each=True)
    assert trainer.trained == [*(f"{of}, seed 4" for of in (DEFAULT, *LABELS, "plain lr=0.02")), f"{DEFAULT}, seed 5",
                            f"{LABELS[1]}, seed 5"]  # fmt: skip
    [row] = document["configurations"]
    assert row["label"] == LABELS[1] and document["dropped"] == [{"label": LABELS[0], "seeds": [1, 3, 4]}]
    assert row["p_adjusted"] == row["p_value"] and row["p_new_adjusted"] > row["p_new"], "of two"
    trainer.trained.clear()
    assert (
        confirm(confirmed_folder, until_settled=True, max_seeds=4, top=2, each=True) == document
        and trainer.trained == []
    )


def test_a_look_without_a_p_value_is_recorded_once(
    confirmed_folder: SearchFolder, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where all differences are equal."""
    monkeypatch.setattr(runner, "look_at", lambda *given: replace(look_at(*given), p_new=math.nan))
    for _ in range(2):
        confirm(confirmed_folder, until_settled=True, max_seeds=3, top=1)
    [look] = state_of(confirmed_folder).looks
    assert math.isnan(look["p_new"])
