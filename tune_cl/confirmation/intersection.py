"""What the tests of a curriculum against all its opponents say together.

It is better only if it beats each of them at the full level: an intersection-union test (Berger 1982), whose p-value
is the largest, without a correction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainables.evaluation.significance import adjust
from tune_cl.confirmation.decisions import Corrected
from tune_cl.confirmation.verdict import NOT_SHOWN, Answer, Role

TWINS = {"twin", "filter"}
DECIDE_HARM = {"champion", "twin", "trial"}  # a curriculum below the default may owe that to its learning rate alone


@dataclass(frozen=True)
class Opposed:
    """The tests of one configuration against its opponents, by label, in the order of the roles: champion first."""

    roles: Mapping[str, tuple[Role, ...]]
    tests: Mapping[str, Corrected]

    def direction(self, new_seeds: bool = True) -> int:
        """1 above every opponent, -1 below those that decide harm, else 0: for new seeds too, or for these alone."""
        signs = {label: test.direction(new_seeds) for label, test in self.tests.items()}
        if all(sign > 0 for sign in signs.values()):
            return 1
        harm = self.decide_harm
        return -1 if harm and all(signs[label] < 0 for label in harm) else 0

    @property
    def decide_harm(self) -> list[str]:
        """The labels of the opponents that a configuration must be below to be worse."""
        return [label for label, roles in self.roles.items() if DECIDE_HARM & {*roles}]

    @property
    def least_favourable(self) -> str:
        """The label of the opponent that the verdict names: the one with the least evidence that the configuration is
        better, which is the largest one-sided p. Of a worse one, the opponent with the least evidence for that: its p
        is the verdict's."""
        if self.direction() < 0:
            return max(self.decide_harm, key=lambda label: p_of(self.tests[label]))
        return max(self.tests, key=lambda label: (p_of_better(self.tests[label]), -self.tests[label].test.difference))

    @property
    def marks(self) -> str:
        """† or ‡ where the configuration is above all opponents at 95 or 99 %."""
        return self.tests[self.least_favourable].marks if self.direction() > 0 else ""


def twins_of(opponents: Mapping[str, Mapping[str, tuple[Role, ...]]]) -> frozenset[tuple[str, str]]:
    """Configurations with each of their opponents that differs from them in what the search is about alone."""
    pairs = ((label, one, roles) for label, of in opponents.items() for one, roles in of.items())
    return frozenset((label, one) for label, one, roles in pairs if TWINS & {*roles})


def p_of(corrected: Corrected) -> float:
    """p for new seeds; above every p where nothing can be said of these."""
    return math.inf if math.isnan(corrected.p_new_adjusted) else corrected.p_new_adjusted


def p_of_better(corrected: Corrected) -> float:
    """One-sided p that the configuration is better, for new seeds; above every p where nothing can be said of these.
    p is corrected up to 1, so several may be equal."""
    p = p_of(corrected)
    return p / 2 if corrected.test.difference > 0 or math.isinf(p) else 1 - p / 2


def corrected_over(groups: Sequence[Sequence[Corrected]], correction: str, dropped: int = 0) -> list[list[Corrected]]:
    """Uncorrected tests of several configurations, a group each, corrected over the configurations: each has one p, its
    largest. `dropped`: further configurations that got no more seeds, which p for new seeds counts too. (That the
    search is worse is one hypothesis, on the recommended configuration alone.)"""
    fixed = _factors([max(test.p_adjusted for test in group) for group in groups], correction, 0)
    new = _factors([min(1.0, max(p_of(test) for test in group)) for group in groups], correction, dropped)
    return [[_times(test, fixed[place], new[place]) for test in group] for place, group in enumerate(groups)]


def _factors(p: Sequence[float], correction: str, dropped: int) -> list[float]:
    """What a correction multiplies each p with."""
    corrected = adjust([*p, *[1.0] * dropped], correction)[: len(p)]
    return [float(after / before) if before else 1.0 for before, after in zip(p, corrected, strict=True)]


def _times(test: Corrected, fixed: float, new: float) -> Corrected:
    p_new = min(1.0, test.p_new_adjusted * new)  # NaN stays NaN
    p_new = test.p_new_adjusted if math.isnan(test.p_new_adjusted) else p_new
    return replace(test, p_adjusted=min(1.0, test.p_adjusted * fixed), p_new_adjusted=p_new)


def verdict_on(opposed: Mapping[str, Opposed], recommended: str, new_seeds: bool = True) -> Answer:
    """The verdict on the whole search. `recommended`: the label of the configuration that dev chose.

    better: some configuration is above all its opponents. worse: none is, and the recommended one is below those that
    decide harm.
    """
    directions = {label: one.direction(new_seeds) for label, one in opposed.items()}
    if any(direction > 0 for direction in directions.values()):
        return "better"
    return "worse" if directions.get(recommended, 0) < 0 else NOT_SHOWN


def leader_of(opposed: Mapping[str, Opposed]) -> str:
    """The label of the configuration that the verdict is about: of those above all their opponents the one furthest
    above its least favourable one, else the first."""
    better = [label for label, one in opposed.items() if one.direction() > 0]
    return max(better, key=lambda label: _lead(opposed[label]), default=next(iter(opposed)))


def _lead(one: Opposed) -> float:
    return one.tests[one.least_favourable].test.difference
