"""Recorded curves on disk, and how much the best of many dev values flatters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recorded import Curve, append_curve, read_curves
from trainables.config.keys import TrainingRun
from tune_cl.search.analysis import selection_bias


def run_of(**curriculum: object) -> TrainingRun:
    return TrainingRun.model_validate({"curriculum": curriculum, "training": {"lr": 0.002}, "seed": 3})


def test_a_curve_reads_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((4, 7))
    run = run_of(pacing="linear", T=0.5)
    append_curve(tmp_path / "a.jsonl", Curve.of(run, values, 1.234))
    append_curve(tmp_path / "a.jsonl", Curve.of(run_of(), values[:2], 1))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    assert read_curves(tmp_path / "a.jsonl") == read_curves(tmp_path / "b.jsonl.gz")
    whole, part = read_curves(tmp_path / "a.jsonl")
    assert whole.dev == pytest.approx(values.mean(1), abs=1e-6) and len(part.dev) == 2
    assert whole.values() == pytest.approx(values, abs=0.5 / 255 + 1e-9)
    assert whole.settings["curriculum.T"] == 0.5 and whole.settings["training.lr"] == 0.002 and whole.seed == 3
    assert "curriculum.T" not in part.settings
    assert whole.same_training(run) and not whole.same_training(run_of(pacing="linear", T=0.4))
    assert read_curves(tmp_path / "none.jsonl") == []


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


CURVES = sorted((Path(__file__).parents[1] / "benchmarks" / "curves").glob("*.jsonl.gz"))


@pytest.mark.parametrize("file", CURVES, ids=lambda file: file.name)
def test_the_recorded_curves_are_whole(file: Path) -> None:
    curves = read_curves(file)
    wide = file.name.endswith("-wide.jsonl.gz")
    [budget] = {curve.budget for curve in curves}
    assert budget in ((18, 27) if wide else (12,))
    whole = {(json.dumps(dict(curve.settings)), curve.seed) for curve in curves}
    settings = {of for of, _ in whole}
    assert len(settings) == (60 if wide else 30) and whole == {(of, seed) for of in settings for seed in (0, 1, 2)}
    for curve in curves:
        assert len(curve.dev) == budget
        assert curve.values().mean(axis=1) == pytest.approx(curve.dev, abs=0.5 / 255)


def test_there_are_recorded_curves() -> None:
    assert len(CURVES) == 8
