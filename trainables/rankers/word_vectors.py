"""Word ids and word vectors of a data set: trained on the collection itself, or read from a file.

gensim is imported only where it is used, because that takes a second.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.randomness import generator
from trainables.data.columns import RankingData, required_split
from trainables.data.files import open_bytes
from trainables.data.words import WordRows, index_words
from trainables.rankers.ranker import Ranker, RankerModule, TextSide, Tokens, padded_rows
from trainables.rankers.settings import TRAINED_VECTORS, Unknown, Word2VecModel, WordSettings
from trainables.rankers.text_pairs import cached_text_side, keeps_latest

PADDING = 0
HASHED = 1000  # rows that unknown words share, by hash (as in OpenNIR's `wordvec_hash`)
FIRST_WORD = 1 + HASHED
VOCABULARY, META = "vocabulary.txt", "vectors.json"
_FORMAT = 3  # raise it when the same input gives other word ids or vectors
KEY = "ranker.vectors"
_FASTTEXT_MAGIC = bytes.fromhex("ba164f2f")
_TRAINED_WORDS = 4_000_000  # words that word2vec sees, counted over its epochs
_MOST_EPOCHS = 10


@dataclass(frozen=True)
class WordVectors:
    """`vectors`: float32 [V, D], one row per word."""

    words: tuple[str, ...]
    vectors: np.ndarray


def word_text_side(
    data: RankingData,
    vectors: str,
    size: int,
    from_front: bool,
    seed: int,
    unknown: Unknown = "hash",
    model: Word2VecModel = "cbow",
) -> TextSide:
    """Word ids of a data set and its table of vectors, float32 [1 + HASHED + V, D], as `arrays["vectors"]`.

    Row 0 is padding (zeros). The next HASHED rows are for unknown words: random vectors, or zeros for `unknown: zero`.
    Under `unknown: random`, each unknown word of the data set has a row of its own after the known ones.
    Random vectors have the standard deviation of the known ones. `vectors` is `train` or the path of a word2vec, GloVe
    or fastText file; `size` is the D of trained vectors, `model` their kind. Raises ConfigError for a missing file,
    DataError for a broken one.
    """
    source: list[object] = (
        [TRAINED_VECTORS, size, model] if vectors == TRAINED_VECTORS else _file_identity(Path(vectors))
    )
    digest = digest_of(_FORMAT, data.digest, *source, from_front, seed, unknown)
    return cached_text_side(
        "words",
        digest,
        lambda: _text_side(data, _source_vectors(data, vectors, size, model, seed), from_front, seed, unknown),
    )


def _source_vectors(data: RankingData, vectors: str, size: int, model: Word2VecModel, seed: int) -> WordVectors:
    if vectors == TRAINED_VECTORS:
        return train_vectors(data, size, seed, model)
    return read_vectors(Path(vectors), _vocabulary(data))


def _vocabulary(data: RankingData) -> tuple[str, ...]:
    return index_words(chain(data.documents, data.query_texts()), data.words).vocabulary


def _text_side(data: RankingData, table: WordVectors, from_front: bool, seed: int, unknown: Unknown) -> TextSide:
    has_vector = set(table.words)
    own_row = [word for word in _vocabulary(data) if word not in has_vector] if unknown == "random" else []
    shape = (HASHED + len(own_row), table.vectors.shape[1])
    spread = 0.0 if unknown == "zero" else float(table.vectors.std())
    random = generator(seed, "unknown words").normal(0, spread, shape).astype(np.float32)
    padding = np.zeros((1, shape[1]), np.float32)
    files = {
        VOCABULARY: "\n".join([*table.words, *own_row]),
        META: json.dumps({"size": shape[1], "from_front": from_front, "words": data.words}),
    }
    return TextSide(
        queries=word_tokens(files, data.query_texts()),
        documents=word_tokens(files, data.documents),
        files=files,
        arrays={"vectors": np.concatenate([padding, random[:HASHED], table.vectors, random[HASHED:]])},
    )


def word_tokens(files: Mapping[str, str], texts: Iterable[str]) -> Tokens:
    """Rows of the vector table for the words of texts; words outside the vocabulary go to hashed rows."""
    row_of = {word: row for row, word in enumerate(files[VOCABULARY].splitlines(), FIRST_WORD)}
    words = index_words(texts, json.loads(files.get(META, "{}")).get("words", "spaces"))
    rows = [row_of.get(word) or _hashed_row(word) for word in words.vocabulary]
    return Tokens(np.array(rows, np.int32)[words.ids], words.offsets)


def _hashed_row(word: str) -> int:
    """The row of a word outside the vocabulary: its MD5 as a number, modulo HASHED (OpenNIR's `wordvec_hash`)."""
    return 1 + int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16) % HASHED


