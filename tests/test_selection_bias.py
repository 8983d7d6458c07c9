"""How much the best of many dev values flatters."""

from __future__ import annotations

import numpy as np
import pytest

from tune_cl.search.analysis import selection_bias


def test_the_best_of_equal_trials_is_pulled_back_to_their_mean() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(40):
        curves = {str(trial): 0.5 + rng.normal(0, 0.02, 12) for trial in range(10)}
        bias = selection_bias({name: values.tolist() for name, values in curves.items()})
        assert bias is not None
        found.append(max(values.max() for values in curves.values()) - bias)
    assert np.mean(found) == pytest.approx(0.5, abs=0.015)  # the best value is about .55


def test_without_noise_there_is_no_bias_between_trials() -> None:
    curves = {str(trial): [0.1 * trial + 0.01 * t for t in range(12)] for trial in range(6)}
    assert selection_bias(curves) == pytest.approx(0.005, abs=1e-9)  # the highest value less the mean of the last two
    assert selection_bias({"a": [0.1, 0.2, 0.3], "b": [0.1, 0.2, 0.3]}) is None
    assert selection_bias({name: [0.1, float("nan"), 0.3] for name in "abc"}) is None


def test_the_bias_of_three_trials_by_hand() -> None:
    """Levels 1, 2 and 3 with one wave: second differences of ±.4, so that a level's noise is .16 / 6 / 3."""
    curves = {name: [level + sign * 0.1 for sign in (-1, 1, -1, 1)] for level, name in enumerate("abc", 1)}
    noise, mean, highest = 0.16 / 6 / 3, 2 - 0.1 / 3, 3.1
    between = 1 - noise
    assert selection_bias(curves) == pytest.approx(highest - (mean + between / (between + noise)))


def test_three_evaluations_are_enough_and_the_highest_value_is_the_best_trial() -> None:
    """Without noise a trial is worth its level: here that of the trial with the highest value, not the highest mean."""
    steady = {"a": [0.0, 0.5, 1.0], "b": [0.8, 0.85, 0.9], "c": [0.7, 0.7, 0.7]}
    assert selection_bias(steady) == pytest.approx(1.0 - 0.75)


def test_a_best_at_the_edge_is_known_less_well() -> None:
    """The level at the edge is a mean of two evaluations, the others' of three."""
    waves = {"a": (-1, 1, -1, 1), "b": (-1, 1, -1, 1), "c": (1, -1, 1, -1)}
    curves = {name: [level + sign * 0.1 for sign in waves[name]] for level, name in enumerate(waves, 1)}
    levels, noise = np.array([1 - 0.1 / 3, 2 - 0.1 / 3, 3.0]), 0.16 / 6
    between = levels.var(ddof=1) - (noise / 3 + noise / 3 + noise / 2) / 3
    shrunk = levels.mean() + (3 - levels.mean()) * between / (between + noise / 2)
    assert selection_bias(curves) == pytest.approx(3.1 - shrunk)


def test_levels_that_noise_alone_would_part_are_taken_for_one() -> None:
    curves = {name: [0.5, 0.7 + more, 0.5, 0.7] for name, more in (("a", 0.0), ("b", 0.01), ("c", 0.02))}
    assert selection_bias(curves) == pytest.approx(0.72 - (0.5 + 0.71 + 0.5) / 3)
