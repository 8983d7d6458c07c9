"""The ranges of a search space: the values that an opened leaf of the configuration may take."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from trainables.config.keys import flatten
from trainables.core.errors import ConfigError, Problem, gathering, nearest

if TYPE_CHECKING:
    from optuna.trial import BaseTrial


Condition = Mapping[str, tuple[Any, ...]]
PRIOR_SHARE = 0.5  # of a leaf's draws follow its prior
PRIOR_WIDTH = 1 / 6  # standard deviation of a prior, as a share of the range (for loguniform: of its logarithms)
PARTS = 4  # of a range, each of which is tried before any is again
MOST_STEPS = 10_000  # of a range with `step`, whose values are all in memory


@dataclass(frozen=True, kw_only=True)
class Leaf(ABC):
    """A range of values. `when`: other key -> its values under which this parameter exists; all must hold."""

    kind: ClassVar[str]
    draws_fractions: ClassVar[bool] = False
    """Whether it may draw fractions, so that it does not suit a key of whole numbers."""
    when: Condition = field(default_factory=dict)

    @classmethod
    @abstractmethod
    def parse(cls, location: str, arguments: Any) -> Leaf:
        """The leaf from what follows its kind in YAML; raises ConfigError naming the location."""

    def with_step(self, location: str, step: Any) -> Leaf:
        """The leaf with the given `step:`; raises ConfigError naming the location."""
        right = "{uniform: [a, b], step: s} or {int: [a, b], step: s}"
        raise ConfigError(Problem(location, f"a {self.kind} has no steps", right))

    @property
    @abstractmethod
    def has_prior(self) -> bool:
        """Whether a `prior:` makes some values more likely than others."""

    @abstractmethod
    def with_prior(self, location: str, prior: Any) -> Leaf:
        """The leaf with the given `prior:`; raises ConfigError naming the location."""

    @abstractmethod
    def prior_in_yaml(self) -> Any:
        """What follows `prior:` in YAML."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Any:
        """A random value: uniform (for loguniform: in its logarithm), but half of the draws follow a prior if there is
        one."""

    @property
    @abstractmethod
    def parts(self) -> int:
        """How many parts there are to cover: the options of a choice, a few stretches of a range."""

    @abstractmethod
    def at(self, place: float) -> Any:
        """The value at a place in [0, 1), in order; priors do not count."""

    @abstractmethod
    def suggest(self, trial: BaseTrial, key: str) -> Any:
        """The value that an Optuna trial suggests."""

    @abstractmethod
    def middle(self) -> Any:
        """A value for runs that do not search this key: the prior's most likely one, else the first choice or the
        middle of the range."""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Whether the value lies in the range."""

    @abstractmethod
    def samples(self) -> Sequence[Any]:
        """Values that are all within the key's bounds if and only if the whole range is."""

    @abstractmethod
    def arguments(self) -> list[Any]:
        """What follows the kind in YAML."""

    def values(self) -> Sequence[Any] | None:
        """All values in order, or None for a continuous range."""
        return None

    def document(self) -> dict[str, Any]:
        """The leaf as a search-space file writes it."""
        when = {key: list(values) for key, values in self.when.items()}
        prior = {"prior": self.prior_in_yaml()} if self.has_prior else {}
        return {self.kind: self.arguments()} | prior | ({"when": when} if when else {})


