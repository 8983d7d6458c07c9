"""`tune-cl score`: its document and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.console import Console
from tests.support.data_folders import trec_files, write_folder

ALL = "--set training.negatives=all"


def score(console: Console, files: dict[str, str], options: str) -> tuple[dict[str, Any], list[list[str]]]:
    """The command's document, and the cells of its file."""
    write_folder(Path("data"), files)
    told = console.document(f"score data {options} --output d.tsv")
    return told, [line.split("\t") for line in Path("d.tsv").read_text().splitlines()]


def test_its_document_and_file_hold_the_values_of_all_instances(console: Console) -> None:
    told, rows = score(console, trec_files(), f"reciprocal_rank {ALL}")
    values = [float(value) for *_, value in rows]
    assert told["count"] == len(rows) > 1 and told["output"] == "d.tsv"
    assert (told["min"], told["max"], told["mean"]) == (min(values), max(values), pytest.approx(np.mean(values)))


def test_difficulties_are_cached(console: Console) -> None:
    files = trec_files(runs=False) | {"queries.train.tsv": "train-a\tcached cat\ntrain-b\tdog\n"}
    assert [score(console, files, "response_words")[0]["cached"] for _ in range(2)] == [False, True]


@pytest.mark.parametrize(("scoring", "word"), [("turns", "same value"), ("random", "")])
def test_values_that_give_no_order_are_noted(scoring: str, word: str, console: Console) -> None:
    write_folder(Path("data"), trec_files(runs=False))
    notes = [note for note in console.notes(f"score data {scoring} {ALL}") if "candidates" not in note]
    assert len(notes) == bool(word) and all(word in note for note in notes)


def test_a_pair_is_written_with_its_relevant_document_first(console: Console) -> None:
    """Query a wants d1 and b wants d2, each out of three judged documents."""
    _, rows = score(console, trec_files(runs=False), f"bm25_std {ALL}")
    pairs = {(query, documents) for query, documents, _ in rows}
    assert pairs == {("train-a", "d1 d2"), ("train-a", "d1 d3"), ("train-b", "d2 d1"), ("train-b", "d2 d3")}


def test_a_negative_that_is_drawn_anew_has_no_document(console: Console) -> None:
    _, rows = score(console, trec_files(), "kde --set training.loss=pointwise")
    documents = [name for _, name, _ in rows]
    assert len(documents) == 2 * sum(map(bool, documents)) == 2 * len(set(documents) - {""})
