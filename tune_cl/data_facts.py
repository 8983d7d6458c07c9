"""What a data set holds, and what to know of it before a search: `tune-cl data`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.baselines.doubts import doubts
from trainables.config.keys import TrainingRun
from trainables.curriculum.weighting import given_away
from trainables.data import load_data, recognised
from trainables.data.clusters import cluster_notes
from trainables.data.columns import RankingData, Split
from trainables.data.hygiene import ClassSplit, RankingSplit, SharedParts, described, shared_parts
from tune_cl.documents import document_of

EXAMPLES = 2  # of each split
SHOWN = 2  # candidates of an example


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


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """The fields of `tune-cl data --json`.

    form, recognised_by, files  as what and by what sign the source is read, and from which files
    features                    of a document; None where it has a text
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
    given_away: Mapping[str, float] | None
    notes: list[str]
    warnings: list[str]
    examples: Mapping[str, list[Example]]

    @property
    def document(self) -> dict[str, Any]:
        """For --json."""
        return document_of(self)


def facts_of(run: TrainingRun) -> DataFacts:
    """Reads the data of a training and describes it."""
    level = run.evaluation.relevance_level
    data = load_data(run.data, level)
    form, recognised_by, files = recognised(run.data.source)
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
        given_away=_given_away(data, run),
        notes=[*data.notes, *cluster_notes(data, run.data.query_clusters)],
        warnings=doubts(data, level),
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
