"""`baseline bm25 --retrieve` on queries of very common words, against Pyserini's own searcher on the same texts.

    python benchmarks/common_words.py [--documents 1000000] [--queries 150] [--repeats 3] [--json]

Writes random documents of 15 to 59 words whose frequencies follow Zipf's law, and queries of four of the twelve most
frequent words and four drawn like a document's. We read the collection for the queries' terms, then search; Pyserini
indexes it, then searches (`LuceneSearcher.batch_search`, all cores, 100 hits, k1 .9, b .4). The two searches are timed
alternately, what comes before them once. Ends in an error if most of the first ten documents differ: Lucene rounds
document lengths, so some do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from side_by_side import compare, tell

from trainables.baselines.lexical import Bm25Baseline
from trainables.config.keys import DataConfig, TrainingRun
from trainables.data import load_data
from trainables.data.candidates import java_home
from trainables.data.columns import RankingData
from tune_cl.cli.commands.baseline import rank

VOCABULARY, COMMON, TOP_K = 200_000, 12, 100
BLOCK = 20_000  # documents drawn at once
COMPARED = 10  # first documents of each query
PEER = """
import json, sys, time
from pathlib import Path
from trainables.data.retrieval import index, start_java
start_java()
collection, folder, queries, hits, threads = sys.argv[1:]
started = time.perf_counter()
index(Path(collection), Path(folder))
print("indexed", time.perf_counter() - started, flush=True)
from pyserini.search.lucene import LuceneSearcher
searcher = LuceneSearcher(folder)
searcher.set_bm25(0.9, 0.4)
texts = json.loads(Path(queries).read_text())
names = [str(row) for row in range(len(texts))]
print("ready", flush=True)
for line in sys.stdin:
    found = searcher.batch_search(texts, names, k=int(hits), threads=int(threads))
    shown = [[hit.docid for hit in found[name]] for name in names] if line.strip() else []
    print("found", json.dumps(shown), flush=True)
"""


class Peer:
    """Pyserini in a process of its own, which answers each line with all runs."""

    def __init__(self, folder: Path, data: RankingData, queries: list[str]):
        collection, asked = folder / "collection.jsonl", folder / "queries.json"
        with collection.open("w", encoding="utf-8") as file:
            for row, text in enumerate(data.documents):
                file.write(json.dumps({"id": str(row), "contents": text}) + "\n")
        asked.write_text(json.dumps(queries), encoding="utf-8")
        environment = {**os.environ, "JAVA_HOME": str(java_home()), "OPENAI_API_KEY": "unused"}
        options = [collection, folder / "index", asked, TOP_K, os.cpu_count() or 1]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PEER, *map(str, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.indexing = float(self._answer("indexed"))
        self._answer("ready")

    def search(self, shown: bool = False) -> list[list[int]]:
        """Searches for all queries; with `shown`, returns the documents of each, best first: asking Java for each of
        them takes longer than the search."""
        assert self.process.stdin
        print("shown" if shown else "", file=self.process.stdin, flush=True)
        return [list(map(int, rows)) for rows in json.loads(self._answer("found"))]

    def _answer(self, word: str) -> str:
        for line in self.process.stdout or ():
            if line.startswith(word):
                return line.removeprefix(word)
        raise SystemExit(f"error: Pyserini ended with status {self.process.wait()}")


def write_collection(folder: Path, documents: int, queries: int) -> None:
    """A TREC folder; its judgments, one document a query, only fill the form."""
    random = np.random.default_rng(1)
    words = np.array([f"w{number}x" for number in range(VOCABULARY)])
    share = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    share /= share[-1]

    def draw(count: int) -> np.ndarray:
        return words[np.searchsorted(share, random.random(count))]

    folder.mkdir(parents=True)
    with (folder / "collection.tsv").open("w", encoding="utf-8") as file:
        for start in range(0, documents, BLOCK):
            lengths = random.integers(15, 60, min(BLOCK, documents - start))
            for row, text in enumerate(np.split(draw(lengths.sum()), np.cumsum(lengths)[:-1]), start):
                file.write(f"d{row}\t{' '.join(text)}\n")
    texts = [" ".join([*words[random.integers(0, COMMON, 4)], *draw(4)]) for _ in range(queries)]
    for split in ("train", "dev", "test"):
        rows = [f"{split}{row}\t{text}\n" for row, text in enumerate(texts)]
        (folder / f"queries.{split}.tsv").write_text("".join(rows), encoding="utf-8")
        judged = [f"{split}{row} 0 d{row % documents} 1\n" for row in range(queries)]
        (folder / f"qrels.{split}.txt").write_text("".join(judged), encoding="utf-8")


def shared_share(data: RankingData, baseline: Bm25Baseline, peer: Peer) -> float:
    """The share of Pyserini's first COMPARED documents that are among ours."""
    split, _ = rank(baseline, "test", baseline.defaults())
    ours = [split.document[first:end][:COMPARED] for first, end in zip(split.offsets, split.offsets[1:], strict=False)]
    theirs = [found[:COMPARED] for found in peer.search(shown=True)]
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(theirs, ours, strict=True)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = name
        folder = Path(name) / "data"
        write_collection(folder, options.documents, options.queries)
        config = DataConfig(source=str(folder), candidates="qrels", top_k=TOP_K)
        data = load_data(config)
        run = TrainingRun.model_validate({"ranker": "conv_knrm", "data": config.model_dump()})
        started = time.perf_counter()
        baseline = Bm25Baseline(data, run, ["test"], collection=True)
        reading = time.perf_counter() - started
        peer = Peer(Path(name), data, [data.query_text(int(query)) for query in data.splits["test"].query])
        print(f"before the search: we {reading:.1f} s, Pyserini {peer.indexing:.1f} s", file=sys.stderr, flush=True)
        work = f"BM25 of {options.queries:,} queries of common words over {options.documents:,} documents"
        done = compare(
            work,
            "LuceneSearcher.batch_search",
            lambda: rank(baseline, "test", baseline.defaults()),
            peer.search,
            options.repeats,
        )
        tell(done, options.json)
        common = shared_share(data, baseline, peer)
        peer.process.communicate()
    print(f"{common:.1%} of Pyserini's first {COMPARED} documents are among our first {COMPARED}", file=sys.stderr)
    if common < 0.5:
        print("error: the two runs differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
