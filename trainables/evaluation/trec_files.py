"""TREC run and qrels files, and per-query values."""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.files import MOST_TEXT, lines_of, opened, too_long, write_text
from trainables.data.columns import MAX_GRADE, RankingData, Split
from trainables.data.readers.judgments import BEIR_QRELS
from trainables.data.readers.rows import BROKEN, Wrong, grade_of, open_bytes, score_of, whole_number
from trainables.evaluation.metrics import TrecOrder

RUN_ROW = "QUERY Q0 DOCUMENT RANK SCORE TAG"
QRELS_ROW = "QUERY 0 DOCUMENT GRADE"
MOST_BYTES = 1 << 33  # of a run or qrels file, unpacked
SHORT = 3  # fields of BEIR's judgments and of MS MARCO's runs


def read_run(path: str | Path, pipes: bool = False) -> dict[str, dict[str, float]]:
    """{query: {document: score}} of a TREC run, plain or compressed. As in trec_eval, the rank column is not used; of
    MS MARCO's runs (QUERY DOCUMENT RANK) it decides, and the score is its negative. `pipes`: a pipe is read, too.

    Raises DataError with every wrong line: columns, score not a finite float32, repeated query and document, not UTF-8.
    """
    return _read(path, RUN_ROW, _score, lambda fields: -float(_whole(fields[2])), pipes)


def read_qrels(path: str | Path, pipes: bool = False) -> dict[str, dict[str, int]]:
    """{query: {document: grade}} of a TREC qrels file, or BEIR's with its header, plain or compressed. `pipes`: a pipe
    is read, too.

    Raises DataError with every wrong line: columns, grade not an int16, repeated query and document, not UTF-8.
    """
    of_short: ValueOf = lambda fields: grade_of(_text(fields[2]), least=-MAX_GRADE)  # noqa: E731
    return _read(path, QRELS_ROW, _grade, of_short, pipes, BEIR_QRELS)


ValueOf = Callable[[list[bytes]], float]


def _read(
    path: str | Path,
    form: str,
    value_of: ValueOf,
    of_short: ValueOf,
    pipes: bool,
    header: Sequence[str] | None = None,
) -> dict[str, dict]:
    """`of_short`: the value of a row of three fields, QUERY DOCUMENT VALUE; they need the `header`, if there is one."""
    table: dict[str, dict] = {}
    problems: list[Problem] = []
    short = header is None
    for number, line in _lines(Path(path), pipes):
        try:
            if number == 1 and line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                problems.append(Problem(f"{path}:1", "UTF-16", "save the file as UTF-8"))
                break
            fields = line.split()  # bytes are split at ASCII white space only, as in trec_eval
            if header and not table and [_text(field) for field in fields] == list(header):
                short = True
            elif short and len(fields) == SHORT:
                _add(table, [fields[0], b"", *fields[1:]], form, lambda row: of_short([row[0], *row[2:]]), SHORT + 1)
            elif fields:
                _add(table, fields, form, value_of)
        except Wrong as wrong:
            problems.append(Problem(f"{path}:{number}", *wrong.args))
    if not table and not problems:
        problems.append(Problem(str(path), "no rows", f"write rows '{form}'"))
    if problems:
        raise DataError(problems)
    return table


def _lines(path: Path, pipes: bool) -> Iterator[tuple[int, bytes]]:
    size = 0
    try:
        with open_bytes(path, pipes) as file:
            for number, line in enumerate(lines_of(file, path), start=1):
                if (size := size + len(line)) > MOST_BYTES:
                    raise too_long(path, MOST_BYTES)
                yield number, line.removeprefix(BOM_UTF8) if number == 1 else line
    except FileNotFoundError:
        right = "/dev/stdin for standard input" if str(path) == "-" else "give the path of a TREC file"
        raise DataError(Problem(str(path), "no such file", right)) from None
    except BROKEN as error:
        raise DataError(Problem(str(path), f"cannot be read ({error})", "give a readable TREC file")) from None


def _add(table: dict[str, dict], fields: list[bytes], form: str, value_of: ValueOf, columns: int = 0) -> None:
    columns = columns or form.count(" ") + 1
    if len(fields) != columns:
        raise Wrong(f"{len(fields)} columns instead of {columns}", f"write '{form}'")
    try:
        query, document = fields[0].decode(), fields[2].decode()
    except UnicodeDecodeError:
        raise Wrong("not UTF-8", "convert the file to UTF-8") from None
    row = table.setdefault(query, {})
    if document in row:
        raise Wrong(f"document '{document}' a second time for query '{query}'", "keep one row a query and document")
    row[document] = value_of(fields)


def _whole(field: bytes) -> int:
    rank = whole_number(_text(field))
    if rank is None:
        raise Wrong(f"rank '{_text(field)}'", f"write 'QUERY DOCUMENT RANK' or '{RUN_ROW}'")
    return rank


def _score(fields: list[bytes]) -> float:
    return score_of(_text(fields[4]))


def _grade(fields: list[bytes]) -> int:
    return grade_of(_text(fields[3]), least=-MAX_GRADE)


def _text(field: bytes) -> str:
    return field.decode(errors="replace")


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
    encoded = [word.encode() for word in words]
    if b" ".join(encoded).split() != encoded:
        wrong = next(word for word, raw in zip(words, encoded, strict=True) if raw.split() != [raw])
        raise DataError(Problem(str(path), f"{wrong!r} does not fit a TREC file", "use words without white space"))
