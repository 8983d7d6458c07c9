"""LETOR folder: train.txt, vali.txt, test.txt with rows `label qid:N index:value ... # comment` (SVMlight), as LETOR,
MSLR, Yahoo, Istella, PyTerrier and scikit-learn write them."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array, vstack

from trainables.core.errors import DataError, Problem
from trainables.core.machine import usable_memory
from trainables.core.randomness import generator
from trainables.data.columns import SPLITS
from trainables.data.files import beginning, require_one_file, shards_of_splits, split_files
from trainables.data.forms import Form
from trainables.data.rows import PLACE, arrow, as_numbers, place
from trainables.data.tables import Reading, Tables

ROW_FORM = "LABEL qid:N INDEX:VALUE ... # COMMENT"
NO_SEPARATOR = "\x01"  # each line is one field
ENDINGS = ("txt", "svm", "libsvm", "svmlight", "letor", "dat")
DEV_SHARE = 0.2  # of the training queries, if there is no vali.txt
MAX_FEATURE = 1 << 16
MAX_VALUE = float(np.finfo(np.float32).max)
MAX_LABEL, UNJUDGED = 9999, -1  # the latter as in MQ2008-semi
_BEGIN = re.compile(rb"(?m)^[-+.0-9e]+[ \t]+qid:")
_ROW = r"^\s*(?P<label>[^\s#]+)(?:\s+qid:(?P<qid>[^\s#]+))?(?P<features>[^#]*)(?:#(?P<comment>.*))?"
_DOCUMENT = r"(?P<key>docid|docno)\s*=\s*(?P<document>\S+)"


def files(folder: Path) -> list[Path]:
    named = split_files(folder, "{}.txt")
    return list(named.values()) if "train" in named else []


def loosely(folder: Path) -> list[Path]:
    """By names that hold a split's, if the files begin with such rows: set1.train.txt, test.svm."""
    paths = [path for each in shards_of_splits(folder, ENDINGS).values() for path in each]
    return paths if all(_BEGIN.search(beginning(path)) for path in paths) else []


def read(folder: Path, reading: Reading) -> Tables:
    """A row is a document with features and without a text; a feature that a row leaves out is 0. Without vali.txt, a
    fixed fifth of the training queries is the dev split. Queries without judgments are dropped."""
    named = {split: [path] for split, path in split_files(folder, "{}.txt").items()}
    shards = named if "train" in named else shards_of_splits(folder, ENDINGS)
    require_one_file(folder, shards)
    parts, features = [], list[Any]()
    for split, paths in shards.items():
        rows, values = _rows(paths[0], reading)
        parts.append(rows.assign(split=split))
        features += values
    reading.finish()
    rows = pd.concat(parts, ignore_index=True)
    rows["row"] = np.arange(len(rows))
    docs = rows[["docno", *PLACE]]
    judged = rows.groupby(["split", "qid"])["label"].transform("max") > UNJUDGED
    if not judged.all():
        dropped = len(rows.loc[~judged, ["split", "qid"]].drop_duplicates())
        reading.notes.append(f"{dropped:,} queries without judgments, dropped")
    rows = _with_dev(rows[judged], reading)
    qrels = {split: rows[rows["split"] == split] for split in SPLITS if (rows["split"] == split).any()}
    queries = {split: frame[["qid", *PLACE]].drop_duplicates("qid") for split, frame in qrels.items()}
    return Tables(docs, queries, qrels, features=_dense(folder, features))


