"""Sentence pairs to classify (SICK, SNLI, Quora): sentence A = query, sentence B = its one candidate, class = grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.data.cells import is_text
from trainables.data.columns import SPLITS
from trainables.data.files import ending_of, named_files
from trainables.data.forms import Form
from trainables.data.forms.pairs import is_table
from trainables.data.rows import empty, located
from trainables.data.tables import Reading, Tables

NLI = ("contradiction", "entailment", "neutral")
DUPLICATE = ("different", "duplicate")
DROPPED = -1  # class of pairs that are read, and dropped
NO_GOLD = "-"  # the annotators did not agree
SICK_LABELS = {case(name): row for row, name in enumerate(NLI) for case in (str.upper, str.lower, str.capitalize)}
SNLI_LABELS = {**{name: row for row, name in enumerate(NLI)}, NO_GOLD: DROPPED}
QUORA_LABELS = {"0": 0, "1": 1}

SICK_FILES = {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}
SICK_SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}  # names of the splits in SICK.txt
SICK_COLUMNS = {"pair_ID": "qid", "sentence_A": "text", "sentence_B": "second", "entailment_judgment": "label"}
SICK_WHOLE = {**dict(list(SICK_COLUMNS.items())[:3]), "entailment_label": "label", "SemEval_set": "split"}
SNLI_FILES = {split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt") for split in SPLITS}
SNLI_COLUMNS = {"pairID": "qid", "sentence1": "text", "sentence2": "second", "gold_label": "label"}
QUORA_FILES = {split: (f"{split}.tsv",) for split in SPLITS}
QUORA_SPLIT_COLUMNS = ("label", "text", "second", "qid")
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
        if split:
            pairs = reading.headed(path, SICK_COLUMNS).assign(split=split)
        else:
            pairs = reading.headed(path, SICK_WHOLE)
            known = pairs["split"].isin(list(SICK_SETS))
            pairs = reading.require(pairs, known, "SemEval_set '{split}'", f"write {', '.join(SICK_SETS)}")
            pairs["split"] = pairs["split"].map(SICK_SETS)
        pairs = _usable(_with_sentences(pairs, reading), SICK_LABELS, "judgment", reading)
        parts.append(_some(pairs, path, "pairs", reading))
    return _tables(parts, NLI)


def _snli(folder: Path, reading: Reading) -> Tables:
    """The class is the gold label; pairs without one are dropped, as in the published results."""
    parts = []
    for split, path in _snli_files(folder).items():
        structured = ending_of(path) == "jsonl"
        pairs = _snli_objects(path, reading) if structured else reading.headed(path, SNLI_COLUMNS)
        pairs = _with_sentences(pairs.assign(split=split), reading)
        pairs = _usable(pairs, SNLI_LABELS, "gold label", reading)
        gold = pairs["label"] != DROPPED
        if dropped := int((~gold).sum()):
            reading.notes.append(f"{split}: {counted(dropped, 'pair')} without a gold label dropped")
        parts.append(_some(pairs[gold], path, "pairs with a gold label", reading))
    return _tables(parts, NLI)


def _snli_objects(path: Path, reading: Reading) -> pd.DataFrame:
    lines, rows = [], []
    for line, value in reading.objects(path):
        lines.append(line)
        rows.append([value.get(key) if isinstance(value, dict) else None for key in SNLI_COLUMNS])
    frame = located(pd.DataFrame(rows, columns=list(SNLI_COLUMNS.values()), dtype=object), path, lines)
    texts = frame[list(SNLI_COLUMNS.values())].map(is_text).all(axis=1)
    right = f"each row is a JSON object with {', '.join(SNLI_COLUMNS)}"
    frame = reading.require(frame, texts, "not a JSON object with the texts of a pair", right)
    return frame.astype(dict.fromkeys(SNLI_COLUMNS.values(), "str"))


def _quora(folder: Path, reading: Reading) -> Tables:
    """The classes are different and duplicate. The whole file is split 80/10/10 with a fixed seed. Pairs with an empty
    question (the published file has some) are dropped with a note."""
    parts = []
    for split, path in _quora_files(folder).items():
        pairs = reading.table(path, QUORA_SPLIT_COLUMNS) if split else _quora_whole(path, reading)
        pairs = pairs.assign(split=split)
        for name in ("text", "second"):
            pairs[name] = [" ".join(text.split()) for text in pairs[name]]
        pairs = _usable(pairs, QUORA_LABELS, "label", reading)
        whole = (pairs["text"] != "") & (pairs["second"] != "")
        if dropped := int((~whole).sum()):
            reading.notes.append(f"{path.name}: {counted(dropped, 'pair')} with an empty question dropped")
        pairs = _some(pairs[whole], path, "pairs with two questions", reading, 1 if split else len(SPLITS))
        parts.append(pairs if split else pairs.assign(split=_drawn_splits(len(pairs), reading)))
    return _tables(parts, DUPLICATE)


def _quora_whole(path: Path, reading: Reading) -> pd.DataFrame:
    """The file as published, whose fields may be quoted."""
    frame = reading.rows(path, "csv", strict=False)
    if set(QUORA_COLUMNS) <= set(frame.columns):
        return frame.rename(columns=QUORA_COLUMNS)
    if not reading.problems:
        right = f"the first row names the columns {', '.join(QUORA_COLUMNS)}"
        reading.problem(f"{path}:1", "not the Quora header", right)
    return empty(list(QUORA_COLUMNS.values()))


def _drawn_splits(count: int, reading: Reading) -> np.ndarray:
    """The split of each pair."""
    reading.notes.append("train, dev, test: 80, 10, 10 % of the pairs, drawn with a fixed seed")
    order = generator(0, "quora splits").permutation(count)
    size = max(1, round(HELD_OUT * count))
    splits = np.full(count, "train", object)
    splits[order[:size]] = "dev"
    splits[order[size : 2 * size]] = "test"
    return splits


def _with_sentences(pairs: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The pairs with two sentences."""
    texts = (pairs["text"].str.strip() != "") & (pairs["second"].str.strip() != "")
    return reading.require(pairs, texts, "an empty sentence", "give a text or leave the row out")


