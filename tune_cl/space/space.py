"""A search space: ranges of some keys of the configuration, some of which exist only under conditions on others.

    training: {lr: {loguniform: [1e-4, 1e-2]}}
    curriculum: {n: {choice: [2, 5], when: {curriculum.pacing: root}}}

One walk over the conditions (`Space.fill`) serves random draws, what Optuna suggests, membership and JSON; grids branch
along the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from trainables.core.errors import ConfigError, Problem
from tune_cl.space.parameters import Parameter, choice

if TYPE_CHECKING:
    import numpy as np
    from optuna.trial import BaseTrial

Flat = dict[str, Any]  # dotted key -> value
ABSENT = object()


@dataclass(frozen=True)
class Space:
    """Parameters by dotted key, each after those of its condition, and the values of fixed keys that conditions may
    name. A key whose own condition does not hold has no value, so conditions on it do not hold either."""

    parameters: Mapping[str, Parameter]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", in_order(self.parameters))

    def exists(self, key: str, point: Mapping[str, Any]) -> bool:
        """Whether the parameter exists beside the values chosen so far."""
        for other, allowed in self.parameters[key].when.items():
            value = point[other] if other in point else self.fixed.get(other, ABSENT)
            if value not in allowed:
                return False
        return True

    def fill(self, value_of: Callable[[str, Parameter], Any], given: Mapping[str, Any] | None = None) -> Flat:
        """Values of the parameters that exist, each from `value_of` unless `given`. All given keys are kept."""
        given = given or {}
        point: Flat = {key: value for key, value in given.items() if key not in self.parameters}
        for key, parameter in self.parameters.items():
            if key in given:
                point[key] = given[key]
            elif not parameter.when or self.exists(key, point):
                point[key] = value_of(key, parameter)
        return point

    def within(self, values: Mapping[str, Any]) -> Flat | None:
        """The values as a point of the space; None if one that exists there is missing or out of range."""
        point = self.fill(lambda key, _: values.get(key))
        sound = all(key in values and self.parameters[key].allows(value) for key, value in point.items())
        return point if sound else None

    def sample(self, rng: np.random.Generator) -> Flat:
        """A random point."""
        return self.fill(lambda _, parameter: parameter.draw(rng))

    def suggest(self, trial: BaseTrial) -> Flat:
        """A point as an Optuna trial suggests it, define-by-run."""
        return self.fill(lambda key, parameter: parameter.suggest(trial, key))

    def fixing(self, values: Mapping[str, Any]) -> Space:
        """The space in which these keys have these values, wherever they exist."""
        single = {
            key: choice(values[key], when=self.parameters[key].when) for key in self.parameters.keys() & values.keys()
        }
        return Space({**self.parameters, **single}, self.fixed) if single else self

    def only(self, keys: Collection[str]) -> Space:
        """The space in which only these keys vary; all other parameters, and continuous ones, stay at their middle."""
        others = {
            key: parameter.middle()
            for key, parameter in self.parameters.items()
            if key not in keys or parameter.values() is None
        }
        return self.fixing(others)

    @property
    def continuous(self) -> list[str]:
        """Keys that take any number in a range."""
        return [key for key, parameter in self.parameters.items() if parameter.values() is None]

    def require_finite(self) -> None:
        """Raises ConfigError naming continuous parameters."""
        right = "{choice: [...]} or {int: [a, b]}, or search.searcher: random"
        problems = [Problem(key, "a grid has no end on a continuous range", right) for key in self.continuous]
        if problems:
            raise ConfigError(problems)

    def grid(self) -> Iterator[Flat]:
        """Every point once; the last key varies fastest. Raises ConfigError naming continuous parameters."""
        self.require_finite()
        points: Iterator[Flat] = iter([{}])
        for key in self.parameters:
            points = self._branches(points, key)
        return points

    def _branches(self, points: Iterable[Flat], key: str) -> Iterator[Flat]:
        """Each point with every value of the key, or as it is where the key does not exist."""
        values = self.parameters[key].values() or ()
        for point in points:
            if self.exists(key, point):
                yield from ({**point, key: value} for value in values)
            else:
                yield point

    def combinations(self) -> int | None:
        """Length of the grid; None where a parameter is continuous. Branches only at keys that conditions name, and
        multiplies the numbers of values of the others."""
        if self.continuous:
            return None
        deciding = {other for parameter in self.parameters.values() for other in parameter.when}
        sizes = {key: len(parameter.values() or ()) for key, parameter in self.parameters.items()}
        always = [key for key, parameter in self.parameters.items() if not parameter.when and key not in deciding]
        sometimes = [key for key, parameter in self.parameters.items() if parameter.when and key not in deciding]
        branches = Space({key: self.parameters[key] for key in self.parameters if key in deciding}, self.fixed)
        total = 0
        for point in branches.grid():
            total += prod([sizes[key] for key in sometimes if self.exists(key, point)])
        return total * prod([sizes[key] for key in always])


def in_order(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The parameters in the order written, but each after those of its condition. Raises ConfigError for a cycle."""
    ordered: dict[str, Parameter] = {}
    waiting = dict(parameters)
    while waiting:
        for key, parameter in waiting.items():
            if not parameter.when.keys() & waiting.keys():
                ordered[key] = waiting.pop(key)
                break
        else:
            wrong = f"conditions run in a circle: {', '.join(waiting)}"
            raise ConfigError(Problem(f"{next(iter(waiting))}.when", wrong, "conditions that do not lead back"))
    return ordered


def identity(point: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Equal for equal points, whatever their order."""
    return tuple(sorted(point.items()))
