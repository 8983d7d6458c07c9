"""`tune-cl confirm`: new trainings of the best curriculum and its opponents, and the verdict that they give."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from trainables.config.function import Objective
from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.prose import counted, say
from trainables.evaluation.collapses import collapsed, untaught
from tune_cl.experiment.arms import ARMS, CURRICULUM, PLAIN
from tune_cl.history.journal import Event
from tune_cl.history.search_folder import TRIALS, SearchFolder
from tune_cl.history.state import SearchState
from tune_cl.history.tracking_uri import masked
from tune_cl.inputs import Inputs
from tune_cl.model_card import write_verdict
from tune_cl.results import Candidate, Collapse, Comparison, Failure, Look, Verdict
from tune_cl.search.progress_panel import Panel, PanelKind
from tune_cl.search_result import BEST_RANKER
from tune_cl.space.wording import arm_words, label_free_of
from tune_cl.verdict import sentences
from tune_cl.verdict.contenders import Contender, contenders_by_training
from tune_cl.verdict.files import write_files
from tune_cl.verdict.opponents import Plain, duel_of, opponents_of, share_seen
from tune_cl.verdict.power import design_of
from tune_cl.verdict.retraining import Request, Retraining, retraining
from tune_cl.verdict.selection import (
    FIRST_SEED,
    SPLIT,
    Choice,
    champion,
    choices,
    is_clearly_below,
    selected,
    selecting,
)
from tune_cl.verdict.test import (
    Duel,
    compared,
    configuration,
    leader,
    level_of,
    outcomes,
    tested,
    values_by_cluster,
    values_by_label,
)
from tune_cl.verdict.trainings import SeedRun, ended_result, failures_in_words, new_seeds, values_frame

if TYPE_CHECKING:
    import pandas as pd

SECONDS = ((60, 20), (1200, 10))  # of a training: the seeds that up to so many of them are worth
FEWEST = 5  # seeds


def default_seeds(state: SearchState) -> int:
    """Seeds of each configuration: more where a training takes seconds, because 5 find a gain of .02 in a third of
    cases (docs/explanation/verdict.md)."""
    seconds = mean_seconds(state)
    return next((seeds for most, seeds in SECONDS if seconds is not None and seconds <= most), FEWEST)


def mean_seconds(state: SearchState) -> float | None:
    """Of a training: of those with new seeds, else of the trials that ran to the end; None if there is none."""
    confirmed = [event["metrics"]["seconds"] for event in state.confirmations if "seconds" in event["metrics"]]
    trained = confirmed or [trial.seconds for trial, _ in state.finished()]
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
    with retraining("confirm", search_folder, request, address, objective, panel) as work:
        course = Confirmation(work)
        inputs = work.inputs(course.every_run())
        tell(course)
        work.train(course.rounds(), inputs, "confirm", course.most_trainings(), "trainings at most")
        verdict, frame = decide(course, inputs)
        write_files(search_folder.folder, verdict, frame)
        event = event_of(verdict)
        if not any({**event, "time": 0.0} == {**one, "time": 0.0} for one in work.state.verdicts):
            work.journal.append(event)
        write_verdict(search_folder.folder / TRIALS / BEST_RANKER, verdict, work.command)
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
    """

    def __init__(self, work: Retraining):
        self.work, self.state, self.experiment, self.request = work, work.state, work.experiment, work.request
        state, request = work.state, work.request
        if not state.end:
            right = f"{work.search_folder.command('resume')}, which ends it"
            raise ConfigError(Problem("NAME", f"search '{state.name}' has not ended", right))
        self.searched = contenders_by_training(state, work.experiment)
        self.default = next(iter(self.searched.values()))
        arms = choices(state, self.searched, request.top, request.trials)
        self.draws = any(work.run(one, 1).run.draws for of_arm in arms.values() for one in of_arm)
        self.seeds = new_seeds(request.seeds or default_seeds(state), state.search_seeds)
        if not self.draws:
            self.seeds = self.seeds[:1]  # all others give the same trainings
        choosing, number = selecting(arms, bool(request.trials), len(state.trials))
        self.selection_seeds = new_seeds(number, state.search_seeds, FIRST_SEED) if self.draws else []
        self.candidates = []
        for arm in ARMS:
            seeds = self.selection_seeds if arm in choosing else []
            self.candidates += [Choice(arm, one, [work.run(one, seed, SPLIT) for seed in seeds]) for one in arms[arm]]
        self.curricula = arms[CURRICULUM]
        self.opponents: dict[str, list[Plain]] = {}
        self.selection: tuple[Candidate, ...] = ()
        if self.selects and len(self.seeds) < 2:
            right = "2 or more, or --top 1, which selects nothing"
            raise ConfigError(Problem("--seeds", "1 cannot test the champions of a selection", right))

    @property
    def selects(self) -> bool:
        return any(one.runs for one in self.candidates)

    def rounds(self) -> Iterator[list[SeedRun]]:
        """The trainings of the selection, then those of the test."""
        yield [run for one in self.candidates for run in one.runs]
        self.selection = selected(self.candidates, self.work.failed_labels)
        self.choose()
        yield [self.work.run(one, seed) for seed in self.seeds for one in self.contenders()]

    def choose(self) -> None:
        """Takes the champions of the selection, and finds their opponents."""
        plain = champion(self.candidates, self.selection, PLAIN)
        if not self.request.trials:
            self.curricula = [champion(self.candidates, self.selection, CURRICULUM)]
        sound = {one.contender.label: one for one in self.candidates if not self.failed(one.contender)}
        default: Contender | None = self.default
        if {plain.label, self.default.label} <= sound.keys() and is_clearly_below(
            sound[self.default.label], sound[plain.label], self.state.metric
        ):
            default = None
        for one in self.curricula:
            runs = sound[one.label].runs if one.label in sound else ()
            share = share_seen(one, runs, self.state, self.experiment)
            self.opponents[one.label] = opponents_of(one, plain, default, share, self.searched, self.experiment)

    def failed(self, *contenders: Contender) -> bool:
        """Whether a training of one of these failed."""
        return any(one.label in self.work.failed_labels for one in contenders)

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
        return [self.work.run(one, seed).run for one in contenders for seed in seeds]

    def complete(self) -> list[Contender]:
        """The curricula that can be tested: no training of theirs or of an opponent failed."""
        opponents = {one.label: [each.contender for each in self.opponents[one.label]] for one in self.curricula}
        return [one for one in self.curricula if not self.failed(one, *opponents[one.label])]


