"""What a report tells of a search; pages draw it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tune_cl.confirmation.verdict import (
    ComparedResult,
    ConfigurationResult,
    Difference,
    OpponentResult,
    VerdictFacts,
    as_json,
)
from tune_cl.effects.pairs import FamilyEffects
from tune_cl.effects.words import sentences, value_name
from tune_cl.experiment.experiment import PLAIN
from tune_cl.history.state import RAN_TO_THE_END, RUNNING, Dev, SearchState, TrialState
from tune_cl.report.document import (
    AgainPart,
    ComparisonRow,
    ConfigurationRow,
    CostRow,
    EffectsPart,
    FailureRow,
    MainFacts,
    MeanCurve,
    ReportedVerdict,
    ReportFacts,
    SeedRow,
    Step,
    TreesRow,
    TrialCurve,
    TwinRow,
    ValueRow,
)
from tune_cl.report.findings import Findings
from tune_cl.report.queries import single_queries
from tune_cl.report.stopping import stopping
from tune_cl.report.story import badge, explanations, headline, label_free, of_verdict, on_dev
from tune_cl.search.remarks import grouped, in_sentences, remarks
from tune_cl.space.wording import label_free_of, label_free_rows

MOST_ROWS = 10  # trials of an arm in the table without a confirmation
MOST_LINES = 250  # trials of an arm drawn; more would make the page slow and the chart unreadable
MOST_REASONS = 10  # of failures
PARTS = 5  # equal parts of a training of trees, at whose ends it is compared with plain training
TREES = "ranker.trees_per_iteration"


def report_facts(findings: Findings) -> ReportFacts:
    """Everything."""
    return ReportFacts(
        **vars(main_facts(findings)),
        cost=_cost(findings),
        queries=single_queries(findings),
        stopping=stopping(findings),
        again=_again(findings),
    )


def main_facts(findings: Findings, in_python: bool = False) -> MainFacts:
    """What came out, and the trials. `in_python`: what to do next is calls, not commands."""
    state, search = findings.state, findings.experiment
    rows, found = [*configurations(findings)], remarks(state, search)
    return MainFacts(
        search=state.name,
        description=search.description,
        data=state.data["name"],
        rankers=search.rankers,
        metric=findings.metric,
        trials=len(state.trials),
        iterations=state.iterations,
        searcher=search.search.searcher,
        scheduler=search.search.scheduler,
        over_curricula=findings.over_curricula,
        plain=findings.experiment.plain_words,
        reads_features=search.base_run.reads == "features",
        plain_is_tuned=findings.tuned,
        verdict=None if findings.confirmation is None else _verdict(findings, findings.confirmation),
        on_dev=[*in_sentences(found, warnings=True), *_on_dev(findings)],
        notes_on_search=[*in_sentences(found, warnings=False)],
        next=_next(findings, in_python),
        configurations=rows,
        not_shown=len(findings.plain) + len(findings.ranked) - sum(bool(row.trial_id) for row in rows),
        curves=[_curve(findings, trial) for trial in _drawn(findings)],
        ended=bool(state.end),
        outcomes=state.counts(),
        failures=_failures(state)[:MOST_REASONS],
        remarks=found,
        trees=_trees(findings),
        effects=effects_facts(findings.effects),
    )


def _failures(state: SearchState) -> list[FailureRow]:
    """The reasons of failed trials, each once, with the trials."""
    failed = {trial.trial: trial.reason for trial in state.by_number() if trial.outcome == "failed"}
    return [
        FailureRow(", ".join([_words(state.trials[names[0]]), *names[1:]]), reason, len(names))
        for reason, names in grouped(failed).items()
    ]


def _words(trial: TrialState) -> str:
    """A trial's id and its words as on the terminal and in MLflow."""
    return f"{trial.trial} {trial.words}"


# -- the verdict ---------------------------------------------------------------------------------------------------


