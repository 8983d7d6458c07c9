"""What a report tells of a search, as one document, which docs/reference/report.md describes; pages draw it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import (
    against,
    badge,
    best_on_dev,
    corrected,
    effect,
    every_row,
    holds_for,
    interval_of,
    leader,
    notes_of,
    of_these_seeds,
    opponent,
)
from tune_cl.confirmation.verdict import remarks as remarks_on
from tune_cl.effects.pairs import FamilyEffects
from tune_cl.effects.words import sentences, value_name
from tune_cl.experiment.experiment import PLAIN
from tune_cl.history.state import RAN_TO_THE_END, RUNNING, Dev, SearchState, TrialState
from tune_cl.report.findings import Document, Findings
from tune_cl.report.queries import single_queries
from tune_cl.report.stopping import stopping
from tune_cl.report.wording import number, signed
from tune_cl.search.remarks import grouped, in_sentences, remarks
from tune_cl.space.wording import CAUTION, label_free_rows, not_tuned, tuning_words

MOST_ROWS = 10  # trials of an arm in the table without a confirmation
MOST_LINES = 250  # trials of an arm drawn; more would make the page slow and the chart unreadable
MOST_REASONS = 10  # of failures
PARTS = 5  # equal parts of a training of trees, at whose ends it is compared with plain training
TREES = "ranker.trees_per_iteration"


def facts(findings: Findings) -> Document:
    """Everything."""
    return main_facts(findings) | {
        "cost": _cost(findings),
        "queries": single_queries(findings),
        "stopping": stopping(findings),
        "again": _again(findings),
    }


def main_facts(findings: Findings, in_python: bool = False) -> Document:
    """What came out, and the trials. `in_python`: what to do next is calls, not commands."""
    state, search = findings.state, findings.experiment
    rows, found = [*configurations(findings)], remarks(state, search)
    return {
        "search": state.name,
        "description": search.description,
        "data": state.data.get("name", "its data"),
        "rankers": search.rankers,
        "metric": findings.metric,
        "trials": len(state.trials),
        "iterations": state.iterations,
        "searcher": search.search.searcher,
        "scheduler": search.search.scheduler,
        "over_curricula": findings.over_curricula,
        "plain": findings.experiment.plain_words,
        "grows_trees": search.base_run().grows_trees,
        "plain_is_tuned": findings.tuned,
        "verdict": None if findings.confirmation is None else _verdict(findings, findings.confirmation),
        "on_dev": [*in_sentences(found, warnings=True), *_on_dev(findings)],
        "notes_on_search": [*in_sentences(found, warnings=False)],
        "next": _next(findings, in_python),
        "configurations": rows,
        "not_shown": len(findings.plain) + len(findings.ranked) - sum(bool(row["trial_id"]) for row in rows),
        "curves": [_curve(findings, trial) for trial in _drawn(findings)],
        "ended": bool(state.end),
        "outcomes": state.counts(),
        "failures": _failures(state)[:MOST_REASONS],
        "remarks": [asdict(remark) for remark in found],
        "trees": _trees(findings),
        "effects": effects_facts(findings.effects),
    }


def _failures(state: SearchState) -> list[Document]:
    """The reasons of failed trials, each once, with the trials."""
    failed = {trial.trial: trial.reason for trial in state.by_number() if trial.outcome == "failed"}
    return [
        {"trial": ", ".join([_words(state.trials[names[0]]), *names[1:]]), "reason": reason, "count": len(names)}
        for reason, names in grouped(failed).items()
    ]


def _words(trial: TrialState) -> str:
    """A trial's id and its words as on the terminal and in MLflow."""
    return f"{trial.trial} {trial.words}"


# -- the verdict ---------------------------------------------------------------------------------------------------

SAME_TREES = "The seed changes nothing in these trainings: with others they would be the same."


def _verdict(findings: Findings, confirmed: Document) -> Document:
    """The confirmation in words, each fact once, and its numbers."""
    top, on_dev = leader(confirmed), confirmed["split"] == "dev"
    which = "" if top["marks"] or confirmed.get("selection") else f" ({best_on_dev(confirmed)})"
    return {
        "badge": _badge(confirmed),
        "colour": "" if on_dev else confirmed["verdict"].split()[0],
        "in_short": [effect(confirmed), f"{top['label']}{which}", f"against {opponent(confirmed, against(top))}"],
        "notes": [f"{note[0].upper()}{note[1:]}." for note in notes_of(confirmed)],
        "small_print": [part for part in _small_print(confirmed, top) if part],
        "split": confirmed["split"],
        "seeds": confirmed["seeds"],
        "corrected": corrected(confirmed),
        "by_seed": [*_by_seed(confirmed)],
        "level": confirmed["baseline"]["mean"],
        "tests": [*_tests(confirmed)],
        "curves": [curve for row in every_row(confirmed) if (curve := _mean_curve(findings, row, confirmed))],
        "against": confirmed.get("against", []),
        "looks": confirmed.get("looks", []),
        "among": [_tested(row) | {"name": f"{row['label']} - {row['other']}"} for row in confirmed.get("among", [])],
    }


