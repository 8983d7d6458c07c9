"""What a ranker has to beat that needs no training labels: the first stage as it is, and the baselines at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.baselines import load_baseline
from trainables.baselines.lexical import terms
from trainables.baselines.word_embeddings import mean_vector_scores
from trainables.config.keys import TrainingConfig
from trainables.data import DOCSTRINGS
from trainables.data.columns import NO_RANK, RankingData, Split
from trainables.data.settings import DataConfig
from trainables.evaluation.metrics import Evaluator

if TYPE_CHECKING:
    from trainables.rankers.ranker import TextSide


MOST_DOCUMENTS = 100_000  # of a collection whose texts are read for this: some seconds
OVER_WORDS, BY_LUCENE, GIVEN_RUN = (
    f"{what} (first stage)" for what in ("BM25 over words", "Lucene's BM25", "the given run")
)
VECTORS = "cosine of mean word vectors"
LEXICAL = {"BM25 over stems": "bm25", "SDM": "sdm"}
NOTHING: dict[str, Any] = {"first_stage": None, "label_free": None}


def label_free(
    data: RankingData, run: TrainingConfig, name: str, text: TextSide | None = None, chosen: str | None = None
) -> dict[str, Any]:
    """`first_stage`, and `label_free`, the best ranking on dev of those that need no training labels: their `{label,
    mean}` on the split `name`, by the run's metric. None for data without a first stage: features, pairs to classify.

    `text`: word ids and vectors, where a ranker has such; `chosen`: the label that was best on dev, if that is known.
    """
    split = data.splits.get(name)
    if split is None or not (split.rank != NO_RANK).any():
        return NOTHING
    if chosen is None and name != "dev":
        chosen = (label_free(data, run, "dev", text)["label_free"] or {}).get("label")
    evaluator = Evaluator(split, data.document_ids, run.evaluation.relevance_level)

    def row(label: str, scores: np.ndarray) -> dict[str, Any]:
        return {"label": label, "mean": float(evaluator(scores, [run.metric])[run.metric].mean())}

    first = row(first_stage_name(data, run.data, split), first_stage_order(split))
    rows = [first]
    if text is not None and "vectors" in text.arrays and chosen in (None, VECTORS):
        rows.append(row(VECTORS, mean_vector_scores(text, split)))
    if len(data.documents) <= MOST_DOCUMENTS and any(terms(document, data.words) for document in data.documents):
        for label, kind in LEXICAL.items():
            if chosen in (None, label):
                baseline = load_baseline(kind)(data, run, [name])
                rows.append(row(label, baseline.scorer(split)(baseline.defaults())))
    best = max(rows, key=lambda one: one["mean"]) if chosen is None else rows[-1]
    return {"first_stage": first, "label_free": best}


def first_stage_name(data: RankingData, config: DataConfig, split: Split) -> str:
    """Whose ranks a split's candidates have: candidates that BM25 did not retrieve are scored by its words."""
    if data.retrieved:
        return BY_LUCENE
    return OVER_WORDS if split.given is not None or config.source == DOCSTRINGS else GIVEN_RUN


def first_stage_order(split: Split) -> np.ndarray:
    """The first stage's ranks as scores, float64 [C]; candidates without one come last."""
    return np.where(split.rank == NO_RANK, -np.inf, -split.rank.astype(np.float64)).clip(-1.0 - split.rank.max())
