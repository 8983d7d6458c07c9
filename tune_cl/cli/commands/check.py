"""Examples:
  tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny
  tune-cl check space.yaml --objective own.py:train

Validates a search space without searching, and forecasts its cost from a few measured steps on this machine. Steps of a
training function of your own are not measured."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from functools import partial
from typing import Any

from trainables.config.keys import TrainingRun
from trainables.core.prose import counted, say
from trainables.curriculum.scoring import EARLY_ITERATIONS, EARLY_TEACHERS, FOLDS
from tune_cl.cli.options import (
    add_experiment,
    add_objective,
    add_overrides,
    experiment_options,
    objective_option,
)
from tune_cl.cli.tables import short, table
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import describe
from tune_cl.experiment.load import requested_experiment
from tune_cl.experiment.search_keys import Resources, SearchConfig
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP, search_folder_of
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS, WITH_RUNGS
from tune_cl.search.budget import budgets
from tune_cl.search.throughput import Paces, forecast_by, paces_of
from tune_cl.space.space_files import on_a_line
from tune_cl.space.wording import DEFAULT


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=f"of search.warm_start: {STORAGE_HELP}")
    add_overrides(parser)
    add_objective(parser)


def execute(options: Namespace) -> dict[str, Any]:
    experiment = requested_experiment(**experiment_options(options), objective=objective_option(options))
    return _of_function(experiment) if experiment.objective else _of_rankers(experiment, options.storage)


def _of_function(experiment: Experiment) -> dict[str, Any]:
    """What `_of_rankers` returns, without seconds: only the user's function itself could tell."""
    for note in experiment.notes:
        say(f"note: {note}")
    unmeasured = dict.fromkeys(("hours_forecast", "gpu_hours_forecast", "seconds_per_iteration"))
    return (
        describe(experiment, _at_a_time(experiment.search))
        | _in_short(experiment)
        | {"pretraining_iterations": 0, "teacher_iterations": 0, "paces": [], "ends_by": None}
        | {"budgets": budgets(experiment.search)}
        | unmeasured
    )


def _of_rankers(experiment: Experiment, storage: str) -> dict[str, Any]:
    from trainables.baselines.doubts import doubts
    from trainables.training.device import best_device  # imports torch: input errors come first
    from trainables.training.factory import seconds_per_iteration
    from trainables.training.materials import materials_for, materials_key
    from trainables.training.pretrained import prepare_teacher, teacher_run
    from tune_cl.ray.shared_materials import untrained

    run, resources = experiment.base_ranker(), experiment.search.resources
    device = str(best_device()) if resources.gpu else "cpu"  # a trial that reserves no GPU trains on none
    pace = partial(seconds_per_iteration, threads=_threads(resources), device=device)
    by_key = untrained(experiment)
    materials = by_key[materials_key(run)]
    warmed = _warm_start(experiment, materials.data.digest, storage)
    paces = paces_of(experiment, lambda run: pace(run, materials_for(run, by_key)) / resources.workers)
    teacher = teacher_run(run, materials.data.task)
    teaching_iterations = (
        teacher.training.max_iterations if experiment.needs_teacher and materials.teacher is None else 0
    ) + sum(_course_iterations(need, teacher.training.max_iterations) for need in experiment.courses)
    notes = [*experiment.notes, *warmed]  # printed only now that the data is known to fit
    if resources.gpu and device == "cpu" and not run.grows_trees:
        notes.append("a trial reserves a GPU, but this machine has none: a step is measured on its CPU")
    if resources.workers > 1:
        notes.append(
            f"search.resources.workers: a step is measured in one process, and {resources.workers} are taken to be "
            f"{resources.workers} times as fast; what they send each other comes on top"
        )
    notes += [*_too_large(experiment), *doubts(materials.data, run.data, run.evaluation.relevance_level)]
    for note in notes:
        say(f"note: {note}")
    document = describe(experiment, _at_a_time(experiment.search))
    starts = _pretrained(experiment)
    teaching = teaching_iterations * pace(*prepare_teacher(run, materials.data)) if teaching_iterations else 0.0
    starting = sum(start.training.pretrain_iterations * paces.of(start) for start in starts) * resources.workers
    before = starting + teaching  # by one process
    return document | {
        **_in_short(experiment),
        "pretraining_iterations": sum(start.training.pretrain_iterations for start in starts),
        "teacher_iterations": teaching_iterations,
        **_spent(experiment, document["iterations_expected"], paces, before / 3600),
    }


