"""Where the report's charts put their values, and how it writes numbers."""

from __future__ import annotations

import math
import re

import numpy as np

from tune_cl.report.charts import (
    Scale,
    _queries,
    path,
    strip_chart,
)
from tune_cl.report.markup import cut, number, p_value, plain


def test_ticks_are_a_fifth_of_one_apart() -> None:
    assert Scale(0, 1, 0, 100).ticks(5) == [0, 0.2, 0.4, 0.6, 0.8, 1]


def test_steps_go_sideways_first() -> None:
    assert path([(0, 1), (2, 3)], stepped=True) == "M0 1H2V3"


def test_queries_that_gained_and_lost_are_counted_and_drawn_above_and_below_zero() -> None:
    differences = np.array([0.1, 0.0, -0.2, 0.0, 0.3, 0.0])
    assert _queries(differences) == "2 queries gained, 1 lost, 3 unchanged"
    assert _queries(differences[:1]) == "1 query gained, 0 lost, 0 unchanged"
    gain, loss = (
        re.search(rf'd="([^"]*)" class="{role}"', strip_chart(differences, "map")) for role in ("gain", "loss")
    )
    assert gain and loss and (gain[1].count("M"), loss[1].count("M")) == (2, 1)


def test_numbers_for_reading() -> None:
    assert [number(value) for value in (0.12345, math.nan, None)] == ["0.1235", "–", "–"]
    assert [p_value(p) for p in (0.0009, 0.001, 0.0123, 1.0, None)] == ["< 0.001", "0.001", "0.012", "1.000", "–"]
    assert [plain(value) for value in (0.000123456, 3, True, None, "x")] == ["0.0001235", "3", "true", "null", "x"]
    assert [cut("four", 4), cut("fives", 4)] == ["four", "fiv…"]
