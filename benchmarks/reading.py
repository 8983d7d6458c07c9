"""Reading a large TREC folder: us against pandas and pyarrow, which check nothing.

    python benchmarks/reading.py [--documents 1000000] [--queries 51200] [--depth 100] [--repeats 2] [--json]

Writes a folder of random words to a temporary place: a collection, queries of three splits, a judgment a query and
runs. We read it to ranked candidates, with all checks, and without the cache. The peers parse the same files into
tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from pyarrow import csv
from side_by_side import compare, tell

from trainables.core.randomness import generator
from trainables.data.arrays import ranking_data
from trainables.data.forms import trec
from trainables.data.settings import DataConfig
from trainables.data.tables import Reading

WORDS = np.array([f"w{number}" for number in range(20_000)])
DEV = 0.01  # of the queries, and as many for test


def write(folder: Path, documents: int, queries: int, depth: int) -> None:
    rng = generator(0, "reading")
    with (folder / "collection.tsv").open("w") as file:
        for row in range(documents):
            file.write(f"{row}\t{' '.join(WORDS[rng.integers(0, len(WORDS), 12)])}\n")
    few = max(2, round(DEV * queries))
    splits = {"train": queries - 2 * few, "dev": few, "test": few}
    number = 0
    for split, count in splits.items():
        names = [f"q{number + row}" for row in range(count)]
        number += count
        with (folder / f"queries.{split}.tsv").open("w") as file:
            file.writelines(f"{name}\t{' '.join(WORDS[rng.integers(0, len(WORDS), 5)])}\n" for name in names)
        with (folder / f"qrels.{split}.txt").open("w") as qrels, (folder / f"run.{split}.txt").open("w") as run:
            for name in names:
                found = rng.choice(documents, depth, replace=False).tolist()
                qrels.write(f"{name} 0 {found[0]} 1\n")
                run.writelines(
                    f"{name} Q0 {document} {rank} {30 / rank:.6f} bm25\n" for rank, document in enumerate(found, 1)
                )


def ours(folder: Path) -> None:
    with TemporaryDirectory() as workspace:
        reading = Reading(DataConfig(source=str(folder)))
        ranking_data(folder.name, trec.read(folder, reading), reading, Path(workspace))


def separator(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else " "


def with_pandas(folder: Path) -> None:
    for path in folder.iterdir():
        pd.read_csv(path, sep=separator(path), header=None, quoting=3)


def with_pyarrow(folder: Path) -> None:
    for path in folder.iterdir():
        options = csv.ParseOptions(delimiter=separator(path), quote_char=False)
        csv.read_csv(path, csv.ReadOptions(autogenerate_column_names=True), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=51_200)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = options.queries * options.depth
    work = f"reading {options.documents:,} documents and {rows:,} rows of run"
    with TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, options.documents, options.queries, options.depth)
        peers = {"pandas, no checks": with_pandas, "pyarrow, no checks": with_pyarrow}
        for name, peer in peers.items():
            done = compare(work, name, lambda: ours(folder), lambda peer=peer: peer(folder), options.repeats, 0)
            tell(done, options.json)


if __name__ == "__main__":
    main()
