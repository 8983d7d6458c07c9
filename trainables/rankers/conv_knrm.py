"""ConvKNRM (Dai et al. 2018), in the form MacAvaney et al. (2020) trained it with curricula.

Vectors of 1-, 2- and 3-grams (convolutions without activation, shared by query and document) are compared
by cosine, each size with each; Gaussian kernels count the similarities of a query n-gram, their logarithms
are summed over the query and one linear layer makes the score. Padding of documents counts in no kernel
here, whereas the authors' program counts it, so that scores there depend on the padded length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from trainables.data.columns import RankingData
from trainables.rankers.base import Ranker, RankerModule, RankerSettings, TextSide, Tokens, take
from trainables.rankers.kernels import FAR, GaussianKernels
from trainables.rankers.pairs import Keep, keeps_latest
from trainables.rankers.vectors import PADDING, TRAIN, reads_from_front, table_shape, word_text_side, word_tokens

NGRAMS = (1, 2, 3)
KERNELS = 11


class ConvKnrmSettings(RankerSettings):
    name: str = "conv_knrm"
    vectors: str = Field(
        TRAIN, min_length=1, description="train: word2vec on the collection; or a word2vec, GloVe or fastText file"
    )
    vector_size: int = Field(100, ge=1, description="dimensions of trained vectors; a file has its own")
    filters: int = Field(128, ge=1, description="dimensions of an n-gram")
    max_query_length: int = Field(30, ge=1, description="words of a query; training.max_length is the document's")
    keep: Keep = Field("latest", description="what is left of long queries of several utterances")
    kernels_learned: bool = Field(True, description="whether training moves and widens the kernels")
    train_vectors: bool = Field(False, description="whether training changes the word vectors")


class ConvKnrmModule(RankerModule):
    """`vectors`: float32 [rows, D], row 0 all zeros. Scores [B] of word rows."""

    def __init__(self, vectors: Tensor, settings: ConvKnrmSettings, max_length: int, from_front: bool):
        super().__init__()
        self.max_query_length, self.max_length, self.from_front = settings.max_query_length, max_length, from_front
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=not settings.train_vectors, padding_idx=PADDING)
        self.ngrams = nn.ModuleList(nn.Conv1d(vectors.shape[1], settings.filters, n) for n in NGRAMS)
        self.kernels = GaussianKernels(KERNELS, settings.kernels_learned)
        self.score = nn.Linear(len(NGRAMS) ** 2 * KERNELS, 1)

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """Each different query once; `query_of` says which of them a pair has."""
        unique, query_of = np.unique(query_rows, return_inverse=True)
        query, query_mask = take(queries, unique, self.max_query_length, PADDING, last=self.from_front)
        document, document_mask = take(documents, document_rows, self.max_length, PADDING)
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
        """Document words: nearly all work is theirs."""
        return np.clip(documents.lengths[document_rows], 1, self.max_length)

    def forward(
        self, query: Tensor, query_mask: Tensor, query_of: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        queries, documents = self._ngram_vectors(query), self._ngram_vectors(document)
        # Half precision would blur the exact-match kernel, which is 0.001 wide.
        with torch.autocast(query.device.type, enabled=False):
            counts = self._count(queries.float()[query_of], documents.float(), document_mask)
            counts = (counts * query_mask[query_of][:, None, :, None, None]).sum(2)
            return self.score(counts.flatten(1)).squeeze(1)

    def _ngram_vectors(self, ids: Tensor) -> Tensor:
        """Unit vectors of the n-grams that start at each word, [B, 3, L, filters]; zeros follow the last word."""
        words = self.vectors(ids).transpose(1, 2)
        grams = [conv(functional.pad(words, (0, n - 1))) for n, conv in zip(NGRAMS, self.ngrams, strict=True)]
        return functional.normalize(torch.stack(grams, 1).transpose(2, 3), dim=-1)

    def _count(self, queries: Tensor, documents: Tensor, document_mask: Tensor) -> Tensor:
        """Logarithms of kernel counts, [B, query n, query words, document n, kernels]."""
        similarities = torch.bmm(queries.flatten(1, 2), documents.flatten(1, 2).transpose(1, 2))
        similarities = similarities.unflatten(2, documents.shape[1:3]).unflatten(1, queries.shape[1:3])
        return self.kernels(similarities.masked_fill(~document_mask[:, None, None, None, :], FAR))


class ConvKnrm(Ranker):
    Settings = ConvKnrmSettings

    def prepare(self, data: RankingData, settings: ConvKnrmSettings, seed: int) -> TextSide:
        from_front = keeps_latest(data, settings.keep)
        return word_text_side(data, settings.vectors, settings.vector_size, from_front, seed)

    def encode(self, files: Mapping[str, str], settings: ConvKnrmSettings, texts: Iterable[str]) -> Tokens:
        return word_tokens(files, texts)

    def build(self, text: TextSide, settings: ConvKnrmSettings, max_length: int) -> ConvKnrmModule:
        vectors = torch.tensor(text.arrays["vectors"])
        return ConvKnrmModule(vectors, settings, max_length, reads_from_front(text.files))

    def restore(self, files: Mapping[str, str], settings: ConvKnrmSettings, max_length: int) -> ConvKnrmModule:
        return ConvKnrmModule(torch.zeros(table_shape(files)), settings, max_length, reads_from_front(files))
