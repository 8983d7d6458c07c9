"""When a trial may be judged: how long a curriculum lasts, and how it shrinks with a rung's budget."""

from __future__ import annotations

import math

from trainables.config import TrainingRun


def curriculum_grace(run: TrainingRun) -> int:
    """Iterations until a training's curriculum is over: the latest of `curriculum_ends`, at most all iterations."""
    return math.ceil(min(max(curriculum_ends(run).values(), default=0), run.training.max_iterations))


def curriculum_ends(run: TrainingRun) -> dict[str, float]:
    """Iterations until each part of a training's curriculum is over, by the key that sets it: T, m or a switch, if in
    force."""
    curriculum, iterations = run.curriculum, run.training.max_iterations
    if run.grows_trees:
        trees = curriculum.switch / run.ranker["trees_per_iteration"]
        return {"curriculum.switch": math.ceil(trees)} if "curriculum.switch" in run.in_force() else {}
    ends: dict[str, float] = {}
    if curriculum.pacing != "none":
        ends["curriculum.T"] = math.ceil(curriculum.T * iterations - 1e-9)
    if curriculum.weighting != "none":
        ends["curriculum.m"] = curriculum.m
    if curriculum.objective_switch != "none":
        ends["curriculum.switch_at"] = math.ceil(curriculum.switch_at * iterations - 1e-9)
    return ends


def scaled_run(run: TrainingRun, iterations: int) -> TrainingRun:
    """The training with a whole budget of `iterations`, before which it does not end. m, and the trees before a switch,
    shrink in proportion, to 1 at least; T, a network's switch, the warm-up and a falling rate are shares of all steps
    and shrink by themselves."""
    if iterations == run.training.max_iterations:
        return run
    share = iterations / run.training.max_iterations
    patience = max(iterations, run.training.patience)
    training = run.training.model_copy(update={"max_iterations": iterations, "patience": patience})
    scaled = {"m": max(1.0, run.curriculum.m * share), "switch": max(1, round(run.curriculum.switch * share))}
    curriculum = run.curriculum.model_copy(update=scaled)
    return run.model_copy(update={"training": training, "curriculum": curriculum})
