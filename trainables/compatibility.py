"""Which curricula a ranker can follow: networks and tree ensembles each have keys of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.errors import Problem

if TYPE_CHECKING:
    from trainables.config import TrainingRun


def curriculum_misfits(run: TrainingRun) -> list[Problem]:
    """A Problem for each configured key that this kind of ranker cannot follow."""
    name, curriculum = run.ranker["name"], run.curriculum
    if not run.grows_trees:
        right = "curriculum.pacing or curriculum.weighting, or ranker.name: lambdamart"
        wrong = f"{name} is not trained on a subset first"
        return [Problem("curriculum.subset", wrong, right)] if curriculum.subset != "none" else []
    right = "curriculum.subset or curriculum.objective_switch: mse, with curriculum.switch (trees)"
    used = {"pacing": curriculum.pacing, "weighting": curriculum.weighting}
    problems = [
        Problem(f"curriculum.{key}", f"'{value}' does not apply to {name}, which grows trees on all its data", right)
        for key, value in used.items()
        if value != "none"
    ]
    if curriculum.objective_switch not in ("none", "mse"):
        wrong = f"'{curriculum.objective_switch}' does not apply to {name}"
        problems.append(Problem("curriculum.objective_switch", wrong, "none or mse"))
    if run.training.pretrain_data is not None:
        wrong = f"{name} starts from no weights"
        problems.append(Problem("training.pretrain_data", wrong, "null, or a ranker that is a network over texts"))
    return problems
