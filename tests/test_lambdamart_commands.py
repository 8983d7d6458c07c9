"""LambdaMART through the commands, as a Ray trainable, and in a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.data_folders import trec_files, write_folder
from tests.support.letor_data import letor_data, letor_text
from tune_cl.cli import main
from tune_cl.experiment.load import load_experiment
from tune_cl.ray.shared_data import untrained
from tune_cl.search.phases import phases_of

SMALL = ["--set", "ranker.leaves=6", "--set", "ranker.min_data_in_leaf=5", "--set", "ranker.trees_per_iteration=4"]
KEYS: dict[str, Any] = {"name": "lambdamart", "leaves": 6, "min_data_in_leaf": 5, "trees_per_iteration": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data, made = letor_data(), tmp_path / "letor"
    made.mkdir()
    for split, name in {"train": "train.txt", "dev": "vali.txt", "test": "test.txt"}.items():
        (made / name).write_text(letor_text(data, split))
    return made


def output_of(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capfd.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def error_of(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    capfd.readouterr()
    assert main(list(arguments)) == 2
    return capfd.readouterr().err


def without_tag(run: Path) -> list[str]:
    return [line.rsplit(" ", 1)[0] for line in run.read_text().splitlines()]


def test_train_then_rerank(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, run = tmp_path / "out", tmp_path / "again.txt"
    settings = [*SMALL, "--set", "training.max_iterations=3", "--set", "metric=ndcg@10"]
    arguments = ["train", "--data", str(folder), "--ranker", "lambdamart", *settings, "--output", str(out), "--test"]
    document = output_of(capfd, *arguments)
    assert len(document["dev"]) == 3
    assert document["dev_best"] == max(document["dev"]) == document["dev"][document["best_iteration"] - 1]
    assert document["samples_per_second"] > 0 and document["test"]["ndcg@10"] > 0.5
    output_of(capfd, "rerank", document["checkpoint"], "--data", str(folder), "--output", str(run))
    assert without_tag(run) == without_tag(Path(document["run_file"]))
    assert output_of(capfd, *arguments)["dev"] == document["dev"]  # resumed at its end
    told = error_of(capfd, "rerank", document["checkpoint"], "--query", "x", "--documents", str(run))
    assert told == f"error: {document['checkpoint']}: lambdamart reads features, no texts; rerank(DATA)\n"
    told = error_of(
        capfd, "rerank", document["checkpoint"], "--data", str(write_folder(tmp_path / "texts", trec_files()))
    )
    assert "holds texts, no features" in told


def test_the_shipped_space_fits_any_letor_data(shared: Path) -> None:
    experiment = load_experiment("ferro2018", data=str(shared / "ltr" / "mq2008"))
    assert phases_of(experiment).trials == 17
    runs = [experiment.config(choice).run for choice in experiment.space.grid()]
    firsts = {(run.curriculum.subset, run.curriculum.objective_switch) for run in runs}
    assert len(firsts) == 4 and ("none", "none") not in firsts
    assert {run.curriculum.switch for run in runs} == {100, 200, 300, 400}
    assert len(untrained(experiment)) == 1
