"""The decorator for rankers of one's own; built-in ones stand in RANKERS, which imports no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainables.core.registry import Part
from trainables.rankers import RANKERS, RankerKind, Reads
from trainables.rankers.settings import RankerSettings


def ranker(
    name: str,
    summary: str = "",
    source: str = "",
    *,
    settings: type[RankerSettings],
    reads: Reads = "texts",
    staged: bool = False,
    on_cpu: bool = False,
) -> Callable[[Part], Part]:
    """Registers a ranker of one's own: a subclass of Ranker or, if it `reads` features, of FeatureTraining. Its
    `ranker.*` keys are the fields of `settings`; `staged`, `on_cpu`: as in RankerKind."""

    def value(part: Any) -> RankerKind:
        if (default := settings.model_fields["name"].default) != name:
            raise ValueError(f'the settings are those of {default!r}; the field name: str = "{name}"')
        if missing := sorted(getattr(part, "__abstractmethods__", ())):
            raise ValueError(f"'{part.__name__}' does not define {', '.join(missing)}; all methods of a ranker")
        network, training = (part, None) if reads == "texts" else (None, part)
        settings.text_side = settings.text_side or name
        return RankerKind(settings, network, training, staged, on_cpu)

    return RANKERS.decorator(name, summary, source, value)
