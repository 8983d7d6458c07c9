"""Curricula that others have found, as far as a space holds them (`search.points: published`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces import PUBLISHED
from trainables.config.keys import flatten
from trainables.core.errors import ConfigError
from tune_cl.experiment.arms import DEFAULTS
from tune_cl.experiment.experiment import Experiment
from tune_cl.space.parameters import Parameter
from tune_cl.space.space import Flat, identity
from tune_cl.space.space_files import read_space
from tune_cl.space.wording import OF_CURRICULUM

PARTS = ("pacing", "scoring", "weighting", "anti", "objective_switch", "subset", "negatives.schedule")
MECHANISMS = tuple(f"curriculum.{part}" for part in PARTS)  # what makes a curriculum the one that was published


def published_points(experiment: Experiment) -> list[Flat]:
    """The published curricula that the space holds, without the keys outside the curriculum that plain training shares.
    Numbers are the nearest of the space."""
    points = [projected(experiment, curriculum) for curriculum in published()]
    return list({identity(point): point for point in points if point is not None}.values())


def published() -> list[Flat]:
    """The curricula of the papers: dotted key -> value."""
    return [flatten({"curriculum": point["curriculum"]}) for point in read_space(PUBLISHED)["points"]]


def projected(experiment: Experiment, curriculum: Mapping[str, Any]) -> Flat | None:
    """The nearest values of the curriculum's parameters, and of all others that plain training does not share; None if
    the space has another pacing, scoring, ... than the curriculum, or no such parameter."""
    shared = experiment.arms.shared_space.parameters

    def nearest(key: str, parameter: Parameter) -> Any:
        if key in shared:
            return parameter.middle()
        return nearest_value(parameter, curriculum.get(key, experiment.baseline.get(key, DEFAULTS.get(key))))

    point = experiment.space.fill(nearest)
    try:
        trained = experiment.config(point).params
    except ConfigError:
        return None
    wanted = {key: curriculum.get(key, DEFAULTS[key]) for key in MECHANISMS}
    same = all(trained[key] == value for key, value in wanted.items() if key in trained)
    if not (same and wanted.keys() & curriculum.keys() <= trained.keys()):
        return None
    return {key: value for key, value in point.items() if key not in shared or key.startswith(OF_CURRICULUM)} or None


def nearest_value(parameter: Parameter, value: Any) -> Any:
    """The value of the parameter that is nearest to a number; any other value as it is, if the parameter allows it,
    else the middle."""
    if parameter.allows(value):
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return parameter.middle()
    if parameter.values() is None:
        low, high = parameter.ends
        return min(max(value, low), high)
    numbers = [one for one in parameter.values() or () if isinstance(one, int | float) and not isinstance(one, bool)]
    return min(numbers, key=lambda one: abs(one - value), default=parameter.middle())
