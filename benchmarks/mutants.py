"""Single changes ("mutants") of the core modules, each with tests that notice it: tests/mutants.jsonl.

    python benchmarks/mutants.py [--only pacing losses-03 ...]

Each change is made in a copy of the checkout, where its tests run: one of them must fail. A change is found by the text
of its line within its function; where the line was rewritten, or all its tests are gone, the change is `gone`: write
another one. Ends with status 1 if a change survives. About 8 seconds a change.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "mutants.jsonl"
LIMIT = 120  # seconds for the tests of a change; an endless loop counts as noticed
NO_SUCH_TEST = 4  # pytest's exit status


@dataclass(frozen=True)
class Mutant:
    """A change of one line of a file; `line` and `changed` are without their indentation."""

    id: str
    file: str
    function: str
    line: str
    changed: str
    noticed_by: list[str]


def changed_text(text: str, mutant: Mutant) -> str | None:
    """The file with the change; None where the function has no such line."""
    lines = text.splitlines(keepends=True)
    for first, last in spans_of(ast.parse(text), mutant.function):
        for number in range(first, last):
            if lines[number].strip() == mutant.line:
                lines[number] = lines[number].replace(mutant.line, mutant.changed)
                return "".join(lines)
    return None


def spans_of(tree: ast.Module, function: str) -> list[tuple[int, int]]:
    """The lines [first, last) of functions or classes of this dotted name; of the whole module where it is empty."""
    bodies = [tree.body]
    spans = [(0, tree.body[-1].end_lineno or 0)]
    for name in function.split(".") if function else []:
        statements = [statement for body in bodies for statement in body]
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        parts = [part for part in statements if isinstance(part, kinds) and part.name == name]
        bodies = [part.body for part in parts]
        spans = [(part.lineno - 1, part.end_lineno or 0) for part in parts]
    return spans


def outcome(mutant: Mutant, copy: Path) -> str:
    """`noticed`, `survives` or `gone`."""
    file = copy / mutant.file
    tests = [test for test in mutant.noticed_by if (copy / test.partition("::")[0]).exists()]
    original = file.read_text() if file.exists() else ""
    changed = changed_text(original, mutant)
    if changed is None or not tests:
        return "gone"
    file.write_text(changed)
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=copy, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return "noticed"
    finally:
        file.write_text(original)
    if done.returncode == NO_SUCH_TEST:
        return "gone"
    return "noticed" if done.returncode else "survives"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="ids, or what they begin with")
    options = parser.parse_args()
    mutants = [Mutant(**json.loads(line)) for line in LIST.read_text().splitlines()]
    outcomes: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        skipped = shutil.ignore_patterns(".venv", ".git", "site", "*.egg-info")
        shutil.copytree(ROOT, copy, ignore=skipped)
        for mutant in mutants:
            if mutant.id.startswith(tuple(options.only)):
                outcomes[mutant.id] = outcome(mutant, copy)
                print(mutant.id, outcomes[mutant.id], flush=True)
    counts = {kind: list(outcomes.values()).count(kind) for kind in ("noticed", "survives", "gone")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(counts["survives"] > 0)


if __name__ == "__main__":
    sys.exit(main())
