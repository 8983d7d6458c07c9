"""BEIR folder (Thakur et al. 2021): corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv and, optionally, run.SPLIT.txt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.cells import IDS, TEXTS, TITLE, Unusable, Wrong, id_of, is_text, text_of
from trainables.data.columns import SPLITS
from trainables.data.files import found, split_files
from trainables.data.forms import Form
from trainables.data.judgments import RUN_FILE, SCORES_FILE, judged, runs_of, scores_of
from trainables.data.rows import located
from trainables.data.tables import Reading, Tables

PART = 1 << 16  # documents in memory at once


def files(folder: Path) -> list[Path]:
    corpus, queries = found(folder, "corpus.jsonl"), found(folder, "queries.jsonl")
    others = [split_files(folder / "qrels", "{}.tsv"), split_files(folder, RUN_FILE), split_files(folder, SCORES_FILE)]
    paths = [corpus, queries, *(path for each in others for path in each.values())]
    return [path for path in paths if path] if corpus else []


def read(folder: Path, reading: Reading) -> Tables:
    """Document = title and text joined by a space; a split's queries are those that it judges, in the order of
    queries.jsonl."""
    path, judgments = found(folder, "queries.jsonl"), split_files(folder / "qrels", "{}.tsv")
    if path is None:
        raise DataError(Problem(str(folder / "queries.jsonl"), "missing file", "give the file"))
    if not judgments:
        raise DataError(Problem(str(folder), "no judgments", f"give qrels/SPLIT.tsv, SPLIT = {', '.join(SPLITS)}"))
    queries = pd.concat(list(named_texts(path, reading, "qid")), ignore_index=True)
    qrels = {split: judged(file, reading) for split, file in judgments.items()}
    return Tables(
        docs=named_texts(found(folder, "corpus.jsonl") or folder, reading, "docno"),
        queries={split: _judged_queries(queries, frame) for split, frame in qrels.items()},
        qrels=qrels,
        runs=runs_of(folder, reading, qrels),
        scores=scores_of(folder, reading),
        ids_given=True,
    )


def _judged_queries(queries: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """The queries that are judged; all where none is, of which the error for unknown ids names one."""
    is_judged = queries["qid"].isin(qrels["qid"])
    return queries[is_judged] if is_judged.any() else queries


def named_texts(path: Path, reading: Reading, name: str) -> Iterator[pd.DataFrame]:
    """`name`, text of each object of a file of JSON, in parts: an id and a text, which may have several names (IDS,
    TEXTS), and perhaps a title, which stands before the text. A text that cannot be had is empty."""
    rows = _named_rows(path, reading)
    while True:
        lines, names, texts = zip(*part, strict=True) if (part := list(islice(rows, PART))) else ((), (), ())
        yield located(pd.DataFrame({name: names, "text": texts}, dtype="str"), path, lines)
        if len(part) < PART:
            return


def _named_rows(path: Path, reading: Reading) -> Iterator[tuple[int, str, str]]:
    """(line, id, text) of each object."""
    keys: tuple[str, str] | None = None
    for line, value in reading.objects(path):
        try:
            if not isinstance(value, dict):
                raise Wrong("not a JSON object", "each row is a JSON object with an id and a text")
            keys = keys or (_first_of(IDS, value), _first_of(TEXTS, value))
            identity = id_of(value.get(keys[0]))
            if not is_text(identity):
                raise Wrong(f"'{keys[0]}' is not a text", "give each object an id and a text")
            text = text_of(keys[1], {TITLE: value.get(TITLE), TEXTS[0]: value.get(keys[1])})
        except Unusable:
            text = ""  # of which the collection's check says how many there are
        except Wrong as wrong:
            reading.problem(f"{path}:{line}", *wrong.args)
            continue
        yield line, identity, text


def _first_of(names: tuple[str, ...], value: dict[str, object]) -> str:
    return next((key for key in names if value.get(key) is not None), names[0])


FORM = Form(files, read)
