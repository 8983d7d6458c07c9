"""Sentence pairs to classify (SICK, SNLI, Quora): sentence A = query, sentence B = its one candidate, class = grade."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.data.columns import ONE_DOMAIN, SPLITS, RankingData, Split, Task, TextColumn
from trainables.data.readers.files import existing
from trainables.data.readers.pairs import is_table
from trainables.data.readers.rows import Lines, Repeats, Rows, is_text, usable_id
from trainables.data.readers.tables import JsonTable, TsvTable
from trainables.data.settings import DataConfig

NLI = ("contradiction", "entailment", "neutral")
DUPLICATE = ("different", "duplicate")
DROPPED = -1  # class of pairs that are read, and dropped


@dataclass(frozen=True)
class Pair:
    """One pair; `label` indexes the classes."""

    name: str
    first: str
    second: str
    label: int
    split: str


@dataclass
class PairReader:
    """A form of sentence pairs.

    find        the files of a folder that are read, by split; none: the folder has another form
    read_pairs  (files by split, problems, notes) -> pairs; appends to both lists
    classes     names of the classes, by label
    """

    find: Callable[[Path], Mapping[str, Path]]
    read_pairs: Callable[[Mapping[str, Path], list[Problem], list[str]], list[Pair]]
    classes: tuple[str, ...]
    TASK: Task = "classification"

    def recognises(self, folder: Path) -> bool:
        return bool(self.find(folder))

    def files(self, folder: Path) -> list[Path]:
        return list(self.find(folder).values())

    def read(self, folder: Path, config: DataConfig, workspace: Path) -> RankingData:
        """Data without a digest. Raises DataError with the problems of all files."""
        if config.candidates != "auto":
            raise DataError(Problem("data.candidates", "a pair's second sentence is its one candidate", "set auto"))
        problems: list[Problem] = []
        notes: list[str] = []
        pairs = self.read_pairs(self.find(folder), problems, notes)
        if problems:
            raise DataError(problems)
        return _classification(folder.name, pairs, self.classes, notes)


def _classification(name: str, pairs: Sequence[Pair], classes: tuple[str, ...], notes: Sequence[str]) -> RankingData:
    """Data without a digest. A document is a distinct second sentence; there is no first-stage ranking."""
    pairs = sorted(pairs, key=lambda pair: SPLITS.index(pair.split))
    rows: dict[str, int] = {}
    documents = np.array([rows.setdefault(pair.second, len(rows)) for pair in pairs])
    labels, splits = np.array([pair.label for pair in pairs]), np.array([pair.split for pair in pairs])
    columns = {}
    for split in dict.fromkeys(splits.tolist()):
        chosen = np.flatnonzero(splits == split)
        columns[split] = Split.listed(int(chosen[0]), np.ones(len(chosen), int), documents[chosen], labels[chosen])
    return RankingData(
        name=name,
        digest="",
        document_ids=TextColumn.of(f"s{number}" for number in range(1, len(rows) + 1)),
        documents=TextColumn.of(rows),
        query_ids=TextColumn.of(pair.name for pair in pairs),
        utterances=TextColumn.of(pair.first for pair in pairs),
        utterance_offsets=np.arange(len(pairs) + 1, dtype=np.int64),
        domain=np.zeros(len(pairs), np.int16),
        domains=ONE_DOMAIN,
        splits=columns,
        notes=tuple(notes),
        task="classification",
        classes=classes,
    )


@dataclass(frozen=True)
class _Labels:
    """The labels of a form: their classes, what one is called, and what would be right."""

    classes: Mapping[str, int]
    name: str
    right: str


Row = tuple[int, str, str, str, str, str]  # line, id, sentences, label, name of a split


def _pairs(
    lines: Lines, rows: Iterable[Row], labels: _Labels, notes: list[str], sets: Mapping[str, str], empty: bool = False
) -> tuple[list[Pair], int]:
    """(the pairs of a file, each id once; how many are dropped). `sets`: the splits by their names; `empty`: pairs may
    lack a sentence, and are then dropped."""
    pairs: dict[str, tuple[int, Pair]] = {}
    repeats = Repeats(lines, notes)
    for number, name, first, second, label, place in rows:
        if label not in labels.classes:
            lines.problem(number, f"{labels.name} '{label[:40]}'", labels.right)
        elif place not in sets:
            lines.problem(number, f"SemEval_set '{place[:40]}'", f"write {', '.join(sets)}")
        elif not usable_id(name):
            lines.problem(number, f"id '{name[:40]}' is empty or holds white space", "use an id without")
        elif not (empty or (first.strip() and second.strip())):
            lines.problem(number, "an empty sentence", "give a text or leave the row out")
        else:
            pair = Pair(name, first, second, labels.classes[label], sets[place])
            line, earlier = pairs.setdefault(name, (number, pair))
            if earlier is not pair:
                wrong = f"pair '{name[:40]}' has other sentences or another label in"
                repeats.add(number, line, None if earlier == pair else wrong)
    repeats.note()
    kept = [pair for _, pair in pairs.values() if pair.first and pair.second and pair.label != DROPPED]
    return kept, len(pairs) - len(kept)


SICK_FILES = {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}
SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
SICK_WHOLE = "SICK.txt"
SICK_WHOLE_COLUMNS = (
    *("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score", "entailment_AB"),
    *("entailment_BA", "sentence_A_original", "sentence_B_original", "sentence_A_dataset", "sentence_B_dataset"),
    "SemEval_set",
)
SICK_SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}  # names of the splits in SICK.txt
_SICK_LABELS = _Labels(
    {case(name): row for row, name in enumerate(NLI) for case in (str.upper, str.lower, str.capitalize)},
    "judgment",
    f"write {', '.join(NLI)} in capitals",
)


def _sick_files(folder: Path) -> dict[str, Path]:
    """Those of SemEval 2014 task 1 if there is any, else SICK.txt as its authors publish it."""
    return existing(folder, SICK_FILES) or existing(folder, {"": (SICK_WHOLE,)})


def _read_sick(files: Mapping[str, Path], problems: list[Problem], notes: list[str]) -> list[Pair]:
    """Pairs with the entailment label as class; trial is dev. The relatedness score is not read. In the whole file a
    column gives each pair's split."""
    pairs = []
    for split, path in files.items():
        rows = Rows(path, SICK_COLUMNS if split else SICK_WHOLE_COLUMNS, "\t", problems, header="SICK header")
        fields = ((number, *row[:3], row[4 if split else 3], split or row[-1]) for number, row in rows)
        usable, _ = _pairs(rows, fields, _SICK_LABELS, notes, {split: split} if split else SICK_SETS)  # type: ignore[arg-type]
        if not usable and not problems:
            rows.file_problem("no pairs", "give rows behind the header")
        pairs += usable
    return pairs


