"""`tune-cl effects --seeds N`: every pair of a search trained with new seeds, and what curricula change over all."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from trainables.config.function import Objective
from trainables.core.errors import WorkFailed
from trainables.core.prose import counted, say
from trainables.evaluation.effects import SeedNoise, effects_of
from trainables.training.checkpoint import write_json
from tune_cl.confirmation.readings import reader_of, record_reading
from tune_cl.confirmation.request import EffectsRequest, SeedRun, by_training, new_seeds, seed_run
from tune_cl.confirmation.training import values_by_query
from tune_cl.confirmation.trainings import failures_in_words
from tune_cl.effects.pairs import (
    FEWEST,
    FamilyEffects,
    PairEffect,
    described,
    distinct_pairs,
    effects_file,
    require_pairs,
)
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.search_folder import SearchFolder, stopped, stops
from tune_cl.history.state import Pair, SearchState, experiment_of, over_curricula, replay, training_key
from tune_cl.inputs import Inputs, inputs_of
from tune_cl.report.page import write_report
from tune_cl.run_trainings import SeedTrainings
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.tracking.writer import MlflowWriter, finish

EXACT = SeedNoise(0.0, 1_000_000)  # where the seed changes nothing


class PairTrainings:
    """The trainings of all pairs with new seeds, in folders that `confirm` reuses."""

    def __init__(
        self, search_folder: SearchFolder, state: SearchState, experiment: Experiment, request: EffectsRequest
    ):
        self.state, self.experiment, self.request = state, experiment, request
        self.pairs = distinct_pairs(state)
        require_pairs(self.pairs, search_folder)
        by_key = by_training(state, experiment)
        self.seeds = new_seeds(request.seeds, state.search_seeds)
        self.runs: dict[tuple[str, int], SeedRun] = {}  # by trial and seed
        for trial in {trial.trial: trial for pair in self.pairs for trial in (pair.twin, pair.curriculum)}.values():
            for seed in self.seeds:
                configuration = by_key[training_key(trial.params)]
                self.runs[trial.trial, seed] = seed_run(experiment, configuration, seed, request.split, search_folder)
        self.draws = any(run.run.draws for run in self.runs.values())
        if not self.draws:
            self.seeds = self.seeds[:1]  # all others give the same trainings

    @property
    def in_order(self) -> list[SeedRun]:
        """Each training once, seed after seed, a pair's trainings one after the other."""
        trials = dict.fromkeys(trial for pair in self.pairs for trial in (pair.curriculum.trial, pair.twin.trial))
        runs = (self.runs[trial, seed] for seed in self.seeds for trial in trials)
        return list({run.trial: run for run in runs}.values())

    def effects(self, failed: list[tuple[SeedRun, str]], clusters: dict[str, int] | None) -> FamilyEffects:
        """From the values by query. A pair with a training that failed is left out. Raises WorkFailed if fewer than two
        are left."""
        lost = {run.configuration.label for run, _ in failed}
        pairs = [pair for pair in self.pairs if not any(self._labels(pair) & lost)]
        if len(pairs) < FEWEST:
            raise WorkFailed(failures_in_words(failed))
        values, queries = self._values(pairs)
        numbers = [clusters[query] for query in queries] if clusters else None
        found = effects_of(
            *described(pairs, values, self.experiment), known=None if self.draws else EXACT, clusters=numbers
        )
        rows = tuple(
            PairEffect(pair.curriculum.trial, pair.twin.trial, tuple(row))
            for pair, row in zip(pairs, values.mean(axis=2).tolist(), strict=True)
        )
        return FamilyEffects(
            self.state.name,
            self.state.metric,
            self.request.split,
            tuple(self.seeds),
            len(queries),
            found,
            rows,
            tuple(self._notes(len(pairs), failed)),
            over_curricula(self.state),
        )

    def _labels(self, pair: Pair) -> set[str]:
        return {self.runs[trial.trial, self.seeds[0]].configuration.label for trial in (pair.curriculum, pair.twin)}

    def _values(self, pairs: list[Pair]) -> tuple[np.ndarray, list[str]]:
        """Differences [P, S, Q] and the queries."""
        by_run: dict[Path, np.ndarray] = {}
        queries: list[str] = []
        for pair in pairs:
            for trial in (pair.curriculum, pair.twin):
                for seed in self.seeds:
                    folder = self.runs[trial.trial, seed].folder
                    if folder not in by_run:
                        values = values_by_query(folder, self.request.split, self.state.metric)
                        queries = queries or list(values)
                        by_run[folder] = np.array([values[query] for query in queries])

        def of(trial: str) -> np.ndarray:
            return np.array([by_run[self.runs[trial, seed].folder] for seed in self.seeds])

        return np.array([of(pair.curriculum.trial) - of(pair.twin.trial) for pair in pairs]), queries

    def _notes(self, left: int, failed: list[tuple[SeedRun, str]]) -> list[str]:
        notes = [f"left out: {run.name} failed ({why})" for run, why in failed]
        if self.request.split == "dev":
            notes.append("dev chose the checkpoints, of both arms alike")
        if not self.draws:
            notes.append("the seed changes nothing in these trainings: one of each is enough")
        elif len(self.seeds) == 1:
            what = "curricula" if self.experiment.varies_curricula else "settings"
            notes.append(f"with one seed, how much {what} differ beyond the noise of seeds stays unknown")
        if self.pairs[left:]:
            notes.append(f"{left} of {len(self.pairs)} pairs are left")
        return notes


