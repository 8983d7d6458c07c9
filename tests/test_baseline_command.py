"""`tune-cl baseline`: each setting's document and run file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.console import Console
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.trec_folder import write_trec_folder
from trainables.baselines.word_embeddings import best_threshold


@pytest.fixture(autouse=True)
def folders(console: Console) -> None:
    """`large` and `small`, whose test run lacks what is relevant to its first query."""
    data = tiny_data(queries={"train": 12, "dev": 12, "test": 12}, candidates=5, turns=1)
    write_trec_folder(data, console.folder / "large")
    write_folder(console.folder / "small", trec_files())


@pytest.mark.parametrize(("options", "points"), [("", None), ("--tune", 66)])
def test_the_document_of_each_setting(options: str, points: int | None, console: Console) -> None:
    found = console.document(f"baseline large sdm --output sdm.run {options}")
    assert (found["run_file"], found["split"], found["queries"]) == ("sdm.run", "test", 12)
    assert found["params"].keys() == {"tw", "ow", "uw", "k1", "b"}
    assert (found["chosen"] or {}).get("points") == points
    [run] = console.document("evaluate large/qrels.test.txt sdm.run")["runs"]
    assert found["metrics"] == pytest.approx(run["metrics"] | {"accuracy": run["metrics"]["p@1"]})
    shown = console.call(f"baseline large sdm {options}").out
    assert f"{found['metrics']['map']:.4f}" in shown and "written" not in shown


def test_pairs_are_classified_by_the_threshold_that_is_best_on_dev(console: Console) -> None:
    write_folder(console.folder / "sick", FORMS["sick"])
    found = console.document("baseline sick embedding --output sick.tsv")
    rows = [line.split("\t") for line in Path("sick.tsv").read_text().splitlines()[1:]]
    assert found["metrics"] == {"accuracy": np.mean([row[2] == row[3] for row in rows])}
    value = f"{found['chosen']['value']:.4f}"
    assert found["chosen"]["metric"] == "accuracy" and value in console.call("baseline sick embedding").out
    assert "classify" in console.errors("baseline sick bm25")[0]


def test_the_best_threshold() -> None:
    scores = np.array([0.5, 0.1, 0.9, 0.2, 0.9])
    threshold, sides = best_threshold(scores, np.array([1, 2, 0, 2, 0]), 3)
    assert threshold == pytest.approx(0.35) and sides.tolist() == [[0, 0, 2], [2, 1, 0]]
    assert best_threshold(scores, np.ones(5, int), 2)[0] == 0.1  # all are of one class


def test_the_oracle_ranks_by_grade(console: Console) -> None:
    found = console.document("baseline small oracle --output oracle.run.txt")
    others = [console.document(f"baseline small {name}")["metrics"] for name in ("bm25", "sdm")]
    assert all(found["metrics"][name] >= other[name] for other in others for name in other)
    judged = [line.split() for line in Path("small/qrels.test.txt").read_text().splitlines()]
    grades = {(query, document): int(grade) for query, _, document, grade in judged}
    rows = [line.split() for line in Path("oracle.run.txt").read_text().splitlines()]
    assert all(float(score) == max(0, grades.get((query, document), 0)) for query, _, document, _, score, _ in rows)
    assert found["params"] == {}
