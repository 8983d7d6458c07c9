"""Keys and values that earlier versions had: one line says so, and searches written with them are still read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainables.config.keys import flatten
from trainables.core.errors import ConfigError
from trainables.core.gone import KEYS, VALUES
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import from_yaml, load_experiment, require_whole
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
    require_whole(search, "resumed")


@pytest.mark.parametrize(("key", "value"), GIVEN)
def test_a_search_that_used_it_is_read_but_not_resumed(key: str, value: str) -> None:
    search = written_with({key: value})
    assert search.gone == (f"{key}={value}",)
    with pytest.raises(ConfigError, match=f"cannot be resumed.*{key}={value}"):
        require_whole(search, "resumed")
