"""WikiQA (Yang et al. 2015) as its authors publish it: WikiQA-{train,dev,test}.tsv, seven columns with a header."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from trainables.core.prose import counted
from trainables.data.files import split_files
from trainables.data.forms import Form
from trainables.data.rows import PLACE
from trainables.data.tables import Reading, Tables

FILES = "WikiQA-{}.tsv"
COLUMNS = {"QuestionID": "qid", "Question": "question", "SentenceID": "docno", "Sentence": "text", "Label": "label"}


def files(folder: Path) -> list[Path]:
    return list(split_files(folder, FILES).values())


def read(folder: Path, reading: Reading) -> Tables:
    """Question = query, sentence = document. Questions without a right sentence are dropped with their sentences, as in
    the published results. A sentence may serve several questions."""
    queries, qrels, docs = {}, {}, []
    for split, path in split_files(folder, FILES).items():
        rows = reading.texts(reading.ids(reading.headed(path, COLUMNS), "qid", "docno"), "question", "text")
        rows = reading.require(rows, rows["label"].isin(["0", "1"]), "label '{label}'", "write 0 or 1")
        what = "{} of '{{qid}}' with '{{docno}}'"
        reading.once(rows, ["qid"], "question", what.format("question"), noted=False)
        reading.once(rows, ["docno"], "text", what.format("text"), noted=False)
        rows = reading.once(rows, ["qid", "docno"], "label", what.format("label")).astype({"label": int})
        answered = rows.groupby("qid")["label"].transform("max") > 0
        if dropped := rows.loc[~answered, "qid"].nunique():
            reading.notes.append(f"{split}: {counted(dropped, 'question')} without a right sentence dropped")
        rows = rows[answered]
        questions = rows.drop_duplicates("qid").drop(columns="text").rename(columns={"question": "text"})
        queries[split] = questions[["qid", "text", *PLACE]]
        qrels[split] = rows[["qid", "docno", "label", *PLACE]]
        docs.append(rows[["docno", "text", *PLACE]])
    return Tables(pd.concat(docs, ignore_index=True).drop_duplicates(["docno", "text"]), queries, qrels)


FORM = Form(files, read)
