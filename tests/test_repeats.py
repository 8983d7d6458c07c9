"""`search.repeats`: a race over seeds within the search, and what is made of a configuration's several trainings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tests.test_search import SPACE, Crew, Killed, summary
from trainables.errors import ConfigError
from tune_cl.commands.result import render
from tune_cl.confirmation.plan import baseline_of, best_configurations
from tune_cl.experiment import Experiment, load_experiment
from tune_cl.search.budget import best_value, finals
from tune_cl.search.repeats import LEVEL, LOWEST_SEED, Race, chance_of_no_less, seed_of
from tune_cl.search.runner import best_of
from tune_cl.search.samplers import TpeSampler
from tune_cl.search.search import BASELINE_TRIAL, FINISHED, WAIT, Plan
from tune_cl.search.warm import observed

QUERIES = np.linspace(-1, 1, 20)


def race(seeds: int, *trainings: tuple[str, float]) -> tuple[Race, list[bool]]:
    """Trainings that end one after the other with this mean over QUERIES, which vary by one standard deviation."""
    raced, again = Race(seeds), []
    for number, (configuration, mean) in enumerate(trainings):
        if configuration in raced.due:
            raced.begun(configuration)
        raced.result(f"t{number}", 1, [0.0] * 20)
        raced.result(f"t{number}", 2, list(mean + 0.1 * np.roll(QUERIES, number)))
        again.append(raced.ended(f"t{number}", configuration, 2))
    return raced, again


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=40, unique=True))
def test_the_chance_is_that_of_the_one_sided_paired_test(differences: list[int]) -> None:
    values = np.asarray(differences) / 1000
    expected = ttest_1samp(values, 0.0, alternative="less").pvalue  # type: ignore[attr-defined]
    assert chance_of_no_less(values) == pytest.approx(expected, abs=1e-9)


def test_differences_without_spread() -> None:
    assert [chance_of_no_less(np.full(3, value)) for value in (0.125, 0.0, -0.125)] == [1.0, 1.0, 0.0]
    assert [chance_of_no_less(np.array([value])) for value in (0.1, -0.1)] == [1.0, 0.0]


def test_the_first_configuration_gets_all_seeds() -> None:
    raced, again = race(3, ("a", 0.5), ("a", 0.4), ("a", 0.6))
    assert again == [True, True, False] and not raced.due and raced.incumbent() == "a"


def test_a_configuration_far_below_the_incumbent_trains_once() -> None:
    raced, again = race(2, ("a", 0.5), ("a", 0.5), ("b", 0.3))
    assert not again[-1] and not raced.due


def test_a_better_one_is_the_incumbent_only_with_as_many_seeds() -> None:
    raced, again = race(3, ("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 0.8))
    assert again[-1] and raced.due == ["b"] and raced.incumbent() == "a"
    raced, again = race(3, ("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 0.8), ("b", 0.7), ("b", 0.6))
    assert again[-3:] == [True, True, False] and raced.incumbent() == "b"


def test_a_second_seed_may_end_a_race() -> None:
    """Equal under the first seed, far below over both."""
    raced, again = race(3, ("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 0.5), ("b", 0.1))
    assert again[-2:] == [True, False] and len(raced.values["b"]) == 2


def test_only_seeds_that_both_have_are_compared() -> None:
    """The incumbent's later seeds were luckier: under the first, b is above it."""
    _, again = race(3, ("a", 0.2), ("a", 0.9), ("a", 0.9), ("b", 0.3))
    assert again[-1]


def test_what_failed_or_was_stopped_is_not_repeated() -> None:
    raced = Race(3)
    raced.result("t1", 1, [0.5, 0.6])
    assert not raced.ended("t1", "t1", None) and not raced.due and not raced.values


def test_seeds_are_the_same_for_all_and_none_that_a_confirmation_uses() -> None:
    seeds = [seed_of(7, training) for training in range(50)]
    assert seeds[0] == 7 and len(set(seeds)) == 50 and min(seeds[1:]) >= LOWEST_SEED
    assert seeds == [seed_of(7, training) for training in range(50)]
    assert 0 < LEVEL < 0.5


# -- in a search ---------------------------------------------------------------------------------------------------

WAYS = {
    "asha": ["search.promotion=false"],
    "promotion": ["search.promotion=true"],
    "scaled": ["search.grace=scaled"],
    "median": ["search.scheduler=median"],
    "freeze-thaw": ["search.scheduler=model"],
    "none": ["search.scheduler=none", "search.searcher=random"],
}


