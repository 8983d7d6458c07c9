"""What a search space holds and will cost, before a search: `tune_cl.check` and `tune-cl check`."""

from __future__ import annotations

from functools import partial
from typing import Any

from trainables.config.function import Function, Objective, objective_of
from trainables.config.keys import TrainingConfig
from trainables.core.machine import usable_cpus
from trainables.core.prose import say
from trainables.curriculum.scoring import EARLY_ITERATIONS, EARLY_TEACHERS, FOLDS
from trainables.data.forms.frames import Data, as_source
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.load import Overrides, SpaceSource, requested_experiment
from tune_cl.experiment.readers import distinct_rankers, teachers_of
from tune_cl.experiment.search_keys import SearchConfig
from tune_cl.results import Result
from tune_cl.schedulers import SCHEDULERS
from tune_cl.search.phases import Phases, compares_inside_curricula, phases_of, setup_of

DECIDING = (  # keys of which each value has a speed of its own
    "ranker.name",
    "ranker.model",
    "training.batches_per_iteration",
    "training.batch_size",
    "training.max_length",
)


class SpaceCheck(Result):
    """What a space holds, and what a search of it will cost.

    parameters, conditional, combinations   searched keys, those that depend on others, and points; None if continuous
    points                                  published curricula that are tried first
    phases, shared                          trials of each phase; the keys that both arms search
    iterations_at_most                      of all trials
    judged                                  when the scheduler compares trials, in words; None if it never does
    baseline, plain                         the default's values; what curricula are compared with, in words
    pretraining_iterations, teacher_iterations  before the first trial
    seconds_per_iteration, hours_at_most, gpu_hours_at_most  None where they cannot be measured; under `search.hours`
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
    judged: str | None
    reduction_factor: float
    rungs: list[int]
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

    Validates a space without searching, and bounds its cost by a few steps, measured on this machine. Steps of a
    training function of your own are not measured.

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
    if experiment.objective:
        for note in experiment.notes:
            say(f"note: {note}")
        return unmeasured(experiment)
    return _measured(experiment)


def unmeasured(experiment: Experiment) -> SpaceCheck:
    """What a search of the space does, without its data and seconds."""
    space, search, at_a_time = experiment.space, experiment.search, _at_a_time(experiment.search)
    phases = phases_of(experiment)
    return SpaceCheck(
        space=experiment.name,
        data=experiment.base.run.data.source,
        rankers=experiment.values("ranker.name"),
        metric=experiment.base.run.metric,
        max_iterations=experiment.base.run.training.max_iterations,
        parameters=len(space.parameters),
        conditional=sum(bool(leaf.when) for leaf in space.parameters.values()),
        combinations=space.combinations(),
        points=len(experiment.points[: None if search.searcher == "grid" else phases.published]),
        phases=phases,
        shared=[*experiment.arms.shared_space.parameters] if experiment.arms.tunes_plain else [],
        searcher=search.searcher,
        scheduler=search.scheduler,
        judged=_compared_when(experiment),
        reduction_factor=search.reduction_factor,
        rungs=setup_of(experiment).rungs if SCHEDULERS[search.scheduler].has_rungs else [],
        baseline=experiment.base.point,
        over_curricula=experiment.arms.varies_curricula,
        plain=experiment.arms.plain_words,
        at_a_time=at_a_time,
        trials=phases.trials,
        iterations_at_most=phases.trials * experiment.base.run.training.max_iterations,
    )


def _measured(experiment: Experiment) -> SpaceCheck:
    from trainables.baselines.doubts import doubts
    from trainables.training.device import best_device  # imports torch: input errors come first
    from trainables.training.factory import seconds_per_iteration
    from trainables.training.prepared import prepared_key
    from trainables.training.teachers import prepare_teacher, teacher_run
    from tune_cl.ray.concurrency import lacking
    from tune_cl.ray.shared_data import untrained

    run, resources = base_ranker(experiment), experiment.search.resources
    device = str(best_device()) if resources.gpu else "cpu"  # a trial that reserves no GPU trains on none
    pace = partial(seconds_per_iteration, threads=min(resources.threads, usable_cpus()), device=device)
    by_key = untrained(experiment)
    prepared = by_key[prepared_key(run)]
    seconds = pace(run, prepared)
    teacher = teacher_run(run, prepared.data.task)
    missing = [need for need in teachers_of(experiment) if need not in prepared.teachers]
    teaching = sum(_teacher_iterations(need, teacher.training.max_iterations) for need in missing)
    notes = [*experiment.notes, *speed_note(experiment)]  # printed only now that the data is known to fit
    if resources.gpu and device == "cpu" and not run.on_cpu:
        notes.append("a trial reserves a GPU, but this machine has none: a step is measured on its CPU")
    notes += [f"{problem.location}: {problem.wrong}" for problem in lacking(resources)]  # nodes may have them
    for note in notes:
        say(f"note: {note}")
    for doubt in doubts(prepared.data, run.evaluation.relevance_level):
        say(f"warning: {doubt}")
    pretraining = sum(start.training.pretrain_iterations for start in _pretrained(experiment))
    taught = teaching * pace(*prepare_teacher(run, prepared.data)) if teaching else 0.0
    before = pretraining * seconds + taught
    check = unmeasured(experiment).model_copy(
        update={"pretraining_iterations": pretraining, "teacher_iterations": teaching}
    )
    return _with_cost(check, experiment, seconds, before / 3600)


def _teacher_iterations(need: str, most: int) -> int:
    """Iterations of the teachers that trials read; each makes `most`, if it is a whole training."""
    if need == "early_teachers":
        return EARLY_TEACHERS * min(EARLY_ITERATIONS, most)
    return most * (FOLDS if need == "cross_fitted" else 1)


def _with_cost(check: SpaceCheck, experiment: Experiment, seconds: float, before: float) -> SpaceCheck:
    """With the cost of the search if no trial is stopped early. `before`: hours before the first trial, which
    `search.hours` does not count."""
    training = check.iterations_at_most * seconds / 3600
    hours = training / min(check.at_a_time, check.trials)
    limit = experiment.search.hours or hours
    share = min(1.0, limit / hours) if hours else 1.0
    gpu = experiment.search.resources.gpu
    cost = {
        "seconds_per_iteration": seconds,
        "hours_at_most": before + share * hours,
        "gpu_hours_at_most": gpu * (before + share * training),
    }
    return check.model_copy(update=cost)


def speed_note(experiment: Experiment) -> list[str]:
    """A note if trials differ in speed."""
    opened = [key for key in DECIDING if key in experiment.space.parameters]
    what = "the time is by the default's speed, and trials differ in it"
    return [f"{', '.join(opened)}: {what}"] if opened else []


def _pretrained(experiment: Experiment) -> list[TrainingConfig]:
    """A training for each pre-training; pre-trainings run one after another before the first trial."""
    from trainables.training.prepared import prepared_key

    runs = {prepared_key(run): run for run in distinct_rankers(experiment)}
    return [run for run in runs.values() if run.training.pretrain_data is not None]


def _at_a_time(search: SearchConfig) -> int:
    from tune_cl.ray.concurrency import at_a_time  # imports Ray

    return at_a_time(search)


def _compared_when(experiment: Experiment) -> str | None:
    """When the scheduler compares trials, in words; None if it never does."""
    search = experiment.search
    if search.scheduler == "none":
        return None
    if compares_inside_curricula(experiment):
        return "after every iteration" + ", inside its curriculum too" * experiment.arms.varies_curricula
    if isinstance(search.grace, int):
        return f"not before iteration {search.grace}"
    if not experiment.arms.varies_curricula:
        return "from the first iteration on"
    return "only after its own curriculum" if search.grace == "curriculum" else "whether or not its curriculum is over"
