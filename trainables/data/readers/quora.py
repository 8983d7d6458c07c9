"""Quora question pairs: quora_duplicate_questions.tsv as published, or the splits of Wang et al. 2017."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.rows import Lines, Rows, plain_or_gz, usable_id
from trainables.data.readers.sentence_pairs import DUPLICATE, Pair, classification, require_auto, wrong_pair
from trainables.data.settings import DataConfig

TASK: Task = "classification"
WHOLE = "quora_duplicate_questions.tsv"
COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
SPLIT_COLUMNS = ("LABEL", "QUESTION", "QUESTION", "ID")
HELD_OUT = 0.1  # share of the pairs in dev, and the same in test


def recognises(folder: Path) -> bool:
    return any(plain_or_gz(folder, name).exists() for name in (WHOLE, "dev.tsv"))


def files(folder: Path) -> list[Path]:
    """The files that `read` reads: the splits if dev.tsv exists, else the whole file."""
    names = [f"{split}.tsv" for split in SPLITS] if plain_or_gz(folder, "dev.tsv").exists() else [WHOLE]
    return [path for name in names if (path := plain_or_gz(folder, name)).exists()]


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Pairs with the classes different and duplicate. The whole file is split 80/10/10 with a fixed seed.

    Pairs with an empty question (the published file has some) are dropped with a note.
    Raises DataError with the problems of all files.
    """
    require_auto(config)
    problems: list[Problem] = []
    notes: list[str] = []
    if plain_or_gz(folder, "dev.tsv").exists():
        splits = {
            path.name.partition(".")[0]: _read_split(Rows(path, SPLIT_COLUMNS, "\t", problems), notes)
            for path in files(folder)
        }
    else:
        splits = _parted(_read_whole(Lines(plain_or_gz(folder, WHOLE), " TAB ".join(COLUMNS), problems), notes))
        notes.append("train, dev, test: 80, 10, 10 % of the pairs, drawn with a fixed seed")
    if problems:
        raise DataError(problems)
    return classification(folder.name, splits, DUPLICATE, notes)


def _read_split(rows: Rows, notes: list[str]) -> list[Pair]:
    pairs: dict[str, Pair | None] = {}
    for number, (label, first, second, name) in rows:
        _add(rows, number, (name, first, second, label), pairs)
    return _complete(rows, pairs, notes, fewest=1)


def _read_whole(lines: Lines, notes: list[str]) -> list[Pair]:
    """Fields may be quoted, and a quoted question may hold line ends."""
    pairs: dict[str, Pair | None] = {}
    place = [0]
    rows = csv.reader(_counted(lines, place), delimiter="\t")
    header = True
    try:
        for fields in rows:
            if header:
                header = False
                if tuple(fields) != COLUMNS:
                    lines.problem(place[0], "not the Quora header", lines.form)
            elif len(fields) != len(COLUMNS):
                lines.problem(place[0], f"{len(fields)} columns instead of {len(COLUMNS)}", lines.form)
            else:
                _add(lines, place[0], (fields[0], fields[3], fields[4], fields[5]), pairs)
    except csv.Error as error:
        lines.problem(place[0], f"quotation marks or fields that cannot be read ({error})", lines.form)
    return _complete(lines, pairs, notes, fewest=len(SPLITS))


def _complete(lines: Lines, pairs: dict[str, Pair | None], notes: list[str], fewest: int) -> list[Pair]:
    """The pairs that have both questions; the number of the others becomes a note."""
    complete = [pair for pair in pairs.values() if pair is not None]
    if len(complete) < fewest and not lines.problems:
        lines.file_problem(f"{len(complete)} pairs with two questions", f"give {fewest} or more")
    if len(complete) < len(pairs):
        notes.append(f"{lines.path.name}: {counted(len(pairs) - len(complete), 'pair')} with an empty question dropped")
    return complete


def _counted(lines: Lines, place: list[int]) -> Iterator[str]:
    """Lines with their line ends; `place` holds the number of the latest."""
    for place[0], line in lines:
        yield line + "\n"


def _add(lines: Lines, number: int, fields: tuple[str, str, str, str], pairs: dict[str, Pair | None]) -> None:
    """Adds a pair (id, question, question, label), as None if it lacks a question."""
    name, first, second, label = fields
    empty = not first.strip() or not second.strip()
    wrong = None if empty and usable_id(name) else wrong_pair(name, first, second)
    if name in pairs:
        wrong = (f"pair '{name[:40]}' a second time", "keep one row a pair")
    elif label not in ("0", "1"):
        wrong = (f"label '{label[:40]}'", "write 0 or 1")
    if wrong:
        lines.problem(number, *wrong)
    else:
        pair = Pair(name, " ".join(first.split()), " ".join(second.split()), int(label))
        pairs[name] = None if empty else pair


def _parted(pairs: list[Pair]) -> dict[str, list[Pair]]:
    order = generator(0, "quora splits").permutation(len(pairs)).tolist()
    held = max(1, round(HELD_OUT * len(pairs)))
    places = {"train": order[2 * held :], "dev": order[:held], "test": order[held : 2 * held]}
    return {split: [pairs[place] for place in sorted(mine)] for split, mine in places.items()}
