"""What a data set holds, and what to know of it before a search: `tune_cl.data_facts` and `tune-cl data`."""

from __future__ import annotations

from trainables.baselines.doubts import doubts
from trainables.data import load_data, recognised
from trainables.data.clusters import cluster_notes
from trainables.data.columns import RankingData, Split
from trainables.data.forms.frames import Data, as_source
from trainables.data.hygiene import ClassSplit, RankingSplit, SharedParts, described, shared_parts
from tune_cl.experiment.load import Overrides, load_training_run
from tune_cl.results import Result

EXAMPLES = 2  # of each split


class Candidate(Result):
    """A candidate of an example. label: its class, of data to classify."""

    document: str
    grade: int
    text: str
    label: str | None = None


class Example(Result):
    """A query with some of its candidates."""

    query: str
    utterances: tuple[str, ...]
    candidates: tuple[Candidate, ...]


class DataFacts(Result):
    """What a data set holds.

    form, recognised_by, files  as what and by what sign the source is read, and from which files
    features                    of a document; None where it has a text
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
    splits: dict[str, RankingSplit | ClassSplit]
    shared: list[SharedParts]
    notes: list[str]
    warnings: list[str]
    examples: dict[str, list[Example]]


def data_facts(data: Data, overrides: Overrides | None = None) -> DataFacts:
    """What a data set holds, and doubts about it.

        tune-cl data ../data/wikiqa

    Shows the form as which the data is read and its files, the size of each split, the overlap of splits, and two
    examples from each. Queries or texts in two splits make the test too easy.

    data       docstrings, ir_datasets:NAME, hf:NAME, or a folder in one of the formats of tune-cl list data; in Python
               also tables
    overrides  configuration keys with values or ranges (VALUE is YAML), repeatable

    Raises ConfigError or DataError.
    """
    run = load_training_run(None, overrides or (), as_source(data))
    level = run.evaluation.relevance_level
    loaded = load_data(run.data, level)
    form, recognised_by, files = recognised(run.data.source)
    return DataFacts(
        data=loaded.name,
        source=run.data.source,
        form=form,
        recognised_by=recognised_by,
        files=files,
        digest=loaded.digest,
        task=loaded.task,
        documents=len(loaded.documents),
        features=None if loaded.features is None else loaded.features.shape[1],
        domains=list(loaded.domains),
        relevance_level=level,
        splits=described(loaded, level),
        shared=shared_parts(loaded),
        notes=[*loaded.notes, *cluster_notes(loaded, run.data.query_clusters)],
        warnings=doubts(loaded, level),
        examples={name: _examples(loaded, split) for name, split in loaded.splits.items()},
    )


def _examples(data: RankingData, split: Split) -> list[Example]:
    """The first queries of a split, with their best-graded and worst-graded candidates."""
    examples = []
    for index in range(min(EXAMPLES, len(split))):
        rows = range(int(split.offsets[index]), int(split.offsets[index + 1]))
        graded = sorted(rows, key=lambda row: -split.grade[row])
        candidates = []
        for row in dict.fromkeys([*graded[:1], *graded[-1:]]):
            document, grade = int(split.document[row]), int(split.grade[row])
            label = data.classes[grade] if data.classes else None
            text = data.documents[document]
            candidates.append(Candidate(document=data.document_ids[document], grade=grade, text=text, label=label))
        query = int(split.query[index])
        utterances = tuple(data.query_utterances(query))
        examples.append(Example(query=data.query_ids[query], utterances=utterances, candidates=tuple(candidates)))
    return examples
