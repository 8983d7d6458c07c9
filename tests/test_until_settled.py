"""`tune-cl confirm --until-settled`: when it ends, what the looks may spend, and what a kill changes: nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri, stdtr, stdtrit
from scipy.stats import multivariate_normal

from tests.support.confirm_cases import LABELS, confirm, confirmed, confirmed_folder, data, state_of, trainer
from trainables.core.errors import Interrupted
from trainables.core.randomness import generator
from trainables.evaluation.significance import Components
from tune_cl import run_confirmation as runner
from tune_cl.confirmation import looks
from tune_cl.confirmation.decisions import Power, corrected_tests, power_of
from tune_cl.confirmation.intersection import Opposed
from tune_cl.confirmation.looks import (
    LAG,
    boundary,
    conditional_power,
    look_at,
    nominal_levels,
    reading_levels,
    stagewise,
)
from tune_cl.confirmation.verdict import NOT_SHOWN
from tune_cl.history.search_folder import SearchFolder
from tune_cl.space.wording import DEFAULT

__all__ = ["confirmed", "confirmed_folder", "data", "trainer"]  # fixtures


def _inside(levels: np.ndarray, looks: list[int], most: int) -> float:
    """The chance that no look shows anything where nothing differs, by scipy's quadrature in several dimensions."""
    times = (np.array(looks) - LAG) / (most - LAG)
    correlation: Any = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))
    bounds = -ndtri(levels / 2)
    return float(multivariate_normal(np.zeros(len(looks)), correlation, abseps=1e-6).cdf(bounds, lower_limit=-bounds))


def test_levels_spend_what_they_may() -> None:
    levels = nominal_levels((3, 4, 6), 6)
    for count in (2, 3):
        spent = 1 - _inside(levels[:count], [3, 4, 6][:count], 6)
        assert spent == pytest.approx(0.05 * ([3, 4, 6][count - 1] / 6) ** 4, abs=1e-4)
    assert levels[0] == pytest.approx(0.05 / 16, rel=1e-3)


def test_levels_are_as_in_the_literature() -> None:
    """Bounds of the power family t^2, five looks at two-sided .05: 3.09 at the first, near 2.11 at the last."""
    times = np.arange(1, 6) / 5
    bounds = -ndtri(looks._levels(times, 0.05 * times**2) / 2)  # pyright: ignore[reportPrivateUsage]
    assert bounds == pytest.approx([3.0902, 2.714, 2.473, 2.281, 2.114], abs=2e-3)


def test_readings_spend_a_tenth_more_than_the_first() -> None:
    levels = reading_levels((5, 10, 20))
    assert reading_levels((5,)) == pytest.approx([0.05], rel=1e-3) and levels[0] == pytest.approx(0.05, rel=1e-3)
    assert 1 - _inside(levels, [5, 10, 20], 20) == pytest.approx(0.05375, abs=1e-4)


def test_looks_after_a_reading_share_what_that_left() -> None:
    """The reading keeps its own level, with fewer seeds there is no verdict a second time, and all looks after it
    spend a tenth of the error."""
    assert boundary(5, 20, (5,)) == pytest.approx(0.05, rel=1e-3) and boundary(4, 20, (5,)) == 0
    later = [boundary(seeds, 20, (5,)) for seeds in range(6, 21)]
    assert later == sorted(later) and 0.002 < later[-1] < 0.005
    spent = 1 - _inside(np.array(later[-4:]), [17, 18, 19, 20], 20)
    assert spent < 0.005 and boundary(20, 20, (5, 8)) < later[-1]


@given(st.lists(st.integers(2, 40), min_size=2, max_size=4, unique=True).map(sorted), st.floats(-0.02, 0.02))
@settings(max_examples=10)
def test_a_further_reading_knows_of_those_before(readings: list[int], mean: float) -> None:
    judged = _tests([mean], 4, noise=0.05)
    assert looks.at_reading(judged, readings[:1]) == judged
    [one], level = looks.at_reading(judged, readings), float(reading_levels(tuple(readings))[-1])
    assert one.test.new.p >= judged[0].test.new.p and level < 0.05
    assert (one.test.new.p <= 0.05) == (one.test.new.ci95[0] > 0 or one.test.new.ci95[1] < 0)


# -- one ordering ------------------------------------------------------------------------------------------------------

SEEN = st.sampled_from([(3, 6), (4, 6), (6, 6), (5, 12), (12, 12)])  # seeds, and at most


def _before(seeds: int, most: int) -> dict[int, float]:
    return {look: boundary(look, most) for look in range(3, seeds)}


@given(st.floats(-6, 6), st.floats(1, 30), SEEN)
@settings(max_examples=60, deadline=None)
def test_p_interval_and_size_of_the_looks_say_the_same(t: float, freedom: float, seen: tuple[int, int]) -> None:
    """The interval excludes 0 exactly where p is below .05, holds the size, and turns round with the sign; looks never
    make p smaller, nor the size larger."""
    found = stagewise(t * 0.01, 0.01, freedom, seen[0], _before(*seen))
    (low, high), turned = found.interval, stagewise(-t * 0.01, 0.01, freedom, seen[0], _before(*seen))
    assert (found.p < 0.05) == (low > 0 or high < 0)
    assert low <= found.median <= high
    same = (*turned.interval, turned.median, turned.p)
    assert same == pytest.approx((-high, -low, -found.median, found.p), abs=1e-9)
    assert found.p >= 2 * stdtr(freedom, -abs(t)) * (1 - 1e-3)
    assert abs(found.median) <= abs(t) * 0.01 * 1.01 + 1e-6


