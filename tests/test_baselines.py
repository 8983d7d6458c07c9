"""Baselines against sums by hand, against BM25 computed anew, and on public collections."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tune_cl
from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.baselines import BASELINES, load_baseline
from trainables.baselines.label_free import GIVEN_RUN, VECTORS, label_free
from trainables.baselines.lexical import Bm25Baseline, Sdm, terms
from trainables.config.keys import TrainingConfig
from trainables.data import load_data
from trainables.data.bm25 import Bm25
from trainables.data.columns import NO_RANK, RankingData, Split, TextColumn
from trainables.data.combine import with_candidates
from trainables.data.settings import DataConfig
from trainables.data.words import index_words, look_up
from trainables.evaluation.metrics import Evaluator
from trainables.rankers.ranker import TextSide, Tokens
from trainables.rankers.word_vectors import FIRST_WORD

BASE = tiny_data()
FEW = settings(max_examples=30)
WORDS = ["cat", "cats", "dog", "running", "the", "of", "runs", "x1", "-"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=6)


def data_of(queries: list[str], documents: list[str], grades: list[list[int]] | None = None) -> RankingData:
    """Every document is a candidate of every query; one split, test (and a train split with no candidates)."""
    count = len(documents)
    grade = np.array(grades or [[0] * count] * len(queries), np.int16).ravel()
    offsets = np.arange(len(queries) + 1) * count
    split = Split(
        query=np.arange(len(queries), dtype=np.int32),
        offsets=offsets,
        document=np.tile(np.arange(count), len(queries)).astype(np.int32),
        grade=grade,
        rank=np.full(len(grade), NO_RANK, np.int32),
        score=np.full(len(grade), np.nan),
        judged_grade=grade,
        judged_offsets=offsets,
    )
    return replace(
        BASE,
        documents=TextColumn.of(documents),
        document_ids=TextColumn.of(f"d{i}" for i in range(count)),
        utterances=TextColumn.of(queries),
        utterance_offsets=np.arange(len(queries) + 1),
        query_ids=TextColumn.of(f"q{i}" for i in range(len(queries))),
        splits={"test": split},
    )


def run_of(**keys: Any) -> TrainingConfig:
    return TrainingConfig.model_validate({"ranker": {"name": "conv_knrm", "vector_size": 8}, **keys})


RUN = run_of()


def scores(name: str, data: RankingData, split: str = "test", **params: float) -> np.ndarray:
    baseline = load_baseline(name)(data, RUN, [split])
    return baseline.scorer(data.splits[split])({**baseline.defaults(), **params})


# -- every baseline ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BASELINES)
def test_scores_are_finite_repeatable_and_better_than_chance(name: str) -> None:
    data = tiny_data(queries=40, candidates=6)
    split = data.splits["test"]
    first, again = scores(name, data), scores(name, data)
    assert first.shape == (len(split.document),)
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, again)
    value = Evaluator(split, data.document_ids)(first, ["map"])["map"].mean()
    chance = Evaluator(split, data.document_ids)(np.zeros(len(first)), ["map"])["map"].mean()
    assert value > chance


# -- bm25 -------------------------------------------------------------------------------------------------------------


@FEW
@given(documents=TEXTS, queries=TEXTS, k1=st.floats(0.01, 4), b=st.floats(0, 1))
def test_bm25_from_postings_is_bm25_computed_anew(documents: list[str], queries: list[str], k1: float, b: float):
    data = data_of(queries, [*documents, "cat"])
    split = data.splits["test"]
    rows = index_words(" ".join(terms(text)) for text in data.documents)
    encoded = look_up((" ".join(terms(text)) for text in queries), rows.vocabulary)
    plain = Bm25(rows, "lucene", k1, b).pair_scores(encoded, split.owner, split.document)
    np.testing.assert_allclose(scores("bm25", data, k1=k1, b=b), plain, atol=1e-12)


def test_the_best_point_of_the_grid_is_chosen_and_the_first_of_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranking by length alone (b = 1) puts the short relevant document first; b = 0 the long one with more matches."""
    data = data_of(["cat"], ["cat", "cat cat dog dog dog dog dog dog", "dog"], [[1, 0, 0]])
    points = ({"k1": 2.0, "b": 0.0}, {"k1": 2.0, "b": 1.0}, {"k1": 3.0, "b": 1.0})
    monkeypatch.setattr(Bm25Baseline, "grid", points)
    choice = Bm25Baseline(data, RUN, ["test"]).grid_best("test")
    assert (choice.params, choice.value, choice.points) == (points[1], 1.0, 3)


