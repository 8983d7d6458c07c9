"""Inputs as they come, for the tests of data: small folders in many forms, and what is right of each."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from trainables.data import assembly
from trainables.data.columns import RankingData
from trainables.evaluation.runs import evaluate

Files = Mapping[str, Any]


ALL = ("train", "dev", "test")


@dataclass(frozen=True)
class Read:
    """What is right: (queries, candidates, relevant candidates) of each split; words of a note; the grades; ids."""

    counts: Mapping[str, tuple[int, int, int]]
    note: str = ""
    grades: tuple[int, ...] = (0, 1)
    document: str = ""
    teacher: bool = False


def same(queries: int, candidates: int, relevant: int, *splits: str) -> dict[str, tuple[int, int, int]]:
    return dict.fromkeys(splits or ALL, (queries, candidates, relevant))


def check(data: RankingData, right: Read) -> None:
    counts = {
        name: (len(split), len(split.document), int((split.grade > 0).sum())) for name, split in data.splits.items()
    }
    assert counts == dict(right.counts)
    assert {grade for split in data.splits.values() for grade in split.grade.tolist()} == set(right.grades)
    assert right.note in "\n".join(data.notes)
    if right.document:
        assert right.document in list(data.document_ids)
    assert any(split.teacher is not None for split in data.splits.values()) == right.teacher


def lines(rows: Any) -> bytes:
    if isinstance(rows, bytes):
        return rows
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    return text.encode()


def write(folder: Path, files: Files) -> Path:
    pack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack.get(path.suffix, bytes)(lines(rows)))
    return folder


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue()


def of_splits(ending: str, rows: Any, *splits: str) -> dict[str, Any]:
    return {f"{split}.{ending}": rows for split in splits or ALL}


TRIPLES = [{"query": f"q {n}", "positive": f"p {n}", "negative": f"n {n}"} for n in range(4)]
LABELLED = [
    {"anchor": f"q {n}", "positive": text, "label": label}
    for n in range(4)
    for text, label in (("a", 1), (f"b {n}", 0))
]
ROWS = "".join(f"{row['query']}\t{row['positive']}\t{row['negative']}\n" for row in TRIPLES)
CSV = "query,positive,negative\n" + ROWS.replace("\t", ",")
CORPUS = [{"_id": f"d{n}", "text": f"document {n}"} for n in range(400)]
QUERIES = [{"_id": f"{split}-{n}", "text": f"query {n}"} for split in ALL for n in range(4)]
QRELS = {
    f"qrels/{split}.tsv": "query-id\tcorpus-id\tscore\n"
    + "".join(f"{split}-{n}\td{n + k}\t{int(not k)}\n" for n in range(4) for k in (0, 1))
    for split in ALL
}
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, **QRELS}
TREC = {"collection.tsv": "".join(f"d{n}\tdocument {n}\n" for n in range(9))} | {
    name: text
    for split in ALL
    for name, text in (
        (f"queries.{split}.tsv", f"{split}-1\tquery one\n{split}-2\tquery two\n"),
        (f"qrels.{split}.txt", f"{split}-1 0 d1 1\n{split}-2 0 d2 1\n"),
        (f"run.{split}.txt", "".join(f"{split}-{q} Q0 d{n} {n} {9 - n} x\n" for q in (1, 2) for n in (1, 2, 3))),
    )
}


def changed(files: Files, **other: Any) -> dict[str, Any]:
    return {**files, **{name.replace("__", "/").replace("_DOT_", "."): rows for name, rows in other.items()}}


def all_by_row(documents: Any, queries: Mapping[str, list[str]], k1: float, b: float, top_k: int, cut: str) -> dict:
    """In place of BM25, which would start Java: each query's candidates are all documents, by row."""
    count = min(top_k, len(documents))
    ranked = np.arange(len(documents))[:count]
    return {
        split: (np.repeat(np.arange(len(rows)), count), np.tile(ranked, len(rows)), -np.tile(ranked, len(rows)) * 1.0)
        for split, rows in queries.items()
    }


@pytest.fixture(autouse=True)
def no_lucene(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the tests of a module that imports it."""
    monkeypatch.setattr(assembly, "retrieve", all_by_row)


def values_of(qrels: Path, run: Path, *metrics: str) -> Mapping[str, float]:
    return evaluate(qrels, run, list(metrics or ("map",))).runs[0].metrics
