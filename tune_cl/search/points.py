"""`search.points`: configurations that a search tries first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainables.config import configuration_fields, flatten
from trainables.errors import ConfigError, Problem, nearest
from trainables.validation import checked, shown
from tune_cl.search.space import Flat, Space, identity
from tune_cl.space_files import on_a_line

FIELDS = configuration_fields(())


@dataclass
class Points:
    """`points`: whole configurations of the space, each once; `notes`: which points were passed over, and why."""

    points: list[Flat] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def points_of(space: Space, written: Sequence[Mapping[str, Any]], given: Collection[str]) -> Points:
    """The points as configurations of the space. A parameter that a point does not name takes its prior's most likely
    value, else its first choice or the middle of its range.

    `given`: keys set on the command line, which wins: a point's value for a key closed there is left out, and a point
    outside a range narrowed there is passed over. Raises ConfigError with every other value that the space lacks.
    """
    done, problems = Points(), []
    seen = set()
    for place, tree in enumerate(written):
        try:
            chosen = _point(space, f"search.points[{place}]", flatten(tree), given)
        except ConfigError as error:
            problems += error.problems
            continue
        if chosen is None:
            done.notes.append(f"search.points[{place}] is passed over: the command line's ranges do not hold it")
        elif identity(chosen) in seen:
            done.notes.append(f"search.points[{place}] is passed over: another point is the same configuration")
        else:
            done.points.append(chosen)
            seen.add(identity(chosen))
    if problems:
        raise ConfigError(problems)
    return done


def _point(space: Space, place: str, flat: Flat, given: Collection[str]) -> Flat | None:
    """The whole configuration; None if the command line has made it impossible."""
    problems, values = [], {}
    for key, value in flat.items():
        leaf = space.leaves.get(key)
        if leaf is None:
            if key not in given:
                right = nearest(key, space.leaves) if space.leaves else "an opened key"
                problems.append(Problem(f"{place}.{key}", "the space does not open this key", right))
            continue
        value = checked(f"{place}.{key}", FIELDS[key], value) if key in FIELDS else value
        value = tuple(value) if isinstance(value, list) else value  # as in resolved choices
        if leaf.allows(value):
            values[key] = value
        elif key in given:
            return None
        else:
            values_of = {name: part for name, part in leaf.document().items() if name not in ("prior", "when")}
            right = f"a value of {on_a_line(values_of)}"
            problems.append(Problem(f"{place}.{key}", f"{shown(value)} is not in the space", right))
    chosen = space.decide(lambda key, leaf: values.get(key, leaf.middle()))
    if absent := [key for key in values if key not in chosen]:
        if any(other in given for key in absent for other in space.leaves[key].when):
            return None
        right = "a value of the keys of its condition under which it exists"
        problems += [Problem(f"{place}.{key}", "does not exist beside the point's other values", right)
                     for key in absent]  # fmt: skip
    if problems:
        raise ConfigError(problems)
    return chosen
