"""`tune-cl confirm`: what is trained, kills and more seeds, the verdict's figures. On real Ray: tests/test_run.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import rewrite
from tests.support.confirm_cases import (
    BOTH,
    LABELS,
    Confirmed,
    LocalTrainer,
    confirm,
    confirmed,
    confirmed_folder,
    data,
    ended_search,
    read_values,
    search_folder,
    state_of,
    trainer,
)
from tests.support.faults import stopping_after
from tests.support.letor_data import letor_data, letor_text
from trainables.core.errors import ConfigError, DataError, Interrupted, WorkFailed
from trainables.evaluation.significance import bootstrap_ci
from trainables.training import factory
from trainables.training.trainer import Training
from tune_cl.history.search_folder import SearchFolder
from tune_cl.results import Verdict
from tune_cl.verdict import confirm as module
from tune_cl.verdict.confirm import default_seeds
from tune_cl.verdict.files import last_verdict, verdict_file
from tune_cl.verdict.plan import plan_of
from tune_cl.verdict.retraining import Request
from tune_cl.verdict.test import values_by_label

__all__ = ["confirmed", "confirmed_folder", "data", "search_folder", "trainer"]  # fixtures
PLAIN, DEFAULT = "plain lr=0.02", "plain, default"  # the twin of LABELS[0]; the champion
NAN = "the training loss became nan"
SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: {choice: [context_words, model_loss]}
  pacing: {choice: [root, linear]}
  n: 2
  delta: 0.3
  T: 0.5
  final_share: {choice: [1.0, 0.5]}
training: {lr: {choice: [0.01, 0.02, 0.03]}, batch_size: 8, batches_per_iteration: 2, max_iterations: 2}
baseline: {curriculum.pacing: none}
seed: 2
"""


def two_armed(folder: Path, data: Path, *options: str, **values: Any) -> SearchFolder:
    """Plain trials t0000 and t0001 and curricula t0002 and t0003, of which one reads a teacher."""
    whole = {"curriculum.final_share": 1.0, "curriculum.scoring": "context_words", "curriculum.pacing": "root"}
    choices = [
        {"curriculum.pacing": "none", "training.lr": 0.02},
        whole | {"curriculum.pacing": "linear", "curriculum.scoring": "model_loss", "training.lr": 0.01},
        whole | {"training.lr": 0.02} | values,
    ]
    return ended_search(folder, data, SPACE, choices, options)


def essence(verdict: Verdict) -> dict[str, Any]:
    """All but paths."""
    return verdict.model_dump(exclude={"storage", "tracking_uri"})


def values_of(verdict: Verdict, label: str) -> np.ndarray:
    """[seeds, queries]."""
    return values_by_label(verdict.per_query)[label]


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_test_of_the_values_by_query(confirmed: Confirmed) -> None:
    verdict = confirmed.verdict
    for one in (verdict.curriculum, *verdict.opponents):
        values = values_of(verdict, one.label)
        assert one.values == pytest.approx(values.mean(axis=1)) and one.mean == pytest.approx(values.mean())
        assert one.sd == pytest.approx(np.std(one.values, ddof=1))
        [folder] = (confirmed.search_folder.folder / "confirmation").glob(f"{one.trial_id or 'twin'}-*")
        assert values == pytest.approx(
            np.array([read_values(folder / f"seed-{seed}", "test", "map") for seed in verdict.seeds])
        )
    own = values_of(verdict, verdict.curriculum.label)
    least = verdict.opponents[0]
    assert verdict.fixed_seeds.ci95 == pytest.approx(bootstrap_ci((own - values_of(verdict, least.label)).mean(axis=0)))
    for one in verdict.opponents:
        assert one.difference == pytest.approx(verdict.curriculum.mean - one.mean)
        assert one.ci95 and one.p and (one.ci95[0] > 0 or one.ci95[1] < 0) == (one.p < 0.05 / 2), "Holm over two"
    assert verdict.verdict == "no difference shown" and verdict.queries == verdict.clusters == 12
    assert verdict.detectable and verdict.power is not None and verdict.look.number == 1
    assert [one.curriculum.label for one in (*verdict.others,)] == [LABELS[1]]
    assert any("BM25" in note for note in verdict.notes), "the words of this data say everything"


def test_a_verdict_is_read_as_it_was_written_and_the_journal_has_it(confirmed: Confirmed) -> None:
    verdict, folder = confirmed.verdict, confirmed.search_folder.folder
    assert last_verdict(folder, "test") == verdict
    assert verdict == Verdict.model_validate(json.loads(verdict.model_dump_json()))
    [event] = state_of(confirmed.search_folder).verdicts
    assert event["verdict"] == verdict.verdict and event["opponent"] == verdict.opponents[0].label
    assert str(folder / "report.html") in state_of(confirmed.search_folder).artifacts, "which MLflow is promised"
    assert list(verdict.table)[:8] == ["label", "roles", "mean", "sd", "difference", "low", "high", "p"]
    assert str(verdict).startswith(verdict.headline)
    verdict_file(folder, "dev").write_text("{}")
    with pytest.raises(DataError, match=r"dev\.json"):
        last_verdict(folder, "dev")


