"""The two arms of a search: plain trials search what the baseline leaves open, in turns with the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.toy_search import SPACE, Killed, ToyTrainer, toy
from trainables.core.errors import ConfigError
from tune_cl.experiment.search_parts import new_sampler
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState, replay
from tune_cl.search.driver import SearchProgress, pair_fields

LR = "training.lr={loguniform: [1e-4, 1e-1]}"
SHORT = ["training.max_iterations=4", "search.searcher=random", "search.trials=6"]


def state_of(folder: Path) -> SearchState:
    with Journal(folder) as journal:
        return replay(journal.events())


def arms_of(folder: Path) -> list[str]:
    return [trial.arm for trial in state_of(folder).by_number()]


def shared(state: SearchState, trial: str) -> dict[str, Any]:
    """A trial's values outside of its curriculum."""
    params = state.trials[trial].params
    return {key: value for key, value in params.items() if not key.startswith("curriculum.")}


@pytest.mark.parametrize("trials", [10, 9, 2, 1])
def test_a_search_is_the_default_and_then_pairs(tmp_path: Path, trials: int) -> None:
    experiment = toy(tmp_path, LR, f"search.trials={trials}")
    ToyTrainer(tmp_path / "a", experiment).work()
    state = state_of(tmp_path / "a")
    assert arms_of(tmp_path / "a") == ["plain", *(["curriculum", "plain"] * 5)][: trials - 1 + trials % 2] + (
        [] if trials % 2 else ["curriculum"]
    )
    pairs = state.pairs()
    assert [pair.curriculum for pair in pairs] == state.trials_of("curriculum"), "each has a twin, the last one too"
    assert all(shared(state, pair.curriculum.trial) == shared(state, pair.twin.trial) for pair in pairs)
    assert all(pair.twin.point["curriculum.pacing"] == "none" for pair in pairs)
    assert all(pair.curriculum.seed == pair.twin.seed for pair in pairs)
    whole = [pair for pair in pairs if pair.twin.twin == pair.curriculum.trial]
    assert [pair.curriculum.led_by for pair in whole] == ["curriculum", "plain", "curriculum", "plain"][: len(whole)]
    assert all(pair.twin.led_by == pair.curriculum.led_by for pair in whole)
    default = state.trials["t0000"]
    assert (default.twin, default.led_by) == (None, None)


SEARCHERS = ["random", "tpe", "gp", "grid"]
FINITE = ["training.lr={choice: [0.1, 0.2]}", "curriculum.delta={choice: [0.2, 0.5, 0.7]}"]


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_twin_is_trained_once(tmp_path: Path, searcher: str) -> None:
    """Two learning rates: all but two of the trials are curricula."""
    experiment = toy(tmp_path, *FINITE, f"search.searcher={searcher}", "search.trials=8")
    ToyTrainer(tmp_path / "a", experiment).work()
    state = state_of(tmp_path / "a")
    assert (len(state.trials_of("plain")), len(state.trials_of("curriculum"))) == (2, 6)
    assert [pair.curriculum.trial for pair in state.pairs()] == [t.trial for t in state.trials_of("curriculum")]
    assert {pair.twin.trial for pair in state.pairs()} == {trial.trial for trial in state.trials_of("plain")}
    assert all(shared(state, pair.curriculum.trial) == shared(state, pair.twin.trial) for pair in state.pairs())


def test_a_grid_has_all_its_curricula_each_with_its_twin(tmp_path: Path) -> None:
    space = SPACE.replace("trials: 10, ", "").replace("tpe, startup_trials: 3", "grid")
    experiment = toy(tmp_path, *FINITE, "training.loss={choice: [pairwise, hinge]}", space=space)
    ToyTrainer(tmp_path / "a", experiment).work()
    state = state_of(tmp_path / "a")
    points = [trial.point for trial in state.trials_of("curriculum")]
    assert points == list(experiment.space.grid()) and len(state.trials_of("plain")) == 4
    assert len(state.pairs()) == len(points) and experiment.arms.total == len(points) + 4


