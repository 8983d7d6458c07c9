"""The `ranker.*` keys of every ranker.

They stand apart from the networks that read them, and import none of what those need: checking a configuration would
else take seconds and hundreds of MB for PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainables.core.errors import Problem
from trainables.core.validation import Section

TINY = "tiny"  # a model of ours; others are folders or names of the Hugging Face hub
ENCODERS = f"{TINY}, or a folder or hub name that sentence-transformers loads (with model.safetensors)"
TRAINED_VECTORS = "train"  # vectors of the collection; others are files
Keep = Annotated[
    Literal["latest", "first"], Field(description="which end of long queries of several utterances is kept")
]
Unknown = Literal["hash", "random", "zero"]
Word2VecModel = Annotated[
    Literal["cbow", "skipgram"],
    Field(description="how vectors are trained; cbow takes half the time, with vectors that differ less"),
]
Checkpointing = Annotated[bool, Field(description="recompute activations in the backward pass: less memory, more time")]
VocabularySize = Annotated[int, Field(ge=64, description="the size of model tiny's vocabulary")]
Freeze = Annotated[
    int | None,
    Field(
        ge=0,
        description="N: the embeddings and the first N layers of the model are not trained; 0: the embeddings; null: "
        "all is trained",
    ),
]
Layers = tuple[Annotated[int, Field(ge=1)], ...]
Pooling = Literal["mean", "cls", "lasttoken", "max", "weightedmean"]
Similarity = Literal["cosine", "dot"]
Dimension = Annotated[int, Field(ge=1)]


class RankerSettings(Section):
    """The `ranker.*` keys of one ranker; subclasses add theirs.

    default_lr  default of training.lr, where it is not the usual one
    embeds      whether queries and documents are encoded apart, and a score compares their vectors
    classifies  whether it can give a logit for each class of pairs to classify
    text_side   rankers with the same name here and equal `text_keys` share what `prepare` makes
    text_keys   the settings that `prepare` reads
    """

    default_lr: ClassVar[float | None] = None
    embeds: ClassVar[bool] = False
    classifies: ClassVar[bool] = True
    text_side: ClassVar[str] = ""
    text_keys: ClassVar[frozenset[str]] = frozenset()

    name: str

    @property
    def draws(self) -> bool:
        """Whether training draws anything at random, so that the seed matters."""
        return True

    @property
    def temperature(self) -> float:
        """Default of training.temperature with loss softmax."""
        return 1.0

    @property
    def rounds_per_iteration(self) -> int:
        """In which `curriculum.switch` counts."""
        return 1

    def refused(self, run: Any) -> Iterable[Problem]:
        """What the ranker cannot follow in the rest of a training, besides what no ranker can that reads the same."""
        return ()


class LoraSettings(Section):
    """Low-rank adapters, which are trained in place of a pretrained model's own weights."""

    rank: int = Field(
        default=0,
        ge=0,
        description="the rank of the LoRA adapters that are trained in place of the encoder; 0: none, it "
        "is trained itself",
    )
    alpha: float | None = Field(
        default=None, gt=0, description="an adapter's output counts alpha / rank times; null: twice the rank"
    )
    targets: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description="names of the linear layers that get an adapter; null: all"
    )


class BertSettings(RankerSettings):
    text_side = "bert"
    text_keys = frozenset({"model", "head", "prompt", "vocabulary_size", "keep"})

    name: str = "bert"
    model: str = Field(
        TINY,
        min_length=1,
        description="the name or folder of an encoder or CrossEncoder; tiny: a small new encoder, its vocabulary from "
        "the training texts",
    )
    head: Literal["cls", "classification", "pretrained"] = Field(
        "cls",
        description="cls: linear on [CLS]; classification: pooler, then the log-odds of two classes; pretrained: the "
        "model's own, of a CrossEncoder or of a language model that says yes or no",
    )
    prompt: str | None = Field(
        None,
        description="with head pretrained: what stands before each query, or tells a language model what to do; null: "
        "the model's own, if any",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="the dropout rate before the scoring layer")
    head_lr: float | None = Field(
        None, gt=0, description="the learning rate of layers that no encoder brings; null: training.lr"
    )
    lora: LoraSettings = LoraSettings()
    freeze: Freeze = None
    keep: Keep = "latest"
    passages: Literal["truncate", "average"] = Field(
        "truncate", description="long documents: cut off, or cut into passages whose [CLS] vectors are averaged"
    )
    document_length: int = Field(2000, ge=1, description="tokens of a document that passages average reads")
    checkpointing: Checkpointing = False
    vocabulary_size: VocabularySize = 8000


