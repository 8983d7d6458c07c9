"""`search.repeats` in a search: when repeats run, and what a configuration's several trainings are used for."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.support.toy_search import SPACE, Crew, Killed, summary
from trainables.core.errors import ConfigError
from tune_cl.cli.search_result import render
from tune_cl.confirmation.request import baseline_configuration, best_configurations
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.samplers import TpeSampler
from tune_cl.search.driver import BASELINE_TRIAL, FINISHED, WAIT, Plan
from tune_cl.search.repeats import seed_of
from tune_cl.search.warm_start import observed
from tune_cl.search_document import baseline_result, best_of

WAYS = {
    "asha": ["search.promotion=false"],
    "promotion": ["search.promotion=true"],
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
        assert trial.seed == trial.params["seed"] == seed_of(0, own)  # no other configuration comes between repeats
        if trial.repeat_of:
            first = state.trials[trial.repeat_of]
            assert trial.point == first.point and first.outcome in ("completed", "baseline")
            assert len(trial.dev("map")) == 9 and trial.outcome == first.outcome
    assert any(trial.repeat_of not in (None, BASELINE_TRIAL) for trial in trials)
    assert max(len(values) for values in state.finals().values()) == 3


def test_the_sampler_hears_of_a_configuration_once_by_its_mean(tmp_path: Path) -> None:
    search = Crew(tmp_path / "a", toy(tmp_path)).work().search
    assert isinstance(search.sampler, TpeSampler)
    asked = [trial.trial for trial in search.state.by_number() if not trial.repeat_of]
    assert search.course.asked == {trial: number for number, trial in enumerate(asked)}
    assert sorted(search.sampler.points) == list(range(1, len(asked)))
    raced = {
        name: values for name, values in search.state.finals().items() if name != BASELINE_TRIAL and len(values) > 1
    }
    results, asked = search.sampler.results, search.course.asked
    told = {name: results[asked[name]].value for name in raced if name not in search.repeats.due}
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


def test_what_was_stopped_early_has_no_part_in_the_race(tmp_path: Path) -> None:
    search = Crew(tmp_path / "a", toy(tmp_path, "search.promotion=false", "search.trials=30")).work().search
    ended = {trial.trial: trial.outcome for trial in search.state.by_number()}
    assert "stopped_early" in ended.values()
    assert {ended[name] for name in search.repeats.values} == {"baseline", "completed"}


def test_points_are_tried_in_their_order_between_repeats(tmp_path: Path) -> None:
    points = "search.points=[{curriculum.delta: 0.4}, {curriculum.delta: 0.41}, {curriculum.delta: 0.42}]"
    state = Crew(tmp_path / "a", toy(tmp_path, points)).work().search.state
    points = [trial.point for trial in state.by_number() if not trial.repeat_of]
    assert [values["curriculum.delta"] for values in points[1:4]] == [0.4, 0.41, 0.42]


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
    assert found["devs"] == values[winner]
    confirmed = best_configurations(state, baseline_configuration(state, experiment), 99)
    order = list(dict.fromkeys(trial.configuration for trial, _ in state.ranked()))
    assert [entry.trial for entry in confirmed] == [name for name in order if name != BASELINE_TRIAL]
    state.data["digest"] = "of the same data"
    seen = [seen.value for seen in observed(experiment, "of the same data", state)]
    assert sorted(seen) == sorted(fmean(devs) for name, devs in values.items() if name != BASELINE_TRIAL)


def test_the_result_shows_means_where_there_are_several_seeds() -> None:
    best: dict[str, Any] = {"trial_id": "t0003", "params": {}, "dev": 0.5, "iteration": 2}
    plain = {"params": {}, "dev": 0.4, "iteration": 2}
    document: dict[str, Any] = dict.fromkeys(("search", "ranker", "data", "metric", "mlflow_view", "best_ranker"), "x")
    document |= {"trials": 4, "stopped_early": 0, "errored": 0, "iterations": 8, "seconds": 1.0, "rankers": ["x"]}
    document |= {"storage": "/tmp/runs", "tracking_uri": "http://here", "best": best, "baseline": plain}
    assert "+0.1000 x on dev. The best of many trials on one seed" in render(document)
    best |= {"seeds": [0, 9], "dev_mean": 0.45, "devs": [0.5, 0.4]}
    plain |= {"seeds": [0, 9], "dev_mean": 0.42, "devs": [0.4, 0.44]}
    shown = render(document)
    assert "+0.0300 x on dev. The best of many trials on a few seeds" in shown and "mean over seeds" in shown
    plain |= {"seeds": [0], "dev_mean": 0.4, "devs": [0.4]}  # the second training failed
    assert "+0.1000 x on dev over the seeds that both have. The best of many trials on one seed" in render(document)


@pytest.mark.parametrize("order", range(6))
def test_in_whatever_order_trials_end_the_best_and_the_baseline_have_the_same_seeds(tmp_path: Path, order: int) -> None:
    options = ("search.scheduler=median", "search.trials=9")
    crew, turns = Crew(tmp_path / "a", toy(tmp_path, *options), slots=2 + order % 2), random.Random(order)
    crew.ask()
    while crew.running:
        trial = turns.choice(list(crew.running))
        if not next(crew.running[trial], False):
            del crew.running[trial]
        crew.ask()
    crew.journal.close()
    state, race = crew.search.state, crew.search.repeats
    best, baseline = best_of(state), baseline_result(state)
    assert [trial.configuration for trial in state.by_number()[:3]] == [BASELINE_TRIAL] * 3
    assert best and baseline and best["seeds"] and set(best["seeds"]) == set(baseline["seeds"])
    assert len(baseline["seeds"]) == 3 and len(state.trials) == 9
    again = Crew(tmp_path / "a", crew.search.experiment).search.repeats
    assert (again.due, again.trainings, again.incumbent()) == (race.due, race.trainings, race.incumbent())


def test_a_space_that_is_used_up_waits_for_its_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tune_cl.search.repeats.chance_of_no_less", lambda differences: 1.0)  # all are repeated
    choices = ["curriculum.delta=0.5", "curriculum.pacing={choice: [linear, geometric]}", "curriculum.n=2"]
    experiment = toy(tmp_path, *choices, "search.scheduler=none", "search.searcher=grid")
    crew = Crew(tmp_path / "a", experiment, slots=6)
    running = [plan for _ in range(5) if isinstance(plan := crew.search.next_trial(), Plan)]
    assert len(running) == 5 and crew.search.next_trial() == WAIT
    done(crew, running[3])
    assert crew.search.next_trial() == WAIT, "the baseline has not ended its seeds"
    for plan in running[:3]:
        done(crew, plan)
    assert isinstance(crew.search.next_trial(), Plan)
    repeats = [trial.repeat_of for trial in crew.search.state.by_number()]
    assert repeats == [None, BASELINE_TRIAL, BASELINE_TRIAL, None, None, "t0003"]
    crew.journal.close()
    assert experiment.trials == 9


def done(crew: Crew, plan: Plan) -> None:
    training = crew.training(plan)
    while next(training, False):
        pass


@pytest.mark.parametrize("options", [[], ["curriculum.delta=0.5"]])
def test_the_scheduler_hears_when_no_new_configuration_comes(tmp_path: Path, options: list[str]) -> None:
    """All trials have begun, repeats among them; or all four combinations have."""
    experiment = toy(tmp_path, "search.scheduler=model", *options)
    crew = Crew(tmp_path / "a", experiment, slots=2)
    while not crew.search.scheduler.all_started:
        crew.ask()
        for trial, training in list(crew.running.items()):
            if not next(training, False):
                del crew.running[trial]
    begun = [trial for trial in crew.search.state.by_number() if not trial.repeat_of]
    assert len(begun) == 5 if options else len(begun) < len(crew.search.state.trials) == 16
    crew.journal.close()
    again = Crew(tmp_path / "a", experiment, slots=2).work().search
    assert again.scheduler.all_started
    assert len([trial for trial in again.state.by_number() if not trial.repeat_of]) == len(begun)


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
    [told] = crew.search.sampler.results.values()
    assert told.state.name == "COMPLETE" and told.value == crew.search.state.finals()[plan.trial][0]


def test_repeats_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"search.repeats: trials change their configuration under pbt"):
        toy(tmp_path, "search.scheduler=pbt", "search.searcher=random")
