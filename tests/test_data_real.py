"""Readers and retrieval on public data: counts and first-stage values that others published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainables.config import DataConfig
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.evaluation.metrics import Evaluator


def load(path: Path, **keys: object) -> RankingData:
    return load_data(DataConfig.model_validate({"source": str(path), **keys}))


def judgments(data: RankingData, split: str) -> list[tuple[str, str, int]]:
    rows = data.splits[split]
    queries = [data.query_ids[i] for i in rows.query[rows.owner]]
    documents = [data.document_ids[i] for i in rows.document]
    return sorted(zip(queries, documents, rows.grade.tolist(), strict=True))


def test_both_layouts_of_wikiqa_hold_the_same(shared: Path) -> None:
    folder, tsv = load(shared / "answers/wikiqa"), load(shared / "answers/wikiqa-tsv")
    assert {name: len(split) for name, split in tsv.splits.items()} == {"train": 873, "dev": 126, "test": 243}
    assert {name: len(split.document) for name, split in tsv.splits.items()} == {
        "train": 8672, "dev": 1130, "test": 2351,
    }  # fmt: skip
    for split in tsv.splits:
        assert judgments(folder, split) == judgments(tsv, split)
        np.testing.assert_allclose(folder.splits[split].score, tsv.splits[split].score)


def first_stage(data: RankingData, split: str, level: int) -> list[float]:
    """MAP, MRR@10 and nDCG@10 of the first-stage ranking."""
    rows = data.splits[split]
    values = Evaluator(rows, data.document_ids, level)(rows.score, ("map", "mrr@10", "ndcg@10"))
    return [float(each.mean()) for each in values.values()]


# MAP, MRR@10 and nDCG@10 of the given run on the test split, as stated beside the data.
@pytest.mark.parametrize(
    ("name", "level", "values"),
    [
        ("msmarco-dl", 2, (0.2476, 0.7024, 0.5058)),
        ("mediqa", 2, (0.7909, 0.8950, 0.9134)),
        ("cacm", 1, (0.3340, 0.8077, 0.5466)),
        ("semeval-cqa", 2, (0.5953, 0.6783, 0.7268)),
    ],
)
def test_given_runs_have_their_published_values(
    shared: Path, name: str, level: int, values: tuple[float, float, float]
) -> None:
    data = load(shared / "trec" / name)
    assert first_stage(data, "test", level) == pytest.approx(values, abs=6e-5)


def test_retrieved_candidates_reach_the_published_level(shared: Path) -> None:
    """BEIR states nDCG@10 .32 to .33 for BM25 on NFCorpus."""
    data = load(shared / "trec/nfcorpus")
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 2474, "dev": 324, "test": 323}
    assert first_stage(data, "test", 1)[2] == pytest.approx(0.3212, abs=0.004)
