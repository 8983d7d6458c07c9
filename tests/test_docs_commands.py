"""Every tune-cl command that README and docs show is valid: its options, spaces and keys exist. So do the project's
files that they name."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import results
from trainables.config.keys import configuration_fields, ranker_fields
from trainables.rankers import RANKERS
from tune_cl.cli import COMMANDS, parser_of
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
    return shown + [" ".join(found.split()) for found in INLINE.findall(text)]


CASES = [
    pytest.param(command, id=f"{page.name}: {command[:60]}")
    for page in PAGES
    for command in commands(page.read_text(encoding="utf-8"))
    if not PATTERN.search(command) and len(command.split()) > 2
]


def test_commands_are_found() -> None:
    assert len(CASES) > 80


@pytest.mark.parametrize("line", CASES)
def test_a_command_of_the_docs_is_taken(line: str) -> None:
    name, *arguments = shlex.split(line, comments=True)[1:]
    assert name in COMMANDS
    module = import_module(f"tune_cl.cli.commands.{name}")
    options = parser_of(name, module).parse_args(arguments)
    for setting in getattr(options, "overrides", ()):
        assert setting.partition("=")[0] in KEYS
    space = getattr(options, "space", None) or ""
    if space.islower() and not space.endswith(".yaml"):  # NAME stands for any space
        assert find_space(space).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(FILE.findall(page.read_text(encoding="utf-8")))
    assert not [file for file in sorted(named) if not (ROOT / file).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_confirmation_of_the_results_page_has_its_table() -> None:
    """`benchmarks/results.py` runs the page and writes its tables."""
    page = results.PAGE.read_text(encoding="utf-8")
    shown = results.commands(page, "DATA")
    confirmed = [results.name_of(command) for command in shown if command[1] == "confirm"]
    assert confirmed and confirmed == [name for name in confirmed if page.count(results.TABLE[0].format(name)) == 1]
    assert {results.name_of(command) for command in shown if command[1] == "run"} >= set(confirmed)
