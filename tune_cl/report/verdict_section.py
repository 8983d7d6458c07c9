"""The first two sections: what came out, and the table of configurations in the style of the papers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tune_cl.confirmation.request import ONE_TRAINING
from tune_cl.confirmation.verdict import (
    BADGES,
    best_on_dev,
    corrected,
    default_rows,
    effect,
    higher,
    holds_for,
    interval_of,
    leader,
    notes_of,
    of_these_seeds,
    opponent,
    p_heading,
    remarks,
    shown,
)
from tune_cl.experiment.experiment import PLAIN
from tune_cl.history.state import RAN_TO_THE_END, RUNNING, Dev, TrialState
from tune_cl.report.charts import Interval, Seeds, seed_chart
from tune_cl.report.findings import Document, Findings, words
from tune_cl.report.markup import BLOCKS, Markup, code, heading, number, p_value, paragraph, signed, table
from tune_cl.space.wording import CAUTION, NOT_TUNED, below_label_free, label_free_rows, tuning_words

MOST_ROWS = 10  # trials in the table without a confirmation


@dataclass(frozen=True)
class Row:
    """A configuration. `sd`: over seeds, None without a confirmation or for one seed; `difference` and what follows:
    None for the baseline."""

    label: str
    mean: float
    sd: float | None
    seeds: int
    marks: str = ""
    difference: float | None = None
    p_adjusted: float | None = None
    ci95: tuple[float | None, float | None] = (None, None)


def rows(findings: Findings) -> list[Row]:
    """What needs no training labels, the baseline, then the confirmed configurations; without a confirmation, the best
    trials of each arm on dev, plain ones first, each beside the best plain one."""
    if confirmed := findings.confirmation:
        entries = (confirmed["baseline"], *confirmed["configurations"], *default_rows(confirmed))
        return [*label_free(confirmed), *(confirmed_row(entry) for entry in entries)]
    best, level = findings.baseline or (None, None)
    return [
        Row(words(trial), at.dev, None, 1, difference=at.dev - level.dev if level and trial is not best else None)
        for trial, at in _best_of_arms(findings)
    ]


def label_free(document: Mapping[str, Any]) -> list[Row]:
    """The rows of what needs no training labels."""
    return [Row(row["label"], row["mean"], None, 1) for row in label_free_rows(document)]


def _best_of_arms(findings: Findings) -> list[tuple[TrialState, Dev]]:
    """The best plain trials with the default, then the best others."""
    default = [pair for pair in findings.plain[MOST_ROWS:] if pair[0].baseline]
    return [*findings.plain[:MOST_ROWS], *default, *findings.ranked[:MOST_ROWS]]


def confirmed_row(entry: Document) -> Row:
    """The row of an entry of the confirmation."""
    return Row(
        entry["label"], entry["mean"], entry["sd"], len(entry["runs"]), entry.get("marks", ""),
        entry.get("difference"), entry.get("p_new_adjusted"), interval_of(entry) or (None, None),
    )  # fmt: skip


def best_row(entries: list[Row]) -> Row | None:
    return max(entries, key=lambda row: row.mean, default=None)


# -- sections ----------------------------------------------------------------------------------------------------


def verdict_section(findings: Findings, in_python: bool = False) -> Markup:
    """The confirmation's verdict, or what dev shows so far and the command that confirms it, or the call."""
    confirmed = findings.confirmation
    if confirmed:
        colour = "" if confirmed["split"] == "dev" else confirmed["verdict"].split()[0]
        box = BLOCKS.verdict(colour, _badge(findings, confirmed), *map(paragraph, _in_short(confirmed)))
        values = f"{findings.metric} on {confirmed['split']}"
        notes = [paragraph(f"{note[0].upper()}{note[1:]}.") for note in notes_of(confirmed)]
        small = BLOCKS.small(_small_print(findings, confirmed))
        return Markup("").join([box, *_seeds(confirmed, values), *notes, small])
    parts = [paragraph(text) for text in (_tuning(findings), _on_dev(findings), _below(findings)) if text]
    step = findings.search_folder.call if in_python else findings.search_folder.command
    if findings.ranked and findings.experiment.compares and not findings.tuned:
        tune = step("tune_plain" if in_python else "tune-plain")
        parts += [paragraph(f"{NOT_TUNED} To tune it as hard:"), code(tune)]
    if findings.ranked:
        parts += [paragraph("Confirm it on held-out queries with several seeds:"), code(step("confirm"))]
    elif not findings.state.end:
        parts += [paragraph("The search has not ended. Go on with:"), code(step("resume"))]
    return BLOCKS.verdict("", "No verdict yet: nothing has been confirmed", *parts)


