"""Sections over time: learning curves, cost against quality, pacing, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tune_cl.confirmation.request import Request
from tune_cl.history.state import TrialState
from tune_cl.report.charts import Line, Mark, Polyline, line_chart, parallel_chart, share_chart
from tune_cl.report.findings import FEWEST_TRIALS, PERMUTATIONS, Findings, Importance, Reached, importance, words
from tune_cl.report.markup import (
    BLOCKS,
    NONE,
    Markup,
    code,
    details,
    figure,
    key_name,
    legend,
    number,
    p_value,
    paragraph,
    plain,
    side_by_side,
    table,
)

MOST_LINES = 250  # trials drawn; more would make the page slow and the chart unreadable
KEYS = [("best", "best trial on dev"), ("baseline", "baseline"), ("trial", "other trials")]


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


def _not_drawn(findings: Findings) -> Markup | None:
    missing = len(findings.state.trials) - len(drawn(findings))
    return paragraph(f"Not drawn: {missing} of {len(findings.state.trials)} trials.") if missing > 0 else None


def learning_section(findings: Findings) -> list[Markup]:
    """The dev metric over iterations, with a line for each trial."""
    lines = [_learning_line(findings, trial) for trial in drawn(findings) if trial.results]
    if not lines:
        return [paragraph("No trial has reported an iteration yet.")]
    end = "switch" if findings.grows_trees else "T, m"
    signs = [*KEYS, *([("curriculum", f"curriculum over ({end})")] if findings.over_curricula else [])]
    signs += [("cross", "stopped early")]
    signs += [("failed", "failed")] if findings.state.counts()["failed"] else []
    chart, keys = line_chart(lines, "iteration", f"dev {findings.metric}"), legend(signs)
    return [side_by_side(figure("Each trial on dev", chart, keys, _not_drawn(findings)), _outcomes(findings))]


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


def _outcomes(findings: Findings) -> Markup:
    """How trials ended, and why failed ones did."""
    counts = findings.state.counts()
    shown = table(["outcome", "trials"], [(name.replace("_", " "), count) for name, count in counts.items()], [1])
    failed = [trial for trial in findings.state.by_number() if trial.outcome == "failed"]
    reasons = [f"{words(trial)}: {trial.reason or 'no reason given'}" for trial in failed[:10]]
    heading = f"{len(failed)} failed; the first {len(reasons)}:" if len(failed) > len(reasons) else "Failed:"
    return BLOCKS.outcomes(shown, heading, reasons)


def cost_section(findings: Findings) -> list[Markup]:
    """The best value so far, over what the search had cost by then."""
    best = _best_so_far(findings)
    if not best:
        return [paragraph("No trial besides the baseline has given a dev value yet.")]
    level = findings.baseline[1].dev if findings.baseline else None
    charts = []
    for title, key, unit, whole in (
        ("Over iterations of all trials", "iterations", "iterations", True),
        ("Over time", "seconds", "seconds", False),
    ):
        lines = [_step_line(findings, best, key)]
        signs = [("best", "best trial so far"), ("highlight", "moment it was found")]
        signs += [("level", "the baseline, at its best")] if level is not None else []
        chart = line_chart(lines, unit, f"best dev {findings.metric} so far", True, level, whole)
        charts.append(figure(title, chart, legend(signs)))
    return [
        side_by_side(*charts),
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
        Mark(point, "highlight", f"{number(at.dev)} by {words(findings.state.trials[at.trial])}, {_when(at)}")
        for point, at in zip(points, risen, strict=True)
    ]
    return Line("", "best", "best so far", [*points, (end, risen[-1].dev)], marks)


def _when(at: Reached) -> str:
    return f"its iteration {at.iteration}, after {at.iterations} iterations and {at.seconds:.0f} s of the search"


def pacing_section(findings: Findings) -> list[Markup]:
    """The share of the training data that was open, as reported by the trials."""
    lines = []
    for trial in drawn(findings):
        shares = {at: values["available_share"] for at, values in sorted(trial.results.items())
                  if "available_share" in values}  # fmt: skip
        if shares:
            lines.append(Line(trial.trial, role(findings, trial), tip(findings, trial), list(shares.items())))
    if not any(share < 1 for line in lines for _, share in line.points):
        return [paragraph("Every trial had all training data available at all times.")]
    chart = line_chart(lines, "iteration", "share of the training data open")
    note = paragraph(
        "The share of the documents that the trees of each iteration grow on: those of the subset before the switch."
        if findings.grows_trees
        else "The share that the pacing function opens at the last step of each iteration. Batches that are sorted by "
        "length together are drawn from what was open at the first of them."
    )
    keys = legend(KEYS)
    return [side_by_side(figure("Each trial in training", chart, keys, note, _not_drawn(findings)))]


def spent_section(findings: Findings) -> list[Markup]:
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
    shown = table(["", "forecast", "true"], [(name, _amount(before), _amount(after)) for name, before, after in lines],
                 [1, 2])  # fmt: skip
    notes = ["The forecast of the time leaves out what starting takes: Ray, its workers, and reading the data."]
    if not state.end:
        notes.append("The search has not come to its end; reserved hours are counted at its end.")
    return [shown, *map(paragraph, notes)]


def _seconds(hours: float | None) -> int | None:
    return None if hours is None else round(3600 * hours)


def _amount(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


LEVEL = 0.05


def parameters_section(findings: Findings) -> list[Markup]:
    """Parallel coordinates, and how much of the trials' differences goes with each parameter."""
    leaves = findings.experiment.space.leaves
    ranked = findings.ranked
    if not ranked:
        return [paragraph("No trial besides the baseline has given a dev value yet.")]
    lines = [
        Polyline(trial.trial, trial.number, trial.point, at.dev, 1 - rank / max(len(ranked) - 1, 1),
                  words(trial))
        for rank, (trial, at) in enumerate(ranked)
    ][:MOST_LINES]  # fmt: skip
    note = (
        "A line is a trial, from top to bottom; the better its rank on dev, the stronger its colour. A parameter that "
        "does not exist beside a trial's other values is absent, not zero. The baseline is not a point of the space."
    )
    chart = parallel_chart(leaves, lines, findings.metric)
    return [side_by_side(figure("Parameters of the trials", chart, paragraph(note)), _importance(findings))]


