"""What a cell or a column holds: a text, a number, a grade, an id. Every reader of named columns asks here."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainables.data.columns import MAX_GRADE
from trainables.data.readers.rows import Unusable, Wrong, grade_of, is_text, one_line, score_of, whole_number

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
IDS = ("_id", "id", "docid", "doc_id", "docno")  # keys of an object with a document or a query
TEXTS = ("text", "contents", "passage_text", "body")
TITLE = "title"
GRADES = ("is_selected", "label", "grade", "relevance")  # of an object in a list of candidates
YES = {"true", "yes", "relevant", "positive", "duplicate", "match"}
NO = {"false", "no", "irrelevant", "negative", "notrelevant", "nonrelevant", "notduplicate", "nomatch"}
SAMPLE = 200  # rows by whose cells a column is known
_FEW, _ENOUGH, _SHORT = 5, 24, 30  # so many different values, of so many and more, with so many letters are not texts
_HAS_HEADER = (
    "a first row that names the columns (query, positive, negative; or query, document, label), or data.columns"
)


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, as None, NaN or an empty text."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value == ""


def text_of(name: str, value: Any) -> str:
    """The text of a cell, in one line, perhaps empty; of an object its text, behind its title; of a number its digits.
    Raises Unusable for none, and for half a surrogate pair, which UTF-8 cannot hold."""
    if isinstance(value, Mapping):
        if not any(key in value for key in TEXTS):
            raise Wrong(f"'{name}' holds an object without a text", f"give it the key {TEXTS[0]}")
        text = next(value[key] for key in TEXTS if key in value)
        title = value.get(TITLE)
        value = f"{title} {text}" if isinstance(title, str) and title and isinstance(text, str) else text
    if isinstance(value, bytes):
        raise Wrong(f"'{name}' is not UTF-8", "save the texts as UTF-8")
    if is_missing(value):
        if value == "":
            return ""
        raise Unusable(f"no '{name}'", "give the column a text in every row")
    value = digits(value)
    if isinstance(value, str) and not is_text(value):
        raise Unusable(f"half a surrogate pair in '{name}', which is not a character", "cut texts between characters")
    if not isinstance(value, str):
        raise Wrong(f"'{name}' is not a text", "give the column a text in every row")
    text = one_line(value)
    return "" if text.isspace() else text


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


def grade_in(name: str, value: Any, classes: Sequence[str] = ()) -> int:
    """The grade in a label's cell: a whole number, as number or text, or true and false; of a class, `classes` names
    them, what its name says. A fraction is not a grade: where it would begin to mean relevant, only the user knows.
    Raises Unusable for none."""
    if is_missing(value):
        raise Unusable(f"no '{name}'", "give the row a label or leave it out")
    if classes:
        return _grade_of_class(name, value, classes)
    said = _plain(str(value))
    if isinstance(value, bool) or said in ("true", "false"):
        return int(said == "true")
    try:
        return grade_of(str(value).strip(), least=0)
    except Wrong:
        right = f"write a whole number from 0 (not relevant) to {MAX_GRADE}; fractions are a teacher's scores"
        raise Wrong(f"{name} '{str(value)[:40]}'", f"{right} (scores.SPLIT.tsv)") from None


def _plain(word: str) -> str:
    return "".join(filter(str.isalnum, word.lower()))


def _grade_of_class(name: str, value: Any, classes: Sequence[str]) -> int:
    """Class names that are numbers are the grades; of two, one says that a document is relevant; of more that begin
    with a not relevant one, the numbers rise with relevance."""
    index, names = int(value), [_plain(each) for each in classes]
    if all(whole_number(each) is not None for each in classes):
        return grade_in(name, classes[index])
    if len(names) == 2 and {names[0] in NO, names[1] in NO} == {True, False}:
        return int(names[index] not in NO)
    if len(names) == 2 and (names[0] in YES) != (names[1] in YES):
        return int(names[index] in YES)
    if names[0] in NO and NO.isdisjoint(names[1:]):
        return index
    shown = ", ".join(classes)[:100]
    raise Wrong(
        f"'{name}' holds the classes {shown}, which are not grades", "a column of whole numbers, 0 not relevant"
    )


def score_in(name: str, value: Any) -> float:
    """A teacher's score in a cell."""
    if value is None or isinstance(value, bool):
        raise Wrong(f"'{name}' holds {value}", "write numbers")
    return score_of(str(value))


