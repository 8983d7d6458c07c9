"""Sections about single queries: groups of them, and the queries that changed most."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem, UserError, WorkFailed
from trainables.core.prose import counted
from trainables.curriculum.scoring import word_counts
from trainables.data import load_data
from trainables.data.columns import RankingData, required_split
from trainables.evaluation.trec_files import read_per_query
from tune_cl.confirmation.verdict import leader
from tune_cl.experiment.experiment import CURRICULUM
from tune_cl.history.search_folder import resolve_recorded
from tune_cl.history.state import Dev, TrialState
from tune_cl.report.charts import interval_chart, queries_a_bar, strip_chart
from tune_cl.report.findings import (
    FEWEST_ENDED,
    Document,
    Findings,
    RankAgreement,
    mean_interval,
    rank_agreement,
    slow_bias,
    words,
)
from tune_cl.report.markup import (
    BLOCKS,
    NONE,
    Markup,
    cut,
    details,
    figure,
    heading,
    legend,
    number,
    p_value,
    paragraph,
    plain,
    side_by_side,
    signed,
    table,
)
from tune_cl.schedulers import compares_inside_curricula

MOST_TURNS = 8  # queries with so many or more share a group
MOST_DOMAINS = 12


class NothingToShow(Exception):
    """Why a search has no per-query values, in a sentence."""


@dataclass(frozen=True)
class PerQuery:
    """Values of Q queries of one split.

    label            the best trial of its arm in words, and how many seeds its values come from
    row              int64 [Q] position of each query in the split
    best, baseline   float64 [Q]
    """

    data: RankingData
    split: str
    label: str
    row: np.ndarray
    best: np.ndarray
    baseline: np.ndarray

    @property
    def query(self) -> np.ndarray:
        """Index of each query in the data, int64 [Q]."""
        return self.data.splits[self.split].query[self.row].astype(np.int64)

    @property
    def differences(self) -> np.ndarray:
        return self.best - self.baseline


def per_query(findings: Findings) -> PerQuery:
    """Means over seeds from the confirmation's files; without a confirmation, the values of trials on dev.

    Raises NothingToShow if there is nothing to compare, DataError if data or files are missing or have changed.
    """
    if findings.experiment.objective:
        raise NothingToShow("The search trained by a function of its user: the texts of its queries are not known.")
    split, label, best, baseline = _files(findings)
    ours, theirs = _mean(best, findings.metric), _mean(baseline, findings.metric)
    run = findings.experiment.base_ranker()
    data = load_data(run.data, run.evaluation.relevance_level)
    _check(data, findings)
    ids = [data.query_ids[int(query)] for query in required_split(data, split).query]
    rows = [row for row, name in enumerate(ids) if name in ours and name in theirs]
    if not rows:
        raise DataError(Problem(str(best[0]), f"holds no query of {split}", "files of a search on this data"))
    values = [np.array([means[ids[row]] for row in rows]) for means in (ours, theirs)]
    return PerQuery(data, split, label, np.array(rows), values[0], values[1])


def _check(data: RankingData, findings: Findings) -> None:
    digest = findings.state.data.get("digest")
    if digest and digest != data.digest:
        wrong, right = "has changed since the search", "it takes the data that the search read"
        raise DataError(Problem("data.source", f"'{data.name}' {wrong}", right))


def _files(findings: Findings) -> tuple[str, str, list[Path], list[Path]]:
    """The split, the label of the best, and the TSV files of the best and of the baseline."""
    confirmed, folder = findings.confirmation, findings.search_folder.folder
    if confirmed and (top := leader(confirmed)):
        label = f"{top['label']}, means over {counted(len(top['runs']), 'seed')}"
        return confirmed["split"], label, _tables(top, folder), _tables(confirmed["baseline"], folder)
    if not findings.pair:
        who = "No trial but plain ones has given a" if findings.baseline else "No plain trial has given a"
        raise NothingToShow(f"{who} dev value.")
    if missing := " and ".join(trial.trial for trial in findings.pair if not trial.artifacts):
        raise NothingToShow(f"There are no per-query values yet: they come with the end of {missing}.")
    best, baseline = (resolve_recorded(str(one.artifacts), folder) / "dev.per_query.tsv" for one in findings.pair)
    return "dev", f"{words(findings.pair[0])}, one seed", [best], [baseline]


def _tables(entry: Document, folder: Path) -> list[Path]:
    """The per-query tables beside the run files of an entry."""
    runs = [resolve_recorded(run["run_file"], folder) for run in entry["runs"]]
    return [run.with_name(f"{run.name.partition('.')[0]}.per_query.tsv") for run in runs]


def _mean(files: Sequence[Path], metric: str) -> dict[str, float]:
    """Means over the files, by query id; queries that any file lacks are omitted."""
    tables = [read_per_query(path, metric) for path in files]
    common = [name for name in tables[0] if all(name in table for table in tables)]
    return {name: sum(table[name] for table in tables) / len(tables) for name in common}


# -- groups of queries -------------------------------------------------------------------------------------------

Groups = list[tuple[str, np.ndarray]]  # name, and which of the Q queries belong to the group, bool [Q]


def by_turns(values: PerQuery) -> Groups:
    """By number of utterances; queries with MOST_TURNS or more share a group."""
    turns = np.minimum(values.data.turns[values.query], MOST_TURNS)
    return [(_turns(int(count)), turns == count) for count in np.unique(turns)]


def _turns(count: int) -> str:
    return f"{count}{' or more' if count == MOST_TURNS else ''} turn{'s' if count > 1 else ''}"


def by_domain(values: PerQuery) -> Groups:
    """By domain: the MOST_DOMAINS largest, largest first."""
    domain = values.data.domain[values.query]
    kinds, sizes = np.unique(domain, return_counts=True)
    largest = kinds[np.argsort(-sizes, kind="stable")][:MOST_DOMAINS]
    return [(values.data.domains[int(kind)] or "(no name)", domain == kind) for kind in largest]


def by_length(values: PerQuery) -> Groups:
    """Three groups of about equal size by mean words of an utterance (the scoring `context_words`), short to long.

    Queries of equal length stay together, so a group may be empty: it is omitted.
    """
    data, query = values.data, values.query
    counts = np.concatenate([[0], np.cumsum(word_counts(data.utterances))])
    totals = np.diff(counts[data.utterance_offsets])[query]
    length = totals / np.maximum(data.turns[query], 1)
    edges = np.quantile(length, [1 / 3, 2 / 3])
    bucket = np.searchsorted(edges, length)
    low, high = (f"{edge:.3g}" for edge in edges)
    names = [f"to {low}", f"{low} to {high}", f"over {high}"]
    return [(name, bucket == i) for i, name in enumerate(names) if (bucket == i).any()]


SHOWN = 5  # queries that gained most, and that lost most
TEXT = 700  # characters of a text


def values_of(findings: Findings) -> PerQuery | str:
    """Per-query values, or in words why there are none."""
    try:
        return per_query(findings)
    except NothingToShow as error:
        return str(error)
    except UserError as error:
        why = str(error.problems[0]).removeprefix("error: ")
    except WorkFailed as error:
        why = str(error)
    return f"There are no per-query values to show: {why}."


def groups_section(findings: Findings, values: PerQuery | str) -> list[Markup]:
    """The metric by number of turns, by domain and by length: best against baseline."""
    if isinstance(values, str):
        return [paragraph(values)]
    queries = f"{counted(len(values.row), 'query')} of {values.split}"
    text = f"{values.label}, against plain training; {queries}."
    kinds = [("By number of turns", by_turns(values)), ("By domain", by_domain(values)),
             ("By difficulty: mean words of an utterance", by_length(values))]  # fmt: skip
    charts = [_group_figure(title, groups, findings.metric, values) for title, groups in kinds if len(groups) > 1]
    single = [f"{title}: all queries are in one group ({groups[0][0]})." for title, groups in kinds if len(groups) == 1]
    note = (
        "Bars are 95 % intervals of each mean over its queries. Where those of one group overlap, that alone says "
        "little: the two are paired. Groups are many, so one that stands out may do so by chance."
    )
    keys = legend([("best", f"best {findings.other}"), ("baseline", "plain training")])
    return [paragraph(text), keys, side_by_side(*charts), *map(paragraph, single), paragraph(note)]


def _group_figure(title: str, groups: Groups, metric: str, values: PerQuery) -> Markup:
    names = [f"{name} ({int(member.sum())})" for name, member in groups]
    pairs = [(mean_interval(values.best[member]), mean_interval(values.baseline[member])) for _, member in groups]
    return figure(title, interval_chart(names, pairs, metric))


def changes_section(findings: Findings, values: PerQuery | str) -> list[Markup]:
    """Sorted differences, and the texts of the queries that changed most."""
    if isinstance(values, str):
        return [paragraph(values)]
    chart = strip_chart(values.differences, f"{findings.metric}, best {findings.other} less plain")
    order = np.argsort(-values.differences, kind="stable")
    gained = [int(at) for at in order[:SHOWN] if values.differences[at] > 0]
    lost = [int(at) for at in order[::-1][:SHOWN] if values.differences[at] < 0]
    return [
        side_by_side(figure(_title(values), chart, paragraph(values.label))),
        *_queries("Gained most", gained, findings, values),
        *_queries("Lost most", lost, findings, values),
    ]


def _title(values: PerQuery) -> str:
    each = queries_a_bar(len(values.row))
    if each == 1:
        return f"Each query of {values.split}"
    return f"Queries of {values.split}: each bar is the mean of {each} neighbouring queries"


def _queries(title: str, indices: list[int], findings: Findings, values: PerQuery) -> list[Markup]:
    if not indices:
        return [paragraph(f"{title}: none.")]
    return [heading(title), *(_query(at, findings, values) for at in indices)]


def _query(index: int, findings: Findings, values: PerQuery) -> Markup:
    """A query's values, its text, and its first relevant candidate; for a pair, its second sentence instead."""
    data, query = values.data, int(values.query[index])
    text = cut(data.query_text(query), TEXT)
    difference = signed(float(values.differences[index]), 3)
    change = f"{number(values.baseline[index], 3)} → {number(values.best[index], 3)}"
    name = f"{data.query_ids[query]}, {counted(int(data.turns[query]), 'turn')}"
    return BLOCKS.query(
        difference, change, cut(text, 90), name, text, *_answer(int(values.row[index]), findings, values)
    )


