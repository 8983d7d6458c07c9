"""A curriculum is better only above every plain opponent: the tests together, and who the opponents are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.confirm_cases import confirm, data, ended_search, trainer
from trainables.evaluation.significance import UNKNOWN, SeededTest, adjust, crossed_tests
from tune_cl.confirmation.compare import compare
from tune_cl.confirmation.decisions import Corrected
from tune_cl.confirmation.intersection import Opposed, corrected_over, leader_of, verdict_on
from tune_cl.confirmation.verdict import Role
from tune_cl.experiment.load import load_experiment
from tune_cl.history.search_folder import SearchFolder

__all__ = ["data", "trainer"]  # fixtures
NOTHING = "no difference shown"


def outcome_of(difference: float, p: float) -> Corrected:
    return Corrected(SeededTest(difference, (p,), p, UNKNOWN), p, p)


def opposed(**tests: tuple[float, float]) -> Opposed:
    """By role: a difference and its p."""
    roles: dict[str, tuple[Any, ...]] = {role: (role,) for role in tests}
    return Opposed(roles, {role: outcome_of(*one) for role, one in tests.items()})


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
        ({"trial": (-0.02, 0.01)}, "worse", "trial"),
        ({"default": (-0.02, 0.01), "filter": (-0.01, 0.04)}, NOTHING, "default"),
    ],
)  # fmt: skip
def test_better_needs_all_opponents_and_worse_needs_champion_and_twin(
    tests: dict[str, tuple[float, float]], verdict: str, against: str
) -> None:
    one = opposed(**tests)
    assert verdict_on({"a": one}, "a") == verdict and one.least_favourable == against
    assert bool(one.marks) == (verdict == "better")


@given(
    st.dictionaries(
        st.sampled_from(get_args(Role)), st.tuples(st.floats(-0.1, 0.1), st.floats(0, 1)), min_size=1, max_size=5
    )
)
def test_no_verdict_contradicts_an_opponent(tests: dict[str, tuple[float, float]]) -> None:
    one = opposed(**tests)
    if (verdict := verdict_on({"a": one}, "a")) == "better":
        assert all(difference > 0 and p <= 0.05 for difference, p in tests.values())
        assert one.tests[one.least_favourable].p_new_adjusted == max(p for _, p in tests.values())
    elif verdict == "worse":
        assert all(tests[role][0] < 0 and tests[role][1] <= 0.05 for role in ("champion", "twin") if role in tests)


def test_a_search_is_judged_by_the_configuration_that_beats_all_or_by_the_recommended_one() -> None:
    better, nothing = opposed(champion=(0.02, 0.01)), opposed(champion=(-0.02, 0.01))
    assert verdict_on({"a": nothing, "b": better}, "a") == "better" and leader_of({"a": nothing, "b": better}) == "b"
    further = opposed(champion=(0.03, 0.02))
    assert leader_of({"a": nothing, "b": better, "c": further}) == "c", "the one furthest above"
    assert verdict_on({"a": nothing, "b": opposed(champion=(0.0, 1.0))}, "a") == "worse"
    assert verdict_on({"a": nothing}, "another, not tested") == NOTHING and leader_of({"a": nothing}) == "a"


@pytest.mark.parametrize("correction", ["holm", "bh", "bonferroni", "none"])
def test_p_is_corrected_over_configurations_not_over_opponents(correction: str) -> None:
    groups = [[outcome_of(0.1, 0.001), outcome_of(0.1, 0.01)], [outcome_of(0.1, 0.02)], [outcome_of(0.1, 0.004)]]
    found = [max(one.p_new_adjusted for one in group) for group in corrected_over(groups, correction)]
    assert found == pytest.approx(adjust([0.01, 0.02, 0.004], correction))
    [[first, second]] = corrected_over([groups[0]], correction, dropped=2)
    times = 1 if correction == "none" else 3
    assert (first.p_new_adjusted, second.p_new_adjusted) == pytest.approx((0.001 * times, 0.01 * times))
    assert first.p_adjusted == 0.001, "those that got no more seeds count in p for new seeds alone"


def test_compare_takes_a_mapping_of_opponents() -> None:
    rng = np.random.default_rng(0)
    queries = rng.normal(0, 0.1, 200)
    champion, twin, ours = (queries + rng.normal(0, 0.01, (5, 200)) + level for level in (0.3, 0.38, 0.381))
    [alone] = compare(ours[None], champion)
    [both] = compare(ours[None], {"champion": champion, "twin": twin})
    assert "verdict" not in alone and alone["p_new_adjusted"] < 0.05
    assert (
        both["verdict"] == NOTHING and both["against"] == "twin" and both["p_new"] == both["opponents"]["twin"]["p_new"]
    )
    assert both["opponents"]["champion"]["p_value"] == alone["p_value"]
    with pytest.raises(ValueError, match="no opponent"):
        compare(ours[None], {})
    with pytest.raises(ValueError, match="opponent 'twin' "):
        compare(ours[None], {"champion": champion, "twin": twin[:, :4]})


def test_an_opponent_that_varies_little_lends_nothing_to_one_that_varies_much() -> None:
    """The twin shares most of its training with the curriculum; the champion does not."""
    rng = np.random.default_rng(1)
    ours = rng.normal(0.5, 0.1, 300) + rng.normal(0, 0.03, (4, 1)) + rng.normal(0, 0.01, (4, 300))
    champion = ours + rng.normal(0, 0.03, (4, 1)) + rng.normal(0, 0.01, (4, 300)) - 0.02
    twin = ours + rng.normal(0, 0.001, (4, 300)) - 0.02
    alone, beside = (crossed_tests(pairs) for pairs in ([(ours, champion)], [(ours, champion), (ours, twin)]))
    assert alone[0] == beside[0]


# -- who they are --------------------------------------------------------------------------------------------------

SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: context_words
  pacing: {choice: [linear, root]}
  n: 2
  delta: 0.3
  T: 0.5
  final_share: {choice: [1.0, 0.5]}
training: {lr: {choice: [0.01, 0.02, 0.03]}, batch_size: 8, batches_per_iteration: 2, max_iterations: 2}
baseline: {curriculum.pacing: none}
seed: 2
"""
NOTHING_DONE = {"curriculum.pacing": "linear", "curriculum.final_share": 1.0, "training.lr": 0.03}


