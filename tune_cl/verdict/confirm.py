"""`tune-cl confirm`: new trainings of the best curriculum and its opponents, and the verdict that they give."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from trainables.config.function import Objective
from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.prose import counted, say
from trainables.evaluation.collapses import collapsed, two_groups, untaught
from tune_cl.experiment.arms import ARMS, CURRICULUM, PLAIN
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.events import VerdictEvent
from tune_cl.history.search_folder import TRIALS, SearchFolder, named_when_stopped
from tune_cl.history.state import SearchState, experiment_of, replay
from tune_cl.history.tracking_uri import masked
from tune_cl.inputs import Inputs, inputs_of
from tune_cl.model_card import write_verdict
from tune_cl.report.page import write_report
from tune_cl.results import Candidate, Collapse, Comparison, Failure, Look, Verdict
from tune_cl.run_trainings import SeedTrainings
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.search.remarks import remarks
from tune_cl.search_result import BEST_RANKER
from tune_cl.space.wording import arm_words, label_free_of
from tune_cl.tracking.writer import MlflowWriter, finish
from tune_cl.verdict import sentences
from tune_cl.verdict.contenders import Contender, default_contender
from tune_cl.verdict.files import write_files
from tune_cl.verdict.opponents import Plain, duel_of, opponents_of, share_seen
from tune_cl.verdict.power import Design, design_of
from tune_cl.verdict.selection import (
    FIRST_SEED,
    SPLIT,
    Choice,
    champion,
    choices,
    is_clearly_below,
    seeds_of_selection,
    selected,
)
from tune_cl.verdict.test import (
    Duel,
    Outcome,
    compared,
    configuration,
    leader,
    level_of,
    outcomes,
    tested,
    values_by_cluster,
    values_by_label,
)
from tune_cl.verdict.trainings import (
    SeedRun,
    draws_noise,
    ended_result,
    failures_in_words,
    new_seeds,
    request_problems,
    seed_run,
    values_frame,
)

if TYPE_CHECKING:
    import pandas as pd

SECONDS = ((60, 20), (1200, 10))  # of a training: the seeds that up to so many of them are worth
FEWEST = 5  # seeds


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `tune-cl confirm` is asked for.

    seeds   new trainings of each configuration; None: as many as a training's time is worth (`default_seeds`)
    top     candidates of each arm; None: 3, or 2 after fewer than 12 trials
    trials  the curricula to test, in place of the one that dev selects
    """

    seeds: int | None = None
    top: int | None = None
    trials: tuple[str, ...] = ()
    split: str = "test"

    def __post_init__(self) -> None:
        """Raises ConfigError for values that make no sense."""
        problems = request_problems(self.seeds, self.split, "5 or more")
        if self.top is not None and self.top < 1:
            problems.append(Problem("--top", f"{self.top} is below 1", "1 or more"))
        if problems:
            raise ConfigError(problems)

    def command(self, search_folder: SearchFolder, address: str | None) -> str:
        """What a user types to ask for it."""
        given = {"--seeds": self.seeds, "--top": self.top, "--trials": ",".join(self.trials), "--split": self.split}
        options = [f"{flag} {value}" for flag, value in given.items() if value]
        return " ".join([search_folder.command("confirm", address), *options])

    def call(self, search_folder: SearchFolder, address: str | None) -> str:
        """The same in Python."""
        trials = self.trials or None
        return search_folder.call(
            "confirm", seeds=self.seeds, top=self.top, trials=trials, split=self.split, address=address
        )


def default_seeds(state: SearchState) -> int:
    """Seeds of each configuration: more where a training takes seconds, because 5 find a gain of .02 in a third of
    cases (docs/explanation/verdict.md)."""
    seconds = mean_seconds(state)
    return next((seeds for most, seeds in SECONDS if seconds is not None and seconds <= most), FEWEST)


def mean_seconds(state: SearchState) -> float | None:
    """Of a training: of those with new seeds, else of the trials that ran to the end; None if there is none."""
    confirmed = [event["metrics"]["seconds"] for event in state.confirmations if "seconds" in event["metrics"]]
    ended = [sum(row["seconds"] for row in trial.results.values()) for trial, _ in state.finished()]
    trained = confirmed or ended
    return float(np.mean(trained)) if trained else None


