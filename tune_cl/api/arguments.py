"""What may be given from Python where texts are scored: each kind of argument is looked at here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from trainables.core.errors import DataError, Problem
from trainables.data.cells import IDS, TEXTS
from trainables.data.forms.columns import ROLES
from trainables.data.forms.frames import columns_in

DOCUMENT = (*ROLES["document"], *TEXTS)
_TEXTS_WANTED = "a list of texts, {id: text}, or a table with a column document (and id)"
_PAIRS_WANTED = "(query, document) pairs, or a table with columns query and document"


@dataclass(frozen=True)
class Documents:
    """Texts to rank. `names`: what results call them: the given ids, else their positions."""

    names: Sequence[Any]
    texts: Sequence[str]


def documents_of(documents: Any) -> Documents:
    """The documents in an argument: a sequence or iterator of texts, a mapping of ids to texts, a table or a list of
    mappings with a column for the text and, perhaps, one for the id. Raises DataError for any other, and for every
    row that is not a text."""
    if isinstance(documents, str | bytes):
        raise DataError(Problem("documents", "one text, whose letters would be ranked", _TEXTS_WANTED))
    if isinstance(documents, AbstractSet):
        raise DataError(Problem("documents", "a set, which has no order to name its texts by", _TEXTS_WANTED))
    columns = columns_in(documents)
    if columns is None and isinstance(documents, Mapping):
        return Documents(list(documents), _texts(documents.items(), "documents[{!r}]"))
    if columns is None:
        rows = _listed("documents", documents, _TEXTS_WANTED)
        if not (rows and all(isinstance(row, Mapping) for row in rows)):
            return Documents(range(len(rows)), _texts(enumerate(rows), "documents[{}]"))
        columns = _of_rows(rows)
    texts = _texts(enumerate(_column("documents", columns, DOCUMENT)), "documents, row {}")
    ids = next((columns[name] for name in IDS if name in columns), None)
    return Documents(range(len(texts)) if ids is None else ids, texts)


def pairs_of(pairs: Any) -> list[tuple[str, str]]:
    """The pairs of query and document in an argument: one pair of texts, an iterable of pairs, a table or a list of
    mappings with columns query and document. Raises DataError for any other, and for every row that is not a pair."""
    if isinstance(pairs, str | bytes | AbstractSet):
        raise DataError(Problem("pairs", f"a {type(pairs).__name__}", _PAIRS_WANTED))
    columns = columns_in(pairs)
    if columns is None and isinstance(pairs, Mapping):
        given = {name: [value] if isinstance(value, str) else list(value) for name, value in pairs.items()}
        columns = given
    if columns is None:
        rows = _listed("pairs", pairs, _PAIRS_WANTED)
        if isinstance(pairs, tuple) and len(rows) == 2 and all(isinstance(text, str) for text in rows):
            return [(rows[0], rows[1])]
        if isinstance(pairs, tuple) and len(rows) == 2 and all(isinstance(side, list) for side in rows):
            raise DataError(Problem("pairs", "two lists, of queries and of documents", "list(zip(queries, documents))"))
        if not (rows and all(isinstance(row, Mapping) for row in rows)):
            return _pairs(rows)
        columns = _of_rows(rows)
    queries, documents = (_column("pairs", columns, names) for names in (ROLES["query"], DOCUMENT))
    if len(queries) != len(documents):
        wrong = f"{len(queries)} queries and {len(documents)} documents"
        raise DataError(Problem("pairs", wrong, "as many of each"))
    return _pairs(list(zip(queries, documents, strict=True)))


def require_query(query: Any) -> str:
    """The query, if it is a text; else raises DataError."""
    return require_texts([("query", query)])[0]


def _pairs(rows: Sequence[Any]) -> list[tuple[str, str]]:
    problems = []
    for number, row in enumerate(rows):
        place = f"pairs[{number}]"
        if isinstance(row, str | bytes) or not isinstance(row, Iterable) or len(sides := list(row)) != 2:
            problems.append(Problem(place, f"{_shown(row)} is not a pair", _PAIRS_WANTED))
        else:
            problems += [_no_text(place, side) for side in sides if not isinstance(side, str)]
    if problems:
        raise DataError(problems)
    return [(query, document) for query, document in rows]


def require_texts(named: Iterable[tuple[str, Any]]) -> list[str]:
    """The values of (place, value), all texts. Raises DataError for every one that is none."""
    named = list(named)
    if wrong := [_no_text(place, value) for place, value in named if not isinstance(value, str)]:
        raise DataError(wrong)
    return [value for _, value in named]


def _texts(named: Iterable[tuple[Any, Any]], place: str) -> list[str]:
    return require_texts((place.format(name), value) for name, value in named)


def _no_text(place: str, value: Any) -> Problem:
    return Problem(place, f"{_shown(value)} is not a text", "a text, or leave it out")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _listed(name: str, value: Any, right: str) -> list[Any]:
    if not isinstance(value, Iterable):
        raise DataError(Problem(name, f"{_shown(value)} is not a list", right))
    return list(value)


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The columns of rows; what a row lacks is None."""
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(_names(rows))}


def _names(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (name for row in rows for name in row)


def _column(argument: str, columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> list[Any]:
    """The first column of these names. Raises DataError if there is none."""
    for name in names:
        if name in columns:
            return list(columns[name])
    shown = ", ".join(map(str, columns))[:100]
    raise DataError(
        Problem(
            argument, f"no column {names[0]} among {shown}", _PAIRS_WANTED if argument == "pairs" else _TEXTS_WANTED
        )
    )