def _badge(confirmed: Document) -> str:
    return "No verdict: compared on dev only" if confirmed["split"] == "dev" else badge(confirmed)


def _tests(confirmed: Document) -> Iterator[Document]:
    """A row for each configuration and opponent of its."""
    for row in confirmed["configurations"]:
        for one in row["opponents"]:
            name = _row(row, row["trial_id"])["name"]
            yield {"name": name, "opponent": _opponent_name(one), "marks": one["marks"], **_tested(one)}


def _opponent_name(row: Mapping[str, Any]) -> str:
    """Its trial, roles and label."""
    return " ".join(part for part in (row["trial_id"], ", ".join(row["roles"]) + ":", row["label"]) if part)


def _small_print(confirmed: Document, top: Document) -> Iterator[str]:
    """Sentences, each with a fact that stands nowhere above it."""
    yield from (holds_for(confirmed), " ".join(remarks_on(confirmed)), of_these_seeds(confirmed))
    if not top.get("seed_matters", True) and confirmed["verdict"] == "no difference shown":
        yield SAME_TREES
    yield f"Seeds {', '.join(map(str, confirmed['seeds']))}, paired by query."
    for one in confirmed.get("dropped", ()):
        yield f"{one['label']} got no more seeds after {', '.join(map(str, one['seeds']))}: it could hardly win."


def _by_seed(confirmed: Document) -> Iterator[Document]:
    """Each seed's value, and the interval of the difference from the opponent's mean; empty with one seed."""
    if len(confirmed["seeds"]) < 2:
        return
    level = confirmed["baseline"]["mean"]
    tested = {row["label"]: row for row in confirmed["configurations"]}
    for row in every_row(confirmed):
        is_tested = row["label"] in tested
        low, high = (interval_of(row) if is_tested else None) or (math.nan, math.nan)
        against_mean = against(row)["mean"] if is_tested else level
        values = {run["seed"]: run["value"] for run in row["runs"]}
        yield {"name": row["label"], "role": "best" if is_tested else "baseline", "values": values,
               "mean": row["mean"], "low": against_mean + low, "high": against_mean + high}  # fmt: skip


def _mean_curve(findings: Findings, row: Mapping[str, Any], confirmed: Document) -> Document | None:
    """Dev over iterations, the mean over seeds (MacAvaney et al. 2020, Fig. 3), up to the iteration that every seed has
    reached. None for a confirmation of an earlier version."""
    curves = [run.get("dev_by_iteration") for run in row["runs"]]
    if not curves or not all(curves):
        return None
    is_plain, trial = "roles" in row, findings.state.trials.get(row["trial_id"] or "")
    return {
        "trial": row["trial_id"],
        "name": row["label"],
        "role": "baseline" if is_plain else "best",
        "dev": {at: sum(values) / len(values) for at, values in enumerate(zip(*curves, strict=False), 1)},
        "curriculum_over": 0 if trial is None or is_plain else findings.past_curriculum(trial),
    }


# -- before a confirmation -----------------------------------------------------------------------------------------


def _on_dev(findings: Findings) -> list[str]:
    """What dev shows, in sentences: what tuning was worth to plain training, the best other trial."""
    return [text for text in (_tuning(findings), _best_on_dev(findings)) if text]


def _best_on_dev(findings: Findings) -> str:
    if not findings.ranked:
        return "No trial but plain ones has given a dev value."
    (trial, at), baseline = findings.ranked[0], findings.baseline
    text = f"Best {findings.other} on dev so far: {_words(trial)}, {findings.metric} {number(at.dev)} at iteration "
    if baseline is None:
        return f"{text}{at.iteration}. No plain trial gave a dev value, so there is nothing to compare with."
    difference = at.dev - baseline[1].dev
    text += f"{at.iteration}, against {number(baseline[1].dev)} of {_words(baseline[0])} ({signed(difference)}). "
    if difference <= 0:
        return f"{text}No {findings.other} was above it on dev."
    return f"{text}It is the best of {len(findings.ranked)} trials. {CAUTION}"


