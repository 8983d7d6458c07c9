"""Sentence pairs to classify (SICK, SNLI, Quora): sentence A = query, sentence B = its one candidate, class = grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.data.cells import is_text
from trainables.data.columns import SPLITS
from trainables.data.files import ending_of, named_files
from trainables.data.forms import Form
from trainables.data.forms.pairs import is_table
from trainables.data.rows import PLACE
from trainables.data.tables import Reading, Tables

NLI = ("contradiction", "entailment", "neutral")
DUPLICATE = ("different", "duplicate")
NO_GOLD = "-"  # the annotators did not agree
SICK_FILES = {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}
SICK_SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}  # names of the splits in SICK.txt
SICK_COLUMNS = {"pair_ID": "qid", "sentence_A": "text", "sentence_B": "second", "entailment_judgment": "label"}
SICK_WHOLE = {**dict(list(SICK_COLUMNS.items())[:3]), "entailment_label": "label", "SemEval_set": "split"}
SNLI_FILES = {split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt") for split in SPLITS}
SNLI_COLUMNS = {"pairID": "qid", "sentence1": "text", "sentence2": "second", "gold_label": "label"}
QUORA_FILES = {split: (f"{split}.tsv",) for split in SPLITS}
QUORA_COLUMNS = {"id": "qid", "question1": "text", "question2": "second", "is_duplicate": "label"}
HELD_OUT = 0.1  # share of Quora's pairs in dev, and the same in test


def _sick_files(folder: Path) -> dict[str, Path]:
    """Those of SemEval 2014 task 1 if there is any, else SICK.txt as its authors publish it."""
    return named_files(folder, SICK_FILES) or named_files(folder, {"": ("SICK.txt",)})


def _snli_files(folder: Path) -> dict[str, Path]:
    """For each split the .jsonl, or else the .txt, as their authors publish them."""
    return named_files(folder, SNLI_FILES)


def _quora_files(folder: Path) -> dict[str, Path]:
    """The splits of Wang et al. 2017 if dev.tsv exists, else the whole file as published."""
    given = named_files(folder, QUORA_FILES)
    if "dev" in given and not any(map(is_table, given.values())):
        return given
    return named_files(folder, {"": ("quora_duplicate_questions.tsv",)})


def _sick(folder: Path, reading: Reading) -> Tables:
    """The class is the entailment label; trial is dev. The relatedness score is not read. In the whole file a column
    gives each pair's split."""
    parts = []
    for split, path in _sick_files(folder).items():
        pairs = reading.headed(path, SICK_COLUMNS if split else SICK_WHOLE)
        if not split:
            is_set, right = pairs["split"].isin([*SICK_SETS]), f"write {', '.join(SICK_SETS)}"
            pairs = reading.require(pairs, is_set, "SemEval_set '{split}'", right)
        parts.append(_usable(pairs.assign(split=split or pairs["split"].map(SICK_SETS)), path, NLI, reading))
    return _tables(parts, NLI)


def _snli(folder: Path, reading: Reading) -> Tables:
    """The class is the gold label; pairs without one are dropped, as in the published results."""
    parts = []
    for split, path in _snli_files(folder).items():
        named = ending_of(path) == "jsonl"
        pairs = _named(path, SNLI_COLUMNS, reading) if named else reading.headed(path, SNLI_COLUMNS)
        parts.append(_usable(pairs.assign(split=split), path, NLI, reading))
    return _tables(parts, NLI)


def _quora(folder: Path, reading: Reading) -> Tables:
    """The classes are different and duplicate. The whole file, whose fields may be quoted, is split 80/10/10 with a
    fixed seed. Pairs with an empty question (the published file has some) are dropped."""
    parts = []
    for split, path in _quora_files(folder).items():
        if split:
            pairs = reading.table(path, ("label", "text", "second", "qid"))
        else:
            pairs = _named(path, QUORA_COLUMNS, reading, "csv")
        one_line = {name: pairs[name].str.split().str.join(" ") for name in ("text", "second")}
        pairs = _usable(pairs.assign(split=split, **one_line), path, ("0", "1"), reading)
        if not split and len(pairs) < len(SPLITS):
            raise DataError(Problem(str(path), f"{len(pairs)} pairs", f"give {len(SPLITS)} or more"))
        parts.append(pairs if split else pairs.assign(split=_drawn_splits(len(pairs), reading)))
    return _tables(parts, DUPLICATE)


