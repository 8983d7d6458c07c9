"""What the columns of pairs, triples and lists mean, and what a row of them judges."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables.data.columns import MAX_GRADE
from trainables.data.readers.rows import Wrong, grade_of, is_text, one_line, score_of

FORM = (
    "query (or anchor), positive, negative or negative_1, ...; query, document, label; sentence1, sentence2, label; or "
    "name yours: data.columns"
)
# Names in use for each role, in the order in which they are preferred; a number may follow: negative_2.
ROLES = {
    "query": ("query", "anchor", "question"),
    "positive": ("positive", "pos", "answer", "response", "positives", "positive_passages", "positive_ctxs"),
    "negative": (
        *("negative", "neg", "negatives", "rejected_response", "negative_passages", "negative_ctxs"),
        *("hard_negative", "hard_negatives", "hard_negative_ctxs"),
    ),
    "document": ("document", "doc", "passage", "text", "documents", "docs", "passages", "candidates"),
    "label": ("label", "labels", "grade", "grades", "relevance"),
    "score": ("score", "scores"),
    "pos_scores": ("pos_scores",),
    "neg_scores": ("neg_scores",),
}
_SECOND = ("sentence1", "sentence2")  # a query and a document, with a label
_NUMBER = re.compile(r"_?([0-9]+)$")
_KNOWN = {*(name for names in ROLES.values() for name in names), *_SECOND}


class Unusable(Wrong):
    """A row without a text, which published data has."""


def is_known(name: str) -> bool:
    """Whether a field of a file's first row is the name of a column of pairs."""
    return _plain(name) in _KNOWN


def _plain(name: str) -> str:
    """A column's name without capitals and the number behind it; sentence1 keeps its own."""
    name = name.strip().lower()
    return name if name in _SECOND else _NUMBER.sub("", name)


@dataclass(frozen=True)
class Judged:
    """What a row judges. `cells`: (document, grade, score of a teacher or NaN); `own`: whether a negative was left out
    because it is a positive of the row."""

    query: str
    cells: list[tuple[str, int, float]]
    own: bool = False


@dataclass(frozen=True)
class Columns:
    """The columns that are read, by role: with a label the documents have its grades; without one, positives are
    relevant and negatives are not."""

    query: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    document: tuple[str, ...] = ()
    label: str | None = None
    score: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        label = (self.label,) if self.label else ()
        return (self.query, *self.positive, *self.negative, *self.document, *label, *self.score)

    def __str__(self) -> str:
        scores = f", a teacher's scores from {' and '.join(self.score)}" if self.score else ""
        if self.label:
            return f"query from {self.query}, document from {self.document[0]}, grade from {self.label}{scores}"
        others = f", others from {_listed(self.negative)}" if self.negative else ""
        return f"query from {self.query}, relevant document from {_listed(self.positive)}{others}{scores}"

    def judged(self, row: Mapping[str, Any]) -> Judged:
        """What a row judges. Raises Wrong, or Unusable if it lacks a text."""
        query = _text(self.query, row[self.query])
        if self.label:
            return Judged(query, self._labelled(row, self.label))
        relevant = [text for name in self.positive for text in _texts(name, row[name], needed=len(self.positive) == 1)]
        if not relevant:
            raise Unusable(f"no '{self.positive[0]}'", "give the query a relevant document or leave the row out")
        others = [text for name in self.negative for text in _texts(name, row[name])]
        scores = self._scores(row, len(relevant), len(others))
        grades = [1] * len(relevant) + [0] * len(others)
        cells = list(zip([*relevant, *others], grades, scores, strict=True))
        own = set(relevant)
        kept = [cell for cell in cells if cell[1] or cell[0] not in own]
        return Judged(query, kept, own=len(kept) < len(cells))

    def _labelled(self, row: Mapping[str, Any], label: str) -> list[tuple[str, int, float]]:
        """One document with its grade, or lists of both."""
        texts = [text for name in self.document for text in _texts(name, row[name], needed=True)]
        listed = isinstance(row[self.document[0]], list) and isinstance(row[label], list)
        labels = row[label] if listed else [row[label]]
        if len(labels) != len(texts):
            raise Wrong(f"{len(texts)} documents and {len(labels)} in '{label}'", "give each document its label")
        grades = [_grade(label, value) for value in labels]
        return list(zip(texts, grades, self._scores(row, len(texts), 0), strict=True))

    def _scores(self, row: Mapping[str, Any], relevant: int, others: int) -> list[float]:
        """A teacher's score of each document, NaN where the row has none. One number for several documents is the
        difference of two scores, which says nothing of a document alone."""
        counts = [relevant, others] if len(self.score) > 1 else [relevant + others]
        found: list[float] = []
        for name, count in zip(self.score, counts, strict=False):
            value = row[name]
            values = value if isinstance(value, list) else [value] if count == 1 else []
            if not values or value is None:
                found += [math.nan] * count
            elif len(values) == count:
                found += [_score(name, each) for each in values]
            else:
                raise Wrong(f"{count} documents and {len(values)} in '{name}'", "give each document its score")
        return found + [math.nan] * (relevant + others - len(found))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def columns_of(names: Sequence[str], chosen: Mapping[str, str] | None = None) -> Columns:
    """Which of a file's columns are read. `chosen`: the columns of roles that the user names, and then no others.
    Raises Wrong if they fit no form, or two."""
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise Wrong(f"two columns '{repeated}'", "name each column once")
    roles = _chosen(names, chosen) if chosen else _known(names)
    if len(roles["query"]) > 1:
        raise Wrong(
            f"the columns {', '.join(names)} could be read as query from {' or from '.join(roles['query'])}",
            "keep one, or name it: data.columns.query",
        )
    forms = list(_readings(roles)) + _sentences(names, roles)
    if len(forms) > 1:
        forms_in_words = " or as ".join(map(str, forms))
        raise Wrong(f"the columns {', '.join(names)} could be read as {forms_in_words}", "keep one form")
    if not forms:
        if roles["score"] and roles["query"] and (roles["positive"] or roles["document"]):
            wrong = f"no grades: {roles['score'][0]} is a teacher's score, which says not what is relevant"
            raise Wrong(wrong, "name it label if its whole numbers are grades, or add the column label")
        raise Wrong(f"no form of pairs has the columns {', '.join(names)[:200]}", FORM)
    return forms[0]


