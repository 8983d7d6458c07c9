"""Sections about the search as a whole: its parameters, and how to repeat it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tune_cl.confirmation.request import Request
from tune_cl.report.analysis import FEWEST_TRIALS, PERMUTATIONS, Importance, importance
from tune_cl.report.charts import share_chart
from tune_cl.report.curves import MOST_LINES
from tune_cl.report.findings import Findings, words
from tune_cl.report.markup import NONE, Html, code, figure, key_name, number, p_value, paragraph, plain, table, tag
from tune_cl.report.parallel import Traveller, parallel_chart

LEVEL = 0.05


def parameters_section(findings: Findings) -> list[Html]:
    """Parallel coordinates, and how much of the trials' differences goes with each parameter."""
    leaves = findings.experiment.space.leaves
    ranked = findings.ranked
    if not ranked:
        return [paragraph(findings.in_terms("No trial with a curriculum has given a dev value yet."))]
    travellers = [
        Traveller(trial.trial, trial.number, trial.chosen, at.dev, 1 - place / max(len(ranked) - 1, 1),
                  words(trial))
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
    head = tag("figcaption", "Parameters that go with dev quality")
    if not known:
        told = (
            f"Not computed: no parameter exists, with two or more values, in at least {FEWEST_TRIALS} trials that "
            f"gave different dev values ({len(findings.ranked)} trials gave one)."
        )
        return tag("figure", head, paragraph(told))
    names = [key_name(found.key) for found in known]
    chart = share_chart(names, [found.share for found in known], [found.chance for found in known], "share of variance")
    lines = [(name, found.trials, number(found.share, 2), p_value(found.p), found.best)
             for name, found in zip(names, known, strict=True)]  # fmt: skip
    told = table(["parameter", "trials", "share", "p", "highest mean"], lines, [1, 2, 3])
    return tag("figure", head, chart, paragraph(_how(findings, known, passed)), told)


def importances(findings: Findings) -> tuple[list[Importance], list[str]]:
    """The importances of opened parameters, largest first, and the keys for which none can be computed."""
    known, passed = [], []
    for key in findings.experiment.space.leaves:
        present = [(trial.chosen[key], dev) for trial, dev, _ in findings.standings
                   if key in trial.chosen and not trial.baseline]  # fmt: skip
        values = [value for value, _ in present]
        found = importance(key, values, np.array([dev for _, dev in present]), [plain(value) for value in values])
        if found:
            known.append(found)
        else:
            passed.append(key)
    return sorted(known, key=lambda found: -found.share), passed


def _how(findings: Findings, known: list[Importance], passed: list[str]) -> str:
    clear = [key_name(found.key) for found in known if found.p <= LEVEL / len(known)]
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
        told += f"Too few trials or values for: {', '.join(map(key_name, passed))}."
    return told


def repeat_section(findings: Findings) -> list[Html]:
    """The commands that repeat the search, and its versions, seeds and data."""
    state, place, rankers = findings.state, findings.place, findings.experiment.rankers
    facts = [
        ("data", f"{state.data.get('name', NONE)} (digest {str(state.data.get('digest', NONE))[:16]})"),
        ("rankers" if len(rankers) > 1 else "ranker", ", ".join(rankers)),
        ("metric", state.metric),
        ("seed of the search", state.seed),
        *([("seeds of the confirmation", ", ".join(map(str, findings.confirmation["seeds"])))]
          if findings.confirmation else []),
        ("sessions", state.sessions),
        ("git commit", (state.git_commit or NONE)[:12]),
        *sorted(state.versions.items()),
    ]  # fmt: skip
    again = replace(place, name="again" if place.name != "again" else "once-more")  # the old name is taken
    run = again.command("run search.yaml --name")
    asked = (findings.confirmation or {}).get("asked")
    confirm = Request(**asked).command(again, None) if asked else again.command("confirm")
    commands = [run, confirm, again.command("report")]
    text = "The search as it was, with everything the command line changed; save it as search.yaml:"
    return [
        code(*commands),
        tag("details", tag("summary", text), code(state.yaml.rstrip())),
        table(["", ""], facts),
    ]
