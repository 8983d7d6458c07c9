"""Conversation folder (Douban, UDC, MSDialog, MANtIS, DailyDialog++): train.tsv, valid.tsv, test.tsv.

A row is a candidate: label, utterances of the context, response, separated by tabs; there is no header. The rows
of one context are adjacent: a group is a run of rows with equal utterances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import RankingData, Rated, Task, TextColumn
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.files import existing
from trainables.data.readers.pairs import is_table
from trainables.data.readers.rows import Lines, plain_or_packed
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
FILES = {"train": ("train.tsv",), "dev": ("valid.tsv", "validation.tsv", "val.tsv"), "test": ("test.tsv",)}
FORM = "LABEL TAB UTTERANCE [TAB UTTERANCE ...] TAB RESPONSE"


def recognises(folder: Path) -> bool:
    """By valid.tsv; without it, by train.tsv or test.tsv, unless a dev.tsv makes them sentence pairs. A header makes
    them pairs or triples."""
    found = existing(folder, FILES)
    if any(map(is_table, found.values())):
        return False
    return "dev" in found or (bool(found) and not plain_or_packed(folder, "dev.tsv").exists())


def files(folder: Path) -> list[Path]:
    return list(existing(folder, FILES).values())


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Context = query with its utterances, response = document, label = grade.

    A document is a distinct response text; a text that occurs twice in a group is two documents, so that no
    candidate is lost. Queries are SPLIT-1, SPLIT-2, ... in the order of the file. Training contexts without a
    right response are dropped; held-out ones count 0. Raises DataError with the problems of all files.
    """
    problems: list[Problem] = []
    responses: Responses = {}
    notes: list[str] = []
    splits = {}
    for split, path in existing(folder, FILES).items():
        splits[split] = _read_split(split, Lines(path, FORM, problems), responses, notes)
    if problems:
        raise DataError(problems)
    ids = TextColumn.of(f"d{number}" for number in range(1, len(responses) + 1))
    documents = TextColumn.of(text for text, _ in responses)
    return assemble(Raw(folder.name, ids, documents, splits, tuple(notes)), config)


Responses = dict[tuple[str, int], int]  # rows of documents by (text, how many equal texts come before it in its group)


def _read_split(split: str, lines: Lines, responses: Responses, notes: list[str]) -> RawSplit:
    contexts: list[tuple[str, ...]] = []
    rated: list[tuple[int, int, float]] = []
    bare = 0
    for context, group in groupby(_candidates(lines), itemgetter(0)):
        labels, texts = [], []
        for _, number, label, text in group:
            if split == "train" and label == 1 and labels == [1]:  # two contexts run together
                right = "keep the right response first, then the wrong ones"
                lines.problem(number, "two right responses first", right)
            labels.append(label)
            texts.append(text)
        if not any(labels):
            bare += 1
            if split == "train":
                continue
        earlier = Counter[str]()
        for label, text in zip(labels, texts, strict=True):
            row = responses.setdefault((text, earlier[text]), len(responses))
            rated.append((len(contexts), row, label))
            earlier[text] += 1
        contexts.append(context)
    if bare:
        fate = "dropped" if split == "train" else "kept, to count 0"
        notes.append(f"{split}: {counted(bare, 'context')} without a right response {fate}")
    query_ids = [f"{split}-{number}" for number in range(1, len(contexts) + 1)]
    judged = Rated.of(rated)
    return RawSplit(query_ids, contexts, judged, pool=judged)


def _candidates(lines: Lines) -> Iterator[tuple[tuple[str, ...], int, int, str]]:
    """(context, line, label, response) of each row; a wrong row becomes a problem."""
    for number, line in lines:
        label, *context, response = line.split("\t") if line.count("\t") >= 2 else ("", "", "")
        if wrong := _wrong(line, label, context, response):
            lines.problem(number, *wrong)
        else:
            yield tuple(context), number, int(label), response


def _wrong(line: str, label: str, context: list[str], response: str) -> tuple[str, str] | None:
    columns = line.count("\t") + 1
    if columns < 3:
        return f"{columns} columns instead of 3 or more", FORM
    if label not in ("0", "1"):
        return f"label '{label[:40]}'", "write 0 or 1"
    if not response.strip():
        return "an empty response", "give a text or leave the row out"
    if not all(utterance.strip() for utterance in context):
        return "an empty utterance", "give a text or leave the column out"
    return None
