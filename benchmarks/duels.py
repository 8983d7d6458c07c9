"""The duels of docs/results.md: searches as users run them, each confirmed with many seeds.

    python -m benchmarks.duels [--data FOLDER] [--memory FOLDER]

evidence/duels.yaml says which; evidence/duels.jsonl gets a row for each, also for one that failed. What has a row is
not run again, and a killed search goes on in --memory. `python -m benchmarks.evidence --page` writes the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

import tune_cl
from benchmarks.evidence_effects import FOLDER, read_rows
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import ConfigError, UserError, WorkFailed
from trainables.data import load_data
from trainables.data.settings import DataConfig
from trainables.evaluation.per_query import evaluator_of
from tune_cl.results import Opponent, Verdict

PLAN: Mapping[str, Any] = yaml.safe_load((FOLDER / "duels.yaml").read_text())
ROWS = FOLDER / "duels.jsonl"
NOISE, NO_DIFFERENCE = "data.label_noise", "no difference shown"
Row = dict[str, Any]


def name_of(duel: Mapping[str, Any], swapped: bool) -> str:
    """`quickstart-wikiqa-random`, of its space, data and labels."""
    changed = duel.get("set", {})
    kind = [str(changed[f"{NOISE}.kind"])] if f"{NOISE}.kind" in changed else []
    return "-".join([duel["space"], duel["data"].rpartition("/")[2], *kind, *(["swapped"] if swapped else [])])


def source_of(duel: Mapping[str, Any], swapped: bool, data: Path, memory: Path) -> str:
    """The data that a duel reads: as they are, or a folder of them where dev and test have changed places."""
    source = duel["data"] if duel["data"] == "docstrings" else str(data / duel["data"])
    folder = memory / "swapped" / duel["data"].replace("/", "-")
    if swapped and not folder.exists():
        found = load_data(DataConfig(source=source))
        places = {"train": "train", "dev": "test", "test": "dev"}
        write_trec_folder(replace(found, splits={to: found.splits[name] for name, to in places.items()}), folder)
    return str(folder) if swapped else source


def bm25_of(duel: Mapping[str, Any], source: str) -> float:
    """MAP on test of the candidates' own BM25 scores, which weightings read and plain training may add."""
    top_k = duel.get("set", {}).get("data.top_k")
    data = load_data(DataConfig(source=source, **({"top_k": top_k} if top_k else {})))
    split = data.splits["test"]
    return float(evaluator_of(data, split, 1, "map")(split.score, ["map"])["map"].mean())


def fought(duel: Mapping[str, Any], swapped: bool, data: Path, memory: Path) -> Row:
    """Runs a search and its confirmation, or goes on with them."""
    name, began = name_of(duel, swapped), time.monotonic()
    source = source_of(duel, swapped, data, memory)
    try:
        search = tune_cl.open_search(name, memory)
    except ConfigError:
        search = tune_cl.run(duel["space"], source, name=name, storage=memory, overrides=duel.get("set", {}))
    assert isinstance(search, tune_cl.Search)
    search.resume()  # if it was killed
    verdict = search.confirm(seeds=PLAN["seeds"])
    return row_of(verdict) | {"bm25": bm25_of(duel, source), "seconds": round(time.monotonic() - began)}


def row_of(verdict: Verdict) -> Row:
    """What the page says of a verdict."""
    tested = verdict.curriculum
    return {
        "verdict": verdict.verdict,
        "queries": verdict.queries,
        "seeds": len(verdict.seeds),
        "detectable": verdict.detectable,
        "curriculum": tested.label,
        "mean": tested.mean,
        "sd": tested.sd,
        "selected": [list(one.values) for one in verdict.selection],
        "opponents": [opponent(one, verdict.opponents[0].label) for one in verdict.opponents],
    }


def opponent(one: Opponent, against: str) -> Row:
    """An opponent and the curriculum's difference from it. `against`: the label of the least favourable one."""
    return {
        "label": one.label,
        "roles": list(one.roles),
        "mean": one.mean,
        "sd": one.sd,
        "difference": one.difference,
        "ci95": one.ci95 and list(one.ci95),
        "p": one.p,
        "least": one.label == against,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--memory", type=Path, default=Path("runs/duels"))
    options = parser.parse_args()
    memory = options.memory.resolve()
    for duel in PLAN["duels"]:
        for swapped in (False, True):
            rows = {row["name"]: row for row in read_rows(ROWS)}
            name = name_of(duel, swapped)
            if name in rows or (swapped and rows[name_of(duel, False)].get("verdict", NO_DIFFERENCE) == NO_DIFFERENCE):
                continue
            try:
                found = fought(duel, swapped, options.data, memory)
            except (UserError, WorkFailed) as error:
                found = {"failed": str(error)}
            with ROWS.open("a") as file:
                file.write(json.dumps({"name": name, **duel, "swapped": swapped, **found}) + "\n")


if __name__ == "__main__":
    main()
