"""A bi-encoder as a folder of sentence-transformers, which `SentenceTransformer` loads; what such a folder says is read
in `folder`.

The encoder's own files are as transformers has them. `MODULES` lists what follows the encoder, each with a folder of
its own: pooling, dense layers if there are any, and a normalisation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from trainables.core.files import read_text
from trainables.rankers.classifier_folder import (
    ENCODER,
    TYPES,
    WEIGHTS,
    saved,
    tensors_of,
    tokenizer_config,
    write_json,
)
from trainables.rankers.dense_layers import DenseLayer
from trainables.rankers.folder import (
    CONFIG,
    CUT,
    DENSE,
    MODULES,
    OURS,
    POOLED,
    SETTINGS,
    STATIC,
    TOKENIZER_CONFIG,
    ModelFolder,
    Sentences,
    read_folder,
)
from trainables.rankers.hub import file_of, unusable
from trainables.rankers.pretrained import PAIRS, TOKENIZER
from trainables.rankers.token_table import cut_tokenizer, uncut

DENSE_TENSORS = "dense."  # prefix of the dense layers' tensors in our module


def write_sentences(
    encoder: nn.Module, layers: nn.Sequential, size: int, form: Sentences, files: Mapping[str, str], folder: Path
) -> None:
    """Writes an encoder's tensors and text files, and what follows it. `size`: of its vectors."""
    _save(encoder, folder)
    longest = json.loads(files[PAIRS])["longest"]
    length = form.max_length or longest
    if form.table is None:
        _write_encoder(form, files, longest, length, folder)
    else:
        (folder / TOKENIZER).write_text(cut_tokenizer(files[TOKENIZER], length), encoding="utf-8")
    first = ["Transformer", "Pooling"] if form.table is None else [STATIC]
    names = [*first, *[DENSE] * len(form.dense), *(["Normalize"] if form.normalised else [])]
    paths = ["", *(f"{index}_{name}" for index, name in enumerate(names[1:], 1))]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": TYPES + name}
        for index, (name, path) in enumerate(zip(names, paths, strict=True))
    ]
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    for path in paths[1:]:
        (folder / path).mkdir()
    if form.table is None:
        pooling = {key: pooled == form.pooling for pooled, key in POOLED.items()}
        write_json(folder / paths[1] / CONFIG, {"word_embedding_dimension": size, **pooling})
    _write_after_pooling(form, layers, folder, paths[len(first) :])


def _write_encoder(form: Sentences, files: Mapping[str, str], longest: int, length: int, folder: Path) -> None:
    """Writes the text files of an encoder, and how texts are cut."""
    write_json(folder / CONFIG, json.loads(files[CONFIG]) | {OURS: {"longest": longest}})
    (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
    write_json(folder / TOKENIZER_CONFIG, tokenizer_config(files, length))
    lengths = dict(zip(("query_length", "document_length"), form.lengths, strict=True))
    given = {key: value for key, value in lengths.items() if value is not None}
    write_json(folder / CUT[0], {"max_seq_length": length, "do_lower_case": False, **given})


def _write_after_pooling(form: Sentences, layers: nn.Sequential, folder: Path, paths: list[str]) -> None:
    """Writes the dense layers, and what holds for the whole model."""
    prompts = dict(zip(("query", "document"), form.prompts, strict=True)) if any(form.prompts) else None
    settings = {"similarity_fn_name": form.similarity, "prompts": prompts, "truncate_dim": form.dimensions}
    write_json(folder / SETTINGS, {key: value for key, value in settings.items() if value is not None})
    for path, config, layer in zip(paths, form.dense, layers, strict=False):
        write_json(folder / path / CONFIG, config)
        _save(layer, folder / path)


def _save(module: nn.Module, folder: Path) -> None:
    save_file(saved(module.state_dict()), folder / WEIGHTS, {"format": "pt"})


def read_weights(folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The tokenizer's file and the module's tensors of a folder by `write_sentences`."""
    form = read_folder(str(folder)).sentences
    layers = form.layers if form else ()
    prefixes = {ENCODER: folder, **{f"{DENSE_TENSORS}{index}.": folder / path for index, path in enumerate(layers)}}
    tensors = {
        prefix + name: tensor
        for prefix, path in prefixes.items()
        for name, tensor in tensors_of(path / WEIGHTS).items()
    }
    tokenizer = read_text(folder / TOKENIZER)
    whole = form is not None and form.table is not None
    return {TOKENIZER: uncut(Tokenizer.from_str(tokenizer)) if whole else tokenizer}, tensors


def dense_layers(folder: ModelFolder) -> nn.Sequential:
    """The dense layers of a SentenceTransformer's folder or hub name, with their weights; none of other models. Raises
    ConfigError if one is not whole."""
    form = folder.sentences
    pairs = zip(form.dense, form.layers, strict=True) if form else ()
    return nn.Sequential(*(_dense_layer(folder.model, config, path) for config, path in pairs))


def _dense_layer(model: str, config: Mapping[str, object], path: str) -> DenseLayer:
    try:
        layer = DenseLayer(config)
        if (file := file_of(model, f"{path}/{WEIGHTS}")) is None:
            raise ValueError(f"no {WEIGHTS}")
        layer.load_state_dict(load_file(file))
    except (TypeError, KeyError, ValueError, RuntimeError, OSError, SafetensorError) as error:
        wrong = f"has a dense layer {path[:80]!r} that cannot be read ({' '.join(str(error).split())[:200]})"
        raise unusable(model, wrong, "a dense layer as sentence-transformers writes it") from None
    return layer