# -- who meets whom ------------------------------------------------------------------------------------------------


def test_champions_meet_on_test_with_seeds_that_no_selection_used(tmp_path: Path, data: Path, trainer: Any) -> None:
    verdict = confirm(two_armed(tmp_path, data), top=2, seeds=3)
    rows = verdict.selection
    assert [(row.arm, row.trial_id) for row in rows] == [
        ("plain", "t0001"), ("plain", "t0000"), ("curriculum", "t0003"), ("curriculum", "t0002"),
    ]  # fmt: skip
    sides = {
        "plain": next(one for one in verdict.opponents if "champion" in one.roles),
        "curriculum": verdict.curriculum,
    }
    for arm, side in sides.items():
        of_arm = [row for row in rows if row.arm == arm]
        [chosen] = [row for row in of_arm if row.chosen]
        assert chosen.mean == max(row.mean or 0 for row in of_arm) == pytest.approx(np.mean(chosen.values))
        assert side.trial_id == chosen.trial_id
    seeds = {int(name.rpartition(" ")[2]) for name in trainer.trained}
    assert verdict.seeds == (1, 3, 4) and {seed for seed in seeds if seed < 1000} == {1, 3, 4}
    assert len([seed for seed in seeds if seed > 1000]) == len(rows[0].values)
    assert (verdict.plain_trials, verdict.plain_keys) == (2, ("training.lr",))


@pytest.mark.parametrize(
    ("lr", "roles"),
    [
        (0.03, {("champion",): "t0001", ("twin",): None, ("default",): "t0000"}),
        (0.01, {("champion",): "t0001", ("twin", "default"): "t0000"}),
    ],
)
def test_equal_opponents_are_one_training(
    lr: float, roles: dict[Any, Any], tmp_path: Path, data: Path, trainer: Any
) -> None:
    verdict = confirm(two_armed(tmp_path, data, **{"training.lr": lr}), top=1, seeds=2)
    assert {one.roles: one.trial_id for one in verdict.opponents} == roles
    assert len(trainer.trained) == 2 * (1 + len(roles))


def test_a_curriculum_whose_checkpoints_never_saw_some_pairs_meets_these_pairs_without_its_order(
    tmp_path: Path, data: Path, trainer: Any
) -> None:
    """By its pacing, or because dev chose a checkpoint before its end."""
    left_out = two_armed(tmp_path / "left out", data, **{"curriculum.final_share": 0.5})
    early = two_armed(tmp_path / "early", data)
    rewrite(early.journal, {'"dev_map": 0.9': '"available_share": 0.65, "dev_map": 0.9'})
    for folder, share in ((left_out, 0.5), (early, 0.65)):
        verdict = confirm(folder, seeds=2, trials=("t0003",), top=1)
        [filtered] = [one for one in verdict.opponents if "filter" in one.roles]
        assert {filtered.params[f"curriculum.{key}"] for key in ("delta", "final_share")} == {share}
        assert filtered.params["curriculum.scoring"] == "context_words" and filtered.params["training.lr"] == 0.02
        twin = next(one for one in verdict.opponents if "twin" in one.roles)
        assert verdict.filter_against_plain
        assert verdict.filter_against_plain.difference == pytest.approx(filtered.mean - twin.mean)
    assert not confirm(two_armed(tmp_path / "all", data), seeds=2, top=1).filter_against_plain


