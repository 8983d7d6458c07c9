"""What a search will cost before any of its trials has run, and notes on keys and schedulers without effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from trainables.config.keys import NEEDS, flatten, without_effect
from trainables.core.randomness import generator
from trainables.core.validation import with_needs
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.search_keys import SEARCH_NEEDS, SearchConfig, idle, price_of_an_hour
from tune_cl.schedulers import SCHEDULERS, WITH_RUNGS
from tune_cl.schedulers.scheduler import curriculum_ends
from tune_cl.space.space_files import on_a_line

DRAWS = 256
GOES_ON = 0.57
"""Of the configurations that finished all their seeds so far, the share that gets another (`search.repeats`): .60 and
.54 in searches of 6 and 12 trainings on the recorded curves."""


def expected_stops(trials: int, reduction_factor: float) -> float:
    """How many of so many trials, the baseline among them, a scheduler is expected to stop: a share of
    1 - 1/`reduction_factor` of the others."""
    return (trials - 1) * (1 - 1 / reduction_factor)


@dataclass(frozen=True)
class Span:
    """A search's hours: by the clock, and summed over its trainings (`training`). `ends`: the budget that ends it, if
    any."""

    hours: float
    training: float
    ends: str | None


def forecast_of(experiment: Experiment, slots: int | None = None) -> dict[str, int]:
    """Trials and iterations of a search, the baseline included, before any of it has run. `slots`: trials at a time;
    None: as many as there may be.

    `iterations_expected` rests on how far the scheduler lets a trial go, averaged over the configurations of the space
    (a sample of a large one); trainings that `training.patience` ends make it less. With `search.repeats` the baseline
    gets all its seeds, a share GOES_ON of the other configurations that finish gets another seed, and all these
    trainings run to their end; `repeats_expected` is their number. Trials that `search.audit` selects run to their end
    too. Of the budgets only `search.iterations` counts here; those that need a pace count in `within_budgets`.
    """
    most, seeds, trials = experiment.max_iterations, experiment.search.repeats, experiment.trials
    budget = experiment.search.iterations
    a_trial, to_the_end = _expected_of_a_trial(experiment)
    again = to_the_end * GOES_ON * (1 - GOES_ON ** (seeds - 1)) / (1 - GOES_ON)  # repeats of a configuration
    tried = max(0, trials - seeds) / (1 + again)
    if (combinations := experiment.space.combinations()) is not None:
        tried = min(tried, combinations)
    repeats = min(seeds, trials) - 1 + tried * again
    audited = _expected_audits(experiment, tried * (1 - to_the_end))
    beyond = (most - a_trial) / (1 - to_the_end) if audited else 0.0  # iterations that a stop saves, on average
    expected = round(most * (1 + repeats) + tried * a_trial + audited * beyond)
    forecast = {
        "trials": trials,
        "iterations_at_most": _iterations_at_most(experiment, slots),
        "iterations_expected": expected if budget is None else min(expected, max(budget, most)),
    }
    return forecast | ({"repeats_expected": round(repeats)} if seeds > 1 else {})


def describe(experiment: Experiment, slots: int | None = None) -> dict[str, Any]:
    """Size of the space and cost of the search, as `tune-cl check` reports them."""
    space = experiment.space
    return {
        "parameters": len(space.leaves),
        "conditional": sum(bool(leaf.when) for leaf in space.leaves.values()),
        "combinations": space.combinations(),
        "steps": [f"{key}: {steps}" for key, steps in space.steps.items()],
        "priors": [f"{key}: {on_a_line(prior)}" for key, prior in space.priors.items()],
        "points": len(experiment.search.points),
        **forecast_of(experiment, slots),
    }


def _expected_audits(experiment: Experiment, stops: float) -> float:
    """How many of so many stopped trials `search.audit` selects."""
    audit = experiment.search.audit
    expected = expected_stops(experiment.trials, experiment.search.reduction_factor)
    return min(audit * stops / max(1.0, expected), audit, stops)


def _iterations_at_most(experiment: Experiment, slots: int | None) -> int:
    """All iterations of all trials; with `search.iterations`, at most that many and those made after it is used up.
    Under grace `scaled`, trials other than the baseline may start again at each rung.

    Once the budget is used up, every other running trial makes one more iteration, and the baseline runs to its end.
    This is most if the baseline has yet to start: others use up the budget, and the one that makes its last iteration
    stops at once; the slots - 2 others make one more each, and the baseline all of its own.
    """
    most, trials, budget = experiment.max_iterations, experiment.trials, experiment.search.iterations
    setup = experiment.setup
    whole = trials * most + (trials - 1) * (sum(setup.rungs) if setup.scaled else 0)
    if budget is None:
        return whole
    slots = min(trials, slots or experiment.search.max_concurrent or trials)
    after = most + slots - 2 if slots > 1 else max(0, most - budget)  # with one slot, the baseline comes first
    return min(whole, budget + after)


def within_budgets(search: SearchConfig, training: float, baseline: float, slots: float) -> Span:
    """A search under `search.hours` and `search.cost`, whose trials would otherwise train for `training` hours, `slots`
    at a time on average.

    `baseline`: the hours of the baseline, which goes on alone when a budget ends the others.
    """
    whole, price = training / slots, price_of_an_hour(search)
    limits = {"search.hours": search.hours, "search.cost": search.cost and search.cost / price / slots}
    given = {key: limit for key, limit in limits.items() if limit is not None and limit < whole}
    if not given:
        return Span(whole, training, None)
    ends = min(given, key=lambda key: given[key])
    alone = max(0.0, baseline - given[ends])
    return Span(min(whole, given[ends] + alone), min(training, given[ends] * slots + alone), ends)


def unused(experiment: Experiment, of_search: Collection[str], of_trainings: Collection[str]) -> list[str]:
    """A note on those of the given keys that have no effect on the search, or on any of its trainings."""
    of_no_use = idle(experiment.search)
    unread = [key for key in of_search if key in of_no_use]
    if of_trainings:
        runs = (experiment.base_run(), *map(experiment.training_run, _configurations(experiment)))
        unread += without_effect(of_trainings, dict.fromkeys(key for run in runs for key in run.in_force()))
    return [f"without effect on this search: {with_needs(unread, NEEDS | SEARCH_NEEDS)}"] if unread else []


def ends_no_trial(experiment: Experiment) -> list[str]:
    """A note if the scheduler never gets to end a trial; the first configurations usually show that it may."""
    search, most, setup = experiment.search, experiment.max_iterations, experiment.setup
    if search.scheduler in ("none", "pbt") or most == 1 or (search.grace == "scaled" and setup.rungs):
        return []
    scheduler = SCHEDULERS[search.scheduler](setup)
    soonest, first = most + 1, None
    for point in _configurations(experiment):
        grace = experiment.grace(point)
        if scheduler.expected_iterations(grace) < most - 1e-6:
            return []
        soonest, first = min((soonest, first), (grace, point), key=lambda pair: pair[0])
    wrong = f"{search.scheduler} ends no trial here"
    if first is None or not setup.rungs:
        right = "a lower search.first_rung or search.grace changes that"
        return [f"{wrong}: it has no rung below the {most} iterations of a trial; {right}"]
    rungs = setup.rungs if search.scheduler in WITH_RUNGS else [most - 1]
    run = experiment.training_run(first)
    late = [key for key, end in curriculum_ends(run).items() if end > rungs[-1]]
    flat = flatten(run.model_dump())
    values = ", ".join(f"{key} {flat[key]:.5g}" for key in late)
    until = f"{'at the soonest ' if experiment.space.leaves.keys() & late else ''}until iteration {soonest} of {most}"
    where = f", and its rungs are at {', '.join(map(str, rungs))}" if search.scheduler in WITH_RUNGS else ""
    right = f"a lower {' and '.join(late)}, or search.grace, changes that"
    return [f"{wrong}: curricula last {until} ({values}){where}; {right}"]


def _configurations(experiment: Experiment) -> Iterator[Mapping[str, Any]]:
    """Configurations that represent the space: all of a small one, else random draws."""
    space, combinations = experiment.space, experiment.space.combinations()
    if combinations is not None and combinations <= DRAWS:
        return space.grid()
    return (space.sample(generator(experiment.seed, "forecast", draw)) for draw in range(DRAWS))


def _expected_of_a_trial(experiment: Experiment) -> tuple[float, float]:
    """Iterations of a trial that is no repeat, and the share of such trials that make the last one."""
    most = experiment.max_iterations
    if experiment.search.scheduler == "none":
        return float(most), 1.0
    graces, setup = [experiment.grace(point) for point in _configurations(experiment)], experiment.setup
    iterations = [
        mean(SCHEDULERS[experiment.search.scheduler](shorter).expected_iterations(grace) for grace in graces)
        for shorter in (setup, replace(setup, max_iterations=most - 1))
    ]
    return iterations[0], min(1.0, iterations[0] - iterations[1]) if most > 1 else 1.0