def _course_iterations(need: str, most: int) -> int:
    """Iterations of the teachers of which a scoring reads the course; each makes `most`, if it is a whole training."""
    if need == "early_teachers":
        return EARLY_TEACHERS * min(EARLY_ITERATIONS, most)
    return most * (FOLDS if need == "cross_fitted" else 1)


def _spent(experiment: Experiment, iterations: int, paces: Paces, before: float) -> dict[str, Any]:
    """The cost of a search whose trials make so many iterations, and the budget that ends it. `before`: hours before
    the first trial, which no budget counts."""
    search = experiment.search
    span, figures = forecast_by(paces, experiment, iterations, _at_a_time(search))
    used_up = search.iterations is not None and iterations >= search.iterations
    return {
        **figures,
        "hours_forecast": before + span.hours,
        "gpu_hours_forecast": before * search.resources.gpu + span.training * search.resources.gpus,
        "budgets": budgets(search),
        "paces": [asdict(pace) for pace in paces.kinds],
        "ends_by": span.ends or ("search.iterations" if used_up else None),
    }


def _warm_start(experiment: Experiment, digest: str, storage: str) -> list[str]:
    """Notes on what the searches in `search.warm_start` contribute. Raises ConfigError for one that does not exist."""
    if not experiment.search.warm_start:
        return []
    from tune_cl.search.warm_start import notes_of, warm_start

    event = warm_start(experiment, digest, search_folder_of(storage, experiment.name))
    return notes_of(event) if event else []


def _threads(resources: Resources) -> int:
    """Threads of a trial, at most as many as this machine has cores."""
    return min(resources.threads, os.cpu_count() or 1)


def _pretrained(experiment: Experiment) -> list[TrainingRun]:
    """A training for each pre-training; pre-trainings run one after another before the first trial."""
    from trainables.training.materials import materials_key

    runs = {materials_key(run): run for run in experiment.distinct_rankers()}
    return [run for run in runs.values() if run.training.pretrain_data is not None]


def _too_large(experiment: Experiment) -> list[str]:
    """Resources of a trial that this machine lacks; the nodes of a cluster may have them."""
    from tune_cl.ray.slots import lacking  # imports Ray

    return [f"{problem.location}: {problem.wrong}" for problem in lacking(experiment.search.resources)]


def _at_a_time(search: SearchConfig) -> int:
    from tune_cl.ray.slots import at_a_time  # imports Ray

    return at_a_time(search)


def _in_short(experiment: Experiment) -> dict[str, Any]:
    """What a search of the space does, without its size and cost."""
    search = experiment.search
    return {
        "space": experiment.name,
        "data": experiment.value("data.source"),
        "rankers": experiment.rankers,
        "metric": experiment.metric,
        "max_iterations": experiment.max_iterations,
        "searcher": search.searcher,
        "scheduler": search.scheduler,
        "judged": _compared_when(experiment),
        "reduction_factor": search.reduction_factor,
        "rungs": experiment.rungs if search.scheduler in WITH_RUNGS else [],
        "baseline": experiment.baseline_values(),
        "at_a_time": _at_a_time(search),
    }


def _compared_when(experiment: Experiment) -> str | None:
    """When the scheduler compares trials, in words; None if it never does."""
    search = experiment.search
    if search.scheduler == "none":
        return None
    if search.scheduler == "model" and experiment.setup.promotion:
        return "after every iteration, inside its curriculum too"
    return {
        "curriculum": "only after its own curriculum",
        "none": "whether or not its curriculum is over",
    }.get(str(search.grace), f"not before iteration {search.grace}")


def render(document: dict[str, Any]) -> str:
    rows = {topic: text for topic, text in _by_topic(document).items() if text}
    return table([f"space {document['space']}", ""], rows.items())


def _plain(arm: dict[str, Any]) -> str:
    """How the opponent is tuned."""
    if arm["trials"] < 2:
        return f"{DEFAULT}, alone: plain training is not tuned"
    return f"{arm['trials']} of them, over {', '.join(arm['opened'])}"


