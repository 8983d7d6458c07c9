"""What the columns of pairs mean, by their names; of files without a header, by what they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainables.data.cells import Wrong, number_of, whole_number

if TYPE_CHECKING:
    import pandas as pd

# Names in use for each role, in the order in which they are preferred; a number may follow: negative_2.
ROLES = {
    "query": ("query", "anchor", "question", "sentence1"),
    "positive": ("positive", "pos", "answer", "response", "positives", "positive_passages", "positive_ctxs"),
    "negative": (
        *("negative", "neg", "negatives", "rejected_response", "negative_passages", "negative_ctxs"),
        *("hard_negative", "hard_negatives", "hard_negative_ctxs"),
    ),
    "document": ("document", "doc", "passage", "text", "documents", "docs", "passages", "candidates", "sentence2"),
    "label": ("label", "labels", "grade", "grades", "relevance"),
    "score": ("score", "scores"),
    "pos_scores": ("pos_scores", "pos_score", "positive_scores", "positive_score"),
    "neg_scores": ("neg_scores", "neg_score", "negative_scores", "negative_score"),
}
KNOWN = {name for names in ROLES.values() for name in names}
LISTED = ("passages", "documents", "candidates", "docs")  # a column whose objects may have grades of their own
FORM = (
    "query (or anchor), positive, negative or negative_1, ...; query, document, label; sentence1, sentence2, label; or "
    "name yours: data.columns"
)
HEADER = "a first row that names the columns (query, positive, negative; or query, document, label), or data.columns"
SAMPLE = 50  # rows by whose cells the columns of a file without a header are known
FEW, SHORT = 5, 30  # so many different values that repeat are not texts; letters of a column's name
_NAME = re.compile(r"[^\W\d][\w.-]*")
_NUMBERED = re.compile(r"_?([0-9]+)$")


@dataclass(frozen=True)
class Columns:
    """The columns that are read, by role: with a label the document has its grade; without one, positives are relevant
    and negatives are not. `graded`: the documents are objects that have grades of their own; `classes`: what the
    label's numbers stand for."""

    query: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    document: str | None = None
    label: str | None = None
    score: tuple[str, ...] = ()
    graded: bool = False
    classes: Sequence[str] = ()

    @property
    def grades_given(self) -> bool:
        """Whether the rows say grades."""
        return self.graded or self.label is not None

    @property
    def names(self) -> tuple[str, ...]:
        names = (self.query, *self.positive, *self.negative, self.document, self.label, *self.score)
        return tuple(name for name in names if name is not None)

    def __str__(self) -> str:
        scores = f", a teacher's scores from {' and '.join(self.score)}" if self.score else ""
        if self.graded:
            return f"query from {self.query}, documents and their grades from {self.document}"
        if self.label:
            return f"query from {self.query}, document from {self.document}, grade from {self.label}{scores}"
        others = f", others from {_listed(self.negative)}" if self.negative else ""
        return f"query from {self.query}, relevant document from {_listed(self.positive)}{others}{scores}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def columns_of(frame: pd.DataFrame, chosen: Mapping[str, str]) -> Columns:
    """Which columns of a table are read. `chosen`: the columns of roles that the user names, and then no others. Raises
    Wrong if they fit no form, or two."""
    names = [name for name in frame.columns if name not in ("file", "line")]
    if repeated := next((name for name in names if name and names.count(name) > 1), None):
        raise Wrong(f"two columns '{repeated}'", "name each column once")
    roles = _chosen(names, chosen) if chosen else _known(names)
    listing = ", ".join(names)[:200]
    if len(roles["query"]) > 1:
        wrong = f"the columns {listing} could be read as query from {' or from '.join(roles['query'])}"
        raise Wrong(wrong, "keep one, or name it: data.columns.query")
    forms = list(_readings(roles))
    if len(forms) == 1:
        return replace(forms[0], classes=frame.attrs.get("classes", {}).get(forms[0].label or "", ()))
    if forms:
        raise Wrong(f"the columns {listing} could be read as {' or as '.join(map(str, forms))}", "keep one form")
    if {"qid", "label"} <= {name.lower() for name in names}:
        right = "LETOR's form, train.txt with rows LABEL qid:N INDEX:VALUE ...: sklearn.datasets.dump_svmlight_file"
        raise Wrong("features and labels in columns", right)
    if roles["score"] and roles["query"] and (roles["positive"] or roles["document"]):
        wrong = f"no grades: {roles['score'][0]} is a teacher's score, which says not what is relevant"
        raise Wrong(wrong, "name it label if its whole numbers are grades, or round it to some in a column label")
    raise Wrong(f"no form of pairs has the columns {listing}", FORM)


