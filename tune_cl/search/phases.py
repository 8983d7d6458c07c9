"""Which training a search begins next. Its three phases are functions of the journal alone, so that a search that was
killed goes on with the same trials:

1. Plain training is tuned: the default, then other values of the keys that both arms share (loss, rate, ...).
2. Curricula, by the sampler, at the best of these settings, whose plain trials are their twins.
3. The best of both arms again with a second seed, and the best of those with a third; the mean over seeds chooses.

A phase begins when all trials of the one before have ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from trainables.core.prose import counted
from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.experiment.experiment import Experiment, TrialConfig, plain_point, training_of
from tune_cl.experiment.search_keys import AUTO
from tune_cl.history.state import RAN_TO_THE_END, SearchState, TrialState, as_point
from tune_cl.results import Result
from tune_cl.samplers import SEARCHERS, Sampler
from tune_cl.schedulers import SCHEDULERS, Scheduler, Setup
from tune_cl.space.space import Flat

SMALL = 16  # trials of a search, below which no sampler has enough to learn from
FEWEST_WITH_SEEDS = 8  # trials of a search that has second seeds
MOST_STARTUP = 8
TRIALS_A_SETTING = 16  # a search has curricula at one shared setting for so many trials, at three at most
MOST_SETTINGS = 3
OWN = 8  # one curriculum in so many may have shared settings of its own
FIRST_FURTHER_SEED = 501  # far from those of confirmations
LIKELY = 0.1  # probability of a gain, below which a search ends
Samplers = Mapping[Arm, Sampler]


# -- sizes -----------------------------------------------------------------------------------------------------------


class Phases(Result):
    """How many trials a search has at most. plain: the default among them; curricula: with the twins of those at
    settings of their own; second, third: further seeds."""

    plain: int
    curricula: int
    second: int = 0
    third: int = 0

    @property
    def seeds(self) -> int:
        return self.second + self.third

    @property
    def trials(self) -> int:
        return self.plain + self.curricula + self.seeds

    @property
    def published(self) -> int:
        """How many curricula may be published ones."""
        return math.ceil(self.curricula / 2)


def phases_of(experiment: Experiment) -> Phases:
    """Of the search's trials a third is plain and a quarter further seeds, of which a third are third ones. Below SMALL
    a quarter is plain. No phase has more trials than can be different. A grid has each curriculum once, in its order,
    and then its twin."""
    trials, grid = experiment.search.trials, experiment.search.searcher == "grid"
    most_plain = _most(experiment.arms.shared_space.combinations()) if experiment.arms.tunes_plain else 1
    share = math.ceil(trials / 4) if trials < SMALL else round(trials / 3)
    plain = 1 if grid else int(min(share, most_plain))
    repeats = experiment.base.run.draws and trials >= FEWEST_WITH_SEEDS and not grid
    seeds = trials // 4 if repeats else 0
    most_curricula = _most(experiment.space.combinations()) + most_plain - plain
    curricula = int(min(trials - plain - seeds, most_curricula))
    third = min(seeds // 3 if trials >= SMALL else 0, plain + curricula)
    second = min(seeds - third, plain + curricula)
    return Phases(plain=plain, curricula=curricula, second=second, third=third)


def planned_arms(experiment: Experiment) -> dict[Arm, dict[str, Any]]:
    """What each arm gets in the first two phases, as the journal has it."""
    phases = phases_of(experiment)
    shared = [*experiment.arms.shared_space.parameters] if experiment.arms.tunes_plain else []
    return {
        PLAIN: {"trials": phases.plain, "opened": shared},
        CURRICULUM: {"trials": phases.curricula, "opened": [*experiment.space.parameters]},
    }


def _most(combinations: int | None) -> float:
    return math.inf if combinations is None else combinations


# -- samplers and schedulers -----------------------------------------------------------------------------------------


def new_sampler(experiment: Experiment, arm: Arm = CURRICULUM) -> Sampler:
    """A new one of an arm, which has seen no trial."""

    def plain_effect(point: Flat) -> str:
        return experiment.config(plain_point(experiment, point)).effect

    def effect(point: Flat) -> str:
        """All plain trainings have the effect of the baseline, which no trial of this arm has."""
        config = TrialConfig(experiment, point, training_of(experiment, point))
        return PLAIN if experiment.arms.compares and config.is_plain else config.effect

    space = experiment.arms.shared_space if arm == PLAIN else experiment.space
    searcher = SEARCHERS[experiment.search.searcher]
    sampler = searcher(space, experiment.base.run.seed, startup_trials(experiment, arm))
    sampler.set_effect(plain_effect if arm == PLAIN else effect, experiment.base.point)
    return sampler


def startup_trials(experiment: Experiment, arm: Arm) -> int:
    """How many trials of an arm its sampler draws at random before it models the space."""
    search, phases = experiment.search, phases_of(experiment)
    if search.startup_trials != AUTO:
        return search.startup_trials
    if search.trials < SMALL:
        return search.trials
    trials = phases.plain if arm == PLAIN else phases.curricula
    return max(1, min(MOST_STARTUP, trials // 3))


def setup_of(experiment: Experiment) -> Setup:
    """What the scheduler needs to know."""
    search = experiment.search
    can_pause = SCHEDULERS[search.scheduler].can_pause
    return Setup(
        max_iterations=experiment.base.run.training.max_iterations,
        reduction_factor=search.reduction_factor,
        grace=search.grace,
        first_rung=search.first_rung,
        promotion=can_pause if search.promotion is None else search.promotion,
    )


def new_scheduler(experiment: Experiment) -> Scheduler:
    """A new one, which has seen no trial."""
    return SCHEDULERS[experiment.search.scheduler](setup_of(experiment))


def longest_grace(experiment: Experiment) -> int:
    """The longest grace of the curricula that may follow a plain trial, which is protected as long."""
    if not experiment.arms.compares:
        return experiment.base.grace
    space = experiment.space
    lengths = {key: max(space.parameters[key].ends) for key in LENGTHS & space.parameters.keys()}
    kinds = space.only(KINDS).fixing(lengths)
    return max(experiment.config(point).grace for point in (experiment.base.point, *kinds.grid()))


LENGTHS = {"curriculum.T", "curriculum.m", "curriculum.switch", "curriculum.switch_at"}  # when a curriculum ends
KINDS = {"curriculum.pacing", "curriculum.weighting", "curriculum.objective_switch", "curriculum.negatives.schedule"}


# -- the next trial --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewTrial:
    """A trial to begin. twin: of a curriculum, the plain trial with its other settings and its seed; of a plain trial,
    the curriculum that it is trained for. repeats: the trial whose settings it has under another seed."""

    arm: Arm
    config: TrialConfig
    seed: int
    twin: str | None = None
    repeats: str | None = None

    @property
    def fields(self) -> dict[str, str]:
        """What its event says of other trials."""
        return {key: value for key, value in (("twin", self.twin), ("repeats", self.repeats)) if value}


def next_new(experiment: Experiment, state: SearchState, samplers: Samplers, phases: Phases) -> NewTrial | None:
    """The trial that begins next. None where none is left, or the next phase waits for trials that have not ended:
    curricula wait for plain training at several settings, further seeds for all trials with lower ones."""
    new = plain_trial(experiment, state, samplers, phases)
    if new is not None or (phases.plain > 1 and any(trial.outcome is None for trial in tuned(state))):
        return new
    new = curriculum_trial(experiment, state, samplers, phases)
    for seed, number in zip(further_seeds(experiment), (phases.second, phases.third), strict=True):
        if new is not None or any(trial.seed < seed for trial in state.open_trials()):
            return new
        new = repeated(experiment, state, seed, number)
    return new


def tuned(state: SearchState) -> list[TrialState]:
    """The plain trials of the first phase."""
    return [trial for trial in state.trials_of(PLAIN) if trial.twin is None]


def begun_after_plain(state: SearchState) -> int:
    """Trials of the second phase."""
    twins = [trial for trial in state.trials_of(PLAIN) if trial.twin is not None]
    return len(state.trials_of(CURRICULUM)) + len(twins)


def plain_trial(experiment: Experiment, state: SearchState, samplers: Samplers, phases: Phases) -> NewTrial | None:
    """The first phase."""
    number = len(tuned(state))
    if number == 0:
        return NewTrial(PLAIN, experiment.base, experiment.base.run.seed)
    if number >= phases.plain:
        return None
    shared = samplers[PLAIN].ask(number)
    if shared is None:
        return None
    return NewTrial(PLAIN, experiment.config(plain_point(experiment, shared)), experiment.base.run.seed)


def curriculum_trial(experiment: Experiment, state: SearchState, samplers: Samplers, phases: Phases) -> NewTrial | None:
    """The second phase: a twin that a curriculum lacks, else the next curriculum."""
    curricula = state.trials_of(CURRICULUM)
    left = phases.curricula - begun_after_plain(state)
    if left <= 0:
        return None
    alone = next((trial for trial in curricula if trial.twin is None), None)
    if alone is not None and experiment.arms.pairs:
        return NewTrial(PLAIN, experiment.config(alone.point).twin, experiment.base.run.seed, twin=alone.trial)
    number = len(curricula) + 1
    for values in given_values(experiment, state, phases, number, left):
        point = samplers[CURRICULUM].ask(number, values)
        if point is not None:
            config = experiment.config(point)
            twin = state.plain_like(config.twin.params) if experiment.arms.compares else None
            return NewTrial(CURRICULUM, config, experiment.base.run.seed, twin=twin and twin.trial)
    return None


def given_values(
    experiment: Experiment, state: SearchState, phases: Phases, number: int, left: int
) -> Iterator[Flat | None]:
    """What curriculum `number` (from 1) may be given, in order of preference: a published curriculum, and the shared
    values of a plain trial; the best few take turns. None: it chooses all of them, for which two trials are `left`."""
    grid = experiment.search.searcher == "grid"
    tries_published = grid or number <= phases.published
    published = experiment.points[number - 1 : number] if tries_published else ()
    settings = [] if grid and left > 1 else shared_settings(experiment, state)
    few = min(MOST_SETTINGS, max(1, experiment.search.trials // TRIALS_A_SETTING), max(1, len(settings)))
    first = (number - 1) % few
    in_turn = [*settings[first:few], *settings[:first], *settings[few:]]
    may_choose = left > 1 or number == 1 or not experiment.arms.tunes_plain
    if number % OWN == 0 and may_choose and not published:
        yield None
    yield from ({**shared, **curriculum} for curriculum, shared in product(published, in_turn or [{}]))
    yield from in_turn
    if may_choose:
        yield None


def shared_settings(experiment: Experiment, state: SearchState) -> list[Flat]:
    """The shared values of the plain trials of the first phase (of a grid, all), best first, those of trials without a
    value last; empty where there is no choice of them."""
    if not experiment.arms.tunes_plain:
        return []
    ranked = [trial for trial, _ in state.ranked_of(PLAIN)]
    trials = state.trials_of(PLAIN) if experiment.search.searcher == "grid" else tuned(state)
    in_order = [trial for trial in ranked if trial in trials] + [trial for trial in trials if trial not in ranked]
    within = [experiment.arms.shared_space.within(as_point(trial.params) | trial.point) for trial in in_order]
    return [shared for shared in within if shared is not None]


def further_seeds(experiment: Experiment) -> tuple[int, int]:
    """The second seed of a search, and the third."""
    first = experiment.base.run.seed + FIRST_FURTHER_SEED
    return first, first + 1


def repeated(experiment: Experiment, state: SearchState, seed: int, number: int) -> NewTrial | None:
    """The next of `number` trials that are repeated with a seed."""
    for trial in to_repeat(state, seed, number):
        if state.repeated(trial.trial, seed) is None:
            twin = state.repeated(trial.twin, seed) if trial.arm == CURRICULUM and trial.twin else None
            config = experiment.config(trial.point)
            return NewTrial(trial.arm, config, seed, twin=twin and twin.trial, repeats=trial.trial)
    return None


def to_repeat(state: SearchState, seed: int, number: int) -> list[TrialState]:
    """The best trials by the seeds before this one, of both arms together, each curriculum after its twin. One that was
    stopped early has no value to compare."""
    values = state.dev_by_seed(before=seed)
    whole = [name for name in values if state.trials[name].outcome in RAN_TO_THE_END]
    most = max((len(values[name]) for name in whole), default=0)
    ranked = sorted((name for name in whole if len(values[name]) == most), key=lambda name: -sum(values[name]))
    chosen: dict[str, TrialState] = {}
    for name in ranked:
        trial = state.trials[name]
        twins = [state.trials[trial.twin]] if trial.arm == CURRICULUM and trial.twin else []
        sound = [twin for twin in twins if twin.outcome != "failed"]
        with_pair = chosen | {one.trial: one for one in (*sound, trial)}
        if len(with_pair) <= number:
            chosen = with_pair
    return list(chosen.values())


def may_be_chosen(state: SearchState, phases: Phases) -> list[str]:
    """Trials among which the search's best one will be, whose checkpoints are kept."""
    ranked = [trial for trial, _ in state.ranked()][: max(1, 2 * phases.second)]
    twins = [state.trials[trial.twin] for trial in ranked if trial.twin]
    return [trial.trial for trial in (*ranked, *twins)]


# -- the end ---------------------------------------------------------------------------------------------------------


def nothing_to_find(experiment: Experiment, state: SearchState, phases: Phases, new: NewTrial) -> str | None:
    """Why the search ends before its first trial with a third seed, in words; None if it goes on. Only then is it known
    how much the seed matters."""
    last_seed = further_seeds(experiment)[1]
    is_first = new.seed == last_seed and all(trial.seed != last_seed for trial in state.trials.values())
    if not is_first or experiment.search.stop == "never":
        return None
    from tune_cl.verdict.pairs import search_effects  # imports SciPy

    effects = search_effects(state, experiment)
    if effects is None or effects.worth_finding is None or effects.worth_finding >= LIKELY:
        return None
    saved = counted(phases.trials - len(state.trials), "training")
    return (
        "nothing to find: that one of its curricula truly gains more on dev than a test with five seeds would find has "
        f"a probability of {effects.worth_finding:.2f}; {saved} saved"
    )
