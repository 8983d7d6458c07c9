"""MatchPyramid (Pang et al. 2016) in the form of MatchZoo and the gensim similarity-learning study (2018).

The dot products of query and document words form an image, which goes through one 3 x 3 convolution, dynamic pooling
to a grid of fixed size, and a network. The grid divides the real words of the two texts, without padding: cell i covers
the words floor(i n / cells) to ceil((i + 1) n / cells) - 1. The study's stretching of a text over the padded length
amounts to the same, except for the last word of some cells of long texts. In short texts, cells share words.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from trainables.rankers.ranker import Head
from trainables.rankers.settings import MatchPyramidSettings
from trainables.rankers.word_vectors import WordRanker, WordRankerModule


class MatchPyramidModule(WordRankerModule):
    """Scores [B], or class logits [B, K], of word rows."""

    def __init__(
        self, vectors: Tensor, settings: MatchPyramidSettings, max_length: int, from_front: bool, outputs: int = 1
    ):
        super().__init__(vectors, settings, max_length, from_front)
        self.cells = settings.query_cells, settings.document_cells
        self.pool = {"max": max_over_cells, "average": average_over_cells}[settings.pooling]
        self.convolution = nn.Conv2d(1, settings.filters, 3, padding=1)
        self.dropout = nn.Dropout(settings.dropout)
        sizes = (settings.filters * settings.query_cells * settings.document_cells, *settings.hidden)
        layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
        self.hidden = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
        self.score = Head(sizes[-1], outputs)

    def forward(
        self, query: Tensor, query_mask: Tensor, query_of: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        # Vectors of padding are zeros, so beyond the real words the image is 0, like the convolution's own border.
        image = torch.bmm(self.vectors(query)[query_of], self.vectors(document).transpose(1, 2))
        features = self.convolution(image[:, None]).relu()
        query_cells, document_cells = self.cells
        pooled = self.pool(features, document_mask.sum(1), document_cells)
        grid = self.pool(pooled.transpose(2, 3), query_mask.sum(1)[query_of], query_cells).transpose(2, 3)
        with torch.autocast(grid.device.type, enabled=False):  # half precision would give many candidates one score
            return self.score(self.hidden(self.dropout(grid.flatten(1).to(self.score.weight.dtype))))


def cell_bounds(lengths: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """First position of each cell and the position after its last, int64 [B, cells] each, for lengths int64 [B].

    A text of length 0 counts as one of length 1.
    """
    lengths = lengths.clamp_min(1)[:, None]
    cell = torch.arange(cells, device=lengths.device)
    return cell * lengths // cells, -((cell + 1) * -lengths // cells)


def max_over_cells(x: Tensor, lengths: Tensor, cells: int) -> Tensor:
    """x [B, F, R, L] to the maximum over each cell of its last axis, of which `lengths` [B] are real: [B, F, R, cells].

    The positions of each cell are gathered side by side to find the highest value; smaller cells repeat their
    last position. Gradients need only the highest, which spares the backward pass the wide tensor.
    """
    start, end = cell_bounds(lengths, cells)
    width = -(-x.shape[3] // cells) + 1  # at least the largest cell's, without waiting for the device
    positions = torch.minimum(start[..., None] + torch.arange(width, device=x.device), end[..., None] - 1)
    index = positions.flatten(1)[:, None, None].expand(*x.shape[:3], -1)
    highest = x.detach().gather(3, index).unflatten(3, (cells, width)).argmax(4)
    return x.gather(3, torch.minimum(start[:, None, None] + highest, end[:, None, None] - 1))


def average_over_cells(x: Tensor, lengths: Tensor, cells: int) -> Tensor:
    """Like max_over_cells, with the mean of each cell."""
    start, end = cell_bounds(lengths, cells)
    position = torch.arange(x.shape[3], device=x.device)
    inside = (position >= start[..., None]) & (position < end[..., None])
    shares = inside.to(x.dtype) / (end - start)[..., None]
    return torch.einsum("bfrl,bcl->bfrc", x, shares.to(x.dtype))


class MatchPyramid(WordRanker):
    Module = MatchPyramidModule