def _tuning(findings: Findings) -> str:
    default = next((at.dev for trial, at in findings.plain if trial.baseline), None)
    if not findings.tuned or default is None:
        return ""
    trials, opened = findings.state.trials_of(PLAIN), findings.state.opened_in(PLAIN)
    plain = findings.experiment.plain_words
    return tuning_words(findings.metric, len(trials), opened, findings.plain[0][1].dev, default, plain)


def _next(findings: Findings, in_python: bool) -> list[Document]:
    """What to do next, and why."""
    step, steps = findings.search_folder.call if in_python else findings.search_folder.command, []
    if findings.ranked and findings.experiment.compares and not findings.tuned:
        tune = step("tune_plain" if in_python else "tune-plain")
        why = f"{not_tuned(findings.experiment.plain_words)} To tune it as hard:"
        steps.append({"why": why, "do": tune})
    if findings.ranked:
        why = "Confirm it on held-out queries with several seeds:"
        steps.append({"why": why, "do": step("confirm")})
    elif not findings.state.end:
        steps.append({"why": "The search has not ended. Go on with:", "do": step("resume")})
    return steps


# -- configurations ------------------------------------------------------------------------------------------------


def configurations(findings: Findings) -> Iterator[Document]:
    """What needs no training labels, the baseline, then the confirmed configurations; without a confirmation, the best
    trials of each arm on dev, plain ones first, each beside the best plain one. `best`: the one with the highest mean.
    """
    confirmed = findings.confirmation
    entries = every_row(confirmed) if confirmed else []
    rows = [_confirmed_row(entry) for entry in entries] or [*_trials(findings)]
    free = [_row({**row, "sd": None}, None) for row in label_free_rows(confirmed or findings.state.label_free)]
    best = max([*free, *rows] if confirmed else rows, key=lambda row: row["mean"], default=None)
    for row in (*free, *rows):
        yield row | {"best": row is best}


def _confirmed_row(entry: Mapping[str, Any]) -> Document:
    """An opponent, whose difference the configurations have, or a configuration against its least favourable one."""
    if "roles" not in entry:
        return _row(entry, entry["trial_id"]) | {"against": entry["against"]}
    row = _row({**entry, "marks": ""}, entry["trial_id"]) | dict.fromkeys(("difference", "ci95", "p"))
    return row | {"name": _opponent_name(entry), "against": ""}


def _row(entry: Mapping[str, Any], trial_id: str | None) -> Document:
    """`sd`: over seeds, None for one seed; `difference` and what follows: None for the baseline."""
    name = entry["label"] if trial_id is None else f"{trial_id} {entry['label']}"
    row = {"trial_id": trial_id, "label": entry["label"], "name": name, "mean": entry["mean"], "sd": entry["sd"]}
    return row | {"marks": entry.get("marks", "")} | _tested(entry)


def _tested(entry: Mapping[str, Any]) -> Document:
    return {
        "difference": entry.get("size", entry.get("difference")),
        "ci95": interval_of(entry),
        "p": entry.get("p_new_adjusted"),
    }


def _trials(findings: Findings) -> Iterator[Document]:
    """The best plain trials with the default, then the best others, and how far each was trained: one that was stopped
    early might have become better."""
    default = [pair for pair in findings.plain[MOST_ROWS:] if pair[0].baseline]
    best, level = findings.baseline or (None, None)
    for trial, at in (*findings.plain[:MOST_ROWS], *default, *findings.ranked[:MOST_ROWS]):
        difference = at.dev - level.dev if level and trial is not best else None
        row = _row({"label": trial.words, "mean": at.dev, "sd": None, "difference": difference}, trial.trial)
        ended = None if trial.outcome in RAN_TO_THE_END else trial.outcome or RUNNING
        yield row | {"iterations": len(trial.dev(findings.metric)), "ended": ended, "twin": _twin(findings, trial, at)}


def _twin(findings: Findings, trial: TrialState, at: Dev) -> Document | None:
    """Of a curriculum: its twin, and how far it is above it on dev (None: the twin failed, or has no value yet)."""
    if trial.arm == PLAIN or trial.twin is None:
        return None
    twin = findings.state.trials[trial.twin]
    reached = None if twin.outcome == "failed" else twin.best(findings.metric)
    outcome = "failed" if twin.outcome == "failed" else None
    difference = at.dev - reached.dev if reached else None
    return {"trial_id": twin.trial, "mean": reached and reached.dev, "difference": difference, "ended": outcome}


# -- trials --------------------------------------------------------------------------------------------------------


def _drawn(findings: Findings) -> list[TrialState]:
    """The best trials of each arm, the default and, if there is room, those that failed."""
    best = [trial for arm in (findings.plain, findings.ranked) for trial, _ in arm[:MOST_LINES]]
    failed = [trial for trial in findings.state.by_number() if trial.outcome == "failed" and not trial.baseline]
    default = findings.state.baseline_trial()
    drawn = [*([default] if default else []), *best, *failed[: max(0, MOST_LINES - len(best))]]
    return list({trial.trial: trial for trial in drawn}.values())


