"""Names, columns and values by which trials and searches are told apart in MLflow."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from mlflow.utils.validation import _validate_metric_name

from tests.support.journal_events import trial
from tests.support.tracking_cases import search_event
from tune_cl.history.state import replay
from tune_cl.tracking import layout

SEARCH = search_event("quickstart")
ROOT = {"curriculum.pacing": "root", "curriculum.n": 2, "curriculum.scoring": "turns", "curriculum.anti": True}
WORDS = "pacing=root n=2 scoring=turns anti=true"  # of ROOT


def test_the_view_has_a_column_for_each_key_that_the_search_opens() -> None:
    def columns(opened: list[str]) -> list[str]:
        shown: list[str] = json.loads(layout.view(SEARCH | {"opened": opened})[1])["selectedColumns"]
        assert (shown[0], shown[-1]) == ("metrics.`best_dev_mrr_at_10`", "tags.`tune_cl.outcome`")
        return [column.removeprefix("params.`").rstrip("`") for column in shown[1:-1]]

    usual = [f"curriculum.{key}" for key in ("pacing", "n", "scoring", "delta", "T", "weighting", "m")]
    assert columns(["training.lr"]) == ["training.lr", *usual]
    opened = ["training.lr", "curriculum.scoring", "ranker.filters", "ranker.name"]
    assert columns(opened) == ["ranker.name", "curriculum.scoring", "training.lr", "ranker.filters"]
    assert len(columns(opened[1:])) == 3, "these are enough"
    many = [f"ranker.key{number}" for number in range(60)]
    assert len(columns(many)) == layout.MOST_COLUMNS
    assert len(layout.view(SEARCH | {"opened": many})[1]) < layout.TAG_LENGTH


def test_the_name_of_a_trial_tells_what_the_terminal_tells_of_it() -> None:
    def named(chosen: dict[str, Any], number: int = 1, arm: str = "curriculum") -> str:
        """The name of a trial with these values of opened keys."""
        params = ROOT | {key: value for key, value in chosen.items() if key != "curriculum.m"}
        event = trial(number, **params) | {"chosen": chosen, "arm": arm}
        [shown] = replay([SEARCH, event]).trials.values()
        name = layout.trial_name(event)
        assert name == f"{shown.trial} {shown.words}"
        return name

    lr, ranker = {"training.lr": 0.000501}, {"ranker.name": "knrm"}
    assert named(lr | ranker) == f"t0001 ranker=knrm {WORDS} lr=0.000501"
    assert named(lr | {"curriculum.m": 3}) == f"t0001 {WORDS} lr=0.000501", "m is not in force"
    assert named({"curriculum.anti": False}) == f"t0001 {WORDS.removesuffix(' anti=true')}"
    assert named(lr, number=0) == "t0000 plain, default"
    assert named(lr | ranker, arm="plain") == "t0001 plain ranker=knrm lr=0.000501"


@pytest.mark.parametrize("key", ["name", "storage", "time"])
def test_a_search_is_told_from_others_by_name_storage_and_time(key: str) -> None:
    assert layout.search_id(SEARCH) == layout.search_id(dict(SEARCH)) != layout.search_id(SEARCH | {key: 2.0})


def test_confirmations_are_told_apart_by_label_and_by_seed() -> None:
    events: list[Any] = [{"label": label, "seed": seed} for label in ("root 2", "linear") for seed in (1, 2)]
    assert len({layout.confirmation_key(event) for event in events}) == 4


def test_what_an_event_lacks_or_has_by_default_is_told_as_such() -> None:
    older = search_event("quickstart", git_commit=None, rankers=["conv_knrm", "knrm"], compares=False, yaml="seed: 7")
    tags = layout.search_tags(older)
    assert "mlflow.source.git.commit" not in tags and tags["tune_cl.ranker"] == "conv_knrm, knrm"
    assert json.loads(layout.view(older)[1])["groupBy"] is None
    assert json.loads(layout.view(SEARCH)[1])["groupBy"]["groupByKeys"][0]["groupByData"] == "tune_cl.arm"
    assert layout.data_set(older)["source"] == '{"uri": "docstrings"}'


# -- values ---------------------------------------------------------------------------------------------------------


def test_times_are_kept_to_the_millisecond_and_after_1970() -> None:
    """A clock may be wrong; MLflow refuses points from before, and reads an end at 0 as now."""
    assert [layout.milliseconds(seconds) for seconds in (12.3456, 0.0, -5.0)] == [12346, 1, 1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (None, "null"), (math.inf, "inf"), (0.001, "0.001"), ([1, 2], "[1, 2]"), ("a", "a")],
)
def test_parameter_values_read_as_yaml(value: object, shown: str) -> None:
    assert layout.parameters({"key": value}) == {"key": shown}


def test_a_value_that_fits_is_whole_and_a_longer_one_is_named_as_cut() -> None:
    params = {"fits": "x" * layout.PARAM_LENGTH, "not": "x" * (layout.PARAM_LENGTH + 1)}
    assert layout.parameters(params) == {"fits": params["fits"], "not": params["fits"][:-3] + "..."}
    assert layout.trial_tags(SEARCH, trial(1, **params))["tune_cl.cut_parameters"] == "not"
    assert "tune_cl.cut_parameters" not in layout.trial_tags(SEARCH, trial(1)), "none is not a tag"


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("dev_ndcg@5", "dev_ndcg_at_5"),
        ("loss(%)", "loss___"),
        ("a//b", "a/b"),
        ("/a", "a"),
        ("../a", "__/a"),
        ("a b", "a b"),
    ],
)
def test_every_name_of_a_metric_is_one_that_mlflow_takes(name: str, there: str) -> None:
    assert layout.metric_name(name) == there
    _validate_metric_name(there)
    assert bool(layout.renamed([name])) == (name not in ("dev_ndcg@5", "a b"))
