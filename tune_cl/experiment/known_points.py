"""Curricula that others have found, as far as a space holds them (`search.points: published`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces import PUBLISHED
from trainables.config.keys import flatten
from trainables.core.errors import ConfigError
from tune_cl.experiment.experiment import CURRICULUM, DEFAULTS, Experiment
from tune_cl.space.parameters import Leaf, Range
from tune_cl.space.space import Flat, identity
from tune_cl.space.space_files import read_space

PARTS = ("pacing", "scoring", "weighting", "anti", "objective_switch", "subset", "negatives.schedule")
NO_PORTFOLIO = (
    "search.points: what was best on other data was not shown to help; the published curricula are tried first"
)
MECHANISMS = tuple(f"curriculum.{part}" for part in PARTS)  # what makes a curriculum the one that was published


def known_points(experiment: Experiment, name: str) -> tuple[list[Flat], list[str]]:
    """The published points that the space holds, as whole configurations, and notes. Numbers are the nearest of the
    space; keys outside `baseline` cover their ranges, as in other trials. Other searchers than grid have at least half
    of the curricula left to choose. `portfolio` means the same points: what did best on other data sets was not shown
    to help (docs/results.md)."""
    sampler, points = experiment.sampler(CURRICULUM), dict[Any, Flat]()
    for curriculum in published():
        if (fixed := projected(experiment, curriculum)) is None:
            continue
        point = sampler.propose(len(points) + 1, fixed)
        if point is not None and identity(fixed) not in points:
            points[identity(fixed)] = point
    most = len(points) if experiment.search.searcher == "grid" else -(-experiment.arm_trials[CURRICULUM] // 2)
    notes = [] if name == "published" else [NO_PORTFOLIO]
    notes += [] if points else ["search.points: the space holds none of the published curricula"]
    return list(points.values())[:most], notes


def published() -> list[Flat]:
    """The curricula of the papers: dotted key -> value."""
    tree, _ = read_space(PUBLISHED)
    return [flatten({"curriculum": point["curriculum"]}) for point in tree["points"]]


def projected(experiment: Experiment, curriculum: Mapping[str, Any]) -> Flat | None:
    """The nearest values of the keys that the space searches and plain training does not share; None if the space has
    another pacing, scoring, ... than the curriculum."""

    def nearest(key: str, leaf: Leaf) -> Any:
        if key in experiment.shared_leaves:
            return leaf.middle()
        return nearest_value(leaf, curriculum.get(key, experiment.baseline.get(key, DEFAULTS.get(key))))

    point = experiment.space.decide(nearest)
    try:
        trained = experiment.config(point).params
    except ConfigError:
        return None
    wanted = {key: curriculum.get(key, DEFAULTS[key]) for key in MECHANISMS}
    same = all(trained[key] == value for key, value in wanted.items() if key in trained)
    if not (same and wanted.keys() & curriculum.keys() <= trained.keys()):
        return None
    return {key: value for key, value in point.items() if key not in experiment.shared_leaves}


def nearest_value(leaf: Leaf, value: Any) -> Any:
    """The value of the leaf that is nearest to a number; any other value as it is, if the leaf allows it, else the
    leaf's `middle`."""
    if leaf.allows(value):
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return leaf.middle()
    if isinstance(leaf, Range) and leaf.values() is None:
        return min(max(value, leaf.low), leaf.high)
    numbers = [one for one in leaf.values() or () if isinstance(one, int | float) and not isinstance(one, bool)]
    return min(numbers, key=lambda one: abs(one - value), default=leaf.middle())
