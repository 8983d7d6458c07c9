"""The reference pages name every entry of a registry, every command and every option, and nothing that is not there."""

from __future__ import annotations

import re
from argparse import SUPPRESS
from collections.abc import Iterable
from pathlib import Path

import pytest

from trainables.baselines import BASELINES
from trainables.curriculum.negatives import SCHEDULES
from trainables.curriculum.pacing import PACINGS
from trainables.curriculum.scoring import SCORINGS
from trainables.curriculum.subset import SUBSETS
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES
from tune_cl.cli import COMMANDS, module_of, parser_of
from tune_cl.samplers import SEARCHERS
from tune_cl.schedulers import SCHEDULERS

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
TABLES = {  # page, first cell of the table's head, entries
    "losses": ("losses.md", "loss", LOSSES),
    "rankers": ("rankers.md", "ranker", RANKERS),
    "scorings": ("curricula.md", "scoring", SCORINGS),
    "pacings": ("curricula.md", "`curriculum.pacing`", PACINGS),
    "schedules of negatives": ("curricula.md", "schedule", SCHEDULES),
    "baselines": ("baselines.md", "name", BASELINES),
    "searchers and schedulers": ("search.md", "name", [*SEARCHERS, *SCHEDULERS]),
}


def first_cells(page: str, head: str) -> set[str]:
    """The names in the first column of a page's tables whose head begins with `head`, whatever stands beside them."""
    found: set[str] = set()
    for table in re.findall(r"(?:^\|.*\n)+", (FOLDER / page).read_text(), flags=re.MULTILINE):
        cells = [line.split("|")[1].strip() for line in table.splitlines()]
        if cells[0] == head:
            names = [re.findall(r"`([^`]+)`", cell) or cell.split()[:1] for cell in cells[2:]]
            found |= {name for cell in names for name in cell if "=" not in name}
    return found


@pytest.mark.parametrize("kind", TABLES)
def test_a_page_has_a_row_for_each_entry_and_no_other(kind: str) -> None:
    page, head, entries = TABLES[kind]
    assert first_cells(page, head) | {"none"} == {*entries, "none"}


def test_the_weightings_and_subsets_are_named_on_their_pages() -> None:
    for page, entries in (("curricula.md", WEIGHTINGS), ("lambdamart.md", SUBSETS)):
        text = (FOLDER / page).read_text()
        assert [name for name in entries if name != "none" and f"`{name}`" not in text] == []


def options_of(command: str) -> Iterable[str]:
    for action in parser_of(command, module_of(command))._actions:
        if action.help is not SUPPRESS:
            yield from (option for option in action.option_strings if option.startswith("--"))


def test_the_page_of_commands_has_each_command_and_option_and_no_other() -> None:
    text = (FOLDER / "commands.md").read_text()
    assert [name for name in COMMANDS if f"tune-cl {name}" not in text and f"`{name}`" not in text] == []
    there = {option for command in COMMANDS for option in options_of(command)} - {"--help"}
    assert there - set(re.findall(r"--[a-z][a-z-]*", text)) == set()
    told = set(re.findall(r"^\| `(--[a-z][a-z-]+)", text, flags=re.MULTILINE))
    assert told - there == set()
