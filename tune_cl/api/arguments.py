"""What may be given from Python where texts are scored: each kind of argument is looked at here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from trainables.core.errors import DataError, Problem
from trainables.data.cells import IDS, TEXTS
from trainables.data.forms.columns import ROLES
from trainables.data.forms.frames import columns_in

DOCUMENT = (*ROLES["document"], *TEXTS)
OF_DOCUMENTS = "a list of texts, {id: text}, or a table with a column document (and id)"
OF_PAIRS = "(query, document) pairs, or a table with columns query and document"
Columns = Mapping[str, Sequence[Any]]


class Documents(NamedTuple):
    """Texts to rank. `names`: what results call them: the given ids, else their positions."""

    names: Sequence[Any]
    texts: Sequence[str]


def documents_of(documents: Any) -> Documents:
    """The documents in an argument: a sequence or iterator of texts, a mapping of ids to texts, a table or a list of
    mappings with a column for the text and, perhaps, one for the id. Raises DataError for any other, and for every
    row that is not a text."""
    if isinstance(documents, str | bytes):
        raise DataError(Problem("documents", "one text, whose letters would be ranked", OF_DOCUMENTS))
    if isinstance(documents, AbstractSet):
        raise DataError(Problem("documents", "a set, which has no order to name its texts by", OF_DOCUMENTS))
    columns = columns_in(documents)
    if columns is None and isinstance(documents, Mapping):
        texts = require_texts((f"documents[{name!r}]", text) for name, text in documents.items())
        return Documents(list(documents), texts)
    if columns is None:
        rows = _listed("documents", documents, OF_DOCUMENTS)
        columns = _columns_of(rows)
        if columns is None:
            texts = require_texts((f"documents[{number}]", text) for number, text in enumerate(rows))
            return Documents(range(len(rows)), texts)
    column = _column("documents", columns, DOCUMENT, OF_DOCUMENTS)
    texts = require_texts((f"documents, row {number}", text) for number, text in enumerate(column))
    ids = next((columns[name] for name in IDS if name in columns), range(len(texts)))
    return Documents(ids, texts)


def pairs_of(pairs: Any) -> list[tuple[str, str]]:
    """The pairs of query and document in an argument: one pair of texts, an iterable of pairs, a table or a list of
    mappings with columns query and document. Raises DataError for any other, and for every row that is not a pair."""
    if isinstance(pairs, str | bytes | AbstractSet):
        raise DataError(Problem("pairs", f"a {type(pairs).__name__}", OF_PAIRS))
    columns = columns_in(pairs)
    if columns is None and isinstance(pairs, Mapping):
        columns = {name: [value] if isinstance(value, str) else list(value) for name, value in pairs.items()}
    if columns is None:
        rows = _listed("pairs", pairs, OF_PAIRS)
        if isinstance(pairs, tuple) and len(rows) == 2 and all(isinstance(text, str) for text in rows):
            return [(rows[0], rows[1])]
        if isinstance(pairs, tuple) and len(rows) == 2 and all(isinstance(side, list) for side in rows):
            raise DataError(Problem("pairs", "two lists, of queries and of documents", "list(zip(queries, documents))"))
        columns = _columns_of(rows)
        if columns is None:
            return _pairs(rows)
    queries = _column("pairs", columns, ROLES["query"], OF_PAIRS)
    documents = _column("pairs", columns, DOCUMENT, OF_PAIRS)
    if len(queries) != len(documents):
        wrong = f"{len(queries)} queries and {len(documents)} documents"
        raise DataError(Problem("pairs", wrong, "as many of each"))
    return _pairs(list(zip(queries, documents, strict=True)))


def _pairs(rows: Sequence[Any]) -> list[tuple[str, str]]:
    problems = []
    for number, row in enumerate(rows):
        if isinstance(row, str | bytes) or not isinstance(row, Iterable) or len(sides := list(row)) != 2:
            problems.append(Problem(f"pairs[{number}]", f"{_shown(row)} is not a pair", OF_PAIRS))
        else:
            problems += [_no_text(f"pairs[{number}]", side) for side in sides if not isinstance(side, str)]
    if problems:
        raise DataError(problems)
    return [(query, document) for query, document in rows]


def require_texts(named: Iterable[tuple[str, Any]]) -> list[str]:
    """The values of (name, value), all texts. Raises DataError for every one that is none."""
    named = list(named)
    if wrong := [_no_text(name, value) for name, value in named if not isinstance(value, str)]:
        raise DataError(wrong)
    return [value for _, value in named]


def _no_text(name: str, value: Any) -> Problem:
    return Problem(name, f"{_shown(value)} is not a text", "a text, or leave it out")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _listed(name: str, value: Any, right: str) -> list[Any]:
    if not isinstance(value, Iterable):
        raise DataError(Problem(name, f"{_shown(value)} is not a list", right))
    return list(value)


def _columns_of(rows: Sequence[Any]) -> Columns | None:
    """The columns of rows that are mappings, in which what a row lacks is None; None for other rows."""
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        return None
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _column(argument: str, columns: Columns, names: Sequence[str], right: str) -> list[Any]:
    """The first column of these names. Raises DataError if there is none."""
    for name in names:
        if name in columns:
            return list(columns[name])
    wrong = f"no column {names[0]} among {', '.join(map(str, columns))[:100]}"
    raise DataError(Problem(argument, wrong, right))
