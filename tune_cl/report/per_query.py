"""Per-query values of the best curriculum and of plain training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.counting import counted
from trainables.curriculum.scoring import word_counts
from trainables.data import load_data
from trainables.data.columns import RankingData, required_split
from trainables.errors import DataError, Problem
from trainables.evaluation.trec import read_per_query
from tune_cl.confirmation.verdict import leader
from tune_cl.place import found_again
from tune_cl.report.findings import Document, Findings, words

MOST_TURNS = 8  # queries with so many or more share a group
MOST_DOMAINS = 12


class NothingToShow(Exception):
    """Why a search has no values of single queries, in a sentence."""


@dataclass(frozen=True)
class PerQuery:
    """Values of Q queries of one split.

    label            the best curriculum in words, and how many seeds its values come from
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
    """Means over seeds from the confirmation's files; without a confirmation, what trials left on dev.

    Raises NothingToShow if there is nothing to compare, DataError if data or files are missing or have changed.
    """
    split, label, best, baseline = _files(findings)
    ours, theirs = _mean(best, findings.metric), _mean(baseline, findings.metric)
    data = load_data(findings.experiment.base_run().data)
    _check(data, findings)
    ids = [data.query_ids[int(query)] for query in required_split(data, split).query]
    rows = [row for row, name in enumerate(ids) if name in ours and name in theirs]
    if not rows:
        raise DataError(Problem(str(best[0]), f"holds no query of {split}", "files of a search on this data"))
    values = [np.array([known[ids[row]] for row in rows]) for known in (ours, theirs)]
    return PerQuery(data, split, label, np.array(rows), values[0], values[1])


def _check(data: RankingData, findings: Findings) -> None:
    digest = findings.state.data.get("digest")
    if digest and digest != data.digest:
        wrong, right = "has changed since the search", "it takes the data that the search read"
        raise DataError(Problem("data.source", f"'{data.name}' {wrong}", right))


def _files(findings: Findings) -> tuple[str, str, list[Path], list[Path]]:
    """The split, the label of the best, and the TSV files of the best and of the baseline."""
    confirmed, folder = findings.confirmation, findings.place.folder
    if confirmed and (top := leader(confirmed)):
        label = f"{top['label']}, means over {counted(len(top['runs']), 'seed')}"
        return confirmed["split"], label, _tables(top, folder), _tables(confirmed["baseline"], folder)
    if not findings.pairs:
        raise NothingToShow(_unpaired(findings))
    ended = [pair for pair in findings.pairs if all(trial.artifacts for trial in pair)]
    if not ended:
        missing = " and ".join(trial.trial for trial in findings.pairs[0] if not trial.artifacts)
        raise NothingToShow(f"There are no values of single queries yet: they come with the end of {missing}.")
    files = [[found_again(str(trial.artifacts), folder) / "dev.per_query.tsv" for trial in pair] for pair in ended]
    seeds = "one seed" if len(ended) == 1 else f"means over {counted(len(ended), 'seed')}"
    return "dev", f"{words(ended[0][0])}, {seeds}", [best for best, _ in files], [plain for _, plain in files]


def _unpaired(findings: Findings) -> str:
    if not findings.baseline:
        return "The baseline has given no dev value."
    if not findings.ranked:
        return findings.in_terms("No trial with a curriculum has given a dev value.")
    return "The best configuration and the baseline have no dev values of one seed."


def _tables(entry: Document, folder: Path) -> list[Path]:
    """The per-query tables beside the run files of an entry."""
    runs = [found_again(run["run_file"], folder) for run in entry["runs"]]
    return [run.with_name(f"{run.name.partition('.')[0]}.per_query.tsv") for run in runs]


def _mean(files: Sequence[Path], metric: str) -> dict[str, float]:
    """Means over the files, by query id; queries that any file lacks are left out."""
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

    Queries of equal length stay together, so a group may be empty: it is left out.
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
