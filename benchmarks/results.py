"""Runs the commands of docs/results.md again and puts what they find into its tables.

    python benchmarks/results.py ../shared/data [--storage FOLDER] [--only NAME ...]

The commands are taken from the page: each shell block is run as written, with $D for the folder of data sets, in the
order of the page. A search or confirmation that the storage already has is taken up, so what was interrupted goes on.
The table between `<!-- confirmed: NAME -->` and its end is written from `tune-cl confirm NAME`.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

from tune_cl.report.markup import p_value, signed

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
TABLE = "<!-- confirmed: {} -->\n", "<!-- end of confirmed -->"


def commands(page: str, data: str) -> list[list[str]]:
    """The arguments of the page's commands, in its order."""
    lines = "".join(BLOCK.findall(page)).replace("\\\n", " ").splitlines()
    return [shlex.split(Template(line).substitute(D=data)) for line in lines]


def name_of(command: list[str]) -> str:
    """The name of the search that a command runs or confirms."""
    return command[command.index("--name") + 1] if "--name" in command else command[2]


def outcome(command: list[str], storage: Path) -> dict[str, Any]:
    """Runs one command to its end and returns its document."""
    name = name_of(command)
    if command[1] == "run" and (storage / name).exists():
        command = ["tune-cl", "resume", name]
    whole = [str(Path(sys.executable).with_name("tune-cl")), *command[1:], "--storage", str(storage), "--json"]
    print(shlex.join(whole), file=sys.stderr, flush=True)
    return json.loads(subprocess.run(whole, stdout=subprocess.PIPE, check=True, text=True).stdout)


def table(confirmed: dict[str, Any]) -> str:
    """A confirmation as Markdown: a row for each configuration, and one for each ablation, if there are any."""
    lines = [
        f"| {confirmed['metric']} on {confirmed['split']} | mean | sd | difference [95 %] | p | p, these seeds | |"
    ]
    lines += ["|---|---:|---:|---|---:|---:|---|", _row("plain", confirmed["baseline"])]
    for entry in confirmed["configurations"]:
        lines.append(_row(entry["label"], entry))
        if "ablation" in entry:
            own = entry["ablation"]
            lines.append(_row(f"the same against {own['label']}: {own['mean']:.4f}", {**entry, **own, "mean": None}))
    count, seeds = confirmed["queries"], confirmed["seeds"]
    facts = f"{count:,} queries, seeds {seeds[0]} to {seeds[-1]}, p after {confirmed['correction'].title()}"
    return "\n".join([*lines, "", f"{facts}: **{confirmed['verdict']}**."])


def _row(label: str, entry: dict[str, Any]) -> str:
    cells = [label, f"{entry['mean']:.4f}", f"{entry['sd']:.4f}"] if entry["mean"] is not None else [label, "", ""]
    if "difference" in entry:
        low, high = entry["ci95_new"]
        cells += [f"{signed(entry['difference'])} [{signed(low)}, {signed(high)}]"]
        cells += [p_value(entry["p_new_adjusted"]), p_value(entry["p_adjusted"]), entry["marks"]]
    return f"| {' | '.join(cells)}{' |' * (8 - len(cells))}"


def put(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces what stands between the line `begin` of a page and the next `end`. Raises SystemExit without `begin`."""
    before, found, rest = page.read_text().partition(begin)
    if not found:
        raise SystemExit(f"{page}: no line {begin.strip()}")
    page.write_text(f"{before}{found}{text}\n{end}{rest.partition(end)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of data sets")
    parser.add_argument("--storage", type=Path, default=Path("tune_cl_runs"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of searches; default: all of the page")
    options = parser.parse_args()
    for command in commands(PAGE.read_text(), options.data):
        name = name_of(command)
        if options.only and name not in options.only:
            continue
        found = outcome(command, options.storage)
        if command[1] == "confirm":
            put(PAGE, TABLE[0].format(name), TABLE[1], table(found))
        else:
            print(f"{name}: {found['trials']} trials, {found['iterations']} iterations, {found['seconds']:.0f} s")


if __name__ == "__main__":
    main()