@given(st.floats(-6, 6), st.floats(1, 30))
def test_without_earlier_looks_it_is_students_test(t: float, freedom: float) -> None:
    found, half = stagewise(t, 1.0, freedom, 3, {}), stdtrit(freedom, 0.975)
    assert found.p == pytest.approx(2 * stdtr(freedom, -abs(t))) and found.median == t
    assert found.interval == pytest.approx((t - half, t + half))


@pytest.mark.parametrize("seen", [(4, 6), (6, 6), (12, 12), (20, 20)])
def test_at_its_boundary_a_look_has_spent_what_it_may(seen: tuple[int, int]) -> None:
    seeds, most = seen
    freedom = seeds - 1.0
    t = float(stdtrit(freedom, 1 - boundary(seeds, most) / 2))
    found = stagewise(t, 1.0, freedom, seeds, _before(seeds, most))
    assert found.p == pytest.approx(0.05 * (seeds / most) ** 4, rel=2e-3)


def test_the_size_is_too_large_as_often_as_too_small() -> None:
    """Of normal differences looked at after each of 3 to 6 seeds, which only showing a difference ends; the mean
    difference at the end is too large in most cases."""
    true, sizes, means = 2.0, [], []
    for number in range(400):
        drawn = generator(number, "sizes").normal(true, 2.0, 6)
        for seeds in range(3, 7):
            mean, error = float(drawn[:seeds].mean()), float(drawn[:seeds].std(ddof=1)) / math.sqrt(seeds)
            if seeds == 6 or 2 * stdtr(seeds - 1, -abs(mean / error)) <= boundary(seeds, 6):
                sizes.append(stagewise(mean, error, seeds - 1.0, seeds, _before(seeds, 6)).median)
                means.append(mean)
                break
    above = np.mean(np.array(sizes) > true)
    assert abs(above - 0.5) < 0.075 and above < np.mean(np.array(means) > true)


def test_where_others_went_on_only_the_looks_before_it_was_shown_count() -> None:
    """A difference that the second look showed is taken at the last one as if there had been the first look alone."""
    by_look = [_tests([0.003, 0.0], seeds, noise=0.02) for seeds in (3, 4, 5, 6)]
    shown = [replace(one, test=replace(one.test, new=replace(one.test.new, p=0.0))) for one in by_look[1]]
    last = by_look[3][0].test
    [gone_on, _] = looks.over_looks([by_look[0], shown, *by_look[2:]], 6)
    found = stagewise(last.difference, last.new.error, last.new.freedom, 6, {3: boundary(3, 6)})
    assert gone_on.test.new.ci95 == found.interval and gone_on.test.new.size == found.median
    [alone, _] = looks.over_looks([by_look[0], *by_look[1:]], 6)
    assert alone.test.new.p >= gone_on.test.new.p


def test_equal_differences_and_looks_at_them_stay_without_a_test() -> None:
    baseline = np.tile(np.linspace(0, 1, 50), (4, 1))
    by_look = [corrected_tests([(baseline[:seeds] + 0.01, baseline[:seeds])], "none") for seeds in (3, 4)]
    [found] = looks.over_looks(by_look, 6)
    assert math.isnan(found.test.new.p) and found.test.new.size is None


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


def _pairs(means: list[float], seeds: int, noise: float) -> list[Any]:
    rng = generator(1, "looks")
    baseline = rng.normal(0.5, 0.01, (seeds, 200))
    return [(baseline + mean + rng.normal(0, noise, (seeds, 200)), baseline) for mean in means]


def _tests(means: list[float], seeds: int, noise: float) -> list[Any]:
    return corrected_tests(_pairs(means, seeds, noise), "none")


def _judged(means: list[float], seeds: int, noise: float = 0.005) -> dict[str, Any]:
    return _opposed("abc", _pairs(means, seeds, noise))


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
    assert found.decision != "worse" and "a" in found.hopeless
    assert look_at(_judged([0.0, -0.05], 3), "a", 200, 3, 20).label == "b", "it names the smallest p"


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
    assert look_at(judged, "a", 200, 5, 5).decision == NOT_SHOWN


def test_differences_that_are_all_equal_are_no_verdict() -> None:
    baseline = np.tile(np.linspace(0, 1, 50), (3, 1))
    found = look_at(_opposed("a", [(baseline + 0.01, baseline)]), "a", 50, 3, 20)
    assert found.decision == "continue"
    assert math.isnan(found.p_new)
    assert "nan" not in found.in_words()


def test_differences_without_variance_say_nothing_of_what_could_be_shown() -> None:
    values = generator(5, "looks").random((3, 50))
    [same] = corrected_tests([(values, values)], "holm")
    assert power_of(same, 3, 50, 0.05, True) == Power()


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
    assert alone["p_new"] < row["p_new"] or row["p_new"] == pytest.approx(alone["p_new"], abs=1e-3)
    assert row["ci95_new"][0] < row["size"] < row["ci95_new"][1]
    assert (row["p_new"] <= 0.05) == (row["ci95_new"][0] > 0 or row["ci95_new"][1] < 0)
    assert fixed["earlier"]


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
    def hopeless(tests: Any, recommended: str, queries: int, seeds: int, most: int, readings: Any) -> looks.Look:
        found = look_at(tests, recommended, queries, seeds, most, readings)
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
