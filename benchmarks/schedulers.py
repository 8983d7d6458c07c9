"""Which scheduler finds the best configuration in the fewest iterations? Simulated searches over recorded curves.

    python benchmarks/schedulers.py [--studies '*-wide'] [--ways 'asha*'] [--smoothing 1] [--searches 100] [--json]

The searches take turns over the studies and try a study's trainings in a random order. A training is a configuration
with a seed; the seed's effect on all configurations alike is subtracted. Regret is the best final dev value of the
study's trainings less that of the one that the search would name (the highest dev value it saw), in points of 100 dev
MAP with 95 % intervals over searches: `regret` takes that training's own final value, `seen` the value that the search
saw of it, `others` means over the other seeds of a configuration, which is what a user gets. `less all` is `others`
less that of `all` with four times the iterations, paired by search: at or below zero the goal is reached.

`all` trains the first 16 to their end. Every scheduler searches with a quarter of those iterations and as many trials
as it likes; and once more over the same 16 trials with all the iterations it asks for, where `iterations` is their
share of those of `all`, and `ended` the share of trials that ran to the end, overall and by kind of curriculum: plain,
paced, weighted, both.

With `--smoothing N` a search sees means over the last N values (`evaluation.smoothing`), and names a training by them;
final values stay the highest single ones."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from recorded import Curve, read_curves
from simulator import Recorded, Simulation

from trainables.core.randomness import generator
from tune_cl.schedulers import SCHEDULERS, Setup

ALL, SHARE = 16, 4  # trials that `all` trains; the schedulers get 1/SHARE of its iterations
FEWEST = 18  # recorded trainings that a study must have to be searched
KINDS = ("plain", "paced", "weighted", "both")


@dataclass(frozen=True)
class Study:
    """The recorded trainings of one ranker on one data set: those of configurations that were trained with all seeds.

    finals    the best dev value of a whole training, not smoothed, by its name
    settings  what trainings of one configuration share, by a training's name
    """

    name: str
    pool: list[Recorded]
    finals: dict[str, float]
    settings: dict[str, str]
    kinds: dict[str, str]

    @property
    def last(self) -> int:
        return len(self.pool[0].dev)

    @property
    def seeds(self) -> int:
        """How many trainings each configuration has."""
        return len(self.settings) // len(set(self.settings.values()))

    def on_other_seeds(self, name: str) -> float:
        """Mean over the other trainings of the same configuration; NaN if it was trained with one seed alone."""
        same = [other for other in self.settings if self.settings[other] == self.settings[name] and other != name]
        return mean(self.finals[other] for other in same) if same else math.nan


@dataclass(frozen=True)
class Way:
    """A row of the table; `setup` has all but the number of iterations, which is the study's."""

    label: str
    scheduler: str
    setup: Setup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, default=Path(__file__).with_name("curves"))
    parser.add_argument("--studies", nargs="+", default=["*"], metavar="PATTERN", help="of names; default: all")
    parser.add_argument(
        "--ways", nargs="+", default=["*"], metavar="PATTERN", help="of rows beside `all`; default: all"
    )
    parser.add_argument("--smoothing", type=int, default=1, metavar="N")
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    studies = read_studies(options.curves, options.studies, options.smoothing)
    rows = compared(wanted(ways(Setup(1)), options.ways), studies, options.searches, options.workers)
    print(json.dumps(rows, indent=1) if options.json else table(rows, studies))


def wanted(rows: list[Way], patterns: Sequence[str]) -> list[Way]:
    """The first row, `all`, and those whose labels match a pattern."""
    return rows[:1] + [way for way in rows[1:] if any(fnmatch(way.label, pattern) for pattern in patterns)]


def read_studies(folder: Path, patterns: Sequence[str] = ("*",), smoothing: int = 1) -> list[Study]:
    """The studies whose names match a pattern and that can be searched."""
    files = {file.name.split(".")[0]: file for file in sorted(folder.glob("*.jsonl*"))}
    matching = [file for name, file in files.items() if any(fnmatch(name, pattern) for pattern in patterns)]
    return [study for file in matching if (study := read_study(file, smoothing))]


def read_study(file: Path, smoothing: int = 1) -> Study | None:
    """The trainings of a file, with dev values averaged over the last `smoothing` iterations.

    None if too few configurations have trainings with every seed.
    """
    curves = read_curves(file)
    seeds = {curve.seed for curve in curves}
    groups: dict[str, dict[int, Curve]] = {}
    for curve in curves:
        groups.setdefault(json.dumps(dict(curve.settings), sort_keys=True), {})[curve.seed] = curve
    complete = {key: by_seed for key, by_seed in groups.items() if by_seed.keys() == seeds}
    effects = seed_effects([curve for by_seed in complete.values() for curve in by_seed.values()])
    pool, finals, settings, kinds = [], {}, {}, {}
    for key, by_seed in complete.items():
        for seed, curve in sorted(by_seed.items()):
            training = f"{key} seed {seed}"
            single = recorded(training, curve, effects[seed])
            pool.append(single.smoothed(smoothing))
            finals[training] = single.best
            settings[training], kinds[training] = key, kind(curve)
    return Study(file.name.split(".")[0], pool, finals, settings, kinds) if len(pool) >= FEWEST else None


def seed_effects(curves: list[Curve]) -> dict[int, np.ndarray]:
    """How the mean curve of each seed's trainings differs from that of all, [iterations]: what the initial weights do
    to every configuration alike. Trials of a real search share a seed, so it plays no part there."""
    everything = np.mean([curve.dev for curve in curves], axis=0)
    by_seed = {seed: [c.dev for c in curves if c.seed == seed] for seed in {c.seed for c in curves}}
    return {seed: np.mean(devs, axis=0) - everything for seed, devs in by_seed.items()}