def tell(course: Confirmation) -> None:
    """Tells the user what to know before the trainings start."""
    if course.selects:
        over_curricula = course.experiment.arms.varies_curricula
        names = {arm: f"{arm_words(arm, over_curricula)} configuration" for arm in ARMS}
        several = [counted(sum(one.arm == arm for one in course.candidates), names[arm]) for arm in ARMS]
        seeds = counted(len(course.selection_seeds), "new seed")
        say(f"selection on dev: {' and '.join(several)}, {seeds} each; {course.request.split} compares the best ones")
    if course.request.split == "dev":
        say(f"note: {sentences.ON_DEV}")
    if not course.draws:
        say("note: the seed changes nothing in these trainings: one of each is enough")
    elif len(course.seeds) < 2:
        say("note: with one seed, how much the seed matters stays unknown")


# -- what is decided -----------------------------------------------------------------------------------------------


def decide(course: Confirmation, inputs: Inputs) -> tuple[Verdict, pd.DataFrame]:
    """The verdict, and the values that it is from. Raises WorkFailed if too many trainings failed."""
    state, split, failed = course.state, course.request.split, course.work.failed
    complete = course.complete()
    if not complete:
        raise WorkFailed(failures_in_words(failed))
    contenders = {one.label: one for one in course.contenders() if not course.failed(one)}
    runs = [course.work.run(one, seed) for one in contenders.values() for seed in course.seeds]
    frame = values_frame(runs, roles_in_words(course), state.metric)
    clusters = inputs.clusters(split)
    frame["cluster"] = frame["query"].map(clusters) if clusters else frame["query"].factorize()[0]
    means = {label: values.mean(axis=1) for label, values in values_by_label(frame).items()}
    values = values_by_cluster(frame)
    queries, seeds = next(iter(values.values())).shape[1], len(course.seeds)

    look = look_of(state, split, [one.label for one in complete], seeds)
    tests = outcomes(values, [duel for one in complete for duel in duels_of(course, one)], look.level)
    configurations = {
        label: configuration(label, means[label], one.trial_id, one.params) for label, one in contenders.items()
    }
    results = {label: tested(of_label, values, configurations) for label, of_label in tests.items()}
    first = leader(tests)
    level = look.level / len(tests)
    design = design_of([one.test for one in tests[first]], queries, level) if seeds > 1 else None
    rankings = inputs.label_free(split, (state.label_free.get("label_free") or {}).get("label"))
    first_stage, label_free = label_free_of(rankings)
    verdict = Verdict(
        search=state.name,
        metric=state.metric,
        split=split,
        seeds=tuple(course.seeds),
        queries=frame["query"].nunique(),
        clusters=queries,
        **dict(results.pop(first)),
        selection=course.selection,
        filter_against_plain=filter_against_plain(course, first, values),
        detectable=design.detectable(seeds) if design else None,
        power=design.power(seeds) if design else None,
        look=look,
        others=tuple(results.values()),
        failures=tuple(Failure(label=run.contender.label, seed=run.seed, reason=why) for run, why in failed),
        collapses=tuple(
            one for label in means for one in _low(label, course.seeds, means[label], collapsed(means[label]))
        ),
        first_stage=first_stage,
        label_free=label_free,
        data=state.data["name"],
        ranker=state.ranker,
        storage=str(course.work.search_folder.storage),
        tracking_uri=masked(course.work.search_folder.tracking_uri),
        plain=course.experiment.arms.plain_words,
        plain_trials=len(state.trials_of(PLAIN)),
        plain_keys=tuple(state.opened_in(PLAIN)),
    )
    notes = sentences.notes(verdict, untaught_trainings(course, contenders.values()))
    noted = verdict.model_copy(update={"notes": notes})
    return noted.model_copy(update={"sentences": tuple(sentences.sentences(noted))}), frame


