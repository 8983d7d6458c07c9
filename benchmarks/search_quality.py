"""What a search finds: whole searches, replayed in a moment on recorded trainings.

    python -m benchmarks.search_quality [--replays 100] [--trainings 6 12 24 48] [--studies noisy_wikiqa ...]
        [--ways ours optuna random] [--json]

benchmarks/trainings holds every configuration of small spaces with three seeds (`recorded.py`), so whatever a sampler
proposes has an answer. In a replay one seed is that of the search, another that of a selection, and the third is held
out; they change places, and master seeds differ. A way gets TRAININGS in all, those of its selection included, and
names one configuration. Its gain is that configuration's value with the held-out seed, less the default's; intervals
are bootstraps over replays, and so say nothing of other data.

`ours` is the driver, the samplers and the schedulers of `tune-cl run`, and the selection of `confirm` with its
automatic sizes, but for its seeds: there is one. Of both arms' champions the one with the higher mean there counts.
`optuna` is plain Optuna, called directly: the TPESampler that Ray's OptunaSearch makes, on the same space with plain
training among the choices, without pairs, and Ray's asynchronous successive halving (reduction factor 4, grace 1); the
best dev value wins. `optuna-whole` goes on until it has made as many iterations as TRAININGS that nothing stops.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import permutations, product
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import optuna

from benchmarks.recorded import SPACES, Recorded, settings_of
from trainables.config.keys import TrainingRun
from trainables.config.objective import AnyRun
from trainables.core.randomness import generator
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment import known_points
from tune_cl.experiment.arms import ARMS
from tune_cl.experiment.experiment import Experiment, TrialConfig
from tune_cl.experiment.load import build
from tune_cl.history.events import Event
from tune_cl.history.journal import Journal
from tune_cl.schedulers import Decision, Setup
from tune_cl.schedulers.asha import Asha
from tune_cl.search.driver import BASELINE_TRIAL, SearchDriver
from tune_cl.search.trials import Plan
from tune_cl.space.space import Flat, identity
from tune_cl.verdict.contenders import contenders_by_training
from tune_cl.verdict.selection import MANY, choices, seeds_of_selection

BOOTSTRAP = 2000
PEER = "optuna"
STRIDE = 7  # through the orders of the seeds
SHIPPED = {"searcher": "tpe", "scheduler": "asha", "reduction_factor": 2}


@dataclass(frozen=True)
class Seeds:
    """Places of recorded seeds: of the search, of its selection, and held out."""

    search: int
    selection: tuple[int, ...]
    held_out: int


@dataclass(frozen=True)
class Found:
    """What a way names: a row of the table. `trainings`, `iterations`: what it cost."""

    row: int
    trainings: int
    iterations: int


class Memory(Journal):
    """A journal that no file holds."""

    def __init__(self, first: Event):
        self.recorded, self.path = [first], Path("nowhere/journal.jsonl")

    def append(self, event: Event, patience: float | None = None) -> None:
        self.recorded.append(event)

    def events(self) -> Iterator[Event]:
        return iter([*self.recorded])


class Replay(SearchDriver):
    """A search whose trainings are rows of a table. `seed`: the place of its seed there."""

    def run(self, table: Recorded, seed: int) -> None:
        """Makes all trials, one after another."""
        while isinstance(plan := self.next_trial(), Plan):
            assert isinstance(plan.run, TrainingRun)
            row = table.row[settings_of(self.experiment, plan.run.in_force())]
            last = table.dev.shape[2]
            for iteration, dev in enumerate(table.dev[row, seed].tolist(), 1):
                metrics = {**SILENT, "iteration": iteration, "done": iteration == last, dev_key("map"): dev}
                if not self.result(plan.trial, metrics):
                    break
            self.ended(plan.trial)


SILENT = dict.fromkeys(("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds"), 0.0)


class Remembering(Experiment):
    """An experiment of which each configuration is checked once for all replays. Its trainings all have the seed of the
    first, which a replay does not read."""

    def config(self, point: Mapping[str, Any]) -> TrialConfig:
        key = self.name, identity(point)
        if key not in _runs:
            _runs[key] = super().config(point).run
        return TrialConfig(self, dict(point), _runs[key])


_runs: dict[Hashable, AnyRun] = {}
_in_force: dict[int, Flat] = {}  # of the runs there, by their ids


def remembered_in_force(run: TrainingRun) -> Flat:
    if id(run) not in _in_force:
        _in_force[id(run)] = in_force(run)
        _runs[id(run)] = run  # so that no other gets its id
    return _in_force[id(run)]


in_force = TrainingRun.in_force


def remembering() -> AbstractContextManager[object]:
    """Configurations are compared by their keys in force, hundreds of times in each search."""
    return patch.object(TrainingRun, "in_force", remembered_in_force)


@cache
def experiment_of(study: str, search: str) -> Experiment:
    """A search of a study's space with these keys of `search`, as JSON."""
    built = build(study, {**SPACES[study], "search": json.loads(search)}, {"data.source": "docstrings"})
    return Remembering(**{each.name: getattr(built, each.name) for each in fields(built) if each.init})


