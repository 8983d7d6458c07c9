"""Whom a curriculum must beat in a confirmation.

A difference from plain training may come from the learning rate or the loss that one arm of the search happened to
draw. So the curriculum meets every plain training that could explain its gain; `intersection.py` has the test.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from tune_cl.confirmation.request import Configuration, Request, plain_label
from tune_cl.confirmation.verdict import Role
from tune_cl.experiment.experiment import Experiment, TrialConfig
from tune_cl.history.state import seedless, training_key
from tune_cl.space.wording import trial_words


@dataclass(frozen=True)
class Opponent:
    """A plain training that a configuration is tested against. Equal trainings are one opponent with several roles."""

    roles: tuple[Role, ...]
    configuration: Configuration

    @property
    def label(self) -> str:
        return self.configuration.label


def opponents_of(
    one: Configuration,
    champion: Configuration,
    default: Configuration,
    known: Iterable[Configuration],
    experiment: Experiment,
    request: Request,
) -> list[Opponent]:
    """The opponents of a configuration; of one that the request names, only that which it is to be compared with.
    `known`: configurations of the search, which serve where they are equal."""
    if request.against_trial is not None:
        return [Opponent(("trial",), champion)]
    if request.trials or request.best_of:
        return [Opponent(("champion",), champion)]
    searched = {training_key(each.params): each for each in (*known, champion, default)}
    found: list[tuple[Role, Configuration]] = [("champion", champion)]
    config = experiment.config(one.point)
    found.append(("twin", _made("twin", config.twin, searched)))
    found.append(("default", default))
    if config.filter:
        found.append(("filter", _made("filter", config.filter, searched)))
    return _each_once(found)


def _made(role: Role, config: TrialConfig, searched: Mapping[Hashable, Configuration]) -> Configuration:
    """The row with this configuration: that of the search if one is equal, else a new one. Its folder bears its
    role in place of a trial, so configurations that differ only in their curricula share it."""
    point, params = config.point, seedless(config.params)
    if same := searched.get(training_key(params)):
        return same
    if role == "filter":
        label = f"filter {trial_words(point, params, plain=False)}"
    else:
        label = plain_label(point, params, role, searched.values())
    return Configuration(label, role, point, params, of_search=False)


def _each_once(found: Iterable[tuple[Role, Configuration]]) -> list[Opponent]:
    """Equal trainings are one opponent, with all its roles."""
    by_label: dict[str, Opponent] = {}
    for role, one in found:
        before = by_label.get(one.label, Opponent((), one))
        by_label[one.label] = Opponent((*before.roles, role), one)
    return list(by_label.values())
