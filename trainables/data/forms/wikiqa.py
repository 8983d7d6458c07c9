"""WikiQA (Yang et al. 2015) as its authors publish it: WikiQA-{train,dev,test}.tsv, seven columns with a header."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from trainables.core.prose import counted
from trainables.data.files import split_files
from trainables.data.forms import Form
from trainables.data.tables import Reading, Tables

FILES = "WikiQA-{}.tsv"
COLUMNS = {"QuestionID": "qid", "Question": "question", "SentenceID": "docno", "Sentence": "text", "Label": "label"}


def files(folder: Path) -> list[Path]:
    return list(split_files(folder, FILES).values())


def read(folder: Path, reading: Reading) -> Tables:
    """Question = query, sentence = document. Questions without a right sentence are dropped with their sentences, as in
    the published results. A sentence may serve several questions."""
    parts = [_rows(path, reading).assign(split=split) for split, path in split_files(folder, FILES).items()]
    rows = pd.concat(parts, ignore_index=True)
    rows = reading.one_value(rows, [pd.factorize(rows["docno"])[0]], "text", "text for '{docno}'")
    rows = reading.require(rows, rows["label"].isin(["0", "1"]), "label '{label}'", "write 0 or 1")
    queries, qrels, used = {}, {}, []
    for split, labels in rows.groupby("split", sort=False):
        keys = pd.factorize(labels["qid"])[0], pd.factorize(labels["docno"])[0]
        labels = reading.once(labels, keys, "label", "label for '{qid}' with sentence '{docno}'")
        labels["label"] = labels["label"].astype(int)
        answered = labels.groupby("qid")["label"].transform("max") > 0
        if dropped := labels.loc[~answered, "qid"].nunique():
            reading.notes.append(f"{split}: {counted(dropped, 'question')} without a right sentence dropped")
        labels = labels[answered]
        used.append(labels)
        qrels[split] = labels[["qid", "docno", "label", "file", "line"]]
        questions = labels.drop_duplicates("qid").drop(columns="text").rename(columns={"question": "text"})
        queries[split] = questions[["qid", "text", "file", "line"]]
    docs = pd.concat(used).drop_duplicates("docno") if used else rows
    return Tables(docs[["docno", "text"]], queries, qrels)


def _rows(path: Path, reading: Reading) -> pd.DataFrame:
    rows = reading.ids(reading.headed(path, COLUMNS), "qid", "docno")
    texts = (rows["question"].str.strip() != "") & (rows["text"].str.strip() != "")
    rows = reading.require(rows, texts, "an empty question or sentence", "give a text or leave the row out")
    return reading.one_value(rows, [pd.factorize(rows["qid"])[0]], "question", "text for '{qid}'")


FORM = Form(files, read)
