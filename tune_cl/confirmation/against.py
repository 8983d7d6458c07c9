"""Existing rankers that a confirmation compares its configurations with (`--against`): TREC runs or saved rankers.

Each is one training, so what is tested holds for new queries, not for new trainings: there is no p_new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import RankingData, Split
from trainables.evaluation.per_query import evaluator_of
from trainables.evaluation.significance import PairedTest, adjust, paired_t_test
from trainables.evaluation.trec_files import read_run
from trainables.training.factory import load_saved
from trainables.training.ranker_folder import require_ranker
from trainables.training.saved_ranker import SavedRanker
from tune_cl.confirmation.verdict import ExistingResult, OverQueries

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
) -> tuple[ExistingResult, ...]:
    """A row for each existing ranker. `baseline`, `best`: per-query values [N, Q] of N trainings, averaged here.
    `label`: the configuration that `best` is of. p is corrected over the existing rankers."""
    from_baseline = _tested([paired_t_test(one.values, baseline.mean(axis=0)) for one in present.values()], correction)
    to_best = _tested([paired_t_test(best.mean(axis=0), one.values) for one in present.values()], correction)
    return tuple(
        ExistingResult(name, float(one.values.mean()), one.precision, from_baseline[row], label, to_best[row])
        for row, (name, one) in enumerate(present.items())
    )


def _tested(tests: Sequence[PairedTest], correction: str) -> list[OverQueries]:
    adjusted = adjust([test.p for test in tests], correction)
    return [OverQueries(test.difference, test.p, float(p), test.ci95) for test, p in zip(tests, adjusted, strict=True)]
