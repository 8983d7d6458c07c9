"""docs/how-to/reproduce.md and docs/dev/papers-run.md have the commands that benchmarks/papers.py runs, no others."""

from __future__ import annotations

from pathlib import Path

from benchmarks import papers
from tests.test_docs_commands import commands

PAGE = papers.ROOT / "docs" / "how-to" / "reproduce.md"


def test_the_page_has_the_rows_and_no_other_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [paper for paper in papers.KNOWN["papers"] if papers.table(paper) not in text] == []
    assert set(commands(text)) == {command for row in papers.rows() for command in row.commands}


def test_the_page_of_results_has_every_row_and_what_is_lacking() -> None:
    text = papers.PAGE.read_text(encoding="utf-8")
    assert [row.name for row in papers.rows() if f"| {row.name} | {papers.commands_cell(row)} |" not in text] == []
    assert [what for what, why in papers.KNOWN["lacking"].items() if f"- {what}: {why}." not in text] == []


def test_a_command_is_run_for_each_number_and_on_our_data() -> None:
    [row] = [row for row in papers.rows() if row.name == "Table 1, five folds"]
    made = papers.commands_of(row, Path("/data"), Path("/work"))
    assert [one[:4] for one in made[:2]] == [["run", "ferro2018", "--data", f"/work/folds/Fold{n}"] for n in (1, 2)]
    assert [one[:2] for one in made[5:]] == [["confirm", f"ferro-{n}"] for n in papers.FOLDS]
    [row] = [row for row in papers.rows() if row.name == "WikiQA, BiDAF-T, fine-tuned"]
    [made] = papers.commands_of(row, Path("/data"), Path("/work"))
    assert "training.pretrain_data=/data/pairs/squad" in made and "/data/answers/wikiqa" in made
