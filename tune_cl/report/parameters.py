"""Sections about the search as such: its parameters, how early stopping ranked, how to do it again."""

from __future__ import annotations

import math
from itertools import takewhile

import numpy as np

from tune_cl.journal import TrialState
from tune_cl.place import program
from tune_cl.report.analysis import (
    FEWEST_ENDED,
    FEWEST_TRIALS,
    PERMUTATIONS,
    Importance,
    importance,
    rank_agreement,
    slow_bias,
)
from tune_cl.report.charts import share_chart
from tune_cl.report.curves import MOST_LINES
from tune_cl.report.findings import Findings, words
from tune_cl.report.markup import NONE, Html, code, figure, number, p_value, paragraph, plain, table, tag
from tune_cl.report.parallel import Traveller, parallel_chart
from tune_cl.report.verdict import settings

LEVEL = 0.05


def parameters_section(findings: Findings) -> list[Html]:
    """Parallel coordinates, and how much of the differences goes with each parameter."""
    leaves = findings.experiment.space.leaves
    ranked = findings.ranked
    if not ranked:
        return [paragraph("No trial with a curriculum has given a dev value yet.")]
    travellers = [
        Traveller(trial.trial, trial.number, trial.chosen, at.dev, 1 - place / max(len(ranked) - 1, 1),
                  f"{words(trial)} ({settings(trial.chosen)})")
        for place, (trial, at) in enumerate(ranked)
    ][:MOST_LINES]  # fmt: skip
    note = (
        "A line is a trial, from top to bottom; the better its rank on dev, the stronger its colour. A parameter that "
        "does not exist under a trial's other choices is absent, not zero. The baseline is no point of the space."
    )
    chart = parallel_chart(leaves, travellers, findings.metric)
    return [tag("div", figure("What the trials chose", chart, paragraph(note)), _importance(findings), class_="charts")]


def _importance(findings: Findings) -> Html:
    known, passed = importances(findings)
    head = tag("figcaption", "What the differences go with")
    if not known:
        told = (
            f"Not computed: no parameter exists, with two or more values, in at least {FEWEST_TRIALS} trials that "
            f"gave different dev values ({len(findings.ranked)} trials gave one)."
        )
        return tag("figure", head, paragraph(told))
    names = [found.key.removeprefix("curriculum.") for found in known]
    chart = share_chart(names, [found.share for found in known], [found.chance for found in known], "share of variance")
    lines = [(name, found.trials, number(found.share, 2), p_value(found.p), found.best)
             for name, found in zip(names, known, strict=True)]  # fmt: skip
    told = table(["parameter", "trials", "share", "p", "highest mean"], lines, [1, 2, 3])
    return tag("figure", head, chart, paragraph(_how(findings, known, passed)), told)


def importances(findings: Findings) -> tuple[list[Importance], list[str]]:
    """Importance of each opened parameter, largest first, and the keys of those that have none."""
    known, passed = [], []
    for key in findings.experiment.space.leaves:
        present = [(trial.chosen[key], at.dev) for trial, at in findings.ranked if key in trial.chosen]
        values = [value for value, _ in present]
        found = importance(key, values, np.array([dev for _, dev in present]), [plain(value) for value in values])
        if found:
            known.append(found)
        else:
            passed.append(key)
    return sorted(known, key=lambda found: -found.share), passed


def _how(findings: Findings, known: list[Importance], passed: list[str]) -> str:
    clear = [found.key for found in known if found.p <= LEVEL / len(known)]
    told = (
        "Share of the variance of the dev ranks that lies between the values of a parameter (a range is cut into "
        "thirds), over the trials in which it exists. The dashed tick is what the share stays below in 95 of 100 "
        f"random exchanges of the dev values ({PERMUTATIONS} drawn); p is uncorrected. "
    )
    told += f"Beyond chance after correction for {len(known)} parameters: {', '.join(clear) or 'none'}. "
    if findings.state.counts()["stopped_early"]:
        told += "Trials stopped early count with the value they had reached, which may be too low. "
    if findings.experiment.search.searcher != "random":
        searcher = findings.experiment.search.searcher
        told += f"Trials chosen by {searcher} are not independent, so p is only a rough guide. "
    if passed:
        told += f"Too few trials or values for: {', '.join(passed)}."
    return told


# -- early stopping ----------------------------------------------------------------------------------------------


