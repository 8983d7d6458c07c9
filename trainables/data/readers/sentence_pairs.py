"""Sentence pairs to classify (SICK, SNLI, Quora): sentence A = query, sentence B = its one candidate, class = grade."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.data.columns import NO_RANK, ONE_DOMAIN, SPLITS, RankingData, Split, Task, TextColumn
from trainables.data.readers.left_out import Repeats
from trainables.data.readers.pairs import is_table
from trainables.data.readers.rows import Lines, Rows, is_text, plain_or_packed, usable_id
from trainables.data.settings import DataConfig

NLI = ("contradiction", "entailment", "neutral")
DUPLICATE = ("different", "duplicate")


@dataclass(frozen=True)
class Pair:
    """One pair; `label` indexes the classes."""

    name: str
    first: str
    second: str
    label: int


Splits = dict[str, list[Pair]]


@dataclass
class PairReader:
    """A form of sentence pairs.

    find        the files of a folder that are read, in a fixed order; none: the folder has another form
    read_pairs  (folder, problems, notes) -> pairs by split; appends to both lists
    classes     names of the classes, by label
    """

    find: Callable[[Path], list[Path]]
    read_pairs: Callable[[Path, list[Problem], list[str]], Splits]
    classes: tuple[str, ...]
    TASK: Task = "classification"

    def recognises(self, folder: Path) -> bool:
        return bool(self.files(folder))

    def files(self, folder: Path) -> list[Path]:
        return self.find(folder)

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        """Data without a digest. Raises DataError with the problems of all files."""
        if config.candidates != "auto":
            raise DataError(Problem("data.candidates", "a pair's second sentence is its one candidate", "set auto"))
        problems: list[Problem] = []
        notes: list[str] = []
        splits = self.read_pairs(folder, problems, notes)
        if problems:
            raise DataError(problems)
        return classification(folder.name, splits, self.classes, notes)


def classification(
    name: str, splits: Mapping[str, Sequence[Pair]], classes: tuple[str, ...], notes: Sequence[str]
) -> RankingData:
    """Data without a digest. A document is a distinct second sentence; there is no first-stage ranking."""
    rows: dict[str, int] = {}
    columns, start = {}, 0
    for split, pairs in splits.items():
        documents = [rows.setdefault(pair.second, len(rows)) for pair in pairs]
        columns[split] = _split(start, documents, [pair.label for pair in pairs])
        start += len(pairs)
    everything = [pair for pairs in splits.values() for pair in pairs]
    return RankingData(
        name=name,
        digest="",
        document_ids=TextColumn.of(f"s{number}" for number in range(1, len(rows) + 1)),
        documents=TextColumn.of(rows),
        query_ids=TextColumn.of(pair.name for pair in everything),
        utterances=TextColumn.of(pair.first for pair in everything),
        utterance_offsets=np.arange(start + 1, dtype=np.int64),
        domain=np.zeros(start, np.int16),
        domains=ONE_DOMAIN,
        splits=columns,
        notes=tuple(notes),
        task="classification",
        classes=classes,
    )


def _split(start: int, documents: list[int], labels: list[int]) -> Split:
    count = len(documents)
    offsets = np.arange(count + 1, dtype=np.int64)
    grade = np.array(labels, np.int16)
    return Split(
        query=np.arange(start, start + count, dtype=np.int32),
        offsets=offsets,
        document=np.array(documents, np.int32),
        grade=grade,
        rank=np.full(count, NO_RANK, np.int32),
        score=np.full(count, np.nan),
        judged_grade=grade,
        judged_offsets=offsets,
    )


def _existing(folder: Path, names: Mapping[str, str]) -> dict[str, Path]:
    """The files that are there, by split."""
    return {split: path for split, name in names.items() if (path := plain_or_packed(folder, name)).exists()}


Wrong = tuple[str, str]  # what is wrong, what would be right


def _wrong_pair(name: str, sentences: tuple[str, ...], wrong_label: Wrong | None) -> Wrong | None:
    """What is wrong with a row; None if it is fine."""
    if wrong_label:
        return wrong_label
    if not usable_id(name):
        return f"id '{name[:40]}' is empty or holds white space", "use an id without"
    if not all(sentence.strip() for sentence in sentences):
        return "an empty sentence", "give a text or leave the row out"
    return None


class _Named(Repeats):
    """The pairs of a file by their ids."""

    def __init__(self, lines: Lines, notes: list[str]):
        super().__init__(lines, notes)
        self._first: dict[str, tuple[int, object]] = {}

    def is_new(self, number: int, name: str, content: object) -> bool:
        """Whether no row before this one has the id. A row that has and says something else is a problem."""
        first, known = self._first.setdefault(name, (number, content))
        if first == number:
            return True
        self.add(
            number, first, None if known == content else f"pair '{name[:40]}' has other sentences or another label in"
        )
        return False


SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
SICK_WHOLE = "SICK.txt"
SICK_WHOLE_COLUMNS = (
    *("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score", "entailment_AB"),
    *("entailment_BA", "sentence_A_original", "sentence_B_original", "sentence_A_dataset", "sentence_B_dataset"),
    "SemEval_set",
)
SICK_SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}  # names of the splits in SICK.txt


def _sick_files(folder: Path) -> list[Path]:
    """Those of SemEval 2014 task 1 if there is any, else SICK.txt as its authors publish it."""
    return list((_existing(folder, SICK_FILES) or _existing(folder, {"": SICK_WHOLE})).values())


def _read_sick(folder: Path, problems: list[Problem], notes: list[str]) -> Splits:
    """Pairs with the entailment label as class; trial is dev. The relatedness score is not read."""
    splits: Splits = {}
    if not (paths := _existing(folder, SICK_FILES)):
        return _read_sick_file(
            Rows(plain_or_packed(folder, SICK_WHOLE), SICK_WHOLE_COLUMNS, "\t", problems), None, notes
        )
    for split, path in paths.items():
        splits |= _read_sick_file(Rows(path, SICK_COLUMNS, "\t", problems), split, notes)
    return splits


def _read_sick_file(rows: Rows, split: str | None, notes: list[str]) -> Splits:
    """The pairs of a file by split. `split`: the split of all pairs; None: a column gives each pair's."""
    label_column = rows.columns.index("entailment_label" if split is None else "entailment_judgment")
    splits: Splits = {name: [] for name in (SPLITS if split is None else (split,))}
    named = _Named(rows, notes)
    header = True
    for number, fields in rows:
        if header:
            header = False
            if tuple(fields) != rows.columns:
                rows.problem(number, "not the SICK header", " TAB ".join(rows.columns))
            continue
        name, first, second = fields[:3]
        label, pair_split = fields[label_column].lower(), split or SICK_SETS.get(fields[-1], "")
        wrong_label = None
        if label not in NLI:
            wrong_label = f"judgment '{fields[label_column][:40]}'", f"write {', '.join(NLI)} in capitals"
        elif not pair_split:
            wrong_label = f"SemEval_set '{fields[-1][:40]}'", f"write {', '.join(SICK_SETS)}"
        if wrong := _wrong_pair(name, (first, second), wrong_label):
            rows.problem(number, *wrong)
        elif named.is_new(number, name, (first, second, label, pair_split)):
            splits[pair_split].append(Pair(name, first, second, NLI.index(label)))
    named.note()
    if not any(splits.values()) and not rows.problems:
        rows.file_problem("no pairs", "give rows behind the header")
    return {name: pairs for name, pairs in splits.items() if pairs}


