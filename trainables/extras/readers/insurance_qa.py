"""InsuranceQA (Feng et al. 2015) as its authors publish it, versions 1 and 2: words by index, answers by label."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.core.randomness import generator
from trainables.data.columns import RankingData, Rated, Task, TextColumn
from trainables.data.readers.assembly import Raw, RawSplit, assemble
from trainables.data.readers.rows import Rows, plain_or_packed, usable_id
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
VOCABULARY = "vocabulary"
_POOLED = re.compile(
    r"InsuranceQA\.question\.anslabel\.token\.([0-9]{1,6})\.pool\.solr\.(train|valid|test)\.encoded(\.gz)?"
)
_SPLITS = {"train": "train", "valid": "dev", "test": "test"}


@dataclass(frozen=True)
class _File:
    """A file with the questions of one split; `columns` gives the order of its fields."""

    split: str
    name: str
    columns: tuple[str, ...]


V1 = (
    _File("train", "question.train.token_idx.label", ("QUESTION", "ANSWERS")),
    _File("dev", "question.dev.label.token_idx.pool", ("ANSWERS", "QUESTION", "POOL")),
    _File("test", "question.test1.label.token_idx.pool", ("ANSWERS", "QUESTION", "POOL")),
    _File("test", "question.test2.label.token_idx.pool", ("ANSWERS", "QUESTION", "POOL")),
)
V1_ANSWERS = "answers.label.token_idx"
V2_ANSWERS = "InsuranceQA.label2answer.token.encoded"
V2_COLUMNS = ("DOMAIN", "QUESTION", "ANSWERS", "POOL")


def recognises(folder: Path) -> bool:
    return any(plain_or_packed(folder, name).exists() for name in (V1_ANSWERS, V2_ANSWERS))


def files(folder: Path) -> list[Path]:
    """The files that `read` may read: with pools of several sizes, the files of all sizes."""
    names = [VOCABULARY, V1_ANSWERS, V2_ANSWERS, *(file.name for file in V1)]
    pools = sorted(path for path in folder.iterdir() if _POOLED.fullmatch(path.name))
    return [path for name in names if (path := plain_or_packed(folder, name)).exists()] + pools


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Question = query, answer = document; right answers have grade 1, other answers of the question's pool grade 0.

    Version 2 gives pools of 100 to 1,500 answers found by Solr: the smallest that holds `data.top_k` is read, else
    the largest. Version 1 gives pools of 500 for dev and test1 (the test split; test2 in a folder without test1); its
    training pools are the right answers and others drawn with a fixed seed, `data.top_k` in all. A right answer
    that is not in the pool counts as not retrieved, but in training it is added to the pool.
    Raises DataError with every problem of vocabulary and answers, then of the questions.
    """
    problems: list[Problem] = []
    first = plain_or_packed(folder, V1_ANSWERS).exists()
    if first and plain_or_packed(folder, V2_ANSWERS).exists():
        raise DataError(Problem(str(folder), "versions 1 and 2 of InsuranceQA", "keep one version a folder"))
    words = _read_words(Rows(plain_or_packed(folder, VOCABULARY), ("INDEX", "WORD"), "\t", problems))
    answers_file = plain_or_packed(folder, V1_ANSWERS if first else V2_ANSWERS)
    answers = _read_answers(Rows(answers_file, ("LABEL", "ANSWER"), "\t", problems), words)
    sources = _first_of_splits(folder) if first else _pools(folder, config.depth())
    if not sources:
        problems.append(Problem(str(folder), "no questions", "give the files with the questions' answers and pools"))
    if problems:
        raise DataError(problems)
    reader = _Questions(words, {label: row for row, label in enumerate(answers)}, config.depth("train"))
    splits = {
        file.split: reader.split(file, Rows(plain_or_packed(folder, file.name), file.columns, "\t", problems))
        for file in sources
    }
    if problems:
        raise DataError(problems)
    return assemble(Raw(folder.name, TextColumn.of(answers), TextColumn.of(answers.values()), splits), config)


def _first_of_splits(folder: Path) -> list[_File]:
    """The first question file of each split that there is, in version 1."""
    found = {file.split: file for file in reversed(V1) if plain_or_packed(folder, file.name).exists()}
    return list(reversed(found.values()))


