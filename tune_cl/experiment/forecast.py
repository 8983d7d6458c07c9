"""What a search will cost before any of its trials has run, and notes on keys and schedulers without effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from statistics import mean

from trainables.config.keys import NEEDS, flatten, without_effect
from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.core.validation import with_needs
from tune_cl.experiment.experiment import ARMS, CURRICULUM, PLAIN, Arm, Experiment, TrialConfig
from tune_cl.experiment.search_keys import BY_CHANCE, SEARCH_NEEDS, SearchConfig, idle
from tune_cl.schedulers import SCHEDULERS
from tune_cl.schedulers.scheduler import curriculum_ends

DRAWS = 256


@dataclass(frozen=True)
class Span:
    """A search's hours: by the clock, and summed over its trainings (`training`). `ends`: the budget that ends it, if
    any."""

    hours: float
    training: float
    ends: str | None


def forecast_of(experiment: Experiment) -> dict[str, int]:
    """Trials and iterations of a search, the baseline included, before any of it has run.

    `iterations_expected` rests on how far the scheduler lets a trial go, averaged over the configurations of the space
    (a sample of a large one); trainings that `training.patience` ends make it less. `search.hours`, which needs a pace,
    counts in `within_budgets`.
    """
    most, trials = experiment.max_iterations, experiment.trials
    expected = round(most + (trials - 1) * _expected_of_a_trial(experiment))
    return {"trials": trials, "iterations_at_most": trials * most, "iterations_expected": expected}


@dataclass(frozen=True)
class ArmPlan:
    """How many trials an arm gets, and the keys that they search."""

    trials: int
    opened: tuple[str, ...]


def arms_of(experiment: Experiment) -> dict[Arm, ArmPlan]:
    """What each arm gets."""
    opened = {PLAIN: experiment.plain_space.leaves if experiment.arm_trials[PLAIN] > 1 else {}}
    opened[CURRICULUM] = experiment.space.leaves
    return {arm: ArmPlan(experiment.arm_trials[arm], tuple(opened[arm])) for arm in ARMS}


def within_budgets(search: SearchConfig, training: float, baseline: float, concurrent: float) -> Span:
    """A search under `search.hours`, whose trials would otherwise train for `training` hours, `concurrent` at a time on
    average.

    `baseline`: the hours of the baseline, which goes on alone when the budget ends the others.
    """
    whole, limit = training / concurrent, search.hours
    if limit is None or limit >= whole:
        return Span(whole, training, None)
    alone = max(0.0, baseline - limit)
    return Span(min(whole, limit + alone), min(training, limit * concurrent + alone), "search.hours")


def unused(experiment: Experiment, of_search: Collection[str], of_trainings: Collection[str]) -> list[str]:
    """A note on those of the given keys that have no effect on the search, or on any of its trainings."""
    of_no_use = idle(experiment.search)
    unread = [key for key in of_search if key in of_no_use]
    if of_trainings:
        configs = (experiment.base, *_configs(experiment))
        unread += without_effect(of_trainings, dict.fromkeys(key for config in configs for key in config.params))
    return [f"without effect on this search: {with_needs(unread, NEEDS | SEARCH_NEEDS)}"] if unread else []


def never_models(experiment: Experiment) -> list[str]:
    """A note if the curricula are too few for a searcher that models the space to begin."""
    search, trials = experiment.search, experiment.arm_trials[CURRICULUM]
    startup = experiment.startup_trials(CURRICULUM)
    if search.searcher in BY_CHANCE or not 1 < trials <= startup:
        return []
    after = f"{search.searcher} models the space after {counted(startup, 'trial')} of an arm (search.startup_trials)"
    return [f"search.searcher: {after}, so all {trials} of the curriculum arm are chosen at random"]


def ends_no_trial(experiment: Experiment) -> list[str]:
    """A note if the scheduler never gets to end a trial; the first configurations usually show that it may."""
    search, most, setup = experiment.search, experiment.max_iterations, experiment.setup
    if search.scheduler == "none" or most == 1:
        return []
    scheduler = SCHEDULERS[search.scheduler](setup)
    soonest, first = most + 1, None
    for config in _configs(experiment):
        grace = config.grace
        if scheduler.expected_iterations(grace) < most - 1e-6:
            return []
        soonest, first = min((soonest, first), (grace, config), key=lambda pair: pair[0])
    wrong = f"{search.scheduler} ends no trial here"
    if first is None or not setup.rungs:
        right = "a lower search.first_rung or search.grace changes that"
        return [f"{wrong}: it has no rung below the {most} iterations of a trial; {right}"]
    rungs = setup.rungs if scheduler.has_rungs else [most - 1]
    late = [key for key, end in curriculum_ends(first.run).items() if end > rungs[-1]]
    flat = flatten(first.run.model_dump())
    values = ", ".join(f"{key} {flat[key]:.5g}" for key in late)
    until = f"{'at the soonest ' if experiment.space.leaves.keys() & late else ''}until iteration {soonest} of {most}"
    where = f", and its rungs are at {', '.join(map(str, rungs))}" if scheduler.has_rungs else ""
    right = f"a lower {' and '.join(late)}, or search.grace, changes that"
    return [f"{wrong}: curricula last {until} ({values}){where}; {right}"]


def _configs(experiment: Experiment) -> Iterator[TrialConfig]:
    """Configurations that represent the space: all of a small one, else random draws."""
    space, combinations = experiment.space, experiment.space.combinations()
    if combinations is not None and combinations <= DRAWS:
        return map(experiment.config, space.grid())
    draws = (generator(experiment.seed, "forecast", draw) for draw in range(DRAWS))
    return (experiment.config(space.sample(draw)) for draw in draws)


def _expected_of_a_trial(experiment: Experiment) -> float:
    """Iterations of a trial."""
    if experiment.search.scheduler == "none":
        return float(experiment.max_iterations)
    scheduler = experiment.scheduler()
    return mean(scheduler.expected_iterations(config.grace) for config in _configs(experiment))
