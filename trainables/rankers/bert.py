"""Vanilla BERT: a Transformer encoder reads query and document as one sequence (MacAvaney et al. 2020).

The score is a linear layer on the last layer's [CLS] vector (no pooler), as in Penha & Hauff (2020) too.
Long pairs are truncated token by token, off the longer text; queries of several utterances lose their
first tokens (`ranker.keep: latest`), so that the utterance to be answered stays, whereas Penha & Hauff
lose their last ones (`first`). Queries of one utterance and documents always lose their last tokens.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from pydantic import Field
from tokenizers import Tokenizer
from torch import Tensor, nn

from trainables.data.cache import digest_of
from trainables.data.columns import RankingData
from trainables.errors import ConfigError, Problem
from trainables.rankers.base import Ranker, RankerModule, RankerSettings, TextSide, Tokens
from trainables.rankers.pairs import Keep, PairTemplate, keeps_latest
from trainables.rankers.text_cache import cached_text_side
from trainables.rankers.wordpiece import PAD, encode_texts, train_wordpiece, training_texts

TINY = "tiny"
TOKENIZER, CONFIG, PAIRS = "tokenizer.json", "config.json", "pairs.json"


class BertSettings(RankerSettings):
    name: str = "bert"
    model: str = Field(
        TINY,
        min_length=1,
        description="a Hugging Face encoder's name or folder; tiny: a small new one, its vocabulary from the data",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="before the scoring layer")
    head_lr: float | None = Field(None, gt=0, description="learning rate of the scoring layer; null = training.lr")
    keep: Keep = Field("latest", description="what is left of long queries of several utterances")
    vocabulary_size: int = Field(8000, ge=64, description="of model tiny")


class BertModule(RankerModule):
    """`encoder`: a transformers encoder. Scores [B] of token ids [B, L] whose first is [CLS]."""

    tolerates_bf16 = True

    def __init__(
        self, encoder: transformers.PreTrainedModel, template: PairTemplate, settings: BertSettings, max_length: int
    ):
        super().__init__()
        self.template, self.settings, self.max_length = template, settings, max_length
        self.encoder = encoder
        self.dropout = nn.Dropout(settings.dropout)
        self.score = nn.Linear(encoder.config.hidden_size, 1)
        nn.init.normal_(self.score.weight, std=getattr(encoder.config, "initializer_range", 0.02))
        nn.init.zeros_(self.score.bias)
        self.has_segments = "token_type_ids" in inspect.signature(encoder.forward).parameters

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length)
        if not self.has_segments:
            del inputs["token_type_ids"]
        return inputs

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Tokens of the truncated pair, special ones included."""
        lengths = queries.lengths[query_rows], documents.lengths[document_rows]
        query, document = self.template.lengths(*lengths, self.max_length)
        return query + document + self.template.specials

    def forward(self, **inputs: Tensor) -> Tensor:
        cls = self.encoder(**inputs).last_hidden_state[:, 0]
        return self.score(self.dropout(cls)).squeeze(1).float()

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        return [
            {"params": list(self.encoder.parameters()), "lr": lr},
            {"params": list(self.score.parameters()), "lr": self.settings.head_lr or lr},
        ]


