"""The two arms of a search: plain trials search what the baseline leaves open, in turns with the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pair_data import pair_folder
from tests.support.report_cases import Case
from tests.support.toy_search import SPACE, Killed, ToyTrainer, summary
from trainables.config.function import objective_of
from trainables.core.errors import ConfigError
from tune_cl.cli import BAD_INPUT, main
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.plain_tuning import leaves_to_tune, with_tuning
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState, experiment_of, replay

LR = "training.lr={loguniform: [1e-4, 1e-1]}"
SHORT = ["training.max_iterations=4", "search.searcher=random", "search.trials=6"]


def opened(folder: Path, *options: str, space: str = SPACE) -> Experiment:
    path = folder / "toy.yaml"
    path.write_text(space)
    return load_experiment(str(path), options)


def state_of(folder: Path) -> SearchState:
    with Journal(folder) as journal:
        return replay(journal.events())


def arms_of(folder: Path) -> list[str]:
    return [trial.arm for trial in state_of(folder).by_number()]


@pytest.mark.parametrize(("trials", "share", "plain"), [(10, "auto", 5), (9, "auto", 5), (8, 0.25, 2), (8, 0, 1)])
def test_arms_take_turns_and_get_their_trials(tmp_path: Path, trials: int, share: Any, plain: int) -> None:
    experiment = opened(tmp_path, LR, f"search.trials={trials}", f"search.plain={share}")
    ToyTrainer(tmp_path / "a", experiment).work()
    arms = arms_of(tmp_path / "a")
    assert (arms.count("plain"), len(arms)) == (plain, trials) and arms[0] == "plain"
    for seen in range(1, trials + 1):  # at any time, as many as its share, but for one
        assert abs(arms[:seen].count("plain") - seen * plain / trials) <= 1
    points = [trial.point for trial in state_of(tmp_path / "a").by_number() if trial.arm == "plain"]
    assert all(point["curriculum.pacing"] == "none" for point in points)
    assert len({point["training.lr"] for point in points}) == plain


def test_a_plain_trial_trains_as_long_as_the_curriculum_before_it(tmp_path: Path) -> None:
    experiment = opened(tmp_path, LR, "search.grace=curriculum", "search.searcher=random", "curriculum.T=0.6")
    ToyTrainer(tmp_path / "a", experiment).work()
    state = state_of(tmp_path / "a")
    assert min(trial.iterations for trial in state.by_number()) >= 6
    assert abs(state.iterations_of("plain") - state.iterations_of("curriculum")) <= 9


@pytest.mark.parametrize("promotion", ["false", "true"])
def test_killed_at_any_event_it_has_the_same_trials_in_both_arms(tmp_path: Path, promotion: str) -> None:
    experiment = opened(tmp_path, LR, *SHORT, f"search.promotion={promotion}")
    whole = ToyTrainer(tmp_path / "whole", experiment, concurrent=2).work()
    for kill_after in range(0, whole.events, 5):
        cut = tmp_path / str(kill_after)
        with pytest.raises(Killed):
            ToyTrainer(cut, experiment, concurrent=1, kill_after=kill_after).work()
        ToyTrainer(cut, experiment).work()
        assert arms_of(cut) == ["plain", "curriculum"] * 3
        if kill_after == 0:
            one_by_one = summary(cut)
        assert summary(cut) == one_by_one


@pytest.mark.parametrize(
    "options",
    [
        [
            "curriculum.delta={choice: [0.2, 0.5], when: {curriculum.pacing: linear}}",
            "training.lr={choice: [0.1, 0.2]}",
        ],
        ["curriculum.delta={uniform: [0.2, 0.5], when: {curriculum.pacing: linear}}", LR],
    ],
    ids=["finite", "continuous"],
)
def test_no_curriculum_trial_trains_as_a_plain_one(tmp_path: Path, options: list[str]) -> None:
    pacing = "curriculum.pacing={choice: [none, linear]}"
    experiment = opened(tmp_path, pacing, "curriculum.n=2", "search.searcher=random", *options)
    ToyTrainer(tmp_path / "a", experiment).work()
    trials = state_of(tmp_path / "a").by_number()
    assert {trial.arm for trial in trials if not experiment.is_plain(trial.point)} == {"curriculum"}
    assert all(experiment.is_plain(trial.point) == (trial.arm == "plain") for trial in trials)
    assert len({json.dumps(trial.params) for trial in trials}) == len(trials), "nor twice"


def of_version_0_1(folder: Path) -> None:
    """Takes out of a journal what version 0.1 did not write."""
    path = folder / "journal.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        for key in ("arm", "crc"):
            event.pop(key, None)
        if "yaml" in event:
            event["yaml"] = "\n".join(line for line in event["yaml"].splitlines() if "  plain:" not in line)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_a_search_of_0_1_goes_on_with_one_plain_trial_and_is_tuned_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with pytest.raises(Killed):
        ToyTrainer(folder, opened(tmp_path, *SHORT), kill_after=9).work()
    of_version_0_1(folder)
    experiment = experiment_of(state_of(folder))
    ToyTrainer(folder, experiment).work()
    before = summary(folder)
    assert arms_of(folder) == ["plain"] + ["curriculum"] * 5
    leaves = {key: leaf.document() for key, leaf in leaves_to_tune(experiment).items()}
    assert set(leaves) == {"training.lr", "training.batch_size", "training.loss"}
    for trials in (3, 1):  # the second call adds to the first
        event = {"event": "tune_plain", "trials": trials, "leaves": leaves, "time": 1.0}
        with Journal(folder) as journal:
            journal.append(event)
        with pytest.raises(Killed):
            ToyTrainer(folder, experiment_of(state_of(folder)), kill_after=2).work()
        ToyTrainer(folder, experiment_of(state_of(folder))).work()
    after = summary(folder)
    assert arms_of(folder)[6:] == ["plain"] * 4 and {key: after[key] for key in before} == before
    state = state_of(folder)
    assert (
        state.opened_in("plain") == list(leaves) and len({str(trial.params) for trial in state.trials.values()}) == 10
    )
    assert with_tuning(experiment, state.tuning).arm_trials["plain"] == 5


def test_trees_are_tuned_by_their_leaves_and_networks_by_losses_that_fit_their_other_keys(tmp_path: Path) -> None:
    assert set(leaves_to_tune(load_experiment("ferro2018"))) == {"training.lr", "ranker.leaves"}
    assert set(leaves_to_tune(load_experiment("dense"))) == {"training.lr", "training.batch_size"}
    smooth = ["training.loss=cross_entropy", "training.label_smoothing=0.1"]
    assert "training.loss" not in leaves_to_tune(load_experiment("negatives", smooth))
    paced = "{ranker: embedding, curriculum: {scoring: random, pacing: {choice: [none, linear]}}}"
    of_pairs = opened(tmp_path, f"data.source={pair_folder(tmp_path / 'pairs')}", space=paced)
    assert leaves_to_tune(of_pairs)["training.loss"].document() == {"choice": ["cross_entropy", "hinge"]}


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["baseline={curriculum.pacing: linear}", "curriculum.pacing=linear", "curriculum.delta=0.3", LR],
         "baseline: leaves nothing to compare"),
        (["search.plain=0.5"], "search.plain: plain trials have nothing to search"),
        ([LR, "search.plain=0.9", "search.trials=2"], "search.plain: 0.9 of 2 trials leaves an arm without any"),
        ([LR, "search.plain=1"], "search.plain: "),
        ([LR, "search.plain=half"], "search.plain: "),
    ],
)  # fmt: skip
def test_arms_that_make_no_sense_are_refused(tmp_path: Path, options: list[str], wrong: str) -> None:
    with pytest.raises(ConfigError) as error:
        opened(tmp_path, *options)
    assert [wrong in str(problem) for problem in error.value.problems] == [True]


def train(config: dict[str, Any], trial: Any) -> None:
    """A function of a user."""


def test_where_nothing_can_be_tuned_tune_plain_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_lr = opened(tmp_path, LR, space="{data: docstrings, ranker: knrm, search: {trials: 4}}")
    own = "{parameters: {k: 1}, curriculum: {pacing: {choice: [linear, step]}}, search: {trials: 4}}"
    (tmp_path / "own.yaml").write_text(own)
    of_function = load_experiment(str(tmp_path / "own.yaml"), objective=objective_of(train))
    for experiment, wrong in ((only_lr, "all its trials are plain"), (of_function, "searches no key outside baseline")):
        with pytest.raises(ConfigError) as error:
            leaves_to_tune(experiment)
        assert wrong in str(error.value)
    case = Case(tmp_path)
    case.add([0.3], "baseline")
    storage = str(case.write().storage)
    for options in (["--trials", "0"], ["--trials", "-1"]):
        assert main(["tune-plain", "toy", "--storage", storage, *options]) == BAD_INPUT
        assert capfd.readouterr().err.count("error: --trials: ") == 1
    assert main(["tune-plain", "toys", "--storage", storage]) == BAD_INPUT
