"""Models by their names on the hub of Hugging Face: what the cache has of them, errors for those out of reach, and
uploads."""

from __future__ import annotations

from pathlib import Path

from trainables.core.errors import ConfigError, Problem
from trainables.core.hub import hub_answers, out_of_reach
from trainables.rankers.settings import ENCODERS, TINY, RankerSettings

ADAPTER = "adapter_config.json"  # of peft: in a folder or repository that holds no whole model
FIRST = ("config.json", "modules.json", ADAPTER)  # of which every model's folder has at least one


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