def roles_in_words(course: Confirmation) -> dict[str, str]:
    """The roles of each configuration, by label."""
    roles: dict[str, dict[str, None]] = {one.label: {"curriculum": None} for one in course.curricula}
    for one in chain(*course.opponents.values()):
        roles.setdefault(one.contender.label, {}).update(dict.fromkeys(one.roles))
    return {label: ", ".join(names) for label, names in roles.items()}


def duels_of(course: Confirmation, one: Contender) -> list[Duel]:
    runs = {each.label: course.work.run(each, course.seeds[0]).run for each in course.contenders()}
    alike = all(run.starts_alike for run in runs.values())
    draws = {label: run.draws for label, run in runs.items()}
    opponents = course.opponents[one.label]
    return [duel_of(one, each, alike, draws[one.label] or draws[each.contender.label]) for each in opponents]


def filter_against_plain(course: Confirmation, label: str, values: Mapping[str, np.ndarray]) -> Comparison | None:
    """What leaving pairs out is worth by itself: the filter against the curriculum's twin."""
    of_role = {role: one for one in course.opponents[label] for role in one.roles}
    if "filter" not in of_role or of_role["filter"] is of_role["twin"]:
        return None
    filtered = of_role["filter"].contender
    duel = duel_of(filtered, Plain(("twin",), of_role["twin"].contender), starts_alike=False, draws=course.draws)
    return compared(outcomes(values, [duel])[filtered.label][0])


def untaught_trainings(course: Confirmation, contenders: Iterable[Contender]) -> list[Collapse]:
    """Each training that stayed far below the search's trials, by its best value on dev."""
    trials = np.array([at.dev for trial in course.state.trials.values() if (at := trial.best(course.state.metric))])
    found = []
    for one in contenders:
        runs = [course.work.run(one, seed) for seed in course.seeds]
        devs = np.array([ended_result(run.folder, run.split)["dev"] for run in runs])
        found += _low(one.label, course.seeds, devs, untaught(devs, trials))
    return found


def _low(label: str, seeds: Sequence[int], values: np.ndarray, is_low: np.ndarray) -> list[Collapse]:
    rows = zip(seeds, values.tolist(), is_low, strict=True)
    return [Collapse(label=label, seed=seed, value=value) for seed, value, low in rows if low]


def look_of(state: SearchState, split: str, curricula: Sequence[str], seeds: int) -> Look:
    """Which test of this split it is: each with other curricula or another number of seeds is a further one."""
    before = [(tuple(event["curricula"]), event["seeds"]) for event in state.verdicts if event["split"] == split]
    now = tuple(sorted(curricula)), seeds
    number = list(dict.fromkeys([*before, now])).index(now) + 1
    return Look(number=number, level=level_of(number))


def event_of(verdict: Verdict) -> Event:
    """The verdict as the journal has it, in types of JSON, for further looks and for MLflow."""
    first, curriculum = verdict.opponents[0], verdict.curriculum
    configurations = [
        {"roles": roles, **one.model_dump(mode="json", include={"label", "trial_id", "params", "values"})}
        for roles, one in [("curriculum", curriculum), *((", ".join(one.roles), one) for one in verdict.opponents)]
    ]
    return {
        "event": "verdict",
        "time": time.time(),
        "split": verdict.split,
        "curricula": sorted(one.curriculum.label for one in (verdict, *verdict.others)),
        "seeds": len(verdict.seeds),
        "verdict": verdict.verdict,
        "difference": first.difference,
        "ci95": first.ci95 and list(first.ci95),
        "p": first.p,
        "opponent": first.label,
        "description": str(verdict),
        "configurations": configurations,
    }
