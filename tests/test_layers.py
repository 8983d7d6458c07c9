"""Each package imports only lower ones, and no modules import each other in a circle: at the top of a file, in
functions and for types alike. Tests share what is in tests/support, never each other."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("trainables", "tune_cl")
LAYERS = (  # lowest first; a module belongs to the longest prefix of its name
    "trainables.core",
    "trainables.data",
    "trainables.evaluation",
    "trainables.rankers",
    "trainables.curriculum",
    "trainables.training.losses",
    "trainables.config",
    "trainables.baselines",
    "trainables.loops.torch_parts",
    "trainables.loops.curriculum",
    "trainables.training",
    "trainables.loops",
    "trainables.extras",
    "trainables",
    "tune_cl.testing",
    "tune_cl.process",
    "tune_cl.results",
    "tune_cl.space",
    "tune_cl.samplers",
    "tune_cl.schedulers",
    "tune_cl.experiment",
    "tune_cl.history",
    "tune_cl.tracking",
    "tune_cl.verdict.figures",
    "tune_cl.verdict.effect_sentences",
    "tune_cl.verdict.estimates",
    "tune_cl.verdict.pairs",
    "tune_cl.search",
    "tune_cl.verdict",
    "tune_cl.ray",
    "tune_cl.search_result",
    "tune_cl.report",
    "tune_cl.model_card",
    "tune_cl.inputs",
    "tune_cl.run_search",
    "tune_cl.verdict.retraining",
    "tune_cl.verdict.confirm",
    "tune_cl.verdict.effects",
    "tune_cl.verdict.plan",
    "tune_cl.api",
    "tune_cl.integrations",
    "tune_cl.cli",
    "tune_cl",
)


def modules() -> dict[str, Path]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def imports_of(path: Path, names: set[str]) -> set[str]:
    """The project's modules that a file imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & names) or {node.module}
    return found & names


def graph() -> dict[str, set[str]]:
    every = modules()
    return {name: imports_of(path, set(every)) - {name} for name, path in every.items()}


def layer(module: str) -> int:
    prefixes = [name for name in LAYERS if f"{module}.".startswith(f"{name}.")]
    return LAYERS.index(max(prefixes, key=len))


def test_no_module_imports_a_higher_layer() -> None:
    wrong = [f"{one} -> {other}" for one, others in graph().items() for other in others if layer(other) > layer(one)]
    assert wrong == []


EXTRAS = "trainables.extras"
NAME_EXTRAS = {"trainables.rankers"}  # registries


def test_only_registries_name_what_the_core_does_not_need() -> None:
    core = {name: path for name, path in modules().items() if not f"{name}.".startswith(f"{EXTRAS}.")}
    imports = {name for name, path in core.items() if imports_of(path, modules().keys() - core.keys())}
    assert imports == set()
    names = {name for name, path in core.items() if f'"{EXTRAS}.' in path.read_text()}
    assert names == NAME_EXTRAS


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        list(TopologicalSorter(graph()).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_no_test_imports_from_another_test() -> None:
    tests = {f"tests.{path.stem}": path for path in (ROOT / "tests").glob("*.py")}
    wrong = {name: found for name, path in tests.items() if (found := imports_of(path, set(tests)))}
    assert wrong == {}, "what several tests use belongs in tests/support"


def test_the_script_sees_imports_in_functions_and_for_types(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "if TYPE_CHECKING:\n    from b import x\ndef f():\n    import c\n    from d import e\n"
    )
    assert imports_of(tmp_path / "a.py", {"b", "c", "d.e"}) == {"b", "c", "d.e"}


RAY = "tune_cl.ray"
USES_RAY = ("trainables.ranker_trainable",)  # besides RAY: what Ray runs
PRIVATE = re.compile(
    r"\bray\.[\w.]*\b_\w+|from ray[\w.]* import .*\b_[a-z]|ENV_VARS_TO_PROPAGATE|checkpoint_manager|\._process_trial"
)
KNOWS_PRIVATE = ("tune_cl.ray.workarounds", USES_RAY[0])


def test_ray_stands_in_one_package_and_its_private_names_in_few_files() -> None:
    sources = {name: path.read_text() for name, path in modules().items()}
    imports = re.compile(r"^\s*(?:import|from) ray\b", re.MULTILINE)
    using = {name for name, source in sources.items() if imports.search(source)}
    assert {name for name in using if not name.startswith(f"{RAY}.")} == set(USES_RAY)
    assert {name for name, source in sources.items() if PRIVATE.search(source)} == set(KNOWS_PRIVATE)


def test_each_workaround_names_the_defect_and_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    tree = ast.parse(modules()[KNOWS_PRIVATE[0]].read_text())
    for part in [node for node in tree.body if isinstance(node, ast.FunctionDef)]:
        text = ast.get_docstring(part) or ""
        named = re.findall(r"\btest_\w+", text)
        assert "Defect" in text and named, f"{part.name}: {text}"
        assert [one for one in named if f"def {one}(" not in tests] == []
