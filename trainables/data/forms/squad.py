"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) as sentence ranking, SQuAD-T (Min et al. 2017): which sentence of the
paragraph holds the answer?

A question is a query, the sentences of its paragraph are the candidates, and those in which an answer begins have
grade 1. Answers and sentences are matched by their character offsets in the paragraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.cells import Wrong, is_text
from trainables.data.files import ending_of, files_in, parsed_json, shards_of_splits, split_files, whole_text
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


def files(folder: Path) -> list[Path]:
    return list(_named(folder).values())


def loosely(folder: Path) -> list[Path]:
    return list(_loosely(folder).values())


def _named(folder: Path) -> dict[str, Path]:
    """The published names; without them, the folder's only JSON file if it looks like them, as test."""
    if named := split_files(folder, *FILES):
        return named
    paths = [path for path in files_in(folder) if ending_of(path) == "json"]
    return {"test": paths[0]} if folder.is_dir() and len(paths) == 1 and is_articles(paths[0]) else {}


def _loosely(folder: Path) -> dict[str, Path]:
    """By the content of files with a split's name."""
    shards = shards_of_splits(folder, ("json",))
    return {split: paths[0] for split, paths in shards.items() if len(paths) == 1 and is_articles(paths[0])}


def read(folder: Path, reading: Reading) -> Tables:
    """Sentences have the ids SPLIT-ARTICLE-PARAGRAPH-SENTENCE, with numbers from 1. An answer that is not at its offset
    is left out with a note, and so is a question without answers."""
    docs, queries, qrels = [], {}, {}
    for split, path in (_named(folder) or _loosely(folder)).items():
        sentences, questions, displaced = _content(split, path)
        docs.append(located(pd.DataFrame(sentences, columns=["docno", "text"]), path))
        frame = located(pd.DataFrame(questions, columns=["qid", "text", "docno", "label", "at"]), path)
        answered = frame["label"].map(any).astype(bool)
        if not answered.any():
            raise DataError(Problem(str(path), "no questions with an answer", "give SQuAD 1.1 or 2.0"))
        if displaced:
            reading.notes.append(f"{split}: {counted(displaced, 'answer')} not at the given offset left out")
        if bare := int((~answered).sum()):
            reading.notes.append(f"{split}: {counted(bare, 'question')} without an answer dropped")
        frame = reading.texts(reading.ids(frame[answered].astype({"qid": "str", "text": "str"}), "qid"), "text")
        frame = reading.require(frame, ~frame["qid"].duplicated(), "id '{qid}' of {at} a second time", "each id once")
        queries[split] = frame[["qid", "text", *PLACE]].assign(text=frame["text"].str.split().str.join(" "))
        judged = frame[["qid", "docno", "label", *PLACE]].explode(["docno", "label"], ignore_index=True)
        qrels[split] = judged.astype({"label": int})
    return Tables(pd.concat(docs, ignore_index=True), queries, qrels, pools=dict(qrels))


def _content(split: str, path: Path) -> tuple[list[Any], list[Any], int]:
    """((docno, text) of the sentences; (qid, text, its sentences, their grades, its place) of the questions; how many
    answers are not where the file says)."""
    sentences, questions, displaced = [], [], 0
    try:
        for name, place, paragraph in _paragraphs(path):
            text = paragraph["context"]
            bounds = sentence_bounds(text)
            names = [f"{split}-{name}-{number}" for number in range(1, len(bounds) + 1)]
            sentences += [(docno, text[start:end]) for docno, (start, end) in zip(names, bounds, strict=True)]
            for where, question in _objects(paragraph, "qas", place):
                starts, wrong = _starts(question, text, where)
                displaced += wrong
                grades = [int(any(begin <= start < end for start in starts)) for begin, end in bounds]
                questions.append(
                    (_text(question, "id", where), _text(question, "question", where), names, grades, where)
                )
    except Wrong as wrong:
        place, what = wrong.args
        raise DataError(Problem(f"{path}{place and f': {place}'}", f"not SQuAD 1.1 ({what})", ADVICE)) from None
    return sentences, questions, displaced


def _paragraphs(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(ARTICLE-PARAGRAPH, its place, the paragraph) of each."""
    try:
        whole = parsed_json(whole_text(path))
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(Problem(f"{path}{line}", f"not JSON ({error})", "give the whole file")) from None
    for i, (within, article) in enumerate(_objects(whole, "data", ""), 1):
        for j, (place, paragraph) in enumerate(_objects(article, "paragraphs", within), 1):
            _text(paragraph, "context", place)
            yield f"{i}-{j}", place, paragraph


def _objects(node: Any, key: str, place: str) -> list[tuple[str, dict[str, Any]]]:
    """(place, object) of the objects in a list of an object. Raises Wrong if there is no such list."""
    objects = node.get(key) if isinstance(node, dict) else None
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise Wrong(place, f"no list of objects '{key}'")
    return [(f"{place}{'.' if place else ''}{key}[{number}]", each) for number, each in enumerate(objects)]


def _text(node: dict[str, Any], key: str, place: str) -> str:
    text = node.get(key)
    if not is_text(text):
        raise Wrong(place, f"no text '{key}'")
    return text


def _starts(question: dict[str, Any], text: str, place: str) -> tuple[list[int], int]:
    """Offsets of the answers that stand where the file says; how many others there are."""
    starts, answers = [], _objects(question, "answers", place)
    for where, answer in answers:
        shown, start = _text(answer, "text", where), answer.get("answer_start")
        if not isinstance(start, int):
            raise Wrong(where, "answer_start is not a whole number")
        if start >= 0 and shown and text.startswith(shown, start):
            starts.append(start + len(shown) - len(shown.lstrip()))
    return starts, len(answers) - len(starts)


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


FORM = Form(files, read, loosely=loosely)
