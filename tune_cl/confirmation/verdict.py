"""From per-query values over seeds to the verdict: tests, correction, marks, words (docs/verdict.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainables.evaluation.significance import SeededTest, adjust, seeded_test

Verdict = Literal["better", "no difference shown", "worse"]
LEVEL = 0.05
MARKS = ((0.01, "‡"), (LEVEL, "†"))


@dataclass(frozen=True)
class Judged:
    """A configuration's test against its reference; its p_value and p_both corrected over all that were tested."""

    test: SeededTest
    p_adjusted: float
    p_both_adjusted: float

    @property
    def marks(self) -> str:
        """† 95 %, ‡ 99 % after correction, and only for more than the reference (Penha & Hauff 2020, Table 5)."""
        if self.test.difference <= 0:
            return ""
        return next((mark for level, mark in MARKS if self.p_adjusted <= level), "")

    @property
    def worse(self) -> bool:
        return self.test.difference < 0 and self.p_adjusted <= LEVEL


def judge(pairs: Sequence[tuple[np.ndarray, np.ndarray]], correction: str) -> list[Judged]:
    """Tests the values [N, Q] of each pair's first against those of its second, row by row of equal seed; corrected
    over all pairs."""
    if not pairs:
        return []
    tests = [seeded_test(values, reference) for values, reference in pairs]
    adjusted = adjust([test.p_value for test in tests], correction)
    one_seed = len(pairs[0][0]) < 2  # and p_both is no number
    both = np.full(len(tests), np.nan) if one_seed else adjust([test.p_both for test in tests], correction)
    return [Judged(test, float(p), float(p_both)) for test, p, p_both in zip(tests, adjusted, both, strict=True)]


def verdict_of(judged: Sequence[Judged], recommended: Judged | None) -> Verdict:
    """The search as a whole. `recommended`: the configuration that was best on dev, None where it was not tested.

    better: some configuration is above the baseline after correction. worse: none is, and the one that the search
    would have recommended is below it after correction.
    """
    if any(one.marks for one in judged):
        return "better"
    return "worse" if recommended is not None and recommended.worse else "no difference shown"
