"""What the columns of pairs mean, by their names or by what they hold."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainables.data.cells import Wrong, is_missing, is_number, objects_in, whole_number

if TYPE_CHECKING:
    import pandas as pd

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
    "pos_scores": ("pos_scores", "pos_score", "positive_scores", "positive_score"),
    "neg_scores": ("neg_scores", "neg_score", "negative_scores", "negative_score"),
}
SECOND = ("sentence1", "sentence2")  # a query and a document, with a label
KNOWN = {*(name for names in ROLES.values() for name in names), *SECOND}
LISTED = ("passages", "documents", "candidates", "docs")  # a column whose objects may have grades of their own
FORM = (
    "query (or anchor), positive, negative or negative_1, ...; query, document, label; sentence1, sentence2, label; or "
    "name yours: data.columns"
)
HEADER = "a first row that names the columns (query, positive, negative; or query, document, label), or data.columns"
SAMPLE, BARE_SAMPLE = 200, 50  # rows by whose cells a column is known; of a file without a header
FEW, ENOUGH, SHORT = 5, 24, 30  # so many different values, of so many and more, with so many letters are not texts
TRIPLE, GRADED = ("query", "positive", "negative"), ("query", "document", "label")  # where no header names columns
_NAME = re.compile(r"[^\W\d][\w.-]*")
_NUMBERED = re.compile(r"_?([0-9]+)$")


@dataclass(frozen=True)
class Columns:
    """The columns that are read, by role: with a label the documents have its grades; without one, positives are
    relevant and negatives are not. `graded`: the documents are objects that have grades of their own; `classes`: what
    the label's numbers stand for."""

    query: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    document: tuple[str, ...] = ()
    label: str | None = None
    score: tuple[str, ...] = ()
    graded: bool = False
    classes: Sequence[str] = ()

    @property
    def grades_given(self) -> bool:
        """Whether the rows say grades."""
        return self.graded or self.label is not None

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold texts."""
        return (self.query, *self.positive, *self.negative, *self.document)

    @property
    def names(self) -> tuple[str, ...]:
        label = (self.label,) if self.label else ()
        return (*self.texts, *label, *self.score)

    def __str__(self) -> str:
        scores = f", a teacher's scores from {' and '.join(self.score)}" if self.score else ""
        if self.graded:
            return f"query from {self.query}, documents and their grades from {self.document[0]}"
        if self.label:
            return f"query from {self.query}, document from {self.document[0]}, grade from {self.label}{scores}"
        others = f", others from {_listed(self.negative)}" if self.negative else ""
        return f"query from {self.query}, relevant document from {_listed(self.positive)}{others}{scores}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def columns_of(frame: pd.DataFrame, chosen: Mapping[str, str]) -> Columns:
    """Which columns of a table are read. `chosen`: the columns of roles that the user names, and then no others. Raises
    Wrong if they fit no form, or two, or hold no texts."""
    names = [name for name in frame.columns if name not in ("file", "line")]
    if repeated := next((name for name in names if name and names.count(name) > 1), None):
        raise Wrong(f"two columns '{repeated}'", "name each column once")
    columns = _named_columns(names, chosen)
    if not chosen:
        for name in columns.texts:
            _require_texts(name, frame[name].iloc[:SAMPLE], may_repeat=name == columns.query)
    return replace(columns, classes=frame.attrs.get("classes", {}).get(columns.label or "", ()))


def _named_columns(names: Sequence[str], chosen: Mapping[str, str]) -> Columns:
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
    if forms:
        return forms[0]
    if {"qid", "label"} <= {name.lower() for name in names}:
        right = "LETOR's form, train.txt with rows LABEL qid:N INDEX:VALUE ...: sklearn.datasets.dump_svmlight_file"
        raise Wrong("features and labels in columns", right)
    pair = set(SECOND) <= set(map(_plain, names))
    if roles["score"] and (pair or (roles["query"] and (roles["positive"] or roles["document"]))):
        wrong = f"no grades: {roles['score'][0]} is a teacher's score, which says not what is relevant"
        raise Wrong(wrong, "name it label if its whole numbers are grades, or round it to some in a column label")
    raise Wrong(f"no form of pairs has the columns {', '.join(names)[:200]}", FORM)


Roles = Mapping[str, tuple[str, ...]]


def _known(names: Sequence[str]) -> Roles:
    """The columns of each role, by the names in use; several only where a number tells them apart."""
    roles = {}
    for role, synonyms in ROLES.items():
        kinds = {name: _plain(name) for name in names}
        columns = [name for name in names if kinds[name] in synonyms]
        roles[role] = tuple(sorted(columns, key=lambda name: (synonyms.index(kinds[name]), _number(name))))
    return roles


def _plain(name: str) -> str:
    """A column's name without capitals and the number behind it; sentence1 keeps its own."""
    name = name.strip().lower()
    return name if name in SECOND else _NUMBERED.sub("", name)


def _number(name: str) -> int:
    match = _NUMBERED.search(name)
    return int(match[1]) if match else 0


