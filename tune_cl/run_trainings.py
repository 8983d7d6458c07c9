"""Trains configurations of a search with new seeds, on Ray: what is done already is not done again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from trainables.core.prose import say
from trainables.evaluation.metrics import dev_key, in_words
from trainables.training.factory import AnyPrepared
from trainables.training.saves import DAMAGED
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState
from tune_cl.ray.concurrency import Concurrency, require_room
from tune_cl.ray.session import ray_session
from tune_cl.ray.tuner import run_trials
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.verdict.trainings import (
    SeedRun,
    Trainings,
    ended_result,
    is_trained,
    result_of,
)


@dataclass
class SeedTrainings:
    """`track` starts the thread of tracking once Ray has started;
    `failed`: runs that failed, and why."""

    search_folder: SearchFolder
    state: SearchState
    experiment: Experiment
    journal: Journal
    address: str | None = None
    panel: PanelKind = Panel
    track: Callable[[], None] = lambda: None
    failed: list[tuple[SeedRun, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reported: dict[tuple[str, int], set[str]] = {}
        for event in self.state.confirmations:
            self.reported.setdefault((event["label"], event["seed"]), set()).update(event["metrics"])

    def train(
        self,
        rounds: Iterable[Sequence[SeedRun]],
        prepared: Mapping[str, AnyPrepared],
        title: str,
        to_come: int | None = None,
        noun: str = "trainings",
    ) -> None:
        """Trains those of the runs that have no result, in their order, one round after the other; starts Ray only if
        needed. `title`: what the panel calls it; `to_come`: how many trainings the panel counts; `noun`: what it calls
        them."""
        missing = (left for runs in rounds if (left := self._missing(runs)))
        first = next(missing, None)
        if first is None:
            return
        search = self.experiment.search
        if self.address is None:
            require_room(search.resources)
        base = self.experiment.base.run
        shown = replace(self.state, name=title, trials={}, iterations=0)
        panel = self.panel(to_come or len(first), base.training.max_iterations, shown, noun)
        trainings = Trainings(
            chain([first], missing),
            self.journal,
            search.resources,
            self.state.training_checkpoints,
            self._ended,
            shown,
            panel.update,
        )
        with ray_session(self.address), panel:
            self.track()
            concurrency = Concurrency.of(self.experiment, self.address, say)
            storage, session = self.search_folder.checkpoints, f"trainings-{round(time.time() * 1000)}"
            run_trials(trainings, prepared, search.resources, storage, session, concurrency)

    def _missing(self, runs: Sequence[SeedRun]) -> list[SeedRun]:
        """The runs of a round without a result yet, which are numbered as they end; of the others' results, records
        what the journal lacks."""
        missing = [run for run in runs if not self._has_result(run)]
        for run in runs:
            if run not in missing:
                self._record(run)
        trained = sum(is_trained(run.folder) for run in missing)
        if len(missing) > trained:
            say(f"{len(missing) - trained} of {len(runs)} trainings to do")
        if trained:
            say(f"{trained} of {len(runs)} trained before: their checkpoints are applied to {runs[0].split}")
        self._numbers = iter(f"{number}/{len(missing)}" for number in range(1, len(missing) + 1))
        return missing

    def _has_result(self, run: SeedRun) -> bool:
        """Whether a run has a result; says so if that is damaged: it is made again."""
        try:
            return result_of(run.folder, run.split) is not None
        except DAMAGED as error:
            say(f"note: {run.folder / run.split} is damaged ({error}); {run.name} is judged again")
            return False

    def _ended(self, run: SeedRun, reason: str | None) -> None:
        """Takes in a training that has ended; `reason`: why it failed, if it did."""
        number = next(self._numbers)
        if reason is not None:
            self.failed.append((run, reason))
            say(f"{number} {run.name} failed: {reason}")
            return
        result = self._record(run)
        at = f"at iteration {result['best_iteration']} of {result['iterations']}"
        say(f"{number} {run.name}: dev {in_words(self.state.metric)} {result['dev']:.4f} {at}")

    def _record(self, run: SeedRun) -> dict[str, Any]:
        """Records what the journal does not have yet of an ended training's result; returns the result."""
        result = ended_result(run.folder, run.split)
        metrics = {f"{run.split}_{name}": value for name, value in result["metrics"].items()}
        metrics = {dev_key(self.state.metric): result["dev"], "seconds": result["seconds"], **metrics}
        recorded = self.reported.setdefault((run.contender.label, run.seed), set())
        if news := {name: value for name, value in metrics.items() if name not in recorded}:
            recorded |= news.keys()
            self.journal.append({
                "event": "confirmation",
                "label": run.contender.label,
                "trial": run.contender.trial,
                "params": run.run.in_force(),
                "seed": run.seed,
                "metrics": news,
                "time": time.time(),
                "artifacts": str(run.folder / run.split),
            })  # fmt: skip
        return result
