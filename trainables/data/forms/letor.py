"""LETOR folder: train.txt, vali.txt, test.txt with rows `label qid:N index:value ... # comment` (SVMlight), as LETOR,
MSLR, Yahoo, Istella, PyTerrier and scikit-learn write them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trainables.core.machine import usable_memory
from trainables.core.randomness import generator
from trainables.data.columns import SPLITS
from trainables.data.files import beginning, require_one_file, shards_of_splits, split_files
from trainables.data.forms import Form
from trainables.data.rows import arrow, as_numbers, located
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
_FEATURE = r"^(?P<index>[0-9]{1,7}):(?P<value>.+)$"
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
    fixed fifth of the training queries is the dev split."""
    named = {split: [path] for split, path in split_files(folder, "{}.txt").items()}
    shards = named if "train" in named else shards_of_splits(folder, ENDINGS)
    require_one_file(folder, shards)
    rows, features = {}, []
    for split, paths in shards.items():
        rows[split], parts = _rows(paths[0], reading)
        features += parts
    reading.finish()
    every = pd.concat(list(rows.values()), ignore_index=True)
    every["row"] = np.arange(len(every))
    ends = np.cumsum([0, *map(len, rows.values())])
    qrels = {split: every.iloc[ends[at] : ends[at + 1]] for at, split in enumerate(rows)}
    qrels = {split: _judged(frame, reading) for split, frame in qrels.items()}
    if "dev" not in qrels and "train" in qrels:
        qrels |= _held_out(qrels["train"], reading)
    qrels = {split: qrels[split] for split in SPLITS if split in qrels and len(qrels[split])}
    queries = {split: pd.DataFrame({"qid": frame["qid"].unique()}) for split, frame in qrels.items()}
    return Tables(every[["docno", "file", "line"]], queries, qrels, features=_dense(features, folder, reading))


# -- a file ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Features:
    """Features of some rows. `sizes`: how many each row has; `index`, `value`: of row after row."""

    sizes: np.ndarray
    index: np.ndarray
    value: np.ndarray


def _rows(path: Path, reading: Reading) -> tuple[pd.DataFrame, list[_Features]]:
    """(qid, docno, label; features) of the rows of a file. Document ids are QID:DOCID, because the features of a page
    differ from query to query; DOCID is the comment's `docid = ...`, or else the row's number within its query;
    `docno = ...` is an id as it stands."""
    tables, features, odd, problems = [], list[_Features](), Counter[str](), len(reading.problems)
    for part in reading.parts(path, ("svmlight",), separator=NO_SEPARATOR):
        part = part[~part["svmlight"].str.lstrip().str.startswith("#")]
        rows = _labelled(located(_groups(part["svmlight"], _ROW), path, part["line"]), path, reading)
        features.append(_features(rows, reading, odd))
        tables.append(rows[["qid", "label", "file", "line"]].join(_groups(rows["comment"], _DOCUMENT)))
    rows = pd.concat(tables, ignore_index=True)
    if not len(rows) and len(reading.problems) == problems:
        reading.problem(path, "no rows", f"each row is {ROW_FORM}")
    if len(rows) and not any(len(part.index) for part in features):
        reading.problem(path, "no features", f"each row is {ROW_FORM}")
    query = pd.factorize(rows["qid"])[0]
    odd["times rows of a query stand apart from its others, and are read as one query"] = int(
        (query[1:] != query[:-1]).sum() - query.max(initial=0)
    )
    odd["rows of label -1, not judged"] = int((rows["label"] == UNJUDGED).sum())
    reading.notes += [f"{path.name}: {count:,} {what}" for what, count in odd.items() if count]
    number = (rows.groupby("qid").cumcount() + 1).astype("str")
    document = rows["document"].fillna(number)
    rows["docno"] = document.where(rows["key"] == "docno", rows["qid"] + ":" + document)
    rows = reading.require(rows, ~rows.duplicated(["qid", "docno"]), "document '{docno}' a second time",
                           "keep one row a query and document")  # fmt: skip
    return rows[["qid", "docno", "label", "file", "line"]], features


def _labelled(rows: pd.DataFrame, path: Path, reading: Reading) -> pd.DataFrame:
    """The rows with a query and a label, which is now a number."""
    sizes = next((f"{path.name}.{ending}" for ending in ("query", "group")
                  if path.with_name(f"{path.name}.{ending}").exists()), None)  # fmt: skip
    right = f"write qid:N behind the label{f': {sizes} is not read' if sizes else ''}"
    rows = reading.require(rows, rows["qid"] != "", "no qid of a query behind label '{label}'", right)
    label = as_numbers(rows["label"])
    good = (label >= UNJUDGED) & (label <= MAX_LABEL) & (np.floor(label) == label)
    right = f"write a whole number from 0 to {MAX_LABEL}, or -1: not judged"
    rows = reading.require(rows, good, "label '{label}'", right)
    return rows.assign(label=label[good].astype(np.int64))


