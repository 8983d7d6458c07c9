"""Which configuration of each arm meets the others on test: the best few of each are trained with new seeds, and dev
chooses.

The dev values of the search chose among many configurations on one seed; the best of them owes much to that seed. The
trainings of a selection have seeds that the test does not use, so what it chooses by chance does not count twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.evaluation.crossed import new_seeds_tests
from tune_cl.experiment.arms import ARMS, CURRICULUM, PLAIN, Arm
from tune_cl.history.state import SearchState
from tune_cl.results import Candidate
from tune_cl.verdict.contenders import Contender, Contenders, best_contenders
from tune_cl.verdict.test import LEVEL
from tune_cl.verdict.trainings import SeedRun, ended_result, values_by_query

SPLIT = "dev"
FIRST_SEED = 1001  # of a selection, far from those of the test, of which there may be more later
MANY = 12  # trials of a search: three candidates of each arm cost half of it


@dataclass(frozen=True)
class Choice:
    """A configuration that may be its arm's champion, and its trainings with new seeds; none where its arm has no
    choice."""

    arm: Arm
    contender: Contender
    runs: Sequence[SeedRun] = field(default_factory=tuple)


def choices(
    state: SearchState, contenders: Contenders, top: int | None, trials: Sequence[str]
) -> dict[Arm, list[Contender]]:
    """The best configurations of each arm on dev, best first. trials: the curricula to test, in place of the best ones.
    Raises ConfigError for trials that cannot be tested."""
    number = top or (3 if trials or len(state.trials) >= MANY else 2)
    plain = best_contenders(state, contenders, PLAIN)[:number] or [next(iter(contenders.values()))]
    _require_curricula(state, trials)
    curricula = best_contenders(state, contenders, CURRICULUM, trials or None)
    if not curricula:
        right = "a search with at least one trial besides the baseline that did not fail"
        raise ConfigError(Problem("NAME", f"search '{state.name}' has no configuration to confirm", right))
    return {PLAIN: plain, CURRICULUM: curricula if trials else curricula[:number]}


def _require_curricula(state: SearchState, names: Sequence[str]) -> None:
    sound = {trial.trial: trial for trial, _ in state.ranked()}
    wrong: list[str] = []
    for name in names:
        if name not in state.trials:
            wrong.append(f"search '{state.name}' has no trial '{name}'")
        elif name not in sound:
            wrong.append(f"trial '{name}' failed, or has no dev value")
        elif sound[name].arm == PLAIN:
            wrong.append(f"trial '{name}' is plain training, which the others are tested against")
    if wrong:
        raise ConfigError(Problem("--trials", problem, "ids as tune-cl report shows them") for problem in wrong)


def selecting(arms: Mapping[Arm, Sequence[Contender]], given: bool, trials: int) -> tuple[Sequence[Arm], int]:
    """The arms that have a choice, and the new seeds of each candidate: as many as cost half of the search's trainings,
    at least one. given: whether the curricula are those that the user named."""
    choosing: list[Arm] = [arm for arm, of_arm in arms.items() if len(of_arm) > 1 and not (given and arm == CURRICULUM)]
    candidates = sum(len(arms[arm]) for arm in choosing)
    return choosing, max(1, trials // 2 // max(candidates, 1))


def selected(candidates: Sequence[Choice], failed: Collection[str]) -> tuple[Candidate, ...]:
    """In each arm the highest mean on dev is chosen, the first where means are equal. failed: labels of those with a
    failed training, which are not chosen."""
    values = [_dev_values(one, failed) for one in candidates]
    means = [float(np.mean(devs)) if devs else None for devs in values]
    chosen = [_best(candidates, means, arm) for arm in ARMS]
    return tuple(
        Candidate(
            arm=one.arm,
            trial_id=one.contender.trial_id,
            label=one.contender.label,
            values=devs,
            mean=mean,
            chosen=place in chosen,
        )
        for place, (one, devs, mean) in enumerate(zip(candidates, values, means, strict=True))
    )


def _dev_values(one: Choice, failed: Collection[str]) -> tuple[float, ...]:
    if one.contender.label in failed:
        return ()
    return tuple(ended_result(run.folder, run.split)["dev"] for run in one.runs)


def _best(candidates: Sequence[Choice], means: Sequence[float | None], arm: Arm) -> int:
    of_arm = [place for place, one in enumerate(candidates) if one.arm == arm]
    best = [place for place in of_arm if means[place] is not None] or of_arm[:1]
    return max(best, key=lambda place: means[place] or 0.0)


def champion(candidates: Sequence[Choice], selection: Sequence[Candidate], arm: Arm) -> Contender:
    rows = zip(candidates, selection, strict=True)
    return next(one.contender for one, row in rows if row.arm == arm and row.chosen)


def is_clearly_below(one: Choice, other: Choice, metric: str) -> bool:
    """Whether a selection shows that a configuration is below another one of its arm, for new seeds and queries."""
    if min(len(one.runs), len(other.runs)) < 2 or one is other:
        return False
    own, others = _by_seed(one, metric), _by_seed(other, metric)
    [test] = new_seeds_tests([(own, others)], paired=False)
    return own.mean() < others.mean() and test.p <= LEVEL  # false for NaN


def _by_seed(one: Choice, metric: str) -> np.ndarray:
    """Values [seeds, queries] on dev."""
    return np.array([list(values_by_query(run.folder, run.split, metric).values()) for run in one.runs])
