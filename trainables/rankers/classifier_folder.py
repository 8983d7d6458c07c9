"""A cross-encoder as a Hugging Face folder, which transformers and sentence-transformers read too.

config.json, model.safetensors, tokenizer.json and tokenizer_config.json are as those libraries have them.
`HEAD` holds the head to the last bit as the training had it: the form that others read can round it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

from trainables.core.files import opened, read_text
from trainables.rankers.classifier_heads import LAYOUTS, OURS, Layout

TOKENIZER, CONFIG, PAIRS = "tokenizer.json", "config.json", "pairs.json"
TOKENIZER_CONFIG, WEIGHTS, HEAD = "tokenizer_config.json", "model.safetensors", "head.safetensors"
ENCODER = "encoder."  # prefix of the encoder's tensors in our module
LOGITS = {"activation_fn": "torch.nn.modules.linear.Identity"}  # sentence-transformers puts a sigmoid on them else


def write_classifier(
    state: Mapping[str, Tensor],
    head: tuple[Mapping[str, Tensor], Mapping[str, Any]],
    layout: Layout,
    files: Mapping[str, str],
    max_length: int,
    classes: Sequence[str],
    folder: Path,
) -> None:
    """Writes a module's tensors `state` and its text files. `head`: the tensors and fields of
    `classifier_heads.written`; `classes`: empty if it ranks."""
    here = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    encoder = {name.removeprefix(ENCODER): tensor for name, tensor in here.items() if name.startswith(ENCODER)}
    named = {f"{layout.encoder}.{name}": tensor for name, tensor in encoder.items()}
    form = {name: tensor.detach().cpu().contiguous() for name, tensor in head[0].items()}
    save_file(named | form, folder / WEIGHTS, {"format": "pt"})
    save_file({name: tensor for name, tensor in here.items() if not name.startswith(ENCODER)}, folder / HEAD)
    longest = json.loads(files[PAIRS])["longest"]
    _write(folder / CONFIG, config_of(json.loads(files[CONFIG]), head[1], longest, classes))
    (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
    _write(folder / TOKENIZER_CONFIG, tokenizer_config(files, max_length))


def config_of(
    fields: Mapping[str, Any], head: Mapping[str, Any], longest: int, classes: Sequence[str]
) -> dict[str, Any]:
    """config.json of the sequence classifier, from that of the encoder."""
    labels = classes or ("LABEL_0",)
    return {
        **fields,
        **head,
        "architectures": [CLASSIFIERS[fields["model_type"]]],
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
        "num_labels": len(labels),
        "sentence_transformers": LOGITS,
        OURS: head.get(OURS, {}) | {"longest": longest},
    }


def tokenizer_config(files: Mapping[str, str], max_length: int) -> dict[str, Any]:
    """tokenizer_config.json: pairs are cut at the training's length, and [SEP] and the like in a text are words."""
    tokenizer, pairs = Tokenizer.from_str(files[TOKENIZER]), json.loads(files[PAIRS])
    tokens = {"cls_token": pairs["before"][0], "sep_token": pairs["after"][-1], "pad_token": pairs["pad"]}
    names = {key: tokenizer.id_to_token(number) for key, number in tokens.items()}
    if unknown := json.loads(files[TOKENIZER])["model"].get("unk_token"):
        names["unk_token"] = unknown
    inputs = ["input_ids", *(["token_type_ids"] if pairs["second_segment"] else []), "attention_mask"]
    return {
        **names,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": inputs,
        "padding_side": "right",
        "truncation_side": "right",
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }


def read_classifier(folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The tokenizer's file and the module's tensors of a folder by `write_classifier`."""
    files = {TOKENIZER: read_text(folder / TOKENIZER)}
    layout = LAYOUTS[json.loads(read_text(folder / CONFIG))["model_type"]]
    tensors = _tensors(folder / HEAD)
    for name, tensor in _tensors(folder / WEIGHTS).items():
        if name.startswith(f"{layout.encoder}.") and not name.startswith(f"{layout.dense}."):
            tensors[ENCODER + name.removeprefix(f"{layout.encoder}.")] = tensor
    return files, tensors


def _tensors(path: Path) -> dict[str, Tensor]:
    with opened(path):  # safetensors reports every file that it cannot open as missing
        return load_file(path)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
