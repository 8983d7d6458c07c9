"""SNLI (Bowman et al. 2015) as its authors publish it: snli_1.0_{train,dev,test}.jsonl, or .txt with a header."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.rows import Lines, is_text, plain_or_gz
from trainables.data.readers.sentence_pairs import NLI, Pair, classification, require_auto, wrong_pair
from trainables.data.settings import DataConfig

TASK: Task = "classification"
NEEDED = ("gold_label", "sentence1", "sentence2", "pairID")
NO_GOLD = "-"  # the annotators did not agree


def recognises(folder: Path) -> bool:
    return bool(files(folder))


def files(folder: Path) -> list[Path]:
    """The files that `read` reads: for each split the .jsonl, or else the .txt."""
    return [path for split in SPLITS if (path := _path(folder, split)).exists()]


def _path(folder: Path, split: str) -> Path:
    structured = plain_or_gz(folder, f"snli_1.0_{split}.jsonl")
    return structured if structured.exists() else plain_or_gz(folder, f"snli_1.0_{split}.txt")


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Pairs with the gold label as class; pairs without one are dropped, as in the published results.

    Raises DataError with the problems of all files.
    """
    require_auto(config)
    problems: list[Problem] = []
    notes: list[str] = []
    splits = {}
    for split in SPLITS:
        path = _path(folder, split)
        if path.exists():
            form = f"JSON with {', '.join(NEEDED)}" if ".jsonl" in path.suffixes else " TAB ".join(NEEDED)
            splits[split] = _read_pairs(split, Lines(path, form, problems), notes)
    if problems:
        raise DataError(problems)
    return classification(folder.name, splits, NLI, notes)


def _read_pairs(split: str, lines: Lines, notes: list[str]) -> list[Pair]:
    pairs: dict[str, Pair] = {}
    dropped = 0
    structured = ".jsonl" in lines.path.suffixes
    for number, (label, first, second, name) in _json_rows(lines) if structured else _table_rows(lines):
        wrong = wrong_pair(name, first, second)
        if name in pairs:
            wrong = (f"pair '{name}' a second time", "keep one row a pair")
        elif label not in (*NLI, NO_GOLD):
            wrong = (f"gold label '{label[:40]}'", f"write {', '.join(NLI)} or {NO_GOLD}")
        if wrong:
            lines.problem(number, *wrong)
        elif label == NO_GOLD:
            dropped += 1
        else:
            pairs[name] = Pair(name, first, second, NLI.index(label))
    if dropped:
        notes.append(f"{split}: {counted(dropped, 'pair')} without a gold label dropped")
    if not pairs and not lines.problems:
        lines.file_problem("no pairs with a gold label", f"each row is {lines.form}")
    return list(pairs.values())


def _json_rows(lines: Lines) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        fields = [row.get(key) for key in NEEDED] if isinstance(row, dict) else []
        texts = [field for field in fields if is_text(field)]
        if len(texts) == len(NEEDED):
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
            if not set(NEEDED) <= set(header):
                lines.problem(number, "not the SNLI header", f"columns {', '.join(NEEDED)} among others")
                return
        elif len(fields) != len(header):
            lines.problem(number, f"{len(fields)} columns instead of {len(header)}", "as many as the header names")
        else:
            yield number, [fields[header.index(key)] for key in NEEDED]