def _answer(row: int, findings: Findings, values: PerQuery) -> tuple[str, str]:
    """A label and the text of a query's first relevant candidate; for a pair, its class and its second sentence."""
    data, split = values.data, values.data.splits[values.split]
    level = findings.experiment.base_ranker().evaluation.relevance_level
    start, end = int(split.offsets[row]), int(split.offsets[row + 1])
    pair = data.task == "classification"
    relevant = [0] if pair else np.flatnonzero(split.grade[start:end] >= level).tolist()
    if not relevant:
        return "Relevant", "no candidate of this query is relevant"
    label = data.classes[split.grade[start]].capitalize() if pair else "Relevant"
    return label, cut(data.documents[int(split.document[start + relevant[0]])], TEXT)


LEVEL = 0.05
SPLITS = ("curriculum.pacing", "curriculum.m", "curriculum.objective_switch", "curriculum.subset")
Ended = list[tuple[TrialState, Dev]]


def ranking_section(findings: Findings) -> list[Markup]:
    """Rank correlation of the values at each rung with the final ones, over all trials that ran to the end."""
    ended = findings.ended
    parts = [paragraph(_stopping(findings))]
    if len(ended) < FEWEST_ENDED:
        text = f"Too few trials ran to the end ({len(ended)}) to say how well early values ranked them: "
        return [*parts, paragraph(f"{text}at least {FEWEST_ENDED} are needed.")]
    lines = [(rung, *_agreement(findings, ended, rung)) for rung in findings.experiment.rungs]
    parts.append(table(["rung (iteration)", "trials", "Kendall's τ", "95 % interval"], lines, [1, 2, 3]))
    parts.append(paragraph(_over_whom(findings)))
    return [*parts, *_splits(findings), *_slow(findings)]


