"""Does `search.repeats` find better configurations for the same trainings? Simulated searches over recorded curves.

    python benchmarks/repeats.py [--curves benchmarks/curves] [--searches 300] [--json]

Every search tries a study's configurations in a random order. Of their three seeds, two are taken at random as the
first and the second; the third is held out and shows what the user gets. All trainings run to their end. `regret` is
the best value on the held-out seed less that of the configuration named; `flatters` is the value that it was named by
(its best dev value, or the mean over its seeds) less that on the held-out seed; both in points of 100 dev MAP with 95 %
intervals over searches. `estimated` is what `selection_bias` of a search's result says of its highest single dev value,
also in points. `any` is the regret of a configuration named by chance. A study has only three seeds to hold out, so the
intervals say nothing about other data."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from schedulers import Study, read_studies
from simulator import Recorded

from trainables.core.randomness import generator
from tune_cl.search.analysis import selection_bias
from tune_cl.search.repeats import Repeats

TRAININGS = (6, 9, 12)
SEEDS = 3  # of every recorded configuration


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, default=Path(__file__).with_name("curves"))
    parser.add_argument("--searches", type=int, default=300, help="of each study")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    studies = [study for study in read_studies(options.curves) if study.seeds == SEEDS]
    rows = [row for study in studies for row in rows_of(study, options.searches)]
    print(json.dumps(rows, indent=1) if options.json else table(rows))


def rows_of(study: Study, searches: int) -> list[dict[str, Any]]:
    """One study's rows: without repeats and with, for each number of trainings."""
    groups: dict[str, list[Recorded]] = {}
    for recorded in study.pool:
        groups.setdefault(study.settings[recorded.name], []).append(recorded)
    kinds = [(trainings, repeats) for trainings in TRAININGS for repeats in (1, SEEDS - 1)]
    rows = []
    for trainings, repeats in kinds:
        results = [one(list(groups.values()), index, trainings, repeats) for index in range(searches)]
        row: dict[str, Any] = {"study": study.name, "trainings": trainings, "repeats": repeats}
        for key in ("regret", "flatters", "estimated", "configurations", "any"):
            values = [result[key] for result in results]
            row[key] = round(mean(values), 3)
            row[f"{key}_ci95"] = round(1.96 * stdev(values) / math.sqrt(len(values)), 3)
        rows.append(row)
    return rows


def one(groups: list[list[Recorded]], index: int, trainings: int, repeats: int) -> dict[str, float]:
    """One simulated search; orders and seeds depend on `index` alone, so that rows are paired."""
    rng = generator(0, "simulated repeats", index)
    order, roles = rng.permutation(len(groups)), rng.permutation(SEEDS)
    race, tried = Repeats(repeats, baseline=str(order[0])), 0
    curves: dict[str, list[float]] = {}
    for number in range(trainings):
        if race.due:
            configuration = race.due[0]
        else:
            configuration, tried = str(order[tried]), tried + 1
        seed = roles[race.trainings[configuration]]
        race.started(f"training {number}", configuration)
        recorded = groups[int(configuration)][seed]
        train(race, recorded, f"training {number}", configuration)
        curves[f"training {number}"] = list(recorded.dev)
    named = race.incumbent()
    held = [group[roles[-1]].best for group in groups]
    return {
        "regret": 100 * (max(held) - held[int(named)]),
        "flatters": 100 * (float(np.mean(list(race.values[named].values()))) - held[int(named)]),
        "estimated": 100 * (selection_bias(curves) or 0.0),
        "configurations": tried,
        "any": 100 * (max(held) - mean(held)),
    }


def train(race: Repeats, recorded: Recorded, training: str, configuration: str) -> None:
    """Feeds a whole recorded training to the race."""
    for iteration, values in enumerate(recorded.queries, 1):
        race.result(training, iteration, values)
    race.ended(training, configuration, int(np.argmax(recorded.dev)) + 1)


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| study | trainings | repeats | configurations | regret | any | flatters | estimated |", "|" + "---|" * 8]
    for row in rows:
        cells = [row["study"], row["trainings"], row["repeats"], f"{row['configurations']:.1f}"]
        cells += [interval(row, "regret"), f"{row['any']:.2f}", interval(row, "flatters"), interval(row, "estimated")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def interval(row: dict[str, Any], key: str) -> str:
    return f"{row[key]:.2f} ± {row[f'{key}_ci95']:.2f}"


if __name__ == "__main__":
    main()