# -- sdm --------------------------------------------------------------------------------------------------------------


def test_sdm_is_the_sum_by_hand() -> None:
    """Query `red fox den`: neighbours (red, fox) and (fox, den)."""
    documents = ["red fox and den", "fox red a b c d e f den", "den"]
    data = data_of(["red fox den"], documents)
    mean = (3 + 8 + 1) / 3  # `and` and `a` are stop words

    def idf(holding: int) -> float:
        return math.log(1 + (3 - holding + 0.5) / (holding + 0.5))

    def bm25(weight: float, count: int, length: int) -> float:
        return weight * count / (count + 0.9 * (0.6 + 0.4 * length / mean)) if count else 0.0

    red = fox = idf(2)
    den = idf(3)
    words = [sum(bm25(weight, 1, length) for weight in (red, fox, den)) for length in (3, 8)] + [bm25(den, 1, 1)]
    # document 0: `red fox` and, without the stop word, `fox den` stand as in the query
    ordered = [bm25(red + fox, 1, 3) + bm25(fox + den, 1, 3), 0.0, 0.0]
    # document 1: `fox red` in the other order; fox at 0 and den at 7 just fit a window of 8
    unordered = [ordered[0], bm25(red + fox, 1, 8) + bm25(fox + den, 1, 8), 0.0]
    for tw, ow, uw in ((0.85, 0.1, 0.05), (0, 1, 0), (0, 0, 1), (1, 0, 0)):
        by_hand = [tw * w + ow * o + uw * u for w, o, u in zip(words, ordered, unordered, strict=True)]
        assert scores("sdm", data, tw=tw, ow=ow, uw=uw) == pytest.approx(by_hand)


def test_a_window_ends_after_eight_terms_and_counts_each_pair_of_positions() -> None:
    documents = ["fox a1 a2 a3 a4 a5 a6 den", "fox a1 a2 a3 a4 a5 a6 a7 den", "fox fox den den", "den"]
    data = data_of(["fox den"], documents)
    sdm = Sdm(data, RUN, ["test"])
    split = data.splits["test"]
    unordered, ordered = sdm._windows(split, False), sdm._windows(split, True)
    assert dict(zip(unordered.candidate.tolist(), unordered.count.tolist(), strict=True)) == {0: 1, 2: 4}
    assert dict(zip(ordered.candidate.tolist(), ordered.count.tolist(), strict=True)) == {2: 1}


@FEW
@given(documents=TEXTS, queries=TEXTS)
def test_sdm_with_all_weight_on_the_words_is_bm25(documents: list[str], queries: list[str]) -> None:
    data = data_of(queries, [*documents, "cat"])
    np.testing.assert_allclose(scores("sdm", data, tw=1.0, ow=0.0, uw=0.0), scores("bm25", data), atol=1e-12)


# -- embedding --------------------------------------------------------------------------------------------------------


