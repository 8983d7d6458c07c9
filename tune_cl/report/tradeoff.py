"""The section on two objectives: the metric, and the training time it took."""

from __future__ import annotations

from trainables.counting import counted
from tune_cl.report.charts import Line, Mark, line_chart
from tune_cl.report.findings import Findings, words
from tune_cl.report.markup import Html, figure, legend, number, paragraph, table, tag
from tune_cl.search.pareto import Priced, front, priced

SIGNS = [
    ("curriculum", "a trial at its best"),
    ("found", "in the Pareto set"),
    ("level", "plain training, at its best"),
]


def tradeoff_section(findings: Findings) -> list[Html]:
    """Each trial's best dev value over the seconds of training it took, and the Pareto set."""
    trials = priced(findings.state)
    if not trials:
        return [paragraph("No trial has given a dev value yet.")]
    kept = front(trials)
    others = [Line(trial.trial_id, "trial", _tip(findings, trial), [_at(trial)],
                   [Mark(_at(trial), "curriculum", _tip(findings, trial))])
              for trial in trials if trial not in kept]  # fmt: skip
    rings = [Mark(_at(trial), "found", _tip(findings, trial)) for trial in kept]
    line = Line("", "best", "Pareto set", [_at(trial) for trial in kept], rings)
    level = findings.baseline[1].dev if findings.baseline else None
    chart = line_chart([*others, line], "seconds of training", f"best dev {findings.metric}", True, level, False)
    rows = [(words(findings.state.trials[trial.trial_id]), number(trial.dev), trial.iterations, f"{trial.seconds:.1f}")
            for trial in kept]  # fmt: skip
    told = table(["Pareto set", f"dev {findings.metric}", "iterations", "seconds"], rows, [1, 2, 3])
    note = paragraph(
        "The Pareto set: no trial was better with as little training. Training until the best value was reached, "
        "evaluation included; trials share the machine, so seconds differ by chance, iterations do not."
    )
    return [
        tag("div", figure("Each trial at its best", chart, legend(findings.signs(SIGNS)), note), told, class_="charts")
    ]


def _at(trial: Priced) -> tuple[float, float]:
    return trial.seconds, trial.dev


def _tip(findings: Findings, trial: Priced) -> str:
    reached = f"{number(trial.dev)} after {counted(trial.iterations, 'iteration')}, {trial.seconds:.1f} s"
    return f"{words(findings.state.trials[trial.trial_id])}: {reached}"
