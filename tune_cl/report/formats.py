"""The report as a LaTeX table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from tune_cl.confirmation.verdict import corrected
from tune_cl.report.findings import Document, Findings
from tune_cl.report.markup import number, p_value, plain, signed
from tune_cl.report.verdict_section import Row, ablations, best_row, mean, rows

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "†": r"\dag{}", "‡": r"\ddag{}", "–": "--",
}  # fmt: skip
COLUMNS = ("trial", "arm", "outcome", "reason", "seed", "baseline", "iterations", "best_dev", "best_iteration")


def latex(text: str) -> str:
    """The text on one line, escaped for LaTeX."""
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def latex_table(findings: Findings) -> str:
    """The table of configurations for a paper; needs the package booktabs."""
    entries, confirmed = rows(findings), findings.confirmation
    best = best_row(entries)
    split = confirmed["split"] if confirmed else "dev"
    heads = ["configuration", f"{findings.metric} ({split})", "difference", *([_p(confirmed)] if confirmed else [])]
    over = f"seeds {', '.join(map(str, confirmed['seeds']))}" if confirmed else "one seed, no test: not confirmed"
    lines = [
        f"% search {latex(findings.state.name)}; {over}",
        r"% \usepackage{booktabs}",
        *_tabular(heads, 1, (_latex_row(row, row is best, bool(confirmed)) for row in entries)),
        *_latex_ablations(findings, f"{findings.metric} ({split})"),
    ]
    return "\n".join(lines) + "\n"


def _tabular(heads: Sequence[str], names: int, lines: Iterable[str]) -> list[str]:
    """A table whose first `names` columns hold text and the others numbers."""
    return [
        rf"\begin{{tabular}}{{{'l' * names}{'r' * (len(heads) - names)}}}",
        r"\toprule",
        " & ".join(head if "$" in head else latex(head) for head in heads) + r" \\",
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _latex_ablations(findings: Findings, value: str) -> list[str]:
    """The second table: configurations against themselves without their curricula; empty without ablations."""
    pairs = ablations(findings)
    heads = ["configuration", "without its curriculum", value, "difference", _p(findings.confirmation or {})]
    lines = [
        f"{latex(entry['label'])} & {latex(own['label'])} & {mean(own)} & ${signed(own['difference'])}$"
        rf"{_raised(own.get('marks'))} & ${p_value(own.get('p_new_adjusted'))}$ \\"
        for entry, own in pairs
    ]
    said = "% each configuration against itself without its curriculum; the value is of that"
    return ["", said, *_tabular(heads, 2, lines)] if lines else []


def _raised(marks: str | None) -> str:
    return rf"\textsuperscript{{{latex(marks)}}}" if marks else ""


def _p(confirmed: Document) -> str:
    return "$p$ (adjusted)" if corrected(confirmed) else "$p$"


def _latex_row(row: Row, best: bool, tested: bool) -> str:
    mean = rf"\textbf{{{number(row.mean)}}}" if best else number(row.mean)
    spread = f" ({number(row.sd)})" if row.sd is not None else ""
    compared = row.difference is not None
    cells = [latex(row.label), mean + _raised(row.marks) + spread, f"${signed(row.difference)}$" if compared else ""]
    if tested:
        cells.append(f"${p_value(row.p_adjusted)}$" if compared else "")
    return " & ".join(cells) + r" \\"


def trials_csv(findings: Findings) -> str:
    """A row for each trial: how it ended, its best dev value and the parameters in force; absent ones are empty."""
    trials = findings.state.by_number()
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params if key not in COLUMNS))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *keys])
    for trial in trials:
        at = trial.best(findings.metric)
        facts: list[Any] = [trial.trial, trial.arm, trial.outcome or "running", trial.reason or "", trial.seed]
        facts += [plain(trial.baseline), trial.iterations, repr(at.dev) if at else "", at.iteration if at else ""]
        writer.writerow([*facts, *(_value(trial.params[key]) if key in trial.params else "" for key in keys)])
    return out.getvalue()


def trials_parquet(findings: Findings) -> bytes:
    """The table of `trials_csv` as Parquet, its columns typed."""
    import pandas as pd

    return pd.read_csv(io.StringIO(trials_csv(findings))).to_parquet(index=False)


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, float) else plain(value)