class BiEncoderSettings(RankerSettings):
    text_side = "bert"
    text_keys = frozenset({"model", "vocabulary_size", "keep", "query_prompt", "document_prompt"})
    embeds = True
    classifies = False

    name: str = "bi_encoder"
    model: str = Field(
        TINY,
        min_length=1,
        description="the name or folder of a Hugging Face encoder or SentenceTransformer; tiny: a small new one, its "
        "vocabulary from the training texts",
    )
    pooling: Pooling | None = Field(
        None,
        description="a text's vector: the mean of its tokens' vectors, that of the first ([CLS]) or of the last one, "
        "their largest values, or a mean with weights 1, 2, 3, ...; null: the model's own, else mean (of a language "
        "model lasttoken)",
    )
    similarity: Similarity | None = Field(
        None, description="of the two vectors, which is the score; null: the model's own, else cosine"
    )
    query_prompt: str | None = Field(None, description="what stands before each query; null: the model's own, if any")
    document_prompt: str | None = Field(
        None, description="what stands before each document; null: the model's own, if any"
    )
    query_length: int | None = Field(
        None, ge=8, description="most tokens of a query; null: the model's own, else training.max_length"
    )
    dimensions: Dimension | Annotated[tuple[Dimension, ...], Field(min_length=1)] | None = Field(
        None,
        description="the first N dimensions of a vector are compared; a list trains the loss at each (Matryoshka), and "
        "compares the most; null: the model's own, else all",
    )
    lora: LoraSettings = LoraSettings()
    freeze: Freeze = None
    keep: Keep = "latest"
    checkpointing: Checkpointing = False
    vocabulary_size: VocabularySize = 8000

    @property
    def temperature(self) -> float:
        """Cosines lie between -1 and 1, too close together for a softmax (sentence-transformers: scale 20)."""
        return 1.0 if self.similarity == "dot" else 0.05


class WordSettings(RankerSettings):
    text_side = "words"
    text_keys = frozenset({"vectors", "vector_size", "word2vec", "unknown", "keep"})

    vectors: str = Field(
        TRAINED_VECTORS,
        min_length=1,
        description="train: word2vec trained on the collection; or a word2vec, GloVe or fastText file",
    )
    vector_size: int = Field(100, ge=1, description="dimensions of trained vectors; a file has its own")
    word2vec: Word2VecModel = "cbow"
    unknown: Unknown = Field(
        "hash",
        description="words without a vector. hash: they share 1000 random ones; random: each of the collection has "
        "its own; zero: they match nothing",
    )
    max_query_length: int = Field(
        30, ge=1, description="words of a query that are read; training.max_length is the document's"
    )
    keep: Keep = "latest"
    train_vectors: bool = Field(False, description="whether training changes the word vectors")


class KernelSettings(WordSettings):
    text_keys = WordSettings.text_keys | {"add_first_stage"}

    kernels_learned: bool = Field(True, description="whether training moves and widens the kernels")
    add_first_stage: bool = Field(
        False,
        description="mixes the first-stage score in: a * neural + (1 - a) * first stage, with a learned from "
        "sigmoid(-1)",
    )


class ConvKnrmSettings(KernelSettings):
    name: str = "conv_knrm"
    filters: int = Field(128, ge=1, description="filters of a convolution: dimensions of an n-gram")


class KnrmSettings(KernelSettings):
    default_lr = 0.01  # twelve weights learn little at the others' rate

    name: str = "knrm"
    word2vec: Word2VecModel = "skipgram"
    kernels_learned: bool = Field(False, description="whether training moves and widens the kernels")


class DrmmTksSettings(WordSettings):
    default_lr = 0.01  # a network this small learns little at the others' rate

    name: str = "drmm_tks"
    word2vec: Word2VecModel = "skipgram"
    topk: int = Field(10, ge=1, description="similarities of each query word that are read, highest first")
    hidden: Layers = Field((100,), description="units of each hidden layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="the dropout rate after each hidden layer (the study: 0.5)")
    reference: Literal["matchzoo", "study"] = Field(
        "matchzoo", description="matchzoo: a gate weighs the query words; study: each weighs 1, and no last layer"
    )


class MatchPyramidSettings(WordSettings):
    name: str = "match_pyramid"
    word2vec: Word2VecModel = "skipgram"
    filters: int = Field(64, ge=1, description="filters of the 3 x 3 convolution")
    query_cells: int = Field(3, ge=1, description="cells that the words of a query are pooled to")
    document_cells: int = Field(10, ge=1, description="cells that the words of a document are pooled to")
    pooling: Literal["max", "average"] = Field("max", description="how a cell is pooled (average: as in MatchZoo-py)")
    hidden: Layers = Field((200, 64), description="units of each hidden layer")
    dropout: float = Field(0.5, ge=0, lt=1, description="the dropout rate of the pooled grid (the study: 0.95)")


class EmbeddingSettings(WordSettings):
    name: str = "embedding"
    word2vec: Word2VecModel = "skipgram"
    unknown: Unknown = Field(
        "zero", description="words without a vector. zero: they are left out; hash, random: they get random vectors"
    )
    products: bool = Field(
        True, description="whether v1 * v2, dimension by dimension, is a feature too; the study's are v1 and v2 alone"
    )


class EmbeddingMlpSettings(EmbeddingSettings):
    name: str = "embedding_mlp"
    hidden: Layers = Field((100, 64), description="units of each hidden layer")
