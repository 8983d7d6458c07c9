"""Curricula of a space that cannot show anything: said before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun
from trainables.core.randomness import generator
from tune_cl.experiment.experiment import Experiment, TrialConfig
from tune_cl.search.remarks import idle
from tune_cl.space.space import Flat, identity
from tune_cl.space.wording import OF_CURRICULUM, trial_words

MOST = 300  # configurations that are looked at


def void_curricula(experiment: Experiment) -> list[str]:
    """Which curricula train like plain training, are their own filter, or train like another one, with all other keys
    at their middle. Each text without a full stop."""
    if not experiment.arms.compares:
        return []
    drawn = _configs(experiment, _points(experiment))
    every = [*_configs(experiment, experiment.points), *drawn]
    by_effect: dict[str, list[TrialConfig]] = {}
    for one in drawn:
        by_effect.setdefault(one.effect, []).append(one)
    equal = [group for group in by_effect.values() if not idle(group[0].run)]
    found = {
        "plain training, because all pairs are available from the first step": [one for one in every if idle(one.run)],
        "a filter: the same part of the pairs from the first step to the last": [
            one for one in every if _is_filter(one.run)
        ],
        "equal to another one": [one for group in equal for one in group[1:]],
    }
    return [_sentence(configs, len(every), what) for what, configs in found.items() if configs]


def _configs(experiment: Experiment, points: Iterable[Flat]) -> list[TrialConfig]:
    """Those with a curriculum."""
    return [config for point in points if not (config := experiment.config(point)).is_plain]


def _points(experiment: Experiment) -> list[Flat]:
    """The grid of the curriculum's keys, or as many random points."""
    space = experiment.space.only([key for key in experiment.space.parameters if key.startswith(OF_CURRICULUM)])
    count = space.combinations()
    if count is not None and count <= MOST:
        return list(space.grid())
    rng = generator(0, "void curricula")
    return list({identity(point): point for point in (space.sample(rng) for _ in range(MOST))}.values())


def _is_filter(run: AnyRun) -> bool:
    """Whether a curriculum leaves pairs out and does nothing else."""
    if not isinstance(run, TrainingConfig) or run.reads == "features":
        return False
    curriculum = run.curriculum
    others = (curriculum.weighting, curriculum.objective_switch, curriculum.negatives.schedule)
    if curriculum.pacing == "none" or any(other != "none" for other in others):
        return False
    return curriculum.schedule(1).share(0) >= curriculum.final_share < 1


def _sentence(configs: Sequence[TrialConfig], of: int, what: str) -> str:
    first = trial_words(configs[0].point, configs[0].params, plain=False)
    verb = "is" if len(configs) == 1 else "are"
    return f"{len(configs)} of {of} curricula {verb} {what} ('{first}')"