def confirm_search(
    search_folder: SearchFolder,
    request: Request,
    address: str | None,
    objective: Objective | None = None,
    panel: PanelKind = Panel,
) -> Verdict:
    """Selects the champions, trains the test, and decides. Trainings that an earlier call finished are used again.
    `objective`: the function of a search that trains by one. Raises Interrupted on Ctrl-C."""
    command, call = request.command(search_folder, address), request.call(search_folder, address)
    with named_when_stopped(command, call), search_folder.open() as journal, ExitStack() as closing:
        state = replay(journal.events())
        experiment = experiment_of(state, objective=objective)
        course = Confirmation(search_folder, state, experiment, request)
        inputs = read_inputs(experiment, state, request.split, course.every_run(), address)
        tell(course)
        writer = MlflowWriter(journal, search_folder.tracking_uri)
        closing.callback(lambda: finish(writer, command))
        failed: list[tuple[SeedRun, str]] = course.failed
        trainings = SeedTrainings(search_folder, state, experiment, journal, address, panel, writer.start, failed)
        title = f"confirm {state.name}"
        trainings.train(course.rounds(), inputs.by_key, title, course.most_trainings(), "trainings at most")
        verdict, frame = decide(course, inputs)
        write_files(search_folder.folder, verdict, frame)
        event = event_of(verdict)
        if not any({**event, "time": 0.0} == {**one, "time": 0.0} for one in state.verdicts):
            journal.append(event)
        write_verdict(search_folder.folder / TRIALS / BEST_RANKER, verdict, command)
        write_report(search_folder, journal)
        return verdict


# -- what is trained -----------------------------------------------------------------------------------------------


