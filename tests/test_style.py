"""The repository's own rules: short files and functions, no swallowed errors, no loading that can run code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tune_cl", "trainables", "search_spaces", "tests", "benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
UNSAFE_MODULES = {"pickle", "cloudpickle", "dill", "joblib"}


def long_functions(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES:
                yield node.lineno


def swallowed_errors(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            empty = all(isinstance(line, ast.Pass | ast.Continue) for line in node.body)
            if node.type is None or (broad and empty):
                yield node.lineno


def unsafe_imports(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if UNSAFE_MODULES.intersection(name.split(".")[0] for name in names):
            yield node.lineno


def unsafe_loads(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        weights_only = any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in node.keywords)
        if name in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"} or (name == "torch.load" and not weights_only):
            yield node.lineno


Rule = Callable[[ast.AST], Iterator[int]]
RULES: list[tuple[Rule, str]] = [
    (long_functions, "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES),
    (swallowed_errors, "try:\n    f()\nexcept Exception:\n    pass\n"),
    (unsafe_imports, "from pickle import loads\n"),
    (unsafe_loads, "torch.load('weights.pt')\n"),
]


@cache
def parsed_files() -> dict[Path, ast.Module]:
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


@pytest.mark.parametrize(("rule", "offence"), RULES, ids=lambda value: getattr(value, "__name__", ""))
def test_no_file_breaks_the_rule(rule: Rule, offence: str) -> None:
    assert len(list(rule(ast.parse(offence)))) == 1, "the rule misses a plain offence"
    assert [f"{path}:{line}" for path, tree in parsed_files().items() for line in rule(tree)] == []


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert lengths and {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}
