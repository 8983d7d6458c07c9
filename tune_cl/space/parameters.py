"""The ranges of a search space, as Optuna's distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from trainables.core.errors import ConfigError, Problem, nearest

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
        low, *_, high = (*self.ends, *self.ends)
        if self.kind == "choice":
            return low
        if self.kind == "int":
            return low + (high - low) // 2
        return math.sqrt(low) * math.sqrt(high) if self.kind == "loguniform" else (low + high) / 2

    def allows(self, value: Any) -> bool:
        """Whether the value lies in the range."""
        if not self.is_number:
            return value in self.ends
        low, high = self.ends
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and low <= value <= high and (self.kind != "int" or value == int(value))

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
    """The range that a mapping in a space file describes. Raises ConfigError with every problem of `key`."""
    kinds = [kind for kind in KINDS if kind in tree]
    unknown = [str(name) for name in tree if name not in (*KINDS, "when")]
    problems = [Problem(key, f"unknown kind of range '{name}'", nearest(name, (*KINDS, "when"))) for name in unknown]
    if unknown and (right := in_our_words(tree)):
        problems = [Problem(key, f"{' and '.join(unknown)} make no range here", right)]
    if len(kinds) > 1 or not (kinds or problems):
        problems.append(Problem(key, " and ".join(kinds) + " at once" if kinds else "no range given", SYNTAX))
    when = tree.get("when", {})
    if isinstance(when, Mapping):
        when = condition(when)
        never = [other for other, values in when.items() if not values]
        problems += [Problem(f"{key}.when.{other}", "no values: the key never exists", "[values]") for other in never]
    else:
        problems.append(Problem(f"{key}.when", f"{when!r} is not a condition", "{other.key: value or [values]}"))
    distributions = []
    for kind in kinds:
        try:
            distributions.append(distribution_of(kind, tree[kind]))
        except ValueError as error:
            ends = "[a value, ...]" if kind == "choice" else "[lowest, highest]"
            problems.append(Problem(f"{key}.{kind}", str(error).rstrip("."), f"{{{kind}: {ends}}}"))
    if problems:
        raise ConfigError(problems)
    return Parameter(distributions[0], when)


def condition(when: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, ...]]:
    """A condition from its written form: nested or dotted, with one value or several."""
    flat: dict[str, tuple[Any, ...]] = {}
    for name, value in when.items():
        if isinstance(value, Mapping) and value:
            flat |= condition(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = tuple(value) if isinstance(value, Mapping | list) else (value,)
    return flat


def distribution_of(kind: str, values: Any) -> BaseDistribution:
    """Raises ValueError, partly Optuna's own, for values that make no range."""
    if kind == "choice":
        if not isinstance(values, list) or not values:
            raise ValueError("no values to choose from")
        return choice(*values).distribution
    pair = [number_of(value) for value in values] if isinstance(values, list) else []
    if len(pair) != 2:
        raise ValueError(f"{values!r} is not a pair of numbers")
    if kind != "int":
        return FloatDistribution(*pair, log=kind == "loguniform")
    low, high = map(int, pair)
    if [low, high] != pair:
        raise ValueError(f"{values!r} are not whole numbers; {{uniform: [a, b]}} draws fractions")
    return IntDistribution(low, high)


def number_of(value: Any) -> float:
    """A finite number, also one in quotation marks. Raises ValueError for anything else."""
    try:
        number = math.nan if isinstance(value, bool | None) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return value if isinstance(value, int) else number


def in_our_words(tree: Mapping[str, Any]) -> str:
    """A range as W&B, Optuna, NNI, Ray Tune or hyperopt write it, in our form; empty for any other mapping."""
    log = "log" in str(tree.get("distribution", tree.get("_type", ""))) or tree.get("log") is True
    for low, high in (("min", "max"), ("low", "high"), ("lower", "upper")):
        if low in tree and high in tree:
            ends = [tree[low], tree[high]]
            whole = all(isinstance(end, int) for end in ends) and not log
            return f"{{{'loguniform' if log else 'int' if whole else 'uniform'}: {ends}}}"
    if "_type" in tree and "_value" in tree:
        kind = {"randint": "int", "quniform": "uniform"}.get(str(tree["_type"]), tree["_type"])
        return f"{{{kind}: {tree['_value']}}}"
    for name in ("values", "grid_search", "grid", "categories", "options", "choices"):
        if name in tree:
            return f"{{choice: {tree[name]}}}"
    return str(tree["value"]) if "value" in tree else ""


def range_in_yaml(value: Any) -> Any:
    """A range of Optuna's or of ray.tune's as a space file writes it; any other value as it is. Raises ConfigError for
    a range with steps, or with draws of another kind."""
    if isinstance(value, BaseDistribution):
        plain = getattr(value, "step", None) in (None, 1) and not (isinstance(value, IntDistribution) and value.log)
        if plain:
            return Parameter(value).document()
    elif type(value).__module__ == "ray.tune.search.sample":
        match type(value).__name__, str(value.get_sampler()):
            case "Categorical", "Uniform":
                return {"choice": list(value.categories)}
            case "Float", "Uniform" | "LogUniform" as kind:
                return {kind.lower(): [value.lower, value.upper]}
            case "Integer", "Uniform":
                return {"int": [value.lower, value.upper - 1]}
            case _:
                pass
    elif isinstance(value, Mapping) and value.keys() == {"grid_search"}:  # as ray.tune.grid_search gives
        return {"choice": value["grid_search"]}
    else:
        return value
    raise ConfigError(Problem("space", f"{value!r} is no range here", SYNTAX))
