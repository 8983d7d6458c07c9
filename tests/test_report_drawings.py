"""Where the report's charts put their values, and how it writes numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.report_cases import whole
from tune_cl.report.charts import (
    ABSENT,
    END,
    START,
    Interval,
    Polyline,
    Scale,
    _queries,
    axis_of,
    interval_chart,
    path,
    share_chart,
    strip_chart,
)
from tune_cl.report.findings import gather
from tune_cl.report.markup import cut, number, p_value, plain
from tune_cl.report.page import page
from tune_cl.space.parameters import Choice, LogUniform


def test_ticks_are_a_fifth_of_one_apart() -> None:
    assert Scale(0, 1, 0, 100).ticks(5) == [0, 0.2, 0.4, 0.6, 0.8, 1]


def test_steps_go_sideways_first() -> None:
    assert path([(0, 1), (2, 3)], stepped=True) == "M0 1H2V3"


def test_bars_say_what_they_are_of() -> None:
    chart = interval_chart(["short"], [(Interval(0.6, 0.5, 0.7), Interval(0.4, 0.3, 0.5))], "map")
    assert "short, best: 0.6000 [0.5000, 0.7000]" in chart and "short, baseline: 0.4000 [0.3000, 0.5000]" in chart
    shares = share_chart(["lr", "n"], [0.5, 0.1], [0.3, 0.2], "share")
    assert re.findall(r'class="share (\w+)"', shares) == ["best", "trial"]


def test_queries_that_gained_and_lost_are_counted_and_drawn_above_and_below_zero() -> None:
    differences = np.array([0.1, 0.0, -0.2, 0.0, 0.3, 0.0])
    assert _queries(differences) == "2 queries gained, 1 lost, 3 unchanged"
    assert _queries(differences[:1]) == "1 query gained, 0 lost, 0 unchanged"
    gain, loss = (
        re.search(rf'd="([^"]*)" class="{role}"', strip_chart(differences, "map")) for role in ("gain", "loss")
    )
    assert gain and loss and (gain[1].count("M"), loss[1].count("M")) == (2, 1)


def test_parameters_stand_where_their_values_are() -> None:
    travellers = [Polyline(f"t{i}", i, {"lr": lr}, 0.5, 0.5, "") for i, lr in enumerate((1e-4, 1e-3, 1e-2))]
    axis = axis_of("lr", LogUniform(low=1e-4, high=1e-2), travellers)
    assert axis({"lr": 1e-3}) == pytest.approx((START + END) / 2) and axis({}) == ABSENT
    assert {label: x for x, label in axis.ticks()}["0.001"] == pytest.approx((START + END) / 2)
    finite = axis_of("n", Choice(options=(2, 5, 10)), [])
    assert [finite({"n": n}) for n in (2, 5, 10)] == [START, (START + END) / 2, END]


def test_the_best_trial_has_the_strongest_colour(tmp_path: Path) -> None:
    findings = gather(whole(tmp_path).write())
    strongest = re.findall(r'style="--mix:100%" data-trial="(\w+)"', page(findings))
    assert strongest == [findings.ranked[0][0].trial]
    assert f"{findings.state.iterations} iterations, searched by random" in page(findings)


def test_numbers_for_reading() -> None:
    assert [number(value) for value in (0.12345, math.nan, None)] == ["0.1235", "–", "–"]
    assert [p_value(p) for p in (0.0009, 0.001, 0.0123, 1.0, None)] == ["< 0.001", "0.001", "0.012", "1.000", "–"]
    assert [plain(value) for value in (0.000123456, 3, True, None, "x")] == ["0.0001235", "3", "true", "null", "x"]
    assert [cut("four", 4), cut("fives", 4)] == ["four", "fiv…"]