@dataclass(frozen=True, kw_only=True)
class Range(Leaf):
    """Numbers from `low` to `high`, both included. `step`: the values are low, low + step, ..., high; None: all numbers
    between. A prior is a normal distribution about its value, on the scale of the range and cut at its ends, with a
    standard deviation of PRIOR_WIDTH of the range; with steps, its draws are rounded to the nearest value."""

    low: float
    high: float
    step: float | None = None
    prior: float | None = None

    @property
    def has_prior(self) -> bool:
        return self.prior is not None

    def with_prior(self, location: str, prior: Any) -> Leaf:
        if not self.allows(prior):
            right = f"a value in [{self.low}, {self.high}]"
            raise ConfigError(Problem(location, f"{prior!r} is not in the range", right))
        return replace(self, prior=prior)

    def prior_in_yaml(self) -> Any:
        return self.prior

    def near_prior(self, rng: np.random.Generator, low: float, high: float, prior: float) -> float | None:
        """In half of the draws a value about the prior, from `low` to `high`; else None."""
        if self.prior is None or rng.random() >= PRIOR_SHARE:
            return None
        width = PRIOR_WIDTH * (high - low)
        quantile = rng.uniform(ndtr((low - prior) / width), ndtr((high - prior) / width))
        return min(max(prior + width * float(ndtri(quantile)), low), high)

    @classmethod
    def parse(cls, location: str, arguments: Any) -> Leaf:
        if not isinstance(arguments, list) or len(arguments) != 2 or not all(map(_finite, arguments)):
            wrong, right = f"{arguments!r} is not a pair of numbers", f"{{{cls.kind}: [lowest, highest]}}"
            raise ConfigError(Problem(location, wrong, right))
        low, high = arguments
        if low >= high:
            right = "[lowest, highest]; a single value needs no range"
            raise ConfigError(Problem(location, f"{low} is not below {high}", right))
        return cls(low=low, high=high)

    @property
    def parts(self) -> int:
        values = self.values()
        return PARTS if values is None else min(PARTS, len(values))

    def at(self, place: float) -> Any:
        values = self.values()
        return self.low + place * (self.high - self.low) if values is None else values[int(place * len(values))]

    def draw_step(self, rng: np.random.Generator, values: Sequence[Any]) -> Any:
        """One of the values, which are a step apart."""
        index = 0.0 if self.prior is None else values.index(self.prior)
        near = self.near_prior(rng, -0.49, len(values) - 0.51, index)
        return values[int(rng.integers(len(values))) if near is None else round(near)]

    def middle(self) -> Any:
        if self.prior is not None:
            return self.prior
        values = self.values()
        return (self.low + self.high) / 2 if values is None else values[(len(values) - 1) // 2]

    def allows(self, value: Any) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        values = self.values()
        return values is None or value in values

    def samples(self) -> Sequence[Any]:
        return self.low, self.high

    def arguments(self) -> list[Any]:
        return [self.low, self.high]

    def document(self) -> dict[str, Any]:
        steps = {} if self.step is None else {"step": self.step}
        return super().document() | steps


@dataclass(frozen=True, kw_only=True)
class Uniform(Range):
    kind = "uniform"
    draws_fractions = True

    def with_step(self, location: str, step: Any) -> Leaf:
        return replace(self, step=validate_step(location, step, self.low, self.high))

    @cached_property
    def stepped(self) -> list[float]:
        """The values of a range with steps as one would write them: .3, not the floating-point sum of .2 and .1."""
        low, step = Decimal(repr(self.low)), Decimal(repr(self.step))
        return [float(low + number * step) for number in range(int((Decimal(repr(self.high)) - low) / step) + 1)]

    def draw(self, rng: np.random.Generator) -> float:
        if self.step is not None:
            return self.draw_step(rng, self.stepped)
        near = self.near_prior(rng, self.low, self.high, self.prior or 0)
        return float(rng.uniform(self.low, self.high)) if near is None else near

    def suggest(self, trial: BaseTrial, key: str) -> float:
        value = trial.suggest_float(key, self.low, self.high, step=self.step)
        return value if self.step is None else self.stepped[round((value - self.low) / self.step)]

    def values(self) -> Sequence[float] | None:
        return None if self.step is None else self.stepped


@dataclass(frozen=True, kw_only=True)
class LogUniform(Range):
    kind = "loguniform"
    draws_fractions = True

    @classmethod
    def parse(cls, location: str, arguments: Any) -> Leaf:
        leaf = super().parse(location, arguments)
        if arguments[0] <= 0:
            raise ConfigError(Problem(location, f"{arguments[0]} has no logarithm", "a lowest value above 0"))
        return leaf

    def draw(self, rng: np.random.Generator) -> float:
        low, high = math.log(self.low), math.log(self.high)
        near = self.near_prior(rng, low, high, math.log(self.prior or 1))
        return min(max(math.exp(rng.uniform(low, high) if near is None else near), self.low), self.high)

    def at(self, place: float) -> float:
        return min(max(self.low * (self.high / self.low) ** place, self.low), self.high)

    def suggest(self, trial: BaseTrial, key: str) -> float:
        return trial.suggest_float(key, self.low, self.high, log=True)

    def middle(self) -> float:
        return math.sqrt(self.low) * math.sqrt(self.high) if self.prior is None else self.prior


@dataclass(frozen=True, kw_only=True)
class Integer(Range):
    kind = "int"
    low: int
    high: int
    step: int | None = None

    @classmethod
    def parse(cls, location: str, arguments: Any) -> Leaf:
        super().parse(location, arguments)
        if any(bound != int(bound) for bound in arguments):
            right = "whole numbers, or {uniform: [a, b]}"
            raise ConfigError(Problem(location, f"{arguments!r} are not whole numbers", right))
        return cls(low=int(arguments[0]), high=int(arguments[1]))

    def with_step(self, location: str, step: Any) -> Leaf:
        if isinstance(step, float) and not step.is_integer():  # true of inf and NaN too
            raise ConfigError(
                Problem(location, f"{step} is not a whole number", "a whole number, or {uniform: [a, b]}")
            )
        return replace(self, step=int(validate_step(location, step, self.low, self.high)))

    def draw(self, rng: np.random.Generator) -> int:
        return self.draw_step(rng, self.values())

    def suggest(self, trial: BaseTrial, key: str) -> int:
        return trial.suggest_int(key, self.low, self.high, step=self.step or 1)

    def middle(self) -> int:
        return int(super().middle())

    def values(self) -> Sequence[int]:
        return range(self.low, self.high + 1, self.step or 1)


@dataclass(frozen=True, kw_only=True)
class Choice(Leaf):
    """One of `options`. A prior is a weight for each, or one option, which gets all the weight."""

    kind = "choice"
    options: tuple[Any, ...]
    weights: tuple[float, ...] = ()

    @property
    def has_prior(self) -> bool:
        return bool(self.weights)

    def with_prior(self, location: str, prior: Any) -> Leaf:
        if not isinstance(prior, list):
            if prior not in self.options:
                right = f"one of {', '.join(map(str, self.options))}, or a weight for each"
                raise ConfigError(Problem(location, f"{prior!r} is not an option", right))
            return replace(self, weights=tuple(float(option == prior) for option in self.options))
        fitting = len(prior) == len(self.options) and all(_finite(weight) and weight >= 0 for weight in prior)
        if not fitting or not sum(prior):
            right = f"{len(self.options)} weights, none below 0, not all 0; or one option"
            raise ConfigError(Problem(location, f"{prior!r} are not weights of the options", right))
        return replace(self, weights=tuple(float(weight) for weight in prior))

    def prior_in_yaml(self) -> Any:
        likely = [option for option, weight in zip(self.options, self.weights, strict=True) if weight]
        if len(likely) == sum(self.weights) == 1 and not isinstance(likely[0], tuple):  # a list would read as weights
            return likely[0]
        return [int(weight) if weight.is_integer() else weight for weight in self.weights]

    @classmethod
    def parse(cls, location: str, arguments: Any) -> Leaf:
        if not isinstance(arguments, list) or not arguments:
            raise ConfigError(Problem(location, "no values to choose from", f"{{{cls.kind}: [a value, ...]}}"))
        return cls(options=tuple(arguments))

    def draw(self, rng: np.random.Generator) -> Any:
        if not self.weights or rng.random() >= PRIOR_SHARE:
            return self.options[int(rng.integers(len(self.options)))]
        likely = np.array(self.weights) / sum(self.weights)
        return self.options[int(rng.choice(len(self.options), p=likely))]

    @property
    def parts(self) -> int:
        return len(self.options)

    def at(self, place: float) -> Any:
        return self.options[int(place * len(self.options))]

    def suggest(self, trial: BaseTrial, key: str) -> Any:
        return trial.suggest_categorical(key, self.options)

    def middle(self) -> Any:
        return self.options[int(np.argmax(self.weights))] if self.weights else self.options[0]

    def allows(self, value: Any) -> bool:
        return value in self.options

    def samples(self) -> Sequence[Any]:
        return self.options

    def arguments(self) -> list[Any]:
        return list(self.options)

    def values(self) -> Sequence[Any]:
        return self.options


@dataclass(frozen=True, kw_only=True)
class Grid(Choice):
    """A choice meant for the grid searcher; other searchers draw from it."""

    kind = "grid"


KINDS: dict[str, type[Leaf]] = {leaf.kind: leaf for leaf in (Uniform, LogUniform, Integer, Choice, Grid)}
BESIDE = ("when", "prior", "step")  # what may stand beside the kind
SYNTAX = "one of {uniform: [a, b]}, {loguniform: [a, b]}, {int: [a, b]}, {choice: [...]}, {grid: [...]}"


def parse_leaf(key: str, tree: Mapping[str, Any]) -> Leaf:
    """The leaf that a mapping in a search-space file describes; raises ConfigError with every problem of `key`."""
    kinds = [kind for kind in tree if kind in KINDS]
    problems = [
        Problem(key, f"unknown kind of range '{name}'", nearest(str(name), [*KINDS, *BESIDE]))
        for name in tree
        if name not in KINDS and name not in BESIDE
    ]
    if len(kinds) > 1 or not (kinds or problems):
        problems.append(Problem(key, f"{' and '.join(kinds)} at once" if kinds else "no range given", SYNTAX))
    leaf: Leaf | None = None
    for kind in kinds:
        with gathering(problems):
            leaf = KINDS[kind].parse(f"{key}.{kind}", tree[kind])
    when = tree.get("when", {})
    if not isinstance(when, Mapping):
        right = "{other.key: value} or {other.key: [values]}"
        problems.append(Problem(f"{key}.when", f"{when!r} is not a condition", right))
    else:
        problems += without_values(f"{key}.when", when)
    if problems or leaf is None:
        raise ConfigError(problems)
    leaf = replace(leaf, when=condition(when))
    leaf = leaf.with_step(f"{key}.step", tree["step"]) if "step" in tree else leaf
    return leaf.with_prior(f"{key}.prior", tree["prior"]) if "prior" in tree else leaf


def validate_step(location: str, step: Any, low: float, high: float) -> float:
    """A range's step; raises ConfigError if it is none, makes too many values, or does not reach `high`: one would
    expect the end to be tried."""
    if not _finite(step) or step <= 0:
        raise ConfigError(Problem(location, f"{step!r} is not a step", "a number above 0"))
    span, size = Decimal(repr(high)) - Decimal(repr(low)), Decimal(repr(step))
    if span > MOST_STEPS * size:  # before the division, whose whole part may have more digits than Decimal holds
        wrong = f"makes more than {MOST_STEPS + 1:,} values"
        raise ConfigError(Problem(location, wrong, f"at most {MOST_STEPS:,} steps, or none"))
    number, rest = divmod(span, size)
    if rest:
        last = Decimal(repr(low)) + number * Decimal(repr(step))
        reached = f"a step that divides {high} - {low}, or the range [{low}, {last}]" if number else "a smaller one"
        raise ConfigError(Problem(location, f"steps of {step} from {low} do not reach {high}", reached))
    return step


def without_values(location: str, when: Mapping[str, Any]) -> Iterator[Problem]:
    """A condition's keys without values, with which the parameter would never exist."""
    for key, value in when.items():
        if isinstance(value, Mapping) and value:
            yield from without_values(f"{location}.{key}", value)
        elif isinstance(value, Mapping | list) and not value:
            yield Problem(f"{location}.{key}", "no values, so the parameter never exists", "a value, or [values]")


def condition(when: Mapping[str, Any]) -> Condition:
    """A condition from its written form: nested or dotted, with one value or several."""
    return {key: tuple(value) if isinstance(value, list) else (value,) for key, value in flatten(when).items()}


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