def recorded(name: str, curve: Curve, effect: np.ndarray) -> Recorded:
    """A training, with its seed's effect subtracted."""
    settings, last = curve.settings, len(curve.dev)
    paced = int(np.ceil(settings.get("curriculum.T", 0) * last - 1e-9))
    end = min(last, max(paced, int(np.ceil(settings.get("curriculum.m", 0)))))
    return Recorded(name, (np.asarray(curve.dev) - effect).tolist(), curve.values() - effect[:, None], 1, end)


def kind(curve: Curve) -> str:
    paced = curve.settings["curriculum.pacing"] != "none"
    weighted = curve.settings["curriculum.weighting"] != "none"
    return KINDS[paced + 2 * weighted]


def ways(base: Setup) -> list[Way]:
    """`all`, and every scheduler under every grace."""
    rows = [Way("all", "none", base)]
    for grace in ("curriculum", "none"):
        own = replace(base, grace=grace)
        rows += [
            Way(f"asha {grace}", "asha", own),
            Way(f"asha promotion {grace}", "asha", replace(own, promotion=True)),
        ]
        rows += [Way(f"{name} {grace}", name, own) for name in ("hyperband", "median", "model")]
    return [*rows, Way("model promotion", "model", replace(base, promotion=True))]


def compared(rows: Sequence[Way], studies: list[Study], searches: int, workers: int) -> list[dict[str, Any]]:
    """The rows of a table: means over searches, with half the width of their 95 % intervals. The first is `all`."""
    turns = [(studies[index % len(studies)], index) for index in range(searches)]
    found: list[dict[str, Any]] = []
    whole: list[float] = []  # `others` of `all`, by search
    for way in rows:
        quarter = [one(way, study, index, workers, quarter=True) for study, index in turns]
        same = [one(way, study, index, workers, quarter=False) for study, index in turns]
        whole = whole or [result["others"] for result in same]
        for result, base in zip(quarter, whole, strict=True):
            result["less_all"] = result["others"] - base
        found.append(row_of(way, quarter, same))
    return found


def row_of(way: Way, quarter: list[dict[str, Any]], same: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"way": way.label, "searches": len(same)}
    for group, results in (("quarter", quarter), ("same", same)):
        for key in ("regret", "seen", "others", "less_all", "iterations", "trials"):
            values = [result[key] for result in results if not math.isnan(result.get(key, math.nan))]
            row[f"{group}_{key}"] = round(mean(values), 3) if values else None
            row[f"{group}_{key}_ci95"] = round(1.96 * stdev(values) / len(values) ** 0.5, 3) if values else None
    for name in ("all", *KINDS):
        ended = [share for result in same for share in result["ended"].get(name, [])]
        row[f"ended_{name}"] = round(mean(ended), 3) if ended else None
    return row


def one(way: Way, study: Study, index: int, workers: int, quarter: bool) -> dict[str, Any]:
    """One simulated search; the order of the trainings depends on `index` alone, so that rows are paired."""
    order = generator(0, "simulated search", index).permutation(len(study.pool))
    pool = [study.pool[place] for place in order]
    if way.setup.grace == "curriculum":
        pool = [replace(recorded, grace=recorded.end) for recorded in pool]
    scheduler = SCHEDULERS[way.scheduler](replace(way.setup, max_iterations=study.last))
    iterations = ALL * study.last / SHARE if quarter else math.inf
    search = Simulation(scheduler, pool if quarter else pool[:ALL], workers, iterations).run()
    best = search.best()
    chosen, highest = best.recorded.name, max(study.finals[recorded.name] for recorded in pool)
    ended: dict[str, list[float]] = {}
    for name, trial in search.trials.items():
        for group in ("all", study.kinds[name]):
            ended.setdefault(group, []).append(float(trial.done == study.last))
    others = [study.on_other_seeds(recorded.name) for recorded in pool]
    return {
        "regret": 100 * (highest - study.finals[chosen]),
        "seen": 100 * (highest - best.best),
        "others": 100 * (max(others) - study.on_other_seeds(chosen)),
        "iterations": search.spent / (ALL * study.last),
        "trials": len(search.trials),
        "ended": ended,
    }


def table(rows: list[dict[str, Any]], studies: list[Study]) -> str:
    lines = [f"{len(studies)} studies: {', '.join(f'{study.name} ({len(study.pool)})' for study in studies)}", ""]
    lines.append("| | at a quarter of the iterations | | | | | with the same 16 trials | | | ended: | | | | |")
    lines.append("|" + "---|" * 14)
    columns = "way | regret | seen | others | less all | trials | regret | others | iterations | all | "
    lines.append(f"| {columns}{' | '.join(KINDS)} |")
    for row in rows:
        cells = [interval(row, f"quarter_{key}") for key in ("regret", "seen", "others", "less_all")]
        cells += [f"{row['quarter_trials']:.1f}"]
        cells += [interval(row, "same_regret"), interval(row, "same_others"), f"{row['same_iterations']:.2f}"]
        cells += ["–" if row[f"ended_{name}"] is None else f"{row[f'ended_{name}']:.2f}" for name in ("all", *KINDS)]
        lines.append(f"| {row['way']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def interval(row: dict[str, Any], key: str) -> str:
    return "–" if row[key] is None else f"{row[key]:.2f} ± {row[f'{key}_ci95']:.2f}"


if __name__ == "__main__":
    main()
