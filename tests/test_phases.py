"""The three phases of a search: plain training, curricula where it is best, further seeds for the best of both."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.toy_search import SPACE, ToyTrainer, toy
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState, replay
from tune_cl.search.driver import SearchProgress
from tune_cl.search.phases import further_seeds, longest_grace, new_sampler, phases_of

LR = "training.lr={loguniform: [1e-4, 1e-1]}"
LONG = [LR, "training.max_iterations=4", "search.trials=24", "search.scheduler=none", "search.stop=never"]
SHORT = [LR, "training.max_iterations=4", "search.trials=9", "search.startup_trials=1"]
FINITE = ["training.lr={choice: [0.1, 0.2]}", "curriculum.delta={choice: [0.2, 0.5, 0.7]}"]


def state_of(folder: Path) -> SearchState:
    with Journal(folder) as journal:
        return replay(journal.events())


def searched(folder: Path, experiment: Experiment, **options: Any) -> SearchState:
    ToyTrainer(folder / "a", experiment, **options).work()
    return state_of(folder / "a")


def shared(state: SearchState, trial: str) -> dict[str, Any]:
    """A trial's values outside of its curriculum."""
    params = state.trials[trial].params
    return {key: value for key, value in params.items() if not key.startswith("curriculum.")}


# -- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "options", "expected"),
    [
        (1, [LR], (1, 0, 0, 0)),
        (4, [LR], (1, 3, 0, 0)),
        (6, [LR], (2, 4, 0, 0)),
        (12, [LR], (3, 6, 3, 0)),
        (16, [LR], (5, 7, 3, 1)),
        (24, [LR], (8, 10, 4, 2)),
        (48, [LR], (16, 20, 8, 4)),
        (48, ["training.lr={choice: [0.1, 0.2, 0.3]}"], (3, 33, 8, 4)),
        (24, [], (1, 17, 4, 2)),
        (24, [LR, "search.plain=0"], (1, 17, 4, 2)),
        (24, [*FINITE, "search.searcher=grid"], (1, 23, 0, 0)),
        (100, FINITE, (2, 24, 17, 8)),
    ],
)
def test_a_third_is_plain_and_a_quarter_further_seeds(
    tmp_path: Path, trials: int, options: list[str], expected: tuple[int, ...]
) -> None:
    phases = phases_of(toy(tmp_path, *options, f"search.trials={trials}"))
    assert (phases.plain, phases.curricula, phases.second, phases.third) == expected
    assert phases.trials == sum(expected) <= trials


@pytest.mark.parametrize(("trials", "expected"), [(12, (12, 12)), (24, (2, 3)), (48, (5, 6)), (100, (8, 8))])
def test_a_third_of_an_arm_is_drawn_at_random_and_all_of_a_small_search(
    tmp_path: Path, trials: int, expected: tuple[int, int]
) -> None:
    space = SPACE.replace("startup_trials: 3, ", "")
    experiment = toy(tmp_path, LR, f"search.trials={trials}", space=space)
    assert tuple(new_sampler(experiment, arm).startup_trials for arm in ("plain", "curriculum")) == expected


# -- whole searches --------------------------------------------------------------------------------------------------


def test_a_search_has_three_phases(tmp_path: Path) -> None:
    experiment = toy(tmp_path, *LONG)
    state = searched(tmp_path, experiment)
    trials = state.by_number()
    own = [trial for trial in state.trials_of("plain") if trial.twin]
    assert [trial.arm for trial in trials[:8]] == ["plain"] * 8
    assert {trial.seed for trial in trials[:18]} == {0} and not any(trial.repeats for trial in trials[:18])
    assert len(own) == 1 and state.trials[str(own[0].twin)].twin == own[0].trial, "one curriculum in eight"
    best = state.trials[max(trials[:8], key=lambda trial: trial.best("map").dev).trial]
    at_best = [pair for pair in state.pairs() if pair.twin is best]
    assert len(at_best) == 8 and len(state.pairs()) == 9
    assert all(shared(state, pair.curriculum.trial) == shared(state, pair.twin.trial) for pair in state.pairs())
    second, third = further_seeds(experiment)
    assert [trial.seed for trial in trials[18:]] == [second] * 4 + [third] * 2
    for trial in trials[18:]:
        first = state.trials[str(trial.repeats)]
        assert trial.point == first.point and trial.params == {**first.params, "seed": trial.seed}
        if trial.arm == "curriculum":
            twin = state.trials[str(trial.twin)]
            assert (twin.seed, twin.repeats) == (trial.seed, first.twin)