def _verdict(findings: Findings, confirmed: VerdictFacts) -> ReportedVerdict:
    """The confirmation in parts of a story, and its numbers."""
    return ReportedVerdict(
        badge=badge(confirmed),
        colour="" if confirmed.split == "dev" else confirmed.verdict.split()[0],
        in_short=[headline(confirmed)],
        notes=[f"{note[0].upper()}{note[1:]}." for note in confirmed.notes],
        small_print=explanations(confirmed),
        parts=of_verdict(confirmed),
        split=confirmed.split,
        seeds=[*confirmed.seeds],
        corrected=confirmed.corrected,
        by_seed=[*_by_seed(confirmed)],
        level=confirmed.baseline.mean,
        tests=[*_tests(confirmed)],
        curves=[curve for row in confirmed.every_row if (curve := _mean_curve(findings, row))],
        against=as_json(confirmed.against or ()),
        looks=as_json(confirmed.looks),
        among=[_test(f"{row.label} - {row.other}", "", row) for row in confirmed.among or ()],
    )


def _tests(confirmed: VerdictFacts) -> Iterator[ComparisonRow]:
    """A row for each configuration and opponent of its."""
    for row in confirmed.configurations:
        for one in row.opponents:
            yield _test(_name(row), _opponent_name(one), one)


def _test(name: str, opponent: str, row: Difference) -> ComparisonRow:
    return ComparisonRow(name, opponent, row.marks, row.size, row.interval, row.p)


def _name(row: ComparedResult) -> str:
    """Its trial and label."""
    return row.label if row.trial_id is None else f"{row.trial_id} {row.label}"


def _opponent_name(row: OpponentResult) -> str:
    """Its trial, roles and label."""
    return " ".join(part for part in (row.trial_id, ", ".join(row.roles) + ":", row.label) if part)


def _by_seed(confirmed: VerdictFacts) -> Iterator[SeedRow]:
    """Each seed's value, and the interval of the difference from the opponent's mean; empty with one seed."""
    if len(confirmed.seeds) < 2:
        return
    for row in confirmed.every_row:
        tested = row if isinstance(row, ConfigurationResult) else None
        low, high = (tested and tested.interval) or (math.nan, math.nan)
        level = tested.opponent.mean if tested else confirmed.baseline.mean
        values = {run.seed: run.value for run in row.runs}
        yield SeedRow(row.label, "best" if tested else "baseline", values, row.mean, level + low, level + high)


def _mean_curve(findings: Findings, row: ComparedResult) -> MeanCurve | None:
    """Dev over iterations, the mean over seeds (MacAvaney et al. 2020, Fig. 3), up to the iteration that every seed has
    reached."""
    curves = [run.dev_by_iteration for run in row.trainings]
    if not curves or not all(curves):
        return None
    is_plain, trial = isinstance(row, OpponentResult), findings.state.trials.get(row.trial_id or "")
    return MeanCurve(
        row.trial_id,
        row.label,
        role="baseline" if is_plain else "best",
        dev={at: sum(values) / len(values) for at, values in enumerate(zip(*curves, strict=False), 1)},
        curriculum_over=0 if trial is None or is_plain else findings.past_curriculum(trial),
    )


# -- before a confirmation -----------------------------------------------------------------------------------------


def _on_dev(findings: Findings) -> list[str]:
    """What dev shows, in sentences."""
    return on_dev(findings.result) if findings.result else ["No trial has given a dev value yet."]


def _next(findings: Findings, in_python: bool) -> list[Step]:
    """What to do next, and why."""
    step, steps = findings.search_folder.call if in_python else findings.search_folder.command, []
    if findings.ranked:
        steps.append(Step("Confirm it on held-out queries with several seeds:", step("confirm")))
    elif not findings.state.end:
        steps.append(Step("The search has not ended. Go on with:", step("resume")))
    return steps


# -- configurations ------------------------------------------------------------------------------------------------


