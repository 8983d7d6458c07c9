"""A search as an Optuna study, and its trials as Parquet."""

from __future__ import annotations

from pathlib import Path

import optuna
import pandas as pd
import pytest

from tests.support.confirm_cases import data, search_folder
from trainables.core.errors import ConfigError
from tune_cl.api.search import Search
from tune_cl.history.search_folder import SearchFolder
from tune_cl.report.output import form_of

__all__ = ["data", "search_folder"]  # fixtures


def test_optuna_reads_the_study_back(search_folder: SearchFolder, tmp_path: Path) -> None:
    search, storage = Search(search_folder), f"sqlite:///{tmp_path}/optuna.db"
    search.to_optuna(storage)
    study = optuna.load_study(study_name="toy", storage=storage)
    rows = search.trials.set_index("trial_id")
    assert [trial.user_attrs["trial_id"] for trial in study.trials] == list(rows.index)
    for trial in study.trials:
        row = rows.loc[trial.user_attrs["trial_id"]]
        failed = row.outcome == "failed"
        assert (trial.state is optuna.trial.TrialState.FAIL) is failed
        assert failed or trial.value == pytest.approx(row.dev)
        assert len(trial.intermediate_values) == (0 if failed and not trial.intermediate_values else row.iterations)
    assert study.best_trial.user_attrs["trial_id"] == search.best.trial_id
    root = next(trial for trial in study.trials if trial.params.get("curriculum.pacing") == "root")
    assert root.params["curriculum.n"] in (2, 10) and set(root.distributions) == set(root.params)
    with pytest.raises(ConfigError, match="has a study 'toy'; another study_name"):
        search.to_optuna(storage)


def test_the_suffix_decides_on_the_format(search_folder: SearchFolder, tmp_path: Path) -> None:
    search = Search(search_folder)
    table = pd.read_parquet(search.report(tmp_path / "trials.parquet", progress=False))
    assert list(table["trial"]) == list(search.trials.trial_id)
    assert (tmp_path / "trials.parquet").read_bytes()[:4] == b"PAR1"
    assert [form_of(Path(name)) for name in ("a.csv", "a.tex", "a.html", "a")] == ["csv", "latex", "html", "html"]
