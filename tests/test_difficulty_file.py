"""Scoring `file`: which value an instance gets, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.loading import load
from trainables.core.errors import ConfigError, DataError
from trainables.curriculum.scoring import difficulty
from trainables.data.columns import RankingData
from tune_cl.cli import main
from tune_cl.testing.data import scored_of


@pytest.fixture
def data(tmp_path: Path) -> RankingData:
    return load(write_folder(tmp_path / "data", trec_files(runs=False)))


def values(data: RankingData, path: Path, text: str, pairwise: bool = True, negatives: int | str = 1) -> list[float]:
    path.write_text(text)
    return difficulty("file", scored_of(data, pairwise, negatives, file=str(path)))[0].tolist()


BOTH = "train-a\td1\t3\ntrain-b\td2\t0.5\n"


def test_an_instance_has_the_value_of_its_relevant_document(data: RankingData, tmp_path: Path) -> None:
    assert values(data, tmp_path / "f", BOTH) == [3, 0.5]
    assert values(data, tmp_path / "f", BOTH, pairwise=False, negatives=1) == [3, 3, 0.5, 0.5], "drawn negatives too"
    assert values(data, tmp_path / "f", "other\td1\t9\n" + BOTH + BOTH + "train-a\t\t9\n") == [3, 0.5]


def test_each_candidate_and_each_pair_can_have_its_own(data: RankingData, tmp_path: Path) -> None:
    rest = "train-a\td2\t1\ntrain-a\td3\t2\ntrain-b\td1\t4\ntrain-b\td3\t5\n"
    assert sorted(values(data, tmp_path / "f", BOTH + rest, pairwise=False, negatives="all")) == [0.5, 1, 2, 3, 4, 5]
    pairs = "train-a\td1 d2\t7\ntrain-a\td2 d1\t9\n"
    assert sorted(values(data, tmp_path / "f", BOTH + pairs, negatives="all")) == [0.5, 0.5, 3, 7]


def test_pairs_name_texts(tmp_path: Path) -> None:
    data = load(write_folder(tmp_path / "data", FORMS["triples as CSV"]))
    assert values(data, tmp_path / "f", "train cat\tthe  cat sat\t1\ntrain dog\tthe dog ran\t2\n") == [1, 2]


def test_another_file_under_the_same_name_is_read_again(data: RankingData, tmp_path: Path) -> None:
    assert values(data, tmp_path / "f", BOTH) == [3, 0.5]
    assert values(data, tmp_path / "f", BOTH.replace("3", "4")) == [4, 0.5]


def test_what_has_no_value_is_named(data: RankingData, tmp_path: Path) -> None:
    wrong = "no value for 1 of 2 training instances: query 'train-b' with document 'd2'; give each a row"
    with pytest.raises(DataError, match=wrong):
        values(data, tmp_path / "f", "train-a\td1\t3\n")
    with pytest.raises(ConfigError, match="no file 'nowhere'"):
        difficulty("file", scored_of(data, file="nowhere"))


@pytest.mark.slow
def test_beir_and_trec_train_alike_by_the_values_that_score_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    dev = []
    for name, files in (("trec", trec_files(runs=False)), ("beir", FORMS["beir without runs"])):
        write_folder(tmp_path / name, files)
        assert main(["score", name, "bm25_std", "--output", "difficulty.tsv"]) == 0
        keys = ["curriculum.pacing=root", "curriculum.scoring=file", "curriculum.file=difficulty.tsv",
                "training.max_iterations=2", "ranker.vector_size=8"]  # fmt: skip
        options = [word for key in keys for word in ("--set", key)]
        capfd.readouterr()
        assert main(["train", "--data", name, "--ranker", "knrm", "--output", f"{name}-out", "--json", *options]) == 0
        dev.append(json.loads(capfd.readouterr().out))
    assert dev[0]["dev"] == dev[1]["dev"]
    assert np.isfinite(dev[0]["dev"]).all()
