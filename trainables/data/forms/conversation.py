"""Conversation folder (Douban, UDC, MSDialog, MANtIS, DailyDialog++): train.tsv, valid.tsv, test.tsv.

A row is a candidate: label, utterances of the context, response, separated by tabs; there is no header. The rows of one
context are adjacent: a group is a run of rows with equal utterances.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from trainables.core.prose import counted
from trainables.data.files import found, named_files
from trainables.data.forms import Form
from trainables.data.forms.pairs import is_table
from trainables.data.rows import PLACE
from trainables.data.tables import Reading, Tables

FILES = {"train": ("train.tsv",), "dev": ("valid.tsv", "validation.tsv", "val.tsv"), "test": ("test.tsv",)}
ROW = "LABEL TAB UTTERANCE [TAB UTTERANCE ...] TAB RESPONSE"
NO_SEPARATOR = "\x1c"  # the parser needs one; no text has this


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
    parts = [_candidates(split, path, reading) for split, path in named_files(folder, FILES).items()]
    rows = pd.concat(parts, ignore_index=True)
    rows["earlier"] = rows.groupby(["qid", "text"], sort=False).cumcount()
    rows["docno"] = "d" + (rows.groupby(["text", "earlier"], sort=False).ngroup() + 1).astype("str")
    queries, qrels = {}, {}
    for split, candidates in rows.groupby("split", sort=False):
        contexts = candidates.drop_duplicates("qid")
        queries[split] = contexts[["qid", *PLACE]].assign(utterances=contexts["context"].str.split("\t"))
        qrels[split] = candidates[["qid", "docno", "label", *PLACE]]
    return Tables(rows.drop_duplicates("docno")[["docno", "text", *PLACE]], queries, qrels, pools=dict(qrels))


def _candidates(split: str, path: Path, reading: Reading) -> pd.DataFrame:
    """split, qid, context, label, text of the rows of a file."""
    rows = reading.table(path, [ROW], separator=NO_SEPARATOR)
    rows = rows[rows[ROW].str.strip() != ""]
    rows = reading.require(rows, rows[ROW].str.count("\t") >= 2, "fewer than 3 columns", ROW)
    cells = rows[ROW].str.extract(r"^(?P<label>[^\t]*)\t(?P<context>.*)\t(?P<text>[^\t]*)$")
    rows = reading.texts(rows.drop(columns=ROW).join(cells), "text")
    rows = reading.require(rows, rows["label"].isin(["0", "1"]), "label '{label}'", "write 0 or 1")
    empty = rows["context"].str.contains(r"(?:^|\t)\s*(?:\t|$)")
    rows = reading.require(rows, ~empty, "an empty utterance", "give a text or leave it out")
    rows = rows.astype({"label": int})
    group = (rows["context"] != rows["context"].shift()).cumsum().rename("group")
    labels = rows.groupby(group)["label"]
    answered = labels.transform("max") > 0
    if bare := group[~answered].nunique():
        fate = "dropped" if split == "train" else "kept, to count 0"
        reading.notes.append(f"{split}: {counted(bare, 'context')} without a right response {fate}")
    if split == "train":
        rows, group = rows[answered], group[answered]
    return rows.assign(split=split, qid=[f"{split}-{number + 1}" for number in pd.factorize(group)[0]])


FORM = Form(files, read, turns=True)