def _by_topic(document: dict[str, Any]) -> dict[str, str]:
    """The document in words, by topic."""
    trials, most = document["trials"], document["iterations_at_most"]
    expected, combinations = document["iterations_expected"], document["combinations"]
    many = "any number of" if combinations is None else f"{combinations:,}"
    some = f" ({document['conditional']} conditional)" if document["conditional"] else ""
    baseline = ", ".join(f"{key} {_value(value)}" for key, value in document["baseline"].items())
    before = document["pretraining_iterations"]
    trained = f"{', '.join(document['rankers'])} on {document['data'] or 'its own data'}"
    return {
        "trains": f"{trained}, for {document['metric']} on dev",
        "opens": f"{counted(document['parameters'], 'key')}{some}: {many} combinations",
        "steps": "; ".join(document["steps"]),
        "priors": "; ".join(document["priors"]),
        "searcher": f"{document['searcher']}: {SEARCHERS.entries[document['searcher']].summary}",
        "tries first": counted(document["points"], "configuration") + " of search.points" if document["points"] else "",
        "trials": f"{trials}, of at most {document['max_iterations']} iterations each",
        "plain trials": _plain(document["arms"]["plain"]),
        DEFAULT: f"{baseline or 'as the configuration is by default'}; the first trial, never stopped early",
        "scheduler": _scheduler(document),
        "iterations": f"{most:,} at most" + (f", about {expected:,} expected" if expected < most else ""),
        "teacher": _before(document["teacher_iterations"], ": one more training, which a scoring needs"),
        "pre-training": _before(before),
        "time here": _time_here(document),
        "an iteration": _paces(document["paces"]),
        "budgets": _budgets(document),
        "GPU": f"{document['gpu_hours_forecast']:.3g} hours" if document["gpu_hours_forecast"] else "",
    }


def _value(value: Any) -> str:
    return short(value) if isinstance(value, float) else on_a_line(value)


def _scheduler(document: dict[str, Any]) -> str:
    summary = SCHEDULERS.entries[document["scheduler"]].summary
    text = f"{document['scheduler']}: {summary.replace('reduction_factor', format(document['reduction_factor'], 'g'))}"
    if rungs := document["rungs"]:
        text += f"; {'rungs at iterations' if len(rungs) > 1 else 'a rung at iteration'} {', '.join(map(str, rungs))}"
    return text + (f"; trials are compared: {document['judged']}" if document["judged"] else "")


def _paces(paces: list[dict[str, Any]]) -> str:
    """Seconds per iteration of each kind of training, if there are several kinds."""
    shown = [f"{_kind(pace['of'])} {pace['seconds_per_iteration']:.3g} s" for pace in paces]
    trials = [counted(round(pace["trials"]), "trial") for pace in paces]
    return ", ".join(map("{} ({})".format, shown, trials)) if len(paces) > 1 else ""


def _kind(values: dict[str, Any]) -> str:
    """The values of opened keys that distinguish kinds of trainings; rankers and encoders by name alone."""
    named = ("ranker.name", "ranker.model")
    return " ".join(str(of) if key in named else f"{key.rpartition('.')[2]} {of}" for key, of in values.items())


def _budgets(document: dict[str, Any]) -> str:
    limits = ", ".join(f"{key} {_value(limit)}" for key, limit in document["budgets"].items())
    ends = document["ends_by"] or "none is"
    return f"{limits}: the first that is reached ends the search; by this forecast {ends}" if limits else ""


def _before(iterations: int, what: str = "") -> str:
    return f"at most {counted(iterations, 'iteration')} before the first trial{what}" if iterations else ""


def _time_here(document: dict[str, Any]) -> str:
    slots, seconds = f"{document['at_a_time']} at a time", document["seconds_per_iteration"]
    if seconds is None:
        return f"not measured, {slots}"
    mean = " on average" if len(document["paces"]) > 1 else ""
    return f"{_time(document['hours_forecast'])} without start-up, {slots}, {seconds:.3g} s an iteration{mean}"


def _time(hours: float) -> str:
    if hours >= 2:
        return f"about {hours:.1f} hours"
    return f"about {hours * 60:.0f} min" if hours * 60 >= 2 else f"about {hours * 3600:.0f} s"
