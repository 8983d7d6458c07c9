"""A confirmation from start to end: what is read, the course of its trainings, what is decided; journal, tracking."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from trainables.baselines.label_free import NOTHING
from trainables.config.function import Objective
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.prose import counted, say
from trainables.training.checkpoint import write_json
from tune_cl.confirmation.against import Existing
from tune_cl.confirmation.against import rows_of as rows_of_existing
from tune_cl.confirmation.decisions import untaught_runs
from tune_cl.confirmation.document import Compared, among_each_other, decide, failure, fair_of
from tune_cl.confirmation.earlier import looks_before, readings_before
from tune_cl.confirmation.lineup import Lineup
from tune_cl.confirmation.looks import Look, look_at
from tune_cl.confirmation.readings import Reading, earlier_readings, reader_of, record_reading
from tune_cl.confirmation.request import FIRST_LOOK, Configuration, Request, SeedRun, new_seeds
from tune_cl.confirmation.selection import in_words, rows_of
from tune_cl.confirmation.trainings import failures_in_words
from tune_cl.confirmation.verdict import (
    WITHOUT_CURRICULUM,
    Decision,
    Drawn,
    Dropped,
    ExistingResult,
    Selected,
    VerdictFacts,
    as_json,
    last_verdict,
    verdict_file,
)
from tune_cl.experiment.experiment import ARMS, PLAIN
from tune_cl.history.events import LookEvent
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import TRIALS, SearchFolder, stopped, stops
from tune_cl.history.state import experiment_of, replay
from tune_cl.history.tracking_uri import masked
from tune_cl.inputs import inputs_of
from tune_cl.model_card import write_verdict
from tune_cl.report.page import write_report
from tune_cl.report.story import ON_DEV, notes
from tune_cl.run_trainings import SeedTrainings
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.search.remarks import remarks
from tune_cl.search_result import BEST_RANKER
from tune_cl.space.wording import PLAIN_TRAINING, LabelFree, arm_words, label_free_of
from tune_cl.tracking.writer import MlflowWriter, finish


@dataclass(frozen=True)
class Read:
    """What a confirmation reads before it trains.

    label_free    the first stage and the best ranking without training labels, on the split
    present       existing rankers to compare with
    split_digest  of test, whose readings are remembered; empty for dev
    clusters      the cluster of each query, if near-duplicates count as one
    prepared      what trainings share, by key
    """

    label_free: tuple[LabelFree | None, LabelFree | None]
    present: Mapping[str, Existing]
    split_digest: str
    clusters: Mapping[str, int] | None
    prepared: Mapping[str, Any]


def read_inputs(lineup: Lineup, address: str | None = None) -> Read:
    """Reads the data, and trains what all trainings share. Raises ConfigError for options that the search cannot meet,
    DataError if the data has changed, or the split is too small for a test."""
    request, state, experiment = lineup.request, lineup.state, lineup.experiment
    if lineup.selects and request.seeds < 2 and not request.until_settled:
        right = "2 or more, or --top 1, which selects nothing"
        raise ConfigError(Problem("--seeds", "1 cannot test the champions of a selection", right))
    if request.new_noise and not experiment.value("data.label_noise.share"):
        raise ConfigError(Problem("--new-noise", "the data has no label noise", "left out, or data.label_noise.share"))
    inputs = inputs_of(experiment, judged_on=request.split)
    inputs.require_unchanged(state.data)
    inputs.require_queries(request.split)
    chosen = (state.label_free.get("label_free") or {}).get("label")
    label_free = label_free_of(NOTHING if lineup.pilot else inputs.label_free(request.split, chosen))
    present = inputs.present(request.against, request.split, state.metric)
    digest = inputs.split_digest(request.split) if request.split == "test" else ""
    clusters = inputs.clusters(request.split)
    inputs.complete(address, request.new_noise)
    if request.new_noise:
        inputs.draw_noise([run.run for run in lineup.every_run])
    return Read(label_free, present, digest, clusters, inputs.by_key)


@dataclass
class Confirmation:
    """The course of a confirmation: which trainings come next, and what looks and tests decide.

    failed     trainings that failed, and why
    dropped    how many seeds a configuration had when a look found it hopeless
    seeds      those of the test; fewer once a look has ended it
    last       the verdict of the confirmation before
    """

    lineup: Lineup
    read: Read
    failed: list[tuple[SeedRun, str]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    selection: tuple[Selected, ...] = ()

    def __post_init__(self) -> None:
        self.request, self.state = self.lineup.request, self.lineup.state
        self.seeds = list(self.lineup.seeds)
        self.recorded_looks = {text_of(look) for look in self.state.looks}
        self.last = last_verdict(self.lineup.search_folder.folder, self.request.split)

    def remember(self, verdict: str | None) -> None:
        """Records the reading of test: before any training is applied to it, and again with the verdict."""
        if self.read.split_digest:
            folder = self.lineup.search_folder
            record_reading(self.read.split_digest, reader_of(folder), verdict, folder.storage)

    def train(
        self, journal: Journal, address: str | None, panel: PanelKind, track: Callable[[], None] = lambda: None
    ) -> None:
        """Trains what has not been trained; starts Ray only if needed. `track` starts the thread of tracking."""
        lineup = self.lineup
        command = self.request.command(lineup.search_folder, address)
        trainings = SeedTrainings(
            lineup.search_folder, self.state, lineup.experiment, journal, address, panel, command, track, self.failed
        )
        noun = "trainings at most" if lineup.max_seeds or lineup.selects else "trainings"
        title = f"confirm {self.state.name}"
        trainings.train(self._rounds(journal), self.read.prepared, title, lineup.to_come(), noun)

    def _rounds(self, journal: Journal) -> Iterator[list[SeedRun]]:
        """The trainings to do: those of the selection, then all of the test at once; with looks, seed after seed until
        the verdict is settled."""
        yield from self._selection()
        yield from self._test(journal)

    def _selection(self) -> Iterator[list[SeedRun]]:
        lineup = self.lineup
        if not lineup.selects:
            self.selection = rows_of(lineup.candidates, ())
            return
        yield lineup.of_selection
        self.selection = rows_of(lineup.candidates, self.failed_labels)
        say(in_words(self.selection, self.state.metric, lineup.experiment.varies_curricula))
        lineup.choose(self.selection)

    def _test(self, journal: Journal) -> Iterator[list[SeedRun]]:
        at_a_time, looks = [self.seeds], self.lineup.max_seeds
        if looks:
            at_a_time = [self.seeds[:FIRST_LOOK], *([seed] for seed in self.seeds[FIRST_LOOK:])]
        for seeds in at_a_time:
            every = self.lineup.with_opponents(self.running)
            yield [self.lineup.runs[one.label, seed] for seed in seeds for one in every]
            seen = self.seeds.index(seeds[-1]) + 1
            if looks and self._is_settled(journal, seen):
                self.seeds = self.seeds[:seen]
                return

    def _is_settled(self, journal: Journal, seen: int) -> bool:
        """Looks at the first `seen` seeds; ends what is hopeless. Returns whether no further seed is worth training."""
        if not self.running:
            return True
        compared, best = self.compared(self.seeds[:seen]), self.lineup.best[0].label
        opposed = compared.opposed(self.lineup.roles(self.running), len(self.dropped), over_looks=False)
        queries = next(iter(compared.tested.values())).shape[1]
        look = look_at(opposed, best, queries, seen, self.request.max_seeds, compared.readings)
        self.looks.append(look)
        say(look.in_words())
        result = {"split": self.request.split, "max_seeds": self.request.max_seeds, **as_json(look.result)}
        event = {"event": "look", **result}
        if text_of(event) not in self.recorded_looks:  # by an earlier attempt
            journal.append(cast(LookEvent, event | {"time": time.time()}))
        if look.decision == "continue":
            self.dropped |= dict.fromkeys(sorted(look.hopeless), seen)
        return look.decision != "continue"

    def compared(self, seeds: Sequence[int]) -> Compared:
        """What gets further seeds and its opponents, over these."""
        lineup, running = self.lineup, self.running
        runs = {one.label: [lineup.runs[one.label, seed] for seed in seeds] for one in lineup.with_opponents(running)}
        asked = new_seeds(self.request.most, self.state.search_seeds) if lineup.max_seeds else seeds
        readings = readings_before(self.last, [one.label for one in running], asked, self.request.new_noise)
        options = self.request.split, self.state.metric, self.request.correction, lineup.max_seeds
        return Compared(runs, *options, readings, self.read.clusters, lineup.twins(running))

    @property
    def running(self) -> list[Configuration]:
        """The configurations that get the next seed: not those that failed, or of which an opponent failed."""
        out, opponents = self.dropped.keys() | self.failed_labels, self.lineup.opponents
        return [
            one
            for one in self.lineup.best
            if one.label not in out and not any(each.label in self.failed_labels for each in opponents[one.label])
        ]

    @property
    def failed_labels(self) -> set[str]:
        """The labels of configurations of which a training failed."""
        return {run.configuration.label for run, _ in self.failed}

    def verdict(self) -> VerdictFacts:
        """A configuration that failed under any seed, or got no more seeds, is not tested. Raises WorkFailed if nothing
        is left to compare."""
        running, lineup = self.running, self.lineup
        if not running:
            raise WorkFailed(failures_in_words(self.failed))
        compared, roles = self.compared(self.seeds), lineup.roles(running)
        decision = decide(compared, lineup.champion.label, roles, lineup.best[0].label, list(self.dropped))
        named = self.request.against_trial is not None  # the opponent, which is then of no arm
        first_stage, label_free = self.read.label_free
        teachers, noise = self._drawn()
        found = VerdictFacts(
            **vars(decision),
            search=self.state.name,
            storage=lineup.search_folder.address,
            tracking_uri=masked(lineup.search_folder.tracking_uri),
            metric=self.state.metric,
            split=self.request.split,
            seeds=tuple(self.seeds),
            asked=self.request,
            plain=self._plain_words(),
            fair=fair_of(self.state),
            first_stage=first_stage,
            label_free=label_free,
            against=self._against(compared, decision, running) if self.read.present else None,
            among=among_each_other(compared, list(roles)) if self.request.best_of else None,
            dropped=tuple(Dropped(label, tuple(self.seeds[:seen])) for label, seen in self.dropped.items()),
            looks=tuple(look.result for look in self.looks),
            failed=tuple(failure(run, why) for run, why in self.failed),
            selection=tuple(row for row in self.selection if not named or row.arm != PLAIN),
            teachers=teachers,
            noise=noise,
            readings=tuple(self._readings()),
        )
        best = [at.dev for trial in self.state.trials.values() if (at := trial.best(self.state.metric))]
        found = replace(found, untaught=untaught_runs(found.every_row, best), earlier=looks_before(self.last, found))
        return replace(found, notes=notes(found))

    def _against(
        self, compared: Compared, decision: Decision, running: Sequence[Configuration]
    ) -> tuple[ExistingResult, ...]:
        """Existing rankers beside the best configuration on dev that is tested, and the baseline."""
        best = next((one for one in running if one.label == self.lineup.best[0].label), running[0]).label
        values = compared.values[decision.configurations[0].against], compared.values[best]
        return rows_of_existing(self.read.present, *values, best, self.request.correction)

    def _drawn(self) -> tuple[Drawn | None, Drawn | None]:
        """How teachers and label noise of the trainings were drawn; None if there are none."""
        experiment = self.lineup.experiment
        if experiment.objective is not None:
            return None, None
        by_seed = experiment.teachers and experiment.base_ranker.curriculum.teacher.seed == "training"
        noise = ("anew" if self.request.new_noise else "once") if experiment.value("data.label_noise.share") else None
        return ("anew" if by_seed else "once") if experiment.teachers else None, noise

    def _plain_words(self) -> str:
        """How a twin differs from its configuration, in words."""
        plain = self.lineup.experiment.plain_words
        return WITHOUT_CURRICULUM if plain == PLAIN_TRAINING else f"with {plain}"

    def _readings(self) -> list[Reading]:
        """Those of the split by others."""
        folder, digest = self.lineup.search_folder, self.read.split_digest
        return earlier_readings(digest, reader_of(folder), folder.storage) if digest else []


def text_of(look: Mapping[str, Any]) -> str:
    """What a look says, but for its time, as text: in it NaN equals itself."""
    return json.dumps({key: look[key] for key in look if key != "time"}, sort_keys=True)


def confirm_search(
    search_folder: SearchFolder,
    request: Request,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> VerdictFacts:
    """Trains the best configurations and the baseline with new seeds. `objective`: the function of a search that trains
    by one.

    Trainings that an earlier confirmation finished are reused. Raises Interrupted on Ctrl-C.
    """
    cluster = address
    try:
        with search_folder.open() as journal:
            work = prepare_work(search_folder, journal, request, address, objective)
            work.remember(None)
            tell(work.lineup)
            writer = MlflowWriter(journal, search_folder.tracking_uri)
            with ExitStack() as closing:
                closing.callback(lambda: finish(writer, request.command(search_folder, cluster)))
                work.train(journal, address, panel, writer.start)
                if not work.failed:
                    cluster = None  # only tracking may be left, which needs no cluster
                verdict = work.verdict()
                write_json(verdict_file(search_folder.folder, request.split), verdict.document)
                work.remember(verdict.verdict)
                ranker = search_folder.folder / TRIALS / BEST_RANKER
                write_verdict(ranker, verdict, request.command(search_folder, None))
                write_report(search_folder, journal)
                return verdict
    except BaseException as error:
        if not stops(error):
            raise
        raise stopped(error, request.command(search_folder, cluster), request.call(search_folder, cluster)) from None


def prepare_work(
    search_folder: SearchFolder,
    journal: Journal,
    request: Request,
    address: str | None,
    objective: Objective | None,
    pilot: bool = False,
) -> Confirmation:
    """A confirmation, or a pilot, whose data is read."""
    state = replay(journal.events())
    experiment = experiment_of(state, objective=objective)
    if not (state.end or pilot or request.unfinished):
        wrong = f"search '{state.name}' has not ended"
        right = f"{search_folder.command('resume', address)}, or --unfinished for the best so far"
        raise ConfigError(Problem("NAME", wrong, right))
    lineup = Lineup(search_folder, state, experiment, request, pilot)
    return Confirmation(lineup, read_inputs(lineup, address))


def pilot(
    search_folder: SearchFolder,
    seeds: int,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> tuple[np.ndarray, bool]:
    """Trains the baseline with the first `seeds` seeds of a confirmation; returns its per-query values on dev, [N, Q],
    and whether a test pairs equal seeds.

    A confirmation reuses the trainings. Raises Interrupted on Ctrl-C, WorkFailed if a training fails.
    """
    try:
        with search_folder.open() as journal:
            request = Request(seeds=seeds, split="dev")
            work = prepare_work(search_folder, journal, request, address, objective, pilot=True)
            work.train(journal, address, panel)
            if work.failed:
                raise WorkFailed(failures_in_words(work.failed))
            compared = work.compared(work.seeds)
            return compared.values[work.lineup.default.label], compared.taken.paired
    except BaseException as error:
        if not stops(error):
            raise
        command = f"{search_folder.command('plan', address)} --pilot {seeds}"
        raise stopped(error, command, search_folder.call("plan", pilot=seeds, address=address)) from None


def tell(lineup: Lineup) -> None:
    """Tells the user what to know before the trainings start."""
    state, request, over_curricula = lineup.state, lineup.request, lineup.experiment.varies_curricula
    if not state.end:
        say(f"note: the search has not ended; the best of its {len(state.trials)} trials so far are confirmed")
    if not (request.trials or request.best_of) and request.top is not None and len(lineup.best) < request.top:
        what = "distinct curricula" if over_curricula else "distinct configurations to test"
        say(f"note: the search has {len(lineup.best)} {what}, fewer than --top {request.top}")
    if lineup.selects:
        names = {arm: f"{arm_words(arm, over_curricula)} configuration" for arm in ARMS}
        several = [counted(sum(one.arm == arm for one in lineup.candidates), names[arm]) for arm in ARMS]
        seeds = counted(max(len(one.runs) for one in lineup.candidates), "new seed")
        say(f"selection on dev: {' and '.join(several)}, {seeds} each; test compares the best of each arm")
    if request.split == "dev":
        say(f"note: {ON_DEV}")
    for remark in remarks(state, lineup.experiment):
        say(f"{'warning' if remark.warning else 'note'}: {remark.text}")
    if request.most < 2 and lineup.draws:
        say("note: with one seed, how much the seed matters stays unknown")
    if request.most > 1 and not lineup.draws:
        say("note: the seed changes nothing in these trainings: --seeds 1 is enough")
