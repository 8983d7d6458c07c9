"""Existing rankers that a confirmation compares its configurations with (`--against`): TREC runs or saved rankers.

Each is one training, so what is tested holds for new queries, not for new trainings: there is no p_new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import RankingData, Split
from trainables.evaluation.per_query import evaluator_of
from trainables.evaluation.significance import PairedTest, adjust, paired_t_test
from trainables.evaluation.trec_files import read_run
from trainables.training.factory import load_saved
from trainables.training.ranker_folder import require_ranker
from trainables.training.saved_ranker import SavedRanker

OPTION = "--against"


class Existing(NamedTuple):
    """values: per query, [Q]; precision: of the scores, fp32 or bf16; None of a run and of trees."""

    values: np.ndarray
    precision: str | None


def values_of(names: Sequence[str], data: RankingData, split: str, metric: str, level: int) -> dict[str, Existing]:
    """Each named run file or ranker on the candidates of a split. Raises DataError or ConfigError for one that cannot
    be read or ranks something else."""
    part = data.splits[split]
    evaluator = evaluator_of(data, part, level)
    found = {name: _scored(name, data, part, split) for name in dict.fromkeys(names)}
    return {name: Existing(evaluator(scores, [metric])[metric], how) for name, (scores, how) in found.items()}


def _scored(name: str, data: RankingData, part: Split, split: str) -> tuple[np.ndarray, str | None]:
    if Path(name).exists() and not Path(name).is_dir():
        return run_scores(name, data, part), None
    require_ranker(Path(name))
    ranker = load_saved(Path(name))
    if ranker.classes != data.classes:
        wrong = f"'{name}' predicts classes {', '.join(ranker.classes) or 'none'}"
        raise DataError(Problem(OPTION, wrong, f"a ranker for {data.name}"))
    precision = ranker.precision() if isinstance(ranker, SavedRanker) else None
    return ranker.score_split(data, split), precision


def run_scores(path: str, data: RankingData, part: Split) -> np.ndarray:
    """Scores of a split's candidates, float32 [C], in the order of a TREC run: those that it lacks come last. Raises
    DataError if it ranks no candidate at all."""
    run = read_run(path)
    queries, documents = part.query[part.owner].tolist(), part.document.tolist()
    pairs = zip(queries, documents, strict=True)
    scores = np.array(
        [run.get(data.query_ids[query], {}).get(data.document_ids[document], np.nan) for query, document in pairs]
    )
    ranked = ~np.isnan(scores)
    if data.classes or not ranked.any():
        raise DataError(Problem(OPTION, f"'{path}' ranks no candidate of {data.name}", "a run of the same data"))
    order = np.zeros(len(scores), np.float32)
    order[ranked] = np.unique(scores[ranked], return_inverse=True)[1] + 1
    return order


def rows_of(
    present: Mapping[str, Existing], baseline: np.ndarray, best: np.ndarray, label: str, correction: str
) -> list[dict[str, Any]]:
    """A row for each existing ranker. `baseline`, `best`: per-query values [N, Q] of N trainings, averaged here.
    `label`: the configuration that `best` is of. p is corrected over the existing rankers."""
    from_baseline = [paired_t_test(one.values, baseline.mean(axis=0)) for one in present.values()]
    to_best = [paired_t_test(best.mean(axis=0), one.values) for one in present.values()]
    corrected = [adjust([test.p for test in tests], correction) for tests in (from_baseline, to_best)]
    return [
        {
            "label": name,
            "mean": float(one.values.mean()),
            "precision": one.precision,
            "trainings": 1,
            **_tested(from_baseline[row], corrected[0][row]),
            **dict.fromkeys(("p_new", "p_new_adjusted", "ci95_new")),
            "best": {"label": label, **_tested(to_best[row], corrected[1][row])},
        }
        for row, (name, one) in enumerate(present.items())
    ]


def _tested(test: PairedTest, p_adjusted: float) -> dict[str, Any]:
    return {"difference": test.difference, "p_value": test.p, "p_adjusted": float(p_adjusted), "ci95": list(test.ci95)}
