"""Models as sentence-transformers loads and saves them: a CrossEncoder, or a SentenceTransformer.

Weights come from safetensors alone, and no code from a folder or repository runs. What the library would pass over
without a word is refused: files that lack weights, and models whose scores depend on padding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import peft
import torch
import transformers
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors import SafetensorError, safe_open
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from torch import nn

from trainables.core.errors import ConfigError, Problem
from trainables.core.hub import hub_answers, hub_out_of_reach
from trainables.rankers.fast.packing import PACKED
from trainables.rankers.hub import ADAPTER, cached_file_of, document_of, file_of, missing, unusable

Model = TypeVar("Model", CrossEncoder, SentenceTransformer)

ADAPTER_WEIGHTS = "adapter_model.safetensors"
CONVERT = "convert it: load it with transformers' AutoModel classes, save_pretrained writes model.safetensors"
BROKEN = (OSError, ValueError, ImportError, KeyError, TypeError, AttributeError, RuntimeError, IndexError)
BROKEN += (SafetensorError, NotImplementedError)
IMPLEMENTATIONS = {  # those that a model's configuration may ask for; others are code on the hub
    "attn_implementation": (None, "eager", "sdpa"),
    "experts_implementation": (None, "eager", "grouped_mm", "batched_mm"),
}
WHOLE_ATTENTION = {"big_bird": {"attention_type": "original_full"}}  # else the longest text of a batch decides
ENDLESS = 10**6  # tokens that a model reads if neither it nor its tokenizer sets a limit
CLOSE = (1e-3, 1e-3)  # relative and absolute, between scores of a text alone and beside a longer one
OPTIONS: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True}


def loaded(kind: type[Model], model: str) -> Model:
    """The model of a folder or hub name, in float32 on the CPU. Raises ConfigError, with the library's words, for one
    that it does not load."""
    folder = Path(model).is_dir()
    if model.startswith(("/", ".", "~")) and not folder:
        raise unusable(model, "is not a folder")
    online = not folder and hub_answers()
    try:
        with _silence(), nullcontext() if online else hub_out_of_reach():
            made = _made(kind, model, not online)
        _require_tokens(model, made)
        _require_own_scores(model, made)
    except ConfigError:
        raise
    except BROKEN as error:
        if not folder and not online:
            raise missing(model) from error
        why = " ".join(str(error).split())[:300]
        if "no file named model.safetensors" in why.lower():
            raise unusable(model, "has no model.safetensors", CONVERT) from error
        raise unusable(model, f"cannot be loaded ({why})") from error
    return made


@contextmanager
def _silence() -> Iterator[None]:
    """In the block, transformers reports no weights that a folder has beside those that are used."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(verbosity)


def _made(kind: type[Model], model: str, local: bool) -> Model:
    if file_of(model, ADAPTER) is not None and file_of(model, "modules.json") is None:
        return _with_adapter(kind, model)
    config = document_of(model, "config.json")
    _require_own_kernels(model, config)
    attention: dict[str, Any] = WHOLE_ATTENTION.get(str(config.get("model_type")), {})
    with _all_weights(model):
        made = kind(model, device="cpu", model_kwargs=dict(OPTIONS), config_kwargs=attention, local_files_only=local)
    merge(made[0])
    return made.float().requires_grad_(True)


def _require_own_kernels(model: str, config: dict[str, Any]) -> None:
    """Raises ConfigError for other implementations than PyTorch's: transformers takes `org/x` for code on the hub."""
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    for part in parts:
        for key, own in IMPLEMENTATIONS.items():
            for name in (key, f"_{key}"):
                if part.get(name) not in own:
                    wrong = f"'{model}' asks for {key} {str(part[name])[:80]!r}"
                    raise ConfigError(Problem("ranker.model", wrong, f"leave {key} out of its config.json"))


@contextmanager
def _all_weights(model: str) -> Iterator[None]:
    """In the block, Transformer modules refuse files that lack weights: transformers would draw them at random."""
    load = Transformer._load_model

    def checked(self: Transformer, *arguments: Any, **keys: Any) -> Any:
        whole, found = load(self, *arguments, output_loading_info=True, ignore_mismatched_sizes=True, **keys)  # pyright: ignore[reportGeneralTypeIssues]
        _require_fit(model, found["mismatched_keys"])
        lacking = {name for name in found["missing_keys"] if "lora_" not in name}
        if self.transformer_task == "feature-extraction":  # a pooler is not used
            lacking = {name for name in lacking if not name.startswith("pooler.")}
        if lacking:
            raise _incomplete(model, whole, lacking)
        return whole

    Transformer._load_model = checked
    try:
        yield
    finally:
        Transformer._load_model = load