SNLI_KEYS = ("gold_label", "sentence1", "sentence2", "pairID")
NO_GOLD = "-"  # the annotators did not agree


def _snli_files(folder: Path) -> list[Path]:
    """For each split the .jsonl, or else the .txt, as their authors publish them."""
    tables = _existing(folder, {split: f"snli_1.0_{split}.txt" for split in SPLITS})
    structured = _existing(folder, {split: f"snli_1.0_{split}.jsonl" for split in SPLITS})
    return [(tables | structured)[split] for split in SPLITS if split in tables | structured]


def _read_snli(folder: Path, problems: list[Problem], notes: list[str]) -> Splits:
    """Pairs with the gold label as class; pairs without one are dropped, as in the published results."""
    splits = {}
    for path in _snli_files(folder):
        split = path.name.removeprefix("snli_1.0_").partition(".")[0]
        splits[split] = _read_snli_file(split, path, problems, notes)
    return splits


def _read_snli_file(split: str, path: Path, problems: list[Problem], notes: list[str]) -> list[Pair]:
    structured = ".jsonl" in path.suffixes
    lines = Lines(path, f"JSON with {', '.join(SNLI_KEYS)}" if structured else " TAB ".join(SNLI_KEYS), problems)
    named, pairs = _Named(lines, notes), []
    dropped = 0
    for number, (label, first, second, name) in _json_rows(lines) if structured else _table_rows(lines):
        unknown = f"gold label '{label[:40]}'", f"write {', '.join(NLI)} or {NO_GOLD}"
        wrong_label = None if label in (*NLI, NO_GOLD) else unknown
        if wrong := _wrong_pair(name, (first, second), wrong_label):
            lines.problem(number, *wrong)
        elif named.is_new(number, name, (first, second, label)):
            dropped += label == NO_GOLD
            if label != NO_GOLD:
                pairs.append(Pair(name, first, second, NLI.index(label)))
    named.note()
    if dropped:
        notes.append(f"{split}: {counted(dropped, 'pair')} without a gold label dropped")
    if not pairs and not lines.problems:
        lines.file_problem("no pairs with a gold label", f"each row is {lines.form}")
    return pairs


def _json_rows(lines: Lines) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        fields = [row.get(key) for key in SNLI_KEYS] if isinstance(row, dict) else []
        texts = [field for field in fields if is_text(field)]
        if len(texts) == len(SNLI_KEYS):
            yield number, texts
        else:
            lines.problem(number, "not a JSON object with the texts of a pair", f"each row is {lines.form}")


