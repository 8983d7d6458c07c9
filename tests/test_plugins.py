"""Parts of one's own: examples and contracts, bad plug-ins, and what is recorded of good ones."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import tune_cl
from tests.support.data_folders import write_folder
from tests.support.letor_data import letor_data, letor_text
from tests.support.plugins import LENGTH, LINEAR, unload, written
from tests.support.scored_data import make_data, scored_of
from trainables.config.keys import validated
from trainables.core import plugins
from trainables.core.errors import ConfigError
from trainables.core.registry import REGISTRIES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS, difficulty
from trainables.training.losses import LOSSES
from tune_cl.cli import main
from tune_cl.testing import check, contract, load_plugins

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "plugins"
FAQ = {f"faq.{split}.tsv": f"where {split} ?\there {split}\tright\nwhere {split} ?\tthere\twrong\n"
       for split in ("train", "dev", "test")}  # fmt: skip
__all__ = ["unload"]


# -- the examples ------------------------------------------------------------------------------------------------------


def test_the_examples_keep_the_contracts(tmp_path: Path) -> None:
    load_plugins(map(str, EXAMPLES.glob("*.py")))
    check("scoring", "unshared_words")
    check("pacing", "s_curve")
    check("weighting", "log_rank")
    check("loss", "squared_hinge")
    check("ranker", "best_match", lr=0.05, vector_size=20)
    check("reader", "faq", folder=write_folder(tmp_path, FAQ))


def test_the_page_has_the_examples_as_they_are() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "how-to" / "own-parts.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if path.read_text().strip() not in page] == []


test_every_loss_keeps_the_contract = contract("loss", LOSSES)


def test_a_broken_contract_is_named(tmp_path: Path) -> None:
    text = """
