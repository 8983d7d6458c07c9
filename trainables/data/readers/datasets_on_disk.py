"""Pairs and triples that the datasets library has saved (`DatasetDict.save_to_disk`), read without the library."""

from __future__ import annotations

import json
from pathlib import Path

from trainables.core.errors import Problem
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.judgments import scores_file
from trainables.data.readers.pair_reading import read_pairs
from trainables.data.readers.pair_tables import ArrowTable
from trainables.data.readers.pairs import SPLIT_NAMES
from trainables.data.readers.rows import read_whole
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
DICT, STATE = "dataset_dict.json", "state.json"
SAVED = "DatasetDict({'train': ..., 'validation': ..., 'test': ...}).save_to_disk(FOLDER)"


def recognises(folder: Path) -> bool:
    """By the file that lists the splits, or that of a single dataset."""
    return (folder / DICT).exists() or (folder / STATE).exists()


def _splits(folder: Path) -> dict[str, list[Path]]:
    """The folders of the splits that are there."""
    return {
        split: [path for name in SPLIT_NAMES[split] if (path := folder / name / STATE).exists()] for split in SPLITS
    }


def files(folder: Path) -> list[Path]:
    """Besides the Arrow files those that name them; of a split whose files cannot be told, only that."""
    found = [folder / DICT]
    for states in _splits(folder).values():
        for state in states:
            found += [state, *_arrow_files(state, [])]
    return [path for path in (*found, *(scores_file(folder, split) for split in SPLITS)) if path.exists()]


def _arrow_files(state: Path, problems: list[Problem]) -> list[Path]:
    """The files of a split in the order that its state.json gives."""
    text = read_whole(state, problems)
    if text is None:
        return []
    try:
        names = [entry["filename"] for entry in json.loads(text)["_data_files"]]
        if names and all(isinstance(name, str) and Path(name).name == name for name in names):
            return [state.parent / name for name in names]
    except (ValueError, KeyError, TypeError, RecursionError):
        names = []
    problems.append(Problem(str(state), "names no Arrow files beside it", f"save the data again: {SAVED}"))
    return []


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Rows as in a folder of pairs. Raises DataError with the problems of all files."""
    problems: list[Problem] = []
    tables = {}
    for split, states in _splits(folder).items():
        if len(states) > 1:
            names = " and ".join(state.parent.name for state in states)
            problems.append(Problem(str(folder), f"{names} are all the {split} split", "keep one folder a split"))
        if states and (paths := _arrow_files(states[0], problems)):
            tables[split] = ArrowTable(paths, problems)
    if not tables and not problems:
        problems.append(Problem(str(folder), "no folder train, validation or test", f"save splits: {SAVED}"))
    return read_pairs(folder, tables, config, workspace, problems)
