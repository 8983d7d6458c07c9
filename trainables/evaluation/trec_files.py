"""TREC run and qrels files, and per-query values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.files import MOST_TEXT, opened, write_text
from trainables.data.cells import Wrong, score_in, usable_id, whole_number
from trainables.data.columns import MAX_GRADE, RankingData, Split
from trainables.data.files import beginning, json_wrong, parsed_json, unreadable, whole_text
from trainables.evaluation.metrics import TrecOrder


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """{query: {document: score}} of a TREC run, plain or compressed, or of JSON. As in trec_eval, the rank column is
    not used; of MS MARCO's runs (QUERY DOCUMENT RANK) it decides, and the score is its negative.

    Raises DataError: columns, score not a finite float32, repeated query and document, not UTF-8.
    """
    return _by_query(Path(path), "score")


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """{query: {document: grade}} of a TREC qrels file, or BEIR's or one of JSON lines, CSV or TSV with such columns,
    plain or compressed, or of JSON.

    Raises DataError: columns, grade not an int16, repeated query and document, not UTF-8.
    """
    return _by_query(Path(path), "label")


def _by_query(path: Path, value: str) -> dict[str, dict[str, Any]]:
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


def _of_json(path: Path, value: str) -> dict[str, dict[str, Any]]:
    """The same of a file of JSON, {query: {document: value}}, as pytrec_eval and ranx have it."""
    right = "an object {QUERY: {DOCUMENT: VALUE}}"
    value_of = grade_given if value == "label" else score_in
    try:
        whole = parsed_json(whole_text(path))
        return {query: {document: value_of(value, cell) for document, cell in values.items()}
                for query, values in whole.items()}  # fmt: skip
    except Wrong as wrong:
        raise DataError(Problem(f"{path}:1", *wrong.args)) from None
    except ValueError as error:
        wrong = json_wrong(error)
        raise DataError(Problem(f"{path}:1", wrong, right)) from None
    except AttributeError:
        raise DataError(Problem(f"{path}:1", "JSON of another form", right)) from None


def grade_given(name: str, value: Any) -> int:
    """The grade in a file of judgments, which may be negative. Raises Wrong for what is no whole number."""
    grade = None if isinstance(value, bool) else whole_number(str(value))
    if grade is None or not abs(grade) <= MAX_GRADE:
        raise Wrong(f"grade '{value}'", f"write a whole number up to {MAX_GRADE}")
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
