"""A search whose configurations are trained again with new seeds: what `confirm` and `effects` share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from trainables.config.function import Objective
from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError, Problem
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder, named_when_stopped
from tune_cl.history.state import SearchState, experiment_of, replay
from tune_cl.inputs import Inputs, inputs_of
from tune_cl.report.page import write_report
from tune_cl.run_trainings import SeedTrainings
from tune_cl.search.progress_panel import PanelKind
from tune_cl.tracking.writer import MlflowWriter, finish
from tune_cl.verdict.contenders import Contender
from tune_cl.verdict.files import SPLITS
from tune_cl.verdict.power import MOST_SEEDS
from tune_cl.verdict.trainings import SeedRun, draws_noise, seed_run


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

    def train(
        self,
        rounds: Iterable[Sequence[SeedRun]],
        inputs: Inputs,
        title: str,
        most: int | None = None,
        noun: str = "trainings",
    ) -> None:
        """Trains what is not done yet; most: how many trainings there may be."""
        trainings = SeedTrainings(
            self.search_folder,
            self.state,
            self.experiment,
            self.journal,
            self.address,
            self.panel,
            self.writer.start,
            self.failed,
        )
        trainings.train(rounds, inputs.by_key, f"{title} {self.state.name}", most, noun)

    @property
    def failed_labels(self) -> set[str]:
        """The labels of configurations of which a training failed."""
        return {run.contender.label for run, _ in self.failed}


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
