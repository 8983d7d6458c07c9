"""Scoring functions: known answers from the paper and its code, and what every scoring promises."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.scored_data import make_data, score_of, scored_of
from trainables.curriculum.scoring import CODE, PAPER, SCORINGS, Scored, difficulty
from trainables.data import load_data
from trainables.data.columns import NO_RANK, RankingData
from trainables.data.settings import DataConfig
from tune_cl.testing import contract
from tune_cl.testing.curricula import with_split

BM25_CORPUS = ["the cat sat", "the dog sat on the mat", "a bird flew", "the cat flew"]
BM25_SCORES = [0.103455, 0.112748, 0.0, 0.103455]  # of the query "the cat sat"


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=8, candidates=6, seed=5)


# -- known answers ---------------------------------------------------------------------------------------------------


def bm25_data() -> RankingData:
    graded = [(text, int(place == 0)) for place, text in enumerate(BM25_CORPUS)]
    return make_data([["the cat", "sat"]], [graded])


def test_bm25_std_is_the_sample_deviation_of_the_known_scores() -> None:
    assert SCORINGS["bm25_std"](scored_of(bm25_data())) == pytest.approx(np.std(BM25_SCORES, ddof=1), abs=1e-6)


def test_bm25_std_of_the_code_sees_two_candidates_and_the_corpus_of_these() -> None:
    graded = [(BM25_CORPUS[1], 0), ("a dog ran", 0), (BM25_CORPUS[0], 1), (BM25_CORPUS[3], 0)]
    all_four = make_data([["the cat sat"]], [graded])
    only_two = make_data([["the cat sat"]], [[graded[0], graded[2]]])
    code = SCORINGS["bm25_std"](scored_of(all_four, reference=CODE))
    assert code == pytest.approx(SCORINGS["bm25_std"](scored_of(only_two)) / np.sqrt(2)) and code[0] > 0


def test_a_document_of_two_queries_stands_in_the_corpus_once() -> None:
    """Its word is in one of three documents, so its idf is ln(2.5 / 1.5); in two of four it would be 0."""
    made = make_data([["cat"], ["cat"]], [[("cat sat", 1), ("dog ran", 0)], [("bird flew", 0)]])
    split = made.splits["train"]
    rows = {"document": np.array([0, 1, 0, 2]), "grade": np.array([1, 0, 1, 0]), "rank": np.array([1, 2, 1, 2])}
    shared = replace(split, offsets=np.array([0, 2, 4]), score=-np.arange(4.0), **rows)
    values = SCORINGS["bm25_std"](scored_of(with_split(made, shared)))
    assert values == pytest.approx([np.log(2.5 / 1.5) / np.sqrt(2)] * 2)


VECTORS = """5 2
red 2 0
crimson 1 0
blue 0 3
green 0.6 0.8
grey -1 0
"""


def vector_file(folder: Path) -> str:
    path = folder / "vectors.txt"
    path.write_text(VECTORS)
    return str(path)


def test_semantic_std_is_the_deviation_of_mean_cosines(tmp_path: Path) -> None:
    candidates = [("crimson green", 1), ("unknown", 0), ("grey", 0)]
    made = make_data([["red unheard", "blue"]], [candidates])
    cosines = [np.mean([1, 0.6, 0, 0.8]), 0.0, np.mean([-1, 0])]
    scored = scored_of(made, vectors=vector_file(tmp_path))
    assert SCORINGS["semantic_std"](scored) == pytest.approx(np.std(cosines, ddof=1), abs=1e-6)
    code = replace(scored, reference=CODE)
    assert SCORINGS["semantic_std"](code) == pytest.approx(np.std(cosines[:2]), abs=1e-6)


def test_semantic_std_reads_the_first_20_words_and_the_code_the_last_of_the_context(tmp_path: Path) -> None:
    long = make_data([["red " + "unheard " * 19 + "blue"]], [[("red", 1), ("green " + "other " * 20 + "red", 0)]])
    scored = scored_of(long, vectors=vector_file(tmp_path))
    assert SCORINGS["semantic_std"](scored) == pytest.approx(np.std([1, 0.6], ddof=1), abs=1e-6)
    assert SCORINGS["semantic_std"](replace(scored, reference=CODE)) == pytest.approx(np.std([0, 0.8]), abs=1e-6)


def teacher_scored(reference: str = "paper") -> Scored:
    """One relevant candidate, the second of three; its probability is .8, the others' .5 and .1."""
    made = make_data([["a"]], [[("x", 0), ("y", 1), ("z", 0)]])
    logits = np.log(np.array([0.5, 0.8, 0.1]) / np.array([0.5, 0.2, 0.9])).astype(np.float32)
    return scored_of(made, reference=reference, teacher=lambda: logits)


@pytest.mark.parametrize(("reference", "margin"), [("paper", -(0.8 - 0.3)), (CODE, -(0.8 - 0.5))])
def test_model_margin_is_the_negated_lead_of_the_relevant_candidate(reference: str, margin: float) -> None:
    assert SCORINGS["model_margin"](teacher_scored(reference)) == pytest.approx(margin)


@pytest.mark.parametrize(("reference", "kept"), [("paper", [0.5, 0.8, 0.9]), (CODE, [0.5, 0.8])])
def test_model_loss_is_the_mean_cross_entropy(reference: str, kept: list[float]) -> None:
    assert SCORINGS["model_loss"](teacher_scored(reference)) == pytest.approx(-np.log(kept).mean())


