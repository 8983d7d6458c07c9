"""The numbers of TREC files as trec_eval reads them: Python takes more for numbers, such as 1_0 for 10."""

from __future__ import annotations

import math
import re

from trainables.data.columns import MAX_GRADE

FLOAT32_END = 2.0**128 - 2.0**103  # smallest number that rounds to an infinite float32, as which trec_eval keeps scores
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_NUMBER = re.compile(r"[-+.eE0-9]+")


class Wrong(Exception):
    """(what is wrong, what would be right) for one row."""


def score_of(field: str) -> float:
    """The score; raises Wrong unless it is a number that is finite as a float32."""
    try:
        score = float(field) if _NUMBER.fullmatch(field) else math.nan
    except ValueError:
        score = math.nan
    if not abs(score) < FLOAT32_END:
        raise Wrong(f"score '{field}'", "write a finite number in the range of float32")
    return score


def grade_of(field: str, least: float = -math.inf) -> int:
    """The grade; raises Wrong unless it is a whole number from `least` to MAX_GRADE."""
    if not (_WHOLE.fullmatch(field) and least <= int(field) <= MAX_GRADE):
        raise Wrong(f"grade '{field}'", f"write a whole number up to {MAX_GRADE}")
    return int(field)
