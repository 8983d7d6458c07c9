"""When a trial may be judged: how far a curriculum reaches, and how it shrinks with a rung's budget."""

from __future__ import annotations

import math

from trainables.config import TrainingRun


def curriculum_grace(run: TrainingRun) -> int:
    """Iterations until a training is past its curriculum: the latest of T, m and the objective's switch, of those in
    force; at most all iterations."""
    curriculum, iterations = run.curriculum, run.training.max_iterations
    if run.grows_trees:
        staged = "curriculum.switch" in run.in_force()
        return min(math.ceil(curriculum.switch / run.ranker["trees_per_iteration"]), iterations) if staged else 0
    paced = math.ceil(curriculum.T * iterations - 1e-9) if curriculum.pacing != "none" else 0
    weighted = curriculum.m if curriculum.weighting != "none" else 0
    switched = math.ceil(curriculum.switch_at * iterations - 1e-9) if curriculum.objective_switch != "none" else 0
    return math.ceil(min(max(paced, weighted, switched), iterations))


def scaled_run(run: TrainingRun, iterations: int) -> TrainingRun:
    """The training whose whole budget is `iterations`: m, and the trees before a switch, shrink as the budget does, to
    1 at least; T, a network's switch, the warm-up and a falling rate are shares of all steps and shrink by themselves.
    It does not end before."""
    if iterations == run.training.max_iterations:
        return run
    share = iterations / run.training.max_iterations
    patience = max(iterations, run.training.patience)
    training = run.training.model_copy(update={"max_iterations": iterations, "patience": patience})
    scaled = {"m": max(1.0, run.curriculum.m * share), "switch": max(1, round(run.curriculum.switch * share))}
    curriculum = run.curriculum.model_copy(update=scaled)
    return run.model_copy(update={"training": training, "curriculum": curriculum})
