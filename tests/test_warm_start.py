"""What a search takes over from an earlier one (`search.warm_start`), and what it says if there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.report_cases import Case
from trainables.core.errors import ConfigError
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal
from tune_cl.history.state import replay
from tune_cl.search.warm_start import notes_of, warm_start_event
from tune_cl.space.parameters import Choice
from tune_cl.space.space import Space


def earlier(folder: Path, *dev: float) -> Case:
    """A search whose baseline and trials reached these values."""
    case = Case(folder, "earlier")
    for number, value in enumerate(dev):
        case.add([0.1, value], "completed" if number else "baseline")
    case.write()
    return case


def later(case: Case, *overrides: str) -> Experiment:
    space = str(case.search_folder.storage.parent / "earlier.yaml")
    return load_experiment(space, ["search.warm_start=[earlier]", "search.searcher=tpe", *overrides])


def test_a_key_that_was_fixed_is_observed_at_that_value(tmp_path: Path) -> None:
    case = earlier(tmp_path, 0.3, 0.4, 0.5)
    event = warm_start_event(later(case, "curriculum.T={uniform: [0.1, 1]}"), "any", case.search_folder.storage)
    assert event is not None and [seen["chosen"]["curriculum.T"] for seen in event["observations"]] == [0.5, 0.5]


def test_equal_values_of_other_data_say_nothing(tmp_path: Path) -> None:
    case = earlier(tmp_path, 0.4, 0.4, 0.4)
    other = warm_start_event(later(case), "other data", case.search_folder.storage)
    assert other is not None and other["observations"] == []
    assert notes_of(other) == ["earlier: 0 finished trials warm the search up, 3 are outside its space or without a "
                               "spread of values"]  # fmt: skip
    same = warm_start_event(later(case), case.events[0]["data"]["digest"], case.search_folder.storage)
    assert same is not None and len(same["observations"]) == 2


def test_none_is_said_to_be_left_out_where_all_are_taken() -> None:
    event = {"event": "warm_start", "sources": [{"search": "earlier", "observations": 2, "dropped": 0}]}
    assert notes_of(event) == ["earlier: 2 finished trials warm the search up"]


def test_a_name_is_that_of_a_search_of_the_storage_before_it_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, other = earlier(tmp_path / "a", 0.3, 0.4), earlier(tmp_path / "b", 0.3, 0.9)
    monkeypatch.chdir(other.search_folder.storage)
    event = warm_start_event(later(case), case.events[0]["data"]["digest"], case.search_folder.storage)
    assert event is not None and [seen["value"] for seen in event["observations"]] == [0.4]


def test_without_any_search_there_a_path_is_asked_for(tmp_path: Path) -> None:
    case = earlier(tmp_path, 0.3)
    with pytest.raises(ConfigError, match=r"no search 'earlier' in .*; the path of the earlier search's folder"):
        warm_start_event(later(case), "any", tmp_path / "empty")


def test_seeds_of_earlier_searches_are_known_along_a_chain(tmp_path: Path) -> None:
    """A confirmation must not train with a seed whose trainings had a say in the choice of configurations."""
    case = earlier(tmp_path, 0.3, 0.4)
    sources = [{"search": "first", "seeds": [3]}, {"search": "older"}]
    told = [{"event": "warm_start", "sources": sources, "observations": [], "time": 0.0}]
    with Journal(case.search_folder.folder) as journal:
        journal.append(told[0])
    event = warm_start_event(later(case), case.events[0]["data"]["digest"], case.search_folder.storage)
    assert event is not None and [source["seeds"] for source in event["sources"]] == [[0, 3]]
    head = {**case.events[0], "seed": 5}
    assert replay([head, event]).search_seeds == {0, 3, 5}


def test_a_parameter_that_may_be_null_must_still_be_known() -> None:
    space = Space({"x": Choice(options=(None, 5))})
    assert space.within({"x": None}) == {"x": None} and space.within({}) is None
