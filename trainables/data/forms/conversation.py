"""Conversation folder (Douban, UDC, MSDialog, MANtIS, DailyDialog++): train.tsv, valid.tsv, test.tsv.

A row is a candidate: label, utterances of the context, response, separated by tabs; there is no header. The rows of one
context are adjacent: a group is a run of rows with equal utterances.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from trainables.core.prose import counted
from trainables.data.files import found, named_files
from trainables.data.forms import Form
from trainables.data.forms.pairs import is_table
from trainables.data.rows import arrow
from trainables.data.tables import Reading, Tables

FILES = {"train": ("train.tsv",), "dev": ("valid.tsv", "validation.tsv", "val.tsv"), "test": ("test.tsv",)}
ROW = "LABEL TAB UTTERANCE [TAB UTTERANCE ...] TAB RESPONSE"
NO_SEPARATOR = "\x1c"  # the parser needs one; no text has this
ADVICE = "give a text or leave it out"


def files(folder: Path) -> list[Path]:
    """By valid.tsv; without it, by train.tsv or test.tsv, unless a dev.tsv makes them sentence pairs. A header makes
    them pairs or triples."""
    paths = named_files(folder, FILES)
    pairs = "dev" not in paths and found(folder, "dev.tsv") is not None
    return [] if pairs or any(map(is_table, paths.values())) else list(paths.values())


def read(folder: Path, reading: Reading) -> Tables:
    """Context = query with its utterances, response = document. A document is a distinct response text; a text that
    occurs twice in a group is two documents, so that no candidate is lost. Queries are SPLIT-1, SPLIT-2, ... in the
    order of the file. Training contexts without a right response are dropped; held-out ones count 0."""
    paths = named_files(folder, FILES)
    parts = [_candidates(split, path, reading).assign(split=split) for split, path in paths.items()]
    rows = pd.concat(parts, ignore_index=True)
    rows["earlier"] = rows.groupby(["qid", "text"], sort=False).cumcount()
    rows["docno"] = "d" + (rows.groupby(["text", "earlier"], sort=False).ngroup() + 1).astype("str")
    queries, qrels = {}, {}
    for split, candidates in rows.groupby("split", sort=False):
        contexts = candidates.drop_duplicates("qid")
        utterances = [context.split("\t") for context in contexts["context"]]
        queries[split] = contexts[["qid", "file", "line"]].assign(utterances=utterances)
        qrels[split] = candidates[["qid", "docno", "label", "file", "line"]]
    return Tables(rows.drop_duplicates("docno")[["docno", "text"]], queries, qrels, pools=dict(qrels))


def _candidates(split: str, path: Path, reading: Reading) -> pd.DataFrame:
    """qid, context, label, text of the rows of a file."""
    rows = reading.table(path, [ROW], separator=NO_SEPARATOR)
    rows = rows[rows[ROW].str.strip() != ""]
    rows = rows.assign(columns=rows[ROW].str.count("\t") + 1)
    rows = reading.require(rows, rows["columns"] >= 3, "{columns} columns instead of 3 or more", ROW)
    label, rest = _parts(rows[ROW])
    context, text = _parts(rest, reverse=True)
    rows = rows.drop(columns=ROW).assign(label=label, context=context, text=text)
    rows = reading.require(rows, rows["label"].isin(["0", "1"]), "label '{label}'", "write 0 or 1")
    rows = reading.require(rows, rows["text"].str.strip() != "", "an empty response", ADVICE)
    rows["label"] = rows["label"].astype(int)
    group = (rows["context"] != rows["context"].shift()).cumsum()
    empty = [not all(map(str.strip, context.split("\t"))) for context in rows["context"][~group.duplicated()]]
    rows = reading.require(rows, ~group.isin(group.unique()[empty]), "an empty utterance", ADVICE)
    group = group[rows.index]
    if split == "train":  # two contexts run together
        first = rows.groupby(group)["label"].transform("first")
        two = (rows.groupby(group).cumcount() == 1) & (first == 1) & (rows["label"] == 1)
        rows = reading.require(rows, ~two, "two right responses first", "keep the right response, then the wrong ones")
        group = group[rows.index]
    answered = rows.groupby(group)["label"].transform("max") > 0
    if bare := group[~answered].nunique():
        fate = "dropped" if split == "train" else "kept, to count 0"
        reading.notes.append(f"{split}: {counted(bare, 'context')} without a right response {fate}")
    if split == "train":
        rows, group = rows[answered], group[answered]
    return rows.assign(qid=f"{split}-" + (pd.factorize(group)[0] + 1).astype(str).astype(object))


def _parts(texts: pd.Series, reverse: bool = False) -> tuple[pd.Series, pd.Series]:
    """What stands before and behind the first tab, or the last one."""
    parts = pc.split_pattern(arrow(texts), "\t", max_splits=1, reverse=reverse)
    before, behind = (pc.list_element(parts, number).to_pandas().set_axis(texts.index) for number in (0, 1))
    return before, behind


FORM = Form(files, read, turns=True)
