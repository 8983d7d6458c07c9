"""`tune-cl effects --seeds N`: every pair of a search trained with new seeds, and what curricula change over all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainables.config.function import Objective
from trainables.core.errors import WorkFailed
from trainables.core.prose import counted, say
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import Pair, TrialState, training_key
from tune_cl.inputs import Inputs
from tune_cl.results import Effects
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.verdict.contenders import contenders_by_training
from tune_cl.verdict.estimates import SeedNoise
from tune_cl.verdict.files import write_effects
from tune_cl.verdict.pairs import FEWEST, distinct_pairs, pair_effects, require_pairs
from tune_cl.verdict.retraining import Request, Retraining, retraining
from tune_cl.verdict.trainings import SeedRun, failures_in_words, new_seeds, values_by_query

EXACT = SeedNoise(0.0, 1_000_000)  # where the seed changes nothing


def measure_effects(
    search_folder: SearchFolder,
    request: Request,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> Effects:
    """Trains every pair with new seeds; returns what curricula change. Trainings that an earlier call or a confirmation
    finished are used again. Raises ConfigError for a search without two pairs, Interrupted on Ctrl-C."""
    with retraining("effects", search_folder, request, address, objective, panel) as work:
        pairs = PairTrainings(work)
        inputs = work.inputs([run.run for run in pairs.runs()])
        seeds = counted(len(pairs.seeds), "new seed")
        say(f"{counted(len(pairs.pairs), 'pair')}, {seeds}: {counted(len(pairs.runs()), 'training')} in all")
        work.train([pairs.runs()], inputs, "effects")
        effects = pairs.effects(inputs)
        write_effects(search_folder.folder, effects)
    return effects


class PairTrainings:
    """The trainings of all pairs with new seeds, in folders that `confirm` reuses."""

    def __init__(self, work: Retraining):
        self.work, self.pairs = work, distinct_pairs(work.state)
        require_pairs(self.pairs, work.search_folder)
        self.contenders = contenders_by_training(work.state, work.experiment)
        self.seeds = new_seeds(work.request.seeds or 1, work.state.search_seeds)
        self.draws = any(run.run.draws for run in self.runs())
        if not self.draws:
            self.seeds = self.seeds[:1]  # all others give the same trainings

    def run(self, trial: TrialState, seed: int) -> SeedRun:
        return self.work.run(self.contenders[training_key(trial.params)], seed)

    def runs(self) -> list[SeedRun]:
        """Each training once, seed after seed, a pair's trainings one after the other."""
        runs = [
            self.run(trial, seed)
            for seed in self.seeds
            for pair in self.pairs
            for trial in (pair.curriculum, pair.twin)
        ]
        return list({run.trial: run for run in runs}.values())

    def effects(self, inputs: Inputs) -> Effects:
        """From the values by query. A pair with a training that failed is left out. Raises WorkFailed if fewer than two
        are left."""
        pairs = [pair for pair in self.pairs if not self._labels(pair) & self.work.failed_labels]
        if len(pairs) < FEWEST:
            raise WorkFailed(failures_in_words(self.work.failed))
        split = self.work.request.split
        queries = list(self._values(pairs[0].twin, self.seeds[0]))
        clusters = inputs.clusters(split)
        return pair_effects(
            pairs,
            np.array([self._differences(pair, queries) for pair in pairs]),
            self.work.experiment,
            self.work.state,
            split,
            len(queries),
            self._notes(),
            known=None if self.draws else EXACT,
            clusters=[clusters[query] for query in queries] if clusters else None,
        )

    def _labels(self, pair: Pair) -> set[str]:
        return {self.run(trial, self.seeds[0]).contender.label for trial in (pair.curriculum, pair.twin)}

    def _differences(self, pair: Pair, queries: Sequence[str]) -> list[list[float]]:
        """Curriculum less twin, [seeds, queries]."""
        rows = []
        for seed in self.seeds:
            own, plain = (self._values(trial, seed) for trial in (pair.curriculum, pair.twin))
            rows.append([own[query] - plain[query] for query in queries])
        return rows

    def _values(self, trial: TrialState, seed: int) -> dict[str, float]:
        run = self.run(trial, seed)
        return values_by_query(run.folder, run.split, self.work.state.metric)

    def _notes(self) -> list[str]:
        notes = [f"left out: {run.name} failed ({why})" for run, why in self.work.failed]
        if self.work.request.split == "dev":
            notes.append("dev chose the checkpoints, of both arms alike")
        if not self.draws:
            notes.append("the seed changes nothing in these trainings: one of each is enough")
        elif len(self.seeds) == 1:
            notes.append("with one seed, how much the pairs differ beyond the noise of seeds stays unknown")
        return notes