def _require_fit(model: str, mismatched: Collection[tuple[str, Any, Any]]) -> None:
    for name, stored, expected in mismatched:
        wrong = f"has {name} of shape {list(stored)}, and its config.json asks for {list(expected)}"
        raise unusable(model, wrong, "a config.json that fits the weights")


def _incomplete(model: str, whole: Any, lacking: Collection[str]) -> ConfigError:
    names = list(whole.state_dict())
    first = next((name for name in names if name in lacking), min(lacking))
    wrong = f"lacks {len(lacking)} of its {len(names)} weights (first: {first})"
    if getattr(whole.config, "auto_map", None):
        wrong += ", and needs code of its own (auto_map)"
    return unusable(model, wrong, "all weights, under transformers' names; if the head is missing, ranker.head: cls")


def _require_tokens(model: str, made: CrossEncoder | SentenceTransformer) -> None:
    """Raises ConfigError for a tokenizer with tokens that the model has no vector for."""
    whole, tokenizer = made.transformers_model, made.tokenizer
    table: Any = whole.get_input_embeddings() if whole is not None else getattr(made[0], "embedding", None)
    if table is None or tokenizer is None or not hasattr(tokenizer, "get_vocab"):
        return
    special = set(getattr(tokenizer, "all_special_ids", ()))  # which no text needs
    count = max(set(tokenizer.get_vocab().values()) - special, default=0) + 1
    rows = table.weight.shape[0]
    if count > rows:
        wrong = f"has a tokenizer of {count:,} tokens, and vectors of {rows:,}"
        raise unusable(model, wrong, "resize_token_embeddings, or the tokenizer that belongs to it")


def _require_own_scores(model: str, made: Any) -> None:
    """Raises ConfigError for a model that gives a text another score beside a longer one, which pads it."""
    first: Any = made[0]
    if not isinstance(first, Transformer):
        return
    architecture = str(getattr(first.config, "model_type", ""))
    if architecture in PACKED:
        return
    texts = ["a", "one of these, and that one, too " * 4]
    inputs: Any = [(text, text) for text in texts] if isinstance(made, CrossEncoder) else texts
    with torch.inference_mode():
        alone, beside = (made.eval()(made.preprocess(given)) for given in (inputs[:1], inputs))
    kind = "scores" if isinstance(made, CrossEncoder) else "sentence_embedding"
    if not torch.allclose(alone[kind][0], beside[kind][0], *CLOSE, equal_nan=True):
        what = f"({architecture}) gives a text another score beside longer ones"
        raise unusable(model, what, "a model whose scores do not depend on padding")


# -- adapters ----------------------------------------------------------------------------------------------------------


HEADS = ("score.weight", "classifier.weight", "classifier.out_proj.weight")  # of classifiers; a row for each label
CLASSES = {  # by the adapter's task_type; of others, the bare model
    "SEQ_CLS": transformers.AutoModelForSequenceClassification,
    "CAUSAL_LM": transformers.AutoModelForCausalLM,
}


def _with_adapter(kind: type[Model], model: str) -> Model:
    """The base that an adapter of peft names, with the adapter merged. Nothing that it names is fetched."""
    config = document_of(model, ADAPTER)
    base, task = str(config.get("base_model_name_or_path")), str(config.get("task_type"))
    weights = file_of(model, ADAPTER_WEIGHTS)
    if weights is None:
        raise unusable(model, f"holds {ADAPTER}, and no {ADAPTER_WEIGHTS}", "load it with peft, and save_pretrained")
    if cached_file_of(base, "config.json") is None:
        wrong = f"is an adapter, and its base '{base[:200]}' is neither a folder nor in the cache"
        raise unusable(model, wrong, f"hf download {base[:80]}, or a folder with the base at its place")
    with safe_open(weights, "pt") as file:
        names = {name.removeprefix("base_model.model."): name for name in file.keys()}  # noqa: SIM118 - no mapping
        labels = [file.get_slice(names[name]).get_shape()[0] for name in names if name.endswith(HEADS)]
    options: dict[str, Any] = {"num_labels": labels[0]} if task == "SEQ_CLS" and labels else {}
    with TemporaryDirectory() as folder, hub_out_of_reach(), torch.random.fork_rng(devices=[]):
        auto: Any = CLASSES.get(task, transformers.AutoModel)
        whole, found = auto.from_pretrained(base, output_loading_info=True, **OPTIONS, **options)
        if lacking := {name for name in found["missing_keys"] if "pooler" not in name}.difference(names):
            raise _incomplete(base, whole, lacking)
        peft.PeftModel.from_pretrained(whole, model).merge_and_unload().save_pretrained(folder)  # pyright: ignore[reportCallIssue]
        tokenizer = model if file_of(model, "tokenizer.json") is not None else base
        transformers.AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
        return _made(kind, folder, True)


