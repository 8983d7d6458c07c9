"""Data through the ir_datasets library (MacAvaney et al. 2021), with its cache and downloads: `ir_datasets:NAME`."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem, WorkFailed
from trainables.core.prose import counted
from trainables.data.cells import usable_id
from trainables.data.columns import MAX_GRADE, SPLITS
from trainables.data.forms import IR_DATASETS
from trainables.data.rows import located
from trainables.data.tables import Reading, Tables

PART = 1 << 16  # rows that are Python's objects at once
FORM = f"{IR_DATASETS}NAME or {IR_DATASETS}NAME?train=PART&dev=PART&test=PART"
LOCATION = "data.source"
_USUAL = {"train": ("train",), "dev": ("dev", "validation", "valid", "val"), "test": ("test",)}


def parse_source(source: str) -> tuple[str, dict[str, str]]:
    """(NAME, the library's ids of datasets by split) of `ir_datasets:NAME?train=A&dev=B&test=C`, whose splits are
    NAME/A, NAME/B, NAME/C. Without parts, they are those of NAME/train, NAME/dev (or validation, valid, val) and
    NAME/test that exist and are judged; if none is, NAME itself is the test split. Raises DataError for another form.
    """
    name, mark, query = source.removeprefix(IR_DATASETS).partition("?")
    name = name.strip("/")
    if not name:
        raise DataError(Problem(LOCATION, f"'{source}' names no dataset", FORM))
    if not mark:
        return name, _usual_splits(name)
    parts = parse_qsl(query, keep_blank_values=True)
    given = dict(parts)
    if not given or len(given) < len(parts) or not set(given) <= set(SPLITS) or not all(given.values()):
        raise DataError(Problem(LOCATION, f"'{query}' does not give each split once", FORM))
    return name, {split: f"{name}/{given[split].strip('/')}" for split in SPLITS if split in given}


def _usual_splits(name: str) -> dict[str, str]:
    usual = {}
    for split, tails in _USUAL.items():
        datasets = {f"{name}/{tail}": _registered(f"{name}/{tail}") for tail in tails}
        judged = [part for part, each in datasets.items() if each and each.has_qrels() and each.has_queries()]
        if judged:
            usual[split] = judged[0]
    return usual or {"test": name}


def _registered(name: str) -> Any | None:
    import ir_datasets

    try:
        return ir_datasets.load(name)
    except KeyError:
        return None


def _judged(name: str) -> Any:
    """The dataset of that id. Raises DataError if there is none, or if it lacks documents, queries or judgments."""
    dataset = _registered(name)
    if dataset is None:
        raise DataError(Problem(LOCATION, f"ir_datasets has no '{name}'", "see https://ir-datasets.com/all.html"))
    if not (dataset.has_docs() and dataset.has_queries() and dataset.has_qrels()):
        wrong = f"'{name}' of ir_datasets lacks documents, queries or judgments"
        raise DataError(Problem(LOCATION, wrong, f"name parts that have them: {FORM}"))
    return dataset


def read_source(names: Mapping[str, str], reading: Reading) -> Tables:
    """The datasets of these names, by split, with the judged queries alone. The library's `scoreddocs` are the run if
    `data.candidates` asks for one. Raises DataError for data that cannot be used, WorkFailed if the library cannot get
    it; while documents are read, too."""
    import ir_datasets

    datasets = {split: _judged(name) for split, name in names.items()}
    collections = {ir_datasets.docs_parent_id(name) for name in names.values()}
    if len(collections) > 1:
        wrong = f"the splits search different collections ({', '.join(sorted(collections))})"
        raise DataError(Problem(LOCATION, wrong, "name splits of one collection"))
    docs = _documents(next(iter(datasets.values())), collections.pop())
    tables = Tables(docs, {}, {}, ids_given=True)
    for split, dataset in datasets.items():
        name = names[split]
        with _named_errors(name):
            tables.queries[split], tables.qrels[split] = _judged_queries(split, name, dataset, reading)
            if reading.config.candidates == "run" and dataset.has_scoreddocs():
                tables.runs[split] = _run(split, name, dataset, tables.queries[split])
    return tables


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Names the dataset in errors of the library, which downloads it, or finds that its copy is broken."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the library logs each attempt to download: the error is one line
    try:
        yield
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, EOFError, zlib.error) as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise WorkFailed(f"ir_datasets could not give '{name}' ({why})") from error
    finally:
        logging.disable(before)


def _documents(dataset: Any, name: str) -> Iterator[pd.DataFrame]:
    """docno, text of the collection, in parts."""
    count = 0
    with _named_errors(name):
        rows = ((each.doc_id, " ".join(each.default_text().split())) for each in dataset.docs_iter())
        for frame in _parts(rows, "docno", "text"):
            yield located(frame, f"{IR_DATASETS}{name}", np.arange(count + 1, count + 1 + len(frame)))
            count += len(frame)
    if not count:
        raise DataError(Problem(LOCATION, f"'{name}' has no documents", "use a collection with texts"))


def _judged_queries(split: str, name: str, dataset: Any, reading: Reading) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(qid, text; qid, docno, label) of the judged queries. Of a dataset of triples the first document of each pair is
    relevant and the second is not, unless the judgments say otherwise."""
    texts = {query.query_id: " ".join(query.default_text().split()) for query in dataset.queries_iter()}
    rows = [(each.query_id, each.doc_id, min(max(each.relevance, 0), MAX_GRADE)) for each in dataset.qrels_iter()]
    judged = list(dict.fromkeys(query for query, _, _ in rows))
    ids = [query for query in judged if usable_id(query) and texts.get(query)]
    if len(ids) < len(judged):
        reading.notes.append(f"{split}: {counted(len(judged) - len(ids), 'judged query')} without text left out")
    queries = pd.DataFrame({"qid": ids, "text": [texts[query] for query in ids]}, dtype="str")
    pairs: Iterable[Any] = ()
    if "triples" in name and dataset.has_docpairs():  # msmarco-passage/train has 269 million pairs besides
        pairs = (((pair.query_id, pair.doc_id_a, 1), (pair.query_id, pair.doc_id_b, 0))
                 for pair in dataset.docpairs_iter())  # fmt: skip
    qrels = _rated(chain(rows, chain.from_iterable(pairs)), "label", name, queries)
    return located(queries, f"{IR_DATASETS}{name}"), qrels


def _run(split: str, name: str, dataset: Any, queries: pd.DataFrame) -> pd.DataFrame:
    """qid, docno, score of the scored documents."""
    rows = ((each.query_id, each.doc_id, each.score) for each in dataset.scoreddocs_iter())
    run = _rated(rows, "score", name, queries)
    if not np.isfinite(run["score"]).all() or (len(run) > 1 and np.ptp(run["score"]) == 0):
        wrong = f"the scored documents of {split} have no scores that rank them"
        raise DataError(Problem("data.candidates", wrong, "set bm25"))
    return run


def _rated(rows: Iterable[tuple[str, str, float]], value: str, name: str, queries: pd.DataFrame) -> pd.DataFrame:
    """qid, docno and a value of these queries' rows, the first of each query and document, as published collections
    repeat some."""
    parts = list(_parts(rows, "qid", "docno", value)) or [pd.DataFrame(columns=["qid", "docno", value])]
    frame = pd.concat(parts, ignore_index=True)
    frame = frame[frame["qid"].isin(queries["qid"])].drop_duplicates(["qid", "docno"], ignore_index=True)
    return located(frame, f"{IR_DATASETS}{name}")


def _parts(rows: Iterable[tuple[Any, ...]], *columns: str) -> Iterator[pd.DataFrame]:
    """Rows as tables of some rows each."""
    rows = iter(rows)
    while part := list(islice(rows, PART)):
        yield pd.DataFrame(part, columns=list(columns))
