"""Was early stopping fair? How well early values ranked the trials that ran to the end."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau, mannwhitneyu, rankdata

from tune_cl.experiment.experiment import CURRICULUM
from tune_cl.history.state import Dev, TrialState
from tune_cl.report.document import RungRow, StoppingPart
from tune_cl.report.findings import Findings
from tune_cl.report.wording import p_value, plain

FEWEST_ENDED = 5
LEVEL = 0.05
SPLITS = ("curriculum.pacing", "curriculum.m", "curriculum.objective_switch", "curriculum.subset")
Ended = list[tuple[TrialState, Dev]]


def stopping(findings: Findings) -> StoppingPart:
    """Rank correlation of the best value up to each rung with the final one, over the trials that ran to the end:
    `rungs`, and `splits` within trials that have a value of an opened key in common; empty below FEWEST_ENDED.
    """
    enough = len(findings.ended) >= FEWEST_ENDED
    keys = [key for key in SPLITS if key in findings.experiment.space.leaves]
    return StoppingPart(
        stopped=_stopping(findings),
        ended=len(findings.ended),
        fewest=FEWEST_ENDED,
        rungs=_rungs(findings, findings.ended) if enough else [],
        lets_through=findings.experiment.search.scheduler != "none",
        split_by=[key.removeprefix("curriculum.") for key in keys],
        splits=_splits(findings, keys) if enough else [],
        slow=_slow(findings) if enough else "",
    )


def _stopping(findings: Findings) -> str:
    search = findings.experiment.search
    ended = [trial.reason or "" for trial in findings.state.by_number() if trial.outcome == "stopped_early"]
    others = Counter(reason for reason in ended if "search." in reason)  # budgets, by their keys
    also = "".join(f" {count} more ended early because {reason}." for reason, count in sorted(others.items()))
    if search.scheduler == "none":
        return f"No scheduler stopped trials; the table says how well early values would have ranked them.{also}"
    stopped = len(ended) - others.total()
    text = f"Scheduler {search.scheduler} stopped {stopped} of {len(findings.state.trials)} trials early.{also}"
    if findings.experiment.compares_inside_curricula:
        return f"{text} Trials were compared while still inside their curriculum, too."
    if search.grace == "curriculum":
        return f"{text} No trial was compared before its own curriculum was over."
    return f"{text} Trials could be compared while still inside their curriculum (search.grace: {search.grace})."


def _until(findings: Findings, trial: TrialState, rung: int) -> float:
    """The best value up to the rung; NaN if there is none."""
    values = [value for _, value in takewhile(lambda item: item[0] <= rung, trial.dev(findings.metric).items())]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _early_and_final(findings: Findings, ended: Ended, rung: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best value up to the rung, final value and end of the curriculum of the trials with a value by then, [N] each."""
    lines = [(_until(findings, trial, rung), at.dev, findings.past_curriculum(trial)) for trial, at in ended]
    early, final, past = np.array(lines, np.float64).reshape(-1, 3).T
    valid = ~np.isnan(early)
    return early[valid], final[valid], past[valid]


def _rungs(findings: Findings, ended: Ended) -> list[RungRow]:
    """At each rung the number of trials, τ and its interval."""
    found = []
    for rung in findings.experiment.rungs:
        early, final, _ = _early_and_final(findings, ended, rung)
        one = rank_agreement(early, final)
        found.append(RungRow(rung, len(final), one and one.tau, one and (one.low, one.high)))
    return found


def _splits(findings: Findings, keys: list[str]) -> list[RungRow]:
    """The same within trials that have a value in common, for keys that divide curricula by kind."""
    groups: dict[tuple[str, str], Ended] = defaultdict(list)
    for trial, at in findings.ended:
        for key in keys:
            if key in trial.params and trial.arm == CURRICULUM:
                groups[key.removeprefix("curriculum."), plain(trial.params[key])].append((trial, at))
    large = {f"{key} {value}": ended for (key, value), ended in sorted(groups.items()) if len(ended) >= FEWEST_ENDED}
    return [replace(row, with_=name) for name, ended in large.items() for row in _rungs(findings, ended)]


def _slow(findings: Findings) -> str:
    """Whether the first rung is unfair to slow curricula."""
    rungs = findings.experiment.rungs
    bias = slow_bias(*_early_and_final(findings, findings.ended, rungs[0])) if rungs else None
    if not bias:
        return "Too few slow and quick curricula ran to the end to say whether stopping early is unfair to slow ones."
    way = "worse" if bias.ranks > 0 else "better"
    text = (
        f"At iteration {rungs[0]} the {bias.slow} trials with the longer curricula stood on average "
        f"{abs(bias.ranks):.1f} ranks {way} than at the end, relative to the other {bias.fast} "
        f"(Mann-Whitney p {p_value(bias.p)}): "
    )
    search = findings.experiment.search
    if bias.p > LEVEL or bias.ranks <= 0:
        return f"{text}no bias against them is shown."
    if search.scheduler == "none":
        return f"{text}stopping early would be unfair to slow curricula."
    if search.grace == "curriculum" and not findings.experiment.compares_inside_curricula:
        return f"{text}stopping early would be unfair to slow curricula without this grace (search.grace: curriculum)."
    return f"{text}stopping early is unfair to slow curricula."


class RankAgreement(NamedTuple):
    """Kendall's τ-b between the values at one iteration and the final ones, and its interval."""

    tau: float
    low: float
    high: float


def rank_agreement(early: np.ndarray, final: np.ndarray) -> RankAgreement | None:
    """τ with a 95 % interval: atanh τ has the variance .437 / (n - 4) (Fieller, Hartley & Pearson 1957).

    For the interval, τ = ±1 is reduced by half an exchanged pair, because a handful of trials never proves perfection.
    None for fewer than FEWEST_ENDED trials, or if all early or all final values are equal.
    """
    n = len(final)
    if n < FEWEST_ENDED:
        return None
    tau = float(np.asarray(kendalltau(early, final))[0])
    if math.isnan(tau):
        return None
    limit = 1 - 2 / (n * (n - 1))
    centre, half = math.atanh(min(max(tau, -limit), limit)), 1.96 * math.sqrt(0.437 / (n - 4))
    low, high = math.tanh(centre - half), math.tanh(centre + half)
    return RankAgreement(tau, min(low, tau), max(high, tau))


class SlowBias(NamedTuple):
    """By how many `ranks` trials with long curricula stood lower early than at the end, minus that of the others."""

    slow: int
    fast: int
    ranks: float
    p: float


def slow_bias(early: np.ndarray, final: np.ndarray, past: np.ndarray) -> SlowBias | None:
    """Whether stopping early is unfair to slow curricula, by Mann & Whitney's test of the change of rank.

    `past` [N]: where each trial's curriculum ends; those above the median are slow. None for fewer than 3 a side.
    """
    slow = past > np.median(past)
    if min(slow.sum(), (~slow).sum()) < 3:
        return None
    lost = rankdata(-early) - rankdata(-final)
    p = float(mannwhitneyu(lost[slow], lost[~slow])[1])
    return SlowBias(int(slow.sum()), int((~slow).sum()), float(lost[slow].mean() - lost[~slow].mean()), p)