def _importance(findings: Findings) -> Markup:
    measured, skipped = importances(findings)
    title = "Parameters that go with dev quality"
    if not measured:
        text = (
            f"Not computed: no parameter exists, with two or more values, in at least {FEWEST_TRIALS} trials that "
            f"gave different dev values ({len(findings.ranked)} trials gave one)."
        )
        return figure(title, paragraph(text))
    names = [key_name(one.key) for one in measured]
    chart = share_chart(names, [one.share for one in measured], [one.chance for one in measured], "share of variance")
    lines = [(name, one.trials, number(one.share, 2), p_value(one.p), one.best)
             for name, one in zip(names, measured, strict=True)]  # fmt: skip
    measures = table(["parameter", "trials", "share", "p", "highest mean"], lines, [1, 2, 3])
    return figure(title, chart, paragraph(_how(findings, measured, skipped)), measures)


def importances(findings: Findings) -> tuple[list[Importance], list[str]]:
    """The importances of opened parameters, largest first, and the keys for which none can be computed."""
    measured, skipped = [], []
    for key in findings.experiment.space.leaves:
        present = [(trial.point[key], at.dev) for trial, at in findings.ranked if key in trial.point]
        values = [value for value, _ in present]
        one = importance(key, values, np.array([dev for _, dev in present]), [plain(value) for value in values])
        if one:
            measured.append(one)
        else:
            skipped.append(key)
    return sorted(measured, key=lambda one: -one.share), skipped


