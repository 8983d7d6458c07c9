"""Which trial a search begins next: a curriculum, or the twin of one that has none yet. The rule is a function of the
journal: a search that was killed goes on with the same trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.experiment.experiment import Experiment, TrialConfig
from tune_cl.history.state import SearchState, as_point
from tune_cl.samplers import Sampler
from tune_cl.space.space import Flat

Samplers = Mapping[Arm, Sampler]


@dataclass(frozen=True)
class NewTrial:
    """A trial to begin. `twin`: the plain trial that a curriculum refers to, if there is one already; `twins`: the
    curricula that a plain trial is the twin of; `led_by`: the arm that proposed what the two share."""

    arm: Arm
    config: TrialConfig
    twin: str | None = None
    twins: tuple[str, ...] = ()
    led_by: Arm | None = None


def next_new(experiment: Experiment, state: SearchState, samplers: Samplers, number: int) -> NewTrial | None:
    """The trial that begins next; None when there is none left. `number`: that of the next pair."""
    left = experiment.arms.total - len(state.trials)
    if left <= 0:
        return None
    twin = _twin(experiment, state) if experiment.arms.pairs else None
    return twin or _curriculum(experiment, state, samplers, number, left)


def _twin(experiment: Experiment, state: SearchState) -> NewTrial | None:
    """The twin of the first curriculum without one."""
    for curriculum in state.trials_of(CURRICULUM):
        if curriculum.twin is None:
            config = experiment.config(curriculum.point).twin
            return NewTrial(PLAIN, config, twins=(curriculum.trial,), led_by=curriculum.led_by)
    return None


def _curriculum(
    experiment: Experiment, state: SearchState, samplers: Samplers, number: int, left: int
) -> NewTrial | None:
    """The next curriculum: in turns, either arm's sampler proposes what it shares with its twin. The last trial of a
    search is the curriculum of a twin that there is already. `left`: trials that may still begin."""
    sampler = samplers[CURRICULUM]
    if left == 1 and experiment.arms.tunes_plain and not sampler.given(number):
        points = (sampler.ask(number, shared) for shared in _shared_by_plain_trials(experiment, state))
        point = next((point for point in points if point is not None), None)
        return _paired(experiment, state, point, PLAIN) if point is not None else None
    if _plain_leads(experiment, sampler, number):
        shared = samplers[PLAIN].ask(number)
        point = None if shared is None else sampler.ask(number, shared)
        if point is not None:
            return _paired(experiment, state, point, PLAIN)
    point = sampler.ask(number)
    return None if point is None else _paired(experiment, state, point, CURRICULUM)


def _plain_leads(experiment: Experiment, sampler: Sampler, number: int) -> bool:
    """Whether the plain arm proposes what the pair shares: in every second one, unless the configuration is given."""
    in_turn = experiment.arms.tunes_plain and number % 2 == 0 and not sampler.given(number)
    return in_turn and experiment.search.searcher != "grid"


def _paired(experiment: Experiment, state: SearchState, point: Flat, led_by: Arm) -> NewTrial:
    """A curriculum, with its twin if that has begun."""
    config = experiment.config(point)
    if not experiment.arms.compares:
        return NewTrial(CURRICULUM, config)
    twin = state.plain_like(config.twin.params)
    return NewTrial(CURRICULUM, config, twin and twin.trial, led_by=led_by if experiment.arms.pairs else None)


def _shared_by_plain_trials(experiment: Experiment, state: SearchState) -> Iterator[Flat]:
    """What curricula of these trials' pairs would share with them: best plain trial first, those without a value
    last."""
    ranked = [trial for trial, _ in state.ranked_of(PLAIN)]
    for trial in (*ranked, *(trial for trial in state.trials_of(PLAIN) if trial not in ranked)):
        shared = experiment.arms.shared_space.within(as_point(trial.params) | trial.point)
        if shared is not None:
            yield shared
