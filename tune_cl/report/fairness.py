"""The section on whether early stopping was fair, above all to slow curricula."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import takewhile

import numpy as np

from tune_cl.report.analysis import FEWEST_ENDED, RankAgreement, rank_agreement, slow_bias
from tune_cl.report.findings import Findings, words
from tune_cl.report.markup import NONE, Html, number, p_value, paragraph, plain, table, tag
from tune_cl.search.schedulers import setup_of
from tune_cl.state import Dev, TrialState

LEVEL = 0.05
SPLITS = ("curriculum.pacing", "curriculum.m", "curriculum.objective_switch", "curriculum.subset")
Ended = list[tuple[TrialState, Dev]]


def ranking_section(findings: Findings) -> list[Html]:
    """How well the values at each rung would have ranked the trials that ran to the end, audited ones included."""
    ended = findings.ended
    parts = [paragraph(_stopping(findings)), *_audit(findings)]
    if len(ended) < FEWEST_ENDED:
        told = f"Too few trials ran to the end ({len(ended)}) to say how well early values ranked them: "
        return [*parts, paragraph(f"{told}at least {FEWEST_ENDED} are needed.")]
    lines = [(rung, *_agreement(findings, ended, rung)) for rung in findings.experiment.rungs]
    parts.append(table(["rung (iteration)", "trials", "Kendall's τ", "95 % interval"], lines, [1, 2, 3]))
    parts.append(paragraph(_over_whom(findings)))
    return [*parts, *_splits(findings), *_slow(findings)]


def audited(findings: Findings) -> Ended:
    """Trials that the scheduler would have stopped, finished for the audit."""
    return [(trial, at) for trial, at in findings.ended if trial.audit is not None]


def _stopping(findings: Findings) -> str:
    search = findings.experiment.search
    ended = [trial.reason or "" for trial in findings.state.by_number() if trial.outcome == "stopped_early"]
    others = Counter(reason for reason in ended if "search." in reason)  # budgets, by their keys
    also = "".join(f" {count} more ended early because {reason}." for reason, count in sorted(others.items()))
    if search.scheduler == "none":
        return f"No scheduler stopped trials; the table says how well early values would have ranked them.{also}"
    stopped = len(ended) - others.total()
    told = f"Scheduler {search.scheduler} stopped {stopped} of {len(findings.state.trials)} trials early.{also}"
    if finished := len(audited(findings)):
        told += f" It would have stopped {finished} more, which were finished on purpose (search.audit)."
    if _judges_inside(findings):
        return f"{told} Trials were judged while still inside their curriculum, too."
    if search.grace == "scaled":
        return f"{told} Trials were judged after trainings that were planned for their rung, curriculum included."
    if search.grace == "curriculum":
        return f"{told} No trial was judged before its own curriculum was over."
    return f"{told} Trials could be judged while still inside their curriculum (search.grace: {search.grace})."


def _judges_inside(findings: Findings) -> bool:
    """Whether the scheduler judges trials inside their curricula whatever `search.grace` says."""
    scheduler = findings.experiment.search.scheduler
    return scheduler == "pbt" or (scheduler == "model" and setup_of(findings.experiment).promotion)


def _audit(findings: Findings) -> list[Html]:
    """What stopping would have cost, as far as the audited trials show."""
    finished = audited(findings)
    passed = [at.dev for trial, at in findings.ended if trial.audit is None and not trial.baseline]
    if not finished or not passed:
        return []
    top, best = max(finished, key=lambda pair: pair[1].dev), max(passed)
    above = sum(at.dev > best for _, at in finished)
    usual = float(np.median(passed))
    level = sum(at.dev > usual for _, at in finished)
    told = (
        f"Of the {len(finished)} audited trials {above} ended above the best trial that was let through "
        f"({number(best)}), {level} above the median of those ({number(usual)}). "
    )
    if above:
        told += f"Stopping would have lost {number(top[1].dev - best)} {findings.metric} ({words(top[0])})."
    else:
        told += f"Stopping lost nothing among them: the best of them ended at {number(top[1].dev)}."
    return [paragraph(told)]


def _over_whom(findings: Findings) -> str:
    told = f"Rank correlation of the best value up to each rung with the final one, over {len(findings.ended)} trials."
    search = findings.experiment.search
    if search.scheduler == "none":
        return told
    if search.scheduler == "pbt":
        return f"{told} None was stopped, but a copy of another trial went on with that one's weights."
    if audited(findings):
        return (
            f"{told} The audited ones are a sample of the stopped, so each stands for several: the stopped "
            "count for too little in τ."
        )
    told += " Only trials that were let through ran to the end: how the stopped ones would have ended is not known."
    if search.grace == "scaled":
        return f"{told} The values at a rung are those of the trainings planned for it; the baseline had none."
    return f"{told} search.audit: N finishes up to N of them to find out."


def _until(findings: Findings, trial: TrialState, rung: int) -> float:
    """The best value up to the rung, under grace `scaled` of the training planned for it; NaN if there is none."""
    if findings.experiment.search.grace == "scaled":
        earlier = trial.before()
        while earlier and max(earlier.dev(findings.metric), default=0) != rung:
            earlier = earlier.before()
        if earlier is None:
            return math.nan
        trial = earlier
    values = [value for _, value in takewhile(lambda item: item[0] <= rung, trial.dev(findings.metric).items())]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _early_and_final(findings: Findings, ended: Ended, rung: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best value up to the rung, final value and end of the curriculum of the trials with a value by then, [N] each."""
    lines = [(_until(findings, trial, rung), at.dev, findings.past_curriculum(trial)) for trial, at in ended]
    early, final, past = np.array(lines, np.float64).reshape(-1, 3).T
    known = ~np.isnan(early)
    return early[known], final[known], past[known]


def _agreement(findings: Findings, ended: Ended, rung: int) -> tuple[object, ...]:
    """The number of trials, τ and its interval, as table cells."""
    early, final, _ = _early_and_final(findings, ended, rung)
    found: RankAgreement | None = rank_agreement(early, final)
    if not found:
        return len(final), NONE, "too few, or all equal"
    return found.trials, number(found.tau, 2), f"[{number(found.low, 2)}, {number(found.high, 2)}]"


def _splits(findings: Findings) -> list[Html]:
    """The same within trials that have a value of an opened key in common, for keys that divide curricula by kind."""
    keys = [key for key in SPLITS if key in findings.experiment.space.leaves]
    groups: dict[tuple[str, str], Ended] = defaultdict(list)
    for trial, at in findings.ended:
        for key in keys:
            if key in trial.params and not trial.baseline:
                groups[key.removeprefix("curriculum."), plain(trial.params[key])].append((trial, at))
    large = {names: ended for names, ended in sorted(groups.items()) if len(ended) >= FEWEST_ENDED}
    names = ", ".join(key.removeprefix("curriculum.") for key in keys)
    if not large:
        few = f"No split by {names}: no value has {FEWEST_ENDED} trials that ran to the end."
        return [paragraph(few)] if keys else []
    lines = [(f"{key} {value}", rung, *_agreement(findings, ended, rung))
             for (key, value), ended in large.items() for rung in findings.experiment.rungs]  # fmt: skip
    told = table(["trials with", "rung", "trials", "Kendall's τ", "95 % interval"], lines, [1, 2, 3, 4])
    return [tag("details", tag("summary", f"Split by {names}"), told)]


def _slow(findings: Findings) -> list[Html]:
    """Whether the first rung is unfair to slow curricula."""
    rungs = findings.experiment.rungs
    found = slow_bias(*_early_and_final(findings, findings.ended, rungs[0])) if rungs else None
    if not found:
        told = "Too few slow and quick curricula ran to the end to say whether stopping early is unfair to slow ones."
        return [paragraph(told)]
    way = "worse" if found.places > 0 else "better"
    told = (
        f"At iteration {rungs[0]} the {found.slow} trials with the longer curricula stood on average "
        f"{abs(found.places):.1f} places {way} than at the end, set against the other {found.fast} "
        f"(Mann-Whitney p {p_value(found.p)}): "
    )
    biased = found.p <= LEVEL and found.places > 0
    search = findings.experiment.search
    if not biased:
        told += "no bias against them is shown."
    elif search.scheduler in ("none", "pbt"):
        told += "stopping early would be unfair to slow curricula."
    elif search.grace == "curriculum" and not _judges_inside(findings):
        told += "stopping early would be unfair to slow curricula without this grace (search.grace: curriculum)."
    else:
        told += "stopping early is unfair to slow curricula."
    return [paragraph(told)]
