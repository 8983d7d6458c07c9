"""`confirm --against`: present runs and rankers beside the configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.confirm_cases import LABELS, LocalCrew, confirm, crew, data, search_folder
from trainables.core.errors import DataError
from trainables.evaluation.significance import paired_t_test
from trainables.evaluation.trec_files import read_per_query
from tune_cl.cli.commands.confirm import render
from tune_cl.history.search_folder import SearchFolder

__all__ = ["crew", "data", "search_folder"]  # fixtures


def test_a_run_and_a_ranker_are_rows_of_one_training(
    search_folder: SearchFolder, crew: type[LocalCrew], data: Path, tmp_path: Path
) -> None:
    before = confirm(search_folder, top=1, seeds=2)
    assert "against" not in before
    own, best = before["baseline"]["runs"][0], before["configurations"][0]
    run, ranker = Path(own["run_file"]), Path(own["run_file"]).parents[1] / "ranker"
    document = confirm(search_folder, top=1, seeds=2, against=(str(run), str(ranker)))
    assert {key: document[key] for key in ("baseline", "configurations", "verdict")} == {
        key: before[key] for key in ("baseline", "configurations", "verdict")
    }
    of_run, of_ranker = document["against"]
    assert of_run["label"] == str(run) and of_ranker["label"] == str(ranker)
    assert of_run["mean"] == of_ranker["mean"] == pytest.approx(own["value"])
    assert of_run["p_new"] is of_run["p_new_adjusted"] is of_run["ci95_new"] is None
    values = {label: _values(entry["runs"]) for label, entry in (("base", before["baseline"]), ("best", best))}
    present = values["base"][0]
    to_best = paired_t_test(sum(values["best"]) / 2, present)
    assert of_run["best"]["label"] == LABELS[0] == best["label"]
    assert of_run["best"]["difference"] == pytest.approx(to_best.difference)
    assert of_run["best"]["p_value"] == pytest.approx(to_best.p)
    assert of_run["best"]["p_adjusted"] == pytest.approx(min(1, 2 * to_best.p))  # Holm over two
    shown = render(document)
    assert "one training" in " ".join(shown.split()) and f"{of_run['mean']:.4f}" in shown
    report = (search_folder.folder / "report.html").read_text()
    assert "A present ranker is one training" in report and run.name in report


def _values(runs: list[dict[str, Any]]) -> list[np.ndarray]:
    files = (Path(run["run_file"]).parent / "test.per_query.tsv" for run in runs)
    return [np.array(list(read_per_query(file, "map").values())) for file in files]


def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    search_folder: SearchFolder, crew: type[LocalCrew], tmp_path: Path
) -> None:
    (tmp_path / "other.run").write_text("q999 Q0 d999 1 1.0 x\n")
    for name, wrong in (("other.run", "ranks no candidate"), ("nothing", "is not a trained ranker")):
        with pytest.raises(DataError, match=wrong):
            confirm(search_folder, top=1, seeds=1, against=(str(tmp_path / name),))
    assert not (search_folder.folder / "confirmation").exists()
