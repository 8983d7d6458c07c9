"""Rows of pairs, triples or lists as the datasets library saves them: DatasetDict.save_to_disk, or a single Dataset.
Read without the library."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from trainables.core.errors import DataError, Problem
from trainables.data.files import SPLIT_NAMES, parsed_json, whole_text
from trainables.data.forms import Form
from trainables.data.forms.pairs import pairs_tables
from trainables.data.tables import Reading, Tables

DICT, STATE = "dataset_dict.json", "state.json"
SAVED = "DatasetDict({'train': ..., 'validation': ..., 'test': ...}).save_to_disk(FOLDER)"


def files(folder: Path) -> list[Path]:
    """Besides the Arrow files those that name them; of a split whose files cannot be told, only that."""
    paths = [folder / DICT]
    for state in _states(folder).values():
        try:
            paths += [state, *_arrow_files(state)]
        except DataError:  # reading says what is wrong
            paths.append(state)
    return [path for path in paths if path.exists()]


def read(folder: Path, reading: Reading) -> Tables:
    frames = {split: pd.concat([reading.rows(path) for path in _arrow_files(state)])
              for split, state in _states(folder).items()}  # fmt: skip
    if not frames:
        raise DataError(Problem(str(folder), "no folder train, validation or test", f"save splits: {SAVED}"))
    return pairs_tables(frames, reading)


def _states(folder: Path) -> dict[str, Path]:
    """The files that describe the splits that are there, of each the first; of a single dataset, as training data."""
    if (folder / STATE).exists():
        return {"train": folder / STATE}
    if not (folder / DICT).exists():
        return {}
    states = {split: [folder / name / STATE for name in names] for split, names in SPLIT_NAMES.items()}
    existing = {split: [path for path in paths if path.exists()] for split, paths in states.items()}
    return {split: paths[0] for split, paths in existing.items() if paths}


def _arrow_files(state: Path) -> list[Path]:
    """The files of a split in the order that its state.json gives."""
    try:
        names = [entry["filename"] for entry in parsed_json(whole_text(state))["_data_files"]]
        if names and all(Path(name).name == name for name in names):
            return [state.parent / name for name in names]
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(Problem(str(state), "names no Arrow files beside it", f"save the data again: {SAVED}"))


FORM = Form(files, read)
