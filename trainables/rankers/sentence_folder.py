"""A bi-encoder as a folder of sentence-transformers, which `SentenceTransformer` loads.

The encoder's own files are as transformers has them. `MODULES` lists what follows the encoder, each with a folder of
its own: pooling, and for cosines a normalisation. `SETTINGS` names the similarity, `CUT` the length of a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.utils.hub import cached_file

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import opened, read_text
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
from trainables.rankers.hub import hub_answers
from trainables.rankers.settings import TINY

MODULES, SETTINGS, CUT = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
TYPES = "sentence_transformers.models."  # names that all versions of the library know
POOLED = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
FOLLOWING = {"Pooling": "1_Pooling", "Normalize": "2_Normalize"}
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
    encoder reads. `prompts`: what stands before a query, and before a document."""

    pooling: Pooling
    similarity: Similarity
    max_length: int | None
    prompts: tuple[str, str] = ("", "")


def write_sentences(
    encoder: Mapping[str, Tensor], size: int, form: Sentences, files: Mapping[str, str], folder: Path
) -> None:
    """Writes an encoder's tensors and text files, and what follows it. `size`: of its vectors."""
    here = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.items()}
    save_file(here, folder / WEIGHTS, {"format": "pt"})
    config, longest = json.loads(files[CONFIG]), json.loads(files[PAIRS])["longest"]
    length = form.max_length or longest
    _write(folder / CONFIG, config | {OURS: {"longest": longest}})
    (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
    _write(folder / TOKENIZER_CONFIG, tokenizer_config(files, length))
    _write(folder / CUT, {"max_seq_length": length, "do_lower_case": False})
    prompts = dict(zip(("query", "document"), form.prompts, strict=True)) if any(form.prompts) else None
    _write(folder / SETTINGS, {"similarity_fn_name": form.similarity} | ({"prompts": prompts} if prompts else {}))
    names = ["Transformer", "Pooling", *(["Normalize"] if form.similarity == "cosine" else [])]
    modules = [
        {"idx": index, "name": str(index), "path": FOLLOWING.get(name, ""), "type": TYPES + name}
        for index, name in enumerate(names)
    ]
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    for name in names[1:]:
        (folder / FOLLOWING[name]).mkdir()
    pooling = {key: pooled == form.pooling for pooled, key in POOLED.items()}
    _write(folder / FOLLOWING["Pooling"] / CONFIG, {"word_embedding_dimension": size, **pooling})


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_weights(folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The tokenizer's file and the module's tensors of a folder by `write_sentences`."""
    with opened(folder / WEIGHTS):  # safetensors reports every file that it cannot open as missing
        tensors = load_file(folder / WEIGHTS)
    files = {TOKENIZER: read_text(folder / TOKENIZER)}
    return files, {ENCODER + name: tensor for name, tensor in tensors.items()}


def read_sentences(model: str) -> Sentences | None:
    """The form of a SentenceTransformer's folder or hub name; None if it is none: without pooling, it is another model.
    Raises ConfigError if it has parts that a bi_encoder lacks."""
    modules = _modules(model) or []
    names = [name for name, _ in modules]
    if "Pooling" not in names:
        return None
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        raise _lacking(model, f"is made of {', '.join(names)}", "Transformer, Pooling and possibly Normalize")
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
    return Sentences(pooled, "cosine" if names[2:] else similarity, cut, prompts)


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
    if model == TINY:
        return None
    folder = Path(model)
    try:
        path = folder / name if folder.is_dir() else Path(_of_hub(model, name) or "/")
        return json.loads(read_text(path)) if path.is_file() else None
    except ValueError as error:
        raise _lacking(model, f"has a {name} that cannot be read ({error})", "a whole folder") from None


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