def _named(path: Path, names: Mapping[str, str], reading: Reading, kind: str = "") -> pd.DataFrame:
    """The columns that these names stand for, of a file of rows of named columns."""
    pairs = reading.rows(path, kind, strict=False)
    if not set(names) <= set(pairs.columns):
        raise DataError(Problem(f"{path}:1", "not the header", f"the columns {', '.join(names)}"))
    pairs = pairs.rename(columns=names)[[*names.values(), *PLACE]]
    texts = pairs[list(names.values())].map(is_text).all(axis=1)
    pairs = reading.require(pairs, texts, "not the texts of a pair", f"each row has {', '.join(names)}")
    return pairs.astype(dict.fromkeys(names.values(), "str"))


def _drawn_splits(count: int, reading: Reading) -> np.ndarray:
    """The split of each pair."""
    reading.notes.append("train, dev, test: 80, 10, 10 % of the pairs, drawn with a fixed seed")
    order = generator(0, "quora splits").permutation(count)
    size = max(1, round(HELD_OUT * count))
    splits = np.full(count, "train", object)
    splits[order[:size]] = "dev"
    splits[order[size : 2 * size]] = "test"
    return splits


def _usable(pairs: pd.DataFrame, path: Path, labels: Sequence[str], reading: Reading) -> pd.DataFrame:
    """The pairs of a file that have a label and two sentences, each id once, with the number of the class as label.
    Raises DataError if none is left."""
    label = pairs["label"].str.lower()
    right = f"write {', '.join(labels)}"
    pairs = reading.require(pairs.assign(number=label.map({name: row for row, name in enumerate(labels)})),
                            label.isin([*labels, NO_GOLD]), "label '{label}'", right)  # fmt: skip
    pairs = reading.ids(pairs, "qid")
    content = pairs.groupby(["text", "second", "label", "split"], sort=False).ngroup()
    pairs = reading.once(pairs.assign(content=content), ["qid"], "content", "sentence or label of pair '{qid}'")
    whole = pairs["number"].notna() & (pairs["text"].str.strip() != "") & (pairs["second"].str.strip() != "")
    if dropped := int((~whole).sum()):
        reading.notes.append(f"{path.name}: {counted(dropped, 'pair')} without a gold label or a sentence dropped")
    if not whole.any():
        raise DataError(Problem(str(path), "no pairs with a label", "give one or more"))
    return pairs[whole].assign(label=pairs["number"][whole].astype(int))


def _tables(parts: Sequence[pd.DataFrame], classes: tuple[str, ...]) -> Tables:
    """A document is a distinct second sentence."""
    pairs = pd.concat(parts, ignore_index=True)
    pairs = pairs.sort_values("split", key=lambda splits: splits.map(SPLITS.index), kind="stable")
    pairs["docno"] = [f"s{number + 1}" for number in pd.factorize(pairs["second"])[0]]
    docs = pairs.drop_duplicates("docno")[["docno", "second", *PLACE]].rename(columns={"second": "text"})
    by_split = {str(split): frame for split, frame in pairs.groupby("split", sort=False)}
    queries = {split: frame[["qid", "text", *PLACE]] for split, frame in by_split.items()}
    qrels = {split: frame[["qid", "docno", "label", *PLACE]] for split, frame in by_split.items()}
    return Tables(docs, queries, qrels, classes=classes)


SICK = Form(lambda folder: list(_sick_files(folder).values()), _sick, "classification")
SNLI = Form(lambda folder: list(_snli_files(folder).values()), _snli, "classification")
QUORA = Form(lambda folder: list(_quora_files(folder).values()), _quora, "classification")
