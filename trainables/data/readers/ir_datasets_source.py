"""Data through the ir_datasets library (MacAvaney et al. 2021), with its cache and downloads: `ir_datasets:NAME`."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from trainables.core.errors import DataError, Problem, WorkFailed
from trainables.core.prose import counted, say
from trainables.data.columns import MAX_GRADE, SPLITS, RankingData, Rated
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.blocks import blocks_of
from trainables.data.readers.collection import MISSING, Collection, CollectionWriter, Ratings
from trainables.data.readers.rows import usable_id
from trainables.data.settings import DataConfig

PREFIX = "ir_datasets:"
FORM = f"{PREFIX}NAME or {PREFIX}NAME?train=PART&dev=PART&test=PART"
LOCATION = "data.source"
_USUAL = {"train": ("train",), "dev": ("dev", "validation", "valid", "val"), "test": ("test",)}


@dataclass(frozen=True)
class DatasetNames:
    """What a source string names: the library's dataset ids by split."""

    name: str
    splits: dict[str, str]


def parse_source(source: str) -> DatasetNames:
    """`ir_datasets:NAME?train=A&dev=B&test=C`: the splits are the datasets NAME/A, NAME/B, NAME/C.

    Without parts, they are those of NAME/train, NAME/dev (or validation, valid, val) and NAME/test that exist and are
    judged; if none is, NAME itself is the test split. Raises DataError for another form; whether the datasets can be
    used, `read_source` tells.
    """
    name, mark, query = source.removeprefix(PREFIX).partition("?")
    name = name.strip("/")
    if not name:
        raise DataError(Problem(LOCATION, f"'{source}' names no dataset", FORM))
    if not mark:
        return DatasetNames(name, _usual_splits(name))
    parts = parse_qsl(query, keep_blank_values=True)
    given = dict(parts)
    if not given or len(given) < len(parts) or not set(given) <= set(SPLITS) or not all(given.values()):
        raise DataError(Problem(LOCATION, f"'{query}' does not give each split once", FORM))
    return DatasetNames(name, {split: f"{name}/{given[split].strip('/')}" for split in SPLITS if split in given})


def _usual_splits(name: str) -> dict[str, str]:
    usual = {}
    for split, tails in _USUAL.items():
        for tail in tails:
            dataset = _registered(f"{name}/{tail}")
            if split not in usual and dataset is not None and dataset.has_qrels() and dataset.has_queries():
                usual[split] = f"{name}/{tail}"
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


def read_source(source: DatasetNames, config: DataConfig, workspace: Path) -> RankingData:
    """The data without a digest. Documents are streamed into the workspace.

    Only judged queries are kept. Documents without text, judged queries without text and repeated judgments are left
    out with a note, because published collections have them. The library's `scoreddocs` are the run if
    `data.candidates` asks for one.
    Raises DataError for data that cannot be used, WorkFailed if the library cannot get it.
    """
    import ir_datasets

    datasets = {split: _judged(name) for split, name in source.splits.items()}
    collections = {ir_datasets.docs_parent_id(name) for name in source.splits.values()}
    if len(collections) > 1:
        wrong = f"the splits search different collections ({', '.join(sorted(collections))})"
        raise DataError(Problem(LOCATION, wrong, "name splits of one collection"))
    notes: list[str] = []
    with _named_errors(collections.pop()):
        collection = _read_documents(next(iter(datasets.values())), workspace, notes)
    splits = {}
    for split, dataset in datasets.items():
        with _named_errors(source.splits[split]):
            splits[split] = _read_split(split, source.splits[split], dataset, collection, config, notes)
    return assemble(Raw(source.name, collection.ids, collection.texts, splits, tuple(notes), collection.index), config)


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Names the dataset in errors of the library: WorkFailed for getting its files, DataError for their content."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the library logs each attempt to download: the error is one line
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = "its servers cannot be reached" if "ConnectionError" in str(error) else " ".join(str(error).split())[:300]
        raise WorkFailed(f"ir_datasets could not get '{name}': {why}") from error
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, zlib.error) as error:
        wrong = f"'{name}' of ir_datasets cannot be read ({type(error).__name__}: {error})"
        raise DataError(Problem(LOCATION, wrong, "remove the library's copy so that it is downloaded again")) from error
    finally:
        logging.disable(before)


