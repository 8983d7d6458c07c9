"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) as sentence ranking, SQuAD-T (Min et al. 2017): which sentence of the
paragraph holds the answer?

A question is a query, the sentences of its paragraph are the candidates, and those in which an answer begins have
grade 1. Answers and sentences are matched by their character offsets in the paragraph.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, StrictInt, StrictStr, ValidationError

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.files import ending_of, files_in, read_json, split_files
from trainables.data.forms import Form
from trainables.data.forms.pairs import is_articles
from trainables.data.rows import PLACE, located
from trainables.data.tables import Reading, Tables

FILES = ("{}-v1.1.json", "{}-v2.0.json")
ADVICE = "data > paragraphs > qas > answers, as in the published files"
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Z]|[A-Za-z]\.[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|Inc|Ltd|Co|Gen|Lt|Sgt)\.$"
)
_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9])")


class Answer(BaseModel):
    text: StrictStr
    answer_start: StrictInt


class Question(BaseModel):
    id: StrictStr
    question: StrictStr
    answers: list[Answer]


class Paragraph(BaseModel):
    context: StrictStr
    qas: list[Question]


class Article(BaseModel):
    paragraphs: list[Paragraph]


class Squad(BaseModel):
    data: list[Article]


def files(folder: Path) -> list[Path]:
    return list(_files(folder).values())


def _files(folder: Path) -> dict[str, Path]:
    """The published names; without them, the folder's only JSON file if it looks like them, as test."""
    if named := split_files(folder, *FILES):
        return named
    paths = [path for path in files_in(folder) if ending_of(path) == "json"]
    return {"test": paths[0]} if len(paths) == 1 and is_articles(paths[0]) else {}


def read(folder: Path, reading: Reading) -> Tables:
    """Sentences have the ids SPLIT-ARTICLE-PARAGRAPH-SENTENCE, with numbers from 1. An answer that is not at its offset
    is left out with a note, and so is a question without answers."""
    docs, queries, qrels = [], {}, {}
    for split, path in _files(folder).items():
        sentences, questions, displaced = _content(split, path)
        docs.append(located(pd.DataFrame(sentences, columns=["docno", "text"]), path))
        frame = located(pd.DataFrame(questions, columns=["qid", "text", "docno", "label"]), path)
        answered = frame["label"].map(any).astype(bool)
        if not answered.any():
            raise DataError(Problem(str(path), "no questions with an answer", "give SQuAD 1.1 or 2.0"))
        if displaced:
            reading.notes.append(f"{split}: {counted(displaced, 'answer')} not at the given offset left out")
        if bare := int((~answered).sum()):
            reading.notes.append(f"{split}: {counted(bare, 'question')} without an answer dropped")
        frame = reading.texts(reading.ids(frame[answered].astype({"qid": "str", "text": "str"}), "qid"), "text")
        frame = reading.require(frame, ~frame["qid"].duplicated(), "question '{qid}' a second time", "each id once")
        queries[split] = frame[["qid", "text", *PLACE]].assign(text=frame["text"].str.split().str.join(" "))
        judged = frame[["qid", "docno", "label", *PLACE]].explode(["docno", "label"], ignore_index=True)
        qrels[split] = judged.astype({"label": int})
    return Tables(pd.concat(docs, ignore_index=True), queries, qrels, pools=dict(qrels))


def _content(split: str, path: Path) -> tuple[list[Any], list[Any], int]:
    """((docno, text) of the sentences; (qid, text, its sentences, their grades) of the questions; how many answers are
    not where the file says)."""
    try:
        articles = Squad.model_validate(read_json(path)).data
    except ValidationError as error:
        first = error.errors()[0]
        where, what = ".".join(map(str, first["loc"])), first["msg"]
        raise DataError(Problem(f"{path}: {where}", f"not SQuAD 1.1 ({what})", ADVICE)) from None
    sentences, questions, displaced = [], [], 0
    for i, article in enumerate(articles, 1):
        for j, paragraph in enumerate(article.paragraphs, 1):
            text = paragraph.context
            bounds = sentence_bounds(text)
            names = [f"{split}-{i}-{j}-{number}" for number in range(1, len(bounds) + 1)]
            sentences += [(name, text[start:end]) for name, (start, end) in zip(names, bounds, strict=True)]
            for question in paragraph.qas:
                starts = [_start(answer, text) for answer in question.answers]
                displaced += starts.count(None)
                grades = [
                    int(any(start is not None and begin <= start < end for start in starts)) for begin, end in bounds
                ]
                questions.append((question.id, question.question, names, grades))
    return sentences, questions, displaced


def _start(answer: Answer, text: str) -> int | None:
    """Where the first letter of an answer is; None if it is not where the file says."""
    shown, start = answer.text, answer.answer_start
    if start < 0 or not shown or not text.startswith(shown, start):
        return None
    return start + len(shown) - len(shown.lstrip())


def sentence_bounds(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of a text, without the white space between them.

    A sentence ends at . ! or ? before white space and a capital or digit, but not after an initial or a common
    abbreviation.
    """
    bounds, start = [], 0
    for match in _END.finditer(text):
        sentence = text[start : match.end()].rstrip()
        if not _ABBREVIATION.search(sentence):
            bounds.append((start, start + len(sentence)))
            start = match.end()
    end = len(text.rstrip())
    return [*bounds, (start, end)] if start < end else bounds


FORM = Form(files, read)
