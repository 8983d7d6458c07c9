"""From per-query values over seeds to the verdict: tests, correction, marks, words (docs/verdict.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trainables.core.prose import counted
from trainables.evaluation.significance import SeededTest, adjust, seeded_test

Verdict = Literal["better", "no difference shown", "worse"]
LEVEL = 0.05
ON_DEV = "dev chose these configurations and their checkpoints: values there are too high, and this is no verdict"
MARKS = ((0.01, "‡"), (LEVEL, "†"))


@dataclass(frozen=True)
class Corrected:
    """A configuration's test against its reference, and its p_value and p_both corrected over all tested pairs."""

    test: SeededTest
    p_adjusted: float
    p_both_adjusted: float

    @property
    def marks(self) -> str:
        """† at 95 %, ‡ at 99 % after correction, and only if above the reference (Penha & Hauff 2020, Table 5)."""
        if self.test.difference <= 0:
            return ""
        return next((mark for level, mark in MARKS if self.p_adjusted <= level), "")

    @property
    def worse(self) -> bool:
        return self.test.difference < 0 and self.p_adjusted <= LEVEL


def judge(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    correction: str,
    seed_matters: Sequence[bool] | None = None,
    left: int = 0,
) -> list[Corrected]:
    """Tests the first of each pair against the second, both values [N, Q] with equal seeds by row; corrected over all
    pairs.

    `seed_matters`: of each pair, whether the seed changes the trainings of either; None: of all. `left`: further pairs
    that are not tested because they left a race: as that chose by what the same seeds gave on dev, p_both is corrected
    over them too.
    """
    seed_matters = seed_matters or [True] * len(pairs)
    tests = [seeded_test(*pair, matters) for pair, matters in zip(pairs, seed_matters, strict=True)]
    adjusted = adjust([test.p_value for test in tests], correction)
    both = np.array([test.p_both for test in tests], np.float64)
    unknown = np.isnan(both)  # with one seed
    counted_too = np.ones(left if any(seed_matters) else 0)
    corrected_both = adjust(np.append(np.where(unknown, 1, both), counted_too), correction)[: len(tests)]
    both = np.where(unknown, np.nan, corrected_both)
    return [Corrected(test, float(p), float(p_both)) for test, p, p_both in zip(tests, adjusted, both, strict=True)]


def verdict_of(judged: Sequence[Corrected], recommended: Corrected | None) -> Verdict:
    """The verdict on the whole search. `recommended`: the configuration that was best on dev, None if not tested.

    better: some configuration is above the baseline after correction. worse: none is, and the one that the search
    would have recommended is below it after correction.
    """
    if any(one.marks for one in judged):
        return "better"
    return "worse" if recommended is not None and recommended.worse else "no difference shown"


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """What to know of a comparison before one believes it; of a document that has at least its `split`."""
    if document["split"] == "dev":
        return [ON_DEV]
    return [_read_before(document["split"], looks)] if (looks := document.get("earlier")) else []


def _read_before(split: str, looks: Sequence[Mapping[str, Any]]) -> str:
    """Who knows what a split has shown can go on asking until it shows what pleases."""
    last = looks[-1]
    tested = len(last["configurations"]) + len(last["dropped"])
    times = f"{counted(len(looks), 'time')} before, last" if len(looks) > 1 else "before,"
    how = f"{counted(len(last['seeds']), 'seed')} and {counted(tested, 'configuration')}: {last['verdict']}"
    return f"{split} was read {times} with {how}; p takes no account of what was asked after that"


def leader(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration that a confirmation's verdict is about: among those with a mark, the one with the largest
    difference; if none has a mark, the first, which is the best on dev of those tested."""
    known = document["configurations"]
    marked = [row for row in known if row["marks"]]
    return max(marked, key=_difference, default=known[0] if known else None)


def best_on_dev(document: Mapping[str, Any]) -> str:
    """In words, how the first configuration stands on dev: better ones may have failed or left the race."""
    others = document.get("failed") or document.get("dropped")
    return "the best on dev of those tested" if others else "the best on dev"


def corrected(document: Mapping[str, Any]) -> bool:
    """Whether the p-values behind the verdict were corrected for the number of configurations."""
    return document.get("correction", "none") != "none"


def p_heading(document: Mapping[str, Any]) -> str:
    """What a column of p-values is called."""
    return "p adjusted" if corrected(document) else "p"


def left_open(document: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """What a configuration's interval says where no difference is shown. It may exclude 0 all the same: it is of this
    configuration alone, while the test is corrected for all; or the search would have named another one, which was not
    tested."""
    low, high = row["ci95"]
    told = f"{low:+.4f} to {high:+.4f}"
    if not (low > 0 or high < 0):
        return f"anything from {told} fits the data"
    if row["p_adjusted"] > LEVEL:
        tested = configurations_of(document)
        return f"its own 95 % interval, {told}, is uncorrected, and after correction for {tested} 0 is not ruled out"
    return f"anything from {told} fits the data, but the search would have named another, which was not tested"


def configurations_of(document: Mapping[str, Any]) -> str:
    """How many were tested, in words."""
    return counted(len(document["configurations"]), "configuration")


def higher(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration with the largest difference, if the verdict is about another one."""
    top, highest = leader(document), max(document["configurations"], key=_difference, default=None)
    return highest if top and highest and highest["difference"] > top["difference"] else None


def _difference(row: Mapping[str, Any]) -> float:
    return row["difference"]
