"""A search space: opened leaves of the configuration, some of which exist only under conditions on others.

One description serves random sampling, grids and Optuna's define-by-run. All of them go through `Space.decide` or
follow its order, so none yields a parameter whose condition does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.config.keys import configuration_fields, flatten
from trainables.core.errors import ConfigError, Problem, nearest
from trainables.core.validation import shown, validate_value
from tune_cl.space.parameters import Choice, Leaf, Range
from tune_cl.space.space_files import on_a_line

if TYPE_CHECKING:
    from optuna.trial import BaseTrial


Flat = dict[str, Any]


def ordered(leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """The leaves in the order written, but each after those that its condition refers to; raises ConfigError for a
    cycle."""
    in_order: dict[str, Leaf] = {}
    waiting = dict(leaves)
    while waiting:
        ready = [key for key, leaf in waiting.items() if not leaf.when.keys() & waiting.keys()]
        if not ready:
            wrong = f"conditions run in a circle: {', '.join(waiting)}"
            raise ConfigError(Problem(f"{next(iter(waiting))}.when", wrong, "conditions that do not lead back"))
        in_order[ready[0]] = waiting.pop(ready[0])
    return in_order


@dataclass(frozen=True)
class Space:
    """Opened leaves by dotted key, and the values of fixed keys (`context`) that their conditions may refer to.

    An opened key whose own condition does not hold has no value, so conditions on it do not hold either.
    """

    leaves: Mapping[str, Leaf]
    context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", ordered(self.leaves))

    def exists(self, key: str, point: Mapping[str, Any]) -> bool:
        """Whether the parameter exists beside the values chosen so far."""
        values = {**self.context, **point}
        return all(other in values and values[other] in allowed for other, allowed in self.leaves[key].when.items())

    def decide(self, pick: Callable[[str, Leaf], Any], given: Mapping[str, Any] | None = None) -> Flat:
        """Flat values of the parameters that exist, each from `pick` unless `given`. All given keys are kept."""
        point: Flat = {key: value for key, value in (given or {}).items() if key not in self.leaves}
        for key, leaf in self.leaves.items():
            if given and key in given:
                point[key] = given[key]
            elif self.exists(key, point):
                point[key] = pick(key, leaf)
        return point

    def within(self, params: Mapping[str, Any]) -> Flat | None:
        """Flat parameters as a configuration of the space; None if one that exists there is missing or out of range."""
        point: Flat = {}
        for key, leaf in self.leaves.items():
            if self.exists(key, point):
                if key not in params or not leaf.allows(params[key]):
                    return None
                point[key] = params[key]
        return point

    def sample(self, rng: np.random.Generator) -> Flat:
        """Flat values drawn at random."""
        return self.decide(lambda key, leaf: leaf.draw(rng))

    def suggest(self, trial: BaseTrial) -> Flat:
        """Flat values as an Optuna trial suggests them, define-by-run."""
        return self.decide(lambda key, leaf: leaf.suggest(trial, key))

    def fixing(self, values: Mapping[str, Any]) -> Space:
        """The space in which these keys have these values, wherever they exist."""
        if not values:
            return self
        fixed = {
            key: Choice(options=(values[key],), when=leaf.when) if key in values else leaf
            for key, leaf in self.leaves.items()
        }
        return Space(fixed, self.context)

    def only(self, keys: Collection[str]) -> Space:
        """The space in which only these keys vary; all other leaves, and continuous ones, stay at their `middle`."""
        return Space(
            {
                key: leaf if key in keys and leaf.values() else Choice(options=(leaf.middle(),), when=leaf.when)
                for key, leaf in self.leaves.items()
            },
            self.context,
        )

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of each leaf that has one, as written."""
        return {key: leaf.prior_in_yaml() for key, leaf in self.leaves.items() if leaf.has_prior}

    @property
    def steps(self) -> dict[str, str]:
        """The values of each range with steps, in words."""
        stepped = {key: leaf for key, leaf in self.leaves.items() if isinstance(leaf, Range) and leaf.step is not None}
        return {key: f"{leaf.low} to {leaf.high} by {leaf.step}" for key, leaf in stepped.items()}

    @property
    def continuous(self) -> list[str]:
        """Keys that take any number in a range."""
        return [key for key, leaf in self.leaves.items() if leaf.values() is None]

    def grid(self) -> Iterator[Flat]:
        """Every combination once; the last key varies fastest. Raises ConfigError naming continuous leaves."""
        self.require_finite()
        return self._combinations({}, list(self.leaves))

    def require_finite(self) -> None:
        """Raises ConfigError naming continuous leaves."""
        right = "a step beside uniform, {grid: [...]}, {choice: [...]} or {int: [a, b]}, or search.searcher: random"
        problems = [Problem(key, "a grid has no end on a continuous range", right) for key in self.continuous]
        if problems:
            raise ConfigError(problems)

    def _combinations(self, point: Flat, rest: list[str]) -> Iterator[Flat]:
        if not rest:
            yield point
            return
        key, *rest = rest
        for value in self._values(key, point):
            yield from self._combinations(point | {key: value}, rest)
        if not self.exists(key, point):
            yield from self._combinations(point, rest)

    def _values(self, key: str, point: Flat) -> Any:
        return self.leaves[key].values() or () if self.exists(key, point) else ()

    def combinations(self) -> int | None:
        """Length of the grid, without walking it; None where a leaf is continuous."""
        if self.continuous:
            return None
        deciding = {other for leaf in self.leaves.values() for other in leaf.when}
        return self._count({}, list(self.leaves), deciding)

    def _count(self, point: Flat, rest: list[str], deciding: set[str]) -> int:
        """Branches only at keys that conditions refer to; other keys' counts multiply."""
        if not rest:
            return 1
        key, *rest = rest
        if not self.exists(key, point):
            return self._count(point, rest, deciding)
        values = self._values(key, point)
        if key not in deciding:
            return len(values) * self._count(point, rest, deciding)
        return sum(self._count(point | {key: value}, rest, deciding) for value in values)


