"""Whether the hub of Hugging Face answers, asked before anything is loaded from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from huggingface_hub import constants

PATIENCE = 4.0  # seconds for an answer; huggingface_hub itself tries six times, with pauses, for half a minute
REMEMBERED = 60  # seconds


def hub_answers() -> bool:
    """Whether the hub (HF_ENDPOINT, through the proxy if there is one) answers within PATIENCE; asked once a minute.
    False in offline mode (HF_HUB_OFFLINE)."""
    return not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT, int(time.monotonic() // REMEMBERED))


def out_of_reach() -> str:
    """Why no model can be fetched, where the hub does not answer."""
    return "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"the hub ({constants.ENDPOINT}) does not answer"


@contextmanager
def hub_out_of_reach() -> Iterator[None]:
    """No file is fetched in the block: where the hub does not answer, libraries would ask it again and again, and
    configurations can name repositories, which transformers would ask it for."""
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@lru_cache(maxsize=1)
def _answers(endpoint: str, minute: int) -> bool:
    return _asked(endpoint)


def _asked(endpoint: str) -> bool:
    import requests  # here: most commands need no hub

    try:
        requests.head(endpoint, timeout=PATIENCE)
    except requests.exceptions.SSLError:  # it answers; whether huggingface_hub trusts it is for that to say
        return True
    except requests.RequestException:
        return False
    return True
