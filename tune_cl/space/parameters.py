"""The ranges of a search space, as Optuna's distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from trainables.config.keys import flatten
from trainables.core.errors import ConfigError, Problem

if TYPE_CHECKING:
    import numpy as np
    from optuna.trial import BaseTrial

Condition = Mapping[str, tuple[Any, ...]]
KINDS = ("uniform", "loguniform", "int", "choice")
SYNTAX = "one of {uniform: [a, b]}, {loguniform: [a, b]}, {int: [a, b]}, {choice: [...]}"
PARTS = 4  # of a range of numbers, each of which is tried before any is again


@dataclass(frozen=True)
class Parameter:
    """A key that is searched. `when`: other key -> its values under which this one exists; all must hold."""

    distribution: BaseDistribution
    when: Condition = field(default_factory=dict)

    @cached_property
    def kind(self) -> str:
        """The name of the range in YAML."""
        if isinstance(self.distribution, FloatDistribution):
            return "loguniform" if self.distribution.log else "uniform"
        return "int" if isinstance(self.distribution, IntDistribution) else "choice"

    @cached_property
    def is_number(self) -> bool:
        """Whether it is a range of numbers rather than a choice."""
        return self.kind != "choice"

    @cached_property
    def ends(self) -> tuple[Any, ...]:
        """Values that suit a key if and only if all do: the options, or the lowest and the highest number."""
        one: Any = self.distribution
        return (one.low, one.high) if self.is_number else tuple(one.choices)

    def values(self) -> Sequence[Any] | None:
        """All values in order; None for a continuous range."""
        if self.kind == "int":
            low, high = self.ends
            return range(low, high + 1)
        return self.ends if self.kind == "choice" else None

    def draw(self, rng: np.random.Generator) -> Any:
        """A random value: uniform, for loguniform in its logarithm."""
        if self.kind == "choice":
            return self.ends[int(rng.integers(len(self.ends)))]
        low, high = self.ends
        if self.kind == "int":
            return low + int(rng.integers(high - low + 1))
        if self.kind == "uniform":
            return float(rng.uniform(low, high))
        logarithm = rng.uniform(math.log(low), math.log(high))
        return min(max(math.exp(logarithm), low), high)

    @cached_property
    def parts(self) -> int:
        """How many parts there are to cover: the options of a choice, a few stretches of a range."""
        values = self.values()
        if self.kind == "choice" and values:
            return len(values)
        return PARTS if values is None else min(PARTS, len(values))

    def at(self, place: float) -> Any:
        """The value at a place in [0, 1), in order."""
        values = self.values()
        if values is not None:
            return values[int(place * len(values))]
        low, high = self.ends
        if self.kind == "uniform":
            return low + place * (high - low)
        return min(max(low * (high / low) ** place, low), high)

    def middle(self) -> Any:
        """A value for trainings that do not search the key: the first option, or the middle of the range."""
        if self.kind == "choice":
            return self.ends[0]
        low, high = self.ends
        if self.kind == "int":
            return (low + high) // 2
        return math.sqrt(low) * math.sqrt(high) if self.kind == "loguniform" else (low + high) / 2

    def allows(self, value: Any) -> bool:
        """Whether the value lies in the range."""
        if not self.is_number:
            return value in self.ends
        low, high = self.ends
        return is_finite(value) and low <= value <= high and (self.kind != "int" or value == int(value))

    def suggest(self, trial: BaseTrial, key: str) -> Any:
        """The value that an Optuna trial suggests."""
        if self.kind == "choice":
            return trial.suggest_categorical(key, self.ends)
        if self.kind == "int":
            return trial.suggest_int(key, *self.ends)
        return trial.suggest_float(key, *self.ends, log=self.kind == "loguniform")

    def document(self) -> dict[str, Any]:
        """The range as a space file writes it."""
        when = {key: list(values) for key, values in self.when.items()}
        return {self.kind: list(self.ends)} | ({"when": when} if when else {})


def choice(*options: Any, when: Condition | None = None) -> Parameter:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Optuna's of options that are lists, which no database keeps here
        return Parameter(CategoricalDistribution(options), when or {})


def parameter_of(key: str, tree: Mapping[str, Any]) -> Parameter:
    """The range that a mapping in a space file describes. Raises ConfigError for what makes no range."""
    kind = next((name for name in KINDS if name in tree), None)
    if kind is None or tree.keys() - {kind, "when"}:
        raise ConfigError(Problem(key, f"{dict(tree)} is no range", SYNTAX))
    when = tree.get("when", {})
    if not isinstance(when, Mapping):
        raise ConfigError(Problem(f"{key}.when", f"{when!r} is not a condition", "{other.key: value or [values]}"))
    condition = {other: tuple(one) if isinstance(one, list) else (one,) for other, one in flatten(when).items()}
    try:
        return Parameter(distribution_of(kind, tree[kind]), condition)
    except ValueError as error:
        ends = "[a value, ...]" if kind == "choice" else "[lowest, highest]"
        raise ConfigError(Problem(f"{key}.{kind}", str(error).rstrip("."), f"{{{kind}: {ends}}}")) from None


def distribution_of(kind: str, values: Any) -> BaseDistribution:
    """Raises ValueError, partly Optuna's own, for values that make no range."""
    if kind == "choice":
        if not isinstance(values, list) or not values:
            raise ValueError("no values to choose from")
        return choice(*values).distribution
    if not isinstance(values, list) or len(values) != 2:
        raise ValueError(f"{values!r} is not a pair of numbers")
    numbers = [float(value) if isinstance(value, str) else value for value in values]  # some are in quotation marks
    if not all(map(is_finite, numbers)):
        raise ValueError(f"{values!r} is not a pair of numbers")
    low, high = numbers
    if kind != "int":
        return FloatDistribution(low, high, log=kind == "loguniform")
    if [int(low), int(high)] != numbers:
        raise ValueError(f"{values!r} are not whole numbers; {{uniform: [a, b]}} draws fractions")
    return IntDistribution(int(low), int(high))


def is_finite(value: Any) -> bool:
    """Whether the value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