def _with_dev(rows: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The rows, of which a part of the training queries are dev if there is none; the same in every version, as their
    dev values are to be compared."""
    is_train = rows["split"] == "train"
    queries = rows.loc[is_train, "qid"].unique()
    if (rows["split"] == "dev").any() or len(queries) < 2:
        return rows
    count = max(1, round(DEV_SHARE * len(queries)))
    chosen = queries[generator(0, "letor dev").permutation(len(queries))[:count]]
    note = "drawn with a fixed seed (there is no vali.txt)"
    reading.notes.append(f"dev: {count:,} of the {len(queries):,} training queries, {note}")
    return rows.assign(split=rows["split"].mask(is_train & rows["qid"].isin(chosen), "dev"))


def _rows(path: Path, reading: Reading) -> tuple[pd.DataFrame, list[Any]]:
    """(qid, docno, label; features, a sparse matrix a block) of a file. Document ids are QID:DOCID, because the
    features of a page differ from query to query; DOCID is the comment's `docid = ...`, or else the row's number within
    its query; `docno = ...` is an id as it stands."""
    parts, features, odd, before = [], list[Any](), Counter[str](), len(reading.problems)
    for part in reading.parts(path, ("row",), separator=NO_SEPARATOR):
        part = part[~part["row"].str.lstrip().str.startswith("#")]
        rows = part[PLACE].join(_groups(part["row"], _ROW))
        sizes = [path.name + ending for ending in (".query", ".group") if Path(f"{path}{ending}").exists()]
        right = f"write qid:N behind the label{f': {sizes[0]} is not read' if sizes else ''}"
        rows = reading.require(rows, rows["qid"].fillna("") != "", "no qid of a query behind label '{label}'", right)
        rows["number"] = as_numbers(rows["label"])
        good = (rows["number"] >= UNJUDGED) & (rows["number"] <= MAX_LABEL) & (rows["number"] % 1 == 0)
        right = f"write a whole number from 0 to {MAX_LABEL}, or -1: not judged"
        rows = reading.require(rows, good, "label '{label}'", right)
        if len(rows):
            features.append(_features(rows, odd))
        rows["label"] = rows["number"].astype(int)
        parts.append(rows[["qid", "label", *PLACE]].join(_groups(rows["comment"], _DOCUMENT)))
    rows = pd.concat(parts, ignore_index=True)
    if len(reading.problems) == before and not any(part.nnz for part in features):
        reading.problem(path, "no features" if len(rows) else "no rows", f"each row is {ROW_FORM}")
    query = pd.factorize(rows["qid"])[0]
    apart = int((query[1:] != query[:-1]).sum() - query.max(initial=0))
    odd["times rows of a query stand apart from its others, and are read as one query"] = apart
    odd["rows of label -1, not judged"] = int((rows["label"] == UNJUDGED).sum())
    reading.notes += [f"{path.name}: {count:,} {what}" for what, count in odd.items() if count]
    document = rows["document"].fillna((rows.groupby("qid").cumcount() + 1).astype("str"))
    rows["docno"] = document.where(rows["key"] == "docno", rows["qid"] + ":" + document)
    once = ~rows.duplicated(["qid", "docno"])
    rows = reading.require(rows, once, "document '{docno}' a second time", "keep one row a query and document")
    return rows[["qid", "docno", "label", *PLACE]], features


def _groups(texts: pd.Series, pattern: str) -> pd.DataFrame:
    """What the named groups of a pattern match in each text, NaN where it does not fit."""
    matches = pc.extract_regex(arrow(texts).combine_chunks(), pattern)
    return pa.Table.from_struct_array(matches).to_pandas().set_index(texts.index)


def _features(rows: pd.DataFrame, odd: Counter[str]) -> Any:
    """The features of rows, float32 [rows, highest index + 1], sparse; what is odd in them is counted. Raises DataError
    with the first row that cannot be read."""
    lines = [f"0 {text}" for text in rows["features"]]
    values = _parsed(lines)
    if isinstance(values, str):
        start, end = 0, len(lines)
        while end - start > 1:  # the first row that is wrong is in this half or in the other
            middle = (start + end) // 2
            is_wrong = isinstance(_parsed(lines[start:middle]), str)
            start, end = (start, middle) if is_wrong else (middle, end)
        excerpt = " ".join(rows["features"].iloc[start].split())[:60]
        wrong = f"features that cannot be read ({_parsed(lines[start:end])}): '{excerpt}'"
        right = f"write {ROW_FORM}, INDEX rising to {MAX_FEATURE}, finite values"
        raise DataError(Problem(place(rows.iloc[start:end]), wrong, right))
    missing = np.isnan(values.data)
    large = f"features beyond the range of float32, read as its largest number, {MAX_VALUE:.4g}"
    odd["features NULL or nan, read as 0"] += int(missing.sum())
    odd[large] += int((np.abs(values.data) > MAX_VALUE).sum())
    values.data = np.clip(np.where(missing, 0, values.data), -MAX_VALUE, MAX_VALUE).astype(np.float32)
    return values


def _parsed(lines: list[str]) -> Any:
    """The values of rows `0 INDEX:VALUE ...`, float64, sparse; or what is wrong with them."""
    from sklearn import datasets  # here: it takes a second

    raw = re.sub(rb"(?i):null\b", b":nan", "\n".join(lines).encode())
    try:
        load: Any = datasets.load_svmlight_file
        values, _ = load(io.BytesIO(raw), zero_based=True)
    except (ValueError, OverflowError) as error:
        return str(error)[:80]
    if values.shape[1] > MAX_FEATURE + 1:
        return "an index that is too large"
    return "a value that is not finite" if np.isinf(values.data).any() else csr_array(values)


def _dense(folder: Path, parts: list[Any]) -> np.ndarray:
    """float32 [rows, features]; column i is feature i + 1, or i if features count from 0 in any row. Raises DataError
    if it does not fit into memory."""
    width = max(part.shape[1] for part in parts)
    for part in parts:
        part.resize(part.shape[0], width)
    sparse: Any = vstack(parts, format="csr")
    first = 1 - int((sparse.indices == 0).any())
    shape = sparse.shape[0], width - first
    needed, free = shape[0] * shape[1] * np.dtype(np.float32).itemsize, usable_memory()
    if needed > free:
        wrong = f"{shape[0]:,} rows of {shape[1]:,} features take {needed >> 20:,} MiB; {free >> 20:,} MiB are free"
        raise DataError(Problem(str(folder), wrong, "number the features from 1 without gaps, or use more memory"))
    return sparse[:, first:].toarray()


FORM = Form(files, read, loosely=loosely)