class Confirmation:
    """What a confirmation trains: the candidates of a selection, then the curricula that are tested and their
    opponents.

    candidates  of the selection
    seeds       of the test
    selection   once it is over, what it chose
    curricula   that are tested, best on dev first
    opponents   of each curriculum, by label
    failed      trainings that failed, and why
    """

    def __init__(self, search_folder: SearchFolder, state: SearchState, experiment: Experiment, request: Request):
        if not state.end:
            right = f"{search_folder.command('resume')}, which ends it"
            raise ConfigError(Problem("NAME", f"search '{state.name}' has not ended", right))
        self.search_folder, self.state, self.experiment, self.request = search_folder, state, experiment, request
        self.default = default_contender(state, experiment)
        arms = choices(state, self.default, request.top, request.trials)
        self.draws = any(self.run(one, 1).run.draws for of_arm in arms.values() for one in of_arm)
        self.seeds = new_seeds(request.seeds or default_seeds(state), state.search_seeds)
        if not self.draws:
            self.seeds = self.seeds[:1]  # all others give the same trainings
        chosen_by_dev = {PLAIN: len(arms[PLAIN]) > 1, CURRICULUM: len(arms[CURRICULUM]) > 1 and not request.trials}
        compares = {arm: chosen_by_dev[arm] and self.draws for arm in ARMS}
        number = seeds_of_selection(sum(len(arms[arm]) for arm in ARMS if compares[arm]), len(state.trials))
        self.selection_seeds = new_seeds(number, state.search_seeds, FIRST_SEED)
        self.candidates = [
            Choice(arm, one, [self.run(one, seed, SPLIT) for seed in self.selection_seeds] if compares[arm] else ())
            for arm in ARMS
            for one in arms[arm]
        ]
        self.curricula = arms[CURRICULUM]
        self.opponents: dict[str, list[Plain]] = {}
        self.selection: tuple[Candidate, ...] = ()
        self.failed: list[tuple[SeedRun, str]] = []
        if self.selects and len(self.seeds) < 2:
            right = "2 or more, or --top 1, which selects nothing"
            raise ConfigError(Problem("--seeds", "1 cannot test the champions of a selection", right))

    @property
    def selects(self) -> bool:
        return any(one.runs for one in self.candidates)

    def run(self, contender: Contender, seed: int, split: str | None = None) -> SeedRun:
        return seed_run(self.experiment, contender, seed, split or self.request.split, self.search_folder)

    def rounds(self) -> Iterator[list[SeedRun]]:
        """The trainings of the selection, then those of the test."""
        yield [run for one in self.candidates for run in one.runs]
        self.selection = selected(self.candidates, self.failed_labels)
        if self.selects:
            say(self._selected_words())
        self.choose()
        yield [self.run(one, seed) for seed in self.seeds for one in self.contenders()]

    def choose(self) -> None:
        """Takes the champions of the selection, and finds their opponents."""
        plain = champion(self.candidates, self.selection, PLAIN)
        if not self.request.trials:
            self.curricula = [champion(self.candidates, self.selection, CURRICULUM)]
        of_contender = {one.contender.label: one for one in self.candidates}
        meets_default = True
        if self.default.label in of_contender and not {self.default.label, plain.label} & self.failed_labels:
            default, best = of_contender[self.default.label], of_contender[plain.label]
            meets_default = not is_clearly_below(default, best, self.state.metric)
        for one in self.curricula:
            runs = [] if one.label in self.failed_labels else of_contender[one.label].runs
            share = share_seen(one, runs, self.state, self.experiment)
            self.opponents[one.label] = opponents_of(
                one, plain, self.default, share, self.state, self.experiment, meets_default
            )

    def contenders(self) -> list[Contender]:
        """The plain champion, the curricula, then their other opponents, each once."""
        opponents = [each.contender for one in self.curricula for each in self.opponents[one.label]]
        every = [*opponents[:1], *self.curricula, *opponents]
        return list({one.label: one for one in every}.values())

    def most_trainings(self) -> int:
        """How many trainings there may be that are not done yet: a curriculum has four opponents at most."""
        selection = sum(not run.is_done for one in self.candidates for run in one.runs)
        tested = len(self.curricula) if self.request.trials else 1
        return selection + (2 + 3 * tested) * len(self.seeds)

    def every_run(self) -> list[AnyRun]:
        """Trainings of each candidate and the default, which read all data that the test may."""
        contenders = [self.default, *(one.contender for one in self.candidates)]
        seeds = [*self.selection_seeds, *self.seeds]
        return [self.run(one, seed).run for one in contenders for seed in seeds]

    @property
    def failed_labels(self) -> set[str]:
        """The labels of configurations of which a training failed."""
        return {run.contender.label for run, _ in self.failed}

    def complete(self) -> list[Contender]:
        """The curricula that can be tested: no training of theirs or of an opponent failed."""
        failed = self.failed_labels
        return [
            one
            for one in self.curricula
            if one.label not in failed and not {each.contender.label for each in self.opponents[one.label]} & failed
        ]

    def _selected_words(self) -> str:
        chosen = [row for row in self.selection if row.chosen]
        names = {arm: arm_words(arm, self.experiment.arms.varies_curricula) for arm in ARMS}
        figures = [f"{names[row.arm]} '{row.label}'" + (f" (dev {row.mean:.4f})" if row.mean else "") for row in chosen]
        return f"selected: {', '.join(figures)}"


def read_inputs(
    experiment: Experiment, state: SearchState, split: str, runs: Sequence[AnyRun], address: str | None
) -> Inputs:
    """Reads the data, and trains what all trainings share. runs: those whose label noise is drawn anew, if there is
    any. Raises DataError if the data has changed, or the split is too small for a test."""
    inputs = inputs_of(experiment, judged_on=split)
    inputs.require_unchanged(state.data)
    inputs.require_queries(split)
    noisy = draws_noise(experiment)
    inputs.complete(address, noisy)
    if noisy:
        inputs.draw_noise(runs)
    return inputs


