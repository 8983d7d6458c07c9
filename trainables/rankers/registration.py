"""The decorator for rankers of one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from trainables.core.registry import Part
from trainables.rankers import RANKERS, RankerKind
from trainables.rankers.settings import RankerSettings


def ranker(name: str, summary: str = "", source: str = "", *, settings: type[RankerSettings]) -> Callable[[Part], Part]:
    """Registers a subclass of Ranker, whose `ranker.*` keys are the fields of `settings`. A text side that these leave
    unnamed is the ranker's own.

    Built-in rankers stand in RANKERS by the names of their classes, which import PyTorch.
    """

    def value(network: Any) -> RankerKind:
        from trainables.rankers.ranker import Ranker  # here: it imports PyTorch

        if not (inspect.isclass(settings) and issubclass(settings, RankerSettings)):
            raise ValueError(f"settings={settings!r} is not a class of settings; a subclass of RankerSettings")
        if (default := settings.model_fields["name"].default) != name:
            raise ValueError(f'the settings are those of {default!r}; the field name: str = "{name}"')
        if not (inspect.isclass(network) and issubclass(network, Ranker)):
            raise ValueError(f"{network!r} is not a ranker; a subclass of Ranker")
        if missing := sorted(network.__abstractmethods__):
            raise ValueError(f"'{network.__name__}' does not define {', '.join(missing)}; the methods of Ranker")
        settings.text_side = settings.text_side or name
        return RankerKind(settings, network)

    return RANKERS.decorator(name, summary, source, value)
