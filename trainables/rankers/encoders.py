"""Hugging Face encoders: what can be read of them, their weights, and a last layer that computes [CLS] alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from trainables.errors import ConfigError, Problem

TINY = "tiny"
# BERT's kin: attention reads keys and values from elsewhere if asked to (cross-attention), with no norm in front of it,
# under a mask of true and false.
CLS_ALONE = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})


def tiny_config(vocabulary: int) -> PretrainedConfig:
    """A new BERT of 2 layers, 128 wide."""
    return transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    )


def read_encoder(model: str) -> tuple[PretrainedConfig, transformers.PreTrainedTokenizerFast]:
    """Configuration and tokenizer of an encoder's folder or hub name; ConfigError for what is no such encoder."""
    config = _load(transformers.AutoConfig, model)
    tokenizer = _load(transformers.AutoTokenizer, model, use_fast=True)
    if config.is_encoder_decoder or not hasattr(config, "hidden_size"):
        raise unusable(model, "is no encoder")
    if not tokenizer.is_fast or tokenizer.cls_token_id is None or tokenizer.pad_token_id is None:
        raise unusable(model, "has no fast tokenizer with a [CLS] and a padding token")
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    _require_cls_first(model, tokenizer.backend_tokenizer, tokenizer.cls_token_id)
    return config, tokenizer


def _require_cls_first(model: str, tokenizer: Tokenizer, cls: int) -> None:
    ids = tokenizer.encode("a", "a").ids
    if ids[0] == cls:
        return
    if ids[-1] == cls:
        raise unusable(model, "ends a pair with its [CLS] token, as XLNet does")
    raise unusable(model, "does not begin a pair with its [CLS] token")


def positions(config: PretrainedConfig, otherwise: int) -> int:
    """Tokens the encoder reads at most. RoBERTa's kin leave the first rows of their position table to padding."""
    with torch.device("meta"):
        encoder = transformers.AutoModel.from_config(config)
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding):
        unused = 0 if table.padding_idx is None else table.padding_idx + 1
        return table.num_embeddings - unused
    return getattr(config, "max_position_embeddings", otherwise)


def new_encoder(fields: dict[str, Any]) -> PreTrainedModel:
    """An encoder with random weights from its configuration's fields."""
    fields = dict(fields)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    return transformers.AutoModel.from_config(config, dtype=torch.float32)


def pretrained_encoder(model: str) -> PreTrainedModel:
    """Weights from a folder or the hub; safetensors only, and no code that comes with them."""
    return _load(transformers.AutoModel, model, dtype=torch.float32, use_safetensors=True)


def take_pooler(encoder: PreTrainedModel) -> nn.Linear | None:
    """Removes the encoder's pooler and returns its layer, if it has one: left in, unused weights get no gradient."""
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return None
    encoder.register_module("pooler", None)
    layer = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
    return layer if isinstance(layer, nn.Linear) else None


def compute_cls_alone(encoder: PreTrainedModel) -> None:
    """Makes the last layer of a BERT-like encoder give the [CLS] vector only: `last_hidden_state` [B, 1, D].

    The vector is the same: in the last layer no other position's query, output or feed-forward part reaches it.
    The layer's attention becomes the architecture's own cross-attention, with the same weights under the same
    names, from [CLS] to all positions. Encoders of other kinds stay as they are.
    """
    if encoder.config.model_type not in CLS_ALONE:
        return
    last: Any = encoder.get_submodule("encoder.layer")[-1]  # pyright: ignore[reportIndexIssue]
    with torch.device("meta"):
        attention = type(last.attention)(encoder.config, is_cross_attention=True)
    attention.load_state_dict(last.attention.state_dict(), assign=True)
    attention.register_forward_pre_hook(_ask_for_cls, with_kwargs=True)
    last.attention = attention


def _ask_for_cls(_: nn.Module, args: tuple[Tensor, Tensor | None], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """From self-attention's arguments (states [B, L, D], mask [B, 1, L, L] or None) to those of cross-attention."""
    states, mask = args
    asked = {"encoder_hidden_states": states, "encoder_attention_mask": None if mask is None else mask[..., :1, :]}
    return (states[:, :1],), kwargs | asked


def _load(kind: Any, model: str, **options: Any) -> Any:
    transformers.logging.disable_progress_bar()
    if model.startswith(("/", ".", "~")) and not Path(model).is_dir():
        raise unusable(model, "is no folder")
    try:
        return kind.from_pretrained(model, trust_remote_code=False, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise unusable(model, f"cannot be loaded ({str(error).splitlines()[0]})") from error


def unusable(model: str, wrong: str) -> ConfigError:
    right = f"{TINY}, the folder of an encoder (config.json, tokenizer.json, model.safetensors) or its hub name"
    return ConfigError(Problem("ranker.model", f"'{model}' {wrong}", right))
