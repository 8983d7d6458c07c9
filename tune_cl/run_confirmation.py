"""A confirmation from start to end: plan, trainings, journal, tracking, document."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trainables.baselines.label_free import NOTHING
from trainables.config.function import Objective
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.prose import counted, say
from trainables.training.checkpoint import write_json
from tune_cl.confirmation.against import rows_of as rows_of_existing
from tune_cl.confirmation.document import Compared, among_each_other, document_of, failure, fair_of
from tune_cl.confirmation.intersection import Role, twins_of
from tune_cl.confirmation.looks import Look, look_at
from tune_cl.confirmation.opponents import opponents_of
from tune_cl.confirmation.readings import earlier_readings, reader_of, record_reading
from tune_cl.confirmation.request import (
    FIRST_LOOK,
    Configuration,
    Request,
    SeedRun,
    configurations,
    default_configuration,
    last_verdict,
    looks_before,
    new_seeds,
    plain_configurations,
    readings_before,
    seed_run,
    verdict_file,
)
from tune_cl.confirmation.selection import (
    FIRST_SEED,
    SPLIT,
    Candidate,
    candidates_of,
    champion,
    in_words,
    rows_of,
    seeds_of,
)
from tune_cl.confirmation.trainings import failures_in_words
from tune_cl.confirmation.verdict import WITHOUT_CURRICULUM, every_row, notes_of, untaught_runs
from tune_cl.experiment.experiment import ARMS, CURRICULUM, PLAIN, Arm, Experiment
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import TRIALS, SearchFolder, stopped, stops
from tune_cl.history.state import SearchState, experiment_of, replay
from tune_cl.history.tracking_uri import masked
from tune_cl.inputs import inputs_of
from tune_cl.model_card import write_verdict
from tune_cl.report.page import write_report
from tune_cl.run_trainings import SeedTrainings
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.search.remarks import remarks
from tune_cl.search_document import BEST_RANKER
from tune_cl.space.wording import PLAIN_TRAINING, arm_words
from tune_cl.tracking.writer import MlflowWriter, finish


@dataclass
class Confirmation:
    """What the steps of one confirmation share.

    pilot    whether it trains the first trial's configuration alone
    failed   runs that failed, and why
    dropped  how many seeds a configuration had when a look found it hopeless
    """

    search_folder: SearchFolder
    state: SearchState
    experiment: Experiment
    request: Request
    address: str | None = None
    pilot: bool = False
    panel: PanelKind = Panel
    failed: list[tuple[SeedRun, str]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.default = default_configuration(self.state, self.experiment)
        arms: dict[Arm, list[Configuration]] = {PLAIN: [self.default]}
        if not self.pilot:
            arms = candidates_of(self.state, self.default, self.request)
        self.champion, self.best = arms[PLAIN][0], arms.get(CURRICULUM, [])  # until the selection
        every = [one for of_arm in arms.values() for one in of_arm]
        self.draws = any(self._run(one, 1).run.draws for one in every)
        self.candidates = self._candidates(arms)
        self.seeds = new_seeds(self.request.most, self.state.search_seeds)
        if not (self.draws or self.pilot):
            self.seeds = self.seeds[:1]  # all others give the same trainings
        self.looks: list[Look] = []
        self.selection: list[dict[str, Any]] = []
        self._set_out()
        self.recorded_looks = {text_of(look) for look in self.state.looks}
        self.last = last_verdict(self.search_folder.folder, self.request.split)

    def _candidates(self, arms: Mapping[Arm, Sequence[Configuration]]) -> list[Candidate]:
        """What may be a champion, with the trainings by which each arm chooses its own; none where there is no
        choice."""
        chooses = {
            arm: self.draws and len(arms[arm]) > 1 and not (self.request.tests_all and arm == CURRICULUM)
            for arm in arms
        }
        compared = sum(len(arms[arm]) for arm in arms if chooses[arm])
        number = seeds_of(self.request, compared, len(self.state.trials))
        seeds = new_seeds(number, self.state.search_seeds, FIRST_SEED)
        return [
            Candidate(arm, one, [self._run(one, seed, SPLIT) for seed in seeds] if chooses[arm] else [])
            for arm in arms
            for one in arms[arm]
        ]

    def _set_out(self) -> None:
        """The trainings of the test: those of what is tested, and of all opponents."""
        known = [
            *configurations(self.state, self.default).values(),
            *plain_configurations(self.state, self.default),
        ]
        self.opponents = {
            one.label: opponents_of(one, self.champion, self.default, known, self.experiment, self.request)
            for one in self.best
        }
        every = [self.champion, *self.best, *(each.configuration for of in self.opponents.values() for each in of)]
        self.runs = {(one.label, seed): self._run(one, seed) for one in every for seed in self.seeds}

    @property
    def selects(self) -> bool:
        return any(one.runs for one in self.candidates)

    def prepare(self) -> None:
        """Reads the data, and trains what all trainings share. Raises DataError if the data has changed, or the split
        is too small for a test."""
        if self.selects and self.request.seeds < 2 and not self.request.until_settled:
            right = "2 or more, or --top 1, which selects nothing"
            raise ConfigError(Problem("--seeds", "1 cannot test the champions of a selection", right))
        if self.request.new_noise and not self.experiment.value("data.label_noise.share"):
            raise ConfigError(
                Problem("--new-noise", "the data has no label noise", "left out, or data.label_noise.share")
            )
        inputs = inputs_of(self.experiment, confirms=True)
        inputs.require_unchanged(self.state.data)
        inputs.require_queries(self.request.split)
        chosen = (self.state.label_free.get("label_free") or {}).get("label")
        self.label_free = NOTHING if self.pilot else inputs.label_free(self.request.split, chosen)
        self.present = inputs.present(self.request.against, self.request.split, self.state.metric)
        self.split_digest = inputs.split_digest(self.request.split) if self.request.split == "test" else ""
        self.clusters = inputs.clusters(self.request.split)
        inputs.complete(self.address, self.request.new_noise)
        if self.request.new_noise:
            inputs.draw_noise([run.run for run in self._every_run()])
        self.prepared = inputs.by_key

    def remember(self, verdict: str | None) -> None:
        """Records the reading of test: before any training is applied to it, and again with the verdict."""
        if self.split_digest:
            record_reading(self.split_digest, reader_of(self.search_folder), verdict, self.search_folder.storage)

    def _run(self, configuration: Configuration, seed: int, split: str | None = None) -> SeedRun:
        on = split or self.request.split
        return seed_run(self.experiment, configuration, seed, on, self.search_folder, self.request.new_noise)

    def _every_run(self) -> list[SeedRun]:
        """All trainings that there may be."""
        configurations = [one.configuration for one in self.candidates]
        tested = [self._run(one, seed) for one in configurations for seed in self.seeds]
        of_selection = [run for one in self.candidates for run in one.runs]
        return list({run.trial: run for run in (*of_selection, *tested, *self.runs.values())}.values())

    def train(self, journal: Journal) -> None:
        """Trains what has not been trained; starts Ray only if needed."""
        trainings = SeedTrainings(
            self.search_folder,
            self.state,
            self.experiment,
            journal,
            self.address,
            self.panel,
            self.request.command(self.search_folder, self.address),
            self.failed,
        )
        noun = "trainings at most" if self.max_seeds or self.selects else "trainings"
        title = f"confirm {self.state.name}"
        trainings.train(self._rounds(journal), self.prepared, title, len(self._every_run()), self._to_come(), noun)

    def _to_come(self) -> int:
        """How many trainings have no result yet; before a selection, the most that there may be: dev has yet to choose
        the champions, and with them their opponents."""
        tests = [] if self.selects else self.runs.values()
        every = [*(run for one in self.candidates for run in one.runs), *tests]
        left = sum(not (run.folder / run.split).exists() for run in every)
        return left + self._most_configurations() * len(self.seeds) if self.selects else left

    def _most_configurations(self) -> int:
        """How many configurations a test may compare whose champions dev has yet to choose."""
        curricula = [one.configuration for one in self.candidates if one.arm == CURRICULUM]
        tested = len(curricula) if self.request.tests_all else 1
        if self.request.trials or self.request.best_of or self.request.against_trial:
            return tested + len(("champion",))
        filters = sum(self.experiment.filter_values(one.point) is not None for one in curricula)
        return tested + len(("champion", "default")) + tested + min(filters, tested)

    def _rounds(self, journal: Journal) -> Iterator[list[SeedRun]]:
        """The trainings to do: those of the selection, then all of the test at once; with looks, seed after seed until
        the verdict is settled."""
        yield from self._selection()
        yield from self._test(journal)

    def _selection(self) -> Iterator[list[SeedRun]]:
        if not self.selects:
            self.selection = rows_of(self.candidates, ())
            return
        yield [run for one in self.candidates for run in one.runs]
        self.selection = rows_of(self.candidates, self.failed_labels)
        by_label = {(one.arm, one.configuration.label): one.configuration for one in self.candidates}
        self.champion = by_label[PLAIN, champion(self.selection, PLAIN)]
        if not self.request.tests_all:
            self.best = [by_label[CURRICULUM, champion(self.selection, CURRICULUM)]]
        say(in_words(self.selection, self.state.metric, self.experiment.over_curricula))
        self._set_out()

    def _test(self, journal: Journal) -> Iterator[list[SeedRun]]:
        at_a_time = [self.seeds]
        if self.max_seeds:
            at_a_time = [self.seeds[:FIRST_LOOK], *([seed] for seed in self.seeds[FIRST_LOOK:])]
        for seeds in at_a_time:
            yield [self.runs[one.label, seed] for seed in seeds for one in self.with_opponents]
            seen = self.seeds.index(seeds[-1]) + 1
            if self.max_seeds and self._is_settled(journal, seen):
                self.seeds = self.seeds[:seen]
                return

    @property
    def max_seeds(self) -> int | None:
        """The most seeds that there might be with looks; None without looks."""
        return self.request.max_seeds if self.request.until_settled and self.draws else None

    def _is_settled(self, journal: Journal, seen: int) -> bool:
        """Looks at the first `seen` seeds; ends what is hopeless. Returns whether no further seed is worth training."""
        if not self.running:
            return True
        compared = self.compared(self.seeds[:seen])
        opposed = compared.opposed(self.roles, len(self.dropped), over_looks=False)
        queries = next(iter(compared.tested.values())).shape[1]
        look = look_at(opposed, self.best[0].label, queries, seen, self.request.max_seeds, compared.readings)
        self.looks.append(look)
        say(look.in_words())
        event = {"event": "look", "split": self.request.split, "max_seeds": self.request.max_seeds, **look.row}
        if text_of(event) not in self.recorded_looks:  # by an earlier attempt
            journal.append(event | {"time": time.time()})
        if look.decision == "continue":
            self.dropped |= dict.fromkeys(sorted(look.hopeless), seen)
        return look.decision != "continue"

    def compared(self, seeds: Sequence[int]) -> Compared:
        """What gets further seeds and its opponents, over these."""
        runs = {one.label: [self.runs[one.label, seed] for seed in seeds] for one in self.with_opponents}
        asked = new_seeds(self.request.most, self.state.search_seeds) if self.max_seeds else seeds
        running = [one.label for one in self.running]
        readings = readings_before(self.last, running, asked, self.request.new_noise)
        options = self.request.split, self.state.metric, self.request.correction, self.max_seeds
        return Compared(runs, *options, readings, self.clusters, twins_of(self.roles))

    @property
    def running(self) -> list[Configuration]:
        """The configurations that get the next seed: not those that failed, or of which an opponent failed."""
        out = self.dropped.keys() | self.failed_labels
        return [
            one
            for one in self.best
            if one.label not in out and not any(each.label in self.failed_labels for each in self.opponents[one.label])
        ]

    @property
    def with_opponents(self) -> list[Configuration]:
        """The plain champion, those in `running`, then their opponents."""
        running = self.running
        opponents = [each.configuration for one in running for each in self.opponents[one.label]]
        return list({one.label: one for one in (self.champion, *running, *opponents)}.values())

    @property
    def roles(self) -> dict[str, dict[str, tuple[Role, ...]]]:
        """By label of a configuration in `running`: its opponents and their roles."""
        return {one.label: {each.label: each.roles for each in self.opponents[one.label]} for one in self.running}

    @property
    def failed_labels(self) -> set[str]:
        """The labels of configurations of which a training failed."""
        return {run.configuration.label for run, _ in self.failed}

    def _drawn(self) -> dict[str, str | None]:
        """What of the trainings was drawn anew for each seed: `anew`, `once`, or None if there is none of it."""
        teacher = None
        if self.experiment.objective is None and self.experiment.teachers:
            teacher = "anew" if self.experiment.base_ranker().curriculum.teacher.seed == "training" else "once"
        noisy = self.experiment.objective is None and self.experiment.value("data.label_noise.share")
        return {"teachers": teacher, "noise": ("anew" if self.request.new_noise else "once") if noisy else None}

    def _plain_words(self) -> str:
        """How a twin differs from its configuration, in words."""
        plain = self.experiment.plain_words
        return WITHOUT_CURRICULUM if plain == PLAIN_TRAINING else f"with {plain}"

    def document(self) -> dict[str, Any]:
        """The document of `tune-cl confirm`. A configuration that failed under any seed, or got no more seeds, is
        not tested.

        Raises WorkFailed if nothing is left to compare.
        """
        roles = self.roles
        if not roles:
            raise WorkFailed(failures_in_words(self.failed))
        head = {"search": self.state.name, "storage": self.search_folder.address}
        head |= {"tracking_uri": masked(self.search_folder.tracking_uri)}
        head |= {"metric": self.state.metric, "split": self.request.split, "seeds": self.seeds}
        compared = self.compared(self.seeds)
        verdict = document_of(compared, self.champion.label, roles, self.best[0].label, list(self.dropped))
        document = {**head, **verdict, **self.label_free, "asked": asdict(self.request), "plain": self._plain_words()}
        if self.present:
            best = self.best[0].label if self.best[0].label in roles else next(iter(roles))
            values = compared.values[document["baseline"]["label"]], compared.values[best]
            document["against"] = rows_of_existing(self.present, *values, best, self.request.correction)
        if self.request.best_of:
            document["among"] = among_each_other(compared, list(roles))
        document["dropped"] = [{"label": label, "seeds": self.seeds[:seen]} for label, seen in self.dropped.items()]
        document["looks"] = [look.row for look in self.looks]
        document["failed"] = [failure(run, why) for run, why in self.failed]
        named = self.request.against_trial is not None  # the opponent, which is then of no arm
        selection = [row for row in self.selection if not named or row["arm"] != PLAIN]
        document |= {"selection": selection, "fair": fair_of(self.state)}
        best = [at.dev for trial in self.state.trials.values() if (at := trial.best(self.state.metric))]
        document["untaught"] = untaught_runs(every_row(document), best)
        document |= self._drawn()
        document["earlier"] = looks_before(self.last, document)
        reader, storage = reader_of(self.search_folder), self.search_folder.storage
        document["readings"] = earlier_readings(self.split_digest, reader, storage) if self.split_digest else []
        return document | {"notes": notes_of(document)}


def text_of(look: Mapping[str, Any]) -> str:
    """What a look says, but for its time, as text: in it NaN equals itself."""
    return json.dumps({key: look[key] for key in look if key != "time"}, sort_keys=True)


def confirm_search(
    search_folder: SearchFolder,
    request: Request,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> dict[str, Any]:
    """Trains the best configurations and the baseline with new seeds; returns the document of `tune-cl confirm`.
    `objective`: the function of a search that trains by one.

    Trainings that an earlier confirmation finished are reused. Raises Interrupted on Ctrl-C.
    """
    cluster = address
    try:
        with search_folder.open() as journal:
            work = prepare_work(search_folder, journal, request, address, objective, panel)
            work.remember(None)
            tell(work.state, work)
            writer = MlflowWriter(journal, search_folder.tracking_uri)
            with ExitStack() as closing:
                closing.callback(lambda: finish(writer, request.command(search_folder, cluster)))
                writer.start()
                work.train(journal)
                if not work.failed:
                    cluster = None  # only tracking may be left, which needs no cluster
                document = work.document()
                write_json(verdict_file(search_folder.folder, request.split), document)
                work.remember(document["verdict"])
                write_verdict(
                    search_folder.folder / TRIALS / BEST_RANKER, document, request.command(search_folder, None)
                )
                write_report(search_folder, journal)
                return document
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
    panel: PanelKind,
    pilot: bool = False,
) -> Confirmation:
    """A confirmation, or a pilot, whose data is read."""
    state = replay(journal.events())
    experiment = experiment_of(state, same=True, objective=objective)
    if not (state.end or pilot or request.unfinished):
        wrong = f"search '{state.name}' has not ended"
        right = f"{search_folder.command('resume', address)}, or --unfinished for the best so far"
        raise ConfigError(Problem("NAME", wrong, right))
    work = Confirmation(search_folder, state, experiment, request, address, pilot, panel)
    work.prepare()
    return work


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
            work = prepare_work(search_folder, journal, request, address, objective, panel, pilot=True)
            work.train(journal)
            if work.failed:
                raise WorkFailed(failures_in_words(work.failed))
            compared = work.compared(work.seeds)
            return compared.values[work.default.label], compared.taken.paired
    except BaseException as error:
        if not stops(error):
            raise
        command = f"{search_folder.command('plan', address)} --pilot {seeds}"
        raise stopped(error, command, search_folder.call("plan", pilot=seeds, address=address)) from None


def tell(state: SearchState, work: Confirmation) -> None:
    """Tells the user what to know before the trainings start."""
    if not state.end:
        say(f"note: the search has not ended; the best of its {len(state.trials)} trials so far are confirmed")
    named = work.request.trials or work.request.best_of
    asked = work.request.top
    if not named and asked is not None and len(work.best) < asked:
        what = "distinct curricula" if work.experiment.over_curricula else "distinct configurations to test"
        say(f"note: the search has {len(work.best)} {what}, fewer than --top {asked}")
    if work.selects:
        names = {arm: f"{arm_words(arm, work.experiment.over_curricula)} configuration" for arm in ARMS}
        several = [counted(sum(one.arm == arm for one in work.candidates), names[arm]) for arm in ARMS]
        seeds = counted(max(len(one.runs) for one in work.candidates), "new seed")
        say(f"selection on dev: {' and '.join(several)}, {seeds} each; test compares the best of each arm")
    for note in notes_of({"split": work.request.split}):
        say(f"note: {note}")
    for remark in remarks(state, work.experiment):
        say(f"{'warning' if remark.warning else 'note'}: {remark.text}")
    if work.request.most < 2 and work.draws:
        say("note: with one seed, how much the seed matters stays unknown")
    if work.request.most > 1 and not work.draws:
        say("note: the seed changes nothing in these trainings: --seeds 1 is enough")
