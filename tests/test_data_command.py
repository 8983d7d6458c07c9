"""What `tune-cl data` shows: counts under their own names, the best and the worst of two examples, shortened texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.data_folders import (
    conversation_files,
    letor_files,
    sick_files,
    trec_files,
    wikiqa_files,
    write_folder,
)
from tests.support.loading import load
from tune_cl.cli import main


@pytest.fixture(autouse=True)
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def graded_files() -> dict[str, str]:
    """In dev, a query of four candidates, one of them unjudged, and one whose only candidate is not relevant."""
    files = trec_files()
    files["qrels.dev.txt"] = "dev-a 0 d1 1\ndev-a 0 d2 0\ndev-a 0 d4 2\ndev-b 0 d3 0\n"
    ranked = "".join(f"dev-a Q0 {name} 1 {score} x\n" for name, score in (("d2", 4), ("d1", 3), ("d4", 2), ("d3", 1)))
    return files | {"run.dev.txt": f"{ranked}dev-b Q0 d3 1 1 x\n"}


def document_of(files: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["data", str(write_folder(tmp_path / "mine", files)), "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def shown(files: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["data", str(write_folder(tmp_path / "mine", files))]) == 0
    return capfd.readouterr().out.splitlines()


def cells(lines: list[str]) -> dict[str, list[str]]:
    """The tables' rows, by their first cell."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return {first: rest for first, *rest in rows if rest}


def test_what_identifies_the_data_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = document_of(letor_files(), tmp_path, capfd)
    data = load(tmp_path / "mine")
    assert (found["documents"], found["features"], found["digest"]) == (9, 4, data.digest)
    assert found["domains"] == list(data.domains) == ["all"]
    assert shown(letor_files(), tmp_path, capfd)[0] == "mine: ranking, 9 documents, 4 features"
    assert shown(trec_files(), tmp_path / "texts", capfd)[0] == "mine: ranking, 4 documents"


def test_an_example_has_its_best_and_its_worst_candidate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = document_of(graded_files(), tmp_path, capfd)["examples"]["dev"]
    assert (first["query"], second["query"]) == ("dev-a", "dev-b")
    assert first["candidates"] == [
        {"document": "d4", "grade": 2, "text": "a cat and a dog"},
        {"document": "d3", "grade": -1, "text": "a bird flew"},
    ]
    assert [one["document"] for one in second["candidates"]] == ["d3"]


def test_a_row_holds_what_its_name_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = cells(shown(graded_files(), tmp_path, capfd))
    in_dev = {
        "queries": "2",
        "candidates": "5",
        "candidates a query": "1 to 4, mean 2.5",
        "judged candidates": "80.0%",
        "relevant a query": "1.00",
        "queries without relevant": "1",
        "relevant, not candidates": "0",
    }
    assert {name: rows[name][1] for name in in_dev} == in_dev
    assert rows["relevant, not candidates"] == ["1", "0", "1"]


def test_what_splits_share_is_told_of_queries_documents_and_texts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = cells(shown(wikiqa_files(), tmp_path, capfd))
    assert rows["shared by"] == ["queries", "documents", "document texts"] and rows["train and dev"] == ["2", "0", "3"]
    alone = {name: text for name, text in graded_files().items() if ".dev." not in name and ".test." not in name}
    assert "shared by" not in cells(shown(alone, tmp_path / "alone", capfd))


def test_pairs_are_counted_under_their_classes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = sick_files()
    files["SICK_train.txt"] = files["SICK_train.txt"].replace("NEUTRAL", "CONTRADICTION")
    rows = cells(shown(files, tmp_path, capfd))
    assert rows["split"] == ["pairs", "contradiction", "entailment", "neutral"]
    assert rows["train"] == ["3", "2", "1", "0"] and rows["dev"] == ["3", "1", "1", "1"]


def test_an_example_of_pairs_names_its_class(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = document_of(sick_files(), tmp_path, capfd)["examples"]["dev"]
    assert [(pair["grade"], pair["class"]) for one in found for pair in one["candidates"]] == [
        (2, "neutral"),
        (1, "entailment"),
    ]
    lines = shown(sick_files(), tmp_path / "again", capfd)
    assert [line.split()[0] for line in lines if line.startswith("  ")][-6:] == 3 * ["neutral", "entailment"]


def test_of_a_conversation_the_last_turn_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = shown(conversation_files(), tmp_path, capfd)
    assert "dev dev-1: valid where is the cat ?" in lines
    assert "dev dev-2 (2 turns, the last shown): who ran ?" in lines


def test_a_long_text_is_cut_to_a_hundred_characters(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = trec_files()
    files["collection.tsv"] = f"d1\tone\nd2\t{'x' * 101}\nd3\tthree\nd4\tfour   {'y' * 95}\n"
    lines = shown(files, tmp_path, capfd)
    assert f"   1  d2: {'x' * 99}…" in lines and f"  -1  d4: four {'y' * 95}" in lines
