"""TREC run and qrels files, and per-query values."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.files import write_text
from trainables.data.cells import usable_id
from trainables.data.columns import MAX_GRADE, RankingData, Split
from trainables.data.files import beginning, read_json, unreadable
from trainables.evaluation.metrics import TrecOrder

Table = dict[str, dict[str, Any]]  # query -> document -> grade or score


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """{query: {document: score}} of a TREC run, plain or compressed, or of JSON. As in trec_eval, the rank column is
    not used; of MS MARCO's runs (QUERY DOCUMENT RANK) it decides, and the score is its negative.

    Raises DataError: columns, score not a finite float32, repeated query and document, not UTF-8.
    """
    return _read(Path(path), "score")


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """{query: {document: grade}} of a TREC qrels file, or BEIR's or one of JSON lines, CSV or TSV with such columns,
    plain or compressed, or of JSON.

    Raises DataError: columns, grade not an int16, repeated query and document, not UTF-8.
    """
    return _read(Path(path), "label")


def _read(path: Path, value: str) -> Table:
    if not path.exists():
        raise DataError(unreadable(path, FileNotFoundError()))
    from trainables.data.judgments import judged, ranked
    from trainables.data.tables import Reading  # here: pandas takes half a second

    reading = Reading()
    if path.is_file():  # of a pipe the beginning would be gone
        start = beginning(path).lstrip()[:1]
        if start == b"{" and not path.name.endswith(".jsonl"):
            return _of_json(path, value)
    frame = ranked(path, reading) if value == "score" else judged(path, reading, -MAX_GRADE)
    reading.finish()
    once = ~frame.duplicated(["qid", "docno"])
    reading.require(frame, once, "document '{docno}' a second time for query '{qid}'", "one row a query and document")
    reading.finish()
    query, names = frame["qid"].factorize()
    order = np.argsort(query, kind="stable")
    documents, values = frame["docno"].to_numpy(object)[order].tolist(), frame[value].to_numpy()[order].tolist()
    ends = np.bincount(query).cumsum().tolist()
    return {
        name: dict(zip(documents[start:end], values[start:end], strict=True))
        for name, start, end in zip(names.tolist(), [0, *ends], ends, strict=False)
    }


def _of_json(path: Path, column: str) -> Table:
    """The same of a file of JSON, {query: {document: value}}, as pytrec_eval and ranx have it."""
    return by_query(rows_of_mapping(read_json(path), str(path)), str(path), column)


def rows_of_mapping(table: Mapping[Any, Any], name: str) -> Iterator[tuple[str, str, Any]]:
    """Query, document and value of each entry of {query: {document: value}}. Raises DataError for another form."""
    for query, documents in table.items():
        if not isinstance(documents, Mapping):
            raise DataError(Problem(name, f"query '{query}' has no documents", "{query: {document: value}}"))
        for document, value in documents.items():
            yield str(query), str(document), value


def by_query(rows: Iterable[tuple[str, str, Any]], name: str, column: str) -> Table:
    """{query: {document: value}} of rows, a grade each (`label`) or a score (`score`). Raises DataError naming query
    and document of each value that is none."""
    value_of, right = (_grade, "a grade") if column == "label" else (_score, "a finite score")
    table: Table = {}
    problems = []
    for query, document, value in rows:
        row = table.setdefault(query, {})
        try:
            row[document] = value_of(value)
        except (TypeError, ValueError):
            where = f"query '{query}', document '{document}'"
            problems.append(Problem(name, f"{where}: {value!r} is not {right}", f"give it {right}, or leave it out"))
    if problems:
        raise DataError(problems)
    return table


def _score(value: Any) -> float:
    if not math.isfinite(score := float(value)):
        raise ValueError
    return score


def _grade(value: Any) -> int:
    if (grade := int(value)) != float(value) or abs(grade) > MAX_GRADE:
        raise ValueError
    return grade


def write_run(
    path: str | Path, split: Split, data: RankingData, scores: np.ndarray, tag: str, order: TrecOrder | None = None
) -> None:
    """Writes the split's candidates as a TREC run, best first within each query; `scores`: float32 [C]. `order`: the
    split's, if the caller has it: building it takes as long as the rest.

    Scores have nine significant digits, so that reading them back gives the same float32 and the same order.
    Raises WorkFailed for scores that are not finite, DataError for an id that a TREC file cannot hold.
    """
    order = order or TrecOrder(split, data.document_ids)
    rows = order(scores)
    queries = _words(path, data.query_ids, split.query)
    documents = _words(path, data.document_ids, split.document[rows])
    single = np.asarray(scores, np.float32)[rows].tolist()
    columns = zip(order.owner.tolist(), documents, order.rank.tolist(), single, strict=True)
    _require_words(path, [tag])
    lines = (f"{queries[query]} Q0 {document} {rank} {score:.9g} {tag}\n" for query, document, rank, score in columns)
    write_text(path, "".join(lines))


def write_per_query(path: str | Path, query_ids: Sequence[str], values: Mapping[str, np.ndarray]) -> None:
    """Writes a TSV with a header `query_id, METRIC...` and one row per query; `values`: one array [Q] per metric."""
    columns = [np.asarray(column, np.float64).tolist() for column in values.values()]
    lines = ["\t".join(["query_id", *values])]
    for query, *row in zip(query_ids, *columns, strict=True):
        lines.append("\t".join([query, *map(repr, row)]))
    write_text(path, "\n".join(lines) + "\n")


def read_per_query(path: Path, metric: str) -> dict[str, float]:
    """{query id: value} from a file of `write_per_query`. Raises DataError for a file that is not such a table."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return {row["query_id"]: float(row[metric]) for row in rows}
    except OSError as error:
        raise DataError(
            Problem(str(path), f"cannot be read ({error.strerror})", "the file as it was written")
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            Problem(str(path), f"not a table of {metric} by query ({error})", "the file as it was written")
        ) from None


def _words(path: str | Path, ids: Sequence[str], indices: np.ndarray) -> list[str]:
    """The ids at these indices, each read and checked once."""
    distinct, index_of = np.unique(indices, return_inverse=True)
    words = [ids[int(index)] for index in distinct]
    _require_words(path, words)
    return [words[index] for index in index_of.tolist()]


def _require_words(path: str | Path, words: Sequence[str]) -> None:
    """Raises DataError for the first that is empty or has white space."""
    for word in words:
        if not usable_id(word):
            raise DataError(Problem(str(path), f"{word!r} does not fit a TREC file", "use words without white space"))