def _features(rows: pd.DataFrame, reading: Reading, odd: Counter[str]) -> _Features:
    """The features of rows; what is odd in them is counted."""
    lists = pc.ascii_split_whitespace(pc.ascii_trim_whitespace(arrow(rows["features"]).combine_chunks()))
    cell, row = pc.list_flatten(lists).to_pandas(), pc.list_parent_indices(lists).to_numpy()
    cells = _groups(cell, _FEATURE).assign(
        cell=cell, row=row, file=rows["file"].array[row], line=rows["line"].to_numpy()[row]
    )
    cells = cells[cells["cell"] != ""]  # of a row without features
    right = f"write INDEX:VALUE, INDEX from 0 or 1 to {MAX_FEATURE}"
    index = as_numbers(cells["index"])
    cells = reading.require(cells.assign(index=index), index <= MAX_FEATURE, "feature '{cell}'", right)
    index, row = cells["index"].to_numpy(), cells["row"].to_numpy()
    rises = np.ones(len(cells), bool)
    rises[1:] = (index[1:] > index[:-1]) | (row[1:] != row[:-1])
    cells = reading.require(cells, rises, "feature '{cell}' behind one of its index or a higher one",
                            "let the indices of a row rise")  # fmt: skip
    missing = cells["value"].str.upper().isin(["NULL", "NAN"]).to_numpy()
    odd["features NULL or nan, read as 0"] += int(missing.sum())
    cells = cells[~missing] if missing.any() else cells
    value = as_numbers(cells["value"])
    cells = reading.require(cells.assign(value=value), np.isfinite(value), "feature '{cell}' is not a finite number",
                            "write a number, or leave the feature out")  # fmt: skip
    value = cells["value"].to_numpy()
    large = f"features beyond the range of float32, read as its largest number, {MAX_VALUE:.4g}"
    odd[large] += int((np.abs(value) > MAX_VALUE).sum())
    return _Features(
        np.bincount(cells["row"], minlength=len(rows)),
        cells["index"].to_numpy(np.int32),
        np.clip(value, -MAX_VALUE, MAX_VALUE).astype(np.float32),
    )


def _groups(texts: pd.Series, pattern: str) -> pd.DataFrame:
    """What the named groups of a pattern match in each text, NaN where it does not fit."""
    matches = pc.extract_regex(arrow(texts).combine_chunks(), pattern)
    return pa.Table.from_struct_array(matches).to_pandas().set_index(texts.index)


# -- the whole ---------------------------------------------------------------------------------------------------------


def _judged(rows: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The rows of the queries that have a label."""
    judged = rows.groupby("qid")["label"].transform("max") > UNJUDGED
    if dropped := rows.loc[~judged, "qid"].nunique():
        name = Path(str(rows["file"].iloc[0])).name
        reading.notes.append(f"{name}: {dropped:,} queries without judgments, dropped")
    return rows[judged]


def _held_out(training: pd.DataFrame, reading: Reading) -> dict[str, pd.DataFrame]:
    """The train and dev split of training rows; the same in every version, as their dev values are to be compared."""
    queries = training["qid"].unique()
    if len(queries) < 2:
        return {}
    count = max(1, round(DEV_SHARE * len(queries)))
    dev = training["qid"].isin(queries[generator(0, "letor dev").permutation(len(queries))[:count]])
    drawn = "drawn with a fixed seed (there is no vali.txt)"
    reading.notes.append(f"dev: {count:,} of the {len(queries):,} training queries, {drawn}")
    return {"train": training[~dev], "dev": training[dev]}


def _dense(parts: list[_Features], folder: Path, reading: Reading) -> np.ndarray:
    """float32 [rows, features]; column i is feature i + 1, or i if features count from 0 in any row. Empties `parts`.
    Raises DataError if it does not fit into memory."""
    first = min(1, *(int(part.index.min(initial=1)) for part in parts))
    last = max(int(part.index.max(initial=0)) for part in parts)
    shape = sum(len(part.sizes) for part in parts), last - first + 1
    needed, free = shape[0] * shape[1] * np.dtype(np.float32).itemsize, usable_memory()
    if needed > free:
        wrong = f"{shape[0]:,} rows of features 1 to {last:,} take {_mib(needed)}, and {_mib(free)} of memory are free"
        reading.problem(folder, wrong, "number the features from 1 without gaps, or use more memory")
        reading.finish()
    dense, start = np.zeros(shape, np.float32), 0
    while parts:
        part = parts.pop(0)
        rows = np.repeat(np.arange(start, start + len(part.sizes)), part.sizes)
        dense[rows, part.index - first] = part.value
        start += len(part.sizes)
    return dense


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


FORM = Form(files, read, loosely=loosely)
