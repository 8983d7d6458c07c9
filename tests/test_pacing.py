"""Pacing functions against the known answers of the paper's settings (δ = .33, T = 1000), and their properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.curriculum.pacing import PACINGS, Schedule, stalls
from tune_cl.testing import contract
from tune_cl.testing.curricula import rises_to_one

STEPS = (0, 125, 250, 330, 331, 500, 750, 800, 900, 1000)
KNOWN = {
    ("linear", 2): (0.33, 0.41375, 0.4975, 0.5511, 0.55177, 0.665, 0.8325, 0.866, 0.933, 1),
    ("root", 2): (0.33, 0.469348, 0.575912, 0.634794, 0.635495, 0.744614, 0.881604, 0.906521, 0.954406, 1),
    ("root", 5): (0.33, 0.663330, 0.759630, 0.802399, 0.802879, 0.871231, 0.944334, 0.956540, 0.979234, 1),
    ("root", 10): (0.33, 0.812261, 0.870555, 0.895061, 0.895332, 0.933034, 0.971642, 0.977933, 0.989519, 1),
    ("root", 50): (0.33, 0.959264, 0.972655, 0.978071, 0.978130, 0.986233, 0.994263, 0.995547, 0.997895, 1),
    ("geometric", 2): (0.33, 0.379053, 0.435397, 0.475778, 0.476306, 0.574456, 0.757929, 0.801130, 0.895058, 1),
    ("step", 2): (0.33, 0.33, 0.33, 0.33, 0.66, 0.66, 1, 1, 1, 1),
    ("quadratic", 2): (0.33, 0.340472, 0.371887, 0.402984, 0.403427, 0.497548, 0.706983, 0.758923, 0.872856, 1),
    ("cubic", 2): (0.33, 0.331305, 0.340439, 0.354010, 0.354229, 0.413516, 0.611865, 0.672080, 0.817064, 0.998126),
    ("root", 20): (0.33, 0.901250, 0.933033, 0.946075, 0.946218, 0.965936, 0.985719, 0.988905, 0.994746, 1),
    ("none", 2): (1,) * 10,
    ("competence", 7): (0.33, 0.469348, 0.575912, 0.634794, 0.635495, 0.744614, 0.881604, 0.906521, 0.954406, 1),
    ("baby_steps", 2): (1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 2 / 3, 1, 1, 1, 1),
    ("one_pass", 2): (1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1),
    ("adaptive", 2): (0.33,) * 9 + (1,),
}
FIRST_AT_80_PERCENT = {
    ("root", 10): 108,
    ("root", 5): 326,
    ("root", 2): 597,
    ("linear", 2): 702,
    ("geometric", 2): 799,
    ("quadratic", 2): 838,
    ("cubic", 2): 890,
    ("step", 2): 661,
    ("root", 20): 12,
    ("root", 50): 1,
}


@pytest.mark.parametrize(("name", "n"), KNOWN)
def test_known_shares(name: str, n: int) -> None:
    schedule = Schedule(name, 1000, 0.33, n)
    assert [schedule.share(step) for step in STEPS] == pytest.approx(KNOWN[name, n], abs=1e-6)


@pytest.mark.parametrize(("name", "n"), KNOWN)
def test_the_code_differs_behind_the_end_of_cubic_only(name: str, n: int) -> None:
    schedule = Schedule(name, 1000, 0.33, n, reference="code")
    assert [schedule.share(step) for step in STEPS] == pytest.approx(KNOWN[name, n], abs=1e-6)
    assert schedule.share(1010) == 1
    assert (schedule.share(1000.1) < 1) == (name == "cubic")
    assert Schedule(name, 1000, 0.33, n).share(1000.1) == 1


@pytest.mark.parametrize(
    ("name", "share"), [("quadratic", 0.8 + (1 - 0.8**1.54) ** 2), ("cubic", 0.8 + (1 - 0.8**1.87) ** 3)]
)
def test_the_exponents_of_the_code_do_not_end_at_one_for_another_delta(name: str, share: float) -> None:
    """At T it is still the bare formula; after T everything is open. The paper has neither case."""
    schedule = Schedule(name, 1000, 0.8)
    assert schedule.share(1000) == pytest.approx(share) and share < 0.9
    assert schedule.share(1001) == 1


@pytest.mark.parametrize(
    ("stages", "delta", "shares"),
    [
        (3, 0.33, (0.33, 0.66, 1)),
        (3, 0.1, (0.1, 0.66, 1)),
        (3, 0.8, (0.8, 0.8, 1)),
        (2, 0.2, (0.2, 1)),
        (4, 0.3, (0.3, 0.5, 0.75, 1)),
        (6, 0.05, (0.05, 0.33, 0.5, 0.66, 0.83, 1)),
    ],
)
def test_stages_open_at_equal_distances_and_the_first_is_delta(stages: int, delta: float, shares: tuple) -> None:
    schedule = Schedule("step", 1200, delta, stages=stages)
    middles = [1200 * (k + 0.5) / stages for k in range(stages)]
    assert [schedule.share(step) for step in middles] == pytest.approx(shares)


@pytest.mark.parametrize("delta", [0.05, 0.33, 0.9])
def test_the_code_of_step_ignores_delta(delta: float) -> None:
    schedule = Schedule("step", 1000, delta, reference="code")
    assert [schedule.share(step) for step in (0, 330, 331, 660, 661)] == [0.33, 0.33, 0.66, 0.66, 1]


@pytest.mark.parametrize(("name", "n"), FIRST_AT_80_PERCENT)
def test_first_step_with_80_percent_open(name: str, n: int) -> None:
    schedule = Schedule(name, 1000, 0.33, n)
    assert next(s for s in range(1001) if schedule.share(s) >= 0.8) == FIRST_AT_80_PERCENT[name, n]


test_every_pacing_keeps_the_contract = contract("pacing", PACINGS)


@given(
    name=st.sampled_from(sorted(PACINGS)),
    delta=st.floats(0.001, 1),
    n=st.floats(1, 100),
    stages=st.integers(2, 100),
    reference=st.sampled_from(["paper", "code"]),
    horizon=st.floats(1, 1e6),
    steps=st.lists(st.floats(0, 2e6), min_size=2, max_size=20),
)
def test_share_rises_from_delta_to_one(
    name: str, delta: float, n: float, stages: int, reference: str, horizon: float, steps: list[float]
) -> None:
    schedule = Schedule(name, horizon, delta, n, stages, reference)
    rises_to_one(schedule, sorted(steps))
    if reference == "paper":
        assert schedule.share(horizon) == 1 or name in ("quadratic", "cubic")
    if "delta" in PACINGS[name].needs and (name, reference) != ("step", "code"):
        assert schedule.share(0) == pytest.approx(delta)


def test_one_pass_opens_each_part_alone_and_then_everything() -> None:
    schedule = Schedule("one_pass", 400, stages=4)
    assert [schedule.bounds(step) for step in (0, 99, 100, 399)] == [(0, 0.25), (0, 0.25), (0.25, 0.5), (0.75, 1)]
    assert schedule.bounds(400) == (0, 1) and [schedule.share(step) for step in (100, 400)] == [0.25, 1]
    assert Schedule("one_pass", 400, stages=4, reference="code").bounds(500) == (0, 1)


@pytest.mark.parametrize("name", sorted(set(PACINGS) - {"none"}))
@pytest.mark.parametrize("step", [0, 130, 499, 999, 1000, 5000])
def test_a_final_share_ends_the_order_there(name: str, step: int) -> None:
    """As pacing the easiest six tenths alone, of which the start share is a part."""
    within = Schedule(name, 1000, 0.5).bounds(step)
    assert Schedule(name, 1000, 0.3, final_share=0.6).bounds(step) == pytest.approx([0.6 * edge for edge in within])


def test_a_start_share_above_the_final_one_is_cut() -> None:
    schedule = Schedule("linear", 1000, 0.8, final_share=0.6)
    assert [schedule.share(step) for step in (0, 500, 2000)] == [0.6, 0.6, 0.6]


@pytest.mark.parametrize(
    ("dev", "patience", "times"),
    [
        ([], 1, 0),
        ([0.1, 0.2, 0.3], 1, 0),
        ([0.3, 0.2, 0.3], 1, 2),
        ([0.3, 0.2, 0.3], 2, 1),
        ([0.3, 0.2, 0.4, 0.4, 0.1], 2, 1),
        ([0.5, 0.1, 0.2, 0.3, 0.4, 0.6, 0.6], 2, 2),
    ],
)
def test_dev_stalls_once_for_each_patience_without_a_better_value(dev: list, patience: int, times: int) -> None:
    assert stalls(dev, patience) == times


def test_adaptive_opens_a_stage_for_each_stall() -> None:
    start = Schedule("adaptive", 1000, 0.4, stages=4, patience=1)
    after = [start.after([0.3] * (1 + count)) for count in range(6)]
    assert [schedule.share(10) for schedule in after] == pytest.approx([0.4, 0.6, 0.8, 1, 1, 1])
    assert start.share(1000) == 1
    assert Schedule("linear", 1000).after([0.3] * 9) == Schedule("linear", 1000)