def objects_in(value: Any) -> Any:
    """A mapping of lists as the list of objects that the datasets library makes it of; any other value as it is."""
    if isinstance(value, Mapping) and value and all(isinstance(each, list) for each in value.values()):
        return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]
    return value


def _cells(values: Iterable[Any]) -> Iterator[Any]:
    """The cells of a column that are not empty, those of lists one by one."""
    for value in values:
        value = objects_in(value)
        for cell in value if isinstance(value, list) else [value]:
            if not is_missing(cell) and not isinstance(cell, Mapping):
                yield cell


def require_texts(name: str, values: Iterable[Any], may_repeat: bool = False) -> None:
    """Raises Wrong for a column, by the cells of its first rows, that holds no texts: numbers, or few short values that
    repeat (unless they may, as queries do)."""
    cells = [str(cell).strip() for cell in _cells(values)]
    if len(cells) > 1 and all(map(is_number, cells)):
        raise Wrong(f"'{name}' holds numbers ({', '.join(cells[:3])}, ...), no texts", _name_others(name))
    distinct = list(dict.fromkeys(cells))
    few = len(cells) >= _ENOUGH and len(distinct) <= _FEW and max(map(len, distinct)) <= _SHORT
    if few and not may_repeat:
        raise Wrong(f"'{name}' holds {', '.join(distinct)} alone, no texts", _name_others(name))


def _name_others(name: str) -> str:
    return f"name the columns of texts: data.columns.query, data.columns.positive, ... ('{name}' too, if it is meant)"


def is_number(text: str) -> bool:
    """Whether a text writes a number."""
    try:
        return text.isascii() and math.isfinite(float(text))
    except ValueError:
        return False


TRIPLE, GRADED = ("query", "positive", "negative"), ("query", "document", "label")  # columns where no header names them


def is_header(row: Sequence[str]) -> bool:
    """Whether a first row names columns: each field is of one to four words without digits, and two fields or more,
    or the only one, have a word by which columns are known."""
    named = [bool(_words_of_names(field)) for field in row]
    short = all(len(field.split()) <= 4 and len(field) <= _SHORT and not is_number(field) for field in row)
    return short and len(row) > 1 and sum(named) >= 2


def _words_of_names(field: str) -> set[str]:
    words = "".join(letter if letter.isalpha() else " " for letter in field.lower()).split()
    return KNOWN.intersection(words)


def columns_without_header(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The columns of rows without a header, by what they hold: query and relevant document, then other documents, or
    one grade. Raises Wrong for rows that could mean anything else."""
    count = len(rows[0])
    if count < 2 or any(len(row) != count for row in rows):
        raise Wrong("rows of several lengths, or of one column, without a header", f"give {_HAS_HEADER}")
    columns = [[row[index].strip() for row in rows] for index in range(count)]
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
    raise Wrong(f"no header, and {shown}", f"give {_HAS_HEADER}")


def _kind(column: Sequence[str], may_repeat: bool) -> str:
    """What a column without a name holds: texts, grades, numbers or short values. `may_repeat`: texts may, as queries
    do."""
    distinct = set(column)
    if all(map(is_number, column)):
        whole = all((number := whole_number(text)) is not None and number >= 0 for text in column)
        return "grades" if whole and len(distinct) <= 2 * _FEW else "numbers"
    repeated = len(column) > _FEW and len(distinct) <= min(_FEW, len(column) // 2)
    if repeated and not may_repeat and max(map(len, distinct)) <= _SHORT:
        return "few short values"
    return "texts" if 2 * sum(map(_is_phrase, column)) > len(column) else "single words"


def _is_phrase(text: str) -> bool:
    """Whether a text has several words, or is of a script without spaces."""
    return " " in text or any(unicodedata.category(letter) == "Lo" for letter in text[:20])