def _stopping(findings: Findings) -> str:
    search = findings.experiment.search
    ended = [trial.reason or "" for trial in findings.state.by_number() if trial.outcome == "stopped_early"]
    others = Counter(reason for reason in ended if "search." in reason)  # budgets, by their keys
    also = "".join(f" {count} more ended early because {reason}." for reason, count in sorted(others.items()))
    if search.scheduler == "none":
        return f"No scheduler stopped trials; the table says how well early values would have ranked them.{also}"
    stopped = len(ended) - others.total()
    text = f"Scheduler {search.scheduler} stopped {stopped} of {len(findings.state.trials)} trials early.{also}"
    if _compares_inside(findings):
        return f"{text} Trials were compared while still inside their curriculum, too."
    if search.grace == "curriculum":
        return f"{text} No trial was compared before its own curriculum was over."
    return f"{text} Trials could be compared while still inside their curriculum (search.grace: {search.grace})."


def _compares_inside(findings: Findings) -> bool:
    """Whether the scheduler compares trials inside their curricula regardless of `search.grace`."""
    experiment = findings.experiment
    return compares_inside_curricula(experiment.search.scheduler, experiment.setup.promotion)


def _over_whom(findings: Findings) -> str:
    text = f"Rank correlation of the best value up to each rung with the final one, over {len(findings.ended)} trials."
    search = findings.experiment.search
    if search.scheduler == "none":
        return text
    return f"{text} Only trials that were let through ran to the end: how the others would have ended is not known."


