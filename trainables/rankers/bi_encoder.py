"""Bi-encoders: a model reads query and document apart, and the score is the similarity of both vectors (Sentence-BERT:
Reimers & Gurevych 2019; dense retrieval: Karpukhin et al. 2020). The model is a SentenceTransformer.

Texts are cut at `training.max_length` tokens each: documents lose their last tokens, and so do queries, except for
queries of several utterances under `ranker.keep: latest`. Models with a chat template, or with another first module for
queries than for documents, are cut as the library cuts them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.adapters import AdaptedModule
from trainables.rankers.bert import save_activations
from trainables.rankers.fast.cpu import rows as rows_of
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.fast.packing import GROUP_COST, PACKED, pack, pack_encoder, unpacked
from trainables.rankers.hub import MODULES, SETTINGS, document_of, file_of, unusable
from trainables.rankers.library import ENDLESS, first_position, loaded, saved, tiny_transformer
from trainables.rankers.pretrained import (
    CHARACTERS,
    CONFIG,
    PAIRS,
    PROMPTS,
    TOKENIZER,
    PretrainedRanker,
    files_of,
    longest_of,
    require_positions,
    texts_of,
)
from trainables.rankers.ranker import DualEncoder, RankerModule, TextSide, Tokens, padded_rows
from trainables.rankers.settings import TINY, BiEncoderSettings
from trainables.rankers.text_pairs import PairTemplate

TABLE = "table"  # among the text files, of a model that is a table of token vectors


def nested(settings: BiEncoderSettings) -> tuple[int, ...]:
    """The dimensions at which the loss is trained (Matryoshka: Kusupati et al. 2022); none: all that are compared."""
    asked = settings.dimensions
    return () if asked is None else asked if isinstance(asked, tuple) else (asked,)


class BiEncoderModule(DualEncoder, AdaptedModule):
    """Scores [B] of pairs, from the vectors of their texts by a SentenceTransformer.

    Where the tokens that are read follow from those of a text, they are laid out here, and packed if the encoder can
    be; else the library tokenises texts and pads them.
    """

    tolerates_bf16 = True

    def __init__(
        self, model: SentenceTransformer, files: Mapping[str, str], settings: BiEncoderSettings, max_length: int
    ):
        super().__init__()
        self.model, self.settings, self.max_length = model, settings, max_length
        self.cosine, self.dimensions = model.similarity_fn_name == "cosine", model.truncate_dim
        self.normalised = self.cosine and not isinstance(model[-1], Normalize)
        pairs = PairTemplate.from_json(files[PAIRS])
        self.table, self.template = TABLE in files, pairs if TOKENIZER in files else None
        if TOKENIZER in files and not self.table:
            self.template = PairTemplate.of_text(Tokenizer.from_str(files[TOKENIZER]), pairs.pad, pairs.from_front)
        size = model.get_embedding_dimension() if self.dimensions is None else _whole_size(model)
        if self.dimensions is not None and size is not None and self.dimensions > size:
            wrong = f"{self.dimensions}, and the vectors have {size}"
            raise ConfigError(Problem("ranker.dimensions", wrong, f"at most {size}"))
        self.packs = self.has_segments = False
        if not isinstance(first := model[0], Transformer):
            return
        encoder = first.model
        self.packs = self.template is not None and encoder.config.model_type in PACKED and len(model) > 1
        self.packs = self.packs and isinstance(model[1], Pooling)
        if self.packs:
            pack_encoder(encoder, cls_alone=self.pooling == "cls")
        self.first_position = first_position(encoder)
        speed_up(encoder)
        if settings.checkpointing:
            save_activations(encoder, settings.model)
        # Those that are not packed take none for segment 0; GPT-2 would add a word's vector for a 0.
        self.has_segments = self.packs and "token_type_ids" in inspect.signature(encoder.forward).parameters

    @property
    def encoder(self) -> Any:
        first = self.model[0]
        return first.model if isinstance(first, Transformer) else first

    @property
    def pooling(self) -> Any:
        """How tokens' vectors are pooled; None where they are not."""
        pooling = self.model[1] if len(self.model) > 1 else None
        return pooling.pooling_mode if isinstance(pooling, Pooling) else None

    def most_tokens(self, side: int) -> int:
        """Tokens that are read of a query (0) or a document (1), special ones included."""
        own = (getattr(self.model[0], "query_length", None), getattr(self.model[0], "document_length", None))[side]
        return min(own or self.max_length, self.max_length)

    def text_lengths(self, texts: Tokens, rows: np.ndarray) -> np.ndarray:
        lengths = texts.lengths[rows]
        if self.template is None:
            return np.minimum(lengths // CHARACTERS + 1, self.max_length)
        return np.minimum(lengths + self.template.specials, max(self.most_tokens(0), self.most_tokens(1)))

    def collate_texts(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """What the first module reads of the queries, then the documents, packed if it can be; where the library
        tokenises, of each side apart, as `query.NAME` and `document.NAME`."""
        if self.template is None:
            return self._by_library(queries, documents, query_rows, document_rows)
        sides = ((queries, query_rows, self.template.from_front), (documents, document_rows, False))
        parts = []
        for side, (texts, rows, last) in enumerate(sides):
            if len(rows):
                parts.append(padded_rows(texts, rows, self.most_tokens(side) - self.template.specials, last=last))
        tokens = torch.cat([ids[mask] for ids, mask in parts])
        lengths = torch.cat([mask.sum(1) for _, mask in parts])
        if self.table:
            return {"input_ids": tokens, "offsets": lengths.cumsum(0) - lengths}
        none, zeros = tokens[:0], np.zeros(len(lengths), np.int64)
        inputs = self.template.laid_out(tokens, lengths.numpy(), none, zeros)
        if not self.has_segments:
            del inputs["token_type_ids"]
        if not self.packs:
            return unpacked(inputs)
        return pack(inputs, GROUP_COST[next(self.parameters()).device.type], self.first_position)

    def _by_library(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        if isinstance(self.model[0], Transformer):
            self.model.max_seq_length = min(self.model.max_seq_length or self.max_length, self.max_length)
        found: dict[str, Any] = {}
        for task, texts, rows in (("query", queries, query_rows), ("document", documents, document_rows)):
            prompt = self.model.prompts.get(task)
            if len(rows):
                features = self.model.preprocess(texts_of(texts, rows), prompt=prompt, task=task)
                found |= {f"{task}.{name}": value for name, value in features.items()}
        return found

    def embed(self, packed_index: Tensor | None = None, **features: Any) -> Tensor:
        if self.template is not None:
            return self._finished(self._pooled(features, packed_index))
        vectors = []
        for task in ("query", "document"):
            own = {name.partition(".")[2]: value for name, value in features.items() if name.startswith(f"{task}.")}
            if own:
                vectors.append(self._finished(self.model(own, task=task)))
        return torch.cat(vectors)

    def _pooled(self, features: dict[str, Any], packed_index: Tensor | None) -> dict[str, Any]:
        """The features behind the library's modules, of which all but the first compute in the weights' precision."""
        first, *rest = self.model
        features = first(features)
        if self.table:
            given = features["sentence_embedding"]
        else:
            given = features["token_embeddings"] = features["token_embeddings"].to(next(first.parameters()).dtype)
        with torch.autocast(given.device.type, enabled=False):  # in bf16, vectors would have 8 bits, and scores tie
            if packed_index is not None:
                features = {"sentence_embedding": self._of_groups(rest.pop(0), features, packed_index)}
            for module in rest:
                features = module(features)
        return features

    def _of_groups(self, pooling: nn.Module, features: dict[str, Any], packed_index: Tensor) -> Tensor:
        """Vectors [N, D] of packed texts, in the order before packing."""
        states, groups = features["token_embeddings"], features["groups"]
        if states.shape[1] == len(features["starts"]):  # [CLS] alone
            return rows_of(states[0], packed_index)
        tokens = [group.sequences * group.width for group in groups]
        vectors = []
        for group, part, mask in zip(groups, states[0].split(tokens), features["reads"].split(tokens), strict=True):
            shape = (group.sequences, group.width)
            own = {"token_embeddings": part.unflatten(0, shape), "attention_mask": mask.view(shape).long()}
            vectors.append(pooling(own)["sentence_embedding"])
        return rows_of(torch.cat(vectors), packed_index)

    def _finished(self, features: dict[str, Any]) -> Tensor:
        vectors = features["sentence_embedding"]
        with torch.autocast(vectors.device.type, enabled=False):
            vectors = functional.normalize(vectors, dim=1) if self.normalised else vectors
            return vectors if self.dimensions is None else self._cut(vectors, self.dimensions)

    def _cut(self, vectors: Tensor, dimensions: int) -> Tensor:
        vectors = vectors[:, :dimensions]
        return functional.normalize(vectors, dim=1) if self.cosine else vectors

    def views(self, vectors: Tensor) -> list[Tensor]:
        cuts = nested(self.settings) if self.training else ()
        return [self._cut(vectors, cut) for cut in cuts] if len(cuts) > 1 else [vectors]


class BiEncoder(PretrainedRanker):
    def files(self, settings: BiEncoderSettings, from_front: bool) -> dict[str, str]:
        return sentence_files(_model_of(settings), from_front)

    def own_files(self, settings: BiEncoderSettings) -> dict[str, str]:
        prompts = settings.query_prompt or "", settings.document_prompt or ""
        return {PROMPTS: json.dumps(prompts)} if any(prompts) else {}

    def build(self, text: TextSide, settings: BiEncoderSettings, max_length: int, outputs: int = 1) -> BiEncoderModule:
        """Raises ConfigError if the model reads fewer tokens than `max_length`, or its weights are missing, or for
        classes."""
        if outputs > 1:
            wrong = "bi_encoder gives one similarity a pair, and the data is pairs to classify"
            raise ConfigError(Problem("ranker.name", wrong, "bert, which gives a logit for each class"))
        require_positions(settings.model, longest_of(text.files), max_length)
        if settings.model == TINY:
            first = tiny_transformer(json.loads(text.files[CONFIG]), text.files[TOKENIZER])
            _drop_pooler(first)
            pooling = Pooling(first.get_embedding_dimension(), settings.pooling or "mean")
            model = _with_keys(SentenceTransformer(modules=[first, pooling], device="cpu"), settings)
        else:
            model = _model_of(settings)
        module = BiEncoderModule(model, text.files, settings, max_length)
        module.add_adapters(module.encoder, settings.lora)
        module.freeze(module.encoder, settings.freeze)
        return module

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str]:
        """Writes the folder of a SentenceTransformer."""
        assert isinstance(module, BiEncoderModule)
        saved(module.model, module.max_length, folder, plain=TOKENIZER in files)
        return {name: files[name] for name in files if name != TOKENIZER}

    def open(
        self, folder: Path, files: dict[str, str], settings: BiEncoderSettings, max_length: int, outputs: int
    ) -> tuple[BiEncoderModule, dict[str, str]]:
        model = loaded(SentenceTransformer, str(folder))
        files = sentence_files(model, False) | files
        settings = settings.model_copy(update={"checkpointing": False})
        return BiEncoderModule(model, files, settings, max_length), files


def sentence_files(model: SentenceTransformer, from_front: bool) -> dict[str, str]:
    """Text files of a SentenceTransformer."""
    first, prompts = model[0], (model.prompts.get("query") or "", model.prompts.get("document") or "")
    excluded = len(model) > 1 and not getattr(model[1], "include_prompt", True) and any(prompts)
    if isinstance(first, Transformer) and not excluded:
        return files_of(first, from_front, prompts, pairs=False)
    template = PairTemplate((), (), (), second_segment=False, longest=ENDLESS, pad=0, from_front=from_front)
    if not isinstance(first, StaticEmbedding):
        return {PAIRS: template.to_json()}
    files = {TOKENIZER: first.tokenizer.to_str(), PAIRS: template.to_json(), TABLE: ""}
    return files | ({PROMPTS: json.dumps(list(prompts))} if any(prompts) else {})


def _model_of(settings: BiEncoderSettings) -> SentenceTransformer:
    """The configured model, with what the keys ask for."""
    name = settings.model
    kind = document_of(name, SETTINGS).get("model_type", "SentenceTransformer") if file_of(name, MODULES) else ""
    named = [str(architecture) for architecture in document_of(name, "config.json").get("architectures") or []]
    if kind not in ("", "SentenceTransformer", "CrossEncoder") or any("ColBERT" in one for one in named):
        wrong = f"is a {kind if kind != 'SentenceTransformer' and kind else 'ColBERT'}, which gives no vector a text"
        raise unusable(name, wrong, "a SentenceTransformer")
    model = loaded(SentenceTransformer, name)
    first: Any = model[0]
    pooling: Any = model[1] if len(model) > 1 and isinstance(model[1], Pooling) else None
    if settings.pooling is not None and pooling is not None:
        pooling.pooling_mode = settings.pooling
    if isinstance(first, Transformer):
        _drop_pooler(first)
    elif settings.lora.rank or settings.freeze is not None or settings.checkpointing:
        right = "leave out ranker.lora, ranker.freeze and ranker.checkpointing"
        raise unusable(name, f"begins with a {type(first).__name__}, which has no layers", right)
    return _with_keys(model, settings)


def _with_keys(model: SentenceTransformer, settings: BiEncoderSettings) -> SentenceTransformer:
    """The model with the similarity, prompts, lengths and dimensions that the keys name."""
    model.similarity_fn_name = settings.similarity or model.similarity_fn_name
    if model.similarity_fn_name not in ("cosine", "dot"):
        raise unusable(settings.model, f"compares by {model.similarity_fn_name!r}", "cosine or dot")
    for task, prompt in (("query", settings.query_prompt), ("document", settings.document_prompt)):
        if prompt is not None:
            model.prompts[task] = prompt
    if settings.query_length is not None:
        model[0].query_length = settings.query_length  # pyright: ignore[reportArgumentType]
    if asked := nested(settings):
        model.truncate_dim = max(asked)
    return model


def _whole_size(model: SentenceTransformer) -> int | None:
    """Dimensions of a vector before it is cut."""
    cut, model.truncate_dim = model.truncate_dim, None
    size = model.get_embedding_dimension()
    model.truncate_dim = cut
    return size


def _drop_pooler(first: Transformer) -> None:
    """Unused, its weights would get no gradient."""
    if getattr(first.model, "pooler", None) is not None:
        first.model.register_module("pooler", nn.Identity())
