"""How a split's scores are judged and written: as a ranking (a TREC run), or as predictions of classes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.files import write_text
from trainables.data.columns import RankingData, Split
from trainables.evaluation.metrics import ACCURACY, Evaluator
from trainables.evaluation.reported import split_values
from trainables.evaluation.trec_files import write_per_query, write_run


class Accuracy:
    """Judges whether the class of each pair of a split is predicted."""

    def __init__(self, split: Split):
        self._right = split.grade

    def __call__(self, scores: np.ndarray, metrics: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """1 or 0 per pair, float64 [Q]; `scores`: class logits, float32 [Q, K]. Accuracy is the one metric.

        Raises ConfigError for another metric, WorkFailed for logits that are not finite.
        """
        if wrong := [name for name in metrics or () if name != ACCURACY]:
            raise ConfigError(Problem("metric", f"'{name}' judges rankings, not classes", ACCURACY) for name in wrong)
        return {ACCURACY: (predicted_classes(scores) == self._right).astype(np.float64)}


SplitEvaluator = Accuracy | Evaluator


def predicted_classes(logits: np.ndarray) -> np.ndarray:
    """Class with the highest logit, int64 [N], the first of ties. Raises WorkFailed for logits that are not finite."""
    bad = np.count_nonzero(~np.isfinite(logits).all(axis=1))
    if bad:
        raise WorkFailed(f"classification: the logits of {bad} of {len(logits)} pairs are NaN or infinite")
    return logits.argmax(axis=1)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax of logits [N, K], float64 [N, K]."""
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def evaluator_of(data: RankingData, split: Split, relevance_level: int, metric: str | None = None) -> SplitEvaluator:
    """The judge of a split's scores, by the data's task. `metric`: that of the training, computed beside METRICS."""
    if data.task == "classification":
        return Accuracy(split)
    return Evaluator(split, data.document_ids, relevance_level, metric=metric)


def scores_file(folder: Path, stem: str, data: RankingData) -> Path:
    """Where a split's scores go: STEM.run.txt, or STEM.predictions.tsv for pairs to classify."""
    return folder / f"{stem}.{'predictions.tsv' if data.task == 'classification' else 'run.txt'}"


def values_file(folder: Path, stem: str) -> Path:
    """Where a split's per-query values go."""
    return folder / f"{stem}.per_query.tsv"


def write_scores(
    path: Path, split: Split, data: RankingData, scores: np.ndarray, tag: str, evaluator: SplitEvaluator | None = None
) -> None:
    """Writes scores [C] as a TREC run, best first; for pairs to classify, the predictions of logits [C, K].
    `evaluator`: the split's, if the caller has it: it holds the order of a run.

    Raises WorkFailed for scores that are not finite, DataError for an id that a TREC file cannot hold.
    """
    if data.task == "classification":
        write_predictions(path, split, data, scores)
    else:
        write_run(path, split, data, scores, tag, evaluator.order if isinstance(evaluator, Evaluator) else None)


def write_evaluated(
    folder: Path, stem: str, data: RankingData, scores: np.ndarray, tag: str, evaluator: SplitEvaluator
) -> dict[str, np.ndarray]:
    """Writes the scores of the split `stem` (`write_scores`) and, to STEM.per_query.tsv, their values by query;
    returns these values."""
    split = data.splits[stem]
    write_scores(scores_file(folder, stem, data), split, data, scores, tag, evaluator)
    values = reported(split, data, scores, evaluator)
    write_per_query(values_file(folder, stem), [data.query_ids[query] for query in split.query], values)
    return values


def reported(split: Split, data: RankingData, scores: np.ndarray, evaluator: SplitEvaluator) -> dict[str, np.ndarray]:
    """Per-query values of a split, float64 [Q] per metric, as they are reported: by pytrec_eval and ir_measures."""
    if isinstance(evaluator, Evaluator):
        return split_values(split, data, scores, evaluator.metrics, evaluator.relevance_level)
    return evaluator(scores)


def write_predictions(path: Path, split: Split, data: RankingData, logits: np.ndarray) -> None:
    """Writes a TSV, one row per pair in the split's order: query id, document id, both classes, probabilities.

    `logits`: float32 [C, K]; the header names the classes of the probability columns.
    """
    lines = ["\t".join(["query_id", "document_id", "gold", "predicted", *(f"p_{name}" for name in data.classes)])]
    predicted, probability = predicted_classes(logits), probabilities(logits)
    for row, (query, document) in enumerate(zip(split.query.tolist(), split.document.tolist(), strict=True)):
        names = data.classes[split.grade[row]], data.classes[predicted[row]]
        numbers = (f"{value:.6f}" for value in probability[row])
        lines.append("\t".join([data.query_ids[query], data.document_ids[document], *names, *numbers]))
    write_text(path, "\n".join(lines) + "\n")
