"""Runs every command of docs/how-to/reproduce.md on small data, and prints what they come to beside the papers.

    python benchmarks/papers.py [../shared/data] [--only PART ...] [--work FOLDER]

papers.yaml has the rows with their commands as the page has them, which tests/test_docs_commands.py compares. PART is a
part of a row's paper and name. What has a result in the work folder is not run again; what has none is "not run".
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FOLDS = range(1, 6)
KNOWN = yaml.safe_load((Path(__file__).parent / "papers.yaml").read_text(encoding="utf-8"))
DATA = KNOWN["data"]
SHOWN = ("map", "mrr@10", "p@1", "rprec", "accuracy")


@dataclass(frozen=True)
class Row:
    """A row or figure of a paper, as papers.yaml explains."""

    paper: str
    name: str
    commands: tuple[str, ...]
    small: str = ""
    theirs: str = ""
    differs: str = ""


def expanded(text: str) -> str:
    """The text with the settings it names."""
    while "$" in text:
        text = Template(text).substitute(KNOWN["settings"])
    return text


def rows() -> list[Row]:
    """All rows, with settings written out."""
    return [
        Row(
            paper,
            row["name"],
            tuple(map(expanded, row["commands"])),
            *(expanded(row.get(key, "")) for key in ("small", "theirs", "differs")),
        )
        for paper, of_paper in KNOWN["papers"].items()
        for row in of_paper
    ]


def commands_of(row: Row, data: Path, work: Path) -> list[list[str]]:
    """The arguments of a row's commands on our data."""
    made = []
    for command in row.commands:
        kind = command.split()[1]
        more = {"run": row.small, "train": row.small, "confirm": "--seeds 1" if "--seeds 1" in command else "--seeds 2"}
        whole = f"{command} {more.get(kind, '')}"
        made.append([placed(argument, data, work) for argument in shlex.split(whole)[1:]])
    return made


def placed(argument: str, data: Path, work: Path) -> str:
    """An argument with the folder of a data set in place of its name."""
    head, slash, rest = argument.partition("/")
    key, equals, value = head.rpartition("=")
    name = value if equals else head
    if name in DATA and (not equals or key == "training.pretrain_data"):
        made = {"CONVERSATIONS": work / "conversations", "LETOR": work / "folds"}
        return f"{key}{equals}{made.get(name, data / DATA[name])}{slash}{rest}"
    return argument


def prepare(data: Path, work: Path) -> None:
    """A few conversations, and five folds of MQ2008, as LETOR deals its queries."""
    (work / "conversations").mkdir(parents=True, exist_ok=True)
    for split in ("train", "valid", "test"):
        with gzip.open(data / "conversation" / "dailydialogpp" / f"{split}.tsv.gz", "rt", encoding="utf-8") as file:
            (work / "conversations" / f"{split}.tsv").write_text(
                "".join(line for line, _ in zip(file, range(300), strict=False))
            )
    files = [data / "ltr" / "mq2008" / f"{split}.txt.gz" for split in ("train", "test")]
    rows = [row for file in files for row in gzip.decompress(file.read_bytes()).decode().splitlines()]
    queries = {query: number for number, query in enumerate(dict.fromkeys(row.split()[1] for row in rows))}
    for fold in FOLDS:
        parts: dict[str, list[str]] = {"train": [], "vali": [], "test": []}
        for row in rows:
            part = (queries[row.split()[1]] - fold) % 5
            parts["test" if part == 0 else "vali" if part == 1 else "train"].append(row)
        (work / "folds" / f"Fold{fold}").mkdir(parents=True, exist_ok=True)
        for name, lines in parts.items():
            (work / "folds" / f"Fold{fold}" / f"{name}.txt").write_text("\n".join(lines) + "\n")


def run(row: Row, data: Path, work: Path) -> dict[str, Any]:
    """The documents of a row's commands, why it failed if one did, and the seconds."""
    documents, started = [], time.monotonic()
    for arguments in commands_of(row, data, work):
        name = arguments[arguments.index("--name") + 1] if "--name" in arguments else arguments[1]
        if arguments[0] == "run" and (work / "tune_cl_runs" / name).exists():
            arguments = ["resume", name]
        whole = [sys.executable, "-m", "tune_cl", *arguments, "--json"]
        print(shlex.join(whole[2:]), file=sys.stderr, flush=True)
        paths = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(whole, cwd=work, capture_output=True, text=True, check=False, env=os.environ | paths)
        if done.returncode:
            problem = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return {"failed": f"{arguments[0]}: {problem}"[:300], "seconds": time.monotonic() - started}
        documents.append(json.loads(done.stdout))
    return {"ours": in_words(documents), "seconds": time.monotonic() - started}


def in_words(documents: list[Any]) -> str:
    """What the documents of a row's commands say, in a few words."""
    return "; ".join(filter(None, map(of_one, documents)))


def of_one(document: Any) -> str:
    if "curriculum" in document:
        tests = [document, *document["others"]]
        rows = [f"{one['curriculum']['label']} {one['curriculum']['mean']:.4f}" for one in tests]
        opponents = [f"{one['label']} {one['mean']:.4f} ({one['difference']:+.4f})" for one in document["opponents"]]
        return f"{document['metric']}: {'; '.join([*rows, *opponents])}; {document['verdict']}"
    if "trials" in document:
        dev = {trial["trial_id"]: trial["dev"] for trial in document["trials"]}
        best, plain = dev[document["best"]], dev[document["best_plain"]]
        return f"{len(document['trials'])} trials, best dev {best:.4f}, plain {plain:.4f}"
    if "runs" in document:
        return ", ".join(f"{name} {value:.4f}" for name, value in document["runs"][0]["metrics"].items())
    values = document.get("test") or document.get("metrics") or {}
    if values:
        return ", ".join(f"{name} {values[name]:.4f}" for name in SHOWN if name in values)
    return f"{document['count']} values, mean {document['mean']:.4f}" if "count" in document else "written"


def in_a_line(row: Row, result: dict[str, Any]) -> str:
    """A row with our value and the paper's; trainings here are short, and seeds two for five."""
    ours = result.get("ours") or f"failed: {result['failed']}"
    return " | ".join(filter(None, [row.paper, row.name, ours, row.theirs, row.differs]))


def commands_cell(row: Row) -> str:
    return "<br>".join(f"`{command}`" for command in row.commands)


def table(paper: str) -> str:
    """The rows of a paper as docs/how-to/reproduce.md has them."""
    lines = ["| theirs | ours |", "|---|---|"]
    return "\n".join(lines + [f"| {row.name} | {commands_cell(row)} |" for row in rows() if row.paper == paper])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="*", metavar="PART", help="rows whose paper and name have such a part")
    parser.add_argument("--work", type=Path, default=Path("papers-work"), help="data, runs and results")
    options = parser.parse_args()
    data, work = options.data.resolve(), options.work.resolve()
    prepare(data, work)
    found = json.loads(results.read_text()) if (results := work / "results.json").exists() else {}
    for row in rows():
        asked = options.only is None or any(part in f"{row.paper}, {row.name}" for part in options.only)
        if asked and "ours" not in found.get(row.name, {}):
            found[row.name] = run(row, data, work)
            results.write_text(json.dumps(found, indent=1))
        if row.name in found:
            print(in_a_line(row, found[row.name]), flush=True)
    return int(any("failed" in one for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
