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
from trainables.rankers.classifier_heads import LAYOUTS, Layout
from trainables.rankers.folder import CONFIG, CUT, MODULES, OURS, SETTINGS, TOKENIZER_CONFIG
from trainables.rankers.pretrained import PAIRS, PROMPTS, TOKENIZER

WEIGHTS, HEAD = "model.safetensors", "head.safetensors"
ENCODER = "encoder."  # prefix of the encoder's tensors in our module
TYPES = "sentence_transformers.models."  # names that all versions of the library know
LOGITS = {"activation_fn": "torch.nn.modules.linear.Identity"}  # sentence-transformers puts a sigmoid on them else

CROSS_ENCODER: dict[str, Any] = {"model_type": "CrossEncoder", **LOGITS}


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
    here = saved(state)
    encoder = {name.removeprefix(ENCODER): tensor for name, tensor in here.items() if name.startswith(ENCODER)}
    named = {f"{layout.encoder}.{name}": tensor for name, tensor in encoder.items()}
    save_file(named | saved(head[0]), folder / WEIGHTS, {"format": "pt"})
    save_file({name: tensor for name, tensor in here.items() if not name.startswith(ENCODER)}, folder / HEAD)
    longest = json.loads(files[PAIRS])["longest"]
    _write_around(config_of(json.loads(files[CONFIG]), head[1], longest, classes), files, max_length, folder)


def write_whole(
    state: Mapping[str, Tensor], files: Mapping[str, str], max_length: int, classes: Sequence[str], folder: Path
) -> dict[str, Any]:
    """As `write_classifier`, of a model with the head of its own architecture, whose tensors are `state`; returns its
    config.json."""
    save_file(saved(state), folder / WEIGHTS, {"format": "pt"})
    config = config_of(json.loads(files[CONFIG]), {}, json.loads(files[PAIRS])["longest"], classes)
    _write_around(config, files, max_length, folder)
    return config


def saved(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as safetensors takes them: on the CPU, and none a part of another."""
    here, seen = {}, set[int]()
    for name, tensor in state.items():
        tensor = tensor.detach().cpu().contiguous()
        here[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return here


def _write_around(config: Mapping[str, Any], files: Mapping[str, str], max_length: int, folder: Path) -> None:
    """Writes what stands beside the weights. A prompt has room in the files of sentence-transformers alone."""
    write_json(folder / CONFIG, config)
    (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
    write_json(folder / TOKENIZER_CONFIG, tokenizer_config(files, max_length))
    if PROMPTS not in files:
        return
    write_parts(folder, {"prompts": {"query": json.loads(files[PROMPTS])[0]}, "default_prompt_name": "query"})


def write_parts(folder: Path, settings: Mapping[str, Any], chat: bool = False) -> None:
    """Writes what sentence-transformers reads of a CrossEncoder beside the files of transformers. `chat`: whether a
    pair goes through the chat template."""
    write_json(folder / SETTINGS, CROSS_ENCODER | dict(settings))
    forward = {"method": "forward", "method_output_name": "logits"}
    modes = {"text": forward, **({"message": forward | {"format": "flat"}} if chat else {})}
    task = {"transformer_task": "sequence-classification", "modality_config": modes, "module_output_name": "scores"}
    write_json(folder / CUT[0], task)
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{TYPES}Transformer"}]
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")


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
    tokens = {"cls_token": pairs["before"][:1], "sep_token": pairs["after"][-1:], "pad_token": [pairs["pad"]]}
    names = {key: tokenizer.id_to_token(numbers[0]) for key, numbers in tokens.items() if numbers}
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
    if not (folder / HEAD).is_file():
        return files, {f"model.{name}": tensor for name, tensor in tensors_of(folder / WEIGHTS).items()}
    layout = LAYOUTS[json.loads(read_text(folder / CONFIG))["model_type"]]
    tensors = tensors_of(folder / HEAD)
    for name, tensor in tensors_of(folder / WEIGHTS).items():
        if name.startswith(f"{layout.encoder}.") and not name.startswith(f"{layout.dense}."):
            tensors[ENCODER + name.removeprefix(f"{layout.encoder}.")] = tensor
    return files, tensors


def tensors_of(path: Path) -> dict[str, Tensor]:
    """The tensors of a file."""
    with opened(path):  # safetensors reports every file that it cannot open as missing
        return load_file(path)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
