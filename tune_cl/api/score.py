"""Training instances and their difficulty: `tune_cl.difficulty`, `tune_cl.instances` and `tune-cl score`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainables.core.files import write_text
from trainables.core.prose import say
from trainables.data.columns import SplitName
from trainables.data.forms.frames import Data, as_source
from trainables.loops.instances import SplitInstances, difficulties, instances_of
from tune_cl.api.outputs import output_path
from tune_cl.experiment.load import Overrides, load_training_run
from tune_cl.results import Result

if TYPE_CHECKING:
    from pandas import DataFrame


class Difficulties(Result):
    """What `tune-cl score` wrote. cached: whether the values were computed before."""

    count: int
    min: float
    max: float
    mean: float
    seconds: float
    cached: bool
    output: Path


def difficulty(data: Data, scoring: str, split: str = "train", overrides: Overrides | None = None) -> np.ndarray:
    """Difficulty of each training instance, float64 [I], higher = harder.

    data       a folder, a name or tables, as for `tune_cl.run`
    scoring    a name of `tune-cl list scorings`
    split      train, dev or test
    overrides  dotted keys with their values. The instances depend on training.loss, training.negatives and
               evaluation.relevance_level; `instances` with the same overrides says which instance is which

    Values are cached. A scoring that needs a teacher trains it first. Raises ConfigError or DataError.
    """
    part = instances_of(load_training_run(None, overrides or (), as_source(data)), split, scoring)
    return difficulties(part, scoring).values


def instances(data: Data, split: str = "train", overrides: Overrides | None = None) -> DataFrame:
    """The training instances as a pandas DataFrame; row i is instance i of `difficulty` with the same arguments.

    Columns: query_id, query, document_id, document, label, negative_id, negative.

    label     1.0 if `document` is relevant, else 0.0; for pairs to classify the class's name
    negative  the non-relevant document of a fixed pair (training.negatives: all with a pairwise loss)
    A document that training draws again at each use is None.

    With {"training.loss": "pointwise", "training.negatives": "all"} every candidate is an instance once. Raises
    ConfigError or DataError.
    """
    from pandas import DataFrame  # here: it takes half a second to import

    part = instances_of(load_training_run(None, overrides or (), as_source(data)), split)
    if without := len(part.split) - len(np.unique(part.query)):
        why = "without a relevant candidate and another one below it"
        say(f"note: {without:,} of {len(part.split):,} queries of {split} have no instance: {why}")
    queries = part.query.tolist()
    return DataFrame(
        {
            "query_id": [part.data.query_ids[query] for query in queries],
            "query": [part.data.query_text(query) for query in queries],
            "document_id": list(part.ids(part.document)),
            "document": list(part.texts(part.document)),
            "label": part.labels,
            "negative_id": list(part.ids(part.negative)),
            "negative": list(part.texts(part.negative)),
        }
    )


def score(
    data: Data,
    scoring: str,
    split: SplitName = "train",
    output: str | Path | None = None,
    overrides: Overrides | None = None,
) -> Difficulties:
    """Difficulty of each training instance.

        tune-cl score docstrings context_words --output difficulty.tsv

    Writes one line an instance: query id, document id(s), difficulty (higher = harder). An instance is a query with one
    of its relevant documents, whose negatives are drawn in training. With training.negatives=all every pair of a
    relevant document and a lower-graded one is an instance, and with training.loss=pointwise as well every candidate.

    data       docstrings, ir_datasets:NAME, hf:NAME, or a folder in one of the formats of tune-cl list data; in Python
               also tables
    scoring    see tune-cl list scorings
    split      whose instances are scored
    output     a TSV file; by default DATA.SCORING.SPLIT.tsv
    overrides  configuration keys with values or ranges (VALUE is YAML), repeatable

    Raises ConfigError or DataError.
    """
    run = load_training_run(None, overrides or (), as_source(data))
    path = output_path(output, str(run.data.source), f"{scoring}.{split}.tsv")
    part = instances_of(run, split, scoring)
    scored = difficulties(part, scoring)
    values = scored.values
    write_text(path, "".join(_lines(part, values)))
    return Difficulties(
        count=len(values),
        min=float(values.min()),
        max=float(values.max()),
        mean=float(values.mean()),
        seconds=scored.seconds,
        cached=scored.cached,
        output=path,
    )


def _lines(part: SplitInstances, values: np.ndarray) -> Iterator[str]:
    rows = zip(part.query, part.ids(part.document), part.ids(part.negative), values.tolist(), strict=True)
    for query, document, negative, value in rows:
        documents = " ".join(name for name in (document, negative) if name is not None)
        yield f"{part.data.query_ids[int(query)]}\t{documents}\t{value!r}\n"