def _table_rows(lines: Lines) -> Iterator[tuple[int, list[str]]]:
    """Rows of the .txt form, whose header names the columns."""
    header: list[str] = []
    for number, line in lines:
        fields = line.split("\t")
        if not header:
            header = fields
            if not set(SNLI_KEYS) <= set(header):
                lines.problem(number, "not the SNLI header", f"columns {', '.join(SNLI_KEYS)} among others")
                return
        elif len(fields) != len(header):
            lines.problem(number, f"{len(fields)} columns instead of {len(header)}", "as many as the header names")
        else:
            yield number, [fields[header.index(key)] for key in SNLI_KEYS]


QUORA_WHOLE = "quora_duplicate_questions.tsv"
QUORA_COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
QUORA_SPLIT_COLUMNS = ("LABEL", "QUESTION", "QUESTION", "ID")
HELD_OUT = 0.1  # share of the pairs in dev, and the same in test


def _quora_files(folder: Path) -> list[Path]:
    """The splits of Wang et al. 2017 if dev.tsv exists, else the whole file as published."""
    given = _existing(folder, {split: f"{split}.tsv" for split in SPLITS})
    of_two_questions = "dev" in given and not any(map(is_table, given.values()))
    return list((given if of_two_questions else _existing(folder, {"": QUORA_WHOLE})).values())


def _read_quora(folder: Path, problems: list[Problem], notes: list[str]) -> Splits:
    """Pairs with the classes different and duplicate. The whole file is split 80/10/10 with a fixed seed.

    Pairs with an empty question (the published file has some) are dropped with a note.
    """
    paths = _quora_files(folder)
    if not paths[0].name.startswith(QUORA_WHOLE):
        return {path.name.partition(".")[0]: _read_quora_split(path, problems, notes) for path in paths}
    pairs = _read_quora_whole(Lines(paths[0], " TAB ".join(QUORA_COLUMNS), problems), notes)
    notes.append("train, dev, test: 80, 10, 10 % of the pairs, drawn with a fixed seed")
    order = generator(0, "quora splits").permutation(len(pairs)).tolist()
    size = max(1, round(HELD_OUT * len(pairs)))
    rows = {"train": order[2 * size :], "dev": order[:size], "test": order[size : 2 * size]}
    return {split: [pairs[row] for row in sorted(rows[split])] for split in SPLITS}


def _read_quora_split(path: Path, problems: list[Problem], notes: list[str]) -> list[Pair]:
    rows = Rows(path, QUORA_SPLIT_COLUMNS, "\t", problems)
    named = _Named(rows, notes)
    pairs: list[Pair | None] = []
    for number, (label, first, second, name) in rows:
        _add_questions(named, number, (name, first, second, label), pairs)
    return _complete(named, pairs, fewest=1)


def _read_quora_whole(lines: Lines, notes: list[str]) -> list[Pair]:
    """Fields may be quoted, and a quoted question may hold line ends."""
    named, number = _Named(lines, notes), 0
    pairs: list[Pair | None] = []

    def raw_lines() -> Iterator[str]:
        nonlocal number
        for at, line in lines:
            number = at
            yield line + "\n"

    try:
        for row, fields in enumerate(csv.reader(raw_lines(), delimiter="\t")):
            if row == 0:
                if tuple(fields) != QUORA_COLUMNS:
                    lines.problem(number, "not the Quora header", lines.form)
            elif len(fields) != len(QUORA_COLUMNS):
                lines.problem(number, f"{len(fields)} columns instead of {len(QUORA_COLUMNS)}", lines.form)
            else:
                _add_questions(named, number, (fields[0], fields[3], fields[4], fields[5]), pairs)
    except csv.Error as error:
        lines.problem(number, f"quotation marks or fields that cannot be read ({error})", lines.form)
    return _complete(named, pairs, fewest=len(SPLITS))


def _add_questions(named: _Named, number: int, fields: tuple[str, str, str, str], pairs: list[Pair | None]) -> None:
    """Adds a pair (id, question, question, label), as None if it lacks a question."""
    name, first, second, label = fields
    complete = bool(first.strip() and second.strip())
    wrong_label = None if label in ("0", "1") else (f"label '{label[:40]}'", "write 0 or 1")
    if wrong := _wrong_pair(name, (), wrong_label):  # empty questions are dropped, and no problem
        named.lines.problem(number, *wrong)
        return
    pair = Pair(name, " ".join(first.split()), " ".join(second.split()), int(label))
    if named.is_new(number, name, pair):
        pairs.append(pair if complete else None)


def _complete(named: _Named, pairs: list[Pair | None], fewest: int) -> list[Pair]:
    """The pairs that have both questions; the number of the others becomes a note."""
    named.note()
    complete, lines = [pair for pair in pairs if pair is not None], named.lines
    if len(complete) < fewest and not lines.problems:
        lines.file_problem(f"{len(complete)} pairs with two questions", f"give {fewest} or more")
    if len(complete) < len(pairs):
        named.notes.append(
            f"{lines.path.name}: {counted(len(pairs) - len(complete), 'pair')} with an empty question dropped"
        )
    return complete


SICK = PairReader(_sick_files, _read_sick, NLI)
SNLI = PairReader(_snli_files, _read_snli, NLI)
QUORA = PairReader(_quora_files, _read_quora, DUPLICATE)
