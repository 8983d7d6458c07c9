"""Sections over time: learning curves, cost against quality, pacing, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tune_cl.confirmation.request import Request
from tune_cl.experiment.experiment import PLAIN
from tune_cl.history.state import Dev, TrialState
from tune_cl.report.charts import Line, Mark, line_chart
from tune_cl.report.findings import Findings, Reached, words
from tune_cl.report.markup import (
    BLOCKS,
    NONE,
    Markup,
    code,
    details,
    figure,
    legend,
    number,
    paragraph,
    side_by_side,
    table,
)
from tune_cl.space.wording import DEFAULT

MOST_LINES = 250  # trials of an arm drawn; more would make the page slow and the chart unreadable


def keys_of(findings: Findings) -> list[tuple[str, str]]:
    """Of the lines of trials, by arm."""
    plain = [("baseline", "best plain trial"), ("plain", "other plain trials")]
    other = [("best", f"best {findings.other}"), ("trial", "others")]
    return [*other, *plain] if findings.tuned else [*other, ("baseline", DEFAULT)]


def drawn(findings: Findings) -> list[TrialState]:
    """The best trials of each arm, the default and, if there is room, those that failed."""
    best = [trial for arm in (findings.plain, findings.ranked) for trial, _ in arm[:MOST_LINES]]
    failed = [trial for trial in findings.state.by_number() if trial.outcome == "failed" and not trial.baseline]
    default = findings.state.baseline_trial()
    drawn = [*([default] if default else []), *best, *failed[: max(0, MOST_LINES - len(best))]]
    return list({trial.trial: trial for trial in drawn}.values())


def role(findings: Findings, trial: TrialState) -> str:
    best = {id(arm[0][0]): role for arm, role in ((findings.plain, "baseline"), (findings.ranked, "best")) if arm}
    others = "failed" if trial.outcome == "failed" else "plain" if trial.arm == PLAIN else "trial"
    return best.get(id(trial), others)


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
    signs = [*keys_of(findings), *([("curriculum", f"curriculum over ({end})")] if findings.over_curricula else [])]
    signs += [("cross", "stopped early")]
    signs += [("failed", "failed")] if findings.state.counts()["failed"] else []
    chart, keys = line_chart(lines, "iteration", f"dev {findings.metric}"), legend(signs)
    of_trials = side_by_side(figure("Each trial on dev", chart, keys, _not_drawn(findings)), _outcomes(findings))
    return [of_trials, *over_seeds(findings)]


def over_seeds(findings: Findings) -> list[Markup]:
    """The dev metric over iterations of what was confirmed, means over its seeds (MacAvaney et al. 2020, Fig. 3)."""
    if (confirmed := findings.confirmation) is None:
        return []
    rows = [confirmed["baseline"], *confirmed["configurations"]]
    lines = [line for row in rows if (line := _mean_line(findings, row, row is rows[0]))]
    if not lines:
        return []
    signs = [("best", "confirmed"), ("baseline", "plain training"), ("curriculum", "curriculum over")]
    chart = line_chart(lines, "iteration", f"dev {findings.metric}, mean over {len(confirmed['seeds'])} seeds")
    return [figure("What was confirmed, on dev", chart, legend(signs))]


def _mean_line(findings: Findings, row: Mapping[str, Any], plain: bool) -> Line | None:
    """Up to the iteration that every seed has reached. None for a confirmation of an earlier version."""
    curves = [run.get("dev_by_iteration") for run in row["runs"]]
    if not curves or not all(curves):
        return None
    points = [(at, sum(values) / len(values)) for at, values in enumerate(zip(*curves, strict=False), 1)]
    trial = findings.state.trials.get(row["trial_id"])
    past = 0 if trial is None or plain else findings.past_curriculum(trial)
    marks = [Mark(at, "curriculum", f"curriculum over at iteration {past}") for at in points if at[0] == past]
    return Line(row["trial_id"], "baseline" if plain else "best", row["label"], points, marks)


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
    """The best value so far of each arm, over what the search had cost by then; of an arm of one trial, its best."""
    best = _best_so_far(findings, findings.ranked)
    if not best:
        return [paragraph("No trial but plain ones has given a dev value yet.")]
    plain = _best_so_far(findings, findings.plain) if findings.tuned else []
    level = findings.baseline[1].dev if findings.baseline and not plain else None
    charts = []
    for title, key, unit, whole in (
        ("Over iterations of all trials", "iterations", "iterations", True),
        ("Over time", "seconds", "seconds", False),
    ):
        arms = {"best": (best, f"best {findings.other} so far"), "baseline": (plain, "best plain trial so far")}
        lines = [_step_line(findings, risen, role, key) for role, (risen, _) in arms.items() if risen]
        signs = [(role, text) for role, (risen, text) in arms.items() if risen]
        signs += [("highlight", "moment it was found")]
        signs += [("level", f"{DEFAULT}, at its best")] if level is not None else []
        chart = line_chart(lines, unit, f"best dev {findings.metric} so far", True, level, whole)
        charts.append(figure(title, chart, legend(signs)))
    return [
        side_by_side(*charts),
        paragraph("Time counts while the search ran, not while it was stopped."),
    ]


def _best_so_far(findings: Findings, arm: list[tuple[TrialState, Dev]]) -> list[Reached]:
    """The results that raised the best dev value so far, of sound trials of an arm."""
    sound = {trial.trial for trial, _ in arm}
    risen: list[Reached] = []
    for at in findings.reached:
        if at.trial in sound and at.dev > (risen[-1].dev if risen else -math.inf):
            risen.append(at)
    return risen


def _step_line(findings: Findings, risen: list[Reached], role: str, key: str) -> Line:
    end = getattr(findings.reached[-1], key)
    points = [(getattr(at, key), at.dev) for at in risen]
    marks = [
        Mark(point, "highlight", f"{number(at.dev)} by {words(findings.state.trials[at.trial])}, {_when(at)}")
        for point, at in zip(points, risen, strict=True)
    ]
    said = {"best": f"best {findings.other} so far", "baseline": "best plain trial so far"}[role]
    return Line("", role, said, [*points, (end, risen[-1].dev)], marks)


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
    chart = line_chart(lines, "iteration", "fraction of the training data available")
    note = paragraph(
        "The fraction of the documents that the trees of each iteration grow on: those of the subset before the switch."
        if findings.grows_trees
        else "The fraction that the pacing function makes available at the last step of each iteration. Batches that "
        "are sorted by length together are drawn from what was available at the first of them."
    )
    keys = legend(keys_of(findings))
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


def parameters_section(findings: Findings) -> list[Markup]:
    """How Optuna shows which parameters mattered."""
    call = findings.search_folder.call("to_optuna")
    text = "Optuna has pictures of the trials' parameters, such as their importance or parallel coordinates:"
    draw = ["from optuna.visualization import matplotlib as draw", "", f"study = {call}"]
    return [
        paragraph(text),
        code("\n".join([*draw, "draw.plot_param_importances(study)", "draw.plot_parallel_coordinate(study)"])),
    ]


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
    added = [f"{again.command('tune-plain')} --trials {event['trials']}" for event in state.tuning]
    commands = [run, *added, confirm, again.command("report")]
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