@pytest.mark.parametrize("scheduler", ["none", "asha", "model"])
def test_the_trials_of_a_phase_run_side_by_side_and_wait_for_all_of_the_one_before(
    tmp_path: Path, scheduler: str
) -> None:
    experiment = toy(tmp_path, *LONG, f"search.scheduler={scheduler}")
    ToyTrainer(tmp_path / "a", experiment, concurrent=4).work()
    second, third = further_seeds(experiment)
    running: dict[str, str] = {}
    most: dict[str, int] = {}  # trials at a time, by phase
    with Journal(tmp_path / "a") as journal:
        for event in journal.events():
            if event["event"] == "trial":
                first = "plain" if event["number"] < 8 else "curricula"
                running[event["trial"]] = phase = {second: "second", third: "third"}.get(event["seed"], first)
                assert set(running.values()) == {phase}
                most[phase] = max(most.get(phase, 0), len(running))
            elif event["event"] in ("end", "pause"):
                running.pop(event["trial"], None)  # a paused one ends without going on
    assert most == {"plain": 4, "curricula": 4, "second": 4, "third": 2}


def test_the_mean_over_seeds_chooses(tmp_path: Path) -> None:
    state = searched(tmp_path, toy(tmp_path, *LONG))
    values = state.dev_by_seed()
    several = {name: sum(values[name]) / len(values[name]) for name in values if len(values[name]) > 1}
    assert len(several) == 4
    assert [trial.trial for trial, _ in state.ranked()[:4]] == sorted(several, key=lambda name: -several[name])
    rest = [at.dev for _, at in state.ranked()[4:]]
    assert rest == sorted(rest, reverse=True)


def test_curricula_take_turns_at_the_best_three_settings_of_a_long_search(tmp_path: Path) -> None:
    state = searched(tmp_path, toy(tmp_path, *LONG, "search.trials=48", "search.searcher=random"))
    plain = [trial for trial in state.trials_of("plain") if not trial.twin]
    ranked = sorted(plain, key=lambda trial: -trial.best("map").dev)
    twins = [pair.twin.trial for number, pair in enumerate(state.pairs(), 1) if number % 8]
    assert twins[:7] == [ranked[place % 3].trial for place in range(7)] and set(twins) == {t.trial for t in ranked[:3]}


@pytest.mark.parametrize("searcher", ["random", "tpe"])
def test_a_setting_without_curricula_left_makes_room_for_the_next(tmp_path: Path, searcher: str) -> None:
    options = [*FINITE, f"search.searcher={searcher}", "search.trials=23", "search.scheduler=none"]
    state = searched(tmp_path, toy(tmp_path, *options, "curriculum.pacing={choice: [linear, geometric]}"))
    assert (len(state.trials_of("plain")), len(state.trials_of("curriculum"))) == (2, 12)
    assert {pair.twin.trial for pair in state.pairs()} == {"t0000", "t0001"}
    assert len({json.dumps(trial.params) for trial in state.by_number()}) == len(state.trials)


def test_a_grid_has_all_its_curricula_each_with_its_twin(tmp_path: Path) -> None:
    space = SPACE.replace("trials: 10, ", "").replace("tpe, startup_trials: 3", "grid")
    experiment = toy(tmp_path, *FINITE, "training.loss={choice: [pairwise, hinge]}", space=space)
    state = searched(tmp_path, experiment)
    points = [trial.point for trial in state.trials_of("curriculum")]
    assert points == list(experiment.space.grid()) and len(state.trials_of("plain")) == 4
    assert len(state.pairs()) == len(points) and phases_of(experiment).trials == len(state.trials)


def test_without_pairs_only_the_default_is_plain(tmp_path: Path) -> None:
    state = searched(tmp_path, toy(tmp_path, LR, "search.plain=0", "search.trials=5"))
    assert [trial.arm for trial in state.by_number()] == ["plain"] + ["curriculum"] * 4 and not state.pairs()


def test_a_question_without_shared_keys_has_the_default_as_the_twin_of_all(tmp_path: Path) -> None:
    state = searched(tmp_path, toy(tmp_path, "search.trials=5"))
    assert [pair.twin.trial for pair in state.pairs()] == ["t0000"] * 4


def test_a_search_over_other_keys_than_curricula_has_no_pairs(tmp_path: Path) -> None:
    space = "{data: docstrings, ranker: conv_knrm, training: {max_iterations: 4}, search: {trials: 9, searcher: tpe}}"
    state = searched(tmp_path, toy(tmp_path, LR, space=space))
    assert len(state.trials_of("plain")) == 1 and len(state.trials_of("curriculum")) == 6 and not state.pairs()
    assert sum(trial.repeats is not None for trial in state.by_number()) == 2


