"""Where the report's charts draw the values they are given, read back from the drawings."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tune_cl.report.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST_BARS,
    RIGHT,
    TOP,
    Interval,
    Line,
    Mark,
    Scale,
    bars,
    frame,
    interval_chart,
    line_chart,
    path,
    queries_a_bar,
    scale,
    strip_chart,
)

Found = list[dict[str, str]]


def elements(drawing: str, kind: str, role: str | None = None) -> Found:
    """The attributes of all elements of a kind, or of those with a class."""
    found = [dict(re.findall(r'([\w-]+)="([^"]*)"', given)) for given in re.findall(rf"<{kind}( [^>]*)>", drawing)]
    return [each for each in found if role in (None, each.get("class"))]


def at(element: dict[str, str], *names: str) -> list[float]:
    return [float(element[name]) for name in names]


def corners(d: str) -> list[tuple[float, float]]:
    """The points of a path of straight lines."""
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+?) ([\d.]+)", d)]


# -- lines -------------------------------------------------------------------------------------------------------


def drawn(*lines: Line, level: float | None = None) -> str:
    return line_chart(lines, "iteration", "dev map", level=level)


def test_a_line_goes_from_left_to_right_and_higher_values_stand_higher() -> None:
    points = corners(elements(drawn(Line("t1", "trial", "", [(1, 0.2), (3, 0.4), (5, 0.3)])), "path", "stroke")[0]["d"])
    (first, low), (second, high), (third, between) = points
    assert LEFT < first < second < third < RIGHT and second - first == pytest.approx(third - second, abs=0.11)
    assert TOP < high < between < low < HEIGHT - BOTTOM and between == pytest.approx((low + high) / 2, abs=0.11)


def test_the_dashed_line_has_room_where_it_is_above_all_trials() -> None:
    [level] = elements(drawn(Line("t1", "trial", "", [(1, 0.2), (2, 0.4)]), level=0.9), "line", "level")
    x1, y1, x2, y2 = at(level, "x1", "y1", "x2", "y2")
    assert (x1, x2) == (LEFT, RIGHT) and y1 == y2 and TOP < y1 < HEIGHT - BOTTOM


def test_the_best_lies_above_plain_training_and_that_above_the_others() -> None:
    roles = ["best", "failed", "baseline", "trial"]
    chart = drawn(*(Line(role, role, "", [(1, 0.1), (2, 0.2)]) for role in roles))
    assert re.findall(r'data-trial="(\w+)"', chart) == ["failed", "trial", "baseline", "best"], "drawn later, on top"


def test_marks_stand_at_their_values_a_cross_where_a_trial_was_stopped() -> None:
    marks = [
        Mark((1, 0.2), "curriculum", "over"),
        Mark((2, 0.4), "stopped", "stopped"),
        Mark((2, math.nan), "found", "never"),
    ]
    chart = drawn(Line("t1", "trial", "", [(1, 0.2), (2, 0.4)], marks))
    (x1, y1), (x2, y2) = corners(elements(chart, "path", "stroke")[0]["d"])
    [dot] = elements(chart, "circle")
    assert at(dot, "cx", "cy") == [x1, y1] and (dot["class"], dot["data-tip"]) == ("curriculum", "over")
    [cross] = elements(chart, "path", "cross")
    assert np.mean(corners(cross["d"]), axis=0) == pytest.approx((x2, y2), abs=0.11) and cross["d"].count("M") == 2
    assert "never" not in chart and "nan" not in chart


def test_a_line_breaks_where_a_value_is_missing() -> None:
    assert path([(0, 1), (1, math.nan), (2, 3), (3, math.inf), (4, 5), (5, 6)]) == "M0 1M2 3M4 5L5 6"


def test_axes_hold_one_value_no_value_and_an_infinite_one() -> None:
    one, none, endless = scale([1000.0], 0, 100), scale([], 0, 100), scale([1.0, math.inf, math.nan, 2.0], 0, 100)
    assert one(1000.0) == 50 and one.low == 950 and none(0.5) == 50
    assert 0 < endless(1.0) < endless(2.0) < 100


def test_ticks_stay_inside_the_range_two_is_a_step_and_counts_have_whole_ones() -> None:
    assert Scale(0, 10, 0, 100).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert Scale(0.5, 9.5, 0, 100).ticks(5) == [2, 4, 6, 8]
    assert Scale(0.3, 0.9, 0, 100).ticks(3) == [0.4, 0.6, 0.8], "a third of it is a hair above .2 in floating point"
    few = scale([1, 2, 3], LEFT, RIGHT)
    for whole, shown in ((True, ["1", "2", "3"]), (False, ["1", "1.5", "2", "2.5", "3"])):
        parts = "".join(frame(few, scale([0.0, 1.0], 250, TOP), "iteration", "map", 250, whole))
        assert re.findall(r'text-anchor="middle">([^<]*)<', parts) == shown


# -- rows --------------------------------------------------------------------------------------------------------


def test_intervals_reach_from_end_to_end_the_best_above_plain_training() -> None:
    """On an axis that holds all of it: one group's interval is far wider than the means are apart."""
    pairs = [(Interval(0.5, 0.1, 0.9), Interval(0.4, 0.3, 0.5)), (Interval(0.6, math.nan, math.nan),) * 2]
    chart = interval_chart(["a", "b"], pairs, "map")
    (best, plain), dots = elements(chart, "line", "bar"), elements(chart, "circle")
    (low, top, high, _), (left, below, right, _) = (at(bar, "x1", "y1", "x2", "y2") for bar in (best, plain))
    assert 160 < low < left < right < high < RIGHT and top < below
    assert at(dots[0], "cx", "cy") == [pytest.approx((low + high) / 2, abs=0.11), top]
    assert at(dots[1], "cx", "cy") == [pytest.approx((left + right) / 2, abs=0.11), below]
    assert len(dots) == 4, "a group of one query has means and no intervals"


