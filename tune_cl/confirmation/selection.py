"""Which configuration of each arm meets the other one on test: the best few of each are trained with new seeds, and
compared on dev.

The dev values of the search chose among many configurations on one seed; the best of them owes much to that seed. The
trainings of a selection have seeds that the test does not use, so what it chooses by chance does not count twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainables.core.errors import ConfigError, Problem, nearest
from trainables.evaluation.metrics import in_words as in_metric_words
from tune_cl.confirmation.request import (
    Configuration,
    Request,
    SeedRun,
    best_configurations,
    configurations,
    plain_configurations,
)
from tune_cl.confirmation.training import ended_result
from tune_cl.confirmation.verdict import Selected
from tune_cl.experiment.experiment import CURRICULUM, PLAIN, Arm
from tune_cl.history.state import SearchState, training_key
from tune_cl.space.wording import arm_words

SPLIT = "dev"
FIRST_SEED = 1001  # of a selection, far from those of the test, of which there may be more later
SEEDS = 1  # of each candidate, at least


@dataclass(frozen=True)
class Candidate:
    """A configuration that may be its arm's champion."""

    arm: Arm
    configuration: Configuration
    runs: Sequence[SeedRun] = ()


def candidates_of(state: SearchState, default: Configuration, request: Request) -> dict[Arm, list[Configuration]]:
    """The best configurations of each arm on dev, best first, as many as asked for; or those of the trials asked for,
    and what they are to be tested against in place of plain ones. `default`: that of the first trial."""
    candidates = request.candidates(len(state.trials))
    plain = plain_configurations(state, default)[:candidates] or [default]
    if request.against_trial is not None:
        require_trials(state, "--against-trial", [request.against_trial])
        every = (*configurations(state, default).values(), *plain_configurations(state, default), default)
        key = training_key(state.trials[request.against_trial].params)
        plain = [next(one for one in every if training_key(one.params) == key)]
    among = request.trials or (None if request.best_of is None else best_trials(state, request.best_of))
    require_trials(state, "--trials", request.trials, default)
    top = None if among else candidates
    curricula = best_configurations(state, default, None, among)
    others = [one for one in curricula if one.label != plain[0].label or request.against_trial is None]
    if not others:
        raise ConfigError(Problem("--against-trial", "the only configuration is that of this trial", "another trial"))
    return {PLAIN: plain, CURRICULUM: others[:top]}


def require_trials(state: SearchState, flag: str, names: Sequence[str], default: Configuration | None = None) -> None:
    """Raises ConfigError with each trial that there is not, that failed or gave no dev value, or that is plain training
    where `default` is given."""
    sound = {trial.trial: trial for trial, _ in state.ranked()}
    key = None if default is None else training_key(default.params)
    wrong: list[str] = []
    for name in dict.fromkeys(names):
        if name not in state.trials:
            wrong.append(f"search '{state.name}' has no trial '{name}'")
        elif name not in sound:
            wrong.append(f"trial '{name}' failed, or has no dev value")
        elif default is not None and (sound[name].arm == PLAIN or training_key(sound[name].params) == key):
            wrong.append(f"trial '{name}' is plain training, which the others are tested against")
    if wrong:
        raise ConfigError(Problem(flag, problem, "ids as tune-cl report shows them") for problem in wrong)


def best_trials(state: SearchState, key: str) -> list[str]:
    """The best trial on dev of each value of a key. Raises ConfigError for a key that the search does not open."""
    opened = state.opened_in(CURRICULUM)
    if key not in opened:
        raise ConfigError(Problem("--best-of", f"search '{state.name}' does not search '{key}'", nearest(key, opened)))
    best: dict[str, str] = {}
    for trial, _ in state.ranked_of(CURRICULUM):
        if key in trial.params:
            best.setdefault(repr(trial.params[key]), trial.trial)
    return list(best.values())


def seeds_of(request: Request, candidates: int, trials: int) -> int:
    """New seeds of each candidate: as asked for, else as many as cost half of the search's trainings at most."""
    return request.selection_seeds or max(SEEDS, trials // 2 // max(candidates, 1))


def rows_of(candidates: Sequence[Candidate], failed: Collection[str]) -> tuple[Selected, ...]:
    """The selection: in each arm the highest mean on dev is chosen, the first where means are equal. `failed`: labels
    of those with a failed training, which are not chosen."""
    rows = [_row(one, one.configuration.label in failed) for one in candidates]
    chosen = [_best([row for row in rows if row.arm == arm]) for arm in dict.fromkeys(row.arm for row in rows)]
    return tuple(replace(row, chosen=any(row is one for one in chosen)) for row in rows)


def _best(of_arm: Sequence[Selected]) -> Selected:
    sound = [row for row in of_arm if row.mean is not None] or of_arm[:1]
    return max(sound, key=lambda row: row.mean or 0.0)


def _row(candidate: Candidate, failed: bool) -> Selected:
    devs = () if failed else tuple(ended_result(run.folder, run.split)["dev"] for run in candidate.runs)
    one, mean = candidate.configuration, float(np.mean(devs)) if devs else None
    return Selected(candidate.arm, one.trial, one.label, devs, mean, chosen=False)


def in_words(rows: Sequence[Selected], metric: str, curricula: bool) -> str:
    """What a selection chose, in a line for the terminal. `curricula`: whether the question is about these."""
    chosen = [row for row in rows if row.chosen]
    names = [f"{arm_words(row.arm, curricula)} '{row.label}'" for row in chosen]
    means = [f" (dev {in_metric_words(metric)} {row.mean:.4f})" if row.mean else "" for row in chosen]
    figures = [name + mean for name, mean in zip(names, means, strict=True)]
    return f"selected: {', '.join(figures)}"


def champion(rows: Sequence[Selected], arm: Arm) -> str:
    """The label of the arm's chosen configuration."""
    return next(row.label for row in rows if row.arm == arm and row.chosen)
