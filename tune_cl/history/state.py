"""The state of a search, derived from the events of its journal. Knows neither Ray nor MLflow."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from statistics import fmean
from typing import Any

from trainables.config.function import Objective
from trainables.core.errors import DataError, Problem
from trainables.core.plugins import require_plugins
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import from_yaml, recorded_experiment
from tune_cl.history.journal import Event
from tune_cl.space.space import Flat, identity
from tune_cl.space.wording import trial_words

RUNNING = "running"
RAN_TO_THE_END = ("completed", "baseline")  # outcomes
OUTSIDE = (
    "session",
    "confirmation",
    "verdict",
    "training_checkpoint",
)  # events before which the search did not run: that time is left out


@dataclass(frozen=True)
class Dev:
    """A value of the configured metric on dev, and the iteration (from 1) that reached it."""

    iteration: int
    dev: float


@dataclass
class TrialState:
    """One trial: what it was given, what it reported, and how it ended (`outcome`, None until then)."""

    trial: str
    number: int
    params: dict[str, Any]
    seed: int
    baseline: bool  # the first trial: the space's own defaults
    arm: Arm
    twin: str | None = None
    """Of a curriculum: the plain trial that trains with its seed and its values of every key outside the baseline, once
    it has begun. Of a plain trial: the curriculum that it was trained for, if any."""
    repeats: str | None = None  # the trial whose settings it has under another seed
    point: dict[str, Any] = field(default_factory=dict)
    results: dict[int, dict[str, float]] = field(default_factory=dict)
    checkpoints: dict[int, str] = field(default_factory=dict)
    saved: list[str] = field(default_factory=list)
    """All checkpoints, oldest first, with those in whose place others of the same iteration came after a kill."""
    paused: bool = False
    outcome: str | None = None
    reason: str | None = None
    artifacts: str | None = None

    def dev(self, metric: str) -> dict[int, float]:
        """Values of the metric on dev by iteration."""
        key = dev_key(metric)
        return {at: values[key] for at, values in sorted(self.results.items()) if key in values}

    def best(self, metric: str) -> Dev | None:
        """The highest value, at the earliest iteration that reached it; NaN does not count."""
        key, best = dev_key(metric), None
        for iteration, metrics in self.results.items():  # of all trials at each end of one: no copies
            value = metrics.get(key, math.nan)
            if not math.isnan(value) and (best is None or (-value, iteration) < (-best.dev, best.iteration)):
                best = Dev(iteration, value)
        return best

    @property
    def words(self) -> str:
        """The trial in words, the same everywhere."""
        return trial_words(self.point, self.params, self.arm == PLAIN, self.baseline)

    @property
    def iterations(self) -> int:
        """Iterations reported."""
        return len(self.results)

    @property
    def seconds(self) -> float:
        """Of all iterations."""
        return sum(metrics["seconds"] for metrics in self.results.values())


@dataclass(frozen=True)
class Pair:
    """A curriculum and its twin, which several may share. Each is stopped for itself, so either may have failed, or
    have made fewer iterations."""

    curriculum: TrialState
    twin: TrialState


@dataclass
class SearchState:
    """One search; the fields up to `plugins` are those of its `search` event, `end` is its `search_end` event."""

    name: str
    space: str
    data: dict[str, Any]  # its name, and digests by which a change is seen
    ranker: str  # the baseline's
    rankers: list[str]  # all that trials may have
    metric: str
    seed: int
    baseline: str
    yaml: str
    arms: Mapping[Arm, dict[str, Any]]  # how many trials each has, and the keys that they search
    compares: bool  # whether its baseline sets the arms apart
    time: float  # of the newest event
    objective: dict[str, Any] | None = None
    """The record of the function, for a search that trains by a user's."""
    tracking_uri: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    git_commit: str | None = None
    plugins: list[str] = field(default_factory=list)  # that bring parts of it: files or modules
    sessions: int = 0
    seconds: float = 0.0  # from the start of each session to its last event
    trials: dict[str, TrialState] = field(default_factory=dict)
    iterations: int = 0  # of all trials
    end: Event | None = None
    confirmations: list[Event] = field(default_factory=list)
    verdicts: list[Event] = field(default_factory=list)
    training_checkpoints: dict[str, list[str]] = field(default_factory=dict)  # by training of a confirmation
    artifacts: set[str] = field(default_factory=set)  # paths of files for the parent run, since its end
    label_free: dict[str, Any] = field(default_factory=dict)  # `first_stage` and `label_free` on dev, once computed
    notes: dict[str, list[str]] = field(default_factory=dict)  # on trials, by trial

    @property
    def search_seeds(self) -> set[int]:
        """The seeds whose trainings had a say in what was chosen: no confirmation has one."""
        return {self.seed, *(trial.seed for trial in self.trials.values())}

    def best(self) -> tuple[TrialState, Dev] | None:
        """The first of `ranked`."""
        return next(iter(self.ranked()), None)

    def ranked(self) -> list[tuple[TrialState, Dev]]:
        """The trials by what they promise, with their own best dev value, the baseline included: first those that were
        trained with further seeds, by the mean of their best dev values over all seeds, then the others by theirs; the
        lowest number wins a tie. Failed trials are left out: what they reported may be wrong."""
        values = self.dev_by_seed()
        trials = {trial.trial: trial for trial in self.trials.values()}  # a confirmation's stand under other names
        order = sorted(values, key=lambda name: (len(values[name]) < 2, -fmean(values[name]), trials[name].number))
        reached = [(trials[name], trials[name].best(self.metric)) for name in order]
        return [(trial, at) for trial, at in reached if at is not None]

    def dev_by_seed(self, before: float = math.inf) -> dict[str, list[float]]:
        """The best dev values of each sound trial and of the sound ones that repeat it with a lower seed than `before`,
        by the id of the first."""
        values: dict[str, list[float]] = {}
        for trial in self.by_number():
            counts = trial.repeats is None or (trial.repeats in values and trial.seed < before)
            at = trial.best(self.metric) if counts and trial.outcome != "failed" else None
            if at is not None:
                values.setdefault(trial.repeats or trial.trial, []).append(at.dev)
        return values

    def ranked_of(self, arm: Arm) -> list[tuple[TrialState, Dev]]:
        """The trials of an arm in `ranked`."""
        return [pair for pair in self.ranked() if pair[0].arm == arm]

    def trials_of(self, arm: Arm) -> list[TrialState]:
        """By number, without those that repeat others."""
        return [trial for trial in self.by_number() if trial.arm == arm and trial.repeats is None]

    def pairs(self) -> list[Pair]:
        """The curricula whose twins have begun, each with its twin, by number; not those under further seeds."""
        return [Pair(trial, self.trials[trial.twin]) for trial in self.trials_of(CURRICULUM) if trial.twin is not None]

    def repeated(self, trial: str, seed: int) -> TrialState | None:
        """The trial that repeats this one with this seed."""
        return next((one for one in self.trials.values() if one.repeats == trial and one.seed == seed), None)

    def plain_like(self, params: Mapping[str, Any]) -> TrialState | None:
        """The first plain trial that trains with these parameters."""
        wanted = training_key(params)
        return next((trial for trial in self.trials_of(PLAIN) if training_key(trial.params) == wanted), None)

    def opened_in(self, arm: Arm) -> list[str]:
        """The keys that the trials of an arm search."""
        return self.arms[arm]["opened"]

    def finished(self) -> list[tuple[TrialState, Dev]]:
        """The trials that ran to their end, in their order, with their best dev value."""
        ended = [trial for trial in self.by_number() if trial.outcome in RAN_TO_THE_END]
        return [(trial, at) for trial in ended if (at := trial.best(self.metric))]

    def by_number(self) -> list[TrialState]:
        return sorted(self.trials.values(), key=attrgetter("number"))

    def baseline_trial(self) -> TrialState | None:
        return self.trials.get(self.baseline)

    def open_trials(self) -> list[TrialState]:
        """Trials that have begun and not ended, with which a resumed search goes on."""
        return [trial for trial in self.by_number() if trial.outcome is None]

    def seconds_until(self, when: float) -> float:
        """`seconds` if an event of this session happens at the unix time `when`."""
        return self.seconds + max(0.0, when - self.time)

    def apply(self, event: Event) -> None:
        """Takes in one event; kinds that do not concern the state are ignored."""
        if "time" in event:
            if not (self.end or event["event"] in OUTSIDE):
                self.seconds = self.seconds_until(event["time"])
            self.time = event["time"]
        match event["event"]:
            case "session":
                self.sessions, self.end = event["number"], None
            case "label_free":
                self.label_free = {key: event[key] for key in ("first_stage", "label_free")}
            case "trial":
                self._begin(event)
            case "result":
                self.trials[event["trial"]].results[event["iteration"]] = event["metrics"]
                self.iterations += 1
            case "checkpoint":
                trial = self.trials[event["trial"]]
                trial.checkpoints[event["iteration"]] = event["path"]
                trial.saved.append(event["path"])
            case "note":
                self.notes.setdefault(event["trial"], []).append(event["text"])
            case "pause":
                self.trials[event["trial"]].paused = True
            case "end":
                trial = self.trials[event["trial"]]
                trial.outcome, trial.reason = event["outcome"], event.get("reason")
                trial.artifacts = event.get("artifacts")
            case "search_end":
                self.end, self.artifacts = event, set()
            case "confirmation":
                self.confirmations.append(event)
            case "verdict":
                self.verdicts.append(event)
            case "training_checkpoint":
                self.training_checkpoints.setdefault(event["training"], []).append(event["path"])
            case "artifact":
                self.artifacts.add(event["path"])

    def _begin(self, event: Event) -> None:
        """A trial begins, or goes on after a pause, a stop or a failure."""
        if trial := self.trials.get(event["trial"]):
            trial.outcome = trial.reason = None
            trial.paused = False
            return
        for other in (event.get("twin"), event.get("repeats")):
            if other is not None and other not in self.trials:
                raise KeyError(other)
        trial = TrialState(
            trial=event["trial"],
            number=event["number"],
            seed=event["seed"],
            baseline=event["baseline"],
            arm=event["arm"],
            twin=event.get("twin"),
            repeats=event.get("repeats"),
            params=event["params"],
            point=as_point(event["chosen"]),
        )
        if trial.arm == PLAIN and trial.twin:
            self.trials[trial.twin].twin = trial.trial
        self.trials[trial.trial] = trial


