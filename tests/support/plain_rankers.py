"""Every ranker as its paper has it: one pair of texts, without padding, batches or packing.

Each function scores a query and a document, given as token ids [L], with the weights of the ranker's module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional


def bert(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """[CLS] query [SEP] document [SEP] through a Transformer; a linear layer on [CLS], or two classes' log-odds."""
    template = module.template
    parts = [template.before, query.tolist(), template.between, document.tolist(), template.after]
    ids = [token for part in parts for token in part]
    second = len(parts[0]) + len(parts[1]) + len(parts[2])
    cls = last_states(module.encoder, ids, [0] * second + [1] * (len(ids) - second))[:, 0]
    if module.pooler is None:
        return module.score(cls)[0, 0]
    logits = nn.functional.linear(torch.tanh(module.pooler(cls)), module.score.weight, module.score.bias)[0]
    return logits[1] - logits[0]


def last_states(encoder: Any, ids: list[int], types: list[int]) -> Tensor:
    """The last layer's vectors [1, L, D] of one sequence, by transformers' own attention, written out."""
    config = encoder.config.__class__.from_dict(encoder.config.to_dict(), attn_implementation="eager")
    weights = dict(encoder.named_parameters())
    plain = transformers.BertModel(config, add_pooling_layer=False).to(next(iter(weights.values())).dtype).eval()
    inputs = {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}
    return functional_call(plain, weights, (), inputs).last_hidden_state


def bi_encoder(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """Reimers & Gurevych 2019: [CLS] text [SEP] through one Transformer each; the cosine of means, or of [CLS]."""
    vectors = []
    for text in (query, document):
        ids = [*module.template.before, *text.tolist(), *module.template.after]
        states = last_states(module.encoder, ids, [0] * len(ids))[0]
        vectors.append(states.mean(0) if module.pooling == "mean" else states[0])
    return functional.cosine_similarity(*vectors, dim=0)


def knrm(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """Xiong et al. 2017, Eq. 1 to 6: kernels over cosines of words."""
    return kernel_score(module, [module.vectors(query)], [module.vectors(document)])


def conv_knrm(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """Dai et al. 2018: kernels over cosines of all pairs of n-gram sizes; zeros follow the last word."""

    def grams(ids: Tensor) -> list[Tensor]:
        words = module.vectors(ids).T
        convolutions = enumerate(module.grams.convolutions)
        return [convolution(functional.pad(words, (0, longer))).T for longer, convolution in convolutions]

    return kernel_score(module, grams(query), grams(document))


def kernel_score(module: Any, queries: list[Tensor], documents: list[Tensor]) -> Tensor:
    """A linear layer on log(sum_j exp(-(cos - mu)² / 2 sigma²)), summed over the words of the query."""
    mu, sigma = module.kernels.mu, module.kernels.sigma
    features = []
    for q in queries:
        for d in documents:
            cosines = functional.normalize(q, dim=1) @ functional.normalize(d, dim=1).T
            counts = torch.exp(-((cosines[:, :, None] - mu) ** 2) / (2 * sigma**2)).sum(1)
            features.append(torch.log(counts + 1e-6).sum(0))
    return module.score(torch.cat(features))


def drmm_tks(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """A network on the k highest cosines of each query word; a softmax gate weighs the words (study: each weighs 1)."""
    words, k = module.vectors(query), module.topk
    gates = module.gate(words)[:, 0].softmax(0) if module.gate is not None else torch.ones(len(words))
    total = words.new_zeros(())
    for word, gate in zip(words, gates, strict=True):
        cosines = functional.cosine_similarity(word[None], module.vectors(document)).sort(descending=True).values[:k]
        total = total + gate * module.network(functional.pad(cosines, (0, k - len(cosines))))[0]
    return total if module.score is None else module.score(total[None])


def match_pyramid(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """Pang et al. 2016: dot products as an image, a convolution, pooling to a grid of equal parts, a network."""
    image = module.vectors(query) @ module.vectors(document).T
    features = module.convolution(image[None, None]).relu()[0]
    pool = {"max_over_cells": torch.amax, "average_over_cells": torch.mean}[module.pool.__name__]
    rows, columns = module.cells
    grid = [
        pool(features[:, part(len(query), i, rows), part(len(document), j, columns)], (1, 2))
        for i in range(rows)
        for j in range(columns)
    ]
    return module.score(module.hidden(torch.stack(grid, 1).flatten()))


def part(length: int, cell: int, cells: int) -> slice:
    return slice(math.floor(cell * length / cells), math.ceil((cell + 1) * length / cells))


def bidaf_t(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """Seo et al. 2017 up to the modelling layer, then the maximum over words and a linear layer (Min et al. 2017)."""

    def words(ids: Tensor) -> Tensor:
        characters = torch.from_numpy(module.characters[ids.numpy()].astype("int64"))
        return module.highways(torch.cat([module.vectors(ids), module.character_words(characters)], 1))

    u, h = lstm(module.context, words(query)), lstm(module.context, words(document))
    weight = module.attention.weight.flatten()
    s = torch.stack([torch.stack([weight @ torch.cat([x, y, x * y]) for y in u]) for x in h])
    attention = s.softmax(1)
    salience = (s if module.attention.reference == "paper" else attention).amax(1).softmax(0)
    from_query, from_document = attention @ u, salience @ h
    states = torch.cat([h, from_query, h * from_query, h * from_document], 1)
    for layer in module.modelling:
        states = lstm(layer, states)
    return module.score(states.amax(0))


def lstm(layer: Any, x: Tensor) -> Tensor:
    """States of one LSTM that reads forwards and one that reads backwards, [L, 2 hidden]."""
    return torch.cat([layer.forwards(x)[0], layer.backwards(x.flip(0))[0].flip(0)], 1)


def embedding(module: Any, query: Tensor, document: Tensor) -> Tensor:
    """The cosine of the mean word vectors, plus a linear layer or a network on both."""
    v1, v2 = (functional.normalize(module.vectors(ids).mean(0), dim=0) for ids in (query, document))
    scale = math.sqrt(len(v1))
    features = torch.cat([scale * v1, scale * v2, scale**2 * v1 * v2])
    learned = module.score(module.hidden(features) if hasattr(module, "hidden") else features)
    return learned + v1 @ v2


PLAIN: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "bert": bert,
    "bi_encoder": bi_encoder,
    "knrm": knrm,
    "conv_knrm": conv_knrm,
    "drmm_tks": drmm_tks,
    "match_pyramid": match_pyramid,
    "bidaf_t": bidaf_t,
    "embedding": embedding,
    "embedding_mlp": embedding,
}
