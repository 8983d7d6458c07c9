"""What a search finds: whole searches, replayed in a moment on recorded trainings.

    python -m benchmarks.search_quality [--replays 100] [--trainings 12 24 48] [--studies noisy_wikiqa ...] [--json]

benchmarks/trainings holds every configuration of small spaces with three or five seeds (`recorded.py`), so whatever a
sampler proposes has an answer. In a replay the recorded seeds change places: one is that of the search, the next its
second seed, with five the next its third; the others are held out. A way names one configuration. Its gain is that
configuration's test MAP with a held-out seed, less the default's, in points of 100.

The plan, written before noisy_docstrings and noisy_semeval were replayed; nothing is chosen after it:

- `ours`: the driver, samplers, schedulers and phases of `tune-cl run` with T trials, tpe, asha, published curricula.
- `optuna`: plain Optuna, called directly: the TPESampler that Ray's OptunaSearch makes, on the same space with plain
  training among the choices, and Ray's asynchronous successive halving (reduction factor 4, grace 1). It goes on until
  it has made as many iterations as T trainings that nothing stops, less ours's number of further seeds; these it gives
  to its best, as ours does: second seeds, then third ones, and the mean over seeds chooses.
- `random`: draws that nothing stops, with the same further seeds.
- `oracle`: the best mean over all seeds but the held-out one, of dev.
- T is 12, 24, 48. A table with three seeds has no third seed: its further seeds are second ones.
- The aim: 1.5 times the gain of `optuna` at 24 and 48 on tables where the oracle gains anything (its interval over
  held-out seeds is above 0), not below it at 12; where nothing is to be found at most .1 points lost.

Intervals are of 95 %: over replays by bootstrap, and over held-out seeds by t, from the mean of each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
from scipy.stats import t as student

from benchmarks.recorded import SPACES, Recorded, settings_of
from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun
from trainables.core.randomness import generator
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.experiment import Experiment, TrialConfig, training_of
from tune_cl.experiment.load import build
from tune_cl.history.journal import Event, Journal
from tune_cl.schedulers import Decision, Setup
from tune_cl.schedulers.asha import Asha
from tune_cl.search.driver import BASELINE_TRIAL, SearchDriver
from tune_cl.search.phases import Phases, phases_of, planned_arms
from tune_cl.search.trials import Plan
from tune_cl.space.space import identity

BOOTSTRAP = 2000
PEER = "optuna"
STRIDE = 7  # through the orders of the seeds
SEARCH = {"searcher": "tpe", "scheduler": "asha", "reduction_factor": 2, "points": "published"}


@dataclass(frozen=True)
class Seeds:
    """Places of recorded seeds: those of the search in their order, and those held out."""

    search: tuple[int, ...]
    held_out: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """What a way names: a row of the table. `iterations`: what it cost."""

    row: int
    iterations: int


class Memory(Journal):
    """A journal that no file holds."""

    def __init__(self, first: Event):
        self.recorded, self.path = [first], Path("nowhere/journal.jsonl")

    def append(self, event: Event) -> None:
        self.recorded.append(event)

    def events(self) -> Iterator[Event]:
        return iter([*self.recorded])


class Replay(SearchDriver):
    """A search whose trainings are rows of a table."""

    def run(self, table: Recorded, places: Sequence[int]) -> None:
        """Makes all trials, one after another. places: of the search's seeds, in the order in which they come."""
        place_of: dict[int, int] = {}
        while isinstance(plan := self.next_trial(), Plan):
            assert isinstance(plan.run, TrainingConfig)
            place = place_of.setdefault(plan.run.seed, places[len(place_of) % len(places)])
            row = table.row[settings_of(self.experiment, plan.run.in_force())]
            last = table.dev.shape[2]
            for iteration, dev in enumerate(table.dev[row, place].tolist(), 1):
                metrics = {**SILENT, "iteration": iteration, "done": iteration == last, dev_key("map"): dev}
                if not self.result(plan.trial, metrics):
                    break
            self.ended(plan.trial)


SILENT = dict.fromkeys(("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds"), 0.0)


class Remembering(Experiment):
    """An experiment of which each configuration is checked once for all replays. Its trainings all have the seed of the
    first, in place of which a replay reads its own."""

    def config(self, point: Mapping[str, Any]) -> TrialConfig:
        place, key = identity(point), (self.name, identity(point))
        if key not in _runs:
            _runs[key] = training_of(self, point)
        if place not in self._configs:
            run = _runs[key].model_copy(update={"seed": self.fixed.get("seed", 0)})
            self._configs[place] = TrialConfig(self, dict(point), run)
        return self._configs[place]


_runs: dict[Hashable, AnyRun] = {}
_in_force: dict[str, dict[str, Any]] = {}
in_force = TrainingConfig.in_force


