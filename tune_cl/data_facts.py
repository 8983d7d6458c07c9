"""What a data set holds, and what to know of it before a search: `tune-cl data`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from trainables.baselines.doubts import doubts
from trainables.config.keys import TrainingRun
from trainables.curriculum.weighting import given_away
from trainables.data import load_data, recognised
from trainables.data.clusters import cluster_notes
from trainables.data.columns import RankingData, Split
from trainables.data.hygiene import ClassSplit, RankingSplit, SharedParts, described, shared_parts
from trainables.data.label_check import LabelCheck, check_labels
from tune_cl.documents import document_of

EXAMPLES = 2  # of each split
SHOWN = 2  # candidates of an example
EVIDENCE = Path(__file__).parent / "evidence.json"  # verdicts of docs/results.md's first round, counted
ADVICE = {  # by what BM25 says of the labels: the space to try first, overrides, the studies' searches on such data
    "wrong": (
        "noisy_labels",
        "data.label_noise.share=0",
        "where 40 % or more of the training labels were wrong at random",
    ),
    "lexical": (
        "noisy_labels",
        "data.label_noise.share=0",
        "where 40 % or more of the training labels were wrong and matched words of the query",
    ),
    "as dev": ("quickstart", "", "with the training labels as published"),
}


@dataclass(frozen=True)
class Candidate:
    """A candidate of an example."""

    document: str
    grade: int
    text: str


@dataclass(frozen=True)
class ClassCandidate(Candidate):
    """One of data to classify."""

    class_: str


@dataclass(frozen=True)
class Example:
    """A query with some of its candidates."""

    query: str
    utterances: list[str]
    candidates: list[Candidate]


@dataclass(frozen=True)
class Studies:
    """Verdicts of our searches on such data, which `where` describes."""

    where: str
    searches: int
    better: int
    worse: int


@dataclass(frozen=True)
class Advice:
    """The space to try first, as a command, and what our studies found."""

    space: str
    command: str
    studies: Studies


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """The fields of `tune-cl data --json`.

    form, recognised_by, files  as what and by what sign the source is read, and from which files
    features                    of a document; None where it has a text
    label_check, try_first      what BM25 says of the training labels; None where it can say nothing
    given_away                  how well each weighting tells right labels from wrong ones; None without label noise
    """

    data: str
    source: str
    form: str
    recognised_by: str
    files: list[str]
    digest: str
    task: str
    documents: int
    features: int | None
    domains: list[str]
    relevance_level: int
    splits: Mapping[str, RankingSplit | ClassSplit]
    shared: list[SharedParts]
    label_check: LabelCheck | None
    try_first: Advice | None
    given_away: Mapping[str, float] | None
    notes: list[str]
    warnings: list[str]
    examples: Mapping[str, list[Example]]

    @property
    def document(self) -> dict[str, Any]:
        """For --json."""
        written = document_of(self)
        if self.label_check:
            written["label_check"]["finding"] = self.label_check.finding
        return written


def facts_of(run: TrainingRun) -> DataFacts:
    """Reads the data of a training and describes it."""
    level = run.evaluation.relevance_level
    data = load_data(run.data, level)
    form, recognised_by, files = recognised(run.data.source)
    checked = check_labels(data, run.data, level)
    return DataFacts(
        data=data.name,
        source=run.data.source,
        form=form,
        recognised_by=recognised_by,
        files=files,
        digest=data.digest,
        task=data.task,
        documents=len(data.documents),
        features=None if data.features is None else data.features.shape[1],
        domains=list(data.domains),
        relevance_level=level,
        splits=described(data, level),
        shared=shared_parts(data),
        label_check=checked,
        try_first=None if checked is None else _advice(run.data.source, checked.finding),
        given_away=_given_away(data, run),
        notes=[*data.notes, *cluster_notes(data, run.data.query_clusters)],
        warnings=doubts(data, run.data, level),
        examples={name: _examples(data, split) for name, split in data.splits.items()},
    )


def _given_away(data: RankingData, run: TrainingRun) -> dict[str, float] | None:
    """How well each weighting tells right training labels from wrong ones; None without label noise."""
    if not run.data.label_noise.share or data.features is not None:
        return None
    noise = run.data.label_noise.model_copy(update={"share": 0.0})
    clean = load_data(run.data.model_copy(update={"label_noise": noise}), run.evaluation.relevance_level)
    return given_away(data.splits["train"], clean.splits["train"], run.evaluation.relevance_level)


def _examples(data: RankingData, split: Split) -> list[Example]:
    """The first queries of a split, with their best-graded and worst-graded candidates."""
    examples = []
    for index in range(min(EXAMPLES, len(split))):
        rows = range(int(split.offsets[index]), int(split.offsets[index + 1]))
        graded = sorted(rows, key=lambda row: -split.grade[row])
        shown = graded if len(graded) <= SHOWN else [graded[0], graded[-1]]
        query = int(split.query[index])
        candidates = [_candidate(data, int(split.document[row]), int(split.grade[row])) for row in shown]
        examples.append(Example(data.query_ids[query], data.query_utterances(query), candidates))
    return examples


def _candidate(data: RankingData, document: int, grade: int) -> Candidate:
    shown = data.document_ids[document], grade, data.documents[document]
    return ClassCandidate(*shown, data.classes[grade]) if data.classes else Candidate(*shown)


def _advice(source: str, finding: str) -> Advice | None:
    """The command to try first, and what our studies found on such data. None if BM25 says nothing of the labels."""
    if finding not in ADVICE:
        return None
    space, override, where = ADVICE[finding]
    changes = f" --set {override}" if override else ""
    studies = Studies(where, **json.loads(EVIDENCE.read_text())[finding])
    return Advice(space, f"tune-cl run {space} --data {quote(source)}{changes}", studies)