def ranking_section(findings: Findings) -> list[Html]:
    """How well a look at each rung would have ranked the trials that ran to the end."""
    ended = findings.ended
    scheduler = findings.experiment.search.scheduler
    parts = [paragraph(_stopping(findings))]
    if len(ended) < FEWEST_ENDED:
        told = f"Too few trials ran to the end ({len(ended)}) to say how well early values ranked them: "
        return [*parts, paragraph(f"{told}at least {FEWEST_ENDED} are needed.")]
    lines = [_rung_line(findings, rung) for rung in findings.experiment.rungs]
    parts.append(table(["rung (iteration)", "trials", "Kendall's τ", "95 % interval"], lines, [1, 2, 3]))
    told = f"Rank correlation of the best value up to each rung with the final one, over {len(ended)} trials."
    if scheduler != "none":
        told += " Only trials that were let through ran to the end: how the stopped ones would have ended is not known."
    return [*parts, paragraph(told), *_slow(findings)]


def _stopping(findings: Findings) -> str:
    search, stopped = findings.experiment.search, findings.state.counts()["stopped_early"]
    if search.scheduler == "none":
        return "No scheduler stopped trials; the table says how well early values would have ranked them."
    told = f"Scheduler {search.scheduler} stopped {stopped} of {len(findings.state.trials)} trials early."
    if search.grace == "curriculum":
        return f"{told} No trial was judged before its own curriculum was over."
    return f"{told} Trials could be judged while still inside their curriculum (search.grace: {search.grace})."


def _until(findings: Findings, trial: TrialState, rung: int) -> float:
    """The best value up to the rung, NaN where there is none."""
    values = [value for _, value in takewhile(lambda item: item[0] <= rung, trial.dev(findings.metric).items())]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _early_and_final(findings: Findings, rung: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value at the rung, final value, end of the curriculum, of the trials that have all: [N] each."""
    lines = [(_until(findings, trial, rung), at.dev, findings.past_curriculum(trial)) for trial, at in findings.ended]
    early, final, past = np.array(lines, np.float64).reshape(-1, 3).T
    known = ~np.isnan(early)
    return early[known], final[known], past[known]


def _rung_line(findings: Findings, rung: int) -> tuple[object, ...]:
    early, final, _ = _early_and_final(findings, rung)
    found = rank_agreement(rung, early, final)
    if not found:
        return rung, len(final), NONE, "too few, or all equal"
    return rung, found.trials, number(found.tau, 2), f"[{number(found.low, 2)}, {number(found.high, 2)}]"


def _slow(findings: Findings) -> list[Html]:
    """Whether the first rung wrongs slow curricula."""
    rungs = findings.experiment.rungs
    found = slow_bias(*_early_and_final(findings, rungs[0])) if rungs else None
    if not found:
        return [
            paragraph("Too few slow and quick curricula ran to the end to say whether an early look wrongs slow ones.")
        ]
    way = "worse" if found.places > 0 else "better"
    told = (
        f"At iteration {rungs[0]} the {found.slow} trials with the longer curricula stood on average "
        f"{abs(found.places):.1f} places {way} than at the end, set against the other {found.fast} "
        f"(Mann-Whitney p {p_value(found.p)}): "
    )
    biased = found.p <= LEVEL and found.places > 0
    return [paragraph(told + ("an early look wrongs slow curricula." if biased else "no bias against them is shown."))]


def repeat_section(findings: Findings) -> list[Html]:
    """Versions, seeds, data, and the commands that do all of it again."""
    state, place = findings.state, findings.place
    facts = [
        ("data", f"{state.data.get('name', NONE)} (digest {str(state.data.get('digest', NONE))[:16]})"),
        ("ranker", state.ranker),
        ("metric", state.metric),
        ("seed of the search", state.seed),
        *([("seeds of the confirmation", ", ".join(map(str, findings.confirmation["seeds"])))]
          if findings.confirmation else []),
        ("sessions", state.sessions),
        ("git commit", (state.git_commit or NONE)[:12]),
        *sorted(state.versions.items()),
    ]  # fmt: skip
    commands = [f"{program('tune-cl')} run search.yaml", place.command("confirm"), place.command("report")]
    text = "The search as it was, with everything the command line changed; save it as search.yaml:"
    return [
        code(*commands),
        tag("details", tag("summary", text), code(state.yaml.rstrip())),
        table(["", ""], facts),
    ]