def _until(findings: Findings, trial: TrialState, rung: int) -> float:
    """The best value up to the rung; NaN if there is none."""
    values = [value for _, value in takewhile(lambda item: item[0] <= rung, trial.dev(findings.metric).items())]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _early_and_final(findings: Findings, ended: Ended, rung: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best value up to the rung, final value and end of the curriculum of the trials with a value by then, [N] each."""
    lines = [(_until(findings, trial, rung), at.dev, findings.past_curriculum(trial)) for trial, at in ended]
    early, final, past = np.array(lines, np.float64).reshape(-1, 3).T
    valid = ~np.isnan(early)
    return early[valid], final[valid], past[valid]


def _agreement(findings: Findings, ended: Ended, rung: int) -> tuple[object, ...]:
    """The number of trials, τ and its interval, as table cells."""
    early, final, _ = _early_and_final(findings, ended, rung)
    agreement: RankAgreement | None = rank_agreement(early, final)
    if not agreement:
        return len(final), NONE, "too few, or all equal"
    return agreement.trials, number(agreement.tau, 2), f"[{number(agreement.low, 2)}, {number(agreement.high, 2)}]"


def _splits(findings: Findings) -> list[Markup]:
    """The same within trials that have a value of an opened key in common, for keys that divide curricula by kind."""
    keys = [key for key in SPLITS if key in findings.experiment.space.leaves]
    groups: dict[tuple[str, str], Ended] = defaultdict(list)
    for trial, at in findings.ended:
        for key in keys:
            if key in trial.params and trial.arm == CURRICULUM:
                groups[key.removeprefix("curriculum."), plain(trial.params[key])].append((trial, at))
    large = {names: ended for names, ended in sorted(groups.items()) if len(ended) >= FEWEST_ENDED}
    names = ", ".join(key.removeprefix("curriculum.") for key in keys)
    if not large:
        few = f"No split by {names}: no value has {FEWEST_ENDED} trials that ran to the end."
        return [paragraph(few)] if keys else []
    lines = [(f"{key} {value}", rung, *_agreement(findings, ended, rung))
             for (key, value), ended in large.items() for rung in findings.experiment.rungs]  # fmt: skip
    shown = table(["trials with", "rung", "trials", "Kendall's τ", "95 % interval"], lines, [1, 2, 3, 4])
    return [details(f"Split by {names}", shown)]


def _slow(findings: Findings) -> list[Markup]:
    """Whether the first rung is unfair to slow curricula."""
    rungs = findings.experiment.rungs
    bias = slow_bias(*_early_and_final(findings, findings.ended, rungs[0])) if rungs else None
    if not bias:
        text = "Too few slow and quick curricula ran to the end to say whether stopping early is unfair to slow ones."
        return [paragraph(text)]
    way = "worse" if bias.ranks > 0 else "better"
    text = (
        f"At iteration {rungs[0]} the {bias.slow} trials with the longer curricula stood on average "
        f"{abs(bias.ranks):.1f} ranks {way} than at the end, relative to the other {bias.fast} "
        f"(Mann-Whitney p {p_value(bias.p)}): "
    )
    biased = bias.p <= LEVEL and bias.ranks > 0
    search = findings.experiment.search
    if not biased:
        text += "no bias against them is shown."
    elif search.scheduler == "none":
        text += "stopping early would be unfair to slow curricula."
    elif search.grace == "curriculum" and not _compares_inside(findings):
        text += "stopping early would be unfair to slow curricula without this grace (search.grace: curriculum)."
    else:
        text += "stopping early is unfair to slow curricula."
    return [paragraph(text)]