def _on_dev(findings: Findings) -> str:
    metric, ranked, baseline = findings.metric, findings.ranked, findings.baseline
    if not ranked:
        return "No trial but plain ones has given a dev value."
    trial, at = ranked[0]
    text = f"Best {findings.other} on dev so far: {words(trial)}, {metric} {number(at.dev)} at iteration {at.iteration}"
    if baseline is None:
        return f"{text}. No plain trial gave a dev value, so there is nothing to compare with."
    difference = at.dev - baseline[1].dev
    text += f", against {number(baseline[1].dev)} of {words(baseline[0])} ({signed(difference)}). "
    if difference <= 0:
        return f"{text}No {findings.other} was above it on dev."
    return f"{text}It is the best of {len(ranked)} trials. {CAUTION}"


def _below(findings: Findings) -> str:
    """A warning where both arms are below what needs no training labels, on dev."""
    means = [arm[0][1].dev for arm in (findings.plain, findings.ranked) if arm]
    below = below_label_free(findings.state.label_free, findings.metric, means)
    return f"{below}." if below else ""


def _tuning(findings: Findings) -> str:
    """What tuning plain training was worth, if it was tuned and its default gave a value."""
    default = next((at.dev for trial, at in findings.plain if trial.baseline), None)
    if not findings.tuned or default is None:
        return ""
    trials, opened = findings.state.trials_of(PLAIN), findings.state.opened_in(PLAIN)
    return tuning_words(findings.metric, len(trials), opened, findings.plain[0][1].dev, default)


OF_MORE_THAN_THE_CURRICULUM = {
    "better": "Better than the baseline, but the gain from its curriculum is not significant",
    "worse": "Worse than the baseline, but the loss from its curriculum is not significant",
}


def _of_its_curriculum(confirmed: Document) -> bool:
    """Whether the difference is the curriculum's: nothing else differs from the baseline, or the configuration differs
    significantly in the same way from itself without its curriculum."""
    top = leader(confirmed)
    if top is None or not top.get("also_differs"):
        return True
    ablation = top.get("ablation")
    if ablation is None or not shown(ablation["p_new_adjusted"]):
        return False
    return ablation["difference"] * top["difference"] > 0


def _badge(findings: Findings, confirmed: Document) -> str:
    verdict: str = confirmed["verdict"]
    if confirmed["split"] == "dev":
        return f"No verdict: compared on {confirmed['split']} only"
    if findings.over_curricula and verdict in OF_MORE_THAN_THE_CURRICULUM and not _of_its_curriculum(confirmed):
        return OF_MORE_THAN_THE_CURRICULUM[verdict]
    return BADGES[verdict]


def _in_short(confirmed: Document) -> list[str]:
    """The effect, then who met whom, a line each."""
    top = leader(confirmed)
    which = "" if top is None or top["marks"] or confirmed.get("selection") else f" ({best_on_dev(confirmed)})"
    return [] if top is None else [effect(confirmed), f"{top['label']}{which}", f"against {opponent(confirmed)}"]


