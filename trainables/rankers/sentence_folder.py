"""A bi-encoder as a folder of sentence-transformers, which `SentenceTransformer` loads.

The encoder's own files are as transformers has them. `MODULES` lists what follows the encoder, each with a folder of
its own: pooling, dense layers if there are any, and for cosines a normalisation. `SETTINGS` names the similarity, `CUT`
the length of a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.utils.hub import cached_file

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import opened, read_text
from trainables.core.hub import hub_answers
from trainables.rankers.classifier_folder import (
    CONFIG,
    ENCODER,
    PAIRS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    tokenizer_config,
)
from trainables.rankers.classifier_heads import OURS
from trainables.rankers.dense_layers import KEYS, DenseLayer
from trainables.rankers.settings import TINY

MODULES, SETTINGS, CUT = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
TYPES = "sentence_transformers.models."  # names that all versions of the library know
POOLED = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
DENSE, DENSE_TENSORS = "Dense", "dense."  # a kind of part; prefix of its tensors in our module
OTHER_POOLING = (  # of the form of earlier versions, a key for each
    "pooling_mode_max_tokens",
    "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens",
    "pooling_mode_lasttoken",
)
QUIET: dict[str, Any] = {
    "_raise_exceptions_for_missing_entries": False,
    "_raise_exceptions_for_connection_errors": False,
}
Pooling = Literal["mean", "cls"]
Similarity = Literal["cosine", "dot"]


@dataclass(frozen=True)
class Sentences:
    """What a SentenceTransformer makes of an encoder's vectors. `max_length`: tokens of a text; None: all that the
    encoder reads. `prompts`: what stands before a query, and before a document. `dense`: configurations of the dense
    layers after pooling."""

    pooling: Pooling
    similarity: Similarity
    max_length: int | None
    prompts: tuple[str, str] = ("", "")
    dense: tuple[Mapping[str, Any], ...] = ()


def write_sentences(
    encoder: nn.Module, layers: nn.Sequential, size: int, form: Sentences, files: Mapping[str, str], folder: Path
) -> None:
    """Writes an encoder's tensors and text files, and what follows it. `size`: of its vectors."""
    _save(encoder, folder)
    config, longest = json.loads(files[CONFIG]), json.loads(files[PAIRS])["longest"]
    length = form.max_length or longest
    _write(folder / CONFIG, config | {OURS: {"longest": longest}})
    (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
    _write(folder / TOKENIZER_CONFIG, tokenizer_config(files, length))
    _write(folder / CUT, {"max_seq_length": length, "do_lower_case": False})
    prompts = dict(zip(("query", "document"), form.prompts, strict=True)) if any(form.prompts) else None
    _write(folder / SETTINGS, {"similarity_fn_name": form.similarity} | ({"prompts": prompts} if prompts else {}))
    normalised = ["Normalize"] if form.similarity == "cosine" else []
    names = ["Transformer", "Pooling", *[DENSE] * len(form.dense), *normalised]
    paths = ["", *(f"{index}_{name}" for index, name in enumerate(names[1:], 1))]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": TYPES + name}
        for index, (name, path) in enumerate(zip(names, paths, strict=True))
    ]
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    for path in paths[1:]:
        (folder / path).mkdir()
    pooling = {key: pooled == form.pooling for pooled, key in POOLED.items()}
    _write(folder / paths[1] / CONFIG, {"word_embedding_dimension": size, **pooling})
    for path, config, layer in zip(paths[2:], form.dense, layers, strict=False):
        _write(folder / path / CONFIG, config)
        _save(layer, folder / path)


