"""What a value of an event may be. A journal may come from a stranger: it is checked where it is read, nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]
DEEPEST, LARGEST = 20, 2**53  # levels of a value; a number of which floats hold every digit


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, float) or _whole(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _mapping(of: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


def _list(of: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _perhaps(of: Check) -> Check:
    return lambda value: value is None or of(value)


def _flat(value: Any) -> bool:
    """A value of a configuration."""
    return not isinstance(value, dict) and _depth(value) <= DEEPEST


def _any(value: Any) -> bool:
    return _depth(value) <= DEEPEST


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0)


def _best(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_any, value.values())) and {"iteration", "dev"} <= value.keys()


def _mean(value: Any) -> bool:
    """What a ranking that needs no labels has."""
    return value is None or (isinstance(value, dict) and _text(value.get("label")) and _number(value.get("mean")))


def _arm(value: Any) -> bool:
    return value in ("plain", "curriculum")


def _data(value: Any) -> bool:
    return isinstance(value, dict) and _text(value.get("name")) and _any(value)


TEXTS, NUMBERS, ANYTHING, POINT = _list(_text), _mapping(_number), _mapping(_any), _mapping(_flat)
NEEDED: Mapping[str, Mapping[str, Check]] = {
    "search": {"name": _text, "space": _text, "data": _data, "ranker": _text, "rankers": TEXTS, "metric": _text}
    | {"seed": _whole, "baseline": _text, "yaml": _text, "storage": _text, "time": _number},
    "session": {"number": _whole},
    "label_free": {"first_stage": _mean, "label_free": _mean},
    "trial": {"trial": _text, "number": _whole, "params": POINT, "seed": _whole, "baseline": _truth},
    "result": {"trial": _text, "iteration": _whole, "metrics": NUMBERS},
    "pause": {"trial": _text, "iteration": _whole},
    "checkpoint": {"trial": _text, "iteration": _whole, "path": _text},
    "machine": {"trial": _text, "text": _text},
    "note": {"trial": _text, "text": _text},
    "end": {"trial": _text, "outcome": _text},
    "confirmation": {"label": _text, "params": POINT, "seed": _whole, "metrics": NUMBERS},
    "training_checkpoint": {"training": _text, "iteration": _whole, "path": _text},
    "look": {"split": _text, "seeds": _whole},
    "tune_plain": {"trials": _whole, "leaves": ANYTHING},
    "artifact": {"path": _text},
    "warm_start": {"sources": _list(ANYTHING), "observations": _list(ANYTHING)},
}
OPTIONAL: Mapping[str, Check] = {
    **{"time": _number, "chosen": POINT, "opened": TEXTS, "tracking_uri": _text},
    **{"versions": _mapping(_perhaps(_text)), "git_commit": _perhaps(_text), "forecast": ANYTHING},
    **{"plugins": _list(ANYTHING), "objective": _perhaps(ANYTHING), "reason": _perhaps(_text), "cost": NUMBERS},
    **{"artifacts": _perhaps(_text), "checkpoint": _perhaps(_text), "best": _perhaps(_best), "seconds": _number},
    **{"ended_by": _perhaps(_text), "max_seeds": _perhaps(_whole), "decision": _text, "trial": _perhaps(_text)},
    **{"folder": _perhaps(_text), "done": _truth, "anew": _truth, "arm": _arm},
    **{"twin": _perhaps(_text), "twins": TEXTS, "led_by": _perhaps(_arm)},
}


def misfit(event: Mapping[str, Any]) -> str | None:
    """What is wrong with an event of a kind that is known, or None."""
    needed = NEEDED.get(event["event"], {})
    for key, check in needed.items():
        if key not in event:
            return f"'{key}' is missing"
        if not check(event[key]):
            return f"'{key}' is {_shown(event[key])}"
    for key, value in event.items():
        if key not in needed and not OPTIONAL.get(key, _any)(value):
            return f"'{key}' is {_shown(value)}"
    return None


def _shown(value: Any) -> str:
    if _depth(value) > DEEPEST:
        return f"nested more than {DEEPEST} levels deep"
    return repr(value)[:60]