def toy(tmp_path: Path, *options: str) -> Experiment:
    path = tmp_path / "toy.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path), ["search.repeats=3", "search.trials=16", *options])


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_killed_race_ends_like_an_unbroken_one(tmp_path: Path, options: list[str]) -> None:
    experiment = toy(tmp_path, *options)
    whole = Crew(tmp_path / "whole", experiment).work().search
    kills = 0
    while True:
        try:
            cut = Crew(tmp_path / "cut", experiment, kill_after=13).work().search
            break
        except Killed:
            kills += 1
    assert kills > 5
    assert summary(tmp_path / "cut") == summary(tmp_path / "whole")
    seeds = {trial.trial: (trial.seed, trial.repeat_of) for trial in whole.state.by_number()}
    assert {trial.trial: (trial.seed, trial.repeat_of) for trial in cut.state.by_number()} == seeds
    assert best_of(cut.state) == best_of(whole.state)


def test_repeats_come_at_once_run_to_the_end_and_count_as_trials(tmp_path: Path) -> None:
    state = Crew(tmp_path / "a", toy(tmp_path)).work().search.state
    trials = state.by_number()
    assert len(trials) == 16 and [trial.configuration for trial in trials[:3]] == [BASELINE_TRIAL] * 3
    assert [trial.baseline for trial in trials[:4]] == [True, True, True, False]
    own = 0
    for trial in trials:
        own = 0 if not trial.repeat_of else own + 1
        assert trial.seed == trial.params["seed"] == seed_of(0, own)  # no other configuration comes in between
        if trial.repeat_of:
            first = state.trials[trial.repeat_of]
            assert trial.chosen == first.chosen and first.outcome in ("completed", "baseline")
            assert len(trial.dev("map")) == 9 and trial.outcome == first.outcome
    assert any(trial.repeat_of not in (None, BASELINE_TRIAL) for trial in trials)
    assert max(len(values) for values in state.finals().values()) == 3


def test_the_sampler_hears_of_a_configuration_once_by_its_mean(tmp_path: Path) -> None:
    search = Crew(tmp_path / "a", toy(tmp_path)).work().search
    assert isinstance(search.sampler, TpeSampler)
    asked = [trial.trial for trial in search.state.by_number() if not trial.repeat_of]
    assert search.course.asked == {trial: number for number, trial in enumerate(asked)}
    assert sorted(search.sampler.chosen) == list(range(1, len(asked)))
    raced = {
        name: values for name, values in search.state.finals().items() if name != BASELINE_TRIAL and len(values) > 1
    }
    told = {name: search.sampler.told[search.course.asked[name]].value for name in raced if name not in search.race.due}
    assert told and told == {name: pytest.approx(fmean(raced[name])) for name in told}


def test_the_sampler_hears_of_a_configuration_when_its_race_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Counter[int] = Counter()
    tell = TpeSampler.tell
    monkeypatch.setattr(
        TpeSampler, "tell", lambda self, number, *rest: told.update([number]) or tell(self, number, *rest)
    )
    search = Crew(tmp_path / "a", toy(tmp_path, "search.scheduler=none")).work().search
    assert told and set(told.values()) == {1}
    assert any(trial.repeat_of for trial in search.state.by_number()[4:])


def test_a_race_compares_the_trainings_that_count(tmp_path: Path) -> None:
    """Under grace scaled, a trial is several trainings, one after the other; the best iteration is of the last."""
    search = Crew(tmp_path / "a", toy(tmp_path, "search.grace=scaled")).work().search
    finals = search.state.finals()
    means = {name: [float(np.mean(queries)) for queries in values] for name, values in search.race.values.items()}
    assert any(trial.offset for trial in search.state.by_number() if trial.trial in finals)
    assert means == {name: pytest.approx(finals[name], abs=1e-6) for name in means}


def test_what_was_stopped_early_has_no_part_in_the_race(tmp_path: Path) -> None:
    search = Crew(tmp_path / "a", toy(tmp_path, "search.promotion=false", "search.trials=30")).work().search
    ended = {trial.trial: trial.outcome for trial in search.state.by_number()}
    assert "stopped_early" in ended.values()
    assert {ended[name] for name in search.race.values} == {"baseline", "completed"}


def test_points_are_tried_in_their_order_between_repeats(tmp_path: Path) -> None:
    points = "search.points=[{curriculum.delta: 0.4}, {curriculum.delta: 0.41}, {curriculum.delta: 0.42}]"
    state = Crew(tmp_path / "a", toy(tmp_path, points)).work().search.state
    chosen = [trial.chosen for trial in state.by_number() if not trial.repeat_of]
    assert [values["curriculum.delta"] for values in chosen[1:4]] == [0.4, 0.41, 0.42]