def ended(folder: Path, data: Path, choices: list[dict[str, Any]]) -> SearchFolder:
    """A search that has ended: t0000 and t0001 are plain, the others curricula with these values."""
    return ended_search(folder, data, SPACE, [{"curriculum.pacing": "none", "training.lr": 0.02}, *choices])


def roles_of(document: dict[str, Any]) -> list[tuple[str, ...]]:
    return [tuple(one["roles"]) for one in document["opponents"]]


@pytest.mark.parametrize(
    ("lr", "roles", "trials"),
    [
        (0.03, [("champion",), ("twin",), ("default",)], ["t0001", None, "t0000"]),
        (0.02, [("champion", "twin"), ("default",)], ["t0001", "t0000"]),
        (0.01, [("champion",), ("twin", "default")], ["t0001", "t0000"]),
    ],
)
def test_equal_opponents_are_one_training(
    lr: float, roles: list[Any], trials: list[Any], tmp_path: Path, data: Path, trainer: Any
) -> None:
    folder = ended(tmp_path, data, [{"curriculum.pacing": "root", "curriculum.final_share": 1.0, "training.lr": lr}])
    document = confirm(folder, top=1, seeds=2)
    assert roles_of(document) == roles and [one["trial_id"] for one in document["opponents"]] == trials
    [row] = document["configurations"]
    for one in document["opponents"]:
        assert one["difference"] == pytest.approx(row["mean"] - one["mean"])
        assert one["p_new"] == one["p_new_adjusted"], "an intersection-union test corrects nothing"
    worst = max(document["opponents"], key=lambda one: math.copysign(1 - one["p_new_adjusted"], -one["difference"]))
    assert document["baseline"]["label"] == row["against"] == worst["label"]
    assert (row["difference"], row["p_new_adjusted"]) == (worst["difference"], worst["p_new_adjusted"])
    assert len(trainer.trained) == 2 * (1 + len(roles))


def test_a_curriculum_that_leaves_pairs_out_meets_the_same_pairs_without_its_order(
    tmp_path: Path, data: Path, trainer: Any
) -> None:
    folder = ended(tmp_path, data, [{"curriculum.pacing": "root", "curriculum.final_share": 0.5, "training.lr": 0.02}])
    document = confirm(folder, top=1, seeds=2)
    assert roles_of(document) == [("champion", "twin"), ("default",), ("filter",)]
    params = document["opponents"][-1]["params"]
    assert {params[f"curriculum.{key}"] for key in ("delta", "final_share")} == {0.5}
    assert params["curriculum.scoring"] == "context_words" and params["training.lr"] == 0.02


def test_a_named_comparison_has_no_further_opponents(tmp_path: Path, data: Path, trainer: Any) -> None:
    choices = [dict(NOTHING_DONE, **{"curriculum.pacing": pacing}) for pacing in ("root", "linear")]
    folder = ended(tmp_path, data, choices)
    named = confirm(folder, top=1, seeds=2, trials=("t0002", "t0003"))
    assert [[one["roles"] for one in row["opponents"]] for row in named["configurations"]] == [[["champion"]]] * 2
    assert roles_of(confirm(folder, seeds=2, trials=("t0003",), against_trial="t0002")) == [("trial",)]


def test_each_configuration_has_its_own_twin(tmp_path: Path, data: Path, trainer: Any) -> None:
    choices = [dict(NOTHING_DONE, **{"training.lr": lr}) for lr in (0.03, 0.02)]
    rows = confirm(ended(tmp_path, data, choices), top=2, seeds=2, each=True)["configurations"]
    twins = [[one["label"] for one in row["opponents"] if "twin" in one["roles"]] for row in rows]
    assert sorted(twins) == [["plain lr=0.02"], ["plain lr=0.03"]]


def test_the_twin_of_another_question_keeps_all_but_what_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "hinge.yaml").write_text(
        "ranker: knrm\ntraining: {loss: hinge, margin: {choice: [1, 2, 4]}, lr: {loguniform: [0.001, 0.1]}}\n"
        "baseline: {training.margin: 1}\n"
    )
    experiment = load_experiment(str(tmp_path / "hinge.yaml"))
    twin = experiment.twin_values({"training.margin": 4, "training.lr": 0.02})
    assert (twin["training.margin"], twin["training.lr"]) == (1, 0.02)
    assert experiment.config({"training.margin": 4, "training.lr": 0.02}).filter is None