def as_point(values: dict[str, Any]) -> dict[str, Any]:
    """Values as a search space has them, with tuples where JSON has lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def replay(events: Iterable[Event]) -> SearchState:
    """The state after these events. Raises DataError if there is none, the first is not `search`, or one lacks a key
    or names a trial that has not begun."""
    state: SearchState | None = None
    for number, event in enumerate(events, 1):
        try:
            if state is None:
                state = initial_state(event)
            else:
                state.apply(event)
        except (KeyError, TypeError) as wrong:
            what = f"event '{event['event']}' does not fit: {wrong}"
            raise DataError(Problem(f"journal:{number}", what, "a journal as tune-cl wrote it")) from wrong
    if state is None:
        raise DataError(Problem("journal", "holds no event", "a journal that begins with the event 'search'"))
    return state


def initial_state(event: Event) -> SearchState:
    """The state right after the event `search`; raises KeyError for another event, TypeError if a key is missing."""
    if event["event"] != "search":
        raise KeyError("a journal begins with the event 'search'")
    names = {entry.name for entry in fields(SearchState)}
    values: dict[str, Any] = {key: value for key, value in event.items() if key in names}
    return SearchState(**values)


def experiment_of(state: SearchState, objective: Objective | None = None) -> Experiment:
    """A search's experiment. `objective`: the function, for a search that trains by one; without it, only its record.
    Raises ConfigError for another function, and naming each plug-in that it needs and that is not loaded."""
    require_plugins(state.plugins, f"search '{state.name}'")
    return from_yaml(state.yaml, objective) if objective else recorded_experiment(state.yaml)


def seedless(params: Mapping[str, Any]) -> Flat:
    """Parameters without the seed, with lists for tuples, as in the trials' parameters, which come from the journal."""
    values = {key: value for key, value in params.items() if key != "seed"}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def training_key(params: Mapping[str, Any]) -> Hashable:
    """Equal for equal parameters, whatever the seed."""
    values = seedless(params).items()
    return identity({key: tuple(value) if isinstance(value, list) else value for key, value in values})
