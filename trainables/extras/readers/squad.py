"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) as sentence ranking, SQuAD-T (Min et al. 2017): which sentence of the
paragraph holds the answer?

A question is a query, the sentences of its paragraph are the candidates, and those in which an answer begins have
grade 1. Answers and sentences are matched by their character offsets in the paragraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import SPLITS, RankingData, Rated, Task, TextColumn
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.files import files_of_splits, split_file
from trainables.data.readers.pairs import is_articles
from trainables.data.readers.rows import is_text, read_whole, unpacked_name, usable_id
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
FILES = ("{}-v1.1.json", "{}-v2.0.json")
FORM = "data > paragraphs > qas > answers, as in the published files"
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Z]|[A-Za-z]\.[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|Inc|Ltd|Co|Gen|Lt|Sgt)\.$"
)
_END = re.compile(r"[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9])")


def recognises(folder: Path) -> bool:
    return bool(_by_split(folder))


def fits_loosely(folder: Path) -> bool:
    """By the content of files with a split's name."""
    return bool(_loosely(folder))


def files(folder: Path) -> list[Path]:
    return list((_by_split(folder) or _loosely(folder)).values())


def _by_split(folder: Path) -> dict[str, Path]:
    """The published names; without them, the folder's only JSON file if it looks like them, as test."""
    named = {split: path for split in SPLITS if (path := split_file(folder, split, *FILES)).exists()}
    if named:
        return named
    paths = sorted(path for path in folder.iterdir() if unpacked_name(path).endswith(".json"))
    return {"test": paths[0]} if len(paths) == 1 and is_articles(paths[0]) else {}


def _loosely(folder: Path) -> dict[str, Path]:
    single = {split: pieces[0] for split, pieces in files_of_splits(folder, ("json",)).items() if len(pieces) == 1}
    return {split: paths[0] for split, paths in single.items() if len(paths) == 1 and is_articles(paths[0])}


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Sentences have the ids SPLIT-ARTICLE-PARAGRAPH-SENTENCE, with numbers from 1.

    An answer that is not at its offset is left out with a note, and so is a question without answers.
    Raises DataError with the problems of all files.
    """
    problems: list[Problem] = []
    sentences: dict[str, str] = {}
    notes: list[str] = []
    splits = {}
    for split, path in (_by_split(folder) or _loosely(folder)).items():
        reader = _Split(split, path, problems, sentences)
        reader.read(read_whole(path, problems))
        notes += reader.notes()
        judged = Rated.of(reader.judged)
        splits[split] = RawSplit(reader.names, reader.questions, judged, pool=judged)
    if problems:
        raise DataError(problems)
    documents = TextColumn.of(sentences.values())
    return assemble(Raw(folder.name, TextColumn.of(sentences), documents, splits, tuple(notes)), config)


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


@dataclass
class _Split:
    """Questions of one file; sentences go to `sentences`, shared by all files."""

    split: str
    path: Path
    problems: list[Problem]
    sentences: dict[str, str]
    names: list[str] = field(default_factory=list)
    questions: list[tuple[str, ...]] = field(default_factory=list)
    judged: list[tuple[int, int, float]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    displaced: int = 0
    bare: int = 0

    def read(self, raw: str | None) -> None:
        """Reads the file's text (None: its problem is already noted)."""
        if raw is None:
            return
        try:
            self._articles(json.loads(raw))
        except json.JSONDecodeError as error:
            self.problems.append(
                Problem(f"{self.path}:{error.lineno}", f"not JSON ({error.msg})", "give the whole file")
            )
        except (ValueError, RecursionError) as error:
            self.problems.append(Problem(str(self.path), f"not SQuAD 1.1 ({error})", FORM))
        if not self.names and not self.problems:
            self.problems.append(Problem(str(self.path), "no questions with an answer", "give SQuAD 1.1 or 2.0"))

    def _articles(self, whole: Any) -> None:
        with self._noted():
            for i, article in enumerate(_items(whole, "data")):
                with self._noted(f"data[{i}]"):
                    for j, paragraph in enumerate(_items(article, "paragraphs")):
                        location = f"data[{i}].paragraphs[{j}]"
                        with self._noted(location):
                            self._paragraph(f"{self.split}-{i + 1}-{j + 1}", paragraph, location)

    @contextmanager
    def _noted(self, location: str = "") -> Iterator[None]:
        """Notes what is wrong with a part of the file as a problem, and goes on after the block."""
        try:
            yield
        except _Form as error:
            wrong, right = error.args
            whole = f"{self.path}: {location}" if location else str(self.path)
            self.problems.append(Problem(whole, f"not SQuAD 1.1 ({wrong})", right))

    def _paragraph(self, name: str, paragraph: Any, location: str) -> None:
        text = _text(paragraph, "context")
        bounds = sentence_bounds(text)
        first = len(self.sentences)
        self.sentences |= {f"{name}-{i}": text[start:end] for i, (start, end) in enumerate(bounds, 1)}
        for number, question in enumerate(_items(paragraph, "qas")):
            with self._noted(f"{location}.qas[{number}]"):
                self._question(question, text, bounds, first)

    def _question(self, question: Any, text: str, bounds: list[tuple[int, int]], first: int) -> None:
        starts = self._starts(question, text)
        right = {i for i, (begin, end) in enumerate(bounds) if any(begin <= start < end for start in starts)}
        if right:
            self._add(question, [(first + i, float(i in right)) for i in range(len(bounds))])
        else:
            self.bare += 1

    def _starts(self, question: Any, text: str) -> list[int]:
        """Offsets of the answers that stand where the file says."""
        starts = []
        for answer in _items(question, "answers"):
            shown, start = _text(answer, "text"), answer.get("answer_start")
            if not isinstance(start, int):
                raise _Form("answer_start is not a whole number", "where the answer begins in the context")
            if start >= 0 and shown and text.startswith(shown, start):
                starts.append(start + len(shown) - len(shown.lstrip()))
            else:
                self.displaced += 1
        return starts

    def _add(self, question: Any, graded: list[tuple[int, float]]) -> None:
        name, text = _text(question, "id"), _text(question, "question")
        if not usable_id(name):
            raise _Form(f"id '{name[:40]}' is empty or holds white space", "an id without white space")
        if name in self.seen:
            raise _Form(f"id '{name[:40]}' a second time", "each id once")
        if not text.strip():
            raise _Form("an empty question", "a question with text")
        self.seen.add(name)
        self.judged += [(len(self.names), row, grade) for row, grade in graded]
        self.names.append(name)
        self.questions.append((" ".join(text.split()),))

    def notes(self) -> list[str]:
        """What was left out, for the user."""
        displaced = f"{counted(self.displaced, 'answer')} not at the given offset left out" if self.displaced else None
        bare = f"{counted(self.bare, 'question')} without an answer dropped" if self.bare else None
        return [f"{self.split}: {what}" for what in (displaced, bare) if what]


class _Form(Exception):
    """(what is not as in SQuAD 1.1, what would be right) for one part of the file."""


def _items(node: Any, key: str) -> list[Any]:
    if not isinstance(node, dict) or not isinstance(node.get(key), list):
        raise _Form(f"no list '{key}'", FORM)
    return node[key]


def _text(node: Any, key: str) -> str:
    if not isinstance(node, dict) or not is_text(node.get(key)):
        raise _Form(f"no text '{key}'", FORM)
    return node[key]
