"""TREC run and qrels files, and per-query values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.files import MOST_TEXT, opened, write_text
from trainables.data.columns import MAX_GRADE, RankingData, Split
from trainables.data.readers.blocks import plain_run
from trainables.data.readers.judgments import Triples, qrels_of, qrels_rows, run_of, run_rows
from trainables.data.readers.rows import Rows, Wrong, first_bytes, grade_of, read_whole, score_of, usable_id
from trainables.evaluation.metrics import TrecOrder

T = TypeVar("T")


def read_run(path: str | Path, pipes: bool = False) -> dict[str, dict[str, float]]:
    """{query: {document: score}} of a TREC run, plain or compressed, or of JSON. As in trec_eval, the rank column is
    not used; of MS MARCO's runs (QUERY DOCUMENT RANK) it decides, and the score is its negative. `pipes`: a pipe is
    read, too.

    Raises DataError with every wrong line: columns, score not a finite float32, repeated query and document, not UTF-8.
    """
    rows = run_of(Path(path), [])
    rows.pipes = pipes
    return _of_json(rows, score_of) or _of_plain(Path(path)) or _by_query(rows, run_rows(rows), score_of)


def read_qrels(path: str | Path, pipes: bool = False) -> dict[str, dict[str, int]]:
    """{query: {document: grade}} of a TREC qrels file, or BEIR's with its header, plain or compressed, or of JSON.
    `pipes`: a pipe is read, too.

    Raises DataError with every wrong line: columns, grade not an int16, repeated query and document, not UTF-8.
    """
    rows, grade = qrels_of(Path(path), []), partial(grade_of, least=-MAX_GRADE)
    rows.pipes = pipes
    return _of_json(rows, grade) or _by_query(rows, qrels_rows(rows), grade)


def _of_json(rows: Rows, value_of: Callable[[str], T]) -> dict[str, dict[str, T]] | None:
    """The same of a file of JSON, {query: {document: value}}, as pytrec_eval and ranx have it; None of another file."""
    if not rows.path.is_file() or not first_bytes(rows.path).lstrip().startswith(b"{"):
        return None
    right = "{QUERY: {DOCUMENT: VALUE}}"
    try:
        whole = json.loads(read_whole(rows.path, rows.problems) or "{}")
        return {
            query: {document: value_of(str(value)) for document, value in values.items()}
            for query, values in whole.items()
        }
    except Wrong as wrong:
        rows.problem(1, *wrong.args)
    except (ValueError, RecursionError):
        rows.problem(1, "not JSON", f"an object {right}, or rows {rows.form}")
    except AttributeError:
        rows.problem(1, "JSON of another form", f"an object {right}")
    raise DataError(rows.problems)


def _of_plain(path: Path) -> dict[str, dict[str, float]] | None:
    """The same of a run that pyarrow can parse; None of any other, and of one that has a document twice for a query,
    whose lines the reader of rows names."""
    if not (run := plain_run(path)):
        return None
    order = np.argsort(run.query, kind="stable")
    documents = np.array(run.documents, object)[run.document[order]].tolist()
    scores, ends = run.value[order].tolist(), np.bincount(run.query).cumsum().tolist()
    table = {
        query: dict(zip(documents[start:end], scores[start:end], strict=True))
        for query, start, end in zip(run.queries, [0, *ends], ends, strict=False)
    }
    return table if sum(map(len, table.values())) == len(documents) else None


def _by_query(rows: Rows, rated: Triples, value_of: Callable[[str], T]) -> dict[str, dict[str, T]]:
    table: dict[str, dict[str, T]] = {}
    for number, query, document, field in rated:
        values = table.setdefault(query, {})
        try:
            if document in values:
                repeated = f"document '{document}' a second time for query '{query}'"
                raise Wrong(repeated, "keep one row a query and document")
            values[document] = value_of(field)
        except Wrong as wrong:
            rows.problem(number, *wrong.args)
    if not table and not rows.problems:
        rows.file_problem("no rows", f"each row is {rows.form}")
    if rows.problems:
        raise DataError(rows.problems)
    return table


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
        with io.TextIOWrapper(opened(path, most=MOST_TEXT), encoding="utf-8", newline="") as file:
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
