"""Keys and values that earlier versions had: one line says so, and searches written with them are still read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainables.config.keys import TrainingRun, flatten
from trainables.core.errors import ConfigError, DataError
from trainables.core.gone import KEYS, VALUES, Gone, without_gone
from trainables.training.checkpoint import write_json
from trainables.training.progress import STATE, is_of
from trainables.training.ranker_folder import recorded_run
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import from_yaml, load_experiment, require_current
from tune_cl.space.space_files import dump_yaml, parse_yaml

GIVEN = [*((key, "1") for key in KEYS), *VALUES]


def written_with(given: dict[str, object]) -> Experiment:
    """A search of an earlier version, as its journal holds it."""
    tree = parse_yaml(load_experiment("quickstart").to_yaml(), "space")
    return from_yaml(dump_yaml(tree | flatten(tree.pop("search"), "search.") | given))


@pytest.mark.parametrize(("key", "value"), GIVEN)
def test_what_is_gone_is_one_line(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_experiment("quickstart", [f"{key}={value}"])
    (problem,) = refused.value.problems
    assert problem.location == key and "gone since version" in problem.wrong and problem.right


def test_a_search_that_left_it_at_its_default_is_whole() -> None:
    search = written_with({key: gone.default for key, gone in KEYS.items()})
    assert replace(search, notes=()) == replace(written_with({}), notes=())
    require_current(search, "resumed")


@pytest.mark.parametrize(("key", "value"), GIVEN)
def test_a_search_that_used_it_is_read_but_not_resumed(key: str, value: str) -> None:
    search = written_with({key: value})
    assert search.gone == (f"{key}={value}",)
    with pytest.raises(ConfigError, match=f"cannot be resumed.*{key}={value}"):
        require_current(search, "resumed")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more keys that are gone."""
    for key in ("ranker.old", "training.old"):
        monkeypatch.setitem(KEYS, key, Gone("0.2", 1, "left out"))


def run_with(section: str, **keys: object) -> dict[str, object]:
    run = TrainingRun().model_dump()
    return run | {section: run[section] | keys}


def test_a_ranker_that_was_made_with_it_is_refused(made_up: None, tmp_path: Path) -> None:
    for section, value in (("ranker", 1), ("training", 2)):
        assert recorded_run({"run": run_with(section, old=value)}, tmp_path) == TrainingRun()
    with pytest.raises(DataError, match=r"made by an earlier version with ranker\.old=2, which is gone; that version"):
        recorded_run({"run": run_with("ranker", old=2)}, tmp_path)


def test_the_state_of_a_training_that_used_it_is_another_one_s(made_up: None, tmp_path: Path) -> None:
    found = []
    for value in (1, 2):
        write_json(tmp_path / STATE, {"run": run_with("training", old=value), "data": "digest"})
        found.append(is_of(tmp_path, TrainingRun(), "digest"))
    assert found == [True, False]


def test_a_teacher_s_ranker_has_the_keys_of_a_ranker(made_up: None) -> None:
    tree = {"curriculum": {"teacher": {"ranker": {"name": "knrm", "old": 1}}}}
    assert without_gone(tree) == ({"curriculum": {"teacher": {"ranker": {"name": "knrm"}}}}, [])
