"""Words and BM25 against plain loops over the formulas."""

from __future__ import annotations

import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.baselines.lexical import STOP_WORDS, terms
from trainables.data.bm25 import Bm25, Statistics, Variant, streamed_scores
from trainables.data.words import UNKNOWN, index_words, look_up, normalised, words

DOCUMENTS = ["the cat sat", "the dog sat on the mat", "a bird flew", "the cat flew"]
TEXTS = st.lists(st.text("abc ", max_size=12), min_size=1, max_size=8)


def plain_score(query: str, document: str, corpus: list[str], variant: Variant, k1: float, b: float) -> float:
    """The sum over the query's words, straight from the formula."""
    rows = [words(text) for text in corpus]
    total, mean = len(rows), sum(map(len, rows)) / len(rows)

    def idf(word: str) -> float:
        holding = sum(word in row for row in rows)
        if variant == "lucene":
            return math.log(1 + (total - holding + 0.5) / (holding + 0.5))
        return math.log(total - holding + 0.5) - math.log(holding + 0.5)

    vocabulary = sorted({word for row in rows for word in row})
    floor = 0.25 * sum(map(idf, vocabulary)) / max(1, len(vocabulary))
    own, score = words(document), 0.0
    for word in words(query):
        count = own.count(word)
        if count:
            weight = floor if variant == "okapi" and idf(word) < 0 else idf(word)
            scale = k1 + 1 if variant == "okapi" else 1
            score += weight * scale * count / (count + k1 * (1 - b + b * len(own) / mean))
    return score


@given(st.text(st.characters(codec="ascii")) | st.text(st.characters(exclude_categories=["Cs", "Cn"])))
def test_words_of_any_script_are_runs_of_its_letters_digits_and_marks(text: str) -> None:
    whole = unicodedata.normalize("NFC", text.lower())
    kinds = {letter: unicodedata.category(letter)[0] for letter in whole}
    marks = "".join(letter for letter, kind in kinds.items() if kind == "M")
    parted = "".join(letter if kinds[letter] in "LNM" else " " for letter in whole)
    assert words(text) == [run.lstrip(marks) for run in parted.split(" ") if run.lstrip(marks)]
    assert normalised(text).split(" ") == (words(text) or [""])


@given(st.lists(st.text(max_size=20)))
def test_word_rows_spell_the_texts(texts: list[str]) -> None:
    rows = index_words(texts)
    assert [rows.vocabulary[i] for i in rows.ids] == [word for text in texts for word in words(text)]
    assert rows.lengths.tolist() == [len(words(text)) for text in texts]
    np.testing.assert_array_equal(look_up(texts, rows.vocabulary).ids, rows.ids)
    assert look_up(["b a c"], ("a", "b")).ids.tolist() == [1, 0, UNKNOWN]


def test_okapi_gives_the_known_scores() -> None:
    rows = index_words(DOCUMENTS)
    asked = look_up(["the cat sat"], rows.vocabulary)
    scores = Bm25(rows, "okapi", k1=1.5, b=0.75).pair_scores(asked, np.zeros(4, int), np.arange(4))
    assert scores == pytest.approx([0.103455, 0.112748, 0, 0.103455], abs=1e-6)
    with pytest.raises(ValueError, match="okapi"):  # whose floor for idf is a mean over all words
        Bm25(rows, "okapi", statistics=Statistics.of(["a"], rows.vocabulary))


@pytest.mark.parametrize("variant", ["lucene", "okapi"])
@given(corpus=TEXTS, queries=TEXTS, k1=st.floats(0, 3), b=st.floats(0, 1))
def test_scores_follow_the_formula(
    variant: Variant, corpus: list[str], queries: list[str], k1: float, b: float
) -> None:
    rows = index_words(corpus)
    pairs = [grid.ravel() for grid in np.indices((len(queries), len(corpus)))]
    scores = Bm25(rows, variant, k1, b).pair_scores(look_up(queries, rows.vocabulary), *pairs)
    plain = [plain_score(query, document, corpus, variant, k1, b) for query in queries for document in corpus]
    np.testing.assert_allclose(scores, plain, atol=1e-9)


@given(corpus=TEXTS, queries=TEXTS, k=st.integers(0, 10))
def test_top_sorts_all_documents(corpus: list[str], queries: list[str], k: int) -> None:
    rows = index_words(corpus)
    bm25, encoded = Bm25(rows), look_up(queries, rows.vocabulary)
    found, scores = bm25.top(encoded, k)
    assert found.shape == scores.shape == (len(queries), min(k, len(corpus)))
    for query in range(len(queries)):
        all_scores = bm25.pair_scores(encoded, np.full(len(corpus), query), np.arange(len(corpus)))
        best = np.argsort(-all_scores.round(9), kind="stable")[:k]
        np.testing.assert_allclose(scores[query], all_scores[best], atol=1e-9)
        np.testing.assert_allclose(scores[query], all_scores[found[query]], atol=1e-9)
        assert len(set(found[query].tolist())) == found.shape[1]


@given(corpus=TEXTS, queries=TEXTS, k1=st.floats(0, 3), b=st.floats(0, 1))
def test_streamed_scores_are_those_of_the_whole_collection(
    corpus: list[str], queries: list[str], k1: float, b: float
) -> None:
    rows = index_words(corpus)
    pairs = [grid.ravel() for grid in np.indices((len(queries), len(corpus)))]
    whole = Bm25(rows, "lucene", k1, b).pair_scores(look_up(queries, rows.vocabulary), *pairs)
    asked = index_words(queries)
    streamed = streamed_scores(corpus, Statistics.of(corpus, asked.vocabulary), asked, *pairs, k1, b)
    np.testing.assert_allclose(streamed, whole, rtol=1e-12, atol=1e-15)


def test_collections_of_many_blocks_are_scored_alike() -> None:
    """Texts and pairs are read 16,384 at a time, whether the pairs name many of the texts or few."""
    corpus = [f"word{row % 7} {row % 11 * 'more '}" for row in range(40_000)]
    rows, asked = index_words(corpus), index_words(["word3 more", "more more"])
    query_rows, document_rows = np.arange(36_000) % 2, np.arange(36_000)[::-1] // 3 * 3
    statistics = Statistics.of(corpus, asked.vocabulary)
    for part in (slice(None), slice(None, None, 1000)):
        pairs = query_rows[part], document_rows[part]
        whole = Bm25(rows).pair_scores(look_up(["word3 more", "more more"], rows.vocabulary), *pairs)
        np.testing.assert_allclose(streamed_scores(corpus, statistics, asked, *pairs, 0.9, 0.4), whole, rtol=1e-12)


def test_terms_are_stemmed_words_without_stop_words() -> None:
    assert terms("The cats were running, and ran on relational mats!") == [
        "cat", "were", "run", "ran", "relat", "mat",
    ]  # fmt: skip
    assert len(STOP_WORDS) == 33