def _small_print(findings: Findings, confirmed: Document) -> list[str]:
    """Sentences, each with a fact that stands nowhere above it."""
    parts = [holds_for(confirmed), remarks(confirmed).strip(), of_these_seeds(confirmed)]
    top, seeds = leader(confirmed), confirmed["seeds"]
    if top and not top.get("seed_matters", True) and confirmed["verdict"] == "no difference shown":
        parts.append(SAME_TREES)
    fair = "fair" in confirmed  # else an older document, of which no headline tells that another is higher
    if top and not fair:
        parts.append(_highest(findings, confirmed))
    if top and ("ablation" in top or not fair):
        parts.append(_ablation(findings, top))
    parts.append(f"Seeds {', '.join(map(str, seeds))}, paired by query.")
    parts += [_dropped(one) for one in confirmed.get("dropped", ())]
    return [part for part in parts if part]


def _dropped(one: Document) -> str:
    return f"{one['label']} got no more seeds after {', '.join(map(str, one['seeds']))}: it could hardly win."


SAME_TREES = "The seed changes nothing in these trainings: with others they would be the same."


def _tested_words(entry: Document) -> str:
    """A difference with its interval and p for new seeds or, without these, for the seeds of the confirmation."""
    interval = interval_of(entry)
    low, high = interval or entry.get("ci95") or (None, None)
    p = f"p {p_value(entry['p_new_adjusted'] if interval else entry['p_adjusted'])}"
    whose = "" if interval else " for these seeds alone"
    return f"{signed(entry['difference'])}, 95 % confidence interval [{signed(low)}, {signed(high)}], {p}{whose}"


def _highest(findings: Findings, confirmed: Document) -> str:
    other = higher(confirmed)
    if other is None:
        return ""
    mean = f"The highest mean on {confirmed['split']} is that of {other['label']} ({signed(other['difference'])})"
    return f"{mean}, not significantly above the baseline."


def _ablation(findings: Findings, top: Document) -> str:
    """How much of the difference is due to the curriculum, if other keys differ from the baseline too."""
    others = top.get("also_differs")
    if not others:
        return ""
    if not top.get("has_curriculum", True):
        own = "It has no other curriculum than the baseline: what" if findings.over_curricula else "What"
        return f"{own} differs is {', '.join(others)}."
    text = f"It differs from the baseline in {', '.join(others)} too"
    if "ablation" not in top:
        return f"{text}: {findings.search_folder.command('confirm')} --ablate measures its curriculum alone."
    own = top["ablation"]
    return (
        f"{text}. Without its curriculum it has {findings.metric} {number(own['mean'])}: a difference of "
        f"{_tested_words(own)}."
    )


def configurations_section(findings: Findings) -> list[Markup]:
    """The table of configurations: confirmed ones or, without a confirmation, the best trials on dev."""
    entries = rows(findings)
    if not entries:
        return [paragraph("No trial has given a dev value yet.")]
    if findings.confirmation:
        return _confirmed_section(findings, findings.confirmation, entries)
    return _trials_section(findings, entries)


def _confirmed_section(findings: Findings, confirmed: Document, entries: list[Row]) -> list[Markup]:
    """Means and SDs over seeds, differences and marks; the highest mean is bold."""
    best, seeds = best_row(entries), len(confirmed["seeds"])
    values, adjusted = f"{findings.metric} on {confirmed['split']}", corrected(confirmed)
    columns = ["configuration", values, "difference", "95 % interval", p_heading(confirmed)]
    lines = [[_name(row), _value(row, row is best), signed(row.difference), *tested(row)] for row in entries]
    note = (
        f"Mean over {seeds} seeds, in brackets the sample standard deviation over seeds. † above "
        f"the baseline at 95 %, ‡ at 99 % confidence{' after correction' if adjusted else ''} "
        "for new queries and new trainings. Bold: highest mean. Each interval is of one configuration; "
        f"p is {'corrected for all of them' if adjusted else 'of one as well, uncorrected'}."
    )
    own = table(columns, lines, numeric=range(1, len(columns)))
    others = *_among(confirmed), *_against(confirmed), *_looks(confirmed)
    return [own, paragraph(note), *others]


