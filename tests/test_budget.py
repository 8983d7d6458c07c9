"""The project gets smaller: budget.toml has the lines of each package today, which may only fall, and where they go."""

from __future__ import annotations

import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = tomllib.loads((ROOT / "budget.toml").read_text())
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def files_of(package: str) -> set[Path]:
    path = ROOT / package
    return {path} if path.is_file() else set(path.rglob("*.py"))


def lines_of(paths: set[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def tokens_of(path: Path) -> int:
    with path.open("rb") as file:
        return sum(token.type not in LAYOUT for token in tokenize.tokenize(file.readline))


def test_no_package_grows() -> None:
    packages = {name: set().union(*map(files_of, row["files"])) for name, row in BUDGET["packages"].items()}
    found = {name: lines_of(paths) for name, paths in packages.items()}
    grown = {name: count for name, count in found.items() if count > BUDGET["packages"][name]["lines"]}
    assert not grown, f"more lines than budget.toml has: {grown}"


def test_every_module_has_a_package() -> None:
    source = set().union(*map(files_of, ("tune_cl", "trainables", "search_spaces")))
    named = [path for row in BUDGET["packages"].values() for name in row["files"] for path in files_of(name)]
    assert source <= set(named) and len(named) == len(set(named))


def test_the_source_has_no_more_tokens() -> None:
    source = set().union(*map(files_of, ("tune_cl", "trainables", "search_spaces")))
    assert sum(map(tokens_of, source)) <= BUDGET["tokens"]
