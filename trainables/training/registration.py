"""The decorator for rankers of one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from trainables.config.rules import Rule
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
    rules: Sequence[Rule] = (),
    staged: bool = False,
    on_cpu: bool = False,
) -> Callable[[Part], Part]:
    """Registers a subclass of Ranker, whose `ranker.*` keys are the fields of `settings`, or of FeatureTraining, which
    `reads` features. A text side that the settings leave unnamed is the ranker's own. `rules`, `staged`, `on_cpu`: as
    in RankerKind.

    Built-in rankers stand in RANKERS by the names of their classes, which import PyTorch.
    """

    def value(part: Any) -> RankerKind:
        if not _is_subclass(settings, RankerSettings):
            raise ValueError(f"settings={settings!r} is not a class of settings; a subclass of RankerSettings")
        if (default := settings.model_fields["name"].default) != name:
            raise ValueError(f'the settings are those of {default!r}; the field name: str = "{name}"')
        if reads not in (bases := _bases()):
            raise ValueError(f"reads={reads!r}; {' or '.join(bases)}")
        what, base = bases[reads]
        if not _is_subclass(part, base):
            raise ValueError(f"{part!r} is not a {what}; a subclass of {base.__name__}")
        if missing := sorted(part.__abstractmethods__):
            raise ValueError(f"'{part.__name__}' does not define {', '.join(missing)}; the methods of {base.__name__}")
        if reads == "features":
            return RankerKind(settings, None, part, tuple(rules), staged, on_cpu)
        settings.text_side = settings.text_side or name
        return RankerKind(settings, part, None, tuple(rules), staged, on_cpu)

    return RANKERS.decorator(name, summary, source, value)


def _is_subclass(part: Any, base: type) -> bool:
    return inspect.isclass(part) and issubclass(part, base)


def _bases() -> dict[str, tuple[str, Any]]:
    """What a part is a subclass of, and what that is, by what it reads."""
    from trainables.rankers.ranker import Ranker  # here, and below: they import PyTorch
    from trainables.training.features import FeatureTraining

    return {"texts": ("ranker", Ranker), "features": ("training over features", FeatureTraining)}