def test_another_question_than_curricula_has_pairs(tmp_path: Path) -> None:
    """One curriculum at each setting: all plain trials get theirs, and then further settings."""
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
    state = searched(tmp_path, toy(tmp_path, space=space))
    pairs = [(pair.curriculum.params, pair.twin.params) for pair in state.pairs()]
    assert len(pairs) == 3 and all(one["training.lr"] == other["training.lr"] for one, other in pairs)
    both = {(one["training.hard_negatives"], other["training.hard_negatives"]) for one, other in pairs}
    assert both == {("first_stage", "random")}


def test_published_curricula_come_first_at_the_best_settings(tmp_path: Path) -> None:
    space = "{curriculum: {weighting: {choice: [none, kde, reciprocal_rank]}, m: {choice: [5, 20]}}, ranker: knrm}"
    options = [LR, "search.points=published", "search.trials=24", "search.scheduler=none", "training.max_iterations=4"]
    experiment = toy(tmp_path, *options, space=space)
    first = searched(tmp_path, experiment).trials_of("curriculum")[: len(experiment.points)]
    chosen = [{key: value for key, value in trial.point.items() if key != "training.lr"} for trial in first]
    assert chosen == list(experiment.points) and len({trial.twin for trial in first}) == 1


# -- early stopping and failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["curriculum.T={uniform: [0.1, 0.8]}"], 8),
        (["curriculum.weighting={choice: [none, kde]}", "curriculum.m={choice: [2, inf]}"], 9),
        (["search.grace=3"], 3),
        (["search.grace=none"], 1),
    ],
)
def test_a_plain_trial_is_protected_as_long_as_any_curriculum(
    tmp_path: Path, options: list[str], expected: int
) -> None:
    experiment = toy(tmp_path, LR, "search.grace=curriculum", "search.trials=12", *options)
    assert longest_grace(experiment) == expected
    assert all(trial.iterations >= expected for trial in searched(tmp_path, experiment).trials_of("plain"))


def test_further_seeds_and_twins_at_other_settings_run_to_their_end(tmp_path: Path) -> None:
    options = [LR, "search.trials=24", "search.stop=never", "search.grace=none"]
    trials = searched(tmp_path, toy(tmp_path, *options), concurrent=3).by_number()
    never_stopped = [trial for trial in trials if trial.repeats or (trial.arm == "plain" and trial.twin)]
    assert len(never_stopped) >= 6 and {trial.outcome for trial in never_stopped} == {"completed"}
    outcomes = {trial.trial: trial.outcome for trial in trials}
    assert {outcomes[trial.repeats] for trial in trials if trial.repeats} <= {"completed", "baseline"}


def test_curricula_come_although_plain_trials_failed(tmp_path: Path) -> None:
    trainer = ToyTrainer(tmp_path / "a", toy(tmp_path, LR, "search.trials=12", "search.scheduler=none"))
    ended = trainer.search.ended
    trainer.search.ended = lambda trial: trainer.search.failed(trial, "lost") if trial < "t0003" else ended(trial)
    trainer.work()
    state = state_of(tmp_path / "a")
    assert len(state.trials_of("curriculum")) == 6 and len(state.pairs()) == 6
    assert all(state.trials[str(trial.repeats)].outcome == "completed" for trial in state.by_number()[9:])


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "probability", "trials"), [("nothing_to_find", 0.09, 22), ("nothing_to_find", 0.1, 24), ("never", 0.0, 24)]
)
def test_a_search_ends_where_nothing_is_to_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str, probability: float, trials: int
) -> None:
    effects = SimpleNamespace(worth_finding=probability)
    monkeypatch.setattr("tune_cl.verdict.pairs.search_effects", lambda *_: effects)
    trainer = ToyTrainer(tmp_path / "a", toy(tmp_path, *LONG, f"search.stop={stop}"), concurrent=2).work()
    assert len(state_of(tmp_path / "a").trials) == trials
    assert (trainer.search.ended_by or "").endswith("2 trainings saved") == (trials == 22)


# -- exact resume ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("searcher", ["tpe", "random"])
def test_at_every_prefix_of_the_journal_the_next_trial_is_the_one_that_came(tmp_path: Path, searcher: str) -> None:
    experiment = toy(tmp_path, *SHORT, "search.trials=17", f"search.searcher={searcher}")
    ToyTrainer(tmp_path / "a", experiment, concurrent=3).work()
    with Journal(tmp_path / "a") as journal:
        events = list(journal.events())
    seen: set[str] = set()
    for at, event in enumerate(events):
        if event["event"] != "trial" or event["trial"] in seen:
            continue
        seen.add(event["trial"])
        new = SearchProgress(experiment, iter(events[:at])).next_new()
        assert new is not None
        written = {"chosen": new.config.point, "arm": new.arm, "seed": new.seed, **new.fields}
        assert json.loads(json.dumps(written)) == {key: event[key] for key in written}
        assert {"twin", "repeats"} & event.keys() <= written.keys()