def reads_from_front(files: Mapping[str, str]) -> bool:
    """Whether long queries lose their first words, not their last."""
    return json.loads(files[META])["from_front"]


def train_vectors(data: RankingData, size: int, seed: int, model: Word2VecModel = "cbow") -> WordVectors:
    """word2vec vectors of unit length, learned from all documents and the training queries.

    Small collections are read several times. There is one worker, so that the seed determines the result.
    Raises DataError if there are no words.
    """
    from gensim.models import Word2Vec

    queries = (data.query_text(int(query)) for query in np.unique(required_split(data, "train").query))
    words = index_words(chain(data.documents, queries), data.words)
    if not len(words.ids):
        raise DataError(Problem(data.name, "no word in any document or training query", "texts with letters or digits"))
    trained = Word2Vec(
        _Sentences(words),
        sg=int(model == "skipgram"),
        vector_size=size,
        min_count=1,
        epochs=int(np.clip(_TRAINED_WORDS // len(words.ids), 1, _MOST_EPOCHS)),
        seed=int(generator(seed, "word vectors").integers(2**31)),
        workers=1,
    )
    vectors = np.asarray(trained.wv.get_normed_vectors(), np.float32)
    return WordVectors(tuple(map(str, trained.wv.index_to_key)), vectors)


@dataclass(frozen=True)
class _Sentences:
    """Texts as lists of words; may be iterated any number of times."""

    words: WordRows

    def __iter__(self) -> Iterator[list[str]]:
        vocabulary = self.words.vocabulary
        for start, end in zip(self.words.offsets[:-1], self.words.offsets[1:], strict=True):
            yield [vocabulary[i] for i in self.words.ids[start:end].tolist()]


def _file_identity(path: Path) -> list[object]:
    if not path.is_file():
        raise ConfigError(
            Problem(KEY, f"no file '{path}'", f"{TRAINED_VECTORS}, or a file of word2vec, GloVe or fastText vectors")
        )
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def read_vectors(path: Path, vocabulary: Sequence[str]) -> WordVectors:
    """The vectors that a file has for words of a vocabulary.

    `.bin` is word2vec's or fastText's binary format (fastText makes vectors of unknown words from their
    parts); anything else is text with lines `word v1 ... vD`, with or without a first line `N D`; `.gz` is
    unpacked. Raises DataError if the file is broken or has none of the words.
    """
    try:
        vectors = _read_binary(path, vocabulary) if ".bin" in path.suffixes else _read_text(path, vocabulary)
    except (ValueError, EOFError, OSError, AssertionError, NotImplementedError) as error:
        raise DataError(
            Problem(str(path), f"cannot be read: {error}", "word2vec, GloVe or fastText vectors")
        ) from error
    if not path.stat().st_size:
        raise DataError(Problem(str(path), "no rows", "word2vec, GloVe or fastText vectors"))
    if not vectors:
        raise DataError(Problem(str(path), "has none of the collection's words", "vectors of lower-case words"))
    return WordVectors(tuple(vectors), np.stack(list(vectors.values())))


def _read_binary(path: Path, vocabulary: Sequence[str]) -> dict[str, np.ndarray]:
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import load_facebook_vectors

    with open_bytes(path) as file:
        fasttext = file.read(len(_FASTTEXT_MAGIC)) == _FASTTEXT_MAGIC
    model = load_facebook_vectors(str(path)) if fasttext else KeyedVectors.load_word2vec_format(str(path), binary=True)
    return {word: np.asarray(model[word], np.float32) for word in vocabulary if word in model}


def _read_text(path: Path, vocabulary: Sequence[str]) -> dict[str, np.ndarray]:
    """Streams the file, so that memory holds only the wanted vectors. A word's first line counts."""
    vectors: dict[str, np.ndarray] = {}
    problems: list[Problem] = []
    wanted = {word.encode() for word in vocabulary}
    with open_bytes(path) as file:
        first = file.readline().split()
        header = len(first) == 2 and all(field.isdigit() for field in first)
        size = int(first[1]) if header else len(first) - 1
        file.seek(0)
        for number, line in islice(enumerate(file, 1), int(header), None):
            name = line[: line.find(b" ")]
            if name in wanted:
                wanted.remove(name)
                try:
                    vectors[name.decode()] = _vector(line, size)
                except ValueError as error:
                    problems.append(Problem(f"{path}:{number}", str(error), f"a word and {size} numbers"))
    if problems:
        raise DataError(problems)
    return vectors


def _vector(line: bytes, size: int) -> np.ndarray:
    vector = np.array(line.split()[1:]).astype(np.float32)
    if len(vector) != size or not np.isfinite(vector).all():
        raise ValueError(f"{len(vector)} values for '{line.split()[0].decode()}', or one that is not finite")
    return vector


class WordRankerModule(RankerModule):
    """Rankers that compare the words of a query with those of a document.

    `vectors`: float32 [rows, D], row 0 (padding) all zeros; frozen ones may be in memory that others read, and are not
    written to: a loaded state replaces them. Subclasses' `forward` takes the tensors of `collate`.
    """

    def __init__(self, vectors: Tensor, settings: WordSettings, max_length: int, from_front: bool):
        super().__init__()
        self.max_query_length, self.max_length, self.from_front = settings.max_query_length, max_length, from_front
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=not settings.train_vectors, padding_idx=PADDING)
        if not settings.train_vectors:
            self.vectors.register_load_state_dict_pre_hook(_move_out)
        if settings.train_vectors and settings.unknown == "zero":
            # Words that match nothing shall go on doing so. Besides, the gradient of a cosine is 10^12 times too large
            # at a zero vector, and clipping would shrink all other gradients to nothing.
            self.register_buffer("zeros", (vectors == 0).all(1, keepdim=True), persistent=False)
            self.vectors.weight.register_hook(lambda grad: grad.masked_fill(self.zeros, 0))

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """Each distinct query once: query int64 [Q, Lq], query_mask bool [Q, Lq], query_of int64 [B] (which query a
        pair has), document int64 [B, Ld], document_mask bool [B, Ld]."""
        unique, query_of = np.unique(query_rows, return_inverse=True)
        query, query_mask = padded_rows(queries, unique, self.max_query_length, PADDING, last=self.from_front)
        document, document_mask = padded_rows(documents, document_rows, self.max_length, PADDING)
        return {
            "query": query,
            "query_mask": query_mask,
            "query_of": torch.from_numpy(query_of),
            "document": document,
            "document_mask": document_mask,
        }

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Document words, which cause nearly all of the work."""
        return np.clip(documents.lengths[document_rows], 1, self.max_length)


def _move_out(vectors: nn.Embedding, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Before a state is loaded: gives frozen vectors memory of their own if the state has others."""
    if f"{prefix}weight" in state:
        vectors.weight = nn.Parameter(torch.empty_like(vectors.weight), requires_grad=False)


def table_of(text: TextSide, settings: WordSettings) -> Tensor:
    """The text side's word vectors, float32 [rows, D]: a copy if they are trained, else the memory that all trainings
    of a machine read. That may be read-only, in a file or in Ray's object store: a write would end the process. Zeros
    for a ranker that is opened: its weights hold them."""
    if not text.arrays:
        rows = FIRST_WORD + len(text.files[VOCABULARY].splitlines())
        return torch.zeros(rows, json.loads(text.files[META])["size"])
    if settings.train_vectors:
        return torch.tensor(text.arrays["vectors"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(text.arrays["vectors"])


class WordRanker(Ranker):
    """A kind of ranker whose `Module(vectors, settings, max_length, from_front, outputs)` is a WordRankerModule."""

    Module: ClassVar[type[Any]]

    def prepare(self, data: RankingData, settings: WordSettings, seed: int) -> TextSide:
        from_front = keeps_latest(data, settings.keep)
        return word_text_side(
            data,
            settings.vectors,
            settings.vector_size,
            from_front,
            seed,
            settings.unknown,
            settings.word2vec,
        )

    def encode(self, files: Mapping[str, str], settings: WordSettings, texts: Iterable[str]) -> Tokens:
        return word_tokens(files, texts)

    def build(self, text: TextSide, settings: WordSettings, max_length: int, outputs: int = 1) -> WordRankerModule:
        vectors = table_of(text, settings)
        return self.Module(vectors, settings, max_length, reads_from_front(text.files), outputs)
