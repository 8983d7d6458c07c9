"""What the columns of pairs and triples mean, and the judgments in a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainables.data.columns import MAX_GRADE
from trainables.data.readers.rows import Wrong, grade_of, is_text, one_line

FORM = "query (or anchor), positive, negative or negative_1, ...; query, document, label; sentence1, sentence2, label"
_QUERIES = ("query", "anchor")
_NEGATIVE = re.compile(r"negative(_[0-9]+)?")
_KNOWN = {*_QUERIES, "positive", "document", "label", "sentence1", "sentence2"}


@dataclass(frozen=True)
class Columns:
    """The columns that are read: texts of the query and of documents, and the label of the one document or, without a
    label, the first document relevant and the others not."""

    query: str
    documents: tuple[str, ...]
    label: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.query, *self.documents, *([self.label] if self.label else []))

    def __str__(self) -> str:
        if self.label:
            return f"query from {self.query}, document from {self.documents[0]}, grade from {self.label}"
        others = f", others from {_listed(self.documents[1:])}" if self.documents[1:] else ""
        return f"query from {self.query}, relevant document from {self.documents[0]}{others}"

    def judgments(self, values: Sequence[Any]) -> tuple[str, list[tuple[str, int]]]:
        """(query, its documents with their grades) of a row. Raises Wrong."""
        query = _text(self.query, values[0])
        if self.label:
            return query, [(_text(self.documents[0], values[1]), _grade(self.label, values[2]))]
        rated = [(_text(self.documents[0], values[1]), 1)]
        for name, value in zip(self.documents[1:], values[2:], strict=True):
            if value not in (None, "") or name == "negative":
                rated.append((_text(name, value), 0))
        return query, rated


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def looks_like_header(names: Sequence[str]) -> bool:
    """Whether the fields of a file's first row are names of columns: those of conversations and of Quora's pairs begin
    with a label."""
    return (
        bool(names)
        and names[0] not in ("0", "1")
        and any(name in _KNOWN or _NEGATIVE.fullmatch(name) for name in names)
    )


def columns_of(names: Sequence[str]) -> Columns:
    """Which of a file's columns are read. Raises Wrong if they fit no form, or two."""
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise Wrong(f"two columns '{repeated}'", "name each column once")
    query = next((name for name in _QUERIES if name in names), None)
    forms = []
    if query and "positive" in names:
        negatives = sorted(filter(_NEGATIVE.fullmatch, names), key=_number)
        forms.append(Columns(query, ("positive", *negatives)))
    for first, second in ((query, "document"), ("sentence1", "sentence2")):
        if first in names and second in names and "label" in names:
            forms.append(Columns(str(first), (second,), "label"))
    if len(forms) > 1:
        raise Wrong(
            f"the columns {', '.join(names)} could be read as {' or as '.join(map(str, forms))}", "keep one form"
        )
    if not forms:
        raise Wrong(f"no form of pairs has the columns {', '.join(names)[:200]}", FORM)
    return forms[0]


def _number(name: str) -> int:
    return int(name.partition("_")[2] or 0)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        raise Wrong(f"'{name}' is not UTF-8", "save the texts as UTF-8")
    if value is None:
        raise Wrong(f"no '{name}'", "give the column a text in every row")
    if not is_text(value):
        raise Wrong(f"'{name}' is no text", "give the column a text in every row")
    if not (text := one_line(value)) or text.isspace():
        raise Wrong(f"an empty '{name}'", "give a text or leave the row out")
    return text


def _grade(name: str, value: Any) -> int:
    """Whole numbers, as numbers, texts or true and false. A fraction is no grade: where it would begin to mean
    relevant, only the user knows."""
    if isinstance(value, bool | float) and value == int(value if abs(value) < MAX_GRADE else 0):
        value = int(value)
    try:
        return grade_of(str(value), least=0)
    except Wrong:
        shown = "no label" if value is None else f"{name} '{str(value)[:40]}'"
        right = f"write a whole number from 0 (not relevant) to {MAX_GRADE}; fractions are a teacher's scores"
        raise Wrong(shown, f"{right} (scores.SPLIT.tsv)") from None