def _how(findings: Findings, measured: list[Importance], skipped: list[str]) -> str:
    clear = [key_name(one.key) for one in measured if one.p <= LEVEL / len(measured)]
    text = (
        "Share of the variance of the dev ranks that lies between the values of a parameter (a range is cut into "
        "thirds), over the trials in which it exists. The dashed tick is what the share stays below in 95 of 100 "
        f"random exchanges of the dev values ({PERMUTATIONS} drawn); p is uncorrected. "
    )
    text += f"Beyond chance after correction for {len(measured)} parameters: {', '.join(clear) or 'none'}. "
    if findings.state.counts()["stopped_early"]:
        text += "Trials stopped early count with the value they had reached, which may be too low. "
    if findings.experiment.search.searcher != "random":
        searcher = findings.experiment.search.searcher
        text += f"Trials sampled by {searcher} are not independent, so p is only a rough guide. "
    if skipped:
        text += f"Too few trials or values for: {', '.join(map(key_name, skipped))}."
    return text


def repeat_section(findings: Findings) -> list[Markup]:
    """The commands that repeat the search, and its versions, seeds and data."""
    state, search_folder, rankers = findings.state, findings.search_folder, findings.experiment.rankers
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
    again = replace(search_folder, name="again" if search_folder.name != "again" else "once-more")
    run = again.command("run search.yaml --name")
    asked = (findings.confirmation or {}).get("asked")
    confirm = Request(**asked).command(again, None) if asked else again.command("confirm")
    commands = [run, confirm, again.command("report")]
    text = "The search as it was, with everything the command line changed; save it as search.yaml:"
    return [
        code("\n".join(commands)),
        details(text, code(state.yaml.rstrip())),
        table(["", ""], facts),
    ]


POINTS = 5  # equal parts of the training, at whose ends the two are compared
TREES = "ranker.trees_per_iteration"


@dataclass(frozen=True)
class Needed:
    """`trees` of a curriculum give the value `dev`, which plain training first reaches with `plain` trees (None:
    never)."""

    trees: int
    dev: float
    plain: int | None

    @property
    def ratio(self) -> float | None:
        """Plain training's trees divided by the curriculum's."""
        return None if self.plain is None else self.plain / self.trees


def needed(dev: Mapping[int, float], plain: Mapping[int, float], trees: int, plain_trees: int) -> list[Needed]:
    """Compares a trial with plain training at the ends of POINTS equal parts of the trial.

    dev, plain           value by iteration, from 1, of the trial and of plain training
    trees, plain_trees   trees an iteration of each
    """
    last = max(dev, default=0)
    at = sorted({round(last * part / POINTS) for part in range(1, POINTS + 1)} & dev.keys())
    return [Needed(iteration * trees, dev[iteration], _first(plain, dev[iteration], plain_trees)) for iteration in at]


def _first(values: Mapping[int, float], level: float, trees: int) -> int | None:
    """Trees after the first iteration whose value is at least `level`, if any."""
    reached = [iteration for iteration, value in values.items() if value >= level]
    return min(reached) * trees if reached else None


def trees_section(findings: Findings) -> list[Markup]:
    """The best curriculum against plain training if the search's rankers grow trees; else empty."""
    best, baseline = findings.pair or (None, None)
    if baseline is None or best is None or not {TREES} <= baseline.params.keys() & best.params.keys():
        return []
    rows = needed(best.dev(findings.metric), baseline.dev(findings.metric), best.params[TREES], baseline.params[TREES])
    most = max(baseline.results, default=0) * baseline.params[TREES]
    shown = table(
        [f"trees of {words(best)}", f"dev {findings.metric}", "trees of plain training", "ratio"],
        [_row(row, most) for row in rows],
        numeric=range(4),
    )
    note = paragraph("The trees with which plain training first has as high a dev value.")
    return [figure("Trees for the same quality", shown, note)]


def _row(row: Needed, most: int) -> list[str]:
    plain = f"more than {most}" if row.plain is None else str(row.plain)
    return [str(row.trees), number(row.dev), plain, NONE if row.ratio is None else f"{row.ratio:.2f}"]