published = cache(known_points.published)


@dataclass(frozen=True)
class Ours:
    """The search and the selection of tune_cl. `search`: keys of `search` beside SHIPPED; `points`: whether published
    curricula come first; `selects`: whether champions are chosen with new seeds."""

    search: Mapping[str, Any] = field(default_factory=dict)
    points: bool = True
    selects: bool = True

    def __call__(self, study: str, trainings: int, master: int, seeds: Seeds) -> Found:
        table = recorded(study)
        experiment = self.experiment(study, trainings, master, len(seeds.selection))
        search = Replay(experiment, Memory(first_event(experiment)), 1, lambda *_: Path())
        search.run(table, seeds.search)
        return self.champion(search, table, seeds)

    def experiment(self, study: str, trainings: int, master: int, most: int) -> Experiment:
        """The longest search that leaves enough for its selection."""
        for trials in range(trainings, 1, -1):
            experiment = experiment_of(study, json.dumps({**SHIPPED, **self.search, "trials": trials}))
            if not self.selects or trials + self.of_selection(experiment, trials, most) <= trainings:
                break
        experiment = replace(experiment, fixed={**experiment.fixed, "seed": master})
        if not self.points:
            return experiment
        with patch.object(known_points, "published", published):
            return replace(experiment, points=tuple(known_points.published_points(experiment)))

    def of_selection(self, experiment: Experiment, trials: int, most: int) -> int:
        """Trainings of a selection at most."""
        top = 3 if trials >= MANY else 2
        candidates = sum(min(top, experiment.arms.trials[arm]) for arm in ARMS)
        return candidates * min(seeds_of_selection(candidates, trials), most)

    def champion(self, search: SearchDriver, table: Recorded, seeds: Seeds) -> Found:
        """The better of both arms' champions."""
        state, experiment = search.state, search.experiment
        made = len(state.trials)
        if not self.selects:
            best = state.ranked()[0][0].params
            return Found(table.row[settings_of(experiment, best)], made, state.iterations)
        arms = choices(state, contenders_by_training(state, experiment), None, ())
        rows = [table.row[settings_of(experiment, one.params)] for arm in ARMS for one in arms[arm]]
        number = min(seeds_of_selection(len(rows), made), len(seeds.selection))
        again = table.dev[rows][:, list(seeds.selection[:number])].max(axis=2)
        cost = len(rows) * number
        best = rows[int(again.mean(axis=1).argmax())]
        return Found(best, made + cost, state.iterations + cost * table.dev.shape[2])


def first_event(experiment: Experiment) -> Event:
    """What a journal begins with, as far as a replay reads it."""
    texts = dict.fromkeys(("space", "yaml"), "")
    run, arms = experiment.base.run, experiment.arms
    about = {"name": experiment.name, "data": {}, "ranker": "knrm", "rankers": ["knrm"], "arms": arms.plans}
    about |= {"compares": arms.compares, "metric": run.metric, "seed": run.seed}
    return cast(Event, {"event": "search", "baseline": BASELINE_TRIAL, "time": 0.0, **texts, **about})


@dataclass(frozen=True)
class Peer:
    """Plain Optuna. `tpe`: whether its sampler models; `stops`: whether Ray's ASHA ends trials early; `pruned`: whether
    Optuna is told so, else they count as finished, as Ray's OptunaSearch has it; `whole`: whether it goes on
    until it has made as many iterations as TRAININGS that nothing stops."""

    tpe: bool = True
    stops: bool = True
    pruned: bool = False
    whole: bool = False

    def __call__(self, study: str, trainings: int, master: int, seeds: Seeds) -> Found:
        table, experiment = recorded(study), experiment_of(study, json.dumps({**SHIPPED, "trials": 12}))
        samplers = optuna.samplers
        sampler = samplers.TPESampler(seed=master) if self.tpe else samplers.RandomSampler(seed=master)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        asked = optuna.create_study(direction="maximize", sampler=sampler)
        asha = Asha(Setup(table.dev.shape[2], reduction_factor=4, grace=1))
        best, iterations = (-1.0, 0), 0
        number, last = 0, table.dev.shape[2]
        while iterations < trainings * last if self.whole else number < trainings:
            number += 1
            trial = asked.ask()
            point = experiment.space.fill(lambda key, leaf, trial=trial: leaf.suggest(trial, key))
            row = table.row[settings_of(experiment, experiment.config(point).run.in_force())]
            asha.start(str(number), 1)
            value, stopped = -1.0, False
            for iteration, dev in enumerate(table.dev[row, seeds.search].tolist(), 1):
                value, iterations = max(value, dev), iterations + 1
                trial.report(value, iteration)
                if self.stops and asha.on_result(str(number), iteration, dev) is Decision.STOP:
                    stopped = True
                    break
            best = max(best, (value, -row))
            if stopped and self.pruned:
                asked.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                asked.tell(trial, value)
        return Found(-best[1], number, iterations)


