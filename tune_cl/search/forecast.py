"""What a search will take: trials and iterations, and the hours that budgets leave of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import mean
from typing import TYPE_CHECKING, Any

from trainables.config import flatten, without_effect
from trainables.randomness import generator
from tune_cl.search.config import SearchConfig, price_of_an_hour
from tune_cl.search.schedulers import SCHEDULERS, WITH_RUNGS, setup_of
from tune_cl.search.schedulers.grace import curriculum_ends

if TYPE_CHECKING:
    from tune_cl.experiment import Experiment

DRAWS = 256
GOES_ON = 0.57
"""Share of configurations that get a further seed, of those that came to the end with all before it (`search.repeats`):
.60 and .54 in searches of 6 and 12 trainings on the recorded curves (benchmarks/repeats.py)."""


@dataclass(frozen=True)
class Span:
    """A search in hours: of the clock, and of all its trainings together; `ends`: the budget that ends it, if any."""

    hours: float
    training: float
    ends: str | None


def forecast_of(experiment: Experiment, slots: int | None = None) -> dict[str, int]:
    """Trials and iterations of a search, the baseline included, before anything of it has run. `slots`: trials at a
    time; None: as many as there may be.

    `iterations_expected` is a mean over configurations of the space, drawn at random where it is large, of what the
    scheduler lets a trial make; trainings that end by `training.patience` make it less. With `search.repeats` the
    baseline has all its seeds at once, of the other configurations that come to their end GOES_ON get another, and
    all these trainings run to their end: `repeats_expected` says how many they are. Of the budgets only that of
    iterations is heeded: `within_budgets` heeds those that take a pace.
    """
    most, seeds, trials = experiment.max_iterations, experiment.search.repeats, experiment.trials
    budget = experiment.search.iterations
    a_trial, to_the_end = _expected_of_a_trial(experiment)
    again = to_the_end * GOES_ON * (1 - GOES_ON ** (seeds - 1)) / (1 - GOES_ON)  # repeats of a configuration
    tried = max(0, trials - seeds) / (1 + again)
    if (combinations := experiment.space.combinations()) is not None:
        tried = min(tried, combinations)
    repeats = min(seeds, trials) - 1 + tried * again
    expected = round(most * (1 + repeats) + tried * a_trial)
    told = {
        "trials": trials,
        "iterations_at_most": _iterations_at_most(experiment, slots),
        "iterations_expected": expected if budget is None else min(expected, max(budget, most)),
    }
    return told | ({"repeats_expected": round(repeats)} if seeds > 1 else {})


def _iterations_at_most(experiment: Experiment, slots: int | None) -> int:
    """All iterations of all trials, or those with which `search.iterations` are used up, and what comes after them.
    Under grace `scaled` trials beside the baseline that reach a rung begin anew, up to the last.

    Once they are used up, each other trial that runs makes one more, and the baseline goes on to its end. That is the
    most where it has yet to begin: N by others, of which the last stops at once, one each by the slots - 2 others
    beside it and the baseline, and the baseline's.
    """
    most, trials, budget = experiment.max_iterations, experiment.trials, experiment.search.iterations
    setup = setup_of(experiment)
    whole = trials * most + (trials - 1) * (sum(setup.rungs) if setup.scaled else 0)
    if budget is None:
        return whole
    slots = min(trials, slots or experiment.search.max_concurrent or trials)
    after = most + slots - 2 if slots > 1 else max(0, most - budget)  # one at a time, the baseline comes first
    return min(whole, budget + after)


def within_budgets(search: SearchConfig, training: float, baseline: float, slots: int) -> Span:
    """A search whose trials would train for so many hours, `slots` at a time, under `search.hours` and `search.cost`.

    `baseline`: the hours of the baseline, which goes on by itself where a budget ends the others.
    """
    whole, price = training / slots, price_of_an_hour(search)
    limits = {"search.hours": search.hours, "search.cost": search.cost and search.cost / price / slots}
    given = {key: limit for key, limit in limits.items() if limit is not None and limit < whole}
    if not given:
        return Span(whole, training, None)
    ends = min(given, key=lambda key: given[key])
    alone = max(0.0, baseline - given[ends])
    return Span(min(whole, given[ends] + alone), min(training, given[ends] * slots + alone), ends)


def same_trainings(experiment: Experiment) -> list[str]:
    """A note where combinations of a small space differ in nothing that has an effect."""
    combinations = experiment.space.combinations()
    if combinations is None or combinations > DRAWS:
        return []
    different, idle = set(), dict[str, None]()
    for choice in experiment.space.grid():
        read = experiment.training_run(choice).in_force()
        different.add(json.dumps(read, sort_keys=True))
        idle |= dict.fromkeys(without_effect(choice, read))
    if len(different) == combinations:
        return []
    told = f"only {len(different)} of the {combinations} combinations are different trainings"
    return [f"{told}: {' and '.join(idle)} without effect in some, which a condition (`when`) leaves out"]


def ends_no_trial(experiment: Experiment) -> list[str]:
    """A note where the scheduler never comes to judge a trial; nothing where it may, as the first draws mostly tell."""
    search, most, setup = experiment.search, experiment.max_iterations, setup_of(experiment)
    if search.scheduler in ("none", "pbt") or most == 1 or (search.grace == "scaled" and setup.rungs):
        return []
    scheduler = SCHEDULERS[search.scheduler](setup)
    soonest, first = most + 1, None
    for choice in _choices(experiment):
        grace = experiment.grace(choice)
        if scheduler.expected_iterations(grace) < most - 1e-6:
            return []
        soonest, first = min((soonest, first), (grace, choice), key=lambda known: known[0])
    told = f"{search.scheduler} ends no trial here"
    if first is None or not setup.rungs:
        right = "a lower search.first_rung or search.grace changes that"
        return [f"{told}: it has no rung below the {most} iterations of a trial; {right}"]
    judged = setup.rungs if search.scheduler in WITH_RUNGS else [most - 1]
    run = experiment.training_run(first)
    late = [key for key, end in curriculum_ends(run).items() if end > judged[-1]]
    flat = flatten(run.model_dump())
    values = ", ".join(f"{key} {flat[key]:.5g}" for key in late)
    until = f"{'at the soonest ' if experiment.space.leaves.keys() & late else ''}until iteration {soonest} of {most}"
    where = f", and it judges at {', '.join(map(str, judged))}" if search.scheduler in WITH_RUNGS else ""
    right = f"a lower {' and '.join(late)}, or search.grace, changes that"
    return [f"{told}: curricula last {until} ({values}){where}; {right}"]


def _choices(experiment: Experiment) -> Iterator[Mapping[str, Any]]:
    """Configurations that stand for the space: all of a small one, else draws."""
    space, combinations = experiment.space, experiment.space.combinations()
    if combinations is not None and combinations <= DRAWS:
        return space.grid()
    return (space.sample(generator(experiment.seed, "forecast", draw)) for draw in range(DRAWS))


def _expected_of_a_trial(experiment: Experiment) -> tuple[float, float]:
    """Iterations of a trial that is no repeat, and the share of them that make the last one."""
    most = experiment.max_iterations
    if experiment.search.scheduler == "none":
        return float(most), 1.0
    graces, setup = [experiment.grace(choice) for choice in _choices(experiment)], setup_of(experiment)
    iterations = [
        mean(SCHEDULERS[experiment.search.scheduler](shorter).expected_iterations(grace) for grace in graces)
        for shorter in (setup, replace(setup, max_iterations=most - 1))
    ]
    return iterations[0], min(1.0, iterations[0] - iterations[1]) if most > 1 else 1.0