Roles = Mapping[str, tuple[str, ...]]


def _known(names: Sequence[str]) -> Roles:
    """The columns of each role, by the names in use; several only where a number tells them apart."""
    roles = {}
    for role, synonyms in ROLES.items():
        columns = [name for name in names if _plain(name) in synonyms]
        roles[role] = tuple(sorted(columns, key=lambda name: (synonyms.index(_plain(name)), _number(name))))
    return roles


def _plain(name: str) -> str:
    """A column's name without capitals and the number behind it; sentence1 keeps its own."""
    name = name.strip().lower()
    return name if name in KNOWN else _NUMBERED.sub("", name)


def _number(name: str) -> int:
    match = _NUMBERED.search(name)
    return int(match[1]) if match else 0


def _chosen(names: Sequence[str], chosen: Mapping[str, str]) -> Roles:
    roles = {role: tuple(name for name in names if chosen.get(role) in (name, _NUMBERED.sub("", name)))
             for role in ROLES}  # fmt: skip
    if missing := [column for role, column in chosen.items() if not roles[role]]:
        raise Wrong(f"no column '{missing[0]}' (data.columns)", f"one of {', '.join(names)[:200]}")
    return roles


def _readings(roles: Roles) -> Iterator[Columns]:
    """The forms that the columns fit. A label gives documents their grades, whatever their column is called."""
    if not roles["query"]:
        return
    query, label = roles["query"][0], next(iter(roles["label"]), None)
    scores = roles["score"] or (*roles["pos_scores"][:1], *roles["neg_scores"][:1])
    positive, negative, document = (roles[role] for role in ("positive", "negative", "document"))
    kinds = {_plain(name) for name in positive}
    if len(kinds) > 1 and not label:
        for kind in sorted(kinds):
            yield Columns(query, tuple(name for name in positive if _plain(name) == kind), negative, score=scores)
        return
    alone = bool(roles["score"]) and len(positive) == 1 and not negative  # a score that may say what is not relevant
    if positive and not alone and (negative or document or not label):
        yield Columns(query, positive, negative, score=scores)
    if document and not (positive or negative or label or scores) and _plain(document[0]) in LISTED:
        yield Columns(query, document=document[0], graded=True)
    for name in (document or positive) if label else ():
        yield Columns(query, document=name, label=label, score=scores[:1])


# -- files without a header --------------------------------------------------------------------------------------------


def names_columns(row: Sequence[str]) -> bool:
    """Whether a first row is a header: single words, one of the names in use, or two or more names of at most four
    words, two of which have a word that is in use."""
    if all(map(_NAME.fullmatch, row)) or any(name.strip().lower() in KNOWN for name in row):
        return True
    matches = sum(bool(KNOWN.intersection(re.findall(r"[^\W\d_]+", field.lower()))) for field in row)
    short = all(len(field.split()) <= 4 and len(field) <= SHORT and not _is_number(field) for field in row)
    return short and len(row) > 1 and matches >= 2


def names_without_header(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Names for the columns of rows without a header, by what they hold: query and relevant document, then other
    documents, or one grade. Raises Wrong for rows that could mean anything else."""
    columns = [[str(cell).strip() for cell in column] for column in zip(*rows, strict=True)]
    kinds = ["texts" if _kind(columns[0]) == "few values" else _kind(columns[0]), *map(_kind, columns[1:])]
    if kinds == ["texts", "texts", "grades"]:
        return "query", "document", "label"
    if set(kinds) == {"texts"} and len(kinds) > 1:
        return "query", "positive", *(f"negative_{number}" for number in range(1, len(kinds) - 1))
    if len(kinds) == 1:
        raise Wrong("rows of one column, without a header", f"give {HEADER}")
    number, kind = next((number, kind) for number, kind in enumerate(kinds, 1) if kind != "texts")
    raise Wrong(f"no header, and column {number} holds {kind} ('{columns[number - 1][0][:40]}')", f"give {HEADER}")


def _kind(column: Sequence[str]) -> str:
    """What a column without a name holds: texts, grades, other numbers or few values that repeat."""
    distinct = set(column)
    if all(map(_is_number, column)):
        whole = [whole_number(text) for text in distinct]
        grades = len(distinct) <= 2 * FEW and all(number is not None and number >= 0 for number in whole)
        return "grades" if grades else "numbers"
    return "few values" if len(column) > 2 * FEW and len(distinct) <= FEW else "texts"


def _is_number(text: str) -> bool:
    return math.isfinite(number_of(text.strip()))