def _save(module: nn.Module, folder: Path) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_weights(folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The tokenizer's file and the module's tensors of a folder by `write_sentences`."""
    parts = _modules(str(folder)) or []
    dense = [folder / path for kind, path in parts if kind == DENSE]
    prefixes = {ENCODER: folder, **{f"{DENSE_TENSORS}{index}.": path for index, path in enumerate(dense)}}
    tensors = {
        prefix + name: tensor for prefix, path in prefixes.items() for name, tensor in _tensors(path / WEIGHTS).items()
    }
    return {TOKENIZER: read_text(folder / TOKENIZER)}, tensors


def _tensors(path: Path) -> dict[str, Tensor]:
    with opened(path):  # safetensors reports every file that it cannot open as missing
        return load_file(path)


def dense_layers(model: str) -> nn.Sequential:
    """The dense layers of a SentenceTransformer's folder or hub name, with their weights; none of other models. Raises
    ConfigError if one is not whole."""
    paths = [path for kind, path in _modules(model) or [] if kind == DENSE]
    return nn.Sequential(*(_dense_layer(model, path) for path in paths))


def _dense_layer(model: str, path: str) -> DenseLayer:
    config = _document(model, f"{path}/{CONFIG}")
    try:
        layer = DenseLayer(config)
        if (file := _file(model, f"{path}/{WEIGHTS}")) is None:
            raise ValueError(f"no {WEIGHTS}")
        layer.load_state_dict(load_file(file))
    except (TypeError, KeyError, ValueError, RuntimeError, OSError, SafetensorError) as error:
        wrong = f"has a dense layer {path[:80]!r} that cannot be read ({' '.join(str(error).split())[:200]})"
        raise _lacking(model, wrong, "a dense layer as sentence-transformers writes it") from None
    return layer


def read_sentences(model: str) -> Sentences | None:
    """The form of a SentenceTransformer's folder or hub name; None if it is none: without pooling, it is another model.
    Raises ConfigError if it has parts that a bi_encoder lacks."""
    modules = _modules(model) or []
    names = [name for name, _ in modules]
    if "Pooling" not in names:
        return None
    normalised = names[-1] == "Normalize"
    if names[:2] != ["Transformer", "Pooling"] or set(names[2 : len(names) - normalised]) - {DENSE}:
        right = "Transformer, Pooling and possibly Dense and Normalize"
        raise _lacking(model, f"is made of {', '.join(names)}", right)
    pooling = _document(model, f"{modules[1][1]}/{CONFIG}") or {}
    named = pooling.get("pooling_mode") or [name for name, key in POOLED.items() if pooling.get(key)]
    modes = [named] if isinstance(named, str) else list(named)
    pooled: Pooling = "mean" if modes == ["mean"] else "cls"
    if modes != [pooled] or any(pooling.get(key) for key in pooling if key in OTHER_POOLING):
        raise _lacking(model, f"pools in another way ({MODULES})", "pooling by mean or cls")
    settings = _document(model, SETTINGS) or {}
    prompts = _prompt(settings, ("query",)), _prompt(settings, ("document", "passage", "corpus"))
    if any(prompts) and pooling.get("include_prompt") is False:
        raise _lacking(model, "pools without its prompts (include_prompt)", "pooling of all tokens")
    similarity = settings.get("similarity_fn_name") or "cosine"
    if similarity not in ("cosine", "dot"):
        raise _lacking(model, f"compares by {str(similarity)[:80]!r}", "similarity cosine or dot")
    cut = (_document(model, _joined(modules[0][1], CUT)) or {}).get("max_seq_length")
    dense = [_document(model, f"{path}/{CONFIG}") or {} for kind, path in modules if kind == DENSE]
    layers = tuple({key: config[key] for key in KEYS if key in config} for config in dense)
    return Sentences(pooled, "cosine" if normalised else similarity, cut, prompts, layers)


def _prompt(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """The prompt by the first of the names that is there, or the default one, as `encode_query` and `encode_document`
    of sentence-transformers choose it."""
    prompts = settings.get("prompts") or {}
    return next((prompts[name] for name in (*names, settings.get("default_prompt_name")) if name in prompts), "") or ""


def encoder_of(model: str) -> str:
    """Where the encoder of `ranker.model` is: a folder within that of a SentenceTransformer, or the model itself."""
    path = modules[0][1] if (modules := _modules(model)) else ""
    if not path:
        return model
    folder = Path(model, path)
    if not folder.resolve().is_relative_to(Path(model).resolve()) or not folder.is_dir():
        raise _lacking(model, f"has its encoder at {path[:80]!r}", "an encoder in the folder itself")
    return str(folder)


def _modules(model: str) -> list[tuple[str, str]] | None:
    """(kind, path) of each part of a SentenceTransformer; None if the model is none."""
    if (modules := _document(model, MODULES)) is None:
        return None
    try:
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (TypeError, KeyError):
        raise _lacking(model, f"has a {MODULES} of another form", "a list of modules with type and path") from None


def _document(model: str, name: str) -> Any:
    """A JSON file of a folder or of a hub name; None if there is none."""
    try:
        path = _file(model, name)
        return None if path is None else json.loads(read_text(path))
    except ValueError as error:
        raise _lacking(model, f"has a {name} that cannot be read ({error})", "a whole folder") from None


def _file(model: str, name: str) -> Path | None:
    """A file of a folder or of a hub name; None if there is none."""
    if model == TINY:
        return None
    folder = Path(model)
    path = folder / name if folder.is_dir() else Path(_of_hub(model, name) or "/")
    return path if path.is_file() else None


def _of_hub(model: str, name: str) -> str | None:
    """The file in the cache of a hub name, fetched if the hub answers. None where it is not: what is wrong is for the
    encoder's own files to say."""
    try:
        return cached_file(model, name, local_files_only=not hub_answers(), **QUIET)
    except (OSError, ValueError):
        return None


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _lacking(model: str, wrong: str, right: str) -> ConfigError:
    return ConfigError(Problem("ranker.model", f"'{model}' {wrong}", right))
