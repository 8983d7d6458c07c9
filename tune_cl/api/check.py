"""What a search space holds and will cost, before a search: `tune_cl.check` and `tune-cl check`."""

from __future__ import annotations

from functools import partial
from typing import Any

from trainables.config.function import Function, Objective, objective_of
from trainables.core.machine import usable_cpus
from trainables.core.prose import say
from trainables.curriculum.scoring import EARLY_ITERATIONS, EARLY_TEACHERS, FOLDS
from trainables.data.forms.frames import Data, as_source
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.load import Overrides, SpaceSource, requested_experiment
from tune_cl.experiment.readers import distinct_rankers, teachers_of
from tune_cl.ray.environment import own_environment
from tune_cl.results import Result
from tune_cl.search.phases import Phases, phases_of
from tune_cl.verdict.void import void_curricula


class SpaceCheck(Result):
    """What a space holds, and what a search of it will cost if no trial is stopped early.

    parameters, conditional, combinations   searched keys, those that depend on others, and points; None if continuous
    points                                  published curricula that are tried first
    phases, shared                          trials of each phase; the keys that both arms search
    iterations_at_most                      of all trials
    baseline, plain                         the default's values; what curricula are compared with, in words
    pretraining_iterations, teacher_iterations  before the first trial
    seconds_per_iteration, hours_at_most, gpu_hours_at_most  at the default's speed on this machine, under
                                            `search.hours`; None for a training function of one's own
    """

    space: str
    data: str | None
    rankers: list[str]
    metric: str
    max_iterations: int
    parameters: int
    conditional: int
    combinations: int | None
    points: int
    phases: Phases
    shared: list[str]
    trials: int
    iterations_at_most: int
    searcher: str
    scheduler: str
    baseline: dict[str, Any]
    over_curricula: bool
    plain: str
    at_a_time: int
    pretraining_iterations: int = 0
    teacher_iterations: int = 0
    seconds_per_iteration: float | None = None
    hours_at_most: float | None = None
    gpu_hours_at_most: float | None = None


def check(
    space: SpaceSource,
    data: Data = None,
    ranker: str | None = None,
    trials: int | None = None,
    max_iterations: int | None = None,
    seed: int | None = None,
    overrides: Overrides | None = None,
    objective: Function | Objective | str | None = None,
) -> SpaceCheck:
    """What a search space holds and will cost.

        tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny
        tune-cl check space.yaml --objective own.py:train

    Validates a space without searching, and estimates its cost by a few steps of the default, measured on this
    machine. Steps of a training function of your own are not measured.

    space           a shipped space (tune-cl list spaces) or a YAML file; in Python also a mapping of the same tree
    data            docstrings, ir_datasets:NAME, hf:NAME, or a folder in one of the formats of tune-cl list data; in
                    Python also tables
    ranker          see tune-cl list rankers
    trials          how many, of both arms
    max_iterations  of a trial
    seed            of sampling and of every training
    overrides       configuration keys with values or ranges (VALUE is YAML), repeatable
    objective       a training function `(config, trial)` of your own
    """
    function = objective_of(objective) if objective else None
    keys = {"trials": trials, "max_iterations": max_iterations, "seed": seed}
    experiment = requested_experiment(space, overrides or {}, function, as_source(data), ranker, **keys)
    for doubt in void_curricula(experiment):
        say(f"note: {doubt}")
    with own_environment():  # its steps are trained here
        cost: dict[str, Any] = {} if experiment.objective else _cost(experiment)
    for note in experiment.notes:  # only now that the data is known to fit
        say(f"note: {note}")
    return _checked(experiment, cost)


def _checked(experiment: Experiment, cost: dict[str, Any]) -> SpaceCheck:
    from tune_cl.ray.concurrency import at_a_time  # imports Ray

    parameters, search, phases = experiment.space.parameters, experiment.search, phases_of(experiment)
    run, arms = experiment.base.run, experiment.arms
    return SpaceCheck(
        space=experiment.name,
        data=run.data.source,
        rankers=experiment.values("ranker.name"),
        metric=run.metric,
        max_iterations=run.training.max_iterations,
        parameters=len(parameters),
        conditional=sum(bool(leaf.when) for leaf in parameters.values()),
        combinations=experiment.space.combinations(),
        points=len(experiment.points[: None if search.searcher == "grid" else phases.published]),
        phases=phases,
        shared=[*arms.shared_space.parameters] if arms.tunes_plain else [],
        trials=phases.trials,
        iterations_at_most=phases.trials * run.training.max_iterations,
        searcher=search.searcher,
        scheduler=search.scheduler,
        baseline=experiment.base.point,
        over_curricula=arms.varies_curricula,
        plain=arms.plain_words,
        at_a_time=at_a_time(search),
        **cost,
    )


def _cost(experiment: Experiment) -> dict[str, Any]:
    """What a search takes if no trial is stopped early, by a few steps. `search.hours` does not count what comes before
    the first trial."""
    from trainables.baselines.doubts import doubts
    from trainables.training.device import best_device  # imports torch: input errors come first
    from trainables.training.factory import seconds_per_iteration
    from trainables.training.prepared import prepared_key
    from trainables.training.teachers import prepare_teacher, teacher_run
    from tune_cl.ray.concurrency import at_a_time, lacking
    from tune_cl.ray.shared_data import untrained

    run, search = base_ranker(experiment), experiment.search
    device = str(best_device()) if search.resources.gpu else "cpu"  # a trial that reserves no GPU trains on none
    pace = partial(seconds_per_iteration, threads=min(search.resources.threads, usable_cpus()), device=device)
    prepared = untrained(experiment)[prepared_key(run)]
    for problem in lacking(search.resources):  # nodes of a cluster may have it
        say(f"note: {problem.location}: {problem.wrong}")
    for doubt in doubts(prepared.data, run.evaluation.relevance_level):
        say(f"warning: {doubt}")
    seconds = pace(run, prepared)
    pretrained = {prepared_key(one): one.training for one in distinct_rankers(experiment)}
    pretraining = sum(one.pretrain_iterations for one in pretrained.values() if one.pretrain_data is not None)
    most = teacher_run(run, prepared.data.task).training.max_iterations
    of_need = {"early_teachers": EARLY_TEACHERS * min(EARLY_ITERATIONS, most), "cross_fitted": FOLDS * most}
    teaching = sum(of_need.get(need, most) for need in teachers_of(experiment) if need not in prepared.teachers)
    before = pretraining * seconds + (teaching * pace(*prepare_teacher(run, prepared.data)) if teaching else 0.0)
    trials = phases_of(experiment).trials
    training = trials * run.training.max_iterations * seconds
    hours = training / min(at_a_time(search), trials) / 3600
    share = min(1.0, (search.hours or hours) / hours) if hours else 1.0
    return {
        "pretraining_iterations": pretraining,
        "teacher_iterations": teaching,
        "seconds_per_iteration": seconds,
        "hours_at_most": before / 3600 + share * hours,
        "gpu_hours_at_most": search.resources.gpu * (before + share * training) / 3600,
    }
