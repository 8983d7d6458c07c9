"""`tune-cl data`: counts, what splits share, examples, shortened texts, and doubts."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.console import Console
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.loading import load
from trainables.baselines.doubts import doubts
from trainables.data.clusters import cluster_notes, query_clusters
from trainables.data.columns import RankingData
from trainables.data.combine import some_queries


def graded_files() -> dict[str, str]:
    """In dev, a query of four candidates, one of them unjudged, and one whose only candidate is not relevant."""
    files = trec_files()
    files["qrels.dev.txt"] = "dev-a 0 d1 1\ndev-a 0 d2 0\ndev-a 0 d4 2\ndev-a 0 gone 3\ndev-b 0 d3 0\n"
    ranked = "".join(f"dev-a Q0 {name} 1 {score} x\n" for name, score in (("d2", 4), ("d1", 3), ("d4", 2), ("d3", 1)))
    return files | {"run.dev.txt": f"{ranked}dev-b Q0 d3 1 1 x\n"}


def write(files: dict[str, str]) -> None:
    shutil.rmtree("mine", ignore_errors=True)
    write_folder(Path("mine"), files)


def found(files: dict[str, str], console: Console) -> dict[str, Any]:
    write(files)
    return console.document("data mine")


def in_common(files: dict[str, str], console: Console) -> dict[str, tuple[int, int, int]]:
    """Queries, documents and document texts that two splits share."""
    return {
        " ".join(pair["splits"]): (pair["queries"], pair["documents"], pair["document_texts"])
        for pair in found(files, console)["shared"]
    }


def test_counts_of_a_split(console: Console) -> None:
    told = found(graded_files(), console)
    assert told["splits"]["dev"] == {
        "queries": 2, "candidates": 5, "group_sizes": {"min": 1, "median": 2.5, "mean": 2.5, "max": 4},
        "judged_share": pytest.approx(4 / 5), "positives_per_query": 1.5, "queries_without_positive": 1,
        "positives_not_candidates": 1,
    }  # fmt: skip
    assert told["splits"]["train"]["positives_not_candidates"] == 1


def test_classes_are_counted_with_those_that_a_split_lacks(console: Console) -> None:
    files = dict(FORMS["sick"])
    files["SICK_trial.txt"] = "".join(
        line for line in files["SICK_trial.txt"].splitlines(True) if "NEUTRAL" not in line
    )
    told = found(files, console)
    assert told["splits"]["dev"]["classes"] == {"contradiction": 1, "entailment": 1, "neutral": 0}
    pairs = [(pair["grade"], pair["label"]) for one in told["examples"]["test"] for pair in one["candidates"]]
    assert pairs == [(2, "neutral"), (1, "entailment")]


def test_shared_texts_differ_in_case_and_space_alone(console: Console) -> None:
    files = trec_files()
    files["queries.dev.tsv"] = "dev-a\tCat\ndev-b\tdog  running\n"
    files["queries.test.tsv"] = "test-a\tcats\ntest-b\tbird\n"
    assert in_common(files, console) == {"train dev": (2, 3, 3), "train test": (0, 3, 3), "dev test": (0, 3, 3)}


# -- doubts ---------------------------------------------------------------------------------------------------------


WIKIQA = "answers/wikiqa"


def doubted(data: RankingData, level: int = 1) -> str:
    return " ".join(doubts(data, level))


@pytest.mark.parametrize(("folder", "level"), [(WIKIQA, 1), ("conversation/dailydialogpp", 1), ("trec/mediqa", 3)])
def test_data_as_published_is_not_doubted(folder: str, level: int, shared: Path) -> None:
    assert doubted(load(shared / folder), level) == ""


def test_semeval_s_threads_of_a_question_count_as_one(tmp_path: Path) -> None:
    ids = {"test-a": "Q1_R2", "test-b": "Q1_R7", "dev-a": "Q2_R2"}
    renamed = {name: re.sub("|".join(ids), lambda found: ids[found[0]], text) for name, text in FORMS["trec"].items()}
    data = load(write_folder(tmp_path / "data", renamed))
    assert query_clusters(data, "test", None) == {"Q1_R2": 0, "Q1_R7": 0}
    assert query_clusters(data, "dev", None) is query_clusters(data, "test", "none") is None
    assert "2 test queries as 1" in cluster_notes(data, None)[0]
    assert load(write_folder(tmp_path / "other", FORMS["trec"])).group is None


def test_dev_queries_that_are_training_queries_are_doubted(shared: Path) -> None:
    data = load(shared / WIKIQA)
    same = data.splits | {"dev": replace(data.splits["train"])}
    told = doubted(replace(data, splits=same))
    assert f"{len(data.splits['train'])} of" in told and "dev" in told and "training queries" in told


def test_few_test_queries_are_told(shared: Path) -> None:
    data = load(shared / WIKIQA)
    tests = {count: some_queries(data.splits["test"], np.arange(count)) for count in (1, 13, 50)}
    of = {count: replace(data, splits={"test": split}) for count, split in tests.items()}
    assert "13 queries" in doubted(of[13])
    assert "1 query" in doubted(of[1]) and doubted(of[50]) == ""
    assert "test" in doubted(replace(data, splits={"train": data.splits["train"]}))
