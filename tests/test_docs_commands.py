"""Every tune-cl command that README and docs show is valid: its options, spaces and keys exist. So do the project's
files that they name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks import papers
from tests.support.console import parsed
from trainables.config.keys import configuration_fields, ranker_fields
from trainables.rankers import RANKERS
from tune_cl.cli.commands import FUNCTIONS
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.space.space_files import find_space

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = tuple(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))
PAGES = (*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md")))
FENCED = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (tune-cl .*)$", re.MULTILINE)
INLINE = re.compile(r"`(?:OMP_NUM_THREADS=1 )?(tune-cl [^`]+)`")
LINK = re.compile(r"\]\((?!\w+:)([^)#]+)")
FILE = re.compile(r"(?<![\w./])(?:tune_cl|trainables|search_spaces|tests|benchmarks|docs|deploy)/[\w/-]+\.\w+")
PATTERN = re.compile(r"\.\.\.|\[--|[<|]|--\w+$")  # shows a form, or names an option: no whole command
KEYS = {*configuration_fields(()), *SEARCH_KEYS, *(key for name in RANKERS for key in ranker_fields(name))}


def commands(text: str) -> list[str]:
    lines = "".join(FENCED.findall(text)).replace("\\\n", " ").splitlines()
    shown = [line for line in lines if line.startswith("tune-cl ")] + INDENTED.findall(text)
    found = shown + [" ".join(one.split()) for one in INLINE.findall(text)]
    return [command for command in found if not PATTERN.search(command) and len(command.split()) > 2]


def test_commands_are_found() -> None:
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) > 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [file for file in sorted(set(FILE.findall(text))) if not (ROOT / file).exists()] == []
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []
    if page.is_relative_to(ROOT / "docs"):  # else the site is not built: a link out of it is broken there
        there = [(page.parent / link).resolve() for link in LINK.findall(text)]
        assert [path for path in there if not path.is_relative_to(ROOT / "docs")] == []
    for line in commands(text) if page.name != "CHANGELOG.md" else []:  # which names what was
        name, *arguments = shlex.split(line, comments=True)[1:]
        assert name in FUNCTIONS, line
        options = parsed([name, *arguments])
        assert {setting.partition("=")[0] for setting in options.get("overrides") or ()} <= KEYS, line
        space = options.get("space") or ""
        if space.islower() and not space.endswith(".yaml"):  # NAME stands for any space
            assert find_space(space).exists(), line


# -- the papers' rows: benchmarks/papers.py runs the commands of reproduce.md, and no others ---------------------------


def test_the_page_has_the_rows_and_no_other_command() -> None:
    text = (ROOT / "docs" / "how-to" / "reproduce.md").read_text(encoding="utf-8")
    assert [paper for paper in papers.KNOWN["papers"] if papers.table(paper) not in text] == []
    assert set(commands(text)) == {command for row in papers.rows() for command in row.commands}


def test_a_command_is_run_on_our_data() -> None:
    [row] = [row for row in papers.rows() if row.name.startswith("Table 1, the first")]
    run, confirm = papers.commands_of(row, Path("/data"), Path("/runs"))
    assert run[:4] == ["run", "ferro2018", "--data", "/runs/folds/Fold1"] and confirm[:2] == ["confirm", "ferro"]
    [row] = [row for row in papers.rows() if row.name == "WikiQA, BiDAF-T, fine-tuned"]
    [made] = papers.commands_of(row, Path("/data"), Path("/runs"))
    assert "training.pretrain_data=/data/pairs/squad" in made and "/data/answers/wikiqa" in made
