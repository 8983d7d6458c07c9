"""SICK (Marelli et al. 2014) as of SemEval 2014 task 1: SICK_train.txt, SICK_trial.txt, SICK_test_annotated.txt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainables.data.columns import RankingData
from trainables.data.readers.rows import Rows, plain_or_gz
from trainables.data.readers.sentence_pairs import NLI, Pair, classification, require_auto, wrong_pair
from trainables.errors import DataError, Problem

if TYPE_CHECKING:
    from trainables.config import DataConfig

FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def recognises(folder: Path) -> bool:
    return bool(files(folder))


def files(folder: Path) -> list[Path]:
    """The files that `read` reads."""
    return [path for name in FILES.values() if (path := plain_or_gz(folder, name)).exists()]


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Pairs with the entailment label as class; trial is dev. The relatedness score is not read.

    Raises DataError with the problems of all files.
    """
    require_auto(config)
    problems: list[Problem] = []
    splits = {
        split: _read_pairs(Rows(path, COLUMNS, "\t", problems))
        for split, name in FILES.items()
        if (path := plain_or_gz(folder, name)).exists()
    }
    if problems:
        raise DataError(problems)
    return classification(folder.name, splits, NLI, ())


def _read_pairs(rows: Rows) -> list[Pair]:
    pairs: dict[str, Pair] = {}
    header = True
    for number, fields in rows:
        if header:
            header = False
            if tuple(fields) != COLUMNS:
                rows.problem(number, "not the SICK header", " TAB ".join(COLUMNS))
            continue
        name, first, second, _, judgment = fields
        wrong = wrong_pair(name, first, second)
        if name in pairs:
            wrong = (f"pair '{name}' a second time", "keep one row a pair")
        elif judgment.lower() not in NLI:
            wrong = (f"judgment '{judgment[:40]}'", f"write {', '.join(NLI)} in capitals")
        if wrong:
            rows.problem(number, *wrong)
        else:
            pairs[name] = Pair(name, first, second, NLI.index(judgment.lower()))
    if not pairs and not rows.problems:
        rows.file_problem("no pairs", "give rows behind the header")
    return list(pairs.values())
