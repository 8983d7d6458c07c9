"""`tune-cl confirm`: a selection on dev, then the two champions on test; what each seed draws anew."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.confirm_cases import confirm, data, ended_search, search_folder, state_of, trainer
from trainables.core.errors import ConfigError, DataError, Interrupted
from trainables.data import load_data
from trainables.data.clusters import query_clusters
from trainables.data.columns import TextColumn
from trainables.training import factory
from tune_cl import run_trainings
from tune_cl.confirmation.lineup import Lineup
from tune_cl.confirmation.readings import earlier_readings, record_reading, split_digest
from tune_cl.confirmation.request import Configuration, Request, plain_label
from tune_cl.experiment.load import from_yaml, load_experiment
from tune_cl.experiment.paths import in_any_folder
from tune_cl.history.search_folder import SearchFolder

__all__ = ["data", "search_folder", "trainer"]  # fixtures
SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: {choice: [context_words, model_loss]}
  pacing: {choice: [root, linear]}
  T: 0.3
training: {lr: {choice: [0.01, 0.02, 0.03]}, batch_size: 8, batches_per_iteration: 2, max_iterations: 2}
baseline: {curriculum.pacing: none}
seed: 2
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its own: readings of a split are remembered there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def two_armed(folder: Path, data: Path, *options: str) -> SearchFolder:
    """A search with two plain trials and two curricula, of which one reads a teacher."""
    choices = [
        {"curriculum.pacing": "linear", "curriculum.scoring": "model_loss", "training.lr": 0.01},
        {"curriculum.pacing": "none", "training.lr": 0.02},
        {"curriculum.pacing": "root", "curriculum.scoring": "context_words", "training.lr": 0.02},
    ]
    began = float(sum(map(ord, str(folder))))  # in another folder it is another search
    return ended_search(folder, data, SPACE, choices, options, began)


def test_the_champions_of_both_arms_meet_on_test_with_seeds_that_no_selection_used(
    tmp_path: Path, data: Path, trainer: Any
) -> None:
    document = confirm(two_armed(tmp_path, data), top=2, seeds=3)
    rows = document["selection"]
    assert [(row["arm"], row["trial_id"]) for row in rows] == [
        ("plain", "t0002"), ("plain", "t0000"), ("curriculum", "t0003"), ("curriculum", "t0001"),
    ]  # fmt: skip
    for arm in ("plain", "curriculum"):
        of_arm = [row for row in rows if row["arm"] == arm]
        [chosen] = [row for row in of_arm if row["chosen"]]
        assert chosen["mean"] == max(row["mean"] for row in of_arm) == pytest.approx(np.mean(chosen["devs"]))
        side = document["opponents"][0] if arm == "plain" else document["configurations"][0]
        assert side["trial_id"] == chosen["trial_id"]
    assert document["opponents"][0]["roles"][0] == "champion"
    assert len(document["configurations"]) == 1 and document["seeds"] == [1, 3, 4]
    selected = {int(name.rpartition(" ")[2]) for name in trainer.trained if int(name.rpartition(" ")[2]) > 1000}
    assert len(selected) == len(rows[0]["devs"]) and not selected & set(document["seeds"])
    row = document["configurations"][0]
    assert row["p_new"] == row["p_new_adjusted"], "one test"
    assert document["fair"] == {"tuned": True, "keys": ["training.lr"], "trials": {"plain": 2, "curriculum": 2}}
    default = document["default"]
    if (champion := document["opponents"][0])["trial_id"] == "t0002":
        assert default["difference"] == pytest.approx(default["mean"] - champion["mean"])
    else:
        assert default is None


def test_each_tests_all_curricula_against_the_plain_champion(tmp_path: Path, data: Path, trainer: Any) -> None:
    document = confirm(two_armed(tmp_path, data), top=2, seeds=2, each=True)
    assert [row["trial_id"] for row in document["configurations"]] == ["t0003", "t0001"]
    assert {row["arm"] for row in document["selection"] if row["devs"]} == {"plain"}


def test_trials_and_the_best_of_each_value_are_tested_by_name(tmp_path: Path, data: Path, trainer: Any) -> None:
    search = two_armed(tmp_path, data)
    named = confirm(search, top=1, seeds=2, trials=("t0001", "t0003"))
    assert [row["trial_id"] for row in named["configurations"]] == ["t0003", "t0001"], "the best on dev first"
    assert named["baseline"]["trial_id"] == "t0002" and "among" not in named
    of_each = confirm(search, top=1, seeds=2, best_of="curriculum.pacing")
    [pair], rows = of_each["among"], of_each["configurations"]
    assert (pair["label"], pair["other"]) == (rows[0]["label"], rows[1]["label"])
    assert pair["difference"] == pytest.approx(rows[0]["mean"] - rows[1]["mean"])
    values = [[run["value"] for run in row["runs"]] for row in rows]
    assert all(max(run["dev_by_iteration"]) == run["dev"] for row in rows for run in row["runs"])
    assert np.mean(values[0]) - np.mean(values[1]) == pytest.approx(pair["difference"])
    against = confirm(search, seeds=2, trials=("t0001",), against_trial="t0003")
    assert (against["baseline"]["trial_id"], against["default"]) == ("t0003", None)
    assert {row["arm"] for row in against["selection"]} == {"curriculum"}
    assert [row["trial_id"] for row in confirm(search, seeds=2, against_trial="t0003")["configurations"]] == ["t0001"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": ("t0001", "t0009")}, r"--trials: search 'toy' has no trial 't0009'; ids as"),
        ({"trials": ("t0002",)}, "--trials: trial 't0002' is plain training"),
        ({"against_trial": "t7"}, "--against-trial: search 'toy' has no trial 't7'"),
        ({"trials": ("t0001",), "against_trial": "t0001"}, "--against-trial: 't0001' is one of --trials"),
        ({"best_of": "curriculum.m"}, "--best-of: search 'toy' does not search 'curriculum.m'; "),
        ({"best_of": "training.lr", "each": True}, "--best-of: not together with --each"),
    ],
)
def test_trials_that_cannot_be_tested_are_named(
    tmp_path: Path, data: Path, trainer: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        confirm(two_armed(tmp_path, data), **options)
    assert trainer.trained == []


def test_a_trial_that_failed_is_not_tested(search_folder: SearchFolder, trainer: Any) -> None:
    with pytest.raises(ConfigError, match=r"--trials: .*'t0003'"):
        confirm(search_folder, trials=("t0003",))


def test_one_that_is_stopped_in_its_selection_goes_on(tmp_path: Path, data: Path, trainer: Any) -> None:
    whole = confirm(two_armed(tmp_path / "whole", data), top=2, seeds=2)
    trained, broken = list(trainer.trained), two_armed(tmp_path / "broken", data)
    trainer.trained.clear()
    for left in (5, 9, 1000):
        trainer.left = left
        try:
            document = confirm(broken, top=2, seeds=2)
        except Interrupted:
            continue
    assert sorted(trainer.trained) == sorted(trained), "each once"
    for part in ("selection", "baseline", "configurations", "default"):
        assert strip(document[part]) == strip(whole[part])


def test_no_more_is_trained_than_the_panel_says(tmp_path: Path, data: Path, trainer: Any) -> None:
    """Dev has yet to choose the champions, so it says how many trainings there are at most."""
    searched = two_armed(tmp_path, data)
    state = state_of(searched)
    experiment = from_yaml(state.yaml)
    asked: list[dict[str, Any]] = [
        {"top": 2, "seeds": 2},
        {"top": 2, "seeds": 3, "each": True},
        {"seeds": 2, "trials": ("t0001",)},
    ]
    for options in asked:
        told = Lineup(searched, state, experiment, Request(**options)).to_come()
        trainer.trained.clear()
        confirm(searched, **options)
        assert len(trainer.trained) <= told <= len(trainer.trained) + 10, options
        shutil.rmtree(searched.folder / "confirmation")


def strip(value: Any) -> Any:
    """Without what differs between folders and runs."""
    if isinstance(value, dict):
        return {key: strip(one) for key, one in value.items() if key not in ("run_file", "seconds")}
    return [strip(one) for one in value] if isinstance(value, list) else value


def test_a_selection_wants_seeds_for_its_champions(tmp_path: Path, data: Path, trainer: Any) -> None:
    with pytest.raises(ConfigError, match=r"--seeds: 1 .*--top 1"):
        confirm(two_armed(tmp_path, data), top=2, seeds=1)
    assert confirm(two_armed(tmp_path / "one", data), top=1, seeds=1)["selection"][0]["devs"] == []


def test_each_seed_has_a_teacher_that_its_configurations_share(
    tmp_path: Path, data: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, bytes]] = []
    complete = factory.completed

    def seen(run: Any, prepared: Any) -> Any:
        made = complete(run, prepared)
        if "teacher" in run.teachers:
            read.append((run.seed, made.teachers["teacher"].tobytes()))
        return made

    monkeypatch.setattr(factory, "completed", seen)
    document = confirm(two_armed(tmp_path, data), top=2, seeds=2, each=True)
    by_seed = dict(read)
    assert len(set(by_seed.values())) == len(by_seed) == 2, "another one for each seed"
    assert document["teachers"] == "anew"
    fixed = confirm(two_armed(tmp_path / "fixed", data, "curriculum.teacher.seed=5"), top=1, seeds=2)
    assert fixed["teachers"] == "once"


def test_label_noise_is_drawn_anew_if_asked_for(tmp_path: Path, data: Path, trainer: Any) -> None:
    noisy = "data.label_noise.share=.5", "training.loss=pointwise"
    once = confirm(two_armed(tmp_path / "once", data, *noisy), top=1, seeds=2)
    anew = confirm(two_armed(tmp_path / "anew", data, *noisy), top=1, seeds=2, new_noise=True)
    assert (once["noise"], anew["noise"]) == ("once", "anew")
    values = [[run["value"] for run in document["baseline"]["runs"]] for document in (once, anew)]
    assert values[0] != values[1]
    with pytest.raises(ConfigError, match="--new-noise: "):
        confirm(two_armed(tmp_path / "clean", data), top=1, new_noise=True)
    search_folder = SearchFolder(tmp_path / "once/runs", "toy")
    for new_noise, seeds in ((True, 2), (False, 2), (True, 4)):
        again = confirm(search_folder, top=1, seeds=seeds, new_noise=new_noise)
        assert again["earlier"], "with the other draws of the noise"
        assert again["readings_of_seeds"] == ([2] if seeds == 4 else [])


def test_a_reading_is_recorded_before_test_is_read_so_that_two_at_once_know_of_each_other(
    tmp_path: Path, data: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def meanwhile(*arguments: Any, train: Any = run_trainings.run_trials) -> None:
        read = load_data(load_experiment(str(tmp_path / "first/toy.yaml"), data=str(data)).base_ranker.data)
        digest = split_digest(read, "test")
        seen.append(len(earlier_readings(digest, "another", tmp_path)))
        record_reading(digest, "another", None, None)
        train(*arguments)

    monkeypatch.setattr(run_trainings, "run_trials", meanwhile)
    document = confirm(two_armed(tmp_path / "first", data), top=1, seeds=2)
    assert seen == [1] and [one["reader"] for one in document["readings"]] == ["another"]


@pytest.mark.parametrize("name", ["cache/tune_cl", "first/runs"])
def test_a_damaged_memory_of_readings_stops_a_confirmation_before_it_trains(
    name: str, tmp_path: Path, data: Path, trainer: Any
) -> None:
    search_folder = two_armed(tmp_path / "first", data)
    (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / name / "readings.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=f"{name}/readings.jsonl:1"):
        confirm(search_folder, top=1, seeds=2)
    assert trainer.trained == []


def test_readings_of_a_split_are_remembered_over_searches_and_storages(
    tmp_path: Path, data: Path, trainer: Any
) -> None:
    first = confirm(two_armed(tmp_path / "first", data), top=1, seeds=2)
    assert first["readings"] == [] and confirm(two_armed(tmp_path / "first2", data), top=1)["notes"] != []
    read = load_data(load_experiment(str(tmp_path / "first/toy.yaml"), data=str(data)).base_ranker.data)
    record_reading(split_digest(read, "test"), "a training", "a training", None)
    again = confirm(two_armed(tmp_path / "again", data), top=1, seeds=2)
    assert len(again["readings"]) == 3
    assert any("3 times" in note and "19%" in note for note in again["notes"])
    same = confirm(SearchFolder(tmp_path / "first/runs", "toy"), top=1, seeds=2)
    assert len(same["readings"]) == 3, "its own are told by `earlier`"


@pytest.mark.parametrize(
    ("given", "numbers"),
    [("prefix:-", [0, 0, 1, 2]), ("clusters.tsv", [0, 1, 1, 0]), (None, None), ("none", None)],
    ids=["a prefix", "a file", "equal texts", "none"],
)
def test_near_duplicate_queries_are_one_cluster(given: str | None, numbers: list[int] | None, tmp_path: Path) -> None:
    made = tiny_data(queries={"train": 4, "dev": 4, "test": 4}, candidates=3, turns=1)
    split = made.splits["test"]
    ids = list(made.query_ids)
    for query, name in zip(split.query.tolist(), ["a-1", "a-2", "b-1", "c"], strict=True):
        ids[query] = name
    named = replace(made, query_ids=TextColumn.of(ids))
    (tmp_path / "clusters.tsv").write_text("a-1\tx\na-2\ty\nb-1\ty\nc\tx\n")
    found = query_clusters(named, "test", str(tmp_path / given) if given == "clusters.tsv" else given)
    assert (found and list(found.values())) == numbers
    known = query_clusters(replace(named, group=np.arange(len(ids)) // 2), "test", "none" if given == "none" else None)
    assert (known and list(known.values())) == (None if given == "none" else [0, 0, 1, 1])


def test_a_cluster_file_lacks_no_query(tmp_path: Path) -> None:
    made = tiny_data(queries={"train": 4, "dev": 4, "test": 4}, candidates=3, turns=1)
    (tmp_path / "few.tsv").write_text("q1 a\n")
    for name, wrong in (("few.tsv", "lacks .* queries"), ("none.tsv", "is not a file")):
        with pytest.raises(DataError, match=wrong):
            query_clusters(made, "test", str(tmp_path / name))


def test_a_second_reading_with_more_seeds_is_judged_as_the_second(tmp_path: Path, data: Path, trainer: Any) -> None:
    search_folder = two_armed(tmp_path, data)
    confirm(search_folder, top=1, seeds=2)
    again = confirm(search_folder, top=1, seeds=4)
    assert again["readings_of_seeds"] == [2]
    fresh = confirm(two_armed(tmp_path / "fresh", data), top=1, seeds=4)
    assert (
        fresh["readings_of_seeds"] == [] and fresh["configurations"][0]["p_new"] < again["configurations"][0]["p_new"]
    )


def test_plain_configurations_with_like_values_have_labels_of_their_own() -> None:
    params = {"training.lr": 0.010001}
    first = Configuration(plain_label(params, params, "t0002", ()), "t0002", params, params)
    assert (first.label, plain_label(params, params, "t0004", [first])) == ("plain lr=0.01", "plain lr=0.01 (t0004)")


def test_a_cluster_file_is_found_from_any_folder(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near.tsv").write_text("q1 a\n")
    (tmp_path / "toy.yaml").write_text(SPACE)
    experiment = load_experiment("toy.yaml", ["data.query_clusters=near.tsv"], data=str(data))
    assert in_any_folder(experiment).value("data.query_clusters") == str(tmp_path / "near.tsv")
