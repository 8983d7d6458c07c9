"""Made-up sentence pairs to classify, in SICK's form: a word of the second sentence tells the class."""

from __future__ import annotations

from pathlib import Path

from tests.support.data_folders import write_folder
from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.settings import DataConfig

TELLTALE = {"CONTRADICTION": "nothing", "ENTAILMENT": "indeed", "NEUTRAL": "perhaps"}
FILES = {"SICK_train.txt": 60, "SICK_trial.txt": 24, "SICK_test_annotated.txt": 24}
HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def pair_folder(folder: Path, seed: int = 0) -> Path:
    """A folder of 60, 24 and 24 pairs, the three classes in turn."""
    random, files, number = generator(seed, "pairs"), {}, 0
    for name, count in FILES.items():
        rows = []
        for _ in range(count):
            judgment = list(TELLTALE)[number % 3]
            number += 1
            first, second = (
                [f"w{word}" for word in random.integers(0, 20, size)] for size in random.integers(2, 8, 2).tolist()
            )
            second.insert(0, TELLTALE[judgment])
            rows.append(f"{number}\t{' '.join(first)}\t{' '.join(second)}\t3.0\t{judgment}\n")
        files[name] = HEADER + "".join(rows)
    return write_folder(folder, files)


def load_pairs(folder: Path) -> RankingData:
    return load_data(DataConfig(source=str(pair_folder(folder))))