class Bert(Ranker):
    Settings = BertSettings

    def prepare(self, data: RankingData, settings: BertSettings, seed: int) -> TextSide:
        """No seed is used: the vocabulary of `tiny` follows from the training texts alone."""
        from_front = keeps_latest(data, settings.keep)
        if settings.model == TINY:
            digest = digest_of(data.digest, TINY, settings.vocabulary_size, from_front)
            return cached_text_side("bert", digest, lambda: _tiny_text_side(data, settings, from_front))
        files = _hub_files(settings.model, from_front)
        return cached_text_side("bert", digest_of(data.digest, files), lambda: _text_side(data, files))

    def encode(self, files: Mapping[str, str], settings: BertSettings, texts: Iterable[str]) -> Tokens:
        return encode_texts(Tokenizer.from_str(files[TOKENIZER]), texts)

    def build(self, text: TextSide, settings: BertSettings, max_length: int) -> BertModule:
        """ConfigError where the encoder has fewer positions than `max_length`, or its weights are missing."""
        template = PairTemplate.from_json(text.files[PAIRS])
        if max_length > template.longest:
            wrong = f"{max_length} tokens, but {settings.model} reads {template.longest}"
            raise ConfigError(Problem("training.max_length", wrong, f"at most {template.longest}"))
        if settings.model == TINY:
            return self.restore(text.files, settings, max_length)
        return BertModule(_pretrained_encoder(settings.model), template, settings, max_length)

    def restore(self, files: Mapping[str, str], settings: BertSettings, max_length: int) -> BertModule:
        fields = json.loads(files[CONFIG])
        config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
        encoder = transformers.AutoModel.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
        return BertModule(_without_pooler(encoder), PairTemplate.from_json(files[PAIRS]), settings, max_length)


def _text_side(data: RankingData, files: Mapping[str, str]) -> TextSide:
    tokenizer = Tokenizer.from_str(files[TOKENIZER])
    return TextSide(encode_texts(tokenizer, data.query_texts()), encode_texts(tokenizer, data.documents), files)


def _tiny_text_side(data: RankingData, settings: BertSettings, from_front: bool) -> TextSide:
    tokenizer = train_wordpiece(training_texts(data), settings.vocabulary_size)
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    return _text_side(data, _files(tokenizer, config, config.max_position_embeddings, PAD, from_front))


def _hub_files(model: str, from_front: bool) -> dict[str, str]:
    """Files of a tokenizer and configuration from a folder or the hub."""
    config = _load(transformers.AutoConfig, model)
    wrapper = _load(transformers.AutoTokenizer, model, use_fast=True)
    if not wrapper.is_fast or wrapper.cls_token_id is None or not hasattr(config, "hidden_size"):
        raise _unusable(model, "is no encoder with a [CLS] token and a fast tokenizer")
    tokenizer = wrapper.backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    longest = min(wrapper.model_max_length, getattr(config, "max_position_embeddings", wrapper.model_max_length))
    files = _files(tokenizer, config, longest, wrapper.pad_token_id, from_front)
    if PairTemplate.from_json(files[PAIRS]).before != (wrapper.cls_token_id,):
        raise _unusable(model, "does not begin a pair with its [CLS] token")
    return files


def _files(
    tokenizer: Tokenizer, config: transformers.PretrainedConfig, longest: int, pad: int, from_front: bool
) -> dict[str, str]:
    fields = {key: value for key, value in config.to_dict().items() if key != "_name_or_path"}
    return {
        TOKENIZER: tokenizer.to_str(),
        CONFIG: json.dumps(fields, sort_keys=True),
        PAIRS: PairTemplate.of(tokenizer, longest, pad, from_front).to_json(),
    }


def _pretrained_encoder(model: str) -> transformers.PreTrainedModel:
    """Weights from a folder or the hub; safetensors only, and no code that comes with them."""
    options = {"attn_implementation": "sdpa", "dtype": torch.float32, "use_safetensors": True}
    return _without_pooler(_load(transformers.AutoModel, model, **options))


def _without_pooler(encoder: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """The score does not use the pooler: left in, its weights would get no gradient."""
    if hasattr(encoder, "pooler"):
        encoder.register_module("pooler", None)
    return encoder


def _load(kind: Any, model: str, **options: Any) -> Any:
    transformers.logging.disable_progress_bar()
    if model.startswith(("/", ".", "~")) and not Path(model).is_dir():
        raise _unusable(model, "is no folder")
    try:
        return kind.from_pretrained(model, trust_remote_code=False, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise _unusable(model, f"cannot be loaded ({str(error).splitlines()[0]})") from error


def _unusable(model: str, wrong: str) -> ConfigError:
    right = f"{TINY}, the folder of an encoder (config.json, tokenizer.json, model.safetensors) or its hub name"
    return ConfigError(Problem("ranker.model", f"'{model}' {wrong}", right))
