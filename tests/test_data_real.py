"""First-stage values and counts on public data that others published. All arrays are in test_goldens.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.loading import load
from trainables.data.columns import RankingData
from trainables.data.hygiene import shared_parts
from trainables.evaluation.metrics import Evaluator

pytestmark = pytest.mark.slow


def first_stage(data: RankingData, level: int) -> list[float]:
    """MAP, MRR@10 and nDCG@10 of the first-stage ranking of test."""
    rows = data.splits["test"]
    values = Evaluator(rows, data.document_ids, level)(rows.score, ("map", "mrr@10", "ndcg@10"))
    return [float(each.mean()) for each in values.values()]


# MAP, MRR@10 and nDCG@10 of the given run on the test split, as stated beside the data.
@pytest.mark.parametrize(
    ("name", "level", "values"),
    [("msmarco-dl", 2, (0.2476, 0.7024, 0.5058)), ("mediqa", 2, (0.7909, 0.8950, 0.9134)),
     ("cacm", 1, (0.3340, 0.8077, 0.5466)), ("semeval-cqa", 2, (0.5953, 0.6783, 0.7268))],
)  # fmt: skip
def test_given_runs_have_their_published_values(
    shared: Path, name: str, level: int, values: tuple[float, float, float]
) -> None:
    assert first_stage(load(shared / "trec" / name), level) == pytest.approx(values, abs=6e-5)


def test_retrieved_candidates_reach_the_published_level(shared: Path) -> None:
    """BEIR states nDCG@10 .32 to .33 for BM25 on NFCorpus. Texts that splits share are stated beside the data."""
    data = load(shared / "trec/nfcorpus")
    assert [len(split) for split in data.splits.values()] == [2474, 324, 323]
    assert first_stage(data, 1)[2] == pytest.approx(0.3212, abs=0.004)
    assert [pair.queries for pair in shared_parts(data)] == [4, 4, 1]  # of train and dev, train and test, dev and test
    mediqa = shared_parts(load(shared / "trec/mediqa"))
    assert [(pair.queries, pair.document_texts) for pair in mediqa] == [(1, 15), (0, 94), (0, 18)]