def test_the_last_tick_of_rows_is_not_cut_off() -> None:
    """The axis ends slightly before 1."""
    ticks = elements(interval_chart(["a"], [(Interval(0.5, 0.05, 0.97),) * 2], "map"), "text", "tick")
    assert max(at(tick, "x")[0] for tick in ticks) == RIGHT - 6


# -- strips ------------------------------------------------------------------------------------------------------


def test_a_strip_begins_with_the_largest_gain_and_losses_hang_below_zero() -> None:
    chart = strip_chart(np.array([-0.1, 0.2, 0.4, -0.4]), "map")
    [zero] = elements(chart, "line", "zero")
    y0, each = at(zero, "y1")[0], (RIGHT - LEFT) / 4
    gain, loss = (corners(elements(chart, "path", role)[0]["d"]) for role in ("gain", "loss"))
    assert [x for x, _ in gain] == pytest.approx([LEFT + each * i for i in (0, 0, 1, 1, 1, 1, 2, 2)], abs=0.11)
    assert [x for x, _ in loss] == pytest.approx([LEFT + each * i for i in (2, 2, 3, 3, 3, 3, 4, 4)], abs=0.11)
    heights = [(y0 - y) for _, y in (*gain[1::4], *loss[1::4])]
    assert heights[0] > 0 and np.array(heights) / heights[0] == pytest.approx([1, 0.5, -0.25, -1], abs=0.01)


def test_zero_is_in_sight_where_every_query_gained() -> None:
    [zero] = elements(strip_chart(np.array([0.3, 0.4]), "map"), "line", "zero")
    assert TOP < at(zero, "y1")[0] < HEIGHT - BOTTOM


def test_many_queries_share_bars_the_last_of_which_ends_with_them() -> None:
    """One query more than there are pixels: two per bar, one in the last."""
    assert [queries_a_bar(count) for count in (1, MOST_BARS, MOST_BARS + 1)] == [1, 1, 2]
    differences = np.arange(1.0, MOST_BARS + 2)
    heights = bars(differences)
    assert len(heights) == MOST_BARS // 2 + 1
    assert heights[0] == MOST_BARS + 0.5 and heights[-1] == 1
    gain = corners(elements(strip_chart(differences, "map"), "path", "gain")[0]["d"])
    assert max(x for x, _ in gain) == pytest.approx(RIGHT, abs=0.11) and gain[4][0] == gain[3][0]
