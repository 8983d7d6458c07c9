"""What a report tells of a search; pages draw it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tune_cl.experiment.experiment import PLAIN
from tune_cl.history.state import RAN_TO_THE_END, RUNNING, Dev, SearchState, TrialState
from tune_cl.report.document import (
    AgainPart,
    ConfigurationRow,
    CostRow,
    EffectsPart,
    FailureRow,
    MainFacts,
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
from tune_cl.report.story import of_verdict, on_dev
from tune_cl.results import Effects, Verdict
from tune_cl.search.remarks import grouped, in_sentences, remarks
from tune_cl.space.wording import label_free_of, label_free_rows
from tune_cl.verdict.effect_sentences import value_name

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
        verdict=None if findings.confirmation is None else _verdict(findings.confirmation),
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


def _verdict(confirmed: Verdict) -> ReportedVerdict:
    """The verdict in parts of a story, and its numbers."""
    return ReportedVerdict(
        verdict=confirmed,
        colour="" if confirmed.split == "dev" else confirmed.verdict.split()[0],
        parts=of_verdict(confirmed),
        by_seed=[*_by_seed(confirmed)],
        level=confirmed.opponents[0].mean,
    )


def _by_seed(confirmed: Verdict) -> Iterator[SeedRow]:
    """Each seed's value, and the interval of the difference from the opponent's mean; empty with one seed."""
    if len(confirmed.seeds) < 2:
        return
    first = confirmed.opponents[0]
    low, high = first.ci95 or (math.nan, math.nan)
    ends = first.mean + low, first.mean + high
    for row, role in ((confirmed.curriculum, "best"), *((one, "baseline") for one in confirmed.opponents)):
        values = dict(zip(confirmed.seeds, row.values, strict=True))
        yield SeedRow(row.label, role, values, row.mean, *(ends if role == "best" else (math.nan, math.nan)))


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
    """What needs no training labels, then the best trials of each arm on dev, plain ones first, each beside the best
    plain one."""
    found = label_free_rows(*label_free_of(findings.state.label_free))
    rows = [*_trials(findings)]
    free = [ConfigurationRow(trial_id=None, label=one.label, name=one.label, mean=one.mean) for one in found]
    best = max(rows, key=lambda row: row.mean, default=None)
    for row in (*free, *rows):
        yield replace(row, best=row is best)


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


def effects_facts(found: Effects | None) -> EffectsPart | None:
    """What curricula change over all pairs, in sentences and by value; None for fewer than two pairs."""
    if found is None:
        return None
    return EffectsPart(
        sentences=found.sentences,
        notes=[],
        split=found.split,
        mean=found.mean,
        by_value=[ValueRow(value_name(one.key, one.value), one.effect, one.ci95, one.pairs) for one in found.by_value],
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
            f"{again.command('confirm')} --seeds {len(verdict.seeds)}" if verdict else again.command("confirm"),
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
