"""Peak memory of reading a TREC folder, and how it grows with the collection.

    python benchmarks/collection_memory.py [DOCUMENTS ...]     (default 100000 300000 1000000)

For each size a folder of random documents (56 words on average, as MS MARCO passages have) is written. It is then read
in a process of its own, whose ru_maxrss is printed beside that of a process that only imports the reader.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

QUERIES, CANDIDATES = 500, 100
WORDS = (32, 81)  # fewest in a document, most + 1
READ = """
import json, resource, sys
from trainables.config.keys import DataConfig
from trainables.data import load_data
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if len(sys.argv) > 1:
    data = load_data(DataConfig(source=sys.argv[1]))
    assert len(data.documents) == int(sys.argv[2]), len(data.documents)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"imports": before / 1024, "peak": peak / 1024}))
"""


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [100_000, 300_000, 1_000_000]
    print(
        f"{'documents':>10} {'file MiB':>9} {'imports MiB':>12} {'peak MiB':>9} {'bytes/document':>15} {'seconds':>8}"
    )
    for size in sizes:
        with TemporaryDirectory() as folder:
            report(Path(folder), size)


def report(folder: Path, documents: int) -> None:
    write_collection(folder / "data", documents)
    file_size = (folder / "data" / "collection.tsv").stat().st_size / 2**20
    started = time.perf_counter()
    memory = measured(folder, documents)
    seconds = time.perf_counter() - started
    each = (memory["peak"] - memory["imports"]) * 2**20 / documents
    print(
        f"{documents:>10,} {file_size:>9.0f} {memory['imports']:>12.0f} {memory['peak']:>9.0f} {each:>15.0f} "
        f"{seconds:>8.1f}",
        flush=True,
    )


def measured(folder: Path, documents: int) -> dict[str, float]:
    """Peak memory of a fresh process, in MiB, with an empty cache."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", READ, str(folder / "data"), str(documents)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def write_collection(folder: Path, documents: int) -> None:
    """A TREC folder with a run: every query has CANDIDATES random candidates, the first of them relevant."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    vocabulary = np.array([f"word{number}" for number in range(30_000)])
    with (folder / "collection.tsv").open("w", encoding="utf-8") as file:
        for number in range(documents):
            words = vocabulary[random.integers(0, len(vocabulary), random.integers(*WORDS))]
            file.write(f"p{number}\t{' '.join(words)}\n")
    for split in ("train", "dev", "test"):
        queries = [f"{split}{number}" for number in range(QUERIES)]
        drawn = [random.choice(documents, CANDIDATES, replace=False) for _ in queries]
        texts = [f"{query}\t{' '.join(vocabulary[random.integers(0, 30_000, 5)])}\n" for query in queries]
        qrels = [f"{query} 0 p{rows[0]} 1\n" for query, rows in zip(queries, drawn, strict=True)]
        run = [
            f"{query} Q0 p{row} {rank} {CANDIDATES - rank} random\n"
            for query, rows in zip(queries, drawn, strict=True)
            for rank, row in enumerate(rows, 1)
        ]
        for name, lines in (("queries.{}.tsv", texts), ("qrels.{}.txt", qrels), ("run.{}.txt", run)):
            (folder / name.format(split)).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
