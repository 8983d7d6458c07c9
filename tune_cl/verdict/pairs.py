"""The matched pairs of a search, a curriculum and its twin, and what they say on dev at the search's own seed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import RAN_TO_THE_END, Pair, SearchState, TrialState, experiment_of, replay, training_key
from tune_cl.results import Effects, PairEffect
from tune_cl.space.space import Flat
from tune_cl.verdict.effect_sentences import worded
from tune_cl.verdict.estimates import SeedNoise, effects_of

FEWEST = 2  # pairs


def search_effects(state: SearchState, experiment: Experiment) -> Effects | None:
    """From the dev values of a search; None for fewer than two pairs that ran to the end.

    A pair of which a trial was stopped early says nothing of whole trainings: its curriculum may not even be over."""
    ended = [pair for pair in distinct_pairs(state) if pair.curriculum.outcome and pair.twin.outcome]
    whole = [pair for pair in ended if _is_whole(pair)]
    values = {pair.curriculum.trial: difference(pair, state.metric) for pair in whole}
    compared = [pair for pair in whole if values[pair.curriculum.trial] is not None]
    if len(compared) < FEWEST:
        return None
    notes = []
    if stopped_early := len(ended) - len(whole):
        why = "because a trial of each was stopped early; the others may be the better ones"
        notes.append(f"{stopped_early} of {len(ended)} pairs are left out, {why}")
    cube = np.array([[values[pair.curriculum.trial]] for pair in compared], np.float64)
    return pair_effects(compared, cube, experiment, state, "dev", None, notes, known=seed_noise(state))


def pair_effects(
    pairs: Sequence[Pair],
    cube: np.ndarray,
    experiment: Experiment,
    state: SearchState,
    split: str,
    queries: int | None,
    notes: Sequence[str],
    known: SeedNoise | None = None,
    clusters: Sequence[int] | None = None,
) -> Effects:
    """cube: differences [pairs, seeds] or [pairs, seeds, queries]."""
    means = cube if cube.ndim == 2 else cube.mean(axis=2)
    rows = [
        PairEffect(trial_id=pair.curriculum.trial, twin=pair.twin.trial, differences=tuple(values))
        for pair, values in zip(pairs, means.tolist(), strict=True)
    ]
    effects = effects_of(
        [pair.curriculum.trial for pair in pairs],
        cube,
        [pair.twin.trial for pair in pairs],
        [_settings(pair, experiment) for pair in pairs],
        known,
        clusters,
    )
    about = {"search": state.name, "metric": state.metric, "split": split, "queries": queries, "by_pair": tuple(rows)}
    about |= {"notes": tuple(notes), "plain": experiment.arms.plain_words}
    return worded(effects.model_copy(update=about))


def distinct_pairs(state: SearchState) -> list[Pair]:
    """Pairs of sound trials, each combination of trainings once."""
    pairs: dict[Hashable, Pair] = {}
    for pair in state.pairs():
        if "failed" not in (pair.curriculum.outcome, pair.twin.outcome):
            pairs.setdefault((training_key(pair.curriculum.params), training_key(pair.twin.params)), pair)
    return list(pairs.values())


def seed_noise(state: SearchState) -> SeedNoise | None:
    """How much the difference of a pair varies on dev between seeds, from the trainings with further seeds; None where
    there are too few.

    What has further seeds was chosen for its value under the first one. So pairs count with the differences under two
    further seeds or more, one pair for each twin, and trials with the changes from the first seed to the second, less
    their mean, which is what the choice owed to the first seed.
    """
    sums = [_between_seeds(state), _changes(state)]
    freedom = sum(count for _, count in sums)
    return SeedNoise(sum(spread for spread, _ in sums) / freedom, freedom) if freedom else None


def _between_seeds(state: SearchState) -> tuple[float, int]:
    """Sum of squares and degrees of freedom of the pairs' differences under further seeds."""
    key, of_seeds = dev_key(state.metric), dict[Hashable, dict[int, float]]()
    for event in state.confirmations:
        if key in event["metrics"]:
            of_seeds.setdefault(training_key(event["params"]), {})[event["seed"]] = event["metrics"][key]
    for trial in state.by_number():
        best = _best(trial, state.metric) if trial.repeats and trial.outcome in RAN_TO_THE_END else None
        if best is not None:
            of_seeds.setdefault(training_key(trial.params), {})[trial.seed] = best
    spread, freedom, twins = 0.0, 0, set[str]()
    for pair in distinct_pairs(state):
        curriculum, plain = (of_seeds.get(training_key(trial.params), {}) for trial in (pair.curriculum, pair.twin))
        values = [curriculum[seed] - plain[seed] for seed in sorted(curriculum.keys() & plain.keys())]
        if len(values) < 2 or pair.twin.trial in twins:
            continue
        twins.add(pair.twin.trial)
        spread += float(np.var(values, ddof=1)) * (len(values) - 1)
        freedom += len(values) - 1
    return spread, freedom


def _changes(state: SearchState) -> tuple[float, int]:
    """Sum of squares and degrees of freedom of the trials' changes from the first seed to the second, which vary as a
    pair's difference does where its two trainings vary independently."""
    changes: dict[str, float] = {}
    for trial in state.by_number():
        first = state.trials.get(trial.repeats or "")
        if first is None or not {trial.outcome, first.outcome} <= {*RAN_TO_THE_END}:
            continue
        before, after = _best(first, state.metric), _best(trial, state.metric)
        if before is not None and after is not None:
            changes.setdefault(first.trial, after - before)
    if len(changes) < 2:
        return 0.0, 0
    freedom = len(changes) - 1
    return float(np.var([*changes.values()], ddof=1)) * freedom, freedom


def require_pairs(pairs: Sequence[Pair], search_folder: SearchFolder) -> None:
    """Raises ConfigError if there are too few for effects."""
    if len(pairs) < FEWEST:
        has = "one matched pair" if pairs else "no matched pairs"
        wrong = f"search '{search_folder.name}' has {has} of a curriculum and its twin; effects need {FEWEST} or more"
        raise ConfigError(Problem("NAME", wrong, "a longer search"))


def difference(pair: Pair, metric: str) -> float | None:
    """The best dev value of the curriculum less that of its twin. None where one has no value."""
    curriculum, plain = (_best(trial, metric) for trial in (pair.curriculum, pair.twin))
    return None if curriculum is None or plain is None else curriculum - plain


def _best(trial: TrialState, metric: str) -> float | None:
    return max((value for value in trial.dev(metric).values() if np.isfinite(value)), default=None)


def _is_whole(pair: Pair) -> bool:
    return all(trial.outcome in RAN_TO_THE_END for trial in (pair.curriculum, pair.twin))


def _settings(pair: Pair, experiment: Experiment) -> Flat:
    """The searched keys that set a curriculum apart from its twin, with their values."""
    curriculum, plain = pair.curriculum, pair.twin.params
    return {
        key: curriculum.params[key]
        for key in curriculum.point
        if key in curriculum.params and (key in experiment.baseline or key not in plain)
    }


def recorded_effects(search_folder: SearchFolder) -> Effects:
    """From the dev values of a search, finished or not. Raises ConfigError for fewer than two pairs that ran to the
    end."""
    state = replay(read_events(search_folder.journal))
    require_pairs(distinct_pairs(state), search_folder)
    effects = search_effects(state, experiment_of(state))
    if effects is None:
        wrong = f"fewer than {FEWEST} pairs of search '{search_folder.name}' ran to the end with a dev value"
        right = f"{search_folder.command('effects')} --seeds 2, which trains all pairs to the end"
        raise ConfigError(Problem("NAME", wrong, right))
    return effects