def _read_documents(dataset: Any, workspace: Path, notes: list[str]) -> Collection:
    say("reading documents through ir_datasets")
    writer, empty = CollectionWriter(workspace), 0
    for number, document in enumerate(dataset.docs_iter(), 1):
        text = " ".join(document.default_text().split())
        if not usable_id(document.doc_id):
            wrong = f"document {number}: id '{document.doc_id}' is empty or holds white space"
            raise DataError(Problem(LOCATION, wrong, "use data whose ids can stand in a TREC file"))
        if text:
            writer.add(number, document.doc_id, text)
        else:
            empty += 1
    collection = writer.finish()
    repeat = next(iter(collection.index.repeats()), None)
    if repeat:
        wrong = f"document id '{collection.ids[repeat[0]]}' stands there twice"
        raise DataError(Problem(LOCATION, wrong, "use a collection with one document an id"))
    if not len(collection.ids):
        raise DataError(Problem(LOCATION, "no documents with text", "use a collection with texts"))
    if empty:
        notes.append(f"{counted(empty, 'document')} without text left out")
    return collection


def _read_split(
    split: str, name: str, dataset: Any, collection: Collection, config: DataConfig, notes: list[str]
) -> RawSplit:
    texts = {query.query_id: " ".join(query.default_text().split()) for query in dataset.queries_iter()}
    judged = dict.fromkeys(qrel.query_id for qrel in dataset.qrels_iter())
    ids = [query for query in judged if usable_id(query) and texts.get(query)]
    if len(ids) < len(judged):
        notes.append(f"{split}: {counted(len(judged) - len(ids), 'judged query')} without text left out")
    query_rows = {query: row for row, query in enumerate(ids)}
    grades = ((each.query_id, each.doc_id, min(max(each.relevance, 0), MAX_GRADE)) for each in dataset.qrels_iter())
    paired = "triples" in name and dataset.has_docpairs()  # msmarco-passage/train has 269 million pairs besides
    qrels, repeated = _rated(chain(grades, _pairs(dataset)) if paired else grades, query_rows, collection)
    if repeated and not paired:  # pairs repeat their documents
        notes.append(f"{split}: {counted(repeated, 'repeated judgment')} left out")
    run = _read_run(split, dataset, query_rows, collection, notes) if config.candidates == "run" else None
    return RawSplit(ids, [(texts[query],) for query in ids], qrels, run)


def _pairs(dataset: Any) -> Iterator[tuple[str, str, float]]:
    """The documents of `docpairs`, such as MS MARCO's triples: the first is relevant, the second is not, unless qrels,
    which come before, say otherwise."""
    for pair in dataset.docpairs_iter():
        yield pair.query_id, pair.doc_id_a, 1
        yield pair.query_id, pair.doc_id_b, 0


def _rated(
    rows: Iterator[tuple[str, str, float]], query_rows: dict[str, int], collection: Collection
) -> tuple[Rated, int]:
    """Rated documents of the given queries, each once, and the number of repeats."""
    ratings = Ratings(collection.index)
    numbered = ((number, query, document, float(value)) for number, (query, document, value) in enumerate(rows))
    for block in blocks_of(numbered):
        ratings.add(block, np.array([query_rows.get(name, MISSING) for name in block.queries])[block.query])
    rated = ratings.finish()
    first, (repeats, _) = np.ones(len(rated), bool), ratings.repeats()
    first[repeats] = False
    return rated.where(first), len(repeats)


def _read_run(
    split: str, dataset: Any, query_rows: dict[str, int], collection: Collection, notes: list[str]
) -> Rated | None:
    """The scored documents that are in the collection; None if the dataset has no scored documents."""
    if not dataset.has_scoreddocs():
        return None
    rows = ((each.query_id, each.doc_id, each.score) for each in dataset.scoreddocs_iter())
    run, repeated = _rated(rows, query_rows, collection)
    if repeated:
        notes.append(f"{split}: {counted(repeated, 'repeated candidate')} left out")
    run = run.where(run.document >= 0)
    if not np.isfinite(run.value).all() or (len(run.value) and np.ptp(run.value) == 0):
        wrong = f"the scored documents of {split} have no scores that rank them"
        raise DataError(Problem("data.candidates", wrong, "set bm25"))
    return run