def tell(course: Confirmation) -> None:
    """Tells the user what to know before the trainings start."""
    state, over_curricula = course.state, course.experiment.arms.varies_curricula
    if course.selects:
        names = {arm: f"{arm_words(arm, over_curricula)} configuration" for arm in ARMS}
        several = [counted(sum(one.arm == arm for one in course.candidates), names[arm]) for arm in ARMS]
        seeds = counted(len(course.selection_seeds), "new seed")
        say(f"selection on dev: {' and '.join(several)}, {seeds} each; {course.request.split} compares the best ones")
    if course.request.split == "dev":
        say(f"note: {sentences.ON_DEV}")
    for remark in remarks(state, course.experiment):
        say(f"{'warning' if remark.warning else 'note'}: {remark.text}")
    if len(course.seeds) < 2 and course.draws:
        say("note: with one seed, how much the seed matters stays unknown")
    if (course.request.seeds or 1) > 1 and not course.draws:
        say("note: the seed changes nothing in these trainings: one of each is enough")


# -- what is decided -----------------------------------------------------------------------------------------------


def decide(course: Confirmation, inputs: Inputs) -> tuple[Verdict, pd.DataFrame]:
    """The verdict, and the values that it is from. Raises WorkFailed if too many trainings failed."""
    state, request = course.state, course.request
    complete = course.complete()
    if not complete:
        raise WorkFailed(failures_in_words(course.failed))
    contenders = {one.label: one for one in course.contenders() if one.label not in course.failed_labels}
    runs = [course.run(one, seed) for one in contenders.values() for seed in course.seeds]
    frame = values_frame(runs, roles_in_words(course), state.metric)
    clusters = inputs.clusters(request.split)
    frame["cluster"] = frame["query"].map(clusters) if clusters else frame["query"].factorize()[0]
    of_queries, values = values_by_label(frame), values_by_cluster(frame)

    look = look_of(state, request.split, [one.label for one in complete], len(course.seeds))
    duels = [duel for one in complete for duel in duels_of(course, one)]
    tests = outcomes(values, duels, look.level)
    configurations = {
        label: configuration(label, one, contenders[label].trial_id, contenders[label].params)
        for label, one in of_queries.items()
    }
    results = {label: tested(of_label, values, configurations) for label, of_label in tests.items()}
    first = leader(tests)
    top = results[first]
    sample = next(iter(values.values())).shape
    design = design_of([one.test.new for one in tests[first]], sample[1], look.level / len(tests))
    verdict = Verdict(
        search=state.name,
        metric=state.metric,
        split=request.split,
        seeds=tuple(course.seeds),
        queries=frame["query"].nunique(),
        clusters=sample[1],
        **dict(top),
        selection=course.selection,
        filter_against_plain=filter_against_plain(course, first, values),
        **power_of(design, tests[first], len(course.seeds)),
        look=look,
        others=tuple(result for label, result in results.items() if label != first),
        failures=tuple(Failure(label=run.contender.label, seed=run.seed, reason=why) for run, why in course.failed),
        collapses=collapses({label: one.mean(axis=1) for label, one in of_queries.items()}, course.seeds),
        **dict(zip(("first_stage", "label_free"), rankings_without_labels(course, inputs), strict=True)),
        data=state.data["name"],
        ranker=state.ranker,
        storage=str(course.search_folder.storage),
        tracking_uri=masked(course.search_folder.tracking_uri),
        plain=course.experiment.arms.plain_words,
        plain_trials=len(state.trials_of(PLAIN)),
        plain_keys=tuple(state.opened_in(PLAIN)),
    )
    in_groups = [label for label, one in of_queries.items() if two_groups(one.mean(axis=1))]
    notes = sentences.notes(verdict, low_trainings(runs, state), in_groups)
    noted = verdict.model_copy(update={"notes": notes})
    return noted.model_copy(update={"sentences": tuple(sentences.sentences(noted))}), frame


def roles_in_words(course: Confirmation) -> dict[str, str]:
    """The roles of each configuration, by label."""
    roles = {one.label: ["curriculum"] for one in course.curricula}
    for opponents in course.opponents.values():
        for one in opponents:
            of_label = roles.setdefault(one.contender.label, [])
            of_label += [role for role in one.roles if role not in of_label]
    return {label: ", ".join(names) for label, names in roles.items()}


def duels_of(course: Confirmation, one: Contender) -> list[Duel]:
    opponents = course.opponents[one.label]
    runs = {each.label: course.run(each, course.seeds[0]).run for each in course.contenders()}
    alike = all(run.starts_alike for run in runs.values())
    return [duel_of(one, each, alike, runs[one.label].draws or runs[each.contender.label].draws) for each in opponents]


