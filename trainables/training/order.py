"""The order and the pace that `curriculum.*` describes, for our own training and for loops of other programs."""

from __future__ import annotations

import numpy as np

from trainables.config.keys import CurriculumConfig
from trainables.curriculum.pacing import Schedule
from trainables.curriculum.sampler import Sampler, easy_first


def sampler_of(settings: CurriculumConfig, difficulty: np.ndarray, total_steps: int, seed: int) -> Sampler:
    """The sampler of a training of `total_steps` optimiser steps. `difficulty`: of each instance, float64 [I]."""
    return Sampler(easy_first(difficulty, settings.anti), schedule_of(settings, total_steps), seed)


def negatives_schedule_of(settings: CurriculumConfig, total_steps: int) -> Schedule:
    """How fast negatives become hard, to the very end."""
    pacing = settings.negatives.pacing if settings.negatives.schedule != "none" else "none"
    return schedule_of(settings.model_copy(update={"pacing": pacing, "final_share": 1.0}), total_steps)


def schedule_of(settings: CurriculumConfig, total_steps: int) -> Schedule:
    """How fast the order opens; the configured T is a share of all optimiser steps."""
    return Schedule(
        pacing=settings.pacing,
        horizon=settings.T * total_steps,
        delta=settings.delta,
        n=settings.n,
        stages=settings.stages,
        reference=settings.reference,
        final_share=settings.final_share if settings.pacing != "none" else 1.0,
        patience=settings.patience,
    )
