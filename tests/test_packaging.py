"""What is published: the wheel holds everything and runs anywhere; declared dependencies are used, and no others."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.builders import tiny_data
from tests.support.project import ROOT, pins
from tests.support.terminal import outcomes_of
from tests.support.trec_folder import write_trec_folder

pytestmark = pytest.mark.slow

PACKAGES = ("tune_cl", "trainables", "search_spaces")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
OF_CALLERS = {"IPython", "pytest"}  # imported where a notebook's kernel, or a test, has imported it
IMPORTED_BY_OTHERS = {"greenlet", "pytrec-eval-terrier"}  # by Optuna: Gaussian process; by ir_measures


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True
    )


def source_files(*suffixes: str) -> list[str]:
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in suffixes)
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def top_level_imports(package: str) -> Iterator[tuple[str, str]]:
    """(file, top-level module) of every absolute import in `package`, those inside functions included."""
    for name in source_files(".py"):
        if name.startswith(f"{package}/"):
            for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    yield from ((name, alias.name.split(".")[0]) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    yield name, node.module.split(".")[0]


def distributions(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def copy_checkout(tree: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a `build/` left in the checkout would add deleted modules to the wheel."""
    tree = tmp_path_factory.mktemp("tree")
    copy_checkout(tree)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    built = run(*pip, "--wheel-dir", tree / "dist", ".", cwd=tree)
    assert built.returncode == 0, built.stderr
    return next((tree / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps")
    done = run(*pip, "--target", target, wheel, cwd=target)
    assert done.returncode == 0, done.stderr
    return target


def test_wheel_holds_every_module_and_search_space_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(names) == source_files(".py", ".yaml", ".html", ".css", ".js", ".json", ".bib", ".md", ".typed")


def test_the_wheel_searches_in_an_empty_folder(installed: Path, tmp_path: Path, cache_home: Path) -> None:
    """The command that pip installed, with neither checkout nor Makefile."""
    data = write_trec_folder(tiny_data(queries={"train": 12, "dev": 6}, candidates=4, turns=1), installed / "data")
    few = ("--trials", "2", "--max-iterations", "1", "--set", "search.max_concurrent=1")
    command = (installed / "bin/tune-cl", "run", "quickstart", "--data", data, *few, "--json")
    done = run(*command, cwd=tmp_path, env={"PYTHONPATH": str(installed)})
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert outcomes_of(document) == ["completed"] * 2 and document["trials"][0]["iteration"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tune_cl_runs"]


def test_a_script_beside_the_clone_imports_the_package(tmp_path: Path) -> None:
    """Python looks beside the script first, where the clone's folder has the package's name."""
    clone, packages = tmp_path / "tune_cl", tmp_path / "packages"
    copy_checkout(clone)
    (clone / "dist").mkdir()
    built = run(sys.executable, "-c", "import setuptools.build_meta as it; it.build_editable('dist')", cwd=clone)
    assert built.returncode == 0, built.stderr
    (wheel,) = clone.glob("dist/*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    script = f"import site; site.addsitedir({str(packages)!r}); import tune_cl; print(tune_cl.__file__)"
    (tmp_path / "script.py").write_text(script)
    shown = run(sys.executable, "-E", "-S", "script.py", cwd=tmp_path)
    assert shown.stdout == f"{clone}/tune_cl/__init__.py\n", shown.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_is_declared(package: str) -> None:
    owners = packages_distributions()
    extras = PROJECT["optional-dependencies"]
    declared = distributions([*PROJECT["dependencies"], *extras["datasets"]])
    undeclared = {
        (file, module)
        for file, module in top_level_imports(package)
        if module not in sys.stdlib_module_names | set(PACKAGES) | OF_CALLERS
        and declared.isdisjoint(map(canonicalize_name, owners.get(module, [])))
    }
    assert undeclared == set()


def test_every_dependency_is_used() -> None:
    """A dependency counts as used when one of its modules is imported, or named in a string (read, not imported)."""
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in source_files(".py"))
    modules: dict[str, set[str]] = {}
    for module, owners in packages_distributions().items():
        for owner in owners:
            modules.setdefault(canonicalize_name(owner), set()).add(module)
    used = r"^\s*(?:import|from) {0}\b|[\"']{0}[\"']"
    unused = {
        name
        for name in distributions(PROJECT["dependencies"]) - IMPORTED_BY_OTHERS
        if not any(
            re.search(used.format(re.escape(module)), text, re.MULTILINE) for module in modules.get(name, {name})
        )
    }
    assert unused == set()


def test_every_constraint_is_a_portable_exact_pin() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert [line for line in pinned if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    assert len(pins()) == len(pinned), "a package is pinned twice"


def test_every_declared_dependency_has_a_pin_inside_its_range() -> None:
    pinned = pins()
    required = [Requirement(line) for line in PROJECT["dependencies"] + OPTIONAL]
    outside = [str(line) for line in required if pinned[canonicalize_name(line.name)] not in line.specifier]
    assert outside == []
