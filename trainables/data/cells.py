"""What a cell of a table with named columns holds: a text, an id, a grade, a score."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from trainables.data.columns import FLOAT32_END, MAX_GRADE

IDS = ("_id", "id", "pid", "docid", "doc_id", "docno")  # keys of an object with a document or a query
TEXTS = ("text", "contents", "passage_text", "passage", "body")
TITLE = "title"
GRADES = ("is_selected", "label", "grade", "relevance")  # of an object in a list of candidates
ESCI = {"E": 3, "S": 2, "C": 1, "I": 0}  # exact, substitute, complement, irrelevant: Amazon's shopping queries
YES = {"true", "yes", "relevant", "positive", "duplicate", "match"}
NO = {"false", "no", "irrelevant", "negative", "notrelevant", "nonrelevant", "notduplicate", "nomatch"}
NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"  # as trec_eval reads one, so 1_0 is none
_WHITE = re.compile(r"[ \t\r\n]+")


class Wrong(Exception):
    """(what is wrong, what would be right) for one row."""


class Unusable(Wrong):
    """A row without something that others have, as published data has it: it is left out."""


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, as None, NaN or an empty text."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that UTF-8 can hold (half a surrogate pair cannot be written)."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def one_line(text: str) -> str:
    """The text with each run of spaces, tabs and line ends as one space, and none at either end."""
    return _WHITE.sub(" ", text).strip(" ")


def text_of(name: str, value: Any) -> str:
    """The text of a cell, in one line, perhaps empty; of an object its text, behind its title; of a number its digits.
    Raises Unusable for none, and for half a surrogate pair, which UTF-8 cannot hold; Wrong for anything else."""
    if isinstance(value, Mapping):
        key = next((key for key in TEXTS if key in value), None)
        if key is None:
            raise Wrong(f"'{name}' holds an object without a text", f"give it the key {TEXTS[0]}")
        text, title = value[key], value.get(TITLE)
        value = f"{title} {text}" if isinstance(title, str) and title and isinstance(text, str) else text
    right = "give the column a text in every row"
    if value is None or value != value:
        raise Unusable(f"no '{name}'", right)
    value = digits(value)
    if not isinstance(value, str):
        raise Wrong(f"'{name}' is not a text", right)
    if not is_text(value):
        raise Unusable(f"half a surrogate pair in '{name}', which is not a character", "cut texts between characters")
    return one_line(value) if value.strip() else ""


def digits(value: Any) -> Any:
    """A number as it is written, a whole one without a point (as ids become 17.0 in a column with missing ones); any
    other value as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    return str(int(value)) if float(value).is_integer() else repr(value)


def id_of(value: Any) -> Any:
    """An id without spaces at its ends; of a number its digits; what is not an id as it is."""
    value = digits(value)
    return value.strip() if isinstance(value, str) else value


def usable_id(name: str) -> bool:
    """Whether the id fits a TREC file: not empty, no white space of ASCII."""
    return name.split() == [name] or name.encode().split() == [name.encode()]


def number_of(text: str) -> float:
    """The number that a text writes, NaN for none."""
    return float(text) if re.fullmatch(NUMBER, text) else math.nan


def whole_number(text: str) -> int | None:
    """The number that a text writes, as 1, 1.0 or 1e0; None if it is not a whole number."""
    value = number_of(text)
    return int(value) if abs(value) < 1e9 and value.is_integer() else None


def score_in(name: str, value: Any) -> float:
    """The score in a cell. Raises Wrong unless it is a number that is finite as a float32."""
    score = math.nan if isinstance(value, bool) else number_of(str(value))
    if not abs(score) < FLOAT32_END:
        raise Wrong(f"{name} '{str(value)[:40]}'", "write a finite number in the range of float32")
    return score


def grade_in(name: str, value: Any, classes: Sequence[str] = ()) -> int:
    """The grade in a label's cell: a whole number, as number or text, or true and false; of a class, `classes` names
    them, what its name says. A fraction is not a grade: where it would begin to mean relevant, only the user knows.
    Raises Unusable for none, Wrong for anything else."""
    if is_missing(value):
        raise Unusable(f"no '{name}'", "give the row a label or leave it out")
    if classes:
        return _grade_of_class(name, int(value), classes)
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    grade = ESCI.get(text, whole_number(text))
    if grade is None or not 0 <= grade <= MAX_GRADE:
        right = f"write a whole number from 0 (not relevant) to {MAX_GRADE}; fractions are a teacher's scores"
        raise Wrong(f"{name} '{text[:40]}'", right)
    return grade


def _grade_of_class(name: str, index: int, classes: Sequence[str]) -> int:
    """Class names that are numbers are the grades; of two, one says that a document is relevant; of more that begin
    with a not relevant one, the numbers rise with relevance."""
    if all(whole_number(each) is not None for each in classes):
        return grade_in(name, classes[index])
    first, *others = ["".join(filter(str.isalnum, each.lower())) for each in classes]
    if (first in NO and NO.isdisjoint(others)) or (len(others) == 1 and others[0] in YES):
        return index
    if len(others) == 1 and (others[0] in NO or first in YES):
        return 1 - index
    wrong = f"the classes of '{name}' ({', '.join(classes)[:100]}) are not grades"
    raise Wrong(wrong, "a column of whole numbers, 0 for not relevant")
