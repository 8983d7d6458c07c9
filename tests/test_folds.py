"""Searches over the folds of a LETOR collection, and the verdict over all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

import tune_cl
from tests.support.confirm_documents import made_verdict, opponent_of, row_of, run_of
from tests.support.letor_data import letor_data, letor_text
from tests.support.terminal import result
from tests.support.tracking_cases import fresh_database
from trainables.core.errors import ConfigError, WorkFailed
from trainables.evaluation.trec_files import write_per_query
from tune_cl import run_search
from tune_cl.api.folds import FoldSearches, searches_of_folds
from tune_cl.cli import command_of, main
from tune_cl.confirmation.folds import joined
from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import Fair, VerdictFacts
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.results import SearchResult

VALUES = {  # per-query values of each fold: plain, then the curriculum
    "Fold1": ([0.1, 0.5, 0.4], [0.4, 0.6, 0.5]),
    "Fold2": ([0.3, 0.2, 0.7, 0.9, 0.1], [0.2, 0.6, 0.7, 1.0, 0.3]),
}


def of_fold(folder: Path, fold: str, label: str) -> VerdictFacts:
    """What `confirm` says of one fold whose seed changes nothing."""
    rows = []
    for name, values in zip(("plain", "curriculum"), VALUES[fold], strict=True):
        place = folder / fold / name
        place.mkdir(parents=True, exist_ok=True)
        write_per_query(place / "test.per_query.tsv", [f"q{i}" for i in range(len(values))], {"map": np.array(values)})
        runs = (run_of(1, run_file=str(place / "test.run.txt")),)
        rows.append({"runs": runs, "mean": float(np.mean(values)), "params": {"curriculum.n": label, "seed": 1}})
    plain = replace(opponent_of("champion", seed_matters=False), **rows[0])
    row = replace(row_of(0.1, 0.1, seed_matters=False, label=label, opponents=(plain,)), **rows[1])
    fair = Fair(False, (), {"plain": 1, "curriculum": 1})
    return made_verdict(row, search=f"toy-{fold}", fair=fair)


def test_the_queries_of_all_folds_are_tested_together(tmp_path: Path) -> None:
    verdicts = [of_fold(tmp_path, fold, label) for fold, label in (("Fold1", "n=2"), ("Fold2", "n=5"))]
    verdict = joined("toy", verdicts)
    document = verdict.document
    [row] = document["configurations"]
    plain, curriculum = (np.concatenate([VALUES[fold][arm] for fold in VALUES]) for arm in (0, 1))
    assert row["p_new"] == pytest.approx(ttest_rel(curriculum, plain).pvalue) and document["queries"] == 8
    assert row["mean"] == pytest.approx(curriculum.mean()) and document["baseline"]["mean"] == pytest.approx(
        plain.mean()
    )
    assert row["folds"] == [pytest.approx(0.5), pytest.approx(0.56)]
    low, high = row["ci95_new"]
    assert 1 < document["detectable"] / ((high - low) / 2) < 2, "with the degrees of freedom of the queries"
    assert row["label"] == "n=2 / n=5" and row["params"] == {"seed": 1}
    text = command_of("confirm").render(verdict)
    assert "8 queries" in text and "toy-Fold1" in text and "n=2 / n=5" in text
    with pytest.raises(WorkFailed, match="all folds"):
        joined("toy", [replace(one, asked=Request(seeds=1, each=True)) for one in verdicts])
    with pytest.raises(ConfigError, match="--until-settled"):
        FoldSearches("toy", [SimpleNamespace(name="toy-Fold1")]).confirm(until_settled=True)


def test_run_searches_each_fold_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for fold in ("Fold10", "Fold2", "Foldings"):
        (tmp_path / "data" / fold).mkdir(parents=True)
        (tmp_path / "data" / fold / "train.txt").write_text("")
    asked: list[tuple[str, str]] = []

    def started(experiment: Experiment, folder: SearchFolder, *_: Any) -> SearchResult:
        asked.append((Path(experiment.value("data.source")).name, folder.name))
        folder.folder.mkdir(parents=True)
        folder.journal.write_text("{}\n")
        return result(0.5, 0.4, name=folder.name, storage=str(folder.storage))

    monkeypatch.setattr(run_search, "start_search", started)
    command = ["run", "ferro2018", "--data", str(tmp_path / "data"), "--storage", str(tmp_path / "runs")]
    assert main(command) == 0
    assert asked == [("Fold2", "ferro2018-Fold2"), ("Fold10", "ferro2018-Fold10")]
    assert "confirm ferro2018 --storage" in capsys.readouterr().out
    assert main(command) == 2 and "'ferro2018-Fold2' exists" in capsys.readouterr().err
    assert searches_of_folds(str(tmp_path / "runs"), "ferro2018") == [name for _, name in asked]
    assert searches_of_folds(str(tmp_path / "runs"), "ferro2018-Fold2") == []


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_two_folds_from_search_to_verdict(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        made = tmp_path / "data" / f"Fold{number}"
        made.mkdir(parents=True)
        for split, name in {"train": "train.txt", "dev": "vali.txt", "test": "test.txt"}.items():
            (made / name).write_text(letor_text(letor_data(seed=number), split))
    small = ["ranker.leaves=4", "ranker.trees_per_iteration=2", "training.max_iterations=2"]
    small += ["curriculum.switch={grid: [2]}", "curriculum.subset={grid: [none, relevant_count]}"]
    options = [part for setting in small for part in ("--set", setting)]
    place = ["--storage", str(fresh_database(tmp_path / "runs")), "--json"]
    assert main(["run", "ferro2018", "--data", str(tmp_path / "data"), *options, *place]) == 0
    assert main(["confirm", "ferro2018", "--each", "--top", "9", "--seeds", "2", *place]) == 0
    document = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert len(document["configurations"]) == 2 and document["queries"] == 24 and document["seeds"] == [1]
    assert all(row["ci95_new"][0] <= row["difference"] <= row["ci95_new"][1] for row in document["configurations"])
    assert document["folds"][1] == "ferro2018-Fold2"
    folds = tune_cl.open_search("ferro2018", tmp_path / "runs")
    assert isinstance(folds, FoldSearches) and folds.verdict
    again = [(row.label, row.difference) for row in folds.verdict.configurations]
    assert again == [(row["label"], row["difference"]) for row in document["configurations"]]
    assert set(folds.trials["search"]) == {"ferro2018-Fold1", "ferro2018-Fold2"}
