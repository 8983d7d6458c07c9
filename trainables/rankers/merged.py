"""LoRA adapters of peft as models to start from: merged into their base once, as a folder of transformers in the cache.

An adapter, in a folder or on the hub, names its base. Nothing that a folder or repository names is fetched, so the base
is a folder, or a hub name that is in the cache already. Of the adapter's configuration only plain numbers and names are
read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trainables.core.cache import cached, digest_of
from trainables.core.files import read_text
from trainables.core.hub import hub_out_of_reach
from trainables.rankers.encoders import files_identity, pretrained_encoder
from trainables.rankers.hub import ADAPTER, cached_file_of, file_of, unusable

WEIGHTS = "adapter_model.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
RIGHT = "a LoRA adapter as peft saves it, beside a base that is here"
READ = (
    "r", "lora_alpha", "target_modules", "exclude_modules", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora",
    "fan_in_fan_out", "bias", "modules_to_save", "layers_to_transform", "layers_pattern", "task_type",
)  # fmt: skip
CLASSES = {  # by the adapter's task_type; of others, the bare model
    "SEQ_CLS": transformers.AutoModelForSequenceClassification,
    "CAUSAL_LM": transformers.AutoModelForCausalLM,
    "SEQ_2_SEQ_LM": transformers.AutoModelForSeq2SeqLM,
}
HEADS = ("score.weight", "classifier.weight", "classifier.out_proj.weight")  # of classifiers; a row for each label


def merged_folder(model: str) -> str:
    """The folder of an adapter, by its folder or hub name, merged into its base, with the adapter's tokenizer if it has
    one. Raises ConfigError for an adapter of another kind, or whose base is not here."""
    adapter, weights = (_file(model, name) for name in (ADAPTER, WEIGHTS))
    try:
        config = json.loads(read_text(adapter))
        base, kind = str(config["base_model_name_or_path"]), config.get("peft_type")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unusable(model, f"has a {ADAPTER} that cannot be read ({str(error)[:200]})", RIGHT) from None
    if kind != "LORA":
        raise unusable(model, f"is an adapter of kind {str(kind)[:40]}", RIGHT)
    if cached_file_of(base, "config.json") is None:
        wrong = f"is an adapter, and its base '{base[:200]}' is neither a folder nor in the cache"
        raise unusable(model, wrong, f"hf download {base[:80]}, or a folder with the base at its place")
    of_base = files_identity(Path(base)) or str(cached_file_of(base, "config.json"))
    # On the hub, a file's path within the cache names its commit.
    of_adapter = files_identity(Path(model)) or [str(adapter), str(weights)]
    key = digest_of("merged into a whole base", of_adapter, of_base, peft.__version__)
    return str(cached("merged", key, lambda place: _merge(model, weights, base, config, place)))


def _file(model: str, name: str) -> Path:
    if (file := file_of(model, name)) is None:
        raise unusable(model, f"holds {ADAPTER}, and no {WEIGHTS}", RIGHT)
    return file


def _merge(model: str, weights: Path, base: str, config: dict[str, Any], place: Path) -> None:
    try:
        tensors = load_file(weights)
        settings = peft.LoraConfig(**{key: config[key] for key in READ if config.get(key) is not None})
        with hub_out_of_reach():
            whole = _base(base, str(config.get("task_type")), tensors)
            adapted = peft.get_peft_model(whole, settings)
            found = peft.set_peft_model_state_dict(adapted, tensors)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise unusable(model, f"cannot be put on '{base}' ({' '.join(str(error).split())[:200]})", RIGHT) from error
    absent = [name for name in found.missing_keys if "lora_" in name or "modules_to_save" in name]
    if found.unexpected_keys or absent:
        first = [*found.unexpected_keys, *absent][0]
        raise unusable(model, f"does not fit its base '{base}': {first}", RIGHT)
    adapted.merge_and_unload().save_pretrained(place)  # pyright: ignore[reportCallIssue]
    files = [file_of(model, name) for name in TOKENIZER]  # from the hub, all are in one folder of its cache now
    tokenizer = base if files[0] is None else str(files[0].parent)
    with hub_out_of_reach():
        transformers.AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False).save_pretrained(place)


def _base(base: str, task: str, tensors: dict[str, Tensor]) -> Any:
    kind = CLASSES.get(task, transformers.AutoModel)
    labels = [len(tensor) for name, tensor in tensors.items() if name.endswith(HEADS)]
    options = {"num_labels": labels[0]} if task == "SEQ_CLS" and labels else {}
    brought = [name.removeprefix("base_model.model.") for name in tensors]
    with torch.random.fork_rng(devices=[]):  # a head that the adapter replaces is drawn first
        return pretrained_encoder(base, kind, brought, **options)
