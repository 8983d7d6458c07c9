"""Single changes ("mutants") of the core modules, and the quick tests that notice each: tests/mutants.jsonl.

    python benchmarks/mutants.py map CHECKOUT MAP                       the lines that each quick test executes
    python benchmarks/mutants.py make FILE... --count N --map MAP       draws N changes of each file, one a line
    python benchmarks/mutants.py run CHECKOUT [--only ID...] [--map MAP] [--update]

`run` makes each change in a copy of the checkout and runs the tests that noticed it before. Where these are gone, it
takes tests of the same name; where none of them notices it, those that execute the line by the map, if there is one. A
change is found by its function and the text of its line, so that it outlives moves; a line that was rewritten is
`gone`. The exit code is 1 if a change survives that a test noticed before.

One process imports the large libraries; each change is tested in a fork of it, which imports the project from its copy.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIST = Path("tests", "mutants.jsonl")
PACKAGES = ("trainables", "tune_cl")
LIBRARIES = ["gensim.models", "hypothesis", "lightgbm", "matplotlib.pyplot", "mlflow.tracking", "optuna", "pandas",
             "pyarrow", "pydantic", "ray.tune", "requests", "rich.console", "safetensors.torch", "scipy.stats",
             "sklearn", "torch._dynamo", "torch.distributed.fsdp", "transformers"]  # fmt: skip
LIMIT = 60.0  # seconds for the tests of a change; endless loops count as noticed
ENOUGH = 3  # tests that notice a change
STAGES = ((8, 8.0), (30, 25.0), (120, 60.0))  # by the map: the most tests, and their seconds; the last one if asked for
PACES = (0.3, 1.0, 4.0)  # seconds: tests as quick as each other go by what they are about
T = TypeVar("T")


@dataclass(frozen=True)
class Mutant:
    """A change of one line: `line` and `changed` without their indentation. `noticed_by`: empty if no test failed."""

    id: str
    file: str
    function: str
    line: str
    changed: str
    noticed_by: tuple[str, ...] = ()


# -- where a change stands ----------------------------------------------------------------------------------------


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Source:
    """A Python file, and what each of its lines belongs to. Lines count from 1."""

    def __init__(self, path: Path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.split("\n")
        self.tree = ast.parse(self.text)
        self.owner = [""] * (len(self.lines) + 2)
        self.definition: list[Definition | None] = [None] * (len(self.lines) + 2)
        self._own(self.tree, "")

    def _own(self, node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = name
            if isinstance(child, Definition):
                inside = f"{name}.{child.name}".lstrip(".")
                start = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                for line in range(start, (child.end_lineno or start) + 1):
                    self.owner[line], self.definition[line] = inside, child
            self._own(child, inside)

    def find(self, text: str) -> list[int]:
        """The lines with this code, whatever their indentation and comment."""
        return [number for number, line in enumerate(self.lines, 1) if _code_of(line) == _code_of(text)]

    def with_change(self, number: int, changed: str) -> str:
        """The file's text with another line."""
        line = self.lines[number - 1]
        lines = [*self.lines]
        lines[number - 1] = line[: len(line) - len(line.lstrip())] + changed
        return "\n".join(lines)

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """The statements inside functions, outer ones first."""
        functions = (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        found = {id(inner): inner for node in functions for part in node.body for inner in ast.walk(part)}
        return sorted((node for node in found.values() if isinstance(node, ast.stmt)), key=lambda node: node.lineno)

    def executed_with(self, number: int) -> set[int]:
        """The first lines of the statements of which one is executed wherever this line has an effect."""
        around = [node for node in self.statements if node.lineno <= number <= (node.end_lineno or 0)]
        if around:
            return {around[-1].lineno}
        definition = self.definition[number]
        if isinstance(definition, ast.FunctionDef):  # its decorators or defaults
            return {node.lineno for node in definition.body}
        body = definition.body if definition else self.tree.body
        names = {name for node in body if node.lineno <= number <= (node.end_lineno or 0) for name in _assigned(node)}
        return {node.lineno for node in self.statements if not names.isdisjoint(_names(node))}


def _code_of(line: str) -> str:
    return line.strip().partition("  #")[0]


def _assigned(node: ast.stmt) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _names(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    attributes = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return attributes | {part.id for part in parts if isinstance(part, ast.Name)}


def located(root: Path, mutant: Mutant) -> tuple[Source, int] | None:
    """The line that a mutant changes: in its function, else alone in its file, else in the only function of the same
    name anywhere that holds the line."""
    path = root / mutant.file
    if path.exists():
        source = Source(path)
        lines = source.find(mutant.line)
        own = [number for number in lines if source.owner[number] == mutant.function]
        if own or len(lines) == 1:
            return source, (own or lines)[0]
    name = mutant.function.rpartition(".")[2]
    paths = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    holding = [Source(path) for path in paths if _code_of(mutant.line) in path.read_text(encoding="utf-8")]
    found = [(source, n) for source in holding for n in source.find(mutant.line) if _last(source.owner[n]) == name]
    return found[0] if len(found) == 1 else None


def _last(name: str) -> str:
    return name.rpartition(".")[2]


# -- make ---------------------------------------------------------------------------------------------------------


def _pairs(text: str) -> dict[str, str]:
    """`a:b c:d` means a becomes b, and c becomes d."""
    return dict(pair.split(":") for pair in text.split())


SIGNS = _pairs("<:<= <=:< >:>= >=:> ==:!= !=:== +:- -:+ *:/ /:* //:* **:* &:| |:& %:// and:or or:and")
SIGNS |= _pairs("+=:-= -=:+= *=:/= |=:&=") | {"in": "not in", "not in": "in", "is": "is not", "is not": "is"}
NAMES = _pairs(
    "min:max max:min any:all all:any floor:ceil ceil:floor minimum:maximum maximum:minimum ones:zeros zeros:ones"
)
Node = ast.expr | ast.stmt
Change = tuple[Node, Node, str | None]  # first and last node, and their new text; None: for the sign between them


def fine_changes(tree: ast.AST) -> Iterator[Change]:
    """Other signs, numbers and conditions, and calls left out."""
    for node in _code(tree):
        match node:
            case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
                yield left, right, None
            case ast.AugAssign(target=left, value=right):
                yield left, right, None
            case ast.BoolOp(values=values):
                yield from ((*pair, None) for pair in pairwise(values))
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield node, node, ast.unparse(operand)
            case ast.Constant(value=bool() | int() | float() as value):
                yield node, node, _other(value)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield test, test, f"not ({ast.unparse(test)})"
            case ast.Expr(value=ast.Call()):
                yield node, node, "pass"
            case ast.Slice(upper=ast.expr() as upper):
                yield upper, upper, f"{ast.unparse(upper)} - 1"
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in NAMES:
                yield node.func, node.func, ast.unparse(node.func).removesuffix(name) + NAMES[name]


def coarse_changes(tree: ast.AST) -> Iterator[Change]:
    """Values not returned and arguments swapped, which few tests would miss."""
    for node in _code(tree):
        match node:
            case ast.Return(value=ast.expr() as value):
                yield value, value, "None"
            case ast.Call(args=[ast.expr() as first, ast.expr() as second, *_]):
                yield first, second, f"{ast.unparse(second)}, {ast.unparse(first)}"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without annotations, decorators and the texts of errors: no test need notice these."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            left_out = name in ("annotation", "returns", "decorator_list") or isinstance(
                child, ast.JoinedStr | ast.Raise | ast.Assert
            )
            if isinstance(child, ast.AST) and not left_out:
                yield child
                yield from _code(child)


def _other(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1) if isinstance(value, int) else str(value * 2 or 1.0)


def changed_lines(source: Source, changes: Iterable[Change]) -> dict[int, list[str]]:
    """By line: its changed texts, without indentation, that are still Python and mean something else. A line that
    occurs twice is left out."""
    found: dict[int, list[str]] = defaultdict(list)
    original = ast.dump(source.tree)
    for first, last, text in changes:
        number = first.lineno
        if number != last.end_lineno or len(source.find(source.lines[number - 1].strip())) > 1:
            continue
        line = source.lines[number - 1].encode()  # columns count bytes
        start, end = first.col_offset, last.end_col_offset
        if text is None:
            start, end = first.end_col_offset, last.col_offset
            between = line[start:end].decode()  # a sign, perhaps with parentheses
            sign = between.strip("() ")
            text = between.replace(sign, SIGNS.get(sign, sign))
        changed = (line[:start] + text.encode() + line[end:]).decode().strip()
        with suppress(SyntaxError):
            if ast.dump(ast.parse(source.with_change(number, changed))) != original:
                found[number].append(changed)
    return found


def in_turn(items: Iterable[T], group: Callable[[T], str], at_once: int = 1) -> list[T]:
    """The items in rounds, with at most `at_once` of each group in a round."""
    seen: Counter[str] = Counter()
    rounds: dict[int, list[T]] = defaultdict(list)
    for item in items:
        rounds[seen[group(item)] // at_once].append(item)
        seen[group(item)] += 1
    return [item for number in sorted(rounds) for item in rounds[number]]


def drawn(root: Path, file: str, count: int, cover: Cover | None, skip: str, seed: int) -> list[Mutant]:
    """Draws changes of a file, one of a line at most, in turn from its functions; coarse ones last."""
    source = Source(root / file)
    rng = random.Random(f"{seed} {file}")
    fine = changed_lines(source, fine_changes(source.tree))
    options = changed_lines(source, coarse_changes(source.tree)) | fine
    lines = [number for number in sorted(options) if cover is None or cover.tests_of(source, number, root)]
    if skip:
        lines = [n for n in lines if not re.search(skip, f"{source.owner[n]} {source.lines[n - 1]}")]
    in_order = in_turn(rng.sample(lines, len(lines)), source.owner.__getitem__)
    chosen = sorted(sorted(in_order, key=lambda number: number not in fine)[:count])
    names = [f"{Path(file).stem}-{number:02d}" for number in range(1, len(chosen) + 1)]
    texts = [(source.owner[n], source.lines[n - 1].strip(), rng.choice(options[n])) for n in chosen]
    return [Mutant(name, file, *text) for name, text in zip(names, texts, strict=True)]


# -- running tests in forks ---------------------------------------------------------------------------------------


@dataclass
class Task:
    """Tests to run in a copy, perhaps with one file changed: `path` relative to the copy, `text` its new content."""

    tests: list[str]
    mutant: Mutant | None = None
    path: str = ""
    text: str = ""
    limit: float = LIMIT
    records: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    lines: bool = False  # whether to record the lines that each test executes

    def failed(self) -> list[str]:
        """The tests that failed, or never ended; all if none could even be imported."""
        ended = {record["test"]: record["outcome"] for record in self.records if "outcome" in record}
        begun = [record["begin"] for record in self.records if "begin" in record]
        failed = [test for test in begun if ended.get(test, "failed") == "failed"]
        return failed if begun else self.tests[:ENOUGH]

    def passed(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record.get("outcome") == "passed"]


class Forks:
    """Copies of a checkout, in each of which one fork of this process at a time runs tests."""

    def __init__(self, checkout: Path, folder: Path, jobs: int):
        self.folder = folder
        self.free = [self._copy(checkout, folder / f"copy{number}") for number in range(jobs)]
        self.running: dict[int, tuple[Task, Path, float]] = {}
        self.changed = 0
        os.environ.setdefault("TUNE_CL_SHARED", str(checkout.parent / "shared"))

    @staticmethod
    def _copy(checkout: Path, to: Path) -> Path:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        for name in filter(None, names):
            if (checkout / name).is_file():
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, to / name)
        return to

    def run(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Runs tasks, and yields each when it has ended."""
        waiting = list(tasks)[::-1]
        try:
            while waiting or self.running:
                while waiting and self.free:
                    self._start(waiting.pop(), self.free.pop())
                for pid in list(self.running):
                    if task := self._ended(pid):
                        yield task
                time.sleep(0.02)
        finally:
            for pid in self.running:
                end_group(pid)

    def _start(self, task: Task, copy: Path) -> None:
        """Python's cached bytecode knows a file by its time in seconds and its size: no two changes share a time."""
        self.changed += 1
        if task.path:
            target = copy / task.path
            shutil.copy2(target, copy / "original")
            target.write_text(task.text, encoding="utf-8")
            os.utime(target, (0, (copy / "original").stat().st_mtime + 10 * self.changed))
        shutil.rmtree(copy / "out", ignore_errors=True)
        (copy / "out").mkdir()
        (copy / "out" / "records").touch()
        pid = os.fork()
        if not pid:
            in_fork(task, copy)
        self.running[pid] = task, copy, time.monotonic()

    def _ended(self, pid: int) -> Task | None:
        task, copy, started = self.running[pid]
        task.seconds = time.monotonic() - started
        if task.seconds > task.limit:
            end_group(pid)
        if os.waitpid(pid, 0 if task.seconds > task.limit else os.WNOHANG)[0] != pid:
            return None
        end_group(pid)  # what its tests have started
        del self.running[pid]
        lines = (copy / "out" / "records").read_text(encoding="utf-8").splitlines()
        task.records = [json.loads(line) for line in lines if line.endswith("}")]
        if task.path:
            shutil.copy2(copy / "original", copy / task.path)
        self.free.append(copy)
        return task


def end_group(group: int) -> None:
    """Ends the processes of a group, if there are any left."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def in_fork(task: Task, copy: Path) -> None:
    """Runs the tests of a task in this process, and ends it."""
    status = 1
    try:
        os.setsid()
        os.chdir(copy)
        os.environ |= {"PYTHONPATH": str(copy), "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "out" / "hypothesis")}
        sys.path[0] = str(copy)
        output = os.open(copy / "out" / "output", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        if task.lines:
            sys.meta_path.insert(0, LineFinder(copy))
        most = () if task.lines or task.mutant is None else (f"--maxfail={ENOUGH}",)
        options = ["-p", "no:cacheprovider", "--basetemp", str(copy / "out" / "tmp"), "-m", "", *most]
        status = int(pytest.main([*options, *task.tests], plugins=[Recorder(copy / "out" / "records")]))
    finally:
        os._exit(status)


class Recorder:
    """Writes down when a test begins, how it ends, and which lines were executed since it began."""

    def __init__(self, path: Path):
        self.file = path.open("w", encoding="utf-8", buffering=1)
        self.outcome = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        print(json.dumps({"collected": [item.nodeid for item in session.items]}), file=self.file)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        print(json.dumps({"begin": item.nodeid}), file=self.file)
        EXECUTED.clear()
        began, self.outcome = time.monotonic(), "skipped"
        result = yield
        record = {"test": item.nodeid, "outcome": self.outcome, "seconds": round(time.monotonic() - began, 3)}
        print(json.dumps(record | {"lines": sorted(EXECUTED)}), file=self.file)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.when == "call" and report.passed and self.outcome != "failed"):
            self.outcome = report.outcome


# -- which tests execute a line -----------------------------------------------------------------------------------

EXECUTED: set[tuple[str, int]] = set()


class LineFinder(MetaPathFinder):
    """Makes each statement inside a function of the project note that it is executed."""

    def __init__(self, root: Path):
        self.root = root

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin:
            spec.loader = LineLoader(fullname, spec.origin, Path(spec.origin).relative_to(self.root).as_posix())
        return spec


class LineLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, name: str):
        super().__init__(fullname, path)
        self.name_in_map = name

    def get_code(self, fullname: str) -> Any:
        source = Source(Path(self.path))
        numbers = {id(node): node.lineno for node in source.statements}
        for node in ast.walk(source.tree):
            for part in ("body", "orelse", "finalbody"):
                statements = getattr(node, part, None)
                if isinstance(statements, list) and statements and id(statements[0]) in numbers:
                    setattr(node, part, [new for old in statements for new in self._noted(old, numbers[id(old)])])
        return compile(ast.fix_missing_locations(source.tree), self.path, "exec", dont_inherit=True)

    def _noted(self, statement: ast.stmt, line: int) -> list[ast.stmt]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return [statement]  # a docstring has to come first
        return [*ast.parse(f"__executed__(({self.name_in_map!r}, {line}))").body, statement]

    def exec_module(self, module: Any) -> None:
        module.__executed__ = EXECUTED.add
        super().exec_module(module)


@dataclass
class Cover:
    """Which quick tests pass and execute a line. `lines`: indices of `tests` by file and line."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, list[int]]]

    @classmethod
    def read(cls, path: Path) -> Cover:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @cached_property
    def sizes(self) -> Counter[int]:
        """Lines that each test executes: a test of few is about these."""
        return Counter(test for lines in self.lines.values() for tests in lines.values() for test in tests)

    def tests_of(self, source: Source, number: int, root: Path, most: int = 1, longest: float = 0.0) -> list[str]:
        """The tests to run for a change of a line: short and specific ones first, and not only parameters of one."""
        lines = self.lines.get(source.path.relative_to(root).as_posix(), {})
        tests = {test for line in source.executed_with(number) for test in lines.get(str(line), ())}
        ordered = sorted(tests, key=lambda test: (bisect(PACES, self.seconds[test]), self.sizes[test], test))
        chosen, seconds = [], 0.0
        for test in in_turn(ordered, lambda test: self.tests[test].partition("[")[0], 2):
            seconds += self.seconds[test]
            if not chosen or (len(chosen) < most and seconds <= longest):
                chosen.append(self.tests[test])
        return chosen


def extend_map(forks: Forks, path: Path, files: Iterable[str]) -> None:
    """Adds the quick tests of some files to a map, each file in a fork."""
    cover = Cover.read(path) if path.exists() else Cover([], [], {})
    for task in forks.run(Task(["-m", "not slow", file], limit=1200, lines=True) for file in files):
        passed = task.passed()
        print(f"{task.tests[-1]}: {len(passed)} tests pass, {task.seconds:.0f} s", file=sys.stderr)
        for record in passed:
            for file, line in record["lines"]:
                cover.lines.setdefault(file, {}).setdefault(str(line), []).append(len(cover.tests))
            cover.tests.append(record["test"])
            cover.seconds.append(record["seconds"])
        path.write_text(json.dumps(asdict(cover)), encoding="utf-8")


# -- run ----------------------------------------------------------------------------------------------------------


def heirs_of(mutants: Iterable[Mutant], existing: Iterable[str]) -> dict[str, list[str]]:
    """For each test that noticed a change before: itself, or where it is gone, some of the same name elsewhere."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for test in sorted(existing):
        by_name[test].append(test)
        by_name[_name(test)].append(test)
    wanted = {test for mutant in mutants for test in mutant.noticed_by}
    return {test: by_name.get(test) or by_name[_name(test)][:ENOUGH] for test in wanted}


def _name(test: str) -> str:
    return test.rpartition("::")[2].partition("[")[0]


def passing_heirs(forks: Forks, mutants: Iterable[Mutant]) -> dict[str, list[str]]:
    """`heirs_of` among the tests of the checkout, without those that fail without any change."""
    (collection,) = forks.run([Task(["--collect-only", "tests"], limit=600)])
    heirs = heirs_of(mutants, (test for record in collection.records for test in record.get("collected", ())))
    tests = sorted({heir for some in heirs.values() for heir in some})
    tasks = [Task(tests[start : start + 40], limit=1200) for start in range(0, len(tests), 40)]
    passing = {record["test"] for task in forks.run(tasks) for record in task.passed()}
    return {test: [heir for heir in some if heir in passing] for test, some in heirs.items()}


Found = dict[str, tuple[str, list[str]]]  # by id: noticed, survived or gone; and the tests that noticed it


def run(forks: Forks, root: Path, mutants: list[Mutant], cover: Cover | None, deep: bool) -> Found:
    """What became of each mutant; `deep`: after all stages."""
    places = {mutant: located(root, mutant) for mutant in mutants}
    found: Found = {mutant.id: ("gone", []) for mutant in mutants if places[mutant] is None}
    heirs = heirs_of(mutants, cover.tests) if cover else passing_heirs(forks, mutants)
    tried: dict[str, set[str]] = defaultdict(set)
    for stage in (None, *(STAGES[: 2 + deep] if cover else ())):
        tasks = []
        for mutant, place in places.items():
            if place is None or mutant.id in found:
                continue
            source, number = place
            if stage is None:
                tests, limit = [heir for test in mutant.noticed_by for heir in heirs[test]], LIMIT
            else:
                assert cover is not None
                tests, limit = cover.tests_of(source, number, root, *stage), LIMIT + 2 * stage[1]
            if tests := [test for test in tests if test not in tried[mutant.id]]:
                tried[mutant.id].update(tests)
                changed = source.with_change(number, mutant.changed)
                tasks.append(Task(tests, mutant, source.path.relative_to(root).as_posix(), changed, limit))
        for task in forks.run(tasks):
            assert task.mutant is not None
            failed = task.failed()[:ENOUGH]
            if failed:
                found[task.mutant.id] = "noticed", failed
            print(f"{task.mutant.id}: {len(failed)} of {len(task.tests)} tests, {task.seconds:.1f} s", file=sys.stderr)
    return {mutant.id: found.get(mutant.id, ("survived", [])) for mutant in mutants}


def read_list(path: Path) -> list[Mutant]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Mutant(**row | {"noticed_by": tuple(row["noticed_by"])}) for row in rows]


def write_list(path: Path, mutants: Iterable[Mutant]) -> None:
    rows = [json.dumps(asdict(mutant), ensure_ascii=False) for mutant in mutants]
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def report(mutants: list[Mutant], found: Found) -> bool:
    """Prints what became of the mutants; returns whether each that was noticed before still is, or is gone."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    lost = []
    for mutant in mutants:
        state, tests = found[mutant.id]
        table[mutant.id.rpartition("-")[0]][state] += 1
        print(f"{mutant.id}  {state}  {' '.join(tests)}")
        if state == "survived" and mutant.noticed_by:
            lost.append(mutant.id)
    for module, counts in table.items():
        print(f"{module:15}" + "".join(f"{counts[state]:4} {state}" for state in ("noticed", "survived", "gone")))
    if lost:
        print(f"noticed before, and no longer: {' '.join(lost)}")
    return not lost


def parsed(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    verbs = parser.add_subparsers(dest="verb", required=True)
    mapping = verbs.add_parser("map")
    mapping.add_argument("checkout", type=Path)
    mapping.add_argument("file", type=Path, help="is extended if it exists")
    mapping.add_argument("tests", nargs="*", help="files of tests; all if none is named")
    making = verbs.add_parser("make")
    making.add_argument("files", nargs="+")
    making.add_argument("--count", type=int, default=20)
    making.add_argument("--skip", default="", help="a pattern of functions and lines to leave out")
    making.add_argument("--seed", type=int, default=0)
    making.add_argument("--map", type=Path)
    running = verbs.add_parser("run")
    running.add_argument("checkout", type=Path)
    running.add_argument("--only", nargs="+", default=[], help="numbers or beginnings of ids")
    running.add_argument("--map", type=Path)
    running.add_argument(
        "--deep", action="store_true", help="take more tests by the map where the first notice nothing"
    )
    running.add_argument("--update", action="store_true", help="write noticed_by into the list")
    return parser.parse_args(argv)


def main() -> int:
    args = parsed()
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if args.verb == "make":
        cover = Cover.read(args.map) if args.map else None
        for file in args.files:
            for mutant in drawn(ROOT, file, args.count, cover, args.skip, args.seed):
                print(json.dumps(asdict(mutant), ensure_ascii=False))
        return 0
    for name in LIBRARIES:
        import_module(name)
    root = args.checkout.resolve()
    with TemporaryDirectory(prefix="mutants-") as folder:
        forks = Forks(root, Path(folder), args.jobs)
        if args.verb == "map":
            everything = sorted(path.relative_to(root).as_posix() for path in (root / "tests").glob("test_*.py"))
            extend_map(forks, args.file, args.tests or everything)
            return 0
        mutants = read_list(root / LIST)
        asked = [one for one in mutants if not args.only or one.id.startswith(tuple(args.only))]
        found = run(forks, root, asked, Cover.read(args.map) if args.map else None, args.deep)
    if args.update:
        new = {one.id: replace(one, noticed_by=tuple(found[one.id][1])) for one in asked}
        write_list(root / LIST, [new.get(one.id, one) for one in mutants])
    return 0 if report(asked, found) else 1


if __name__ == "__main__":
    sys.exit(main())
