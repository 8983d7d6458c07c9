"""Readers and retrieval on public data: counts and first-stage values that others published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.loading import load
from trainables.data.columns import RankingData
from trainables.data.hygiene import shared_parts
from trainables.evaluation.metrics import Evaluator

pytestmark = pytest.mark.slow


def sizes(data: RankingData) -> dict[str, tuple[int, int]]:
    """Queries and candidates per split."""
    return {name: (len(split), len(split.document)) for name, split in data.splits.items()}


def judgments(data: RankingData, split: str) -> list[tuple[str, str, int]]:
    rows = data.splits[split]
    queries = [data.query_ids[i] for i in rows.query[rows.owner]]
    documents = [data.document_ids[i] for i in rows.document]
    return sorted(zip(queries, documents, rows.grade.tolist(), strict=True))


def test_both_layouts_of_wikiqa_hold_the_same(shared: Path) -> None:
    folder, tsv = load(shared / "answers/wikiqa"), load(shared / "answers/wikiqa-tsv")
    assert sizes(tsv) == {"train": (873, 8672), "dev": (126, 1130), "test": (243, 2351)}
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
    [("msmarco-dl", 2, (0.2476, 0.7024, 0.5058)), ("mediqa", 2, (0.7909, 0.8950, 0.9134)),
     ("cacm", 1, (0.3340, 0.8077, 0.5466)), ("semeval-cqa", 2, (0.5953, 0.6783, 0.7268))],
)  # fmt: skip
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


def test_conversations_have_their_counts(shared: Path) -> None:
    data = load(shared / "conversation/dailydialogpp")
    assert sizes(data) == {"train": (7638, 76380), "dev": (1027, 10270), "test": (1142, 11420)}
    turns = {name: np.bincount(data.turns[split.query])[1:].tolist() for name, split in data.splits.items()}
    assert turns == {
        "train": [371, 913, 5847, 496, 4, 7], "dev": [16, 91, 650, 97, 106, 67], "test": [0, 140, 936, 66],
    }  # fmt: skip
    assert all((np.add.reduceat(split.grade, split.offsets[:-1]) == 1).all() for split in data.splits.values())


def test_feature_data_has_its_counts(shared: Path) -> None:
    mq, lightgbm = load(shared / "ltr/mq2008"), load(shared / "ltr/lightgbm-lambdarank")
    assert mq.features is not None and mq.features.shape == (1384 + 2874, 46)
    assert sizes(mq)["test"] == (156, 2874)
    assert np.bincount(mq.splits["test"].grade).tolist() == [2319, 378, 177]
    training = np.concatenate([mq.splits[name].grade for name in ("train", "dev")])
    assert np.bincount(training).tolist() == [1148, 156, 80]
    assert lightgbm.features is not None and lightgbm.features.shape == (3005 + 768, 300)
    assert np.bincount(lightgbm.splits["test"].grade).tolist() == [206, 256, 252, 44, 10]


def test_sentence_pairs_have_their_counts(shared: Path) -> None:
    data = load(shared / "pairs/sick")
    counts = {name: np.bincount(split.grade).tolist() for name, split in data.splits.items()}
    assert data.classes == ("contradiction", "entailment", "neutral")
    assert counts == {"train": [665, 1299, 2536], "dev": [74, 144, 282], "test": [720, 1414, 2793]}


def test_every_answer_is_in_a_sentence(shared: Path) -> None:
    data = load(shared / "pairs/squad")
    split = data.splits["test"]
    assert len(split) == 1190 and (np.add.reduceat(split.grade, split.offsets[:-1]) == 1).all()
    assert not any("left out" in note for note in data.notes)


# Texts that splits share, as stated beside the data: (train, dev), (train, test), (dev, test).
@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [("nfcorpus", "queries", [4, 4, 1]), ("mediqa", "queries", [1, 0, 0]), ("mediqa", "document_texts", [15, 94, 18])],
)
def test_what_splits_share(shared: Path, name: str, kind: str, counts: list[int]) -> None:
    assert [getattr(pair, kind) for pair in shared_parts(load(shared / "trec" / name))] == counts
