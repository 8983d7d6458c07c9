"""Names, columns and tags by which trials and searches are told apart in MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.tracking_cases import root, search_event, trial_event
from tune_cl import run_search as runner
from tune_cl.experiment.load import load_experiment
from tune_cl.history.events import Event
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import replay
from tune_cl.space.wording import trial_words
from tune_cl.tracking import layout

ROOT = "pacing=root n=2 scoring=turns anti=true"  # of `root`


def test_the_view_has_a_column_for_each_key_that_the_search_opens() -> None:
    def columns(opened: list[str]) -> list[str]:
        told = search_event("view", opened=opened)
        shown: list[str] = json.loads(layout.view(told)[1])["selectedColumns"]
        assert (shown[0], shown[-1]) == ("metrics.`best_dev_mrr_at_10`", "tags.`tune_cl.outcome`")
        return [column.removeprefix("params.`").rstrip("`") for column in shown[1:-1]]

    assert "groupByKeys" not in layout.view(search_event("of one arm", compares=False))[1]
    grouped = json.loads(layout.view(search_event("v"))[1])["groupBy"]["groupByKeys"]
    assert grouped == [{"mode": "tag", "groupByData": "tune_cl.arm"}]
    usual = [f"curriculum.{key}" for key in ("pacing", "n", "scoring", "delta", "T", "weighting", "m")]
    assert columns([]) == usual
    opened = ["training.lr", "curriculum.scoring", "ranker.filters", "ranker.name"]
    assert columns(opened) == ["ranker.name", "curriculum.scoring", "training.lr", "ranker.filters"]
    assert columns(["training.lr"]) == ["training.lr", *usual]
    three = ["training.lr", "ranker.filters", "ranker.name"]
    assert sorted(columns(three)) == sorted(three), "these are enough"
    many = columns([f"ranker.key{number}" for number in range(60)])
    assert len(many) == layout.MOST_COLUMNS and len(layout.view(search_event("v", opened=many))[1]) < layout.TAG_LENGTH


def test_the_name_of_a_trial_tells_what_the_terminal_tells_of_it() -> None:
    def named(chosen: dict[str, Any], number: int = 1, arm: str = "curriculum") -> str:
        """The name of a trial with these values of opened keys."""
        params = root(2) | {key: value for key, value in chosen.items() if key != "curriculum.m"}
        event = trial_event(number, params) | {"chosen": chosen, "arm": arm}
        [trial] = replay([search_event("names"), event]).trials.values()
        name = layout.trial_name(event)
        assert name == f"{trial.trial} {trial.words}"
        return name

    lr, ranker = {"training.lr": 0.000501}, {"ranker.name": "knrm"}
    assert named(lr | ranker) == f"t0001 ranker=knrm {ROOT} lr=0.000501"
    assert named(lr | {"curriculum.m": 3}) == f"t0001 {ROOT} lr=0.000501", "m is not in force"
    assert named({"curriculum.anti": False}) == f"t0001 {ROOT.removesuffix(' anti=true')}"
    assert named({"ranker.dropout": 0}) == f"t0001 {ROOT} dropout=0"
    assert named(lr, number=0) == "t0000 plain, default"
    assert named(lr | ranker, arm="plain") == "t0001 plain ranker=knrm lr=0.000501"
    assert layout.trial_name(trial_event(1, root(2))) == f"t0001 {ROOT}", "of an older journal"


def test_a_search_tells_what_it_opens(tmp_path: Path) -> None:
    inputs: Any = SimpleNamespace(fingerprint=lambda: {"name": "docstrings", "digest": "sha-1"})
    experiment = load_experiment("quickstart", ["ranker.name={choice: [conv_knrm, knrm]}"])
    event = runner._search_event(experiment, SearchFolder(tmp_path, "s"), inputs, None)
    assert event["opened"] == list(experiment.space.leaves) and "ranker.name" in event["opened"]
    assert replay([event]).rankers == ["conv_knrm", "knrm"]
    assert layout.search_tags(event)["tune_cl.ranker"] == "conv_knrm, knrm"
    usual = runner._search_event(load_experiment("quickstart"), SearchFolder(tmp_path, "s"), inputs, None)
    assert usual["rankers"] == ["knrm"]


def test_the_words_of_a_curriculum_name_its_scoring_wherever_it_counts() -> None:
    weighted = {"curriculum.weighting": "difficulty", "curriculum.m": 20.0, "curriculum.scoring": "turns"}
    assert trial_words({}, weighted, plain=False) == "scoring=turns weighting=difficulty m=20"


# -- values ------------------------------------------------------------------------------------------------------


def test_times_are_kept_to_the_millisecond_and_after_1970() -> None:
    """A clock may be wrong; MLflow refuses points from before, and reads an end at 0 as now."""
    assert [layout.milliseconds(seconds) for seconds in (12.3456, 0.0, -5.0)] == [12346, 1, 1]


def test_a_value_that_fits_is_whole_and_a_longer_one_is_named_as_cut() -> None:
    assert [layout.cut(text, 5) for text in ("fives", "sixsix")] == ["fives", "si..."]
    params = {"fits": "x" * layout.PARAM_LENGTH, "not": "x" * (layout.PARAM_LENGTH + 1)}
    assert layout.cut_parameters(params) == ["not"]
    assert {key: len(value) for key, value in layout.parameters(params).items()} == dict.fromkeys(params, 6000)
    tags = layout.trial_tags(search_event("s"), trial_event(1, params))
    assert tags["tune_cl.cut_parameters"] == "not"
    assert "tune_cl.cut_parameters" not in layout.trial_tags(search_event("s"), trial_event(1, {})), "none is not a tag"


def test_confirmations_are_told_apart_by_label_and_by_seed() -> None:
    events: list[Event] = [{"label": label, "seed": seed} for label in ("root 2", "linear") for seed in (1, 2)]
    assert len({layout.confirmation_key(event) for event in events}) == 4


def test_the_commit_of_a_search_is_where_mlflow_looks_for_it() -> None:
    assert layout.search_tags(search_event("s"))["mlflow.source.git.commit"] == "c0ffee"
    assert "mlflow.source.git.commit" not in layout.search_tags(search_event("s", git_commit=None))


def test_the_description_tells_the_best_trial_and_the_cost() -> None:
    best = {"trial_id": "t0001", "params": {"training.lr": 0.001, "long": "x" * 300}, "dev": 0.12345, "iteration": 2}
    told = layout.summary(search_event("s"), {"best": best, "seconds": 99.6}).splitlines()
    assert "**t0001**" in told[2] and "0.1235 at iteration 2" in told[2] and told[-1] == "Took 100 s."
    assert "| training.lr | 0.001 |" in told and f"| long | {'x' * 197}... |" in told


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
    from mlflow.utils.validation import _validate_metric_name

    assert layout.metric_name(name) == there
    _validate_metric_name(there)
    assert bool(layout.renamed([name])) == (name not in ("dev_ndcg@5", "a b"))
