"""Rankers by name. Networks load on first use: naming a ranker, and checking its keys, must not import torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainables.core.errors import ConfigError, Problem
from trainables.core.registry import Entry, Part, Registry
from trainables.rankers.settings import (
    BertSettings,
    BidafTSettings,
    ConvKnrmSettings,
    DrmmTksSettings,
    EmbeddingMlpSettings,
    EmbeddingSettings,
    KnrmSettings,
    LambdaMartSettings,
    MatchPyramidSettings,
    RankerSettings,
)

if TYPE_CHECKING:
    from trainables.rankers.ranker import Ranker


@dataclass(frozen=True)
class RankerKind:
    """A ranker's keys, and its network over texts, a class or its MODULE:CLASS; without one, it grows trees over
    features."""

    settings: type[RankerSettings]
    network: str | type[Ranker] | None = None

    @property
    def grows_trees(self) -> bool:
        return self.network is None


RANKERS: Registry[RankerKind] = Registry(
    "ranker.name",
    Entry(
        "bert",
        RankerKind(BertSettings, "trainables.rankers.bert:Bert"),
        "cross-encoder over any Hugging Face encoder",
        "MacAvaney et al. 2020; Penha & Hauff 2020",
    ),
    Entry(
        "conv_knrm",
        RankerKind(ConvKnrmSettings, "trainables.rankers.knrm:ConvKnrm"),
        "kernels over soft matches of 1- to 3-grams",
        "Dai et al. 2018; MacAvaney et al. 2020",
    ),
    Entry(
        "knrm",
        RankerKind(KnrmSettings, "trainables.rankers.knrm:Knrm"),
        "kernels over soft matches of words",
        "Xiong et al. 2017",
    ),
    Entry(
        "drmm_tks",
        RankerKind(DrmmTksSettings, "trainables.rankers.drmm_tks:DrmmTks"),
        "a network over the k best matches of each query word",
        "MatchZoo; Guo et al. 2016 (DRMM); gensim similarity-learning study 2018",
    ),
    Entry(
        "match_pyramid",
        RankerKind(MatchPyramidSettings, "trainables.rankers.match_pyramid:MatchPyramid"),
        "convolution over the matrix of word matches",
        "Pang et al. 2016; gensim similarity-learning study 2018",
    ),
    Entry(
        "bidaf_t",
        RankerKind(BidafTSettings, "trainables.rankers.bidaf_t:BidafT"),
        "LSTMs with attention in both directions between query and document",
        "Seo et al. 2017; Min et al. 2017",
    ),
    Entry(
        "embedding",
        RankerKind(EmbeddingSettings, "trainables.rankers.embedding:Embedding"),
        "cosine of mean word vectors, and a linear layer on both",
        "gensim similarity-learning study 2018",
    ),
    Entry(
        "embedding_mlp",
        RankerKind(EmbeddingMlpSettings, "trainables.rankers.embedding:EmbeddingMlp"),
        "hidden layers on the mean word vectors of both texts",
        "gensim similarity-learning study 2018",
    ),
    Entry(
        "lambdamart",
        RankerKind(LambdaMartSettings),
        "boosted regression trees over feature vectors (LETOR data)",
        "Burges 2010; Ferro et al. 2018",
    ),
)


def ranker(name: str, summary: str = "", source: str = "", *, settings: type[RankerSettings]) -> Callable[[Part], Part]:
    """Registers a subclass of Ranker, whose `ranker.*` keys are the fields of `settings`. A text side that these leave
    unnamed is the ranker's own.

    Built-in rankers stand in RANKERS by the names of their classes, which import PyTorch.
    """

    def value(network: Any) -> RankerKind:
        from trainables.rankers.ranker import Ranker

        if not (inspect.isclass(settings) and issubclass(settings, RankerSettings)):
            raise ValueError(f"settings={settings!r} is no class of settings; a subclass of RankerSettings")
        if (default := settings.model_fields["name"].default) != name:
            raise ValueError(f'the settings are those of {default!r}; the field name: str = "{name}"')
        if not (inspect.isclass(network) and issubclass(network, Ranker)):
            raise ValueError(f"{network!r} is no ranker; a subclass of Ranker")
        if missing := sorted(network.__abstractmethods__):
            raise ValueError(f"'{network.__name__}' does not define {', '.join(missing)}; the methods of Ranker")
        settings.text_side = settings.text_side or name
        return RankerKind(settings, network)

    return RANKERS.decorator(name, summary, source, value)


def load_ranker(name: str) -> Ranker:
    """The network registered under a name. Raises TypeError for a ranker of trees, which has none."""
    network = RANKERS[name].network
    if network is None:
        raise TypeError(f"{name} is no network over texts")
    if not isinstance(network, str):
        return network()
    module, _, attribute = network.partition(":")
    return getattr(import_module(module), attribute)()


def ranker_settings(keys: Mapping[str, Any]) -> RankerSettings:
    """Validated `ranker.*` keys; pydantic's ValidationError names the wrong ones."""
    name = keys.get("name")
    if not isinstance(name, str):
        raise ConfigError(Problem("ranker.name", "missing", f"one of {', '.join(RANKERS)}"))
    return RANKERS[name].settings.model_validate(dict(keys))