@pytest.mark.parametrize("trials", [7, 20])
def test_the_first_pairs_try_each_loss_and_rate_before_any_again(tmp_path: Path, trials: int) -> None:
    options = ["training.loss={choice: [pairwise, hinge, cross_entropy]}", "training.lr={choice: [0.1, 0.2, 0.3]}"]
    experiment = toy(tmp_path, *options, f"search.trials={trials}", "search.startup_trials=9")
    for seed in range(4):
        seeded = replace(experiment, fixed={**experiment.fixed, "seed": seed})
        ToyTrainer(tmp_path / str(seed), seeded).work()
        first = state_of(tmp_path / str(seed)).pairs()[:3]
        for key in ("training.loss", "training.lr"):
            assert len({pair.curriculum.params[key] for pair in first}) == 3


@pytest.mark.parametrize(("trials", "expected"), [(3, 1), (12, 2), (24, 4), (48, 8), (100, 8)])
def test_a_third_of_an_arm_is_drawn_at_random_by_default(tmp_path: Path, trials: int, expected: int) -> None:
    space = SPACE.replace("startup_trials: 3, ", "")
    experiment = toy(tmp_path, LR, f"search.trials={trials}", space=space)
    assert [new_sampler(experiment, arm).startup_trials for arm in ("plain", "curriculum")] == [expected] * 2


def test_a_curriculum_that_does_nothing_has_a_twin_that_trains_the_same(tmp_path: Path) -> None:
    """Everything is open from the start: no trial of the curriculum arm can differ from its twin."""
    idle = ["curriculum.delta=1", "curriculum.pacing={choice: [linear, root]}", LR, "search.trials=5"]
    ToyTrainer(tmp_path / "a", toy(tmp_path, *idle)).work()
    assert len(state_of(tmp_path / "a").pairs()) == 2


def test_without_pairs_only_the_default_is_plain(tmp_path: Path) -> None:
    experiment = toy(tmp_path, LR, "search.plain=0", "search.trials=5")
    ToyTrainer(tmp_path / "a", experiment).work()
    assert arms_of(tmp_path / "a") == ["plain"] + ["curriculum"] * 4 and not state_of(tmp_path / "a").pairs()


def test_a_question_without_shared_keys_has_the_default_as_the_twin_of_all(tmp_path: Path) -> None:
    ToyTrainer(tmp_path / "a", toy(tmp_path, "search.trials=5")).work()
    assert [pair.twin.trial for pair in state_of(tmp_path / "a").pairs()] == ["t0000"] * 4


def test_another_question_than_curricula_has_pairs(tmp_path: Path) -> None:
    space = """
data: docstrings
ranker: knrm
training:
  max_iterations: 4
  loss: softmax
  hard_negatives: {choice: [random, first_stage]}
  lr: {loguniform: [1e-4, 1e-1]}
baseline: {training.hard_negatives: random}
search: {trials: 7}
"""
    ToyTrainer(tmp_path / "a", toy(tmp_path, space=space)).work()
    state = state_of(tmp_path / "a")
    pairs = [(state.trials[p.curriculum.trial].params, state.trials[p.twin.trial].params) for p in state.pairs()]
    assert len(pairs) == 3 and all(one["training.lr"] == other["training.lr"] for one, other in pairs)
    assert {(one["training.hard_negatives"], other["training.hard_negatives"]) for one, other in pairs} == {
        ("first_stage", "random")
    }


def test_a_twin_trains_at_least_as_long_as_its_curriculum_is_protected(tmp_path: Path) -> None:
    pace = "curriculum.T={uniform: [0.1, 0.9]}"
    experiment = toy(tmp_path, LR, pace, "search.grace=curriculum", "search.searcher=random", "search.trials=20")
    ToyTrainer(tmp_path / "a", experiment).work()
    pairs = state_of(tmp_path / "a").pairs()
    own = [pair for pair in pairs if pair.twin.twin == pair.curriculum.trial]
    assert all(pair.twin.iterations >= experiment.config(pair.curriculum.point).grace for pair in own)


@pytest.mark.parametrize("options", [["search.scheduler=asha"], ["search.scheduler=model"],
                                     ["search.promotion=false"]], ids=str)  # fmt: skip