def identity(point: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Equal for equal flat values, whatever their order."""
    return tuple(sorted(point.items()))


def short(value: Any) -> str:
    """A parameter's value in the name of a configuration."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


FIELDS = configuration_fields(())


@dataclass
class Points:
    """`points`: whole configurations of the space, each once; `notes`: which points were passed over, and why."""

    points: list[Flat] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def points_of(space: Space, points: Sequence[Mapping[str, Any]], given: Collection[str]) -> Points:
    """The points as configurations of the space. A parameter that a point does not name takes its prior's most likely
    value, else its first choice or the middle of its range.

    `given`: keys set on the command line, which wins: a point's value for a key closed there is ignored, and a point
    outside a range narrowed there is passed over. Raises ConfigError with every other value that the space lacks.
    """
    done, problems = Points(), []
    seen = set()
    for index, tree in enumerate(points):
        try:
            point = _point(space, f"search.points[{index}]", flatten(tree), given)
        except ConfigError as error:
            problems += error.problems
            continue
        if point is None:
            done.notes.append(f"search.points[{index}] is passed over: the command line's ranges do not hold it")
        elif identity(point) in seen:
            done.notes.append(f"search.points[{index}] is passed over: another point is the same configuration")
        else:
            done.points.append(point)
            seen.add(identity(point))
    if problems:
        raise ConfigError(problems)
    return done


def _point(space: Space, location: str, flat: Flat, given: Collection[str]) -> Flat | None:
    """The whole configuration; None if the command line has made it impossible."""
    problems, values = [], {}
    for key, value in flat.items():
        leaf = space.leaves.get(key)
        if leaf is None:
            if key not in given:
                right = nearest(key, space.leaves) if space.leaves else "a key with a search range"
                problems.append(Problem(f"{location}.{key}", "the space does not search this key", right))
            continue
        value = validate_value(f"{location}.{key}", FIELDS[key], value) if key in FIELDS else value
        value = tuple(value) if isinstance(value, list) else value  # as in resolved choices
        if leaf.allows(value):
            values[key] = value
        elif key in given:
            return None
        else:
            values_of = {name: part for name, part in leaf.document().items() if name not in ("prior", "when")}
            right = f"a value of {on_a_line(values_of)}"
            problems.append(Problem(f"{location}.{key}", f"{shown(value)} is not in the space", right))
    point = space.decide(lambda key, leaf: values.get(key, leaf.middle()))
    if absent := [key for key in values if key not in point]:
        if any(other in given for key in absent for other in space.leaves[key].when):
            return None
        right = "a value of the keys of its condition under which it exists"
        problems += [Problem(f"{location}.{key}", "does not exist beside the point's other values", right)
                     for key in absent]  # fmt: skip
    if problems:
        raise ConfigError(problems)
    return point
