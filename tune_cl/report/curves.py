"""Sections over time: learning curves, cost against quality, pacing, cost."""

from __future__ import annotations

import math

from tune_cl.report.charts import Line, Mark, line_chart
from tune_cl.report.findings import Findings, Reached, words
from tune_cl.report.markup import NONE, Html, figure, legend, number, paragraph, table, tag
from tune_cl.state import TrialState

MOST_LINES = 250  # trials drawn; more would make the page slow and the chart unreadable
KEYS = [("best", "best curriculum on dev"), ("baseline", "plain training"), ("trial", "other trials")]


def drawn(findings: Findings) -> list[TrialState]:
    """The baseline, the best trials and, if there is room, those that failed."""
    best = [trial for trial, _ in findings.ranked][:MOST_LINES]
    baseline = findings.state.baseline_trial()
    failed = [trial for trial in findings.state.by_number() if trial.outcome == "failed" and not trial.baseline]
    return [*([baseline] if baseline else []), *best, *failed[: MOST_LINES - len(best)]]


def role(findings: Findings, trial: TrialState) -> str:
    if trial.baseline:
        return "baseline"
    if trial.outcome == "failed":
        return "failed"
    return "best" if findings.ranked and findings.ranked[0][0] is trial else "trial"


def tip(findings: Findings, trial: TrialState) -> str:
    at = trial.best(findings.metric)
    reached = f"best {number(at.dev)} at iteration {at.iteration}" if at else "no dev value"
    return f"{words(trial)}: {reached}; {(trial.outcome or 'running').replace('_', ' ')}"


def _left_out(findings: Findings) -> Html | None:
    left = len(findings.state.trials) - len(drawn(findings))
    return paragraph(f"Not drawn: {left} of {len(findings.state.trials)} trials.") if left > 0 else None


def learning_section(findings: Findings) -> list[Html]:
    """The dev metric over iterations, with a line for each trial."""
    lines = [_learning_line(findings, trial) for trial in drawn(findings) if trial.results]
    if not lines:
        return [paragraph("No trial has reported an iteration yet.")]
    end = "switch" if findings.grows_trees else "T, m"
    signs = [*KEYS, *([("curriculum", f"curriculum over ({end})")] if findings.over_curricula else [])]
    signs += [("cross", "stopped early")]
    signs += [("failed", "failed")] if findings.state.counts()["failed"] else []
    chart, keys = line_chart(lines, "iteration", f"dev {findings.metric}"), legend(findings.signs(signs))
    return [tag("div", figure("Each trial on dev", chart, keys, _left_out(findings)), _outcomes(findings),
                class_="charts")]  # fmt: skip


def _learning_line(findings: Findings, trial: TrialState) -> Line:
    dev = trial.dev(findings.metric)
    marks = []
    past = findings.past_curriculum(trial)
    if past in dev:
        marks.append(Mark((past, dev[past]), "curriculum", f"{words(trial)}: curriculum over at iteration {past}"))
    if trial.outcome == "stopped_early" and dev:
        last = max(dev)
        marks.append(Mark((last, dev[last]), "stopped", f"{words(trial)}: {trial.reason or 'stopped early'}"))
    return Line(trial.trial, role(findings, trial), tip(findings, trial), list(dev.items()), marks)


def _outcomes(findings: Findings) -> Html:
    """How trials ended, and why failed ones did."""
    counts = findings.state.counts()
    told = table(["outcome", "trials"], [(name.replace("_", " "), count) for name, count in counts.items()], [1])
    failed = [trial for trial in findings.state.by_number() if trial.outcome == "failed"]
    reasons = [tag("li", f"{words(trial)}: {trial.reason or 'no reason given'}") for trial in failed[:10]]
    more = f"{len(failed)} failed; the first {len(reasons)}:" if len(failed) > len(reasons) else "Failed:"
    return tag("div", told, *([paragraph(more), tag("ul", *reasons)] if reasons else []))


