"""A reader: faq.{train,dev,test}.tsv, each row a question, an answer, and right or wrong (`tune-cl data FOLDER`)."""

from pathlib import Path

import tune_cl
from trainables.data.files import split_files
from trainables.data.forms.pairs import pairs_tables
from trainables.data.tables import Reading, Tables


@tune_cl.reader(
    "faq",
    "FAQ folder: faq.{train,dev,test}.tsv with question, answer, right or wrong",
    "an example",
    files=["faq.{}.tsv"],
)
def faq(folder: Path, reading: Reading) -> Tables:
    frames = {}
    for split, path in split_files(folder, "faq.{}.tsv").items():
        rows = reading.table(path, ["query", "document", "label"])
        rows = reading.require(rows, rows["label"].isin(["right", "wrong"]), "label '{label}'", "right or wrong")
        frames[split] = rows.assign(label=(rows["label"] == "right").astype(int))
    return pairs_tables(frames, reading)