def test_a_default_that_the_selection_shows_below_the_champion_is_no_opponent(
    tmp_path: Path, data: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = two_armed(tmp_path, data, **{"training.lr": 0.03})
    monkeypatch.setattr(module, "is_clearly_below", lambda default, champion, metric: True)
    roles = [one.roles for one in confirm(folder, top=2, seeds=2).opponents]
    assert sorted(roles) == [("champion",), ("twin",)] or roles == [("champion", "twin")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": ("t0002", "t0009")}, r"--trials: search 'toy' has no trial 't0009'; ids as"),
        ({"trials": ("t0001",)}, "--trials: trial 't0001' is plain training"),
        ({"top": 2, "seeds": 1}, r"--seeds: 1 .*--top 1"),
        ({"seeds": 0}, "--seeds: 0 is not between"),
        ({"split": "train"}, "--split: 'train'"),
    ],
)
def test_what_cannot_be_tested_is_named(
    tmp_path: Path, data: Path, trainer: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        confirm(two_armed(tmp_path, data), **options)
    assert trainer.trained == []


def test_each_seed_draws_teacher_and_label_noise_anew(
    tmp_path: Path, data: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    teachers: dict[int, set[bytes]] = {}
    noises: dict[int, set[str]] = {}
    complete = factory.completed

    def seen(run: Any, prepared: Any) -> Any:
        made = complete(run, prepared)
        noises.setdefault(run.seed, set()).add(made.data.splits["train"].grade.tobytes().hex())
        if "teacher" in run.teachers:
            teachers.setdefault(run.seed, set()).add(made.teachers["teacher"].tobytes())
        return made

    monkeypatch.setattr(factory, "completed", seen)
    noisy = "data.label_noise.share=.5", "training.loss=pointwise"
    confirm(two_armed(tmp_path, data, *noisy), top=1, seeds=2, trials=("t0002", "t0003"))
    assert len(teachers) == len(noises) == 2 and {len(one) for one in (*teachers.values(), *noises.values())} == {1}
    assert len({one for each in noises.values() for one in each}) == 2, "another one for each seed"
    assert len({one for each in teachers.values() for one in each}) == 2


TREES = """
ranker: {name: lambdamart, leaves: 4, min_data_in_leaf: 2, trees_per_iteration: 2, bagging_fraction: %s}
curriculum: {objective_switch: {choice: [none, mse]}, switch: 2}
training: {max_iterations: 2}
baseline: {curriculum.objective_switch: none}
seed: 2
"""


@pytest.mark.parametrize(("bagging", "seeds"), [(1, 3), (0.5, 2)])
def test_where_the_seed_changes_nothing_one_is_trained_and_tested_over_queries(
    tmp_path: Path, trainer: type[LocalTrainer], bagging: float, seeds: int
) -> None:
    (tmp_path / "letor").mkdir()
    for split, name in {"train": "train.txt", "dev": "vali.txt", "test": "test.txt"}.items():
        (tmp_path / "letor" / name).write_text(letor_text(letor_data(), split))
    squared = [{"curriculum.objective_switch": "mse"}]
    verdict = confirm(ended_search(tmp_path, tmp_path / "letor", TREES % bagging, squared), seeds=seeds)
    assert len(verdict.curriculum.values) == (1 if bagging == 1 else 2)
    [one] = verdict.opponents
    assert one.p and (one.p == verdict.fixed_seeds.p) == (bagging == 1)


# -- asked again ---------------------------------------------------------------------------------------------------


def test_more_seeds_train_only_those_that_are_missing_and_are_a_further_look(
    confirmed: Confirmed, confirmed_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    again = confirm(confirmed_folder, seeds=2, trials=BOTH)
    assert trainer.trained == [] and essence(again) == essence(confirmed.verdict), "the same look"
    assert len(state_of(confirmed_folder).verdicts) == 1, "MLflow would have its points twice"
    more = confirm(confirmed_folder, seeds=3, trials=BOTH)
    assert trainer.trained == [f"{label}, seed 4" for label in (DEFAULT, *LABELS, PLAIN)]
    assert (more.look.number, more.look.level) == (2, 0.0063) and "test 2" in str(more)
    assert more.curriculum.values[:2] == confirmed.verdict.curriculum.values
    state = state_of(confirmed_folder)
    assert len(state.confirmations) == 12 and state.seconds == 10, "the time of a confirmation is not the search's"


def test_a_search_that_has_not_ended_has_no_verdict(confirmed_folder: SearchFolder) -> None:
    whole = confirmed_folder.journal.read_text().splitlines(True)
    confirmed_folder.journal.write_text("".join(line for line in whole if '"search_end"' not in line))
    with pytest.raises(ConfigError, match="resume toy"):
        confirm(confirmed_folder, top=1, seeds=2)


def test_a_configuration_with_a_failed_seed_is_told_and_not_tested(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    trainer.fails = {f"{LABELS[0]}, seed 4": NAN}
    verdict = confirm(confirmed_folder, seeds=3, trials=BOTH)
    assert verdict.curriculum.label == LABELS[1] and not verdict.others
    assert [(one.label, one.seed, one.reason) for one in verdict.failures] == [(LABELS[0], 4, NAN)]
    trainer.fails = {f"{PLAIN}, seed 5": NAN}
    assert not confirm(confirmed_folder, seeds=4, trials=BOTH).others, "what lacks an opponent has no verdict"
    trainer.fails = {f"{DEFAULT}, seed 6": NAN}
    with pytest.raises(WorkFailed, match=rf"{DEFAULT}, seed 6 .*{NAN} .*/seed-6"):
        confirm(confirmed_folder, seeds=5, trials=BOTH)


@pytest.mark.parametrize("damage", ["nan", "another query"])
def test_values_that_cannot_be_paired_name_their_training(
    confirmed_folder: SearchFolder, trainer: type[LocalTrainer], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = module.values_frame.__globals__["read_per_query"]

    def wrong(path: Path, metric: str) -> dict[str, float]:
        values = read(path, metric)
        if "seed-3" in str(path):
            first = next(iter(values))
            values = values | {first: float("nan")} if damage == "nan" else {"other": values.pop(first), **values}
        return values

    monkeypatch.setitem(module.values_frame.__globals__, "read_per_query", wrong)
    with pytest.raises(WorkFailed, match=r"seed 3.*(is not a number for a query|values of other queries)"):
        confirm(confirmed_folder, seeds=2, trials=BOTH)


def test_seeds_follow_the_cost_and_a_plan_says_what_they_find(
    confirmed: Confirmed, confirmed_folder: SearchFolder, search_folder: SearchFolder
) -> None:
    state = state_of(confirmed_folder)
    assert default_seeds(state) == 20, "a training takes no minute"
    plan = plan_of(confirmed_folder, state, Request(trials=("t0002",)))
    assert [row.seeds for row in plan.rows] == [3, 5, 10, 20, 50] and "verdict on test" in plan.source
    detectable, power = plan.table["detectable"].tolist(), plan.table["power"].tolist()
    assert detectable == sorted(detectable, reverse=True) and power == sorted(power)
    assert plan.rows[0].trainings == 3 * (1 + len(confirmed.verdict.opponents)) and plan.rows[0].hours
    with pytest.raises(ConfigError, match=r"--plan: .*confirm first"):
        plan_of(search_folder, state_of(search_folder), Request())


# -- stopped and refused -------------------------------------------------------------------------------------------


def test_one_killed_between_and_inside_trainings_ends_like_an_unbroken_one(
    tmp_path: Path, data: Path, trainer: type[LocalTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, trained = confirm(two_armed(tmp_path / "whole", data), top=2, seeds=2), list(trainer.trained)
    broken = two_armed(tmp_path / "broken", data)
    trainer.trained.clear()
    for left in (3, 4):
        trainer.left = left
        with pytest.raises(Interrupted, match=r"confirm toy --storage .* --seeds 2"):
            confirm(broken, top=2, seeds=2)
    trainer.left = 1000
    with monkeypatch.context() as patch:
        patch.setattr(Training, "iterate", stopping_after(1))
        with pytest.raises(Interrupted):
            confirm(broken, top=2, seeds=2)
    begun, iterate = list[int](), Training.iterate
    monkeypatch.setattr(Training, "iterate", lambda training: begun.append(training.iteration) or iterate(training))
    assert essence(confirm(broken, top=2, seeds=2)) == essence(whole)
    assert begun[0] == 1, "it goes on from its last state"
    assert sorted(trainer.trained) == sorted(trained), "each once"


def test_data_that_has_changed_since_the_search_is_refused(
    search_folder: SearchFolder, trainer: type[LocalTrainer]
) -> None:
    rewrite(search_folder.journal, {state_of(search_folder).data["digest"]: "0" * 64})
    with pytest.raises(DataError, match="has changed"):
        confirm(search_folder)
    assert trainer.trained == []


def test_mlflow_has_the_verdict_and_a_run_for_each_configuration(
    confirmed: Confirmed, confirmed_folder: SearchFolder
) -> None:
    mlflow = pytest.importorskip("mlflow")
    from tune_cl.history.journal import Journal
    from tune_cl.tracking.writer import MlflowWriter

    uri = f"sqlite:///{confirmed_folder.storage}/mlflow.db"
    with Journal(confirmed_folder.folder) as journal:
        assert MlflowWriter(journal, uri).close(120) == 0
    runs = mlflow.MlflowClient(uri).search_runs([mlflow.MlflowClient(uri).get_experiment_by_name("toy").experiment_id])
    [parent] = [run for run in runs if run.data.tags["tune_cl.kind"] == "search"]
    verdict = confirmed.verdict
    tags = {key: parent.data.tags[f"tune_cl.{key}"] for key in ("verdict", "opponent")}
    assert tags == {"verdict": verdict.verdict, "opponent": verdict.opponents[0].label}
    assert float(parent.data.tags["tune_cl.p"]) == verdict.opponents[0].p
    assert verdict.headline in parent.data.tags["mlflow.note.content"]
    rows = [run for run in runs if run.data.tags["tune_cl.kind"] == "configuration"]
    means = {run.data.tags["tune_cl.label"]: run.data.metrics["test_map_mean"] for run in rows}
    assert means == {one.label: one.mean for one in (verdict.curriculum, *verdict.opponents)}
    assert {run.data.metrics["test_map_n"] for run in rows} == {2.0}