def _among(confirmed: Document) -> list[Markup]:
    """The configurations against one another, with `confirm --best-of`."""
    columns = ["one against another", "difference", "95 % interval", p_heading(confirmed)]
    lines = []
    for row in confirmed.get("among", ()):
        low, high = interval_of(row) or (None, None)
        figures = signed(row["difference"]), f"[{signed(low)}, {signed(high)}]", p_value(row["p_new_adjusted"])
        lines.append([BLOCKS.wide(f"{row['label']} - {row['other']}"), *figures])
    return [table(columns, lines, numeric=(1, 2, 3))] if lines else []


def _against(confirmed: Document) -> list[Markup]:
    """The present rankers that the confirmation was asked to compare with."""
    entries = confirmed.get("against")
    if not entries:
        return []
    above = f"{entries[0]['best']['label']} is above it by"
    columns = [
        "present ranker",
        confirmed["metric"],
        "from the baseline",
        "95 % interval",
        "p",
        above,
        "95 % interval",
        "p",
    ]
    lines = [
        [BLOCKS.wide(row["label"]), number(row["mean"]), *_over_queries(row), *_over_queries(row["best"])]
        for row in entries
    ]
    return [table(columns, lines, numeric=range(1, len(columns))), paragraph(ONE_TRAINING)]


def _over_queries(tested: Document) -> list[str]:
    low, high = tested["ci95"]
    return [signed(tested["difference"]), f"[{signed(low)}, {signed(high)}]", p_value(tested["p_adjusted"])]


def _seeds(confirmed: Document, values: str) -> list[Markup]:
    """A picture of each seed's value, and of the intervals that the verdict follows; none with one seed."""
    default = default_rows(confirmed)
    entries = [*default, confirmed["baseline"], *confirmed["configurations"]]
    if len(confirmed["seeds"]) < 2:
        return []
    level = confirmed["baseline"]["mean"]
    roles = ["baseline"] * (len(default) + 1) + ["best"] * len(confirmed["configurations"])
    drawn = [
        Seeds(row["label"], role, _by_seed(row), _shifted(row, level)) for row, role in zip(entries, roles, strict=True)
    ]
    note = (
        "A faint dot for each seed; below it the mean and the 95 % interval of the difference, drawn "
        f"from the mean of {'tuned ' if default else ''}plain training (the dashed line)."
    )
    return [seed_chart(drawn, level, values), BLOCKS.small([note])]


def _by_seed(row: Document) -> dict[int, float]:
    return {run["seed"]: run["value"] for run in row["runs"]}


def _shifted(row: Document, level: float) -> Interval:
    low, high = interval_of(row) or (math.nan, math.nan)
    return Interval(row["mean"], level + low, level + high)


def _looks(confirmed: Document) -> list[Markup]:
    """The looks of `confirm --until-settled`, if there were any."""
    looks = confirmed.get("looks")
    if not looks:
        return []
    columns = ["seeds", "configuration", "difference", "p", "stops at", "decision"]
    lines = []
    for look in looks:
        figures = signed(look["difference"]), p_value(look["p_new"]), f"{look['boundary']:.2g}"
        lines.append([look["seeds"], look["label"], *figures, look["decision"]])
    note = (
        "Interim analyses after each seed: the configuration with the smallest p, and the p at which training stops. "
        "The overall error stays at 5 %; p in the table above is adjusted for all interim analyses."
    )
    return [table(columns, lines, numeric=(0, 2, 3, 4)), paragraph(note)]