def _chosen(names: Sequence[str], chosen: Mapping[str, str]) -> Roles:
    if missing := [column for column in chosen.values() if not any(_named(name, column) for name in names)]:
        raise Wrong(f"no column '{missing[0]}' (data.columns)", f"one of {', '.join(names)[:200]}")
    return {role: tuple(name for name in names if _named(name, chosen.get(role))) for role in ROLES}


def _named(name: str, column: str | None) -> bool:
    """Whether a column has that name, or that name with a number behind it."""
    return column is not None and column in (name, _NUMBERED.sub("", name))


def _readings(roles: Roles) -> Iterator[Columns]:
    """The forms that the columns fit. A label gives documents their grades, whatever their column is called."""
    query, label = (next(iter(roles[role]), None) for role in ("query", "label"))
    if query is None:
        return
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
        yield Columns(query, document=document[:1], graded=True)
    if label:
        for name in document or positive:
            yield Columns(query, document=(name,), label=label, score=scores[:1])


def _sentences(names: Sequence[str], roles: Roles) -> list[Columns]:
    plain = {_plain(name): name for name in names}
    if set(SECOND) <= plain.keys() and roles["label"]:
        return [Columns(plain[SECOND[0]], document=(plain[SECOND[1]],), label=roles["label"][0])]
    return []


# -- what columns hold -------------------------------------------------------------------------------------------------


def _require_texts(name: str, values: Iterable[Any], may_repeat: bool) -> None:
    """Raises Wrong for a column, by the cells of its first rows, that holds no texts: numbers, or few short values that
    repeat (unless they may, as queries do)."""
    right = f"name the columns of texts: data.columns.query, data.columns.positive, ... ('{name}' too, if it is meant)"
    cells = [str(cell).strip() for cell in _cells(values)]
    if len(cells) > 1 and all(map(is_number, cells)):
        raise Wrong(f"'{name}' holds numbers ({', '.join(cells[:3])}, ...), no texts", right)
    distinct = list(dict.fromkeys(cells))
    few = len(cells) >= ENOUGH and len(distinct) <= FEW and max(map(len, distinct)) <= SHORT
    if few and not may_repeat:
        raise Wrong(f"'{name}' holds {', '.join(distinct)} alone, no texts", right)


def _cells(values: Iterable[Any]) -> Iterator[Any]:
    """The cells of a column that are not empty, those of lists one by one."""
    for value in values:
        value = objects_in(value)
        for cell in value if isinstance(value, list) else [value]:
            if not is_missing(cell) and not isinstance(cell, Mapping):
                yield cell


def names_columns(row: Sequence[str]) -> bool:
    """Whether a first row is a header: single words, one of the names in use, or two or more names of at most four
    words, two of which have a word that is in use."""
    if all(map(_NAME.fullmatch, row)) or any(name.strip().lower() in KNOWN for name in row):
        return True
    used = sum(bool(KNOWN.intersection(re.findall(r"[^\W\d_]+", field.lower()))) for field in row)
    short = all(len(field.split()) <= 4 and len(field) <= SHORT and not is_number(field) for field in row)
    return short and len(row) > 1 and used >= 2


def names_without_header(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Names for the columns of rows without a header, by what they hold: query and relevant document, then other
    documents, or one grade. Raises Wrong for rows that could mean anything else."""
    count = len(rows[0])
    if count < 2:
        raise Wrong("rows of one column, without a header", f"give {HEADER}")
    columns = [[str(row[index]).strip() for row in rows] for index in range(count)]
    kinds = [_kind(column, may_repeat=not index) for index, column in enumerate(columns)]
    if kinds[:2] == ["texts", "texts"]:
        if set(kinds) == {"texts"}:
            return (*TRIPLE[:count], *(f"{TRIPLE[-1]}_{number}" for number in range(2, count - 1)))
        if kinds[2:] == ["grades"]:
            return GRADED
    shown = "; ".join(
        f"column {number} holds {kind} ('{column[0][:40]}')"
        for number, (kind, column) in enumerate(zip(kinds, columns, strict=True), 1)
        if kind != "texts"
    )
    raise Wrong(f"no header, and {shown}", f"give {HEADER}")


def _kind(column: Sequence[str], may_repeat: bool) -> str:
    """What a column without a name holds: texts, grades, numbers or short values. `may_repeat`: texts may, as queries
    do."""
    distinct = set(column)
    if all(map(is_number, column)):
        whole = all((number := whole_number(text)) is not None and number >= 0 for text in column)
        return "grades" if whole and len(distinct) <= 2 * FEW else "numbers"
    repeated = len(column) > FEW and len(distinct) <= min(FEW, len(column) // 2)
    if repeated and not may_repeat and max(map(len, distinct)) <= SHORT:
        return "few short values"
    return "texts" if 2 * sum(map(_is_phrase, column)) > len(column) else "single words"


def _is_phrase(text: str) -> bool:
    """Whether a text has several words, or is of a script without spaces."""
    return " " in text or any(unicodedata.category(letter) == "Lo" for letter in text[:20])
