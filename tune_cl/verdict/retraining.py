"""A search whose configurations are trained again with new seeds, on Ray: what `confirm` and `effects` share. What is
done already is not done again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from trainables.config.function import Objective
from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.evaluation.metrics import dev_key, in_words
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder, named_when_stopped
from tune_cl.history.state import SearchState, experiment_of, replay
from tune_cl.inputs import Inputs, inputs_of
from tune_cl.ray.concurrency import Concurrency, require_room
from tune_cl.ray.session import ray_session
from tune_cl.ray.tuner import run_trials
from tune_cl.report.page import write_report
from tune_cl.search.progress_panel import PanelKind
from tune_cl.tracking.writer import MlflowWriter, finish
from tune_cl.verdict.contenders import Contender
from tune_cl.verdict.files import SPLITS
from tune_cl.verdict.trainings import SeedRun, Trainings, draws_noise, ended_result, seed_run

MOST_SEEDS = 100  # that anybody would train


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for. Raises ConfigError for values that make no sense.

    seeds   new trainings of each configuration; None: as many as a training's time is worth (`default_seeds`)
    top     candidates of each arm; None: 3, or 2 after fewer than 12 trials
    trials  the curricula to test, in place of the one that dev selects
    """

    seeds: int | None = None
    top: int | None = None
    trials: tuple[str, ...] = ()
    split: str = "test"

    def __post_init__(self) -> None:
        problems = []
        if self.seeds is not None and not 1 <= self.seeds <= MOST_SEEDS:
            problems.append(Problem("--seeds", f"{self.seeds} is not between 1 and {MOST_SEEDS}", "5 for a verdict"))
        if self.split not in SPLITS:
            problems.append(Problem("--split", f"'{self.split}' is not a split for a test", " or ".join(SPLITS)))
        if self.top is not None and self.top < 1:
            problems.append(Problem("--top", f"{self.top} is below 1", "1 or more"))
        if problems:
            raise ConfigError(problems)


@dataclass
class Retraining:
    """command: what a user types to go on after a stop; failed: trainings that failed, and why."""

    search_folder: SearchFolder
    state: SearchState
    experiment: Experiment
    request: Request
    address: str | None
    panel: PanelKind
    journal: Journal
    writer: MlflowWriter
    command: str
    failed: list[tuple[SeedRun, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journalled: dict[tuple[str, int], set[str]] = {}  # names of metrics, by label and seed
        for event in self.state.confirmations:
            self.journalled.setdefault((event["label"], event["seed"]), set()).update(event["metrics"])

    def run(self, contender: Contender, seed: int, split: str | None = None) -> SeedRun:
        return seed_run(self.experiment, contender, seed, split or self.request.split, self.search_folder)

    def inputs(self, runs: Sequence[AnyRun]) -> Inputs:
        """Reads the data, and trains what all trainings share. runs: those whose label noise is drawn anew, if there is
        any. Raises DataError if the data has changed, or the split is too small for a test."""
        inputs = inputs_of(self.experiment, judged_on=self.request.split)
        inputs.require_unchanged(self.state.data)
        inputs.require_queries(self.request.split)
        noisy = draws_noise(self.experiment)
        inputs.complete(self.address, noisy)
        if noisy:
            inputs.draw_noise(runs)
        return inputs

    @property
    def failed_labels(self) -> set[str]:
        """The labels of configurations of which a training failed."""
        return {run.contender.label for run, _ in self.failed}

    def train(
        self,
        rounds: Iterable[Sequence[SeedRun]],
        inputs: Inputs,
        title: str,
        most: int | None = None,
        noun: str = "trainings",
    ) -> None:
        """Trains what has no result yet, in this order, one round after the other; starts Ray only if needed.
        `title`, `most` and `noun`: what the panel calls the work, how many trainings it counts, and what these are."""
        missing = (left for runs in rounds if (left := self._missing(runs)))
        first = next(missing, None)
        if first is None:
            return
        resources = self.experiment.search.resources
        if self.address is None:
            require_room(resources)
        shown = replace(self.state, name=f"{title} {self.state.name}", trials={}, iterations=0)
        iterations = self.experiment.base.run.training.max_iterations
        panel = self.panel(most or len(first), iterations, shown, noun)
        trainings = Trainings(
            chain([first], missing),
            self.journal,
            resources,
            self.state.training_checkpoints,
            self._ended,
            shown,
            panel.update,
        )
        with ray_session(self.address), panel:
            self.writer.start()
            concurrency = Concurrency.of(self.experiment, self.address, say)
            storage, session = self.search_folder.checkpoints, f"trainings-{round(time.time() * 1000)}"
            run_trials(trainings, inputs.by_key, resources, storage, session, concurrency)

    def _missing(self, runs: Sequence[SeedRun]) -> list[SeedRun]:
        """The runs of a round without a result yet, which are numbered as they end."""
        missing = [run for run in runs if not run.is_done]
        for run in runs:
            if run.is_done:
                self._record(run)
        if missing:
            say(f"{len(missing)} of {len(runs)} trainings to do")
        self._numbers = iter(f"{number}/{len(missing)}" for number in range(1, len(missing) + 1))
        return missing

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
        """Adds to the journal what it lacks of an ended training's result; returns the result."""
        result = ended_result(run.folder, run.split)
        metrics = {dev_key(self.state.metric): result["dev"], "seconds": result["seconds"]}
        metrics |= {f"{run.split}_{name}": value for name, value in result["metrics"].items()}
        known = self.journalled.setdefault((run.contender.label, run.seed), set())
        if news := {name: value for name, value in metrics.items() if name not in known}:
            known |= news.keys()
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


@contextmanager
def retraining(
    what: str,
    search_folder: SearchFolder,
    request: Request,
    address: str | None,
    objective: Objective | None,
    panel: PanelKind,
) -> Iterator[Retraining]:
    """Holds a search for the command `what`, and writes its report in the end. Raises Interrupted on Ctrl-C."""
    options = {"seeds": request.seeds, "top": request.top, "trials": request.trials or None, "split": request.split}
    given = {**options, "trials": ",".join(request.trials)}
    flags = [f"--{name} {value}" for name, value in given.items() if value]
    command = " ".join([search_folder.command(what, address), *flags])
    call = search_folder.call(what, **options, address=address)
    with named_when_stopped(command, call), search_folder.open() as journal, ExitStack() as closing:
        state = replay(journal.events())
        writer = MlflowWriter(journal, search_folder.tracking_uri)
        closing.callback(lambda: finish(writer, command))
        experiment = experiment_of(state, objective=objective)
        yield Retraining(search_folder, state, experiment, request, address, panel, journal, writer, command)
        write_report(search_folder, journal)
