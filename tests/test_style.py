"""The repository's own rules beside those of ruff: short files and functions, no loading that can run code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("tune_cl", "trainables", "search_spaces", "benchmarks")
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 60
UNSAFE = re.compile(
    r"^\s*(?:from|import) (?:pickle|cloudpickle|dill|joblib)\b|\btorch\.load\((?!.*weights_only=True)", re.MULTILINE
)


def files(*folders: str) -> dict[str, str]:
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_files_and_functions_are_short() -> None:
    for path, text in files(*SOURCES, "tests").items():
        assert len(text.splitlines()) <= MAX_FILE_LINES, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, f"{path}:{node.lineno}"


@pytest.mark.parametrize("offence", ["from pickle import loads\n", "torch.load('weights.pt')\n"])
def test_nothing_is_loaded_that_can_run_code(offence: str) -> None:
    assert UNSAFE.search(offence), "a plain offence is found"
    assert [path for path, text in files(*SOURCES).items() if UNSAFE.search(text)] == []