Way = Callable[[str, int, int, Seeds], Found]
WAYS: dict[str, Way] = {
    "ours": Ours(),
    PEER: Peer(),
    "optuna-pruned": Peer(pruned=True),
    "optuna-whole": Peer(whole=True),
    "random": Peer(tpe=False, stops=False),
    "no-selection": Ours(selects=False),
    "no-points": Ours(points=False),
}


recorded = cache(Recorded.read)


def replays(study: str, count: int) -> Iterator[tuple[int, Seeds]]:
    """Master seeds, and which recorded seeds serve for what: each is held out equally often."""
    seeds = recorded(study).seeds
    orders = list(permutations(range(seeds)))
    for master in range(count):
        held_out, search, *selection = orders[(master * STRIDE) % len(orders)]
        yield master + 1, Seeds(search, tuple(selection), held_out)


@dataclass(frozen=True)
class Cell:
    """A way's replays on a study: gains on test and on dev with the held-out seed, [replays], and what they cost."""

    way: str
    study: str
    trainings: int
    test: np.ndarray
    dev: np.ndarray
    made: float
    iterations: float


def measured(way: str, study: str, trainings: int, count: int) -> Cell:
    table, rows = recorded(study), []
    with remembering():
        for master, seeds in replays(study, count):
            found = WAYS[way](study, trainings, master, seeds)
            dev = table.dev[[found.row, 0], seeds.held_out].max(axis=1)
            test = table.test[[found.row, 0], seeds.held_out]
            rows.append((test[0] - test[1], dev[0] - dev[1], found.trainings, found.iterations))
    test, dev, made, iterations = np.array(rows).T
    return Cell(way, study, trainings, test, dev, made.mean(), iterations.mean())


def interval(statistic: Callable[[np.ndarray], float], replays: int) -> tuple[float, float]:
    """95 % percentile bootstrap over replays; the statistic is of the places that were drawn."""
    rng = generator(0, "bootstrap", replays)
    drawn = [statistic(rng.integers(replays, size=replays)) for _ in range(BOOTSTRAP)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def row(cell: Cell, peer: Cell) -> dict[str, Any]:
    """Gains in points of 100 MAP, also less the peer's in the same replays, and how many times the peer's: None unless
    that is above 0."""
    gain, other = 100 * cell.test, 100 * peer.test
    replays = len(gain)
    times = gain.mean() / other.mean() if interval(lambda drawn: other[drawn].mean(), replays)[0] > 0 else None
    return {
        "study": cell.study,
        "way": cell.way,
        "trainings": cell.trainings,
        "gain": float(gain.mean()),
        "gain_ci95": interval(lambda drawn: gain[drawn].mean(), replays),
        "gain_dev": 100 * float(cell.dev.mean()),
        "less_peer": float((gain - other).mean()),
        "less_peer_ci95": interval(lambda drawn: (gain - other)[drawn].mean(), replays),
        "ratio": times,
        "made": cell.made,
        "iterations": cell.iterations,
    }


def table_of(rows: Iterable[Mapping[str, Any]]) -> str:
    heads = ("study", "trainings", "way", "gain on test", "on dev", "less Optuna's", "times Optuna's", "iterations")
    lines = [f"| {' | '.join(heads)} |", "|---|---:|---|---|---:|---|---:|---:|"]
    for one in rows:
        gain, less = (
            f"{one[key]:+.2f} ({one[f'{key}_ci95'][0]:+.2f} to {one[f'{key}_ci95'][1]:+.2f})"
            for key in ("gain", "less_peer")
        )
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.2f}"
        cells = (one["study"], one["trainings"], one["way"], gain, f"{one['gain_dev']:+.2f}", less, ratio)
        lines.append(f"| {' | '.join(map(str, cells))} | {one['iterations']:.0f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--trainings", type=int, nargs="+", default=[6, 12, 24, 48])
    parser.add_argument("--studies", nargs="+", choices=SPACES, default=[*SPACES])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["ours", PEER, "random"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for study, trainings in product(options.studies, options.trainings):
        peer = measured(PEER, study, trainings, options.replays)
        for way in options.ways:
            cell = peer if way == PEER else measured(way, study, trainings, options.replays)
            rows.append(row(cell, peer))
            print(table_of(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1) if options.json else table_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