def cost_section(findings: Findings) -> list[Html]:
    """The best value so far, over what the search had cost by then."""
    best = _best_so_far(findings)
    if not best:
        return [paragraph(findings.in_terms("No trial with a curriculum has given a dev value yet."))]
    level = findings.baseline[1].dev if findings.baseline else None
    charts = []
    for title, key, unit, whole in (
        ("Over iterations of all trials", "iterations", "iterations", True),
        ("Over time", "seconds", "seconds", False),
    ):
        lines = [_step_line(findings, best, key)]
        signs = [("best", "best curriculum so far"), ("found", "moment it was found")]
        signs += [("level", "plain training, at its best")] if level is not None else []
        chart = line_chart(lines, unit, f"best dev {findings.metric} so far", True, level, whole)
        charts.append(figure(title, chart, legend(findings.signs(signs))))
    return [
        tag("div", *charts, class_="charts"),
        paragraph("Time counts while the search ran, not while it was stopped."),
    ]


def _best_so_far(findings: Findings) -> list[Reached]:
    """The results that raised the best dev value so far, of sound trials other than the baseline."""
    sound = {trial.trial for trial, _ in findings.ranked}
    risen: list[Reached] = []
    for at in findings.reached:
        if at.trial in sound and at.dev > (risen[-1].dev if risen else -math.inf):
            risen.append(at)
    return risen


def _step_line(findings: Findings, risen: list[Reached], key: str) -> Line:
    end = getattr(findings.reached[-1], key)
    points = [(getattr(at, key), at.dev) for at in risen]
    marks = [
        Mark(point, "found", f"{number(at.dev)} by {words(findings.state.trials[at.trial])}, {_when(at)}")
        for point, at in zip(points, risen, strict=True)
    ]
    return Line("", "best", "best so far", [*points, (end, risen[-1].dev)], marks)


def _when(at: Reached) -> str:
    return f"its iteration {at.iteration}, after {at.iterations} iterations and {at.seconds:.0f} s of the search"


def pacing_section(findings: Findings) -> list[Html]:
    """The share of the training data that was open, as reported by the trials."""
    lines = []
    for trial in drawn(findings):
        shares = {at: values["available_share"] for at, values in sorted(trial.results.items())
                  if "available_share" in values}  # fmt: skip
        if shares:
            lines.append(Line(trial.trial, role(findings, trial), tip(findings, trial), list(shares.items())))
    if not any(share < 1 for line in lines for _, share in line.points):
        return [paragraph("No trial held training data back: all of it was open at all times.")]
    chart = line_chart(lines, "iteration", "share of the training data open")
    note = paragraph(
        "The share of the documents that the trees of each iteration grow on: those of the subset before the switch."
        if findings.grows_trees
        else "The share that the pacing function opens at the last step of each iteration. Batches that are sorted by "
        "length together are drawn from what was open at the first of them."
    )
    keys = legend(findings.signs(KEYS))
    return [tag("div", figure("Each trial in training", chart, keys, note, _left_out(findings)), class_="charts")]


def spent_section(findings: Findings) -> list[Html]:
    """What the search cost, beside its forecast."""
    state = findings.state
    end, forecast = state.end or {}, state.forecast
    cost = end.get("cost", {})
    lines = [
        ("trials", forecast.get("trials"), len(state.trials)),
        ("iterations, expected", forecast.get("iterations_expected"), state.iterations),
        ("iterations, at most", forecast.get("iterations_at_most"), state.iterations),
        ("seconds, from start to end", _seconds(forecast.get("hours_forecast")), round(state.seconds)),
        ("CPU hours reserved by trials", forecast.get("cpu_hours_forecast"), cost.get("cpu_hours")),
        ("GPU hours reserved by trials", forecast.get("gpu_hours_forecast"), cost.get("gpu_hours")),
    ]
    if "cost_forecast" in forecast:
        lines.append(("cost of that, at search.price", forecast["cost_forecast"], cost.get("price")))
    told = table(["", "forecast", "true"], [(name, _amount(before), _amount(after)) for name, before, after in lines],
                 [1, 2])  # fmt: skip
    notes = ["The forecast of the time leaves out what starting takes: Ray, its workers, and reading the data."]
    if not state.end:
        notes.append("The search has not come to its end; hours reserved are known then.")
    return [told, *map(paragraph, notes)]


def _seconds(hours: float | None) -> int | None:
    return None if hours is None else round(3600 * hours)


def _amount(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