def _curve(findings: Findings, trial: TrialState) -> Document:
    """A trial over its iterations. `role`: best and baseline are the best of each arm."""
    at = trial.best(findings.metric)
    best = {id(arm[0][0]): role for arm, role in ((findings.plain, "baseline"), (findings.ranked, "best")) if arm}
    other = "failed" if trial.outcome == "failed" else "plain" if trial.arm == PLAIN else "trial"
    share = {step: values.get("available_share") for step, values in sorted(trial.results.items())}
    return {
        "trial": trial.trial,
        "twin": trial.twin,
        "name": _words(trial),
        "role": best.get(id(trial), other),
        "outcome": trial.outcome or RUNNING,
        "reason": trial.reason,
        "best": None if at is None else {"dev": at.dev, "iteration": at.iteration},
        "dev": trial.dev(findings.metric) if trial.results else {},
        "available_share": {step: value for step, value in share.items() if value is not None},
        "curriculum_over": findings.past_curriculum(trial),
    }


def effects_facts(found: FamilyEffects | None) -> Document | None:
    """What curricula change over all pairs, in sentences and by value; None for fewer than two pairs."""
    if found is None:
        return None
    values = [
        {"name": value_name(one.key, one.value), "effect": one.effect, "ci95": one.ci95, "pairs": one.pairs}
        for one in found.effects.by_value
    ]
    return {
        "sentences": sentences(found),
        "notes": [f"{note[0].upper()}{note[1:]}." for note in found.notes],
        "split": found.split,
        "mean": found.effects.mean,
        "by_value": values,
    }


def _cost(findings: Findings) -> list[Document]:
    """What the search cost, beside its forecast."""
    state = findings.state
    forecast, cost = state.forecast, (state.end or {}).get("cost", {})
    hours = forecast.get("hours_forecast")
    lines = [
        ("trials", forecast.get("trials"), len(state.trials)),
        ("iterations, expected", forecast.get("iterations_expected"), state.iterations),
        ("iterations, at most", forecast.get("iterations_at_most"), state.iterations),
        ("seconds, from start to end", None if hours is None else round(3600 * hours), round(state.seconds)),
        ("CPU hours reserved by trials", forecast.get("cpu_hours_forecast"), cost.get("cpu_hours")),
        ("GPU hours reserved by trials", forecast.get("gpu_hours_forecast"), cost.get("gpu_hours")),
    ]
    return [dict(zip(("what", "forecast", "true"), line, strict=True)) for line in lines]


def _trees(findings: Findings) -> list[Document]:
    """The best curriculum against plain training if the search's rankers grow trees; else empty."""
    best, baseline = findings.pair or (None, None)
    if baseline is None or best is None or not {TREES} <= baseline.params.keys() & best.params.keys():
        return []
    most = max(baseline.results, default=0) * baseline.params[TREES]
    rows = needed(best.dev(findings.metric), baseline.dev(findings.metric), best.params[TREES], baseline.params[TREES])
    return [row | {"of": _words(best), "most": most} for row in rows]


def needed(dev: Mapping[int, float], plain: Mapping[int, float], trees: int, plain_trees: int) -> list[Document]:
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
        rows.append({"trees": at * trees, "dev": dev[at], "plain": first, "ratio": ratio})
    return rows


def _again(findings: Findings) -> Document:
    """The commands that repeat the search, and its versions, seeds and data."""
    state, folder, rankers = findings.state, findings.search_folder, findings.experiment.rankers
    again = replace(folder, name="again" if folder.name != "again" else "once-more")
    asked = (findings.confirmation or {}).get("asked")
    confirmed = {"seeds of the confirmation": findings.confirmation["seeds"]} if findings.confirmation else {}
    return {
        "commands": [
            again.command("run search.yaml --name"),
            *(f"{again.command('tune-plain')} --trials {event['trials']}" for event in state.tuning),
            Request(**asked).command(again, None) if asked else again.command("confirm"),
            again.command("report"),
        ],
        "yaml": state.yaml,
        "with": {
            "data": f"{state.data.get('name', '–')} (digest {str(state.data.get('digest', '–'))[:16]})",
            "rankers" if len(rankers) > 1 else "ranker": rankers,
            "metric": state.metric,
            "seed of the search": state.seed,
            **confirmed,
            "sessions": state.sessions,
            "git commit": (state.git_commit or "–")[:12],
            **dict(sorted(state.versions.items())),
        },
    }
