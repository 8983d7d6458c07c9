"""Documentation strings read from the sources of installed packages, without importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from trainables.data.words import words
from trainables.errors import WorkFailed

PACKAGES = {  # import name -> distribution
    "matplotlib": "matplotlib",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
}
FEWEST_WORDS = 3
MOST_WORDS = 120  # longer parts are cut
_BLANK = re.compile(r"\n\s*\n")
_UNDERLINE = re.compile(r"(?m)^[ \t]*([-=~^*#+`])\1{2,}[ \t]*$")
_SPACE = re.compile(r"\s+")
_DIRECTIVE = (".. ", "%")  # directives and template marks
_DOCTEST = ">>>"
_OLD_PYTHON = "numpy.distutils."  # in NumPy for Python 3.11 only; the data must be the same on all versions
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Docstring:
    """A documentation string cut into parts at its blank lines; the first is the summary."""

    package: str
    module: str
    name: str
    parts: tuple[str, ...]


def package_versions() -> dict[str, str]:
    """Installed versions by import name. Raises WorkFailed if a package is missing."""
    try:
        return {package: version(distribution) for package, distribution in PACKAGES.items()}
    except PackageNotFoundError as error:
        raise WorkFailed(f"the docstrings data reads the sources of {error.name}, which is not installed") from None


def read_package(package: str) -> list[Docstring]:
    """The documentation strings of all modules, classes and functions, in the order of the files. Leaves out tests, and
    modules that the package has only under some versions of Python."""
    spec = find_spec(package)  # for a top-level name, this imports nothing
    if spec is None or not spec.submodule_search_locations:
        raise WorkFailed(f"the docstrings data finds no sources of {package}")
    return read_folder(package, Path(spec.submodule_search_locations[0]))


def read_folder(package: str, root: Path) -> list[Docstring]:
    """As `read_package`, given the package's folder."""
    found = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).with_suffix("").parts
        module = ".".join((package, *inside)).removesuffix(".__init__")
        if not any(_is_test(part) for part in inside) and not f"{module}.".startswith(_OLD_PYTHON):
            found += [Docstring(package, module, name, parts_of(text)) for name, text in _documented(path, module)]
    return found


def _is_test(part: str) -> bool:
    return part in ("tests", "testing", "conftest", "_testing") or part.startswith("test_")


def _documented(path: Path, module: str) -> Iterator[tuple[str, str]]:
    """(qualified name, cleaned text) of everything that has a documentation string."""
    waiting: list[tuple[str, ast.Module | _Definition]] = [(module, ast.parse(path.read_bytes()))]
    while waiting:
        name, node = waiting.pop()
        if text := ast.get_docstring(node):
            yield name, text
        waiting += [(f"{name}.{child.name}", child) for child in reversed(node.body) if isinstance(child, _Definition)]


def parts_of(text: str) -> tuple[str, ...]:
    """The prose paragraphs of a documentation string, each on one line, without underlines, cut to MOST_WORDS."""
    parts = (_UNDERLINE.sub(" ", part).strip() for part in _BLANK.split(text))
    prose = (part for part in parts if not part.startswith(_DIRECTIVE) and _DOCTEST not in part)
    lines = (_SPACE.sub(" ", part) for part in prose)
    return tuple(" ".join(line.split(" ")[:MOST_WORDS]) for line in lines if len(words(line)) >= FEWEST_WORDS)