def remembered_in_force(run: TrainingConfig) -> dict[str, Any]:
    key = repr((run.ranker, run.curriculum, run.training, run.data))
    if key not in _in_force:
        _in_force[key] = in_force(run)
    return _in_force[key] | {"seed": run.seed}


def remembering() -> AbstractContextManager[object]:
    """Configurations are compared by their keys in force, hundreds of times in each search."""
    return patch.object(TrainingConfig, "in_force", remembered_in_force)


recorded = cache(Recorded.read)


@cache
def experiment_of(study: str, trials: int) -> Experiment:
    """A search of a study's space."""
    built = build(study, {**SPACES[study], "search": {**SEARCH, "trials": trials}}, {"data.source": "docstrings"})
    return Remembering(**{each.name: getattr(built, each.name) for each in fields(built) if each.init})


def phases_on(table: Recorded) -> Callable[[Experiment], Phases]:
    """The phases of a search that has as many seeds as the table, one of which is held out."""

    def phases(experiment: Experiment) -> Phases:
        found = phases_of(experiment)
        if table.seeds > 3:
            return found
        return found.model_copy(update={"second": found.seeds, "third": 0})

    return phases


def first_event(experiment: Experiment) -> Event:
    """What a journal begins with, as far as a replay reads it."""
    run, texts = experiment.base.run, dict.fromkeys(("space", "yaml"), "")
    about = {"name": experiment.name, "data": {}, "ranker": "knrm", "rankers": ["knrm"]}
    about |= {"arms": planned_arms(experiment), "compares": experiment.arms.compares}
    about |= {"metric": run.metric, "seed": run.seed}
    return {"event": "search", "baseline": BASELINE_TRIAL, "time": 0.0, **texts, **about}


# -- ways ------------------------------------------------------------------------------------------------------------


def ours(study: str, trainings: int, master: int, seeds: Seeds) -> Found:
    """The search of tune_cl."""
    table, experiment = recorded(study), experiment_of(study, trainings)
    experiment = replace(experiment, fixed={**experiment.fixed, "seed": master})
    with patch("tune_cl.search.driver.phases_of", phases_on(table)):
        search = Replay(experiment, Memory(first_event(experiment)), 1, lambda *_: Path())
    search.run(table, seeds.search)
    best = search.state.ranked()[0][0].params
    return Found(table.row[settings_of(experiment, best)], search.state.iterations)


@dataclass(frozen=True)
class Peer:
    """Plain Optuna. `tpe`: whether its sampler models; `stops`: whether Ray's ASHA ends trials early, which Optuna
    takes for finished, as Ray's OptunaSearch has it."""

    tpe: bool = True
    stops: bool = True

    def __call__(self, study: str, trainings: int, master: int, seeds: Seeds) -> Found:
        table, experiment = recorded(study), experiment_of(study, trainings)
        phases, last = phases_on(table)(experiment), table.dev.shape[2]
        samplers = optuna.samplers
        sampler = samplers.TPESampler(seed=master) if self.tpe else samplers.RandomSampler(seed=master)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        asked = optuna.create_study(direction="maximize", sampler=sampler)
        asha = Asha(Setup(last, reduction_factor=4, grace=1))
        values: dict[int, float] = {}  # by row: the best over its trials
        number = iterations = 0
        while iterations < (trainings - phases.seeds) * last:
            number += 1
            trial = asked.ask()
            point = experiment.space.fill(lambda key, leaf, trial=trial: leaf.suggest(trial, key))
            row = table.row[settings_of(experiment, experiment.config(point).run.in_force())]
            asha.start(str(number), 1)
            value = -1.0
            for iteration, dev in enumerate(table.dev[row, seeds.search[0]].tolist(), 1):
                value, iterations = max(value, dev), iterations + 1
                trial.report(value, iteration)
                if self.stops and asha.on_result(str(number), iteration, dev) is Decision.STOP:
                    break
            asked.tell(trial, value)
            values[row] = max(value, values.get(row, value))
        row = with_further_seeds(table, values, seeds, phases)
        return Found(row, iterations + phases.seeds * last)


def with_further_seeds(table: Recorded, values: Mapping[int, float], seeds: Seeds, phases: Phases) -> int:
    """The row with the highest mean over seeds of those that get further seeds; the highest value where none does."""
    by_seed = {row: [value] for row, value in values.items()}
    for place, number in zip(seeds.search[1:], (phases.second, phases.third), strict=False):
        most = max(map(len, by_seed.values()))
        ranked = sorted((row for row in by_seed if len(by_seed[row]) == most), key=lambda row: -sum(by_seed[row]))
        for row in ranked[:number]:
            by_seed[row].append(float(table.dev[row, place].max()))
    return min(by_seed, key=lambda row: (len(by_seed[row]) < 2, -float(np.mean(by_seed[row]))))


