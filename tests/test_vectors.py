"""Word vectors: trained on the collection or read from files in any common format, and those of unknown words."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

from tests.support.builders import tiny_data
from trainables.core.errors import DataError
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.ranker import TextSide
from trainables.rankers.settings import Word2VecModel
from trainables.rankers.word_vectors import FIRST_WORD, HASHED, read_vectors, train_vectors, word_tokens
from tune_cl.testing.data import WORDS


def test_unknown_words_share_hashed_rows_and_padding_has_its_own() -> None:
    files = {"vocabulary.txt": "cat\ndog"}
    tokens = word_tokens(files, ["Cat, DOG! zebra", "", "zebra quagga"])
    rows = [tokens.ids[start:end].tolist() for start, end in pairwise(tokens.offsets)]
    assert rows[0][:2] == [FIRST_WORD, FIRST_WORD + 1]
    assert rows[1] == []
    assert rows[0][2] == rows[2][0] != rows[2][1]
    assert all(1 <= row <= HASHED for row in rows[2])


def test_trained_vectors_know_no_word_of_dev_and_test_queries() -> None:
    data = tiny_data(queries={"train": 2, "dev": 5, "test": 5}, candidates=1)
    known = set(train_vectors(data, 10, seed=0).words)
    texts = [*data.documents, *(data.query_text(int(q)) for q in data.splits["train"].query)]
    assert known == {word for text in texts for word in text.split()}
    assert {word for query in data.query_texts() for word in query.split()} - known


@pytest.mark.parametrize("model", ["cbow", "skipgram"])
def test_trained_vectors_follow_from_seed_and_model(model: Word2VecModel) -> None:
    data = tiny_data()
    one, same, other = (train_vectors(data, 10, seed, model).vectors for seed in (0, 0, 1))
    assert not np.allclose(one, train_vectors(data, 10, 0, "cbow" if model == "skipgram" else "skipgram").vectors)
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-5)


VECTORS = {"w1": [1.0, 0.5, -2.0], "w2": [0.0, 0.25, 3.0], "The": [9.0, 9.0, 9.0]}
LINES = "".join(f"{word} {' '.join(map(str, values))}\n" for word, values in VECTORS.items())


@pytest.fixture(params=["word2vec text", "glove", "gzip", "word2vec binary"])
def vector_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "word2vec binary":
        vectors = KeyedVectors(3)
        vectors.add_vectors(list(VECTORS), np.array(list(VECTORS.values()), np.float32))
        vectors.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
        return tmp_path / "v.bin"
    text = LINES if request.param == "glove" else f"3 3\n{LINES}"
    path = tmp_path / ("v.txt.gz" if request.param == "gzip" else "v.txt")
    path.write_bytes(gzip.compress(text.encode()) if request.param == "gzip" else text.encode())
    return path


def test_every_format_gives_the_same_vectors(vector_file: Path) -> None:
    read = read_vectors(vector_file, ["w2", "w1", "missing", "3"])
    assert {word: row.tolist() for word, row in zip(read.words, read.vectors, strict=True)} == {
        word: VECTORS[word] for word in ("w1", "w2")
    }


def prepare(path: Path, **keys: object) -> TextSide:
    settings = ranker_settings({"name": "conv_knrm", "vectors": str(path)} | keys)
    return load_ranker("conv_knrm").prepare(tiny_data(), settings, seed=0)


def test_vectors_of_a_file_fill_the_table(vector_file: Path) -> None:
    text = prepare(vector_file)
    assert text.arrays["vectors"].shape == (1 + HASHED + 2, 3)
    assert not text.arrays["vectors"][0].any()
    row = int(word_tokens(text.files, ["w2"]).ids[0])
    assert text.arrays["vectors"][row].tolist() == VECTORS["w2"]


def test_unknown_words_share_random_vectors(tmp_path: Path) -> None:
    """With the spread of the known words' vectors (1.5567 here)."""
    (tmp_path / "v.txt").write_text(LINES)
    text = prepare(tmp_path / "v.txt")
    shared = text.arrays["vectors"][1:FIRST_WORD]
    assert shared.std() == pytest.approx(1.5567, rel=0.05)
    assert len(np.unique(shared, axis=0)) == HASHED
    words = [f"w{i}" for i in range(WORDS)]
    rows = word_tokens(text.files, words).ids
    assert sum(row >= FIRST_WORD for row in rows) == 2 and len(set(rows)) > WORDS / 2


def test_unknown_words_can_be_zero_or_have_their_own_vectors(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(LINES)
    zero, own = (prepare(tmp_path / "v.txt", unknown=unknown) for unknown in ("zero", "random"))
    assert not zero.arrays["vectors"][:FIRST_WORD].any() and zero.arrays["vectors"][FIRST_WORD:].any()
    used = own.documents.ids
    assert used.min() >= FIRST_WORD  # no word of the collection has such a row
    assert len(own.arrays["vectors"]) == FIRST_WORD + len(own.files["vocabulary.txt"].splitlines())
    assert word_tokens(own.files, ["w1"]).ids[0] == word_tokens(zero.files, ["w1"]).ids[0]  # known words come first
    np.testing.assert_array_equal(own.arrays["vectors"][FIRST_WORD], VECTORS["w1"])
    assert len(np.unique(own.arrays["vectors"][np.unique(used)], axis=0)) == len(np.unique(used))
    assert 1 <= word_tokens(own.files, ["neverseen"]).ids[0] < FIRST_WORD


def test_all_broken_lines_of_a_vector_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 2 3\nw1 1 2\nw2 1 x 3\nw3 1 nan 3\nw4 1 2 3\n")
    with pytest.raises(DataError) as caught:
        prepare(path)
    assert [problem.location for problem in caught.value.problems] == [f"{path}:{line}" for line in (2, 3, 4)]
