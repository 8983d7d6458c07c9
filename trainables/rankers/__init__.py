"""Rankers by name. Networks load on first use: naming a ranker, and checking its keys, must not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trainables.core.errors import ConfigError, Problem
from trainables.core.registry import Entry, Later, Registry, loaded
from trainables.rankers.settings import (
    BertSettings,
    BiEncoderSettings,
    ConvKnrmSettings,
    DrmmTksSettings,
    EmbeddingMlpSettings,
    EmbeddingSettings,
    KnrmSettings,
    MatchPyramidSettings,
    RankerSettings,
)

if TYPE_CHECKING:
    from trainables.rankers.ranker import Ranker

Reads = Literal["texts", "features"]


@dataclass(frozen=True)
class RankerKind:
    """What trainings and searches ask of a ranker by its name.

    settings  its `ranker.*` keys
    network   of a ranker over texts: the network, a class or its MODULE:CLASS
    training  of a ranker over features: its FeatureTraining, likewise
    staged    whether it is trained on the data of `curriculum.subset`, or under `curriculum.objective_switch`, until
              `curriculum.switch`
    on_cpu    whether its training uses no GPU
    """

    settings: type[RankerSettings]
    network: str | type[Ranker] | None = None
    training: str | type[Any] | None = None
    staged: bool = False
    on_cpu: bool = False

    @property
    def reads(self) -> Reads:
        """What it scores documents by."""
        return "texts" if self.training is None else "features"


RANKERS: Registry[RankerKind] = Registry(
    "ranker.name",
    Entry(
        "bert",
        RankerKind(BertSettings, "trainables.rankers.bert:Bert"),
        "cross-encoder over any encoder, or a language model that says yes or no",
        "MacAvaney et al. 2020; Penha & Hauff 2020",
    ),
    Entry(
        "bi_encoder",
        RankerKind(BiEncoderSettings, "trainables.rankers.bi_encoder:BiEncoder"),
        "any Hugging Face encoder on query and document apart, and the similarity of both vectors",
        "Reimers & Gurevych 2019; Karpukhin et al. 2020",
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
        Later("trainables.extras.bidaf_t_settings:KIND"),
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
        Later("trainables.extras.lambdamart:KIND"),
        "boosted regression trees over feature vectors (LETOR data)",
        "Burges 2010; Ferro et al. 2018",
    ),
    open_to_plugins=True,
    aliases={"cross_encoder": "bert"},
)


def load_ranker(name: str) -> Ranker:
    """The network registered under a name. Raises TypeError for a ranker over features, which has none."""
    network = RANKERS[name].network
    if network is None:
        raise TypeError(f"{name} is not a network over texts")
    return (loaded(network) if isinstance(network, str) else network)()


def ranker_settings(keys: Mapping[str, Any]) -> RankerSettings:
    """Validated `ranker.*` keys; pydantic's ValidationError names the wrong ones."""
    name = keys.get("name")
    if not isinstance(name, str):
        raise ConfigError(Problem("ranker.name", "missing", f"one of {', '.join(RANKERS)}"))
    return RANKERS[name].settings.model_validate({**keys, "name": RANKERS.canonical(name)})