Way = Callable[[str, int, int, Seeds], Found]
WAYS: dict[str, Way] = {"ours": ours, PEER: Peer(), "random": Peer(tpe=False, stops=False)}


# -- replays ---------------------------------------------------------------------------------------------------------


def replays(study: str, count: int) -> Iterator[tuple[int, Seeds]]:
    """Master seeds, and which recorded seeds serve for what: each is held out equally often."""
    seeds = recorded(study).seeds
    orders = list(permutations(range(seeds)))
    searched = min(3, seeds - 1)
    for master in range(count):
        order = orders[(master * STRIDE) % len(orders)]
        yield master + 1, Seeds(order[:searched], order[searched:])


@dataclass(frozen=True)
class Cell:
    """A way's replays on a study: gains on test by replay and held-out seed, [replays, seeds]; NaN where a seed was
    not held out."""

    way: str
    study: str
    trainings: int
    gains: np.ndarray
    iterations: float

    @property
    def by_replay(self) -> np.ndarray:
        return np.nanmean(self.gains, axis=1)


def measured(way: str, study: str, trainings: int, count: int) -> Cell:
    table = recorded(study)
    gains, iterations = np.full((count, table.seeds), np.nan), []
    with remembering():
        for number, (master, seeds) in enumerate(replays(study, count)):
            found = WAYS[way](study, trainings, master, seeds)
            for held_out in seeds.held_out:
                gains[number, held_out] = 100 * (table.test[found.row, held_out] - table.test[0, held_out])
            iterations.append(found.iterations)
    return Cell(way, study, trainings, gains, float(np.mean(iterations)))


def oracle(study: str) -> np.ndarray:
    """For each held-out seed the gain of the best mean over all other seeds, [seeds]."""
    table = recorded(study)
    dev = table.dev.max(axis=2)
    gains = []
    for held_out in range(table.seeds):
        others = [seed for seed in range(table.seeds) if seed != held_out]
        best = int(dev[:, others].mean(axis=1).argmax())
        gains.append(100 * (table.test[best, held_out] - table.test[0, held_out]))
    return np.array(gains)


def over_replays(values: np.ndarray) -> tuple[float, float]:
    """Percentile bootstrap."""
    rng = generator(0, "bootstrap", len(values))
    means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(BOOTSTRAP)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def over_seeds(gains: np.ndarray) -> tuple[float, float]:
    """By t, from the mean of each seed that a replay held out. gains: [replays, seeds]."""
    values = np.nanmean(gains[:, ~np.isnan(gains).all(axis=0)], axis=0)
    half = float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def row(cell: Cell, peer: Cell) -> dict[str, Any]:
    """Gains, also less the peer's in the same replays, and how many times the peer's: None unless that is above 0."""
    less = cell.gains - peer.gains
    times = cell.by_replay.mean() / peer.by_replay.mean() if over_replays(peer.by_replay)[0] > 0 else None
    return {
        "study": cell.study,
        "trainings": cell.trainings,
        "way": cell.way,
        "replays": len(cell.gains),
        "gain": float(cell.by_replay.mean()),
        "over_replays": over_replays(cell.by_replay),
        "over_seeds": over_seeds(cell.gains),
        "less_peer": float(np.nanmean(less, axis=1).mean()),
        "less_over_replays": over_replays(np.nanmean(less, axis=1)),
        "less_over_seeds": over_seeds(less),
        "ratio": times,
        "iterations": cell.iterations,
    }


HEADS = ("study", "trainings", "way", "gain", "less Optuna's", "times Optuna's", "iterations")


def table_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Gains with their intervals over replays; held-out seeds."""
    lines = [f"| {' | '.join(HEADS)} |", "|---|---:|---|---|---|---:|---:|"]
    for one in rows:
        gain = f"{one['gain']:+.2f} ({words(one['over_replays'])}; {words(one['over_seeds'])})"
        less = f"{one['less_peer']:+.2f} ({words(one['less_over_replays'])}; {words(one['less_over_seeds'])})"
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.2f}"
        cells = (one["study"], one["trainings"], one["way"], gain, less, ratio, f"{one['iterations']:.0f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def words(interval: tuple[float, float]) -> str:
    return f"{interval[0]:+.2f} to {interval[1]:+.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--trainings", type=int, nargs="+", default=[12, 24, 48])
    parser.add_argument("--studies", nargs="+", choices=SPACES, default=[*SPACES])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for study in options.studies:
        gains = oracle(study)
        print(f"{study}: the oracle gains {gains.mean():+.2f} ({words(over_seeds(gains[None]))})", file=sys.stderr)
    for study, trainings in product(options.studies, options.trainings):
        cells = {way: measured(way, study, trainings, options.replays) for way in WAYS}
        rows += [row(cell, cells[PEER]) for cell in cells.values()]
        print("\n".join(table_of(rows[-len(WAYS) :]).splitlines()[2:]), file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1) if options.json else table_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
