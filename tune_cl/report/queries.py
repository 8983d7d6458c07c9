"""Single queries: the kinds of them, and those whose value changed most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.core.errors import DataError, Problem, UserError, WorkFailed
from trainables.core.prose import counted
from trainables.curriculum.scoring import word_counts
from trainables.data import load_data
from trainables.data.columns import RankingData, required_split
from trainables.evaluation.trec_files import read_per_query
from tune_cl.confirmation.verdict import Trained
from tune_cl.history.search_folder import resolve_recorded
from tune_cl.report.document import GroupRow, NoQueries, QueriesPart, QueryKinds, QueryRow
from tune_cl.report.findings import Findings, mean_interval
from tune_cl.report.wording import cut

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
    run = findings.experiment.base_ranker
    data = load_data(run.data, run.evaluation.relevance_level)
    _check(data, findings)
    ids = [data.query_ids[int(query)] for query in required_split(data, split).query]
    rows = [row for row, name in enumerate(ids) if name in ours and name in theirs]
    if not rows:
        raise DataError(Problem(str(best[0]), f"holds no query of {split}", "files of a search on this data"))
    values = [np.array([means[ids[row]] for row in rows]) for means in (ours, theirs)]
    return PerQuery(data, split, label, np.array(rows), values[0], values[1])


def _check(data: RankingData, findings: Findings) -> None:
    digest = findings.state.data["digest"]
    if digest and digest != data.digest:
        wrong, right = "has changed since the search", "it takes the data that the search read"
        raise DataError(Problem("data.source", f"'{data.name}' {wrong}", right))


def _files(findings: Findings) -> tuple[str, str, list[Path], list[Path]]:
    """The split, the label of the best, and the TSV files of the best and of the baseline."""
    confirmed, folder = findings.confirmation, findings.search_folder.folder
    if confirmed:
        top = confirmed.leader
        label = f"{top.label}, means over {counted(len(top.runs), 'seed')}"
        return confirmed.split, label, _tables(top, folder), _tables(confirmed.baseline, folder)
    if not findings.pair:
        who = "No trial but plain ones has given a" if findings.baseline else "No plain trial has given a"
        raise NothingToShow(f"{who} dev value.")
    if missing := " and ".join(trial.trial for trial in findings.pair if not trial.artifacts):
        raise NothingToShow(f"There are no per-query values yet: they come with the end of {missing}.")
    best, baseline = (resolve_recorded(str(one.artifacts), folder) / "dev.per_query.tsv" for one in findings.pair)
    return "dev", f"{findings.pair[0].trial} {findings.pair[0].words}, one seed", [best], [baseline]


def _tables(row: Trained, folder: Path) -> list[Path]:
    """The per-query tables beside the run files of a configuration."""
    runs = [resolve_recorded(run.run_file, folder) for run in row.trainings]
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


def single_queries(findings: Findings) -> QueriesPart | NoQueries:
    """The best against the baseline by kind of query, and query by query."""
    values = values_of(findings)
    if isinstance(values, str):
        return NoQueries(values)
    order = np.argsort(-values.differences, kind="stable")
    gained = [int(at) for at in order[:SHOWN] if values.differences[at] > 0]
    lost = [int(at) for at in order[::-1][:SHOWN] if values.differences[at] < 0]
    level = findings.experiment.base_ranker.evaluation.relevance_level
    return QueriesPart(
        label=values.label,
        split=values.split,
        kinds=kinds_of(values),
        differences=values.differences[order].tolist(),
        gained=[query_facts(at, values, level) for at in gained],
        lost=[query_facts(at, values, level) for at in lost],
    )


def kinds_of(values: PerQuery) -> list[QueryKinds]:
    """The means of both, with their intervals, in each group of each kind."""
    kinds = {"By number of turns": by_turns(values), "By domain": by_domain(values),
             "By difficulty: mean words of an utterance": by_length(values)}  # fmt: skip
    return [QueryKinds(kind, [_group(name, member, values) for name, member in groups])
            for kind, groups in kinds.items()]  # fmt: skip


def _group(name: str, member: np.ndarray, values: PerQuery) -> GroupRow:
    best, baseline = (mean_interval(column[member]) for column in (values.best, values.baseline))
    return GroupRow(name, int(member.sum()), best, baseline)


def query_facts(index: int, values: PerQuery, relevance_level: int) -> QueryRow:
    """What is told of a query."""
    data, query = values.data, int(values.query[index])
    label, answer = _answer(int(values.row[index]), values, relevance_level)
    return QueryRow(
        id=data.query_ids[query],
        turns=int(data.turns[query]),
        difference=float(values.differences[index]),
        baseline=float(values.baseline[index]),
        best=float(values.best[index]),
        text=cut(data.query_text(query), TEXT),
        answer_is=label,
        answer=answer,
    )


def _answer(row: int, values: PerQuery, relevance_level: int) -> tuple[str, str]:
    data, split = values.data, values.data.splits[values.split]
    start, end = int(split.offsets[row]), int(split.offsets[row + 1])
    pair = data.task == "classification"
    relevant = [0] if pair else np.flatnonzero(split.grade[start:end] >= relevance_level).tolist()
    if not relevant:
        return "Relevant", "no candidate of this query is relevant"
    label = data.classes[split.grade[start]].capitalize() if pair else "Relevant"
    return label, cut(data.documents[int(split.document[start + relevant[0]])], TEXT)
