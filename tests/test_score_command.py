"""`tune-cl score`: the file and the examples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.data_folders import trec_files, write_folder
from trainables.data.instances import make_instances
from tune_cl.cli import main
from tune_cl.cli.commands.score import NOT_FIXED, SHOWN, extremes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "data", trec_files())


def score(folder: Path, *arguments: str) -> int:
    return main(["score", str(folder), *arguments])


def test_examples_and_values_as_json(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = ["--set", "training.negatives=all"]
    assert score(folder, "reciprocal_rank", *whole, "--output", str(tmp_path / "d.tsv"), "--json") == 0
    document = json.loads(capfd.readouterr().out)
    rows = [line.split("\t") for line in (tmp_path / "d.tsv").read_text().splitlines()]
    assert document["count"] == len(rows) > 1
    assert document["examples"]["easiest"][0]["value"] == min(float(row[2]) for row in rows)
    assert document["examples"]["hardest"][0]["value"] == max(float(row[2]) for row in rows)


def test_an_order_by_equal_values_is_said_to_be_none(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = ["--set", "training.negatives=all", "--output", str(tmp_path / "d.tsv")]
    for scoring, told in (("turns", True), ("random", False)):
        assert score(folder, scoring, *whole) == 0
        note = "note: all 2 instances have the same value: they would keep the order of the data"
        assert (note in capsys.readouterr().err) == told


@pytest.mark.parametrize(("scoring", "told"), [("self_paced", True), ("random", False)])
def test_the_order_that_self_paced_begins_with_is_said_to_be_no_difficulty(
    scoring: str, told: bool, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(folder, scoring, "--output", str(tmp_path / "d.tsv")) == 0
    note = "note: these values are the random order that self_paced begins with: it measures the ranker's own loss"
    assert (note in capsys.readouterr().err) == told


def test_the_console_shows_the_texts(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(folder, "turns", "--output", str(tmp_path / "d.tsv")) == 0
    shown = capsys.readouterr().out
    assert "easiest:" in shown and "hardest:" in shown
    assert "query: dog running" in shown and "relevant: the dog ran" in shown


def test_a_pair_is_written_with_its_relevant_document_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Query a wants d1 and b wants d2, each out of three judged documents."""
    folder = write_folder(tmp_path / "judged", trec_files(runs=False))
    output = tmp_path / "d.tsv"
    assert score(folder, "bm25_std", "--set", "training.negatives=all", "--output", str(output)) == 0
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    pairs = {(query, documents) for query, documents, _ in rows}
    assert pairs == {("train-a", "d1 d2"), ("train-a", "d1 d3"), ("train-b", "d2 d1"), ("train-b", "d2 d3")}
    value = float(rows[0][2])
    assert f"  {value:.4g}  {rows[0][0]}\n" in capsys.readouterr().out and f"{value:.4g}" != f"{value:.3g}"


def test_texts_of_examples_are_cut(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = trec_files()
    files["queries.train.tsv"] = "train-a\tcat\ntrain-b\t" + "word " * 100 + "\n"
    output = ["--output", str(tmp_path / "d.tsv"), "--json"]
    assert score(write_folder(tmp_path / "long", files), "turns", *output) == 0
    shown = [one["query"] for part in json.loads(capfd.readouterr().out)["examples"].values() for one in part]
    longest = max(shown, key=len)
    assert longest.endswith(" ...") and 295 < len(longest) <= 300


def test_examples_are_of_different_queries() -> None:
    data = tiny_data(6, 5)
    split = data.splits["train"]
    instances = make_instances(split, True, "all", 1)
    values = np.arange(len(instances), dtype=np.float64)
    found = extremes(data, split, instances, values)
    for examples in found.values():
        assert len({example.query_id for example in examples}) == SHOWN
    assert found["easiest"][0].value == 0 and found["hardest"][0].value == len(instances) - 1


def test_a_negative_that_is_drawn_anew_has_no_document(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pointwise = ["--set", "training.loss=pointwise", "--output", str(tmp_path / "d.tsv"), "--json"]
    assert score(folder, "kde", *pointwise) == 0
    documents = [line.split("\t")[1] for line in (tmp_path / "d.tsv").read_text().splitlines()]
    assert len(documents) == 2 * sum(map(bool, documents)) == 2 * len(set(documents) - {""})
    shown = [one for part in json.loads(capfd.readouterr().out)["examples"].values() for one in part]
    drawn = [one for one in shown if one["label"] == "other"]
    assert drawn and {one["document"] for one in drawn} == {NOT_FIXED}