SNLI_KEYS = ("gold_label", "sentence1", "sentence2", "pairID")
NO_GOLD = "-"  # the annotators did not agree
_SNLI_LABELS = _Labels(
    {**{name: row for row, name in enumerate(NLI)}, NO_GOLD: DROPPED},
    "gold label",
    f"write {', '.join(NLI)} or {NO_GOLD}",
)


def _snli_files(folder: Path) -> dict[str, Path]:
    """For each split the .jsonl, or else the .txt, as their authors publish them."""
    return existing(folder, {split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt") for split in SPLITS})


def _read_snli(files: Mapping[str, Path], problems: list[Problem], notes: list[str]) -> list[Pair]:
    """Pairs with the gold label as class; pairs without one are dropped, as in the published results."""
    pairs = []
    for split, path in files.items():
        if ".jsonl" in path.suffixes:
            table = JsonTable(path, problems, SNLI_KEYS)
        else:
            table = TsvTable(path, problems, SNLI_KEYS)
        usable, dropped = _pairs(table, _snli_rows(table, split), _SNLI_LABELS, notes, {split: split})
        if dropped:
            notes.append(f"{split}: {counted(dropped, 'pair')} without a gold label dropped")
        if not usable and not problems:
            table.file_problem("no pairs with a gold label", f"each row is {table.form}")
        pairs += usable
    return pairs


def _snli_rows(table: JsonTable | TsvTable, split: str) -> Iterator[Row]:
    if isinstance(table, TsvTable) and not set(SNLI_KEYS) <= set(names := table.names() or ()):
        for number, _ in islice(table.records(), 1 if names else 0):
            table.problem(number, "not the SNLI header", f"columns {', '.join(SNLI_KEYS)} among others")
        return
    for number, values in table.rows(SNLI_KEYS):
        if all(map(is_text, values)):
            label, first, second, name = values
            yield number, name, first, second, label, split
        else:
            table.problem(number, "not a JSON object with the texts of a pair", f"each row is {table.form}")


QUORA_WHOLE = "quora_duplicate_questions.tsv"
QUORA_COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
QUORA_SPLIT_COLUMNS = ("LABEL", "QUESTION", "QUESTION", "ID")
HELD_OUT = 0.1  # share of the pairs in dev, and the same in test
_QUORA_LABELS = _Labels({"0": 0, "1": 1}, "label", "write 0 or 1")


def _quora_files(folder: Path) -> dict[str, Path]:
    """The splits of Wang et al. 2017 if dev.tsv exists, else the whole file as published."""
    given = existing(folder, {split: (f"{split}.tsv",) for split in SPLITS})
    of_two_questions = "dev" in given and not any(map(is_table, given.values()))
    return given if of_two_questions else existing(folder, {"": (QUORA_WHOLE,)})


def _read_quora(files: Mapping[str, Path], problems: list[Problem], notes: list[str]) -> list[Pair]:
    """Pairs with the classes different and duplicate. The whole file is split 80/10/10 with a fixed seed.

    Pairs with an empty question (the published file has some) are dropped with a note.
    """
    pairs = []
    for split, path in files.items():
        rows = Rows(path, QUORA_SPLIT_COLUMNS if split else QUORA_COLUMNS, "\t", problems)
        usable, dropped = _pairs(rows, _quora_rows(rows, split), _QUORA_LABELS, notes, {split: split}, empty=True)
        if len(usable) < (fewest := 1 if split else len(SPLITS)) and not problems:
            rows.file_problem(f"{len(usable)} pairs with two questions", f"give {fewest} or more")
        if dropped:
            notes.append(f"{path.name}: {counted(dropped, 'pair')} with an empty question dropped")
        pairs += usable if split else _drawn_splits(usable, notes)
    return pairs


def _quora_rows(rows: Rows, split: str) -> Iterator[Row]:
    """Fields of the whole file may be quoted."""
    for at, (number, fields) in enumerate(rows if split else rows.unquoted("\t", strict=False)):
        if not split and at == 0:
            if tuple(fields) != QUORA_COLUMNS:
                rows.problem(number, "not the Quora header", rows.form)
        elif len(fields) != len(rows.columns):
            rows.problem(number, f"{len(fields)} columns instead of {len(rows.columns)}", rows.form)
        else:
            label, first, second, name = fields if split else (fields[5], *fields[3:5], fields[0])
            yield number, name, " ".join(first.split()), " ".join(second.split()), label, split


def _drawn_splits(pairs: Sequence[Pair], notes: list[str]) -> list[Pair]:
    notes.append("train, dev, test: 80, 10, 10 % of the pairs, drawn with a fixed seed")
    order = generator(0, "quora splits").permutation(len(pairs)).tolist()
    size = max(1, round(HELD_OUT * len(pairs)))
    held_out = dict.fromkeys(order[:size], "dev") | dict.fromkeys(order[size : 2 * size], "test")
    return [replace(pair, split=held_out.get(row, "train")) for row, pair in enumerate(pairs)]


SICK = PairReader(_sick_files, _read_sick, NLI)
SNLI = PairReader(_snli_files, _read_snli, NLI)
QUORA = PairReader(_quora_files, _read_quora, DUPLICATE)
