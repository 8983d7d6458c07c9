"""Whether the hub of Hugging Face answers, asked before anything is loaded from it."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from threading import Thread

import requests
from huggingface_hub import constants

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.settings import TINY

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


def missing(model: str) -> ConfigError:
    """The error of a model that is nowhere to be had."""
    return unusable(model, f"is no folder and not in the cache, and {out_of_reach()}")


def unusable(model: str, wrong: str) -> ConfigError:
    right = f"{TINY}, the folder of an encoder (config.json, tokenizer.json, model.safetensors) or its hub name"
    return ConfigError(Problem("ranker.model", f"'{model}' {wrong}", right))


def require_model(model: str | None) -> None:
    """Raises ConfigError for a hub name that can neither be read from the cache nor fetched. It imports no PyTorch, so
    that this is known at once; None and what is meant as a path pass."""
    if model in (None, TINY) or model.startswith(("/", ".", "~")) or Path(model).exists():
        return
    from huggingface_hub import try_to_load_from_cache  # here: few need it

    try:
        cached = isinstance(try_to_load_from_cache(model, "config.json"), str)
    except ValueError:  # no name that a hub could have; loading it says what is wrong
        return
    if not cached and not hub_answers():
        raise missing(model)


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
