"""InsuranceQA (Feng et al. 2015) as its authors publish it, versions 1 and 2: words by index, answers by label."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from pathlib import Path

import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.core.randomness import generator
from trainables.data.files import files_in, found, named_files
from trainables.data.forms import Form
from trainables.data.rows import PLACE
from trainables.data.tables import Reading, Tables

VOCABULARY = "vocabulary"
ANSWERS = {1: "answers.label.token_idx", 2: "InsuranceQA.label2answer.token.encoded"}  # by version
QUESTIONS = {
    "train": ("question.train.token_idx.label",),
    "dev": ("question.dev.label.token_idx.pool",),
    "test": ("question.test1.label.token_idx.pool", "question.test2.label.token_idx.pool"),
}  # of version 1
COLUMNS = {"train": ("text", "answers"), "dev": ("answers", "text", "pool"), "test": ("answers", "text", "pool")}
COLUMNS_2 = ("_domain", "text", "answers", "pool")
POOL = "InsuranceQA.question.anslabel.token.{}.pool.solr.{}.encoded"  # of version 2: by the pool's size and the split
SIZE = re.compile(POOL.replace(".", r"\.").format("([0-9]{1,6})", "(?:train|valid|test)"), re.IGNORECASE)
NAMES_2 = {"train": "train", "dev": "valid", "test": "test"}


def files(folder: Path) -> list[Path]:
    """The files that may be read: with pools of several sizes, the files of all sizes."""
    if not any(found(folder, name) for name in ANSWERS.values()):
        return []
    names = [VOCABULARY, *ANSWERS.values(), *(name for each in QUESTIONS.values() for name in each)]
    pools = [path for path in files_in(folder) if SIZE.match(path.name)]
    return [path for name in names if (path := found(folder, name))] + pools


def read(folder: Path, reading: Reading) -> Tables:
    """Question = query, answer = document; right answers have grade 1, other answers of the question's pool grade 0.

    Version 2 gives pools of 100 to 1,500 answers found by Solr: the smallest that holds `data.top_k` is read, else the
    largest. Version 1 gives pools of 500 for dev and test1 (the test split; test2 in a folder without test1); its
    training pools are the right answers and others drawn with a fixed seed, `data.top_k` in all. A right answer that is
    not in the pool counts as not retrieved, but in training it is added to the pool.
    """
    version = next(version for version, name in ANSWERS.items() if found(folder, name))
    table = reading.table(found(folder, VOCABULARY) or folder / VOCABULARY, ("index", "word"))
    words = dict(zip(table["index"], table["word"].str.strip(), strict=True))
    answers = reading.table(found(folder, ANSWERS[version]) or folder, ("docno", "text"))
    answers = reading.require(answers, ~answers["docno"].duplicated(), "label '{docno}' a second time", "keep one row")
    answers = _with_words(reading.ids(answers, "docno"), words, reading)
    sources = _pools(folder, reading.config.depth()) if version == 2 else named_files(folder, QUESTIONS)
    if not sources:
        raise DataError(Problem(str(folder), "no questions", "give the files with the questions' answers and pools"))
    reading.finish()
    tables = Tables(answers, {}, {})
    for split, path in sources.items():
        questions = reading.table(path, COLUMNS_2 if version == 2 else COLUMNS[split])
        _add_split(split, _with_words(questions, words, reading), tables, answers["docno"].tolist(), reading)
    return tables


def _pools(folder: Path, top_k: int) -> dict[str, Path]:
    """The question files of one pool size."""
    sizes = sorted({int(match[1]) for path in files_in(folder) if (match := SIZE.match(path.name))})
    size = next((size for size in sizes if size >= top_k), sizes[-1] if sizes else 0)
    return named_files(folder, {split: [POOL.format(size, name)] for split, name in NAMES_2.items()})


def _with_words(frame: pd.DataFrame, words: dict[str, str], reading: Reading) -> pd.DataFrame:
    """The rows with the words of `text` in place of their indices."""
    frame = _require_known(frame, "text", words, "'{unknown}' is not in the vocabulary", reading)
    texts = frame["text"].map(lambda text: " ".join(words[index] for index in text.split()))
    return reading.texts(frame.assign(text=texts.astype("str")), "text")


def _require_known(
    frame: pd.DataFrame, column: str, values: Container[str], wrong: str, reading: Reading
) -> pd.DataFrame:
    """The rows in whose `column` all words are `values`; `wrong` names the first that is not, as {unknown}."""
    unknown = [next((word for word in text.split() if word not in values), "") for text in frame[column]]
    good = [not word for word in unknown]
    return reading.require(frame.assign(unknown=unknown), good, wrong, "add it there, or give the right file")


def _add_split(split: str, questions: pd.DataFrame, tables: Tables, labels: list[str], reading: Reading) -> None:
    """Adds the questions of a split with their judged answers and pools. `labels`: of all answers."""
    for column in questions.columns.intersection(["answers", "pool"]):
        questions = _require_known(questions, column, {*labels}, "there is no answer '{unknown}'", reading)
    questions = reading.texts(questions, "answers")
    questions = questions.assign(qid=[f"{split}-{number}" for number in range(1, len(questions) + 1)])
    right = [list(dict.fromkeys(text.split())) for text in questions["answers"]]
    if "pool" in questions:
        pools = [list(dict.fromkeys(text.split())) for text in questions["pool"]]
    else:
        top_k = reading.config.depth("train")
        pools = [_drawn(each, labels, line, top_k) for each, line in zip(right, questions["line"], strict=True)]
    judged = [list(dict.fromkeys([*each, *pool])) for each, pool in zip(right, pools, strict=True)]
    tables.queries[split] = questions[["qid", "text", *PLACE]]
    rows = questions[["qid", *PLACE]].assign(docno=judged, right=right).explode("docno")
    labels_of_rows = [int(docno in answers) for docno, answers in zip(rows["docno"], rows["right"], strict=True)]
    tables.qrels[split] = rows.drop(columns="right").assign(label=labels_of_rows)
    pool = judged if split == "train" else pools
    tables.pools[split] = questions[["qid", *PLACE]].assign(docno=pool).explode("docno").dropna()


def _drawn(right: Sequence[str], labels: Sequence[str], line: int, top_k: int) -> list[str]:
    """Labels drawn for the question in a line: as many as fill its pool together with the right ones."""
    count = max(0, min(top_k, len(labels)) - len(right))
    order = generator(0, "insurance pool", int(line)).choice(len(labels), count + len(right), replace=False)
    negatives = [labels[row] for row in map(int, order)]
    return [label for label in negatives if label not in right][:count]


FORM = Form(files, read)
