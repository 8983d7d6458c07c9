"""Training instances and their difficulty from Python: `tune_cl.instances` and `tune_cl.difficulty`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainables.core.prose import say
from trainables.data.forms.frames import Data, as_source
from trainables.loops.instances import difficulties, instances_of
from tune_cl.experiment.load import Overrides, load_training_run

if TYPE_CHECKING:
    from pandas import DataFrame


def difficulty(data: Data, scoring: str, split: str = "train", overrides: Overrides | None = None) -> np.ndarray:
    """Difficulty of each training instance, float64 [I], higher = harder; what `tune-cl score` writes.

    data       a folder, a name or tables, as for `tune_cl.run`
    scoring    a name of `tune-cl list scorings`
    split      train, dev or test
    overrides  dotted keys with their values. The instances depend on training.loss, training.negatives and
               evaluation.relevance_level; `instances` with the same overrides says which instance is which

    Values are cached. A scoring that needs a teacher trains it first. Raises ConfigError or DataError.
    """
    return difficulties(
        instances_of(load_training_run(None, overrides or (), as_source(data)), split, scoring), scoring
    ).values


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

    instances = instances_of(load_training_run(None, overrides or (), as_source(data)), split)
    if without := len(instances.split) - len(np.unique(instances.query)):
        why = "without a relevant candidate and another one below it"
        say(f"note: {without:,} of {len(instances.split):,} queries of {split} have no instance: {why}")
    queries = instances.query.tolist()
    return DataFrame(
        {
            "query_id": [instances.data.query_ids[query] for query in queries],
            "query": [instances.data.query_text(query) for query in queries],
            "document_id": list(instances.ids(instances.document)),
            "document": list(instances.texts(instances.document)),
            "label": instances.labels,
            "negative_id": list(instances.ids(instances.negative)),
            "negative": list(instances.texts(instances.negative)),
        }
    )