def test_embedding_is_the_cosine_of_mean_vectors(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("cat 1 0\ndog 0 1\nbird -3 4\n")
    data = data_of(["cat unknown", "dog cat", "nobody"], ["cat", "dog dog cat", "bird", "unheard"])
    run = TrainingConfig.model_validate({"ranker": {"name": "conv_knrm", "vectors": str(vectors)}})
    baseline = load_baseline("embedding")(data, run, ["test"])
    assert baseline.defaults() == {"vectors": str(vectors)}
    values = baseline.scorer(data.splits["test"])(baseline.defaults()).reshape(3, 4)
    root2, root5 = math.sqrt(2), math.sqrt(5)
    by_hand = [[1, 1 / root5, -0.6, 0], [1 / root2, 3 / (root2 * root5), 0.2 / root2, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(values, by_hand, atol=1e-7)


# -- real data --------------------------------------------------------------------------------------------------------


def test_bm25_over_a_public_collection(shared: Path) -> None:
    """nDCG@10 over all documents; Pyserini 1.6 has .5014 with the same k1 and b."""
    data = load_data(DataConfig(source=str(shared / "trec/cacm"), candidates="qrels"))
    split, count = data.splits["test"], len(data.documents)
    everything = np.tile(np.arange(count, dtype=np.int32), len(split))
    whole = with_candidates(split, np.arange(len(split) + 1) * count, everything, count)
    baseline = Bm25Baseline(data, RUN, ["test"])
    found = baseline.scorer(whole)(baseline.defaults())
    ndcg = Evaluator(whole, data.document_ids)(found, ["ndcg@10"])["ndcg@10"].mean()
    assert ndcg == pytest.approx(0.4999, abs=1e-4)


# -- what needs no training labels -----------------------------------------------------------------------------------


def split_of(rank: list[int], grade: list[int], queries: int) -> Split:
    """Two candidates a query: rows of documents 2i and 2i + 1, with the given first-stage ranks."""
    count = 2 * queries
    offsets = np.arange(queries + 1) * 2
    grades = np.array(grade, np.int16)
    return Split(
        np.arange(queries, dtype=np.int32), offsets, np.arange(count, dtype=np.int32), grades,
        np.array(rank, np.int32), -np.array(rank, np.float64), grades, offsets,
    )  # fmt: skip


def two_splits() -> RankingData:
    """On dev the first stage is wrong and words are right, on test the other way round."""
    data = data_of(["cat", "dog"], ["cat", "x1", "dog", "x1"])
    dev, test = split_of([2, 1, 2, 1], [1, 0, 1, 0], 2), split_of([2, 1, 2, 1], [0, 1, 0, 1], 2)
    return replace(data, splits={"dev": dev, "test": test})


OWN = TrainingConfig.model_validate({"data": {"source": "own"}, "metric": "p@1"})


def test_the_best_without_labels_is_that_of_dev_on_every_split() -> None:
    data = two_splits()
    on_dev, on_test = (label_free(data, OWN, name) for name in ("dev", "test"))
    assert on_dev["first_stage"] == {"label": GIVEN_RUN, "mean": 0.0} and on_dev["label_free"]["mean"] == 1.0
    assert on_test["first_stage"]["mean"] == 1.0 and on_test["label_free"] == on_dev["label_free"] | {"mean": 0.0}
    given = label_free(data, OWN, "test", chosen=GIVEN_RUN)
    assert given["label_free"] == given["first_stage"]


def test_word_vectors_count_where_a_ranker_has_them() -> None:
    data = replace(data_of(["a cat", "a dog"], ["x1"] * 4), splits=two_splits().splits)
    table = np.zeros((FIRST_WORD + 3, 3), np.float32)
    table[FIRST_WORD:] = np.eye(3)
    one, two, other = range(FIRST_WORD, FIRST_WORD + 3)
    text = TextSide(Tokens.of([[one], [two]]), Tokens.of([[one], [other], [two], [other]]), {}, {"vectors": table})
    found = label_free(data, OWN, "dev", text)
    assert found["label_free"] == {"label": VECTORS, "mean": 1.0} and found["first_stage"]["mean"] == 0.0


def test_a_baseline_from_python_gives_the_run_that_the_command_writes(tmp_path: Path) -> None:
    data, output = write_trec_folder(tiny_data(), tmp_path / "data"), tmp_path / "bm25.run"
    found = tune_cl.baseline(data, "bm25", output=output, overrides={"data.bm25.k1": 1.2}, progress=False)
    assert found.params["k1"] == 1.2 and found.run_file == output and found.chosen is None
    written = tune_cl.evaluate(data / "qrels.test.txt", {"memory": found.run, "file": output}, ["map"])
    assert [run.metrics["map"] for run in written.runs] == pytest.approx([found.metrics["map"]] * 2)
    assert tune_cl.baseline(data, "oracle", progress=False).run_file is None
