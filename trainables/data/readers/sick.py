"""SICK (Marelli et al. 2014): SICK.txt as its authors publish it, or the three files of SemEval 2014 task 1."""

from __future__ import annotations

from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.rows import Rows, plain_or_gz
from trainables.data.readers.sentence_pairs import NLI, Pair, classification, require_auto, wrong_pair
from trainables.data.settings import DataConfig

TASK: Task = "classification"
FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
WHOLE = "SICK.txt"
WHOLE_COLUMNS = (
    *("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score", "entailment_AB"),
    *("entailment_BA", "sentence_A_original", "sentence_B_original", "sentence_A_dataset", "sentence_B_dataset"),
    "SemEval_set",
)
SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}  # names of the splits in SICK.txt -> ours


def recognises(folder: Path) -> bool:
    return bool(files(folder))


def files(folder: Path) -> list[Path]:
    """The files that `read` reads: those of SemEval if there is any, else SICK.txt."""
    found = [path for name in FILES.values() if (path := plain_or_gz(folder, name)).exists()]
    return found or [path for path in [plain_or_gz(folder, WHOLE)] if path.exists()]


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """Pairs with the entailment label as class; trial is dev. The relatedness score is not read.

    Raises DataError with the problems of all files.
    """
    require_auto(config)
    problems: list[Problem] = []
    splits: dict[str, list[Pair]] = {}
    for split, name in FILES.items():
        if (path := plain_or_gz(folder, name)).exists():
            splits |= _read_pairs(Rows(path, COLUMNS, "\t", problems), split)
    if not splits and not problems:
        splits = _read_pairs(Rows(plain_or_gz(folder, WHOLE), WHOLE_COLUMNS, "\t", problems), None)
    if problems:
        raise DataError(problems)
    return classification(folder.name, splits, NLI, ())


def _read_pairs(rows: Rows, split: str | None) -> dict[str, list[Pair]]:
    """The pairs of a file by split. `split`: the split of all pairs; None: a column gives each pair's."""
    label_at = rows.columns.index("entailment_label" if split is None else "entailment_judgment")
    found: dict[str, list[Pair]] = {name: [] for name in (SPLITS if split is None else (split,))}
    known: set[str] = set()
    header = True
    for number, fields in rows:
        if header:
            header = False
            if tuple(fields) != rows.columns:
                rows.problem(number, "not the SICK header", " TAB ".join(rows.columns))
            continue
        name, first, second = fields[:3]
        judgment, place = fields[label_at].lower(), split or SETS.get(fields[-1])
        wrong = wrong_pair(name, first, second)
        if name in known:
            wrong = (f"pair '{name}' a second time", "keep one row a pair")
        elif judgment not in NLI:
            wrong = (f"judgment '{fields[label_at][:40]}'", f"write {', '.join(NLI)} in capitals")
        elif place is None:
            wrong = (f"SemEval_set '{fields[-1][:40]}'", f"write {', '.join(SETS)}")
        if wrong:
            rows.problem(number, *wrong)
        elif place:
            known.add(name)
            found[place].append(Pair(name, first, second, NLI.index(judgment)))
    if not known and not rows.problems:
        rows.file_problem("no pairs", "give rows behind the header")
    return {name: pairs for name, pairs in found.items() if pairs}