def test_length_scorings_count_turns_and_words(data: RankingData) -> None:
    scored = scored_of(data)
    split = scored.split
    for row in (0, len(scored.instances) - 1):
        at = scored.instances.query[row]
        utterances = data.query_utterances(int(split.query[at]))
        candidates = [data.documents[d] for d in split.document[split.offsets[at] : split.offsets[at + 1]]]
        assert SCORINGS["turns"](scored)[row] == len(utterances)
        assert SCORINGS["context_words"](scored)[row] == pytest.approx(np.mean([len(u.split()) for u in utterances]))
        assert SCORINGS["response_words"](scored)[row] == pytest.approx(np.mean([len(c.split()) for c in candidates]))


def test_each_relevant_document_has_the_mean_of_the_negatives_that_it_may_get() -> None:
    """Grades 0, 1 and 2 at ranks 1, 2 and 3: grade 1 is paired with rank 1, grade 2 with ranks 1 and 2."""
    made = make_data([["a"]], [[("x", 0), ("y", 1), ("z", 2)]])
    hardness = [1 - (1 / 2 - 1 + 1) / 2, 1 - (1 / 3 - (1 + 1 / 2) / 2 + 1) / 2]
    assert SCORINGS["reciprocal_rank"](scored_of(made)) == pytest.approx(hardness)


@pytest.mark.parametrize(
    ("pairwise", "negatives", "hardness"),
    [
        (True, 1, [1 - (1 / 2 - (1 + 1 / 3) / 2 + 1) / 2]),
        (True, "all", [1 - (1 / 2 - 1 + 1) / 2, 1 - (1 / 2 - 1 / 3 + 1) / 2]),
        (False, 1, [1 - 1 / 2, (1 + 1 / 3) / 2]),
        (False, "all", [1, 1 - 1 / 2, 1 / 3]),
    ],
)
def test_a_weighting_orders_by_one_minus_its_mean_ease(pairwise: bool, negatives: int | str, hardness: list) -> None:
    """The relevant document is at rank 2, the others at 1 and 3."""
    made = make_data([["a"]], [[("x", 0), ("y", 1), ("z", 0)]])
    values = SCORINGS["reciprocal_rank"](scored_of(made, pairwise, negatives))
    assert values == pytest.approx(hardness)


def test_as_an_order_too_the_code_ranks_what_is_outside_the_run_1000th() -> None:
    """The relevant document is outside the run, the other at rank 1."""
    made = make_data([["a"]], [[("x", 0), ("y", 1)]])
    made.splits["train"].rank[1] = NO_RANK
    found = [SCORINGS["reciprocal_rank"](scored_of(made, reference=way)) for way in (PAPER, CODE)]
    assert found == [pytest.approx([1 - (0 - 1 + 1) / 2]), pytest.approx([1 - (0.001 - 1 + 1) / 2])]


# -- what all scorings promise ---------------------------------------------------------------------------------------


test_every_scoring_keeps_the_contract = contract("scoring", [name for name in SCORINGS if name != "file"])


# -- the cache -------------------------------------------------------------------------------------------------------


def test_only_what_a_scoring_reads_makes_another_entry(data: RankingData) -> None:
    difficulty("turns", scored_of(data, seed=501))
    assert difficulty("turns", scored_of(data, seed=502, reference=CODE))[1]
    difficulty("bm25_std", scored_of(data, seed=501))
    assert not difficulty("bm25_std", scored_of(data, seed=501, relevance_level=0))[1]


def test_a_changed_file_of_vectors_makes_another_entry(tmp_path: Path) -> None:
    scored = scored_of(make_data([["red"]], [[("red", 1), ("blue", 0)]]), vectors=vector_file(tmp_path))
    difficulty("semantic_std", scored)
    assert difficulty("semantic_std", scored)[1]
    os.utime(tmp_path / "vectors.txt", (1, 1))
    assert not difficulty("semantic_std", scored)[1]
    turned = tmp_path / "turned.txt"  # with the same time stamp, like files from one archive
    turned.write_text(VECTORS.replace("blue 0 3", "blue -2 0"))
    os.utime(turned, (1, 1))
    others, cached = difficulty("semantic_std", replace(scored, vectors=str(turned)))
    assert not cached and others == pytest.approx([np.sqrt(2)])  # cosines 1 and -1


def test_another_teacher_is_another_difficulty(data: RankingData) -> None:
    first, _ = difficulty("model_loss", scored_of(data))
    scored = scored_of(data, teacher=lambda: score_of(data.splits["train"].document + 1))
    second, cached = difficulty("model_loss", scored)
    assert not cached and not np.array_equal(first, second)


def test_the_code_s_candidates_are_the_first_of_the_file(tmp_path: Path) -> None:
    """Not the first by rank: BM25 puts the last response of the file before the others."""
    rows = [(1, "red sky"), (0, "far hills"), (0, "alpha one"), (0, "alpha one two")]
    lines = [f"{label}\talpha one two\t{response}\n" for label, response in rows]
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    data = load_data(DataConfig(source=str(tmp_path)))
    scored = scored_of(data, reference=CODE)
    kept = [data.documents[row] for row in scored.split.document[scored.groups.rows]]
    assert sorted(kept) == ["far hills", "red sky"]
