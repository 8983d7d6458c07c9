"""The sampler and the scheduler of a search, as its settings ask for them."""

from __future__ import annotations

from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.experiment.experiment import Experiment, TrialConfig, plain_point, training_of
from tune_cl.experiment.search_keys import AUTO
from tune_cl.samplers import SEARCHERS, Sampler
from tune_cl.schedulers import SCHEDULERS, Scheduler, Setup, promotes
from tune_cl.space.space import Flat

MOST_STARTUP = 8


def startup_trials(experiment: Experiment, arm: Arm) -> int:
    """How many trials of an arm its sampler draws at random before it models the space."""
    asked = experiment.search.startup_trials
    return max(1, min(MOST_STARTUP, experiment.arms.trials[arm] // 3)) if asked == AUTO else asked


def new_sampler(experiment: Experiment, arm: Arm = CURRICULUM) -> Sampler:
    """A new one of an arm, which has seen no trial."""
    searcher, startup = experiment.search.searcher, startup_trials(experiment, arm)
    if arm == PLAIN:
        space = experiment.arms.shared_space
        endless = searcher == "grid" and space.continuous
        sampler = SEARCHERS["random" if endless else searcher](space, experiment.base.run.seed, startup)
        sampler.set_effect(
            lambda point: experiment.config(plain_point(experiment, point)).effect, experiment.base.point
        )
        sampler.repeats = True  # then only another curriculum is trained beside the twin
        return sampler

    def effect(point: Flat) -> str:
        """All plain trainings have the effect of the baseline, which no trial of this arm has."""
        config = TrialConfig(experiment, point, training_of(experiment, point))
        return PLAIN if experiment.arms.compares and config.is_plain else config.effect

    sampler = SEARCHERS[searcher](experiment.space, experiment.base.run.seed, startup, experiment.points)
    sampler.set_effect(effect, experiment.base.point)
    sampler.covered = experiment.arms.shared_space.parameters
    return sampler


def setup_of(experiment: Experiment) -> Setup:
    """What the scheduler needs to know."""
    search = experiment.search
    return Setup(
        max_iterations=experiment.base.run.training.max_iterations,
        reduction_factor=search.reduction_factor,
        grace=search.grace,
        first_rung=search.first_rung,
        promotion=promotes(search.scheduler, search.promotion),
    )


def new_scheduler(experiment: Experiment) -> Scheduler:
    """A new one, which has seen no trial."""
    return SCHEDULERS[experiment.search.scheduler](setup_of(experiment))


def compares_inside_curricula(experiment: Experiment) -> bool:
    """Whether its scheduler compares trials inside their curricula regardless of `search.grace`."""
    return setup_of(experiment).promotion and SCHEDULERS[experiment.search.scheduler].knows_graces