def test_killed_at_any_event_it_has_the_same_pairs(tmp_path: Path, options: list[str]) -> None:
    experiment = toy(tmp_path, LR, *SHORT, "search.searcher=tpe", "search.startup_trials=1", *options)
    whole = ToyTrainer(tmp_path / "whole", experiment).work()
    expected = [vars(trial) for trial in state_of(tmp_path / "whole").by_number()]
    for kill_after in range(0, whole.events, 8):
        cut = tmp_path / str(kill_after)
        with pytest.raises(Killed):
            ToyTrainer(cut, experiment, kill_after=kill_after).work()
        ToyTrainer(cut, experiment).work()
        got = [vars(trial) for trial in state_of(cut).by_number()]
        for one, other in zip(expected, got, strict=True):
            assert [one[key] for key in KEPT] == [other[key] for key in KEPT]


KEPT = ("trial", "arm", "twin", "led_by", "point", "params", "outcome", "results")


@pytest.mark.parametrize("searcher", ["tpe", "random"])
def test_at_every_prefix_of_the_journal_the_next_trial_is_the_one_that_came(tmp_path: Path, searcher: str) -> None:
    experiment = toy(tmp_path, LR, *SHORT, "search.trials=11", f"search.searcher={searcher}", "search.startup_trials=1")
    ToyTrainer(tmp_path / "a", experiment, concurrent=3).work()
    with Journal(tmp_path / "a") as journal:
        events = list(journal.events())
    begun = [at for at, event in enumerate(events) if event["event"] == "trial" and event["number"]]
    first = {event["trial"]: at for at, event in reversed(list(enumerate(events))) if event["event"] == "trial"}
    for at in begun:
        event = events[at]
        if first[event["trial"]] != at:  # goes on after a pause
            continue
        new = SearchProgress(experiment, iter(events[:at])).next_new()
        assert new is not None
        written = {"chosen": new.config.point, "arm": new.arm, **pair_fields(new)}
        assert json.loads(json.dumps(written)) == {key: event[key] for key in written}
        assert {"twin", "twins", "led_by"} & event.keys() <= written.keys()


def test_a_failed_twin_stays_the_twin_and_is_not_trained_again(tmp_path: Path) -> None:
    experiment = toy(tmp_path, *FINITE, "search.trials=8", "search.scheduler=none")
    trainer = ToyTrainer(tmp_path / "a", experiment)
    ended = trainer.search.ended
    trainer.search.ended = lambda trial: trainer.search.failed(trial, "none left") if trial == "t0002" else ended(trial)
    trainer.work()
    state = state_of(tmp_path / "a")
    assert len(state.pairs()) == len(state.trials_of("curriculum"))


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
    experiment = toy(tmp_path, pacing, "curriculum.n=2", "search.searcher=random", *options)
    ToyTrainer(tmp_path / "a", experiment).work()
    trials = state_of(tmp_path / "a").by_number()
    assert {trial.arm for trial in trials if not experiment.config(trial.point).is_plain} == {"curriculum"}
    assert all(experiment.config(trial.point).is_plain == (trial.arm == "plain") for trial in trials)
    assert len({json.dumps(trial.params) for trial in trials}) == len(trials), "nor twice"


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["baseline={curriculum.pacing: linear}", "curriculum.pacing=linear", "curriculum.delta=0.3", LR],
         "baseline: leaves nothing to compare"),
        ([LR, "search.plain=auto"], "search.plain: unknown value 'auto'; one of pairs, 0"),
        ([LR, "search.plain=0.5"], "search.plain: unknown value 0.5; one of pairs, 0"),
        (["search.startup_trials=0"], "search.startup_trials: "),
        ([LR, "search.plain=half"], "search.plain: "),
    ],
)  # fmt: skip
def test_arms_that_make_no_sense_are_refused(tmp_path: Path, options: list[str], wrong: str) -> None:
    with pytest.raises(ConfigError) as error:
        toy(tmp_path, *options)
    assert [wrong in str(problem) for problem in error.value.problems] == [True]
