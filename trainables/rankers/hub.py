"""Models by their names on the hub of Hugging Face: what the cache has of them, errors for those out of reach, and
uploads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.core.hub import hub_answers, out_of_reach
from trainables.rankers.settings import ENCODERS, TINY, BiEncoderSettings, RankerSettings

ADAPTER = "adapter_config.json"  # of peft: in a folder or repository that holds no whole model
MODULES = "modules.json"
FIRST = ("config.json", MODULES, ADAPTER)  # of which every model's folder has at least one
SETTINGS = "config_sentence_transformers.json"
READ = (".safetensors", ".json", ".txt", ".model", ".jinja")  # files of weights, tokenizers and configurations


def missing(model: str, right: str = ENCODERS) -> ConfigError:
    """The error of a model that is nowhere to be had. `right`: what would be, as `models` of a ranker's settings."""
    return unusable(model, f"is not a folder and not in the cache, and {out_of_reach()}", right)


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


def encoder_version(model: str) -> str | None:
    """What now goes by a model's name: the digest of the files that are read of a folder, or "commit HASH" of a hub
    name in the cache. None where it is not there, and of `tiny`, which the data decides."""
    if model == TINY:
        return None
    if (folder := Path(model)).is_dir():
        paths = sorted(path for path in folder.rglob("*") if path.suffix in READ)
        return digest_of({str(path.relative_to(folder)): path for path in paths})
    found = [file for name in FIRST if (file := cached_file_of(model, name)) is not None]
    return f"commit {found[0].parent.name}" if found else None  # the cache has a folder for each commit


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
        raise missing(model, settings.models)


def upload(folder: Path, name: str, private: bool, message: str) -> str:
    """Puts the files of a folder into a model repository of the hub (HF_ENDPOINT), which is made if there is none, as
    one commit. Returns the repository's address. Raises ConfigError for a name that none can have, a hub that does not
    answer, or one that refuses."""
    place = "push_to_hub"
    if not is_name(name):
        raise ConfigError(Problem(place, f"'{name}' is not a name of the hub", "NAME or ORGANISATION/NAME"))
    if not hub_answers():
        raise ConfigError(Problem(place, f"nothing is uploaded: {out_of_reach()}", "try again when it can be reached"))
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        repository = api.create_repo(name, private=private or None, exist_ok=True)
        api.upload_folder(repo_id=repository.repo_id, folder_path=folder, commit_message=message)
    except (HfHubHTTPError, ValueError) as error:
        why = " ".join(str(error).split())[:300]
        right = "hf auth login with a token that may write there (HF_TOKEN)"
        raise ConfigError(Problem(place, f"the hub refuses '{name}' ({why})", right)) from error
    return str(repository)
