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

from trainables.core.errors import DataError
from trainables.core.prose import counted
from trainables.data.cells import Wrong, is_text
from trainables.data.files import ending_of, files_in, parsed_json, shards_of_splits, split_files, whole_text
from trainables.data.forms import Form
from trainables.data.forms.pairs import is_articles
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
        sentences, questions, judgments = _split(split, path, reading)
        docs.append(sentences)
        queries[split], qrels[split] = questions, judgments
    return Tables(pd.concat(docs, ignore_index=True), queries, qrels, pools=dict(qrels))


def _split(split: str, path: Path, reading: Reading) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """docno, text of the sentences; qid, text of the questions; qid, docno, label."""
    before = len(reading.problems)
    sentences, questions, displaced = [], [], 0
    for name, place, paragraph in _paragraphs(path, reading):
        text = paragraph["context"]
        bounds = sentence_bounds(text)
        names = [f"{split}-{name}-{number}" for number in range(1, len(bounds) + 1)]
        sentences += [(docno, text[start:end]) for docno, (start, end) in zip(names, bounds, strict=True)]
        for where, question in _objects(paragraph, "qas", place, reading):
            try:
                starts, wrong = _starts(question, text)
            except Wrong as error:
                reading.problem(where.rstrip(".: "), f"not SQuAD 1.1 ({error.args[0]})", ADVICE)
                continue
            displaced += wrong
            grades = [int(any(begin <= start < end for start in starts)) for begin, end in bounds]
            line = where.removeprefix(f"{path}:").rstrip(".")
            questions.append((question.get("id"), question.get("question"), names, grades, line))
    frame = pd.DataFrame(questions, columns=["qid", "text", "docno", "label", "line"]).assign(file=str(path))
    answered = frame[frame["label"].map(any).astype(bool)]
    if not len(answered) and len(reading.problems) == before:
        reading.problem(path, "no questions with an answer", "give SQuAD 1.1 or 2.0")
    if displaced:
        reading.notes.append(f"{split}: {counted(displaced, 'answer')} not at the given offset left out")
    if bare := len(frame) - len(answered):
        reading.notes.append(f"{split}: {counted(bare, 'question')} without an answer dropped")
    frame = _usable(answered, reading)
    judged = frame[["qid", "docno", "label", "file", "line"]].explode(["docno", "label"], ignore_index=True)
    docs = pd.DataFrame(sentences, columns=["docno", "text"])
    return docs, frame[["qid", "text", "file", "line"]], judged.astype({"label": int})


def _usable(frame: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The questions with an id of their own and a text, which is in one line."""
    for column, key in (("qid", "id"), ("text", "question")):
        texts = frame[column].map(is_text).astype(bool)
        frame = reading.require(frame, texts, f"not SQuAD 1.1 (no text '{key}')", ADVICE).astype({column: "str"})
    frame = reading.ids(frame, "qid")
    frame = reading.require(frame, ~frame["qid"].duplicated(), "id '{qid}' a second time", "each id once")
    frame = reading.require(frame, frame["text"].str.strip() != "", "an empty question", "a question with text")
    return frame.assign(text=[" ".join(text.split()) for text in frame["text"]])


def _paragraphs(path: Path, reading: Reading) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(ARTICLE-PARAGRAPH, its place, the paragraph) of each with a text."""
    try:
        whole = parsed_json(whole_text(path))
    except DataError as error:
        reading.problems += error.problems
        return
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        reading.problem(f"{path}{line}", f"not JSON ({getattr(error, 'msg', error)})", "give the whole file")
        return
    for i, (within, article) in enumerate(_objects(whole, "data", f"{path}: ", reading), 1):
        for j, (place, paragraph) in enumerate(_objects(article, "paragraphs", within, reading), 1):
            if is_text(paragraph.get("context")):
                yield f"{i}-{j}", place, paragraph
            else:
                reading.problem(place.rstrip("."), "not SQuAD 1.1 (no text 'context')", ADVICE)


def _objects(node: Any, key: str, place: str, reading: Reading) -> list[tuple[str, dict[str, Any]]]:
    """(place, object) of the objects in a list of an object; a place ends in what stands before a key."""
    objects = node.get(key) if isinstance(node, dict) else None
    if isinstance(objects, list) and all(isinstance(each, dict) for each in objects):
        return [(f"{place}{key}[{number}].", each) for number, each in enumerate(objects)]
    reading.problem(place.rstrip(".: "), f"not SQuAD 1.1 (no list of objects '{key}')", ADVICE)
    return []


def _starts(question: dict[str, Any], text: str) -> tuple[list[int], int]:
    """Offsets of the answers that stand where the file says; how many others there are."""
    starts, answers = [], question.get("answers")
    if not isinstance(answers, list):
        raise Wrong("no list 'answers'")
    for answer in answers:
        if not isinstance(answer, dict) or not is_text(answer.get("text")):
            raise Wrong("no text 'text' of an answer")
        shown, start = answer["text"], answer.get("answer_start")
        if not isinstance(start, int):
            raise Wrong("answer_start is not a whole number")
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
