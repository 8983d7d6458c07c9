"""Folders of small encoders with random weights, each with a tokenizer of its kind trained on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from trainables.rankers.wordpiece import train_wordpiece

TEXTS = [f"w{i} w{i * 7 % 200} so it is, said w{i * 3 % 200}." for i in range(200)]
POSITIONS = 48
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def _wordpiece() -> Any:
    return transformers.BertTokenizerFast(vocab=train_wordpiece(TEXTS, 300).get_vocab())


def _byte_level(specials: Iterable[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def _roberta() -> Any:
    model = json.loads(_byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]).to_str())["model"]
    return transformers.RobertaTokenizerFast(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


def _modernbert() -> Any:
    names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    tokenizer = _byte_level(names.values())
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _pieces(specials: list[str]) -> list[tuple[str, float]]:
    """Entries of a Unigram model, the special ones first, in the order given."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=specials, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]


def _albert() -> Any:
    return transformers.AlbertTokenizerFast(vocab=_pieces(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]))


def _xlnet() -> Any:
    return transformers.XLNetTokenizerFast(vocab=_pieces(["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]))


DEBERTA_V3: dict[str, Any] = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_buckets": 8,
    "type_vocab_size": 0,
}
# Configuration class, its sizes under the class's own names, and the tokenizer.
KINDS: dict[str, tuple[str, dict[str, Any], Callable[[], Any]]] = {
    "bert": ("BertConfig", SIZES, _wordpiece),
    "electra": ("ElectraConfig", SIZES | {"embedding_size": 16}, _wordpiece),
    "distilbert": ("DistilBertConfig", {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2}, _wordpiece),
    "roberta": ("RobertaConfig", SIZES | {"type_vocab_size": 1}, _roberta),
    "modernbert": ("ModernBertConfig", SIZES | {"local_attention": 8}, _modernbert),
    "albert": ("AlbertConfig", SIZES | {"embedding_size": 16}, _albert),
    "deberta-v3": ("DebertaV2Config", SIZES | DEBERTA_V3, _wordpiece),
}
REFUSED: dict[str, tuple[str, dict[str, Any], Callable[[], Any]]] = {
    "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64}, _xlnet),
    "bart": ("BartConfig", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}, _roberta),
}


def save_encoder(kind: str, folder: Path) -> Any:
    """Writes an encoder's folder as its authors would; returns its tokenizer."""
    name, sizes, make_tokenizer = (KINDS | REFUSED)[kind]
    tokenizer = make_tokenizer()
    fields = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **sizes}
    if kind != "xlnet":
        fields["max_position_embeddings"] = POSITIONS
    torch.manual_seed(0)
    encoder = transformers.AutoModel.from_config(getattr(transformers, name)(**fields))
    transformers.logging.disable_progress_bar()
    encoder.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer
