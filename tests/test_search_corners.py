"""Combinations of options that rarely meet, in searches without Ray."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.toy_search import SPACE, Killed, ToyTrainer, summary, toy
from tune_cl.samplers import TpeSampler
from tune_cl.search.driver import REPORTED
from tune_cl.search.trials import Plan

LISTS = SPACE.replace("ranker: conv_knrm", "ranker: {name: drmm_tks, hidden: {choice: [[100], [64, 32], [16]]}}")


@pytest.mark.parametrize("searcher", ["random", "tpe", "gp"])
def test_a_search_over_lists_survives_a_kill(tmp_path: Path, searcher: str) -> None:
    """JSON returns lists for the tuples of resolved choices."""
    experiment = toy(tmp_path, f"search.searcher={searcher}", space=LISTS)
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


@pytest.mark.parametrize("concurrent", [1, 2])
def test_where_patience_ends_trainings_the_model_lets_the_others_rest(tmp_path: Path, concurrent: int) -> None:
    """A training that has ended by itself is complete: the one that comes to its end in any case."""
    experiment = toy(tmp_path, "search.scheduler=model", "search.searcher=random")
    Patient(tmp_path / "whole", experiment, concurrent).work()
    outcomes = Counter(outcome for _, outcome, _, _ in summary(tmp_path / "whole").values())
    assert outcomes["completed"] and outcomes["stopped_early"] >= 4
    for kill_after in (20, 40, 60) if concurrent == 1 else ():
        folder = tmp_path / str(kill_after)
        with pytest.raises(Killed):
            Patient(folder, experiment, kill_after=kill_after).work()
        Patient(folder, experiment).work()
        assert summary(folder) == summary(tmp_path / "whole")