def configurations(findings: Findings) -> Iterator[ConfigurationRow]:
    """What needs no training labels, the baseline, then the confirmed configurations; without a confirmation, the best
    trials of each arm on dev, plain ones first, each beside the best plain one."""
    confirmed = findings.confirmation
    found = label_free(confirmed) if confirmed else label_free_rows(*label_free_of(findings.state.label_free))
    rows = [_confirmed_row(row) for row in confirmed.every_row] if confirmed else [*_trials(findings)]
    free = [ConfigurationRow(trial_id=None, label=one.label, name=one.label, mean=one.mean) for one in found]
    best = max([*free, *rows] if confirmed else rows, key=lambda row: row.mean, default=None)
    for row in (*free, *rows):
        yield replace(row, best=row is best)


def _confirmed_row(row: ComparedResult) -> ConfigurationRow:
    """An opponent, whose difference the configurations have, or a configuration against its least favourable one."""
    mean: dict[str, Any] = {"trial_id": row.trial_id, "label": row.label, "mean": row.mean, "sd": row.sd}
    if isinstance(row, OpponentResult):
        return ConfigurationRow(**mean, name=_opponent_name(row))
    against = row.against if isinstance(row, ConfigurationResult) else None
    tested = {"difference": row.size, "ci95": row.interval, "p": row.p, "marks": row.marks}
    return ConfigurationRow(**mean, name=_name(row), **tested, against=against)


def _trials(findings: Findings) -> Iterator[ConfigurationRow]:
    """The best plain trials with the default, then the best others, and how far each was trained: one that was stopped
    early might have become better."""
    default = [pair for pair in findings.plain[MOST_ROWS:] if pair[0].baseline]
    best, level = findings.baseline or (None, None)
    for trial, at in (*findings.plain[:MOST_ROWS], *default, *findings.ranked[:MOST_ROWS]):
        yield ConfigurationRow(
            trial_id=trial.trial,
            label=trial.words,
            name=_words(trial),
            mean=at.dev,
            difference=at.dev - level.dev if level and trial is not best else None,
            iterations=len(trial.dev(findings.metric)),
            ended=None if trial.outcome in RAN_TO_THE_END else trial.outcome or RUNNING,
            twin=_twin(findings, trial, at),
        )


def _twin(findings: Findings, trial: TrialState, at: Dev) -> TwinRow | None:
    """Of a curriculum: its twin, and how far it is above it on dev (None: the twin failed, or has no value yet)."""
    if trial.arm == PLAIN or trial.twin is None:
        return None
    twin = findings.state.trials[trial.twin]
    reached = None if twin.outcome == "failed" else twin.best(findings.metric)
    outcome = "failed" if twin.outcome == "failed" else None
    difference = at.dev - reached.dev if reached else None
    return TwinRow(twin.trial, reached and reached.dev, difference, outcome)


# -- trials --------------------------------------------------------------------------------------------------------


def _drawn(findings: Findings) -> list[TrialState]:
    """The best trials of each arm, the default and, if there is room, those that failed."""
    best = [trial for arm in (findings.plain, findings.ranked) for trial, _ in arm[:MOST_LINES]]
    failed = [trial for trial in findings.state.by_number() if trial.outcome == "failed" and not trial.baseline]
    default = findings.state.baseline_trial()
    drawn = [*([default] if default else []), *best, *failed[: max(0, MOST_LINES - len(best))]]
    return list({trial.trial: trial for trial in drawn}.values())


def _curve(findings: Findings, trial: TrialState) -> TrialCurve:
    """A trial over its iterations."""
    best = {id(arm[0][0]): role for arm, role in ((findings.plain, "baseline"), (findings.ranked, "best")) if arm}
    other = "failed" if trial.outcome == "failed" else "plain" if trial.arm == PLAIN else "trial"
    share = {step: values.get("available_share") for step, values in sorted(trial.results.items())}
    return TrialCurve(
        trial=trial.trial,
        twin=trial.twin,
        name=_words(trial),
        role=best.get(id(trial), other),
        outcome=trial.outcome or RUNNING,
        reason=trial.reason,
        best=trial.best(findings.metric),
        dev=trial.dev(findings.metric) if trial.results else {},
        available_share={step: value for step, value in share.items() if value is not None},
        curriculum_over=findings.past_curriculum(trial),
    )


