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
paced, weighted, both. Grace `scaled` needs trainings whose budget is a rung: it, and the rows marked *, run over the
studies that have them.

With `--smoothing N` a search sees means over the last N values (`evaluation.smoothing`), and names a training by them;
final values stay the highest single ones."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
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
ETA, FIRST = 2, 3  # of grace scaled and all rows marked *: rungs at 3 and 6 of 12 iterations; else the defaults
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
        return max(self.pool[0].dev)

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
    scalable = [study for study in studies if has_rungs(study)]
    rows = compared(wanted(ways(Setup(1)), options.ways), studies, options.searches, options.workers)
    again = [*ways(Setup(1, ETA, first_rung=FIRST)), *ways_scaled()]
    marked = wanted([replace(way, label=f"{way.label} *") for way in again], options.ways)
    if scalable and len(marked) > 1:
        rows += compared(marked, scalable, options.searches, options.workers)
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

    None if too few configurations have whole trainings with every seed.
    """
    curves = read_curves(file)
    last = max(curve.budget for curve in curves)
    seeds = {curve.seed for curve in curves}
    name = names(curves, last)
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(name[key_of(curve.settings)], []).append(curve)
    complete = {key: group for key, group in groups.items() if {c.seed for c in group if c.budget == last} == seeds}
    effects = seed_effects([curve for group in complete.values() for curve in group if curve.budget == last])
    pool, finals, settings, kinds = [], {}, {}, {}
    for key, group in complete.items():
        for seed in sorted(seeds):
            training = f"{key} seed {seed}"
            single = recorded(training, [curve for curve in group if curve.seed == seed], last, effects[seed])
            pool.append(single.smoothed(smoothing))
            finals[training] = single.best(last)
            settings[training], kinds[training] = key, kind(group[0])
    return Study(file.name.split(".")[0], pool, finals, settings, kinds) if len(pool) >= FEWEST else None


def names(curves: list[Curve], last: int) -> dict[str, str]:
    """By settings, of a whole training or of one scaled to a rung: the name of the whole training."""
    rungs = Setup(last, ETA, first_rung=FIRST).rungs
    whole = [dict(curve.settings) for curve in curves if curve.budget == last]
    return {
        key_of(scaled(settings, budget / last)): key_of(settings) for settings in whole for budget in (*rungs, last)
    }


def scaled(settings: dict[str, Any], share: float) -> dict[str, Any]:
    """The settings as `scaled_run` changes them."""
    m = settings.get("curriculum.m")
    return settings if m is None or share == 1 else settings | {"curriculum.m": max(1.0, m * share)}


def key_of(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


def seed_effects(curves: list[Curve]) -> dict[int, np.ndarray]:
    """How the mean curve of each seed's trainings differs from that of all, [iterations]: what the initial weights do
    to every configuration alike. Trials of a real search share a seed, so it plays no part there."""
    everything = np.mean([curve.dev for curve in curves], axis=0)
    by_seed = {seed: [c.dev for c in curves if c.seed == seed] for seed in {c.seed for c in curves}}
    return {seed: np.mean(devs, axis=0) - everything for seed, devs in by_seed.items()}


def recorded(name: str, curves: list[Curve], last: int, effect: np.ndarray) -> Recorded:
    """The trainings of a configuration with a seed, with that seed's effect subtracted."""
    whole = next(curve for curve in curves if curve.budget == last)
    found = {curve.budget: curve for curve in curves}
    if kind(whole) == "plain":  # nothing in it depends on its budget
        found = dict.fromkeys((*Setup(last, ETA, first_rung=FIRST).rungs, last), whole)
    settings = whole.settings
    paced = int(np.ceil(settings.get("curriculum.T", 0) * last - 1e-9))
    end = min(last, max(paced, int(np.ceil(settings.get("curriculum.m", 0)))))
    dev = {budget: (np.asarray(c.dev[:budget]) - effect[:budget]).tolist() for budget, c in found.items()}
    queries = {budget: c.values()[:budget] - effect[:budget, None] for budget, c in found.items()}
    return Recorded(name, dev, queries, 1, end)


def kind(curve: Curve) -> str:
    paced = curve.settings["curriculum.pacing"] != "none"
    weighted = curve.settings["curriculum.weighting"] != "none"
    return KINDS[paced + 2 * weighted]


def has_rungs(study: Study) -> bool:
    """Whether every training was also recorded with each rung as its budget."""
    needed = set(Setup(study.last, ETA, first_rung=FIRST).rungs)
    return all(needed <= set(recorded.dev) for recorded in study.pool)


def ways(base: Setup) -> list[Way]:
    """`all`, and every scheduler under every grace."""
    rows = [Way("all", "none", base)]
    for grace in ("curriculum", "none"):
        own = replace(base, grace=grace)
        rows += [
            Way(f"asha {grace}", "asha", own),
            Way(f"asha promotion {grace}", "asha", replace(own, promotion=True)),
        ]
        rows += [Way(f"asha paired {grace}", "asha", replace(own, compare="paired"))]
        rows += [Way(f"{name} {grace}", name, own) for name in ("hyperband", "median", "model")]
    return [*rows, Way("model promotion", "model", replace(base, promotion=True))]


def ways_scaled() -> list[Way]:
    scaled = Setup(1, ETA, first_rung=FIRST, grace="scaled")
    both = [Way("asha scaled", "asha", scaled), Way("asha promotion scaled", "asha", replace(scaled, promotion=True))]
    return [*both, Way("hyperband scaled", "hyperband", scaled)]


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
            ended.setdefault(group, []).append(float(trial.budget == trial.done == study.last))
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