def _usable(pairs: pd.DataFrame, labels: Mapping[str, int], name: str, reading: Reading) -> pd.DataFrame:
    """The pairs of a file, each id once, with the number of the class as label."""
    right = f"write {', '.join(labels)}"
    pairs = reading.require(pairs, pairs["label"].isin(list(labels)), f"{name} '{{label}}'", right)
    pairs = reading.ids(pairs.assign(label=pairs["label"].map(labels).astype(int)), "qid")
    content = pairs.groupby(["text", "second", "label", "split"], sort=False).ngroup()
    keys = (pd.factorize(pairs["qid"])[0],)
    return reading.once(pairs.assign(content=content), keys, "content", "sentence or label of pair '{qid}'")


def _some(pairs: pd.DataFrame, path: Path, noun: str, reading: Reading, fewest: int = 1) -> pd.DataFrame:
    if len(pairs) < fewest and not reading.problems:
        reading.problem(path, f"{len(pairs) or 'no'} {noun}", f"give {fewest} or more")
    return pairs


def _tables(parts: Sequence[pd.DataFrame], classes: tuple[str, ...]) -> Tables:
    """A document is a distinct second sentence."""
    pairs = pd.concat(parts, ignore_index=True)
    pairs = pairs.sort_values("split", key=lambda splits: splits.map(SPLITS.index), kind="stable")
    pairs["docno"] = [f"s{number + 1}" for number in pd.factorize(pairs["second"])[0]]
    docs = pairs.drop_duplicates("docno")[["docno", "second"]].rename(columns={"second": "text"})
    by_split = dict(iter(pairs.groupby("split", sort=False)))
    queries = {str(split): frame[["qid", "text", "file", "line"]] for split, frame in by_split.items()}
    qrels = {str(split): frame[["qid", "docno", "label", "file", "line"]] for split, frame in by_split.items()}
    return Tables(docs, queries, qrels, classes=classes)


SICK = Form(lambda folder: list(_sick_files(folder).values()), _sick, "classification")
SNLI = Form(lambda folder: list(_snli_files(folder).values()), _snli, "classification")
QUORA = Form(lambda folder: list(_quora_files(folder).values()), _quora, "classification")