import tune_cl
@tune_cl.pacing("falling")
def falling(x, schedule): return 1 - x / 2
@tune_cl.loss("backwards", kind="pairwise")
def backwards(positive, negative, settings): return (positive - negative).sigmoid()
@tune_cl.weighting("large")
def large(split): return 2.0 * (split.document >= 0)
@tune_cl.scoring("short")
def short(scored): return scored.split.query.astype(float)
"""
    load_plugins([written(tmp_path, text)])
    with pytest.raises(AssertionError, match="the fraction never falls"):
        check("pacing", "falling")
    with pytest.raises(AssertionError, match="ranks positives above negatives"):
        check("loss", "backwards")
    with pytest.raises(AssertionError, match=r"values lie in \[0, 1\]"):
        check("weighting", "large")
    with pytest.raises(AssertionError, match=r"values have the shape \[I\]"):
        check("scoring", "short")


# -- loading -----------------------------------------------------------------------------------------------------------


def test_a_part_has_its_name_everywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, LENGTH)
    assert main(["list", "scorings", "--plugin", file, "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert rows[-1] == {"name": "length", "summary": "Characters of the query", "source": f"me in {file}"}
    run = validated({"curriculum": {"scoring": "length", "pacing": "linear"}})
    assert run.in_force()["curriculum.scoring"] == "length"
    scored = scored_of(make_data([["abc"], ["de"]], [[("x", 1), ("y", 0)]] * 2))
    assert SCORINGS["length"](scored).tolist() == [3, 2]


def test_an_unknown_name_says_that_no_plugin_brings_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--data", "docstrings", "--set", "curriculum.pacing=s_curve"]) == 2
    assert re.search(r"^error: curriculum.pacing: unknown value 's_curve'; .*--plugin FILE", capsys.readouterr().err)


WRONG = {
    "import os\ndef f(:\n": r"mine.py:2: not valid Python \(invalid syntax\); ",
    "x = 1\n\ny = x / 0\n": r"mine.py:3: ZeroDivisionError: division by zero; ",
    "import sys\nsys.exit(3)\n": r"mine.py:2: SystemExit: 3; ",
    'import tune_cl\n@tune_cl.scoring("turns")\ndef f(scored): ...\n': r"mine.py:2: .* the name 'turns' is built in; ",
    'import tune_cl\n@tune_cl.scoring("a")\ndef f(a, b): ...\n': r"mine.py:2: .* 'f' takes \(a, b\); ",
    'import tune_cl\n@tune_cl.pacing("a")\nclass A: ...\n': r"mine.py:2: .* 'A' is not a function; ",
    'import tune_cl\n@tune_cl.pacing("a", needs=["k"])\ndef f(x, s): ...\n': r"mine.py:2: .* reads 'k'; some of ",
    "import tune_cl\n@tune_cl.pacing\ndef f(x, s): ...\n": r"mine.py:2: .* is not a name; ",
    'import tune_cl\n@tune_cl.loss("a", kind="x")\ndef f(a, b, c): ...\n': r"mine.py:2: .* 'x' is not a kind of loss; ",
    'import tune_cl\n@tune_cl.reader("a")\ndef f(folder, reading): ...\n': r"mine.py:2: .* names no files; ",
}


@pytest.mark.parametrize(("text", "line"), WRONG.items())
def test_a_bad_plugin_is_one_line(text: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = list(REGISTRIES)  # a command may load more
    entries = [dict(registry.entries) for registry in before]
    assert main(["list", "scorings", "--plugin", written(tmp_path, text)]) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said and re.match(f"error: {re.escape(str(tmp_path))}/{line}", said), said
    assert [registry.entries for registry in before] == entries


def test_a_ranker_over_features_trains_saves_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("letor").mkdir()
    for name, split in {"train": "train", "vali": "dev", "test": "test"}.items():
        Path(f"letor/{name}.txt").write_text(letor_text(letor_data(), split))
    load_plugins([file := written(tmp_path, LINEAR)])
    keys: dict[str, object] = {"metric": "ndcg@10", "training.max_iterations": 4}
    trained = tune_cl.train(data="letor", ranker="linear", overrides=keys, output="out", test=True)
    assert list(trained.dev) == sorted(set(trained.dev)), "it learns"
    again = tune_cl.train(data="letor", ranker="linear", overrides=keys, output="out", test=True)
    assert again.test == trained.test, "from its state"
    plugins.LOADED.clear()
    with pytest.raises(ConfigError, match=rf"--plugin: the ranker .* needs the plug-in {re.escape(Path(file).name)}"):
        tune_cl.load_ranker("out/ranker")
    ranker = tune_cl.load_ranker("out/ranker", plugins=[file])
    assert ranker.rerank("letor").read_text() == Path("out/test.run.txt").read_text()
    with pytest.raises(ConfigError, match=r"curriculum\.objective_switch: linear has one objective; none"):
        validated({"ranker": "linear", "curriculum": {"objective_switch": "mse"}})


def test_two_plugins_cannot_have_one_name(tmp_path: Path) -> None:
    first = written(tmp_path, LENGTH)
    with pytest.raises(ConfigError, match=rf"other.py:5: .* the name 'length' is registered in {re.escape(first)}"):
        load_plugins([first, written(tmp_path, LENGTH, "other.py")])


def test_a_changed_file_replaces_its_parts(tmp_path: Path) -> None:
    scored = scored_of(make_data([["abc"]], [[("x", 1), ("y", 0)]]))
    load_plugins([written(tmp_path, LENGTH)])
    assert difficulty("length", scored)[0].tolist() == [3]
    load_plugins([written(tmp_path, LENGTH)])
    assert difficulty("length", scored) == ([3], True)
    load_plugins([written(tmp_path, LENGTH.replace("len(text)", "-len(text)"))])
    assert difficulty("length", scored) == ([-3], False), "a difficulty of the code before comes from the cache"
    assert len(plugins.LOADED) == 1


def test_a_package_declares_a_plugin_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, info = tmp_path / "own_package", tmp_path / "own_package-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    written(package, "")
    written(package, "", "__init__.py")
    written(package, LENGTH, "parts.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tune_cl.plugins]\nown = own_package.parts\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (loaded,) = load_plugins()
    assert (loaded.module, loaded.file, loaded.option) == ("own_package.parts", None, None)
    assert plugins.plugins_of({"curriculum": {"scoring": "length"}}) == [loaded.module]
    plugins.LOADED.clear()
    written(package, "1 / 0", "parts.py")
    monkeypatch.delitem(sys.modules, "own_package.parts")
    with pytest.raises(ConfigError, match=r"parts.py:1: ZeroDivisionError: "):
        load_plugins()


# -- what is recorded --------------------------------------------------------------------------------------------------


def test_a_part_of_a_notebook_trains_here_but_not_in_a_search() -> None:
    names = {"__name__": "__main__", "tune_cl": tune_cl}
    cell = '@tune_cl.pacing("half")\ndef half(x, schedule): return 0.5 + x / 2'
    exec(cell, names)  # as a notebook runs a cell
    exec(cell, names)  # and runs it again
    assert "half" in PACINGS
    with pytest.raises(ConfigError, match="half: registered by __main__, which the processes of a search do not load"):
        plugins.require_sendable({"curriculum": {"pacing": "half"}})


def test_parts_of_other_processes_load_from_what_is_sent(tmp_path: Path) -> None:
    load_plugins([written(tmp_path, LENGTH)])
    there = list(plugins.LOADED)
    (tmp_path / "mine.py").unlink()
    plugins.LOADED.clear()
    del SCORINGS.entries["length"]
    plugins.load_sent(there)
    assert plugins.problem_here is None and "length" in SCORINGS
    plugins.load_sent([plugins.Plugin("no_such_module")])
    assert "No module named 'no_such_module'" in str(plugins.problem_here)
