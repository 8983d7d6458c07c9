"""Whether the hub of Hugging Face answers, asked before anything is loaded from it."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from threading import Thread

import requests
from huggingface_hub import constants

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.settings import ENCODERS, TINY, RankerSettings

PATIENCE = 4.0  # seconds for an answer; huggingface_hub itself tries six times, with pauses, for half a minute
REMEMBERED = 60  # seconds


def hub_answers() -> bool:
    """Whether the hub (HF_ENDPOINT, through the proxy if there is one) answers within PATIENCE; asked once a minute.
    False in offline mode (HF_HUB_OFFLINE)."""
    return not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT, int(time.monotonic() // REMEMBERED))


def endpoint() -> str:
    """The hub's address."""
    return constants.ENDPOINT


def out_of_reach() -> str:
    """Why no model can be fetched, where the hub does not answer."""
    return "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"the hub ({constants.ENDPOINT}) does not answer"


def missing(model: str, right: str = ENCODERS) -> ConfigError:
    """The error of a model that is nowhere to be had. `right`: what would be, as `models` of a ranker's settings."""
    return unusable(model, f"is no folder and not in the cache, and {out_of_reach()}", right)


def unusable(model: str, wrong: str, right: str = ENCODERS) -> ConfigError:
    return ConfigError(Problem("ranker.model", f"'{model}' {wrong}", right))


def cached_file_of(model: str, name: str) -> Path | None:
    """A file of a model's folder, or of a hub name's in the cache; None if there is none."""
    if Path(model).is_dir():
        return path if (path := Path(model, name)).is_file() else None
    from huggingface_hub import try_to_load_from_cache  # here: few need it

    path = try_to_load_from_cache(model, name) if _is_name(model) else None
    return Path(path) if isinstance(path, str) else None


def _is_name(model: str) -> bool:
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
    if model == TINY or model.startswith(("/", ".", "~")) or Path(model).exists() or not _is_name(model):
        return
    if cached_file_of(model, "config.json") is None and not hub_answers():
        raise missing(model, settings.models)


@lru_cache(maxsize=1)
def _answers(endpoint: str, minute: int) -> bool:
    """In a thread, because looking up a name has no time limit."""
    answers: list[int] = []
    asking = Thread(target=_ask, args=(endpoint, answers), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return bool(answers)


def _ask(endpoint: str, answers: list[int]) -> None:
    """Adds the answer's status, whatever it is; nothing if there is no connection."""
    try:
        answers.append(requests.head(endpoint, timeout=PATIENCE).status_code)
    except requests.exceptions.SSLError:  # it answers; whether huggingface_hub trusts it is for that to say
        answers.append(0)
    except (requests.RequestException, OSError):
        return