def measure_effects(
    search_folder: SearchFolder,
    request: EffectsRequest,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> FamilyEffects:
    """Trains every pair with new seeds; returns what curricula change. Trainings that an earlier call or a confirmation
    finished are reused. Raises ConfigError for a search without two pairs, Interrupted on Ctrl-C."""
    cluster = address
    try:
        with search_folder.open() as journal:
            state = replay(journal.events())
            experiment = experiment_of(state, objective=objective)
            pairs = PairTrainings(search_folder, state, experiment, request)
            inputs = _inputs(experiment, state, request, address)
            _record_reading(inputs, search_folder, request)
            tell(pairs)
            writer = MlflowWriter(journal, search_folder.tracking_uri)
            with ExitStack() as closing:
                closing.callback(lambda: finish(writer, request.command(search_folder, cluster)))
                goes_on = request.command(search_folder, address)
                trainings = SeedTrainings(
                    search_folder, state, experiment, journal, address, panel, goes_on, writer.start
                )
                trainings.train([pairs.in_order], inputs.by_key, f"effects {state.name}")
                if not trainings.failed:
                    cluster = None  # only tracking may be left, which needs no cluster
                family = pairs.effects(trainings.failed, inputs.clusters(request.split))
                write_json(effects_file(search_folder.folder, request.split), family.document())
                write_report(search_folder, journal)
                return family
    except BaseException as error:
        if not stops(error):
            raise
        raise stopped(error, request.command(search_folder, cluster), request.call(search_folder, cluster)) from None


def _inputs(experiment: Experiment, state: SearchState, request: EffectsRequest, address: str | None) -> Inputs:
    inputs = inputs_of(experiment, judged_on=request.split)
    inputs.require_unchanged(state.data)
    inputs.require_queries(request.split)
    inputs.complete(address)
    return inputs


def _record_reading(inputs: Inputs, search_folder: SearchFolder, request: EffectsRequest) -> None:
    """Remembers that test is read, before it is, by another reader than the search's confirmations: they list it."""
    if request.split == "test" and (digest := inputs.split_digest("test")):
        reader = f"effects of {reader_of(search_folder)}"
        record_reading(digest, reader, "effects over all pairs", search_folder.storage)


def tell(pairs: PairTrainings) -> None:
    """Tells the user what will be trained."""
    trials, seeds = len(pairs.in_order), counted(len(pairs.seeds), "new seed")
    say(f"{counted(len(pairs.pairs), 'pair')}, {seeds}: {counted(trials, 'training')} of both arms in all")