Roles = Mapping[str, tuple[str, ...]]


def _known(names: Sequence[str]) -> Roles:
    """The columns of each role, by the names in use; several only where a number tells them apart."""
    found = {}
    for role, known in ROLES.items():
        kinds = {name: _plain(name) for name in names}
        mine = [name for name in names if kinds[name] in known]
        found[role] = tuple(sorted(mine, key=lambda name: (known.index(kinds[name]), _number(name))))
    return found


def _chosen(names: Sequence[str], chosen: Mapping[str, str]) -> Roles:
    if missing := [column for column in chosen.values() if not any(_named(name, column) for name in names)]:
        raise Wrong(f"no column '{missing[0]}' (data.columns)", f"one of {', '.join(names)[:200]}")
    return {role: tuple(name for name in names if _named(name, chosen.get(role))) for role in ROLES}


def _named(name: str, column: str | None) -> bool:
    """Whether a column has that name, or that name with a number behind it."""
    return column is not None and column in (name, _NUMBER.sub("", name))


def _number(name: str) -> int:
    match = _NUMBER.search(name)
    return int(match[1]) if match else 0


def _readings(roles: Roles) -> Iterator[Columns]:
    """The forms that the columns fit. A label gives documents their grades, whatever their column is called."""
    query, label = (next(iter(roles[role]), None) for role in ("query", "label"))
    if query is None:
        return
    scores = roles["score"] or (*roles["pos_scores"], *roles["neg_scores"])
    positive, negative, document = (roles[role] for role in ("positive", "negative", "document"))
    kinds = {_plain(name) for name in positive}
    if len(kinds) > 1 and not label:
        for kind in sorted(kinds):
            yield Columns(query, tuple(name for name in positive if _plain(name) == kind), negative, score=scores)
        return
    alone = bool(roles["score"]) and len(positive) == 1 and not negative  # a score that may say what is not relevant
    if positive and not alone and (negative or document or not label):
        yield Columns(query, positive, negative, score=scores)
    if label:
        for name in document or positive:
            yield Columns(query, document=(name,), label=label, score=scores[:1])


def _sentences(names: Sequence[str], roles: Roles) -> list[Columns]:
    plain = {_plain(name): name for name in names}
    if set(_SECOND) <= plain.keys() and roles["label"]:
        return [Columns(plain[_SECOND[0]], document=(plain[_SECOND[1]],), label=roles["label"][0])]
    return []


def _texts(name: str, value: Any, needed: bool = False) -> list[str]:
    """The texts of a cell: one, or a list of texts or of objects with a text and, perhaps, a title. Empty ones of a
    list are passed over; `needed`: a cell that is no list must have one."""
    if isinstance(value, list):
        texts = [_text_of(name, each) for each in value]
        return [text for text in texts if text]
    if value in (None, "") and not needed:
        return []
    return [_text(name, value)]


def _text(name: str, value: Any) -> str:
    text = _text_of(name, value)
    if not text:
        raise Unusable(f"an empty '{name}'", "give a text or leave the row out")
    return text


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, Mapping) and is_text(value.get("text")):
        title = value.get("title")
        value = f"{title} {value['text']}" if is_text(title) and title else value["text"]
    if isinstance(value, bytes):
        raise Wrong(f"'{name}' is not UTF-8", "save the texts as UTF-8")
    if value is None:
        raise Wrong(f"no '{name}'", "give the column a text in every row")
    if not is_text(value):
        raise Wrong(f"'{name}' is no text", "give the column a text in every row")
    text = one_line(value)
    return "" if text.isspace() else text


def _grade(name: str, value: Any) -> int:
    """Whole numbers, as numbers, texts or true and false. A fraction is no grade: where it would begin to mean
    relevant, only the user knows."""
    try:
        return grade_of(str(int(value)) if isinstance(value, bool) else str(value).strip(), least=0)
    except Wrong:
        shown = "no label" if value is None else f"{name} '{str(value)[:40]}'"
        right = f"write a whole number from 0 (not relevant) to {MAX_GRADE}; fractions are a teacher's scores"
        raise Wrong(shown, f"{right} (scores.SPLIT.tsv)") from None


def _score(name: str, value: Any) -> float:
    if value is None or isinstance(value, bool):
        raise Wrong(f"'{name}' holds {value}", "write numbers")
    return score_of(str(value))