def effects_facts(found: FamilyEffects | None) -> EffectsPart | None:
    """What curricula change over all pairs, in sentences and by value; None for fewer than two pairs."""
    if found is None:
        return None
    return EffectsPart(
        sentences=sentences(found),
        notes=[f"{note[0].upper()}{note[1:]}." for note in found.notes],
        split=found.split,
        mean=found.effects.mean,
        by_value=[
            ValueRow(value_name(one.key, one.value), one.effect, one.ci95, one.pairs) for one in found.effects.by_value
        ],
    )


def _cost(findings: Findings) -> list[CostRow]:
    """What the search cost, beside its forecast."""
    state = findings.state
    forecast, cost = state.forecast, (state.end or {}).get("cost", {})
    hours = forecast.get("hours_forecast")
    return [
        CostRow("trials", forecast.get("trials"), len(state.trials)),
        CostRow("iterations, expected", forecast.get("iterations_expected"), state.iterations),
        CostRow("iterations, at most", forecast.get("iterations_at_most"), state.iterations),
        CostRow("seconds, from start to end", None if hours is None else round(3600 * hours), round(state.seconds)),
        CostRow("CPU hours reserved by trials", forecast.get("cpu_hours_forecast"), cost.get("cpu_hours")),
        CostRow("GPU hours reserved by trials", forecast.get("gpu_hours_forecast"), cost.get("gpu_hours")),
    ]


def _trees(findings: Findings) -> list[TreesRow]:
    """The best curriculum against plain training if the search's rankers grow trees; else empty."""
    best, baseline = findings.pair or (None, None)
    if baseline is None or best is None or not {TREES} <= baseline.params.keys() & best.params.keys():
        return []
    most = max(baseline.results, default=0) * baseline.params[TREES]
    rows = needed(best.dev(findings.metric), baseline.dev(findings.metric), best.params[TREES], baseline.params[TREES])
    return [replace(row, of=_words(best), most=most) for row in rows]


def needed(dev: Mapping[int, float], plain: Mapping[int, float], trees: int, plain_trees: int) -> list[TreesRow]:
    """Compares a trial with plain training at the ends of PARTS equal parts of the trial: `trees` of it give the value
    `dev`, which plain training first reaches with `plain` trees (None: never).

    dev, plain           value by iteration, from 1, of the trial and of plain training
    trees, plain_trees   trees an iteration of each
    """
    last, rows = max(dev, default=0), []
    for at in sorted({round(last * part / PARTS) for part in range(1, PARTS + 1)} & dev.keys()):
        reached = [iteration for iteration, value in plain.items() if value >= dev[at]]
        first = min(reached) * plain_trees if reached else None
        ratio = None if first is None else first / (at * trees)
        rows.append(TreesRow(at * trees, dev[at], first, ratio))
    return rows


def _again(findings: Findings) -> AgainPart:
    """The commands that repeat the search, and its versions, seeds and data."""
    state, folder, rankers = findings.state, findings.search_folder, findings.experiment.rankers
    again = replace(folder, name="again" if folder.name != "again" else "once-more")
    verdict = findings.confirmation
    confirmed = {"seeds of the confirmation": [*verdict.seeds]} if verdict else {}
    return AgainPart(
        commands=[
            again.command("run search.yaml --name"),
            verdict.asked.command(again, None) if verdict else again.command("confirm"),
            again.command("report"),
        ],
        yaml=state.yaml,
        with_={
            "data": f"{state.data['name']} (digest {state.data['digest'][:16]})",
            "rankers" if len(rankers) > 1 else "ranker": rankers,
            "metric": state.metric,
            "seed of the search": state.seed,
            **confirmed,
            "sessions": state.sessions,
            "git commit": (state.git_commit or "–")[:12],
            **dict(sorted(state.versions.items())),
        },
    )