def test_the_best_is_found_by_the_mean_over_seeds_everywhere(tmp_path: Path) -> None:
    experiment = toy(tmp_path)
    state = Crew(tmp_path / "a", experiment).work().search.state
    found, values = best_of(state), state.finals()
    most = max(len(devs) for devs in values.values())
    means = {name: fmean(devs) for name, devs in values.items() if len(devs) == most}
    winner = max(means, key=lambda name: means[name])
    assert found and state.trials[found["trial_id"]].configuration == winner
    assert found["seeds"] == [seed_of(0, own) for own in range(3)]
    assert found["dev_mean"] == pytest.approx(means[winner]) and found["dev"] == max(values[winner])
    assert best_value(state) == pytest.approx(means[winner])
    assert len(finals(state)) == len(values) - 1
    confirmed = best_configurations(state, baseline_of(state, experiment), 99)
    order = list(dict.fromkeys(trial.configuration for trial, _ in state.ranked()))
    assert [entry.trial for entry in confirmed] == [name for name in order if name != BASELINE_TRIAL]
    state.data["digest"] = "of the same data"
    seen = [seen.value for seen in observed(experiment, "of the same data", state)]
    assert sorted(seen) == sorted(fmean(devs) for name, devs in values.items() if name != BASELINE_TRIAL)


def test_the_result_shows_means_where_there_are_several_seeds() -> None:
    best: dict[str, Any] = {"trial_id": "t0003", "params": {}, "dev": 0.5, "iteration": 2}
    plain = {"params": {}, "dev": 0.4, "iteration": 2}
    document: dict[str, Any] = dict.fromkeys(("search", "ranker", "data", "metric", "mlflow_view"), "x")
    document |= {"trials": 4, "stopped_early": 0, "errored": 0, "iterations": 8, "seconds": 1.0}
    document |= {"storage": "/tmp/runs", "tracking_uri": "http://here", "best": best, "baseline": plain}
    assert "+0.1000 x on dev. The best of many trials on one seed" in render(document)
    best |= {"seeds": [0, 9], "dev_mean": 0.45}
    plain |= {"seeds": [0, 9], "dev_mean": 0.42}
    shown = render(document)
    assert "+0.0300 x on dev. The best of many trials on a few seeds" in shown and "mean over seeds" in shown


def test_a_space_that_is_used_up_waits_for_its_repeats(tmp_path: Path) -> None:
    choices = ["curriculum.delta=0.5", "curriculum.pacing={choice: [linear, geometric]}", "curriculum.n=2"]
    experiment = toy(tmp_path, *choices, "search.scheduler=none", "search.searcher=grid")
    crew = Crew(tmp_path / "a", experiment, slots=4)
    running = [plan for _ in range(3) if isinstance(plan := crew.search.next_trial(), Plan)]
    assert len(running) == 3 and crew.search.next_trial() == WAIT
    done(crew, running[0])
    again = crew.search.next_trial()
    assert isinstance(again, Plan) and crew.search.state.trials[again.trial].repeat_of == BASELINE_TRIAL
    crew.journal.close()
    assert experiment.trials == 9


def done(crew: Crew, plan: Plan) -> None:
    training = crew.training(plan)
    while next(training, False):
        pass


def test_a_failed_repeat_ends_its_race(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "a", toy(tmp_path, "search.trials=4"))
    plans: list[Any] = [crew.search.next_trial()]
    done(crew, plans[0])
    plans.append(crew.search.next_trial())
    crew.search.failed(plans[1].trial, "its process ended")
    plans.append(crew.search.next_trial())
    state = crew.search.state
    crew.journal.close()
    assert [state.trials[plan.trial].repeat_of for plan in plans] == [None, BASELINE_TRIAL, None]
    assert plans[2].run.seed == 0 and crew.search.next_trial() == WAIT != FINISHED


def test_a_configuration_whose_repeat_failed_counts_by_what_it_came_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tune_cl.search.repeats.chance_of_no_less", lambda differences: 1.0)  # all are repeated
    crew = Crew(tmp_path / "a", toy(tmp_path, "search.repeats=2", "search.scheduler=none"))
    for _ in range(3):  # the baseline twice, then another configuration
        plan = crew.search.next_trial()
        assert isinstance(plan, Plan)
        done(crew, plan)
    again = crew.search.next_trial()
    assert isinstance(again, Plan) and crew.search.state.trials[again.trial].repeat_of == plan.trial
    crew.search.failed(again.trial, "its process ended")
    crew.journal.close()
    assert isinstance(crew.search.sampler, TpeSampler)
    [told] = crew.search.sampler.told.values()
    assert told.state.name == "COMPLETE" and told.value == crew.search.state.finals()[plan.trial][0]


def test_repeats_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"search.repeats: trials change their configuration under pbt"):
        toy(tmp_path, "search.scheduler=pbt", "search.searcher=random")