def _pools(folder: Path, top_k: int) -> list[_File]:
    """The question files of one pool size."""
    pools = [match for path in folder.iterdir() if (match := _POOLED.fullmatch(path.name))]
    sizes = sorted({int(match[1]) for match in pools})
    if not sizes:
        return []
    size = next((size for size in sizes if size >= top_k), sizes[-1])
    names = {match[2]: match[0].removesuffix(".gz") for match in pools if int(match[1]) == size}
    return [_File(split, names[name], V2_COLUMNS) for name, split in _SPLITS.items() if name in names]


def _read_words(rows: Rows) -> dict[str, str]:
    words: dict[str, str] = {}
    for number, (index, word) in rows:
        if index in words:
            rows.problem(number, f"index '{index}' a second time", "keep one row an index")
        words[index] = word.strip()
    return words


def _read_answers(rows: Rows, words: dict[str, str]) -> dict[str, str]:
    """Answer texts by label, in the order of the file."""
    answers: dict[str, str] = {}
    for number, (label, encoded) in rows:
        if not usable_id(label) or label in answers:
            wrong = f"label '{label}' is empty, holds white space or stands here a second time"
            rows.problem(number, wrong, "keep one row a label")
        answers[label] = _text(rows, number, encoded, words)
    return answers


def _text(rows: Rows, number: int, encoded: str, words: dict[str, str]) -> str:
    """The words of a text. The first index that is not in the vocabulary is a problem; so is a text without words."""
    indices = encoded.split()
    unknown = next((index for index in indices if index not in words), None)
    if unknown is not None:
        rows.problem(number, f"'{unknown}' is not in the vocabulary", "add it there, or give the right vocabulary")
        return ""
    text = " ".join(words[index] for index in indices)
    if not text.strip():
        rows.problem(number, "an empty text", "give a text or leave the row out")
    return text


@dataclass(frozen=True)
class _Questions:
    """Reads question files. `labels`: row of each answer; `top_k`: size of a drawn pool."""

    words: dict[str, str]
    labels: dict[str, int]
    top_k: int

    def split(self, file: _File, rows: Rows) -> RawSplit:
        """The questions of one file with their judged answers and pools; notes the problems of its rows."""
        texts: list[tuple[str, ...]] = []
        judged: list[tuple[int, int, float]] = []
        pooled: list[tuple[int, int, float]] = []
        for number, fields in rows:
            column = dict(zip(file.columns, fields, strict=True))
            right = self._rows_of(rows, number, column["ANSWERS"])
            if not right:
                rows.problem(number, "no right answer", "give the labels of the right answers")
            pool: Iterable[int] = (
                self._rows_of(rows, number, column["POOL"]) if "POOL" in column else self._drawn(right, number)
            )
            if file.split == "train":
                pool = dict.fromkeys([*right, *pool])
            query = len(texts)
            texts.append((_text(rows, number, column["QUESTION"], self.words),))
            judged += [(query, row, float(row in right)) for row in dict.fromkeys([*right, *pool])]
            pooled += [(query, row, 0.0) for row in pool]
        ids = [f"{file.split}-{number}" for number in range(1, len(texts) + 1)]
        return RawSplit(ids, texts, Rated.of(judged), pool=Rated.of(pooled))

    def _rows_of(self, rows: Rows, number: int, labels: str) -> dict[int, None]:
        """Rows of the answers with these labels, each once."""
        wrong = next((label for label in labels.split() if label not in self.labels), None)
        if wrong is not None:
            rows.problem(number, f"there is no answer '{wrong}'", "add it to the answers or drop its label")
        return {self.labels[label]: None for label in labels.split() if label in self.labels}

    def _drawn(self, right: dict[int, None], number: int) -> list[int]:
        """Answers drawn for the question in line `number`: as many as fill its pool together with the right ones."""
        wanted = max(0, min(self.top_k, len(self.labels)) - len(right))
        order = generator(0, "insurance pool", number).choice(len(self.labels), wanted + len(right), replace=False)
        return [row for row in order.tolist() if row not in right][:wanted]
