"""The search without Ray: a simulated trainer of workers drives it through plans, results, kills and resumes."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.toy_search import SPACE, Killed, ToyTrainer, experiment, summary, toy
from tune_cl.experiment.experiment import Experiment
from tune_cl.samplers import TpeSampler
from tune_cl.search.driver import BASELINE_TRIAL, REPORTED
from tune_cl.search.phases import may_be_chosen
from tune_cl.search.trials import Plan

__all__ = ["experiment"]  # a fixture


def test_a_search_runs_its_trials_and_keeps_the_baseline_to_the_end(experiment: Experiment, tmp_path: Path) -> None:
    ToyTrainer(tmp_path / "a", experiment).work()
    trials = summary(tmp_path / "a")
    assert len(trials) == 10
    assert trials[BASELINE_TRIAL][1] == "baseline" and len(trials[BASELINE_TRIAL][3]) == 9
    outcomes = [outcome for _, outcome, _, _ in trials.values()]
    assert outcomes.count("stopped_early") >= 3 and outcomes.count("completed") >= 1
    assert all(len(dev) in (2, 4, 8) for _, outcome, _, dev in trials.values() if outcome == "stopped_early")


def test_a_search_killed_again_and_again_repeats_at_most_an_iteration_a_kill(
    experiment: Experiment, tmp_path: Path
) -> None:
    whole = ToyTrainer(tmp_path / "whole", experiment).work()
    iterated, kills = 0, 0
    while True:
        trainer = ToyTrainer(tmp_path / "cut", experiment, kill_after=7)
        try:
            trainer.work()
        except Killed:
            kills += 1
            iterated += trainer.iterated
            continue
        iterated += trainer.iterated
        break
    assert kills > 5
    assert summary(tmp_path / "cut") == summary(tmp_path / "whole")
    assert iterated <= whole.iterated + kills


WAYS = {
    "asha": ["search.scheduler=asha"],
    "promotion": ["search.scheduler=asha", "search.promotion=true"],
    "model": ["search.scheduler=model", "search.grace=1", "search.promotion=false"],
    "freeze-thaw": ["search.scheduler=model"],
}


@pytest.mark.parametrize("concurrent", [1, 3])
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_every_scheduler_ends_its_trials_and_survives_kills_without_the_checkpoints_of_those_that_have_ended(
    tmp_path: Path, options: list[str], concurrent: int
) -> None:
    experiment = toy(tmp_path, "search.searcher=random", "search.trials=14", *options)
    whole = ToyTrainer(tmp_path / "whole", experiment, concurrent).work()
    trials = summary(tmp_path / "whole")
    outcomes = [outcome for _, outcome, _, _ in trials.values()]
    assert 11 <= len(trials) == len(left(whole)) <= 14
    assert set(outcomes) == {"baseline", "completed", "stopped_early"}
    assert all(len(dev) == 9 for _, outcome, _, dev in trials.values() if outcome in ("baseline", "completed"))
    kills = 0
    while True:  # with several concurrent, which trials meet at a rung would depend on which are killed when
        tidy = Tidy(tmp_path / "cut", experiment, concurrent, 11 if concurrent == 1 else None)
        try:
            tidy.work()
            break
        except Killed:
            kills += 1
    tidy.kill_after = None
    tidy.tick()
    assert summary(tmp_path / "cut") == trials and (kills > 5 or concurrent > 1)
    best = tidy.search.state.best()
    kept = may_be_chosen(tidy.search.state, tidy.search.progress.phases)
    assert best and best[0].trial in left(tidy) and set(left(tidy)) <= set(kept) and tidy.most <= 8
    assert all(trial.artifacts for trial in tidy.search.state.by_number())


class Tidy(ToyTrainer):
    """Lets go of the checkpoints of ended trials at every step."""

    most = 0  # ended trials whose checkpoints were kept at once

    def tick(self) -> None:
        for name in self.search.unneeded():
            assert self.search.state.trials[name].outcome
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.most = max(self.most, len(self.search.with_checkpoints))
        super().tick()


def left(trainer: ToyTrainer) -> list[str]:
    """Trials whose checkpoints are there."""
    return sorted(path.name for path in trainer.folder.iterdir() if path.is_dir())


def test_the_sampler_hears_of_a_paused_trial_as_of_a_stopped_one_until_it_ends(
    experiment: Experiment, tmp_path: Path
) -> None:
    trainer = ToyTrainer(tmp_path / "a", experiment, concurrent=2)
    trainer.search.next_trial()
    plan = trainer.search.next_trial()
    assert isinstance(plan, Plan) and plan.trial == "t0001"
    training = trainer.training(plan)
    while next(training, False):
        pass
    sampler = trainer.search.progress.samplers["curriculum"]
    assert isinstance(sampler, TpeSampler) and trainer.search.state.trials["t0001"].paused
    assert sampler.results[1].state.name == "PRUNED" and sampler.results[1].curve.keys() == {1, 2}
    trainer.journal.close()
    whole = ToyTrainer(tmp_path / "a", experiment).work().search
    for trial in whole.state.trials_of("curriculum"):
        told = whole.progress.samplers["curriculum"].results[trial.number]
        assert told.state.name == {"completed": "COMPLETE", "stopped_early": "PRUNED"}[trial.outcome]
        assert len(told.curve) == trial.iterations


def test_as_many_trials_run_as_there_are_slots(experiment: Experiment, tmp_path: Path) -> None:
    trainer = ToyTrainer(tmp_path / "a", experiment, concurrent=3)
    assert [isinstance(trainer.search.next_trial(), Plan) for _ in range(4)] == [True, True, True, False]
    trainer.journal.close()


def test_a_trial_that_fails_is_recorded_with_its_reason_and_not_done_again(
    experiment: Experiment, tmp_path: Path
) -> None:
    trainer = ToyTrainer(tmp_path / "a", experiment)
    first, second = trainer.search.next_trial(), None
    assert isinstance(first, Plan)
    assert not trainer.search.result(first.trial, {"failed": "no number", "iteration": 1})
    trainer.search.ended(first.trial)
    second = trainer.search.next_trial()
    assert isinstance(second, Plan)
    trainer.search.failed(second.trial, "ended")
    trainer.journal.close()
    ToyTrainer(tmp_path / "a", experiment).work()
    trials = summary(tmp_path / "a")
    assert trials[first.trial][1:3] == ("failed", "no number")
    assert trials[second.trial][1:3] == ("failed", "ended")


def test_no_trial_starts_when_the_hours_are_used_up(tmp_path: Path) -> None:
    search = ToyTrainer(tmp_path / "a", toy(tmp_path, "search.hours=1e-9")).work().search
    assert search.ended_by and search.ended_by.startswith("search.hours ")
    assert list(summary(tmp_path / "a")) == [BASELINE_TRIAL] and len(summary(tmp_path / "a")[BASELINE_TRIAL][3]) == 9


@pytest.mark.parametrize(("options", "trials"), [([], 8), (["curriculum.delta=0.5"], 5)])
def test_the_scheduler_hears_when_no_new_configuration_comes(tmp_path: Path, options: list[str], trials: int) -> None:
    """All trials have begun, or all four combinations have."""
    experiment = toy(tmp_path, "search.scheduler=model", *options)
    trainer = ToyTrainer(tmp_path / "a", experiment, concurrent=2)
    while not trainer.search.progress.schedulers["curriculum"].all_started:
        trainer.ask()
        for trial, training in list(trainer.running.items()):
            if not next(training, False):
                del trainer.running[trial]
    assert len(trainer.search.state.trials) == trials
    trainer.journal.close()
    again = ToyTrainer(tmp_path / "a", experiment, concurrent=2).work().search
    assert again.progress.schedulers["curriculum"].all_started
    assert sum(trial.repeats is None for trial in again.state.by_number()) == trials


# -- corners ---------------------------------------------------------------------------------------------------------

LISTS = SPACE.replace("ranker: conv_knrm", "ranker: {name: drmm_tks, hidden: {choice: [[100], [64, 32], [16]]}}")


def test_a_search_over_lists_survives_a_kill(tmp_path: Path) -> None:
    """JSON returns lists for the tuples of resolved choices."""
    experiment = toy(tmp_path, space=LISTS)
    ToyTrainer(tmp_path / "whole", experiment).work()
    with pytest.raises(Killed):
        ToyTrainer(tmp_path / "cut", experiment, kill_after=60).work()
    ToyTrainer(tmp_path / "cut", experiment).work()
    assert summary(tmp_path / "cut") == summary(tmp_path / "whole")


class EndsByItself(ToyTrainer):
    """Each training is done after its second iteration; earlier trials have higher values."""

    def training(self, plan: Plan) -> Iterator[bool]:
        for at in (1, 2):
            value = 0.9 - 0.1 * int(plan.trial[1:])
            metrics = dict.fromkeys(REPORTED, 1.0) | {"dev_map": value, "iteration": at, "done": at == 2}
            if self.search.result(plan.trial, metrics) and at == 1:
                yield True
            else:
                break
        self.search.ended(plan.trial)


@pytest.mark.parametrize("scheduler", ["asha", "asha, search.promotion=false", "model"])
def test_a_training_that_has_ended_by_itself_is_not_stopped_early(tmp_path: Path, scheduler: str) -> None:
    """Its last iteration, by budget or patience, may also be one at which it is judged."""
    options = f"search.scheduler={scheduler}".split(", ")
    search = EndsByItself(tmp_path / scheduler, toy(tmp_path, *options)).work().search
    outcomes = [(trial.outcome, len(trial.results)) for trial in search.state.by_number()]
    assert outcomes == [("baseline", 2), *[("completed", 2)] * 9]
    assert isinstance(search.progress.samplers["curriculum"], TpeSampler)
    assert {trial.state.name for trial in search.progress.samplers["curriculum"].results.values()} == {"COMPLETE"}


class Patient(ToyTrainer):
    """Patience ends every training before its last iteration; the third trial is far above all others."""

    def length(self, plan: Plan) -> int:
        return 7

    def value(self, plan: Plan, done: int) -> float:
        return 0.9 if plan.trial == "t0003" else super().value(plan, done) / 2


def test_where_patience_ends_trainings_the_model_lets_the_others_rest(tmp_path: Path) -> None:
    """A training that has ended by itself is complete: the one that comes to its end in any case."""
    experiment = toy(tmp_path, "search.scheduler=model", "search.searcher=random")
    Patient(tmp_path / "whole", experiment, concurrent=2).work()
    outcomes = Counter(outcome for _, outcome, _, _ in summary(tmp_path / "whole").values())
    assert outcomes["completed"] and outcomes["stopped_early"] >= 4
