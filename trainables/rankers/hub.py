"""Models by their names on the hub of Hugging Face: what the cache has of them, and errors for those out of reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError, Problem
from trainables.core.hub import hub_answers, out_of_reach
from trainables.rankers.settings import ENCODERS, TINY, BiEncoderSettings, RankerSettings

ADAPTER = "adapter_config.json"  # of peft: in a folder or repository that holds no whole model
MODULES = "modules.json"
FIRST = ("config.json", MODULES, ADAPTER)  # of which every model's folder has at least one
SETTINGS = "config_sentence_transformers.json"


def missing(model: str) -> ConfigError:
    """The error of a model that is nowhere to be had."""
    return unusable(model, f"is not a folder and not in the cache, and {out_of_reach()}")


def unusable(model: str, wrong: str, right: str = ENCODERS) -> ConfigError:
    return ConfigError(Problem("ranker.model", f"'{model}' {wrong}", right))


def cached_file_of(model: str, name: str) -> Path | None:
    """A file of a model's folder, or of a hub name's in the cache; None if there is none."""
    if Path(model).is_dir():
        return path if (path := Path(model, name)).is_file() else None
    from huggingface_hub import try_to_load_from_cache  # here: few need it

    path = try_to_load_from_cache(model, name) if is_name(model) else None
    return Path(path) if isinstance(path, str) else None


def file_of(model: str, name: str) -> Path | None:
    """As `cached_file_of`, but a hub name's is fetched if the hub answers. None where it cannot be had: what is wrong
    is for whoever loads the weights to say."""
    if Path(model).is_dir() or not is_name(model) or not hub_answers():
        return cached_file_of(model, name)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(hf_hub_download(model, name))
    except (OSError, ValueError, HfHubHTTPError):
        return cached_file_of(model, name)


def document_of(model: str, name: str) -> dict[str, Any]:
    """A JSON file of a model's folder or hub name that holds a mapping; an empty one if there is none."""
    path = None if model == TINY else file_of(model, name)
    try:
        document = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise unusable(model, f"has a {name} that cannot be read ({str(error)[:200]})", "a whole folder") from None
    if not isinstance(document, dict):
        raise unusable(model, f"has a {name} that is not a mapping", "a whole folder")
    return document


def files_identity(folder: Path) -> list[object]:
    """What identifies the files in a folder without reading them; nothing for what is not a folder, as a hub name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    return [[str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def usual_temperature(settings: RankerSettings) -> float:
    """Default of training.temperature with loss softmax; for vectors whose similarity the model's folder decides, its
    own."""
    if isinstance(settings, BiEncoderSettings) and settings.similarity is None:
        similarity = document_of(settings.model, SETTINGS).get("similarity_fn_name")
        return settings.model_copy(update={"similarity": similarity}).temperature
    return settings.temperature


def is_name(model: str) -> bool:
    """Whether the hub could have a model of this name; for others, loading says what is wrong."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(model)
    except HFValidationError:
        return False
    return True


def require_model(settings: RankerSettings) -> None:
    """Raises ConfigError for a hub name that can neither be read from the cache nor fetched. It imports no PyTorch, so
    that this is known at once; a ranker without a model and what is meant as a path pass."""
    model = getattr(settings, "model", TINY)
    if model == TINY or model.startswith(("/", ".", "~")) or Path(model).exists() or not is_name(model):
        return
    if not any(cached_file_of(model, name) for name in FIRST) and not hub_answers():
        raise missing(model)
