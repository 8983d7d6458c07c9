"""The library as `import tune_cl` offers it, as far as nothing is trained."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tune_cl
from search_spaces import SPACES
from tests.support.project import ROOT
from tests.support.report_cases import Case
from tune_cl.experiment.load import load_experiment, requested_experiment, to_yaml
from tune_cl.results import SearchResult, Trial

INIT = ROOT / "tune_cl" / "__init__.py"


@pytest.mark.parametrize("name", tune_cl.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(tune_cl, name)
    assert value is getattr(import_module(tune_cl.HOMES[name]), name) and value.__doc__
    assert name in dir(tune_cl)


def test_type_checkers_see_the_same_names() -> None:
    blocks = [node for node in ast.parse(INIT.read_text()).body if isinstance(node, ast.If)]
    imports = [one for block in blocks for one in block.body if isinstance(one, ast.ImportFrom)]
    assert {alias.asname: one.module for one in imports for alias in one.names} == tune_cl.HOMES


def test_every_public_name_is_on_the_page_of_the_library() -> None:
    lines = (ROOT / "docs" / "reference" / "python.md").read_text().splitlines()
    headings = "".join(line for line in lines if line.startswith("### "))
    assert sorted(re.findall(r"`tune_cl\.(\w+)`", headings)) == sorted(tune_cl.__all__)


def test_errors_have_all_problems(tmp_path: Path) -> None:
    with pytest.raises(tune_cl.ConfigError) as error:
        tune_cl.run("quickstart", overrides={"training.lr": "fast", "curriculum.n": -1}, storage=tmp_path)
    assert {problem.location for problem in error.value.problems} == {"training.lr", "curriculum.n"}
    with pytest.raises(tune_cl.DataError, match="nowhere"):
        tune_cl.run("quickstart", data=tmp_path / "nowhere", storage=tmp_path)
    with pytest.raises(tune_cl.ConfigError, match=r"NAME: .*'toy'"):
        tune_cl.open_search("toy", tmp_path)
    with pytest.raises(tune_cl.DataError, match=str(tmp_path)):
        tune_cl.load_ranker(tmp_path)
    assert not list(tmp_path.iterdir())
    [problem] = tune_cl.WorkFailed("full").problems
    assert problem.wrong == "full"


def experiment(space: Any, **overrides: Any) -> Any:
    return requested_experiment(space, overrides)


def test_a_mapping_is_the_same_as_a_file_of_it() -> None:
    import yaml

    tree = yaml.safe_load(SPACES["quickstart"].read_text())
    own, shipped = experiment(tree), experiment("quickstart")
    assert own.name == "search" and experiment(tree | {"name": "mine"}).name == "mine"
    assert (own.space, own.fixed, own.baseline, own.search) == (
        shipped.space,
        shipped.fixed,
        shipped.baseline,
        shipped.search,
    )
    assert experiment(SPACES["quickstart"]).space == shipped.space


def test_overrides_are_values_of_python() -> None:
    given = {
        "training.lr": np.float64(0.02),
        "curriculum": {"delta": {"uniform": (0.1, 0.9)}, "n": 3},
        "search.max_concurrent": None,
        "data": Path("docstrings"),
    }
    in_text = ["training.lr=0.02", "curriculum.delta={uniform: [0.1, 0.9]}", "curriculum.n=3"]
    made, expected = load_experiment("quickstart", given), load_experiment("quickstart", in_text)
    assert to_yaml(made) == to_yaml(expected)
    assert requested_experiment("quickstart", {"seed": 6}, seed=5).base.run.seed == 6, "overrides win"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path)
    case.add([0.4, 0.5, 0.6], "baseline")
    case.add([0.5, 0.7, 0.6], "completed")
    case.add([0.3], "stopped_early")
    case.add([0.2, 0.4])
    case.write()
    return case


def test_a_search_that_runs_can_be_read(case: Case) -> None:
    search = tune_cl.open_search("toy", case.search_folder.storage)
    assert (search.name, search.metric, search.finished) == ("toy", "map", False)
    assert search.storage == str(case.search_folder.storage) and search.tracking_uri.endswith("/mlflow.db")
    trials = search.trials
    assert [*trials.columns[:12]] == [field for field in Trial.model_fields if field != "params"]
    assert {"curriculum.pacing", "curriculum.n", "curriculum.delta"} <= set(trials.columns)
    assert [*trials["outcome"].fillna("")] == ["completed", "completed", "stopped_early", ""]
    assert [*trials["dev"]] == [0.6, 0.7, 0.3, 0.4] and [*trials["iteration"]] == [3, 2, 1, 2]
    curves = search.curves
    assert [*curves["trial_id"]] == ["t0000"] * 3 + ["t0001"] * 3 + ["t0002"] + ["t0003"] * 2
    assert curves[curves["trial_id"] == "t0001"]["dev_map"].tolist() == [0.5, 0.7, 0.6]
    found = search.result
    assert (found.best, found.best_curriculum, found.best_plain) == ("t0001", "t0001", "t0000")
    assert SearchResult.model_validate_json(found.model_dump_json()) == found and len(found.trials) == 4


def test_a_search_has_its_last_verdict(case: Case) -> None:
    search = tune_cl.open_search("toy", case.search_folder.storage)
    assert search.verdict is None
    case.confirm()
    assert search.verdict is not None and search.verdict.verdict == "no difference shown"
    row = search.verdict.table.iloc[1]
    assert (row["difference"], row["p"], row["low"], row["high"]) == pytest.approx((0.015, 0.093, -0.015, 0.045))