def filter_against_plain(course: Confirmation, label: str, values: Mapping[str, np.ndarray]) -> Comparison | None:
    """What leaving pairs out is worth by itself: the filter against the curriculum's twin."""
    of_role = {role: one for one in course.opponents[label] for role in one.roles}
    if "filter" not in of_role or of_role["filter"] is of_role["twin"]:
        return None
    filtered = of_role["filter"].contender
    duel = duel_of(filtered, Plain(("twin",), of_role["twin"].contender), starts_alike=False, draws=course.draws)
    return compared(outcomes(values, [duel])[filtered.label][0])


def power_of(design: Design | None, tests: Sequence[Outcome], seeds: int) -> dict[str, Any]:
    if design is None or seeds < 2:
        return {"detectable": None, "power": None, "seeds_needed": None}
    return {
        "detectable": design.detectable(seeds),
        "power": design.power(seeds),
        "seeds_needed": design.seeds_needed([one.difference for one in tests]),
    }


def collapses(means: Mapping[str, np.ndarray], seeds: Sequence[int]) -> tuple[Collapse, ...]:
    """Each training that fell far below the others of its configuration. means: over the queries, a seed each."""
    return tuple(
        Collapse(label=label, seed=seed, value=float(value))
        for label, of_label in means.items()
        for seed, value, fell in zip(seeds, of_label, collapsed(of_label), strict=True)
        if fell
    )


def low_trainings(runs: Sequence[SeedRun], state: SearchState) -> list[Collapse]:
    """Each training that stayed far below the search's trials, by its best value on dev."""
    trials = np.array([at.dev for trial in state.trials.values() if (at := trial.best(state.metric))])
    by_label: dict[str, list[SeedRun]] = {}
    for run in runs:
        by_label.setdefault(run.contender.label, []).append(run)
    collapses = []
    for label, of_label in by_label.items():
        devs = np.array([ended_result(run.folder, run.split)["dev"] for run in of_label])
        low = untaught(devs, trials)
        collapses += [
            Collapse(label=label, seed=run.seed, value=float(dev))
            for run, dev, is_low in zip(of_label, devs, low, strict=True)
            if is_low
        ]
    return collapses


def rankings_without_labels(course: Confirmation, inputs: Inputs) -> tuple[Any, Any]:
    """The first stage and the best ranking without training labels, on the split."""
    chosen = (course.state.label_free.get("label_free") or {}).get("label")
    return label_free_of(inputs.label_free(course.request.split, chosen))


def look_of(state: SearchState, split: str, curricula: Sequence[str], seeds: int) -> Look:
    """Which test of this split it is: each with other curricula or another number of seeds is a further one."""
    before = [(tuple(event["curricula"]), event["seeds"]) for event in state.verdicts if event["split"] == split]
    now = tuple(sorted(curricula)), seeds
    number = list(dict.fromkeys([*before, now])).index(now) + 1
    return Look(number=number, level=level_of(number))


# -- for the journal -----------------------------------------------------------------------------------------------


def event_of(verdict: Verdict) -> VerdictEvent:
    """The verdict as the journal has it, for further looks and for MLflow."""
    first, tests = verdict.opponents[0], [verdict.curriculum, *(one.curriculum for one in verdict.others)]
    rows = [
        {"label": one.label, "trial": one.trial_id, "params": one.params, "values": list(one.values), "roles": roles}
        for one, roles in [
            (verdict.curriculum, ["curriculum"]),
            *((one, list(one.roles)) for one in verdict.opponents),
        ]
    ]
    event = {
        "event": "verdict",
        "time": time.time(),
        "split": verdict.split,
        "curricula": sorted(one.label for one in tests),
        "seeds": len(verdict.seeds),
        "verdict": verdict.verdict,
        "difference": first.difference,
        "ci95": first.ci95 and list(first.ci95),
        "p": first.p,
        "opponent": first.label,
        "description": sentences.markdown(verdict),
        "configurations": rows,
    }
    return cast(VerdictEvent, event)
