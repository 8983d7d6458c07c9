"""The project stays small: budget.toml holds what it may take. Whoever adds something lowers something else, or raises
the budget in the same commit and says why."""

from __future__ import annotations

import ast
import sys
import threading
import tokenize
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import tune_cl
from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import configuration_fields
from trainables.rankers import RANKERS
from tune_cl.experiment.search_keys import SEARCH_KEYS

ROOT = Path(__file__).parents[1]
BUDGET = tomllib.loads((ROOT / "budget.toml").read_text())
SOURCE = [path for name in ("tune_cl", "trainables", "search_spaces") for path in sorted((ROOT / name).rglob("*.py"))]
EXTRAS = [path for path in SOURCE if path.is_relative_to(ROOT / "trainables/extras")]
CORE = [path for path in SOURCE if path not in EXTRAS]
UNTYPED = ("dict[str, Any]", "Mapping[str, Any]", "Document")
REBUILDS = ("training_run", "ranker_run")  # a configuration from its keys
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def lines_of(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def tokens_of(path: Path) -> int:
    with path.open("rb") as file:
        return sum(token.type not in LAYOUT for token in tokenize.tokenize(file.readline))


def annotations(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.arg(annotation=ast.expr() as found) | ast.AnnAssign(annotation=found):
            return [found]
        case ast.FunctionDef(returns=ast.expr() as found):
            return [found]
    return []


def reads_a_key(node: ast.AST) -> bool:
    """Whether a node reads `value["key"]` or `value.get("key")`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str()), ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str()), *_]):
            return True
    return False


def untyped() -> dict[str, int]:
    """What has no type in the source, core and extras: annotations, reads by key, configurations built from keys."""
    nodes = [node for path in SOURCE for node in ast.walk(ast.parse(path.read_text()))]
    said = [ast.unparse(one) for node in nodes for one in annotations(node)]
    called = [node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return {
        "untyped_annotations": sum(any(name in text for name in UNTYPED) for text in said),
        "string_key_reads": sum(map(reads_a_key, nodes)),
        "rebuilding_calls": sum(name in REBUILDS for name in called),
    }


def spent() -> dict[str, int]:
    return untyped() | {
        "source_lines": lines_of(CORE),
        "source_tokens": sum(map(tokens_of, CORE)),
        "extras_lines": lines_of(EXTRAS),
        "modules": len(SOURCE),
        "keys": len({*configuration_fields(RANKERS), *SEARCH_KEYS}),
        "test_lines": lines_of(sorted((ROOT / "tests").rglob("*.py"))),
        "benchmark_lines": lines_of(sorted((ROOT / "benchmarks").rglob("*.py"))),
    }


@contextmanager
def ours_called() -> Iterator[set[CodeType]]:
    """The code objects of the project that are called in the block, in any thread."""
    called: set[CodeType] = set()
    homes = tuple(str(ROOT / name) for name in ("tune_cl", "trainables"))

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(homes):
            called.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]


def of_one_training(folder: Path) -> dict[str, int]:
    """Files and functions that the training of a TREC folder goes through, imports left out."""
    data = tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1)
    small = {"training.max_iterations": 2, "training.batches_per_iteration": 2, "curriculum.pacing": "root"}

    def train(name: str) -> None:
        write_trec_folder(data, folder / name)
        tune_cl.train(data=folder / name, ranker="knrm", overrides=small, output=folder / f"{name}-trained")

    train("first")  # which imports what it needs
    with ours_called() as called:
        train("second")
    called = {code for code in called if code.co_name != "<module>"}
    return {"training_files": len({code.co_filename for code in called}), "training_functions": len(called)}


def compare(found: dict[str, int]) -> None:
    over = {name: value for name, value in found.items() if value > BUDGET[name]}
    assert not over, f"over budget.toml, which has { ({name: BUDGET[name] for name in over}) }: {over}"


def test_the_project_keeps_its_budget() -> None:
    compare(spent())


def test_a_training_keeps_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compare(of_one_training(tmp_path))