def merge(first: nn.Module) -> None:
    """Makes a Transformer module's model, with adapters of peft beside its weights, a plain one with both added."""
    whole: Any = getattr(first, "model", None)
    if whole is None:
        return
    adapted = [(name, layer) for name, layer in whole.named_modules() if isinstance(layer, BaseTunerLayer)]
    if not adapted:
        return
    for name, layer in adapted:
        layer.merge()
        parent, _, last = name.rpartition(".")
        setattr(whole.get_submodule(parent), last, layer.get_base_layer())
    with torch.random.fork_rng(devices=[]):
        plain: Any = type(whole)(whole.config)  # the other one would be saved as adapters
    plain.load_state_dict(whole.state_dict())
    first.model = plain.eval()


# -- what a model is ---------------------------------------------------------------------------------------------------


def first_position(encoder: nn.Module) -> int:
    """The first token's row in the position table: RoBERTa and its kin reserve the rows before it for padding."""
    table = _position_table(encoder)
    return 0 if table is None or table.padding_idx is None else table.padding_idx + 1


def _position_table(encoder: nn.Module) -> nn.Embedding | None:
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    return table if isinstance(table, nn.Embedding) else None


def most_tokens(first: Any) -> int:
    """Most tokens that a Transformer module reads."""
    encoder, limits = first.model.base_model, [ENDLESS]
    limits.append(first.max_seq_length or ENDLESS)
    text = (first.processing_kwargs or {}).get("text", {})
    limits.append(text.get("max_length") or ENDLESS)
    if (table := _position_table(encoder)) is not None:
        limits.append(table.num_embeddings - first_position(encoder))
    else:
        limits.append(getattr(encoder.config, "max_position_embeddings", None) or ENDLESS)
    return int(min(limit for limit in limits if limit > 0))


def tiny_transformer(config: dict[str, Any], tokenizer: str) -> Transformer:
    """A Transformer module of a new BERT, drawn from torch's random state."""
    fields = {key: value for key, value in config.items() if key != "model_type"}
    model = transformers.AutoModel.from_config(transformers.BertConfig(**fields), dtype=torch.float32)
    names = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    fast = transformers.BertTokenizerFast(tokenizer_object=Tokenizer.from_str(tokenizer), **names)  # pyright: ignore[reportAttributeAccessIssue]
    with TemporaryDirectory() as folder, hub_out_of_reach(), torch.random.fork_rng(devices=[]):
        transformers.logging.disable_progress_bar()
        model.save_pretrained(folder)
        fast.save_pretrained(folder)
        first = Transformer(folder, model_kwargs=dict(OPTIONS))
    model.config.name_or_path = ""
    first.model = model
    return first


def score_layer(model: Any) -> nn.Linear:
    """The last linear layer of a model, whose outputs are scores or logits."""
    return [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]


def saved(model: CrossEncoder | SentenceTransformer, max_length: int, folder: Path, plain: bool) -> None:
    """Writes a model as the library does, which then cuts texts at the training's length; the card is ours. `plain`:
    whether special tokens in a text are words."""
    first = model[0]
    if isinstance(first, StaticEmbedding) and max_length < ENDLESS:
        first.tokenizer.enable_truncation(max_length)
    if isinstance(first, Transformer):
        tokenizer: Any = first.tokenizer
        first.max_seq_length = max_length
        if getattr(first.config, "type_vocab_size", 2) == 1:
            tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
            tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
        tokenizer.split_special_tokens = plain or tokenizer.split_special_tokens
        tokenizer.init_kwargs |= {"model_max_length": max_length, "split_special_tokens": plain}  # what is saved
    model.save_pretrained(str(folder), create_model_card=False)
