"""Whether training labels look wrong, by what BM25 says of them and of dev's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import tiny_data
from tests.support.letor_data import letor_data
from trainables.data import load_data
from trainables.data.combine import drawn_queries
from trainables.data.label_check import MOST_QUERIES, LabelCheck, agreements, check_labels
from trainables.data.settings import DataConfig
from tune_cl.cli import main
from tune_cl.cli.commands import data as data_command

COUNTS = {"searches": 7, "better": 4, "worse": 1}


def check(folder: Path, **noise: Any) -> LabelCheck:
    config = DataConfig.model_validate({"source": str(folder), "label_noise": noise})
    found = check_labels(load_data(config), config, 1)
    assert found is not None
    return found


@given(st.integers(0, 50), st.integers(1, 3))
def test_agreement_is_the_share_of_pairs_in_the_right_order(seed: int, level: int) -> None:
    split = tiny_data(queries=5, candidates=6, seed=seed).splits["train"]
    rng = np.random.default_rng(seed)
    split.grade[:] = rng.integers(-1, 4, len(split.grade))
    scores = rng.integers(0, 4, len(split.grade)).astype(float)  # with ties
    expected = []
    for query in range(5):
        rows = slice(split.offsets[query], split.offsets[query + 1])
        good, bad = scores[rows][split.grade[rows] >= level], scores[rows][split.grade[rows] < level]
        if len(good) and len(bad):
            won = (good[:, None] > bad).sum() + (good[:, None] == bad).sum() / 2
            expected.append(won / (len(good) * len(bad)))
    assert agreements(split, scores, level) == pytest.approx(expected)


def test_the_share_of_exchanged_labels_lies_in_the_interval(shared: Path) -> None:
    clean, noisy = (check(shared / "answers" / "wikiqa", share=share) for share in (0, 0.5))
    assert clean.finding == "as dev" and noisy.finding == "wrong"
    assert noisy.ci95 is not None and noisy.ci95[0] < 0.5 < noisy.ci95[1]
    assert noisy.dev == clean.dev


def test_labels_that_follow_bm25_are_noticed(shared: Path) -> None:
    assert check(shared / "answers" / "wikiqa", share=0.5, kind="hard").finding == "lexical"


def test_data_without_texts_or_with_a_single_split_are_not_checked() -> None:
    assert check_labels(letor_data(), DataConfig(), 1) is None
    data = tiny_data()
    data.splits.pop("dev")
    assert check_labels(data, DataConfig(), 1) is None


def test_large_splits_are_sampled() -> None:
    split = tiny_data(queries=MOST_QUERIES + 3, candidates=2).splits["train"]
    assert len(drawn_queries(split, MOST_QUERIES, "test")) == MOST_QUERIES
    assert drawn_queries(split, len(split), "test") is split


@pytest.mark.parametrize(
    ("noise", "finding", "space"), [("0.5", "lexical", "noisy_labels"), ("0", "as dev", "quickstart")]
)
def test_the_command_names_the_space_to_try_and_what_the_studies_found(
    shared: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    noise: str, finding: str, space: str,
) -> None:  # fmt: skip
    source = str(shared / "answers" / "wikiqa")
    command = ["data", source, "--set", f"data.label_noise.share={noise}", "--set", "data.label_noise.kind=hard"]
    counts = tmp_path / "evidence.json"
    counts.write_text(json.dumps(json.loads(data_command.EVIDENCE.read_text()) | {finding: COUNTS}))
    monkeypatch.setattr(data_command, "EVIDENCE", counts)
    assert main([*command, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["label_check"]["finding"] == finding
    assert document["try_first"]["space"] == space and document["try_first"]["studies"].items() >= COUNTS.items()
    assert main(command) == 0
    shown = capfd.readouterr().out
    assert f"try first: {document['try_first']['command']}" in shown
    assert f"tune-cl run {space} --data {source}" in shown
    assert "in 4 of 7 searches, worse in 1)" in shown