def _trials_section(findings: Findings, entries: list[Row]) -> list[Markup]:
    """The best trials of each arm on dev, and how far each was trained: one stopped early might have become better."""
    best = best_row(entries)
    lines = [[row.label, number(row.mean), "", ""] for row in label_free(findings.state.label_free)]
    lines += [
        [_name(row), _value(row, row is best), signed(row.difference), _trained(trial, findings.metric)]
        for row, (trial, _) in zip(entries, _best_of_arms(findings), strict=True)
    ]
    missing = len(findings.plain) + len(findings.ranked) - len(entries)
    more = f" Not shown: {missing} more; tune-cl report --format csv writes all." if missing else ""
    columns = ["configuration", f"{findings.metric} on dev", "difference", "iterations"]
    note = (
        "Best dev value of each trial, plain ones first, and its difference to the best plain one. One seed each, so "
    )
    note += f"no SD and no test. {CAUTION}{more}"
    return [table(columns, lines, numeric=range(1, len(columns))), paragraph(note)]


def _trained(trial: TrialState, metric: str) -> str:
    """The iterations of a trial's training, and how it ended if that was early."""
    ended = "" if trial.outcome in RAN_TO_THE_END else f" ({(trial.outcome or RUNNING).replace('_', ' ')})"
    return f"{len(trial.dev(metric))}{ended}"


def _name(row: Row) -> Markup:
    return BLOCKS.wide(row.label)


def _value(row: Row, best: bool) -> Markup:
    spread = f" ({number(row.sd)})" if row.sd is not None else ""
    return BLOCKS.marked(number(row.mean), row.marks, best, spread)


def tested(row: Row) -> list[str]:
    """The interval and p of a row."""
    low, high = row.ci95
    return ["", ""] if row.difference is None else [f"[{signed(low)}, {signed(high)}]", p_value(row.p_adjusted)]


def tables_section(findings: Findings) -> list[Markup]:
    """The best trials on dev; once confirmed, the configurations with trial ids, then those with an ablation beside
    it."""
    return [*configurations_section(_with_ids(findings)), *_ablations_section(findings)]


def _with_ids(findings: Findings) -> Findings:
    """The findings, with confirmed configurations named by trial id and label."""
    confirmed = findings.confirmation
    if confirmed is None:
        return findings
    baseline, *others = (
        entry | {"label": named(entry)} for entry in (confirmed["baseline"], *confirmed["configurations"])
    )
    return replace(findings, confirmation=confirmed | {"baseline": baseline, "configurations": others})


def named(entry: Document) -> str:
    """The trial id, then the label, as on the terminal."""
    return f"{entry['trial_id']} {entry['label']}"


def ablations(findings: Findings) -> list[tuple[Document, Document]]:
    """The confirmed configurations that were also trained without their curriculum, each with that ablation."""
    entries = (findings.confirmation or {}).get("configurations", [])
    return [(entry, entry["ablation"]) for entry in entries if "ablation" in entry]


def mean(entry: Document) -> str:
    """The mean and, if there are several seeds, in brackets the standard deviation over them."""
    spread = "" if entry["sd"] is None or math.isnan(entry["sd"]) else f" ({number(entry['sd'])})"
    return f"{number(entry['mean'])}{spread}"


def _ablations_section(findings: Findings) -> list[Markup]:
    pairs = ablations(findings)
    if not pairs:
        return []
    columns = ["configuration", "without its curriculum", f"{findings.metric} without it",
               "difference", "95 % interval", p_heading(findings.confirmation or {})]  # fmt: skip
    note = (
        "Each configuration against itself without its curriculum: the same values of all other keys, and the "
        "baseline's curriculum. † above that at 95 %, ‡ at 99 % confidence after correction, which is over the rows of "
        "this table."
    )
    return [
        heading("What the curriculum is worth"),
        table(columns, [_row(pair) for pair in pairs], range(2, 6)),
        paragraph(note),
    ]


def _row(pair: tuple[Document, Document]) -> tuple[object, ...]:
    names = (BLOCKS.wide(named(each)) for each in pair)
    row = confirmed_row(pair[1])
    difference = BLOCKS.marked(signed(row.difference), row.marks)
    return *names, mean(pair[1]), difference, *tested(row)
