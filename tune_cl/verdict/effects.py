"""`tune-cl effects --seeds N`: every pair of a search trained with new seeds, and what curricula change over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.config.function import Objective
from trainables.core.errors import ConfigError, WorkFailed
from trainables.core.files import write_text
from trainables.core.prose import counted, say
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.search_folder import SearchFolder, named_when_stopped
from tune_cl.history.state import Pair, SearchState, experiment_of, replay, training_key
from tune_cl.report.page import write_report
from tune_cl.results import Effects
from tune_cl.run_trainings import SeedTrainings
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.tracking.writer import MlflowWriter, finish
from tune_cl.verdict.confirm import read_inputs
from tune_cl.verdict.contenders import contenders_by_training
from tune_cl.verdict.estimates import SeedNoise
from tune_cl.verdict.pairs import FEWEST, distinct_pairs, effects_file, pair_effects, require_pairs
from tune_cl.verdict.trainings import SeedRun, failures_in_words, new_seeds, request_problems, seed_run, values_by_query

EXACT = SeedNoise(0.0, 1_000_000)  # where the seed changes nothing


@dataclass(frozen=True, kw_only=True)
class EffectsRequest:
    """What `tune-cl effects` with new trainings is asked for. Raises ConfigError for values that make no sense."""

    seeds: int
    split: str = "test"

    def __post_init__(self) -> None:
        if problems := request_problems(self.seeds, self.split, "2 or 3"):
            raise ConfigError(problems)


class PairTrainings:
    """The trainings of all pairs with new seeds, in folders that `confirm` reuses."""

    def __init__(
        self, search_folder: SearchFolder, state: SearchState, experiment: Experiment, request: EffectsRequest
    ):
        self.state, self.experiment, self.request = state, experiment, request
        self.pairs = distinct_pairs(state)
        require_pairs(self.pairs, search_folder)
        contenders = contenders_by_training(state, experiment)
        self.seeds = new_seeds(request.seeds, state.search_seeds)
        self.runs: dict[tuple[str, int], SeedRun] = {}  # by trial and seed
        for trial in {trial.trial: trial for pair in self.pairs for trial in (pair.twin, pair.curriculum)}.values():
            for seed in self.seeds:
                contender = contenders[training_key(trial.params)]
                self.runs[trial.trial, seed] = seed_run(experiment, contender, seed, request.split, search_folder)
        self.draws = any(run.run.draws for run in self.runs.values())
        if not self.draws:
            self.seeds = self.seeds[:1]  # all others give the same trainings

    @property
    def in_order(self) -> list[SeedRun]:
        """Each training once, seed after seed, a pair's trainings one after the other."""
        trials = dict.fromkeys(trial for pair in self.pairs for trial in (pair.curriculum.trial, pair.twin.trial))
        runs = (self.runs[trial, seed] for seed in self.seeds for trial in trials)
        return list({run.trial: run for run in runs}.values())

    def effects(self, failed: Sequence[tuple[SeedRun, str]], clusters: Mapping[str, int] | None) -> Effects:
        """From the values by query. A pair with a training that failed is left out. Raises WorkFailed if fewer than two
        are left."""
        lost = {run.contender.label for run, _ in failed}
        pairs = [pair for pair in self.pairs if not self._labels(pair) & lost]
        if len(pairs) < FEWEST:
            raise WorkFailed(failures_in_words(failed))
        values, queries = self._values(pairs)
        return pair_effects(
            pairs,
            values,
            self.experiment,
            self.state,
            self.request.split,
            len(queries),
            self._notes(len(pairs), failed),
            known=None if self.draws else EXACT,
            clusters=[clusters[query] for query in queries] if clusters else None,
        )

    def _labels(self, pair: Pair) -> set[str]:
        return {self.runs[trial.trial, self.seeds[0]].contender.label for trial in (pair.curriculum, pair.twin)}

    def _values(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, list[str]]:
        """Differences [pairs, seeds, queries] and the queries."""
        by_run: dict[Path, np.ndarray] = {}
        queries: list[str] = []
        for run in self.runs.values():
            if any(run.contender.label in self._labels(pair) for pair in pairs) and run.folder not in by_run:
                values = values_by_query(run.folder, self.request.split, self.state.metric)
                queries = queries or list(values)
                by_run[run.folder] = np.array([values[query] for query in queries])
        cube = [
            [
                by_run[self.runs[pair.curriculum.trial, seed].folder] - by_run[self.runs[pair.twin.trial, seed].folder]
                for seed in self.seeds
            ]
            for pair in pairs
        ]
        return np.array(cube), queries

    def _notes(self, left: int, failed: Sequence[tuple[SeedRun, str]]) -> list[str]:
        notes = [f"left out: {run.name} failed ({why})" for run, why in failed]
        if self.request.split == "dev":
            notes.append("dev chose the checkpoints, of both arms alike")
        if not self.draws:
            notes.append("the seed changes nothing in these trainings: one of each is enough")
        elif len(self.seeds) == 1:
            notes.append("with one seed, how much the pairs differ beyond the noise of seeds stays unknown")
        if left < len(self.pairs):
            notes.append(f"{left} of {len(self.pairs)} pairs are left")
        return notes


def measure_effects(
    search_folder: SearchFolder,
    request: EffectsRequest,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> Effects:
    """Trains every pair with new seeds; returns what curricula change. Trainings that an earlier call or a confirmation
    finished are used again. Raises ConfigError for a search without two pairs, Interrupted on Ctrl-C."""
    command = f"{search_folder.command('effects', address)} --seeds {request.seeds} --split {request.split}"
    call = search_folder.call("effects", seeds=request.seeds, split=request.split, address=address)
    with named_when_stopped(command, call), search_folder.open() as journal, ExitStack() as closing:
        state = replay(journal.events())
        experiment = experiment_of(state, objective=objective)
        pairs = PairTrainings(search_folder, state, experiment, request)
        inputs = read_inputs(experiment, state, request.split, [run.run for run in pairs.in_order], address)
        seeds = counted(len(pairs.seeds), "new seed")
        say(f"{counted(len(pairs.pairs), 'pair')}, {seeds}: {counted(len(pairs.in_order), 'training')} in all")
        writer = MlflowWriter(journal, search_folder.tracking_uri)
        closing.callback(lambda: finish(writer, command))
        trainings = SeedTrainings(search_folder, state, experiment, journal, address, panel, writer.start)
        trainings.train([pairs.in_order], inputs.by_key, f"effects {state.name}")
        effects = pairs.effects(trainings.failed, inputs.clusters(request.split))
        write_text(effects_file(search_folder.folder, request.split), effects.model_dump_json(indent=1))
        write_report(search_folder, journal)
        return effects
